"""Gradients by name: those of the shipped operators, and the rules by which a backward is called."""

from __future__ import annotations

import contextlib
import functools
import gc
import re
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.utils.checkpoint
from support import ADD_IN_PLACE, Made, run_python, spell
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode

import wick

Maker = Callable[..., Made]
Source = Callable[..., tuple[str, Path]]
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
SCALE = 0.75  # few bits: products of halves with it are exact, so that nothing near 0 changes sides
NAN, INF = float("nan"), float("inf")


@pytest.fixture(params=["wick.ops", "torch.ops.wick"])
def ops(request: pytest.FixtureRequest) -> Any:
    return wick.ops if request.param == "wick.ops" else torch.ops.wick


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(7)


def exact(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


# ---- the shipped operators ----

SHIPPED: dict[str, tuple[Callable[..., Any], Callable[..., Any], list[Any]]] = {
    # name: (call, the same in plain torch, shapes of the tensors for an x of shape s)
    "addone": (lambda f, x: f(x), lambda x: x + 1, [lambda s: s]),
    "relu": (lambda f, x: f(x), torch.relu, [lambda s: s]),
    "mul": (lambda f, a, b: f(a, b), torch.mul, [lambda s: s, lambda s: s]),
    "muladd": (lambda f, a, b: f(a, b, 0.3), lambda a, b: a * b + 0.3, [lambda s: s, lambda s: s]),
    "scale_bias_relu": (
        lambda f, x, b: f(x, b, SCALE),
        lambda x, b: torch.relu(x * SCALE + b),
        [lambda s: s, lambda s: s[-1:]],
    ),
    "scale_bias_relu_learned": (
        lambda f, x, b, s: f(x, b, s),
        lambda x, b, s: torch.relu(x * s + b),
        [lambda s: s, lambda s: s[-1:], lambda s: ()],
    ),
    "reduce_sum": (lambda f, x: f(x), torch.sum, [lambda s: s]),
    "reduce_sum_dim": (lambda f, x: f(x), lambda x: x.sum(1), [lambda s: s]),
}
SHAPES = [
    (1, 1, 1),
    (2, 3, 5),
    (3, 0, 4),
    (0, 2, 3),
    (1, 40, 1),
    (2, 700, 3),
    (5, 1, 129),
    (2, 33, 700),
]


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 1, 1), (0, 2, 3), (3, 2, 1)])
def test_gradcheck(ops: Any, name: str, shape: tuple[int, ...]) -> None:
    call, _, shapes = SHIPPED[name]
    arguments = [exact(*s(shape)) for s in shapes]
    assert torch.autograd.gradcheck(lambda *a: call(getattr(ops, name), *a), arguments)


def result_type(name: str, which: int, dtype: torch.dtype) -> torch.dtype:
    """The learned scale is of the accumulation type."""
    learned = name == "scale_bias_relu_learned" and which == 2
    return torch.float32 if learned and dtype != torch.float64 else dtype


def compare(ops: Any, name: str, tensors: list[torch.Tensor], dy: torch.Tensor) -> None:
    """Gradients against torch's in float64, from the same values: one rounding, and a sum's losses."""
    call, reference, _ = SHIPPED[name]
    ours = [t.detach().requires_grad_() for t in tensors]
    theirs = [t.detach().double().requires_grad_() for t in tensors]
    call(getattr(ops, name), *ours).backward(dy)
    reference(*theirs).backward(dy.double())
    for mine, right in zip(ours, theirs):
        assert mine.grad is not None and right.grad is not None
        assert mine.grad.dtype == mine.dtype and mine.grad.shape == mine.shape
        summed = max(1, dy.numel() // max(1, mine.numel()))
        one = torch.finfo(mine.dtype).eps
        many = torch.finfo(torch.float64 if mine.dtype == torch.float64 else torch.float32).eps
        torch.testing.assert_close(
            mine.grad.double(),
            right.grad,
            rtol=one,
            atol=one * 1e-3 + many * 16 * summed**0.5,
            equal_nan=True,
        )


def inputs(name: str, shape: tuple[int, ...], dtype: torch.dtype) -> list[torch.Tensor]:
    shapes = [s(shape) for s in SHIPPED[name][2]]
    values = [torch.randn(s, dtype=torch.float64) if s else torch.tensor(SCALE) for s in shapes]
    return [v.to(result_type(name, i, dtype)) for i, v in enumerate(values)]


def like_result(ops: Any, name: str, tensors: list[torch.Tensor]) -> torch.Tensor:
    return torch.randn_like(SHIPPED[name][0](getattr(ops, name), *tensors))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_type_against_float64(name: str, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    tensors = inputs(name, shape, dtype)
    compare(wick.ops, name, tensors, like_result(wick.ops, name, tensors))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SHIPPED)
def test_gradients_of_any_layout(ops: Any, name: str, dtype: torch.dtype) -> None:
    tensors = inputs(name, (3, 40, 20), dtype)
    dy = like_result(ops, name, tensors)
    compare(
        ops, name, tensors, torch.ones((), dtype=dtype).expand(dy.shape)
    )  # as .sum().backward() makes it
    if dy.dim() > 1:
        compare(ops, name, tensors, dy.transpose(0, -1).contiguous().transpose(0, -1))
        compare(ops, name, tensors, torch.stack([dy, dy], -1)[..., 1])
    tensors[0] = tensors[0].transpose(0, 1).contiguous().transpose(0, 1)
    compare(ops, name, tensors, dy)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [*SHAPES, (5,), (0,), (4, 0), (1000, 7)])
def test_a_learned_scale_computes_what_a_number_does(
    ops: Any, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    x, bias = torch.randn(shape).to(dtype), torch.randn(shape[-1]).to(dtype)
    scale = torch.tensor(0.7, dtype=result_type("scale_bias_relu_learned", 2, dtype))
    y = ops.scale_bias_relu_learned(x, bias, scale)
    assert y.dtype == dtype and torch.equal(y, ops.scale_bias_relu(x, bias, scale.item()))
    with pytest.raises(RuntimeError, match="scale_bias_relu_learned: scale"):
        ops.scale_bias_relu_learned(x, bias, torch.ones(2, dtype=scale.dtype))


@pytest.mark.parametrize("name", SHIPPED)
def test_sum_backward(ops: Any, name: str) -> None:
    call, reference, _ = SHIPPED[name]
    ours = inputs(name, (4, 5, 6), torch.float32)
    theirs = [t.clone().requires_grad_() for t in ours]
    call(getattr(ops, name), *[t.requires_grad_() for t in ours]).sum().backward()
    reference(*theirs).sum().backward()
    for mine, right in zip(ours, theirs):
        torch.testing.assert_close(mine.grad, right.grad)


@pytest.mark.parametrize("dtype", DTYPES)
def test_zero_infinity_and_nan_are_as_in_torch(ops: Any, dtype: torch.dtype) -> None:
    x = torch.tensor([NAN, 0.0, -0.0, INF, -INF, 1.0, -1.0] * 20, dtype=dtype)
    dy = torch.tensor([1.5, 2.5, NAN, INF] * 35, dtype=dtype)
    for name in ("relu", "addone", "mul"):
        call, reference, shapes = SHIPPED[name]
        ours, theirs = ([x.clone().requires_grad_() for _ in shapes] for _ in "ab")
        call(getattr(ops, name), *ours).backward(dy)
        reference(*theirs).backward(dy)
        for mine, right in zip(ours, theirs):
            torch.testing.assert_close(mine.grad, right.grad, rtol=0, atol=0, equal_nan=True)
    a, b = x.clone().requires_grad_(), torch.zeros(140, dtype=dtype, requires_grad=True)
    ops.scale_bias_relu(a, b).backward(dy)
    assert torch.equal(a.grad.nan_to_num(7), b.grad.nan_to_num(7))  # one row: dbias is what passed
    c = x.clone().requires_grad_()
    torch.relu(c).backward(dy)
    assert torch.equal(a.grad.nan_to_num(7), c.grad.nan_to_num(7))


@pytest.mark.parametrize(
    "shape", [(3, 1), (1000, 7), (70000, 3), (2000, 256), (2000, 257), (300, 5000), (20, 1025)]
)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_column_sums_do_not_depend_on_threads(shape: tuple[int, int], dtype: torch.dtype) -> None:
    x, dy, bias = (
        torch.randn(shape).to(dtype),
        torch.randn(shape).to(dtype),
        torch.randn(shape[1]).to(dtype),
    )
    scale = torch.tensor(0.7)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3, 8):
            torch.set_num_threads(threads)
            found.append(wick.ops.scale_bias_relu_learned_backward(dy, x, bias, scale))
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other))
    mask = x.float() * scale + bias.float() > 0
    passed = dy.double() * mask
    one, terms = torch.finfo(dtype).eps, passed.abs().sum(0)
    right = passed.sum(0)
    assert ((found[0][1].double() - right).abs() <= right.abs() * one + terms * 40 * 2**-24).all()
    right, terms = (passed * x.double()).sum(), (passed * x.double()).abs().sum()
    assert (found[0][2].double() - right).abs() <= terms * 40 * 2**-24
    again = wick.ops.scale_bias_relu_backward(dy, x, bias, scale.item())
    assert torch.equal(again[0], found[0][0]) and torch.equal(again[1], found[0][1])


def test_large_gradients_are_written_past_the_caches() -> None:
    n = (32 << 20) // 4 + 1000  # beyond what wick_worth_streaming asks for
    dy, x = torch.randn(n), torch.randn(n)
    assert torch.equal(wick.ops.addone_backward(dy), dy)
    assert torch.equal(wick.ops.relu_backward(dy, x), torch.where(x > 0, dy, 0))
    da, db = wick.ops.mul_backward(dy, x, dy)
    assert torch.equal(da, dy * dy) and torch.equal(db, dy * x)
    assert torch.equal(wick.ops.reduce_sum_backward(dy[0], [n]), dy[0].expand(n))
    for q in (1, 3, 64, 5000):
        rows = n // q // 2
        y = torch.randn(2, q)
        assert torch.equal(
            wick.ops.reduce_sum_dim_backward(y, [2, rows, q]), y[:, None].expand(2, rows, q)
        )


@pytest.mark.parametrize(
    "name, arguments, results",
    [("mul", 2, 2), ("muladd", 2, 2), ("scale_bias_relu", 2, 2), ("scale_bias_relu_learned", 3, 3)],
)
def test_every_choice_of_what_is_needed(ops: Any, name: str, arguments: int, results: int) -> None:
    call, reference, _ = SHIPPED[name]
    for needed in range(1, 1 << arguments):
        ours = inputs(name, (2, 30, 4), torch.float32)
        theirs = [t.clone() for t in ours]
        for i in range(arguments):
            ours[i].requires_grad_(bool(needed >> i & 1))
            theirs[i].requires_grad_(bool(needed >> i & 1))
        call(getattr(ops, name), *ours).sum().backward()
        reference(*theirs).sum().backward()
        for mine, right in zip(ours, theirs):
            assert (mine.grad is None) == (right.grad is None)
            if right.grad is not None:
                torch.testing.assert_close(mine.grad, right.grad, rtol=1e-5, atol=1e-4)


# ---- the rules ----

CUBE = """\
WICK_OP(OP, "x: T[*N], by: float = 1.0 -> y: T[*N] where T: f32 f64");
WICK_OP(OP_backward, "dy: T[*N], x: T[*N], by: float -> dx: T[*N]");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const T *x, double by, T *y, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        y[i] = (T)by * x[i] * x[i] * x[i];
    return WICK_OK;
}
WICK_IMPL wick_status OP_backward_cpu(wick_ctx *ctx, const T *dy, const T *x, double by, T *dx, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        dx[i] = 3 * (T)by * x[i] * x[i] * dy[i];
    return WICK_OK;
}
"""
TWICE = (
    CUBE
    + """
WICK_OP(OP_backward_backward, "ddx: T[*N], dy: T[*N], x: T[*N], by: float -> ddy: T[*N], dx: T[*N]");
WICK_IMPL wick_status OP_backward_backward_cpu(wick_ctx *ctx, const T *ddx, const T *dy, const T *x, double by,
                                               T *ddy, T *dx, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++) {
        ddy[i] = 3 * (T)by * x[i] * x[i] * ddx[i];
        dx[i] = 6 * (T)by * x[i] * dy[i] * ddx[i];
    }
    return WICK_OK;
}
"""
)


@pytest.fixture(scope="module")
def cube(make: Maker) -> Made:
    return make(CUBE)


def test_by_every_door(cube: Made, door: str) -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = cube.by(door)(x, by=2.0)
    assert y.requires_grad and y.grad_fn is not None and not y.is_leaf
    y.sum().backward()
    assert x.grad.tolist() == [6.0, 24.0]
    assert torch.autograd.gradcheck(lambda v: cube.by(door)(v, 0.5), (exact(3, 2),))


def test_gradients_add_up_along_a_graph(cube: Made, door: str) -> None:
    x = torch.tensor([2.0], requires_grad=True)
    (cube.by(door)(x) + cube.by(door)(x * 2)).sum().backward()
    assert x.grad.tolist() == [12.0 + 2 * 48.0]


def test_forward_mode_is_refused(ops: Any) -> None:
    """A tangent that is lost would be a wrong derivative."""
    x, words = torch.randn(3), "relu: .* carries a forward-mode gradient"
    with pytest.raises(RuntimeError, match=words):
        torch.func.jvp(ops.relu, (x,), (x,))
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones(3))
        for tensor in (dual, dual[1:]):
            with pytest.raises(RuntimeError, match=words):
                ops.relu(tensor)
        assert torch.equal(ops.relu(dual.detach()), torch.relu(x))
        assert torch.equal(ops.relu(x), torch.relu(x))


def test_no_grad_and_inference_mode(cube: Made, door: str) -> None:
    x = torch.ones(3, requires_grad=True)
    for off in (torch.no_grad, torch.inference_mode):
        with off():
            y = cube.by(door)(x)
        assert not y.requires_grad and y.grad_fn is None
    assert not cube.by(door)(x.detach()).requires_grad


def test_a_graph_is_kept_only_where_it_is_asked_for(cube: Made, door: str) -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = cube.by(door)(x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [6.0, 24.0]
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_a_saved_tensor_that_was_written_since_is_noticed(cube: Made, door: str) -> None:
    w = torch.ones(2, requires_grad=True)
    x = w * 1
    y = cube.by(door)(x)
    x.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_second_gradient_that_nobody_defined_says_so(cube: Made, door: str) -> None:
    x = torch.ones(2, requires_grad=True)
    (g,) = torch.autograd.grad(cube.by(door)(x).sum(), x, create_graph=True)
    assert g.tolist() == [3.0, 3.0] and g.requires_grad
    words = f"{cube.name}_backward: no gradient: the operator's file defines no {cube.name}_backward_backward"
    with pytest.raises(RuntimeError, match=words):
        g.sum().backward()


def test_a_second_gradient(make: Maker, door: str) -> None:
    op = make(TWICE).by(door)
    x = exact(4)
    assert torch.autograd.gradcheck(lambda v: op(v, 2.0), (x,))
    assert torch.autograd.gradgradcheck(lambda v: op(v, 2.0), (x,))


def saved_by(call: Callable[[], Any]) -> list[torch.Tensor]:
    """What a call keeps for its backward."""
    kept: list[torch.Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        call()
    return kept


def test_only_what_the_backward_names_is_saved(ops: Any, cube: Made) -> None:
    x, b = torch.randn(3, 4, requires_grad=True), torch.randn(3, 4, requires_grad=True)
    assert saved_by(lambda: ops.addone(x)) == []
    assert [t.data_ptr() for t in saved_by(lambda: ops.relu(x))] == [x.data_ptr()]
    assert [t.data_ptr() for t in saved_by(lambda: ops.mul(x, b))] == [x.data_ptr(), b.data_ptr()]
    assert [t.data_ptr() for t in saved_by(lambda: cube.direct(x))] == [x.data_ptr()]


def test_a_shape_saves_no_tensor(ops: Any) -> None:
    for f, x in ((ops.reduce_sum, torch.randn(3, 4)), (ops.reduce_sum_dim, torch.randn(2, 3, 4))):
        leaf = x.requires_grad_()
        between = leaf * 1
        alive = weakref.ref(between)
        assert saved_by(functools.partial(f, between)) == []
        y = f(between)
        del between
        gc.collect()
        assert alive() is None
        y.sum().backward()
        assert torch.equal(leaf.grad, torch.ones_like(leaf))


def test_a_graph_that_goes_takes_what_it_saved_along(cube: Made, door: str) -> None:
    between = torch.ones(5, requires_grad=True) * 1
    alive = weakref.ref(between)
    y = cube.by(door)(between)
    del between
    gc.collect()
    assert alive() is not None
    del y
    gc.collect()
    assert alive() is None


WANTED = """\
WICK_OP(OP, "a: f32[N], b: f32[N], c?: f32[N] -> y: f32[N]");
WICK_OP(OP_backward, "dy: f32[N], a: f32[N] -> da?: f32[N], db?: f32[N], dc?: f32[N]");
WICK_OP(OP_seen, "x: f32[N] -> y: int");
static int64_t seen;
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const float *a, const float *b, const float *c, float *y, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        y[i] = a[i] + b[i] + (c ? c[i] : 0);
    return WICK_OK;
}
WICK_IMPL wick_status OP_backward_cpu(wick_ctx *ctx, const float *dy, const float *a, float *da, float *db, float *dc,
                                      int64_t N)
{
    (void)ctx, (void)a;
    float *all[] = {da, db, dc};
    seen = 0;
    for (int k = 0; k < 3; k++)
        if (all[k]) {
            seen |= (int64_t)1 << k;
            memcpy(all[k], dy, (size_t)N * sizeof *dy);
        }
    return WICK_OK;
}
WICK_IMPL wick_status OP_seen_cpu(wick_ctx *ctx, const float *x, int64_t *y, int64_t N)
{
    (void)ctx, (void)x, (void)N;
    *y = seen;
    return WICK_OK;
}
"""


def test_what_nobody_needs_is_null_in_c(make: Maker, door: str) -> None:
    op = make(WANTED)
    seen = getattr(op.loaded, f"{op.name}_seen")
    for needed in range(1, 8):
        tensors = [torch.ones(2, requires_grad=bool(needed >> k & 1)) for k in range(3)]
        op.by(door)(*tensors).sum().backward()
        assert seen(torch.zeros(1)) == needed
        for k, t in enumerate(tensors):
            assert t.grad.tolist() == [1.0, 1.0] if needed >> k & 1 else t.grad is None
    a = torch.ones(2, requires_grad=True)
    op.by(door)(a, torch.ones(2)).sum().backward()  # c absent
    assert seen(torch.zeros(1)) == 1
    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    torch.autograd.grad(op.by(door)(a, b).sum(), b)
    assert seen(torch.zeros(1)) & 2


PAIR = """\
WICK_OP(OP, "x: f32[N], w: f32[N] -> y: f32[N], z: f32[N], n: i64[]");
WICK_OP(OP_backward, "dy: f32[N], dz: f32[N], n: i64[] -> dx: f32[N], dw: f32[N]");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const float *x, const float *w, float *y, float *z, int64_t *n, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        y[i] = 2 * x[i], z[i] = 3 * w[i];
    *n = N;
    return WICK_OK;
}
WICK_IMPL wick_status OP_backward_cpu(wick_ctx *ctx, const float *dy, const float *dz, const int64_t *n, float *dx,
                                      float *dw, int64_t N)
{
    if (*n != N) return wick_fail(ctx, WICK_EINVAL, "another call's n");
    for (int64_t i = 0; i < N; i++) {
        dx[i] = 2 * dy[i];
        dw[i] = dz ? 3 * dz[i] : -1;
    }
    return WICK_OK;
}
"""


def pair(absent: bool) -> str:
    return PAIR.replace("dz:", "dz?:") if absent else PAIR


@pytest.mark.parametrize("absent, expected", [(True, -1.0), (False, 0.0)])
def test_an_incoming_gradient_that_is_missing(
    make: Maker, door: str, absent: bool, expected: float
) -> None:
    op = make(pair(absent)).by(door)
    x, w = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    y, z, n = op(x, w)
    assert n.item() == 2 and not n.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0] and w.grad.tolist() == [expected] * 2
    x.grad = w.grad = None
    y, z, _ = op(x, w)
    (y.sum() + 2 * z.sum()).backward()
    assert x.grad.tolist() == [2.0, 2.0] and w.grad.tolist() == [6.0, 6.0]


ONLY_GRADIENTS = """\
WICK_OP(OP, "x: f64[N] -> y: f64[N], z: f64[N]");
WICK_OP(OP_backward, "dy: f64[N], dz: f64[N] -> dx: f64[N]");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const double *x, double *y, double *z, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++) {
        y[i] = 2 * x[i];
        z[i] = 3 * x[i];
    }
    return WICK_OK;
}
WICK_IMPL wick_status OP_backward_cpu(wick_ctx *ctx, const double *dy, const double *dz, double *dx, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        dx[i] = 2 * dy[i] + 3 * dz[i];
    return WICK_OK;
}
"""


def test_a_backward_that_names_gradients_only(make: Maker, door: str) -> None:
    op = make(ONLY_GRADIENTS).by(door)
    x = exact(3)
    assert torch.autograd.gradcheck(op, (x,))
    for i, expected in ((0, 2.0), (1, 3.0)):
        x.grad = None
        op(x)[i].sum().backward()
        assert x.grad.tolist() == [expected] * 3


@pytest.mark.parametrize("backend", [None, "aot_eager"])
def test_a_result_whose_gradient_is_not_taken_has_none(
    make: Maker, door: str, backend: str | None
) -> None:
    """Not one of zeros: y * z would have half of its gradient, and nobody would know."""
    text = ONLY_GRADIENTS.replace(", dz: f64[N]", "").replace(", const double *dz", "")
    op = make(text.replace(" + 3 * dz[i]", "")).by(door)
    call = torch.compile(lambda x: op(x), backend=backend, fullgraph=True) if backend else op
    x = exact(3)
    y, z = call(x)
    assert y.requires_grad and not z.requires_grad
    (y * z).sum().backward()
    assert torch.equal(x.grad, 2 * z)
    with pytest.raises(RuntimeError, match="does not require grad"):
        call(x)[1].sum().backward()


def test_an_integer_result_is_not_differentiable(make: Maker, door: str) -> None:
    x = torch.ones(2, requires_grad=True)
    y, _, n = make(pair(True)).by(door)(x, torch.ones(2))
    assert y.requires_grad and n.dtype == torch.int64 and not n.requires_grad
    with pytest.raises(RuntimeError, match="does not require grad"):
        n.backward()


OUTPUT = """\
WICK_OP(OP, "x: f64[N] -> y: f64[N], want?: f64[N]");
WICK_OP(OP_backward, "dy: f64[N], y: f64[N], dwant?: f64[N] -> dx: f64[N]");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const double *x, double *y, double *want, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++) {
        y[i] = 1 / x[i];
        if (want) want[i] = 5 * x[i];
    }
    return WICK_OK;
}
WICK_IMPL wick_status OP_backward_cpu(wick_ctx *ctx, const double *dy, const double *y, const double *dwant, double *dx,
                                      int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        dx[i] = -y[i] * y[i] * dy[i] + (dwant ? 5 * dwant[i] : 0);
    return WICK_OK;
}
"""


def test_a_saved_output_and_an_output_nobody_wants(make: Maker, door: str) -> None:
    op = make(OUTPUT).by(door)
    x = exact(3)
    assert torch.autograd.gradcheck(op, (x,))
    assert torch.autograd.gradcheck(lambda v: op(v, want_want=False)[0], (x,))
    assert op(x, want_want=False)[1] is None


SIZED = """\
WICK_OP(OP, "x: f64[*B, S, H], k: int -> y: f64[*B, H]");
WICK_OP(OP_backward, "dy: f64[*B, H], S: int, k: int -> dx: f64[*B, S, H]");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const double *x, int64_t k, double *y, int64_t B, int64_t S, int64_t H)
{
    (void)ctx;
    for (int64_t i = 0; i < B * H; i++) {
        y[i] = 0;
        for (int64_t s = 0; s < S; s++)
            y[i] += (double)k * x[(i / H * S + s) * H + i % H];
    }
    return WICK_OK;
}
WICK_IMPL wick_status OP_backward_cpu(wick_ctx *ctx, const double *dy, int64_t S, int64_t k, double *dx, int64_t B,
                                      int64_t H)
{
    (void)ctx;
    for (int64_t i = 0; i < B * S * H; i++)
        dx[i] = (double)k * dy[i / (S * H) * H + i % H];
    return WICK_OK;
}
"""


def test_a_dim_is_filled_in_from_the_forward_call(make: Maker, door: str) -> None:
    op = make(SIZED).by(door)
    for shape in ((2, 3), (4, 2, 3), (2, 1, 5, 2)):
        x = exact(*shape)
        assert saved_by(functools.partial(op, x, 3)) == []
        assert torch.autograd.gradcheck(lambda v: op(v, 3), (x,))


def test_a_result_without_the_gradient_that_is_needed_names_it(make: Maker, door: str) -> None:
    text = WANTED.replace(", db?: f32[N], dc?", ", dc?").replace(
        "float *da, float *db,", "float *da,"
    )
    op = make(text.replace("{da, db, dc}", "{da, 0, dc}"))
    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    op.by(door)(a, torch.ones(2)).sum().backward()
    assert a.grad.tolist() == [1.0, 1.0]
    y = op.by(door)(a, b)
    with pytest.raises(
        RuntimeError, match=f"{op.name}: no gradient for b: {op.name}_backward has no result db"
    ):
        y.sum().backward()


def test_what_is_written_in_place_has_no_gradient(make: Maker, door: str) -> None:
    op = make(ADD_IN_PLACE)
    x = torch.zeros(3, requires_grad=True)
    with pytest.raises(
        RuntimeError, match=f"{op.name}: x requires grad, but the operator writes x in place"
    ):
        op.by(door)(x)
    assert x.tolist() == [0.0] * 3


CENTER = """\
WICK_OP(OP, "x: f64[N, C], mean!: f64[C], count!: i64[], k: float = 1.0 -> y: f64[N, C]");
WICK_OP(OP_backward, "dy: f64[N, C], k: float -> dx: f64[N, C]");
WICK_FN double OP_column(const double *x, double k, double *y, int64_t N, int64_t C)
{
    double sum = 0;
    for (int64_t n = 0; n < N; n++)
        sum += x[n * C] / (double)N;
    for (int64_t n = 0; n < N; n++)
        y[n * C] = k * (x[n * C] - sum);
    return sum;
}
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const double *x, double *mean, int64_t *count, double k, double *y,
                             int64_t N, int64_t C)
{
    (void)ctx;
    ++*count;
    for (int64_t c = 0; c < C; c++)
        mean[c] = (mean[c] + OP_column(x + c, k, y + c, N, C)) / 2;
    return WICK_OK;
}
WICK_IMPL wick_status OP_backward_cpu(wick_ctx *ctx, const double *dy, double k, double *dx, int64_t N, int64_t C)
{
    (void)ctx;
    for (int64_t c = 0; c < C; c++)
        OP_column(dy + c, k, dx + c, N, C);
    return WICK_OK;
}
"""


def center(x: torch.Tensor, mean: torch.Tensor, count: torch.Tensor, k: float) -> torch.Tensor:
    with torch.no_grad():
        count.add_(1)
        mean.copy_((mean + x.mean(0)) / 2)
    return k * (x - x.mean(0))


@pytest.mark.parametrize("backend", [None, "aot_eager"])
def test_what_is_written_beside_results_does_not_stop_their_gradient(
    make: Maker, door: str, backend: str | None
) -> None:
    """Running statistics, as batch norm has them."""
    op = make(CENTER)
    found = []
    for f in (op.by(door), center):
        torch.manual_seed(1)
        w, mean, count = exact(3), torch.zeros(3, dtype=torch.float64), torch.tensor(0)

        def step(x: torch.Tensor, f=f, w=w, mean=mean, count=count) -> torch.Tensor:
            return (f(x * w, mean, count, 2.0) ** 3).sum()

        call = torch.compile(step, backend=backend, fullgraph=True) if backend else step
        gradients = []
        for _ in range(3):
            (g,) = torch.autograd.grad(call(torch.randn(5, 3, dtype=torch.float64)), w)
            gradients.append(g)
        found.append((gradients, mean, count))
    torch.testing.assert_close(*found)
    assert found[0][2].item() == 3
    x, mean = torch.ones(2, 3, dtype=torch.float64), exact(3)
    with pytest.raises(RuntimeError, match=f"{op.name}: mean requires grad, but .* writes mean in"):
        op.by(door)(x.requires_grad_(), mean, torch.tensor(0))


def test_a_number_does_not_lose_a_gradient() -> None:
    """torch.ops reads the number out of the tensor, with a warning of torch's; here that is refused."""
    x, bias, scale = torch.randn(3, 4), torch.randn(4), torch.tensor(2.0, requires_grad=True)
    op = wick.ops.scale_bias_relu
    words = (
        r"scale_bias_relu: scale is a tensor that requires grad, expected a number \(float\), .* give scale.item\(\), "
        "or call scale_bias_relu_learned, which takes a tensor"
    )
    for given in (scale, torch.nn.Parameter(scale.detach()), scale * 1):
        for x_too in (False, True):
            with pytest.raises(RuntimeError, match=words):
                op(x.clone().requires_grad_(x_too), bias, given)
            with pytest.raises(RuntimeError, match=words):
                op(x.clone().requires_grad_(x_too), bias, scale=given)
    with pytest.raises(RuntimeError, match=words):
        torch.func.grad(lambda s: op(x, bias, s).sum())(scale.detach())
    with pytest.raises(RuntimeError, match=words):
        torch.func.jvp(lambda s: op(x, bias, s), (scale.detach(),), (torch.tensor(1.0),))
    with pytest.raises(RuntimeError, match=r"muladd: c is .* give c.item\(\)$"):
        wick.ops.muladd(x, x, scale)
    right = torch.relu(x * 2 + bias)
    assert torch.equal(op(x, bias, scale.detach()), right)
    assert torch.equal(op(x, bias, scale.item()), right)
    with torch.no_grad():
        assert torch.equal(op(x, bias, scale), right)
    wick.ops.scale_bias_relu_learned(x, bias, scale).sum().backward()
    assert scale.grad is not None


@pytest.mark.parametrize(
    "pattern, new, words",
    [
        (r"\bdy\b", "g", "g is neither an input nor an output of the forward"),
        (r"\bdx\b", "dw", "dw is not d and the name of a tensor that the forward takes"),
        (
            r"\bby\b(?=: float ->|, T \*dx| \* x.*dy)",
            "it",
            "it is neither an input nor an output of the forward",
        ),
    ],
)
def test_names_that_do_not_fit_are_refused_at_load(
    source: Source, pattern: str, new: str, words: str
) -> None:
    name, path = source(re.sub(pattern, new, CUBE))
    with pytest.raises(wick.BuildError) as caught:
        wick.load(path)
    lines = str(caught.value).splitlines()
    assert re.match(rf"{re.escape(str(path))}:3: .*{name}_backward: {words}", lines[0])
    assert lines[1].strip().startswith(f"{name}(x: T[*N], by: float")
    assert lines[2].strip().startswith(f"{name}_backward(")


def test_a_forward_and_its_backward(make: Maker) -> None:
    """foo_forward and foo_backward, without a foo."""
    text = CUBE.replace("WICK_OP(OP,", "WICK_OP(OP_forward,").replace("OP_cpu(", "OP_forward_cpu(")
    op = make(text)
    forwards = (
        getattr(op.loaded, f"{op.name}_forward"),
        getattr(torch.ops.local, f"{op.name}_forward"),
    )
    for forward in forwards:
        assert torch.autograd.gradcheck(forward, (exact(3),))


@pytest.mark.filterwarnings("ignore:Warning only once")
def test_a_gradient_registered_by_hand_takes_precedence(make: Maker) -> None:
    op = make(CUBE)
    torch.library.register_autograd(f"local::{op.name}", lambda ctx, dy: (dy * 100, None))
    for door in ("direct", "wick", "torch"):
        x = torch.ones(2, requires_grad=True)
        op.by(door)(x).sum().backward()
        assert x.grad.tolist() == [100.0, 100.0], door


BY_HAND = """
import sys, torch, wick
op = wick.load(sys.argv[1])
name = op.names[0]
torch.library.register_autograd(f"local::{name}", lambda ctx, dy: (dy * 100, None))
for function in (getattr(op, name), getattr(torch.ops.local, name), getattr(wick.ops.local, name)):
    x = torch.ones(2, requires_grad=True)
    function(x).sum().backward()
    assert x.grad.tolist() == [100.0, 100.0]
    x.grad = None
    compiled = torch.compile(lambda x: function(x).sum(), backend="aot_eager", fullgraph=True)
    compiled(x).backward()
    assert x.grad.tolist() == [100.0, 100.0]
    with torch.no_grad():
        assert function(x).tolist() == [1.0, 1.0]
print("done")
"""


def test_a_gradient_by_hand_is_registered_without_a_warning(source: Source) -> None:
    _, path = source(CUBE)
    words = [sys.executable, "-W", "ignore::FutureWarning", "-c", BY_HAND, str(path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=200)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert "verrid" not in done.stderr, done.stderr


def test_a_changed_backward_is_the_one_that_runs(source: Source, door: str) -> None:
    name, path = source(CUBE)
    op = Made(name, path, wick.load(path))

    def gradient() -> list[float]:
        x = torch.ones(2, requires_grad=True)
        op.by(door)(x).sum().backward()
        return x.grad.tolist()

    assert gradient() == [3.0, 3.0]
    x = torch.ones(2, requires_grad=True)
    y = op.by(door)(x)
    path.write_text(spell(CUBE.replace("dx[i] = 3", "dx[i] = 7"), name))
    wick.load(path)
    assert gradient() == [7.0, 7.0]
    y.sum().backward()  # called before: what its file says now
    assert x.grad.tolist() == [7.0, 7.0]
    path.write_text(
        spell(
            CUBE[: CUBE.index("WICK_IMPL wick_status OP_backward")].replace(
                'WICK_OP(OP_backward, "dy: T[*N], x: T[*N], by: float -> dx: T[*N]");', ""
            ),
            name,
        )
    )
    wick.load(path)
    with pytest.raises(RuntimeError, match=f"{name}: no gradient"):
        gradient()
    other = CUBE.replace(
        '"dy: T[*N], x: T[*N], by: float -> dx: T[*N]"', '"x: T[*N], dy: T[*N] -> dx: T[*N]"'
    )
    other = other.replace(
        "const T *dy, const T *x, double by, T *dx", "const T *x, const T *dy, T *dx"
    )
    path.write_text(spell(other.replace("3 * (T)by", "5"), name))
    wick.load(path)
    assert gradient() == [5.0, 5.0]


def test_the_backward_is_an_operator_of_its_own(cube: Made) -> None:
    dy, x = torch.ones(2), torch.tensor([1.0, 2.0])
    assert getattr(cube.loaded, f"{cube.name}_backward")(dy, x, 1.0).tolist() == [3.0, 12.0]
    assert getattr(torch.ops.local, f"{cube.name}_backward")(dy, x, 1.0).tolist() == [3.0, 12.0]


def test_errors_in_a_backward_keep_their_words(make: Maker, door: str) -> None:
    op = make(
        CUBE.replace(
            "        dx[i] = 3",
            '        if (by > 1) return wick_fail(ctx, WICK_EINVAL, "by is large");\n'
            "        else dx[i] = 3",
        )
    )
    y = op.by(door)(torch.ones(2, requires_grad=True), 2.0)
    with pytest.raises(RuntimeError, match=f"{op.name}_backward: by is large"):
        y.sum().backward()


@pytest.mark.parametrize("early", [True, False])
def test_checkpoints(cube: Made, door: str, early: bool) -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with torch.utils.checkpoint.set_checkpoint_early_stop(early):
        y = torch.utils.checkpoint.checkpoint(
            lambda v: cube.by(door)(cube.by(door)(v) * 2).sum() + 1, x, use_reentrant=False
        )
        y.backward()
    assert x.grad.tolist() == [72.0, 8.0 * 9 * 256]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.filterwarnings("ignore")
def test_around_a_break_of_a_compiled_graph(cube: Made, door: str, backend: str) -> None:
    op = cube.by(door)
    compiled = torch.compile(lambda v: op(v * 2).sum() + 1, backend=backend)
    for x in (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0, 3.0])):
        v = x.clone().requires_grad_()
        compiled(v).backward()
        assert v.grad.tolist() == (24 * x * x).tolist()


def test_functorch(cube: Made, door: str) -> None:
    def total(v: torch.Tensor) -> torch.Tensor:
        return cube.by(door)(v).sum()

    x = torch.tensor([1.0, 2.0])
    assert torch.func.grad(total)(x).tolist() == [3.0, 12.0]
    assert torch.autograd.functional.jacobian(cube.by(door), x).tolist() == [
        [3.0, 0.0],
        [0.0, 12.0],
    ]


class Mine(Exception):
    """Not one of torch's."""


class Refusing(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise Mine("not here")


@pytest.mark.parametrize("needs_grad", [False, True])
def test_an_exception_of_python_passes_as_itself(cube: Made, door: str, needs_grad: bool) -> None:
    x = torch.ones(2, requires_grad=needs_grad)
    for _ in range(2):
        with pytest.raises(Mine, match="^not here$"), Refusing():
            cube.by(door)(x)
    assert cube.by(door)(torch.ones(2)).tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match=f"^{cube.name}: x is sparse"):
        cube.torch(torch.ones(2).to_sparse())  # not the exception from before


def test_an_exception_of_a_hook_passes_as_itself(cube: Made, door: str) -> None:
    def pack(x: torch.Tensor) -> torch.Tensor:
        raise Mine("not saved")

    x = torch.ones(2, requires_grad=True)
    with (
        pytest.raises(Mine, match="^not saved$"),
        torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x),
    ):
        cube.by(door)(x)


def test_an_exception_holds_nothing_when_it_is_gone(cube: Made, door: str) -> None:
    def fail() -> weakref.ref[torch.Tensor]:
        x = torch.ones(2)
        with contextlib.suppress(Mine), Refusing():
            cube.by(door)(x)
        return weakref.ref(x)

    gone = fail()
    gc.collect()
    assert gone() is None


def test_compiled_autograd(ops: Any) -> None:
    """A backward that Dynamo captures as a whole, with every step of the graph in it."""
    bias = torch.randn(4, requires_grad=True)
    for rows in (3, 5):
        x = torch.randn(rows, 4, requires_grad=True)
        compiler = functools.partial(torch.compile, backend="aot_eager", fullgraph=True)
        with torch._dynamo.compiled_autograd._enable(compiler):
            ops.mul(ops.scale_bias_relu(x, bias, 2.0), x).sum().backward()
        found, bias.grad = (x.grad, bias.grad), None
        right = torch.autograd.grad((torch.relu(x * 2 + bias) * x).sum(), (x, bias))
        torch.testing.assert_close(found, right)


def test_the_graph_names_the_operator(ops: Any) -> None:
    x = torch.ones(2, 3, requires_grad=True)
    assert ops.relu(x).grad_fn.name() == "ReluBackward"
    assert ops.scale_bias_relu(x, x[0]).grad_fn.name() == "ScaleBiasReluBackward"


def test_an_expanded_gradient(ops: Any) -> None:
    x = torch.randn(3, 4, requires_grad=True)
    y = ops.mul(x, torch.full((3, 4), 2.0))
    (g,) = torch.autograd.grad(y, x, torch.ones(()).expand(3, 4))
    assert g.tolist() == [[2.0] * 4] * 3


def test_backward_from_several_threads(cube: Made, door: str) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def one(k: int) -> list[float]:
        x = torch.full((100,), float(k), requires_grad=True)
        for _ in range(20):
            cube.by(door)(x).sum().backward()
        return x.grad[:1].tolist()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(one, range(8))) == [[60.0 * k * k] for k in range(8)]


# ---- training ----


class Plain(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w1, self.w2 = torch.nn.Linear(6, 16, bias=False), torch.nn.Linear(16, 3)
        self.bias, self.scale = (
            torch.nn.Parameter(torch.zeros(16)),
            torch.nn.Parameter(torch.tensor(1.1)),
        )

    def middle(self, h: torch.Tensor) -> torch.Tensor:
        h = torch.relu(h * self.scale + self.bias)
        return torch.relu(h * 0.9 + self.bias) * h

    def total(self, y: torch.Tensor) -> torch.Tensor:
        return (y + 1).sum()

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        difference = self.w2(self.middle(self.w1(x))) - target
        return self.total(difference * difference) / x.shape[0]


class Wicked(Plain):
    def __init__(self, ops: Any) -> None:
        super().__init__()
        self.ops = ops

    def middle(self, h: torch.Tensor) -> torch.Tensor:
        h = self.ops.scale_bias_relu_learned(h, self.bias, self.scale)
        return self.ops.mul(self.ops.scale_bias_relu(h, self.bias, 0.9), h)

    def total(self, y: torch.Tensor) -> torch.Tensor:
        return self.ops.reduce_sum(self.ops.addone(y))


@pytest.mark.parametrize(
    "make_optimizer",
    [lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9), lambda p: torch.optim.Adam(p, lr=0.01)],
    ids=["SGD", "Adam"],
)
def test_a_model_trains_as_in_plain_torch(ops: Any, make_optimizer: Callable[..., Any]) -> None:
    plain, wicked = Plain().double(), Wicked(ops).double()
    wicked.load_state_dict(plain.state_dict())
    x, target = torch.randn(50, 6, dtype=torch.float64), torch.randn(50, 3, dtype=torch.float64)
    losses = {}
    for model in (plain, wicked):
        optimizer = make_optimizer(model.parameters())
        for _ in range(20):
            optimizer.zero_grad()
            loss = model(x, target)
            loss.backward()
            optimizer.step()
            losses.setdefault(model, []).append(loss.item())
    torch.testing.assert_close(losses[wicked], losses[plain])
    assert losses[wicked][-1] < losses[wicked][0]
    for mine, right in zip(wicked.parameters(), plain.parameters()):
        torch.testing.assert_close(mine, right)


MODES = """
import torch, wick
assert wick._calls.mode == {mode!r}, wick._calls.mode
for ops in (wick.ops, torch.ops.wick):
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    b = torch.randn(4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, b: ops.scale_bias_relu(x, b, 0.7), (x, b))
    assert torch.autograd.gradcheck(ops.reduce_sum, (x,))
    b.grad = None
    ops.mul(x.detach(), x[0].expand(3, 4)).sum().backward()
    with torch.no_grad():
        assert not ops.relu(x).requires_grad
    try:
        (g,) = torch.autograd.grad(ops.relu(x).sum(), x, create_graph=True)
        torch.autograd.grad(ops.relu(g * x).sum(), x, create_graph=True)[0].sum().backward()
    except RuntimeError as error:
        assert "relu_backward: no gradient" in str(error), error
    else:
        raise AssertionError
print("done")
"""


@pytest.mark.parametrize("mode", ["internals", "dlpack", "dispatcher"])
def test_in_every_mode(mode: str) -> None:
    assert run_python(MODES.format(mode=mode), WICK_DIRECT=mode) == "done\n"
