"""What is written: in-place arguments and out=, their memory, their overlaps and their version counters."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
import torch
from support import Made

from wick import _calls

Maker = Callable[..., Made]


@pytest.fixture(scope="module")
def add_into(make: Maker) -> Made:
    """y += x, and the sum of what y then holds."""
    return make(
        """
WICK_OP(OP, "y!: f32[N], x: f32[N] -> sum: f32[]");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, float *y, const float *x, float *sum, int64_t N)
{
    (void)ctx;
    *sum = 0;
    for (int64_t i = 0; i < N; i++) {
        y[i] += x[i];
        *sum += y[i];
    }
    return WICK_OK;
}
"""
    )


@pytest.fixture(scope="module")
def reverse(make: Maker) -> Made:
    """Reads what it would have overwritten already, were its output its input."""
    return make(
        """
WICK_OP(OP, "x: f32[N] -> y: f32[N], z: i64[N]");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const float *x, float *y, int64_t *z, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        y[i] = x[N - 1 - i], z[i] = i;
    return WICK_OK;
}
"""
    )


# ---- in place ----


def test_an_argument_is_written_in_place(bump: Made, door: str) -> None:
    x = torch.zeros(2, 3)
    assert bump.by(door)(x, 2.0) is None
    assert torch.equal(x, torch.full((2, 3), 2.0))


def test_in_place_with_a_result(add_into: Made, door: str) -> None:
    y = torch.ones(3)
    total = add_into.by(door)(y, torch.arange(3.0))
    assert y.tolist() == [1.0, 2.0, 3.0] and total.item() == 6.0


@pytest.mark.parametrize(
    "view",
    [
        lambda t: t.t(),
        lambda t: t[:, 1:4],
        lambda t: t[::2, ::3],
        lambda t: t[1],
        lambda t: t[:, 0],
        lambda t: t[1, 2],
        lambda t: t[:0],
    ],
)
def test_a_view_is_computed_beside_and_copied_back(bump: Made, door: str, view) -> None:
    base = torch.arange(30.0).reshape(5, 6)
    expected = base.clone()
    view(expected).add_(1)
    bump.by(door)(view(base))
    assert torch.equal(base, expected), "the view's elements and nothing around them"


def test_a_lazy_clone_is_written_and_its_original_is_not(bump: Made, door: str) -> None:
    x = torch.zeros(3)
    clone = torch._lazy_clone(x)  # one memory, until one of the two is written
    bump.by(door)(clone)
    assert x.tolist() == [0.0] * 3 and clone.tolist() == [1.0] * 3
    other = torch._lazy_clone(x)
    bump.by(door)(x[1:])
    assert x.tolist() == [0.0, 1.0, 1.0] and other.tolist() == [0.0] * 3


@pytest.mark.parametrize("rank", range(9))
def test_tensors_of_every_rank_and_offset(bump: Made, add: Made, door: str, rank: int) -> None:
    whole = torch.arange(2.0 ** (rank + 1)).reshape([2] * (rank + 1))
    part, before = whole[1], whole.clone()
    assert torch.equal(add.by(door)(part), before[1] + 1)
    bump.by(door)(part)
    assert torch.equal(whole[1], before[1] + 1) and torch.equal(whole[0], before[0])
    assert part._version == whole._version == 1


def test_a_failing_kernel_leaves_a_view_as_it_was(make: Maker, door: str) -> None:
    op = make(
        """
WICK_OP(OP, "x!: f32[N] -> ()");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, float *x, int64_t N)
{
    if (N > 0) x[0] = 99;
    return wick_fail(ctx, WICK_EINVAL, "no");
}
"""
    )
    x = torch.zeros(6)
    version = x._version
    with pytest.raises(RuntimeError, match=f"{op.name}: no"):
        op.by(door)(x[::2])
    assert x.tolist() == [0.0] * 6 and x._version == version


@pytest.mark.parametrize(
    "view",
    [
        lambda: torch.zeros(3).expand(2, 3),
        lambda: torch.zeros(1).expand(4),
        lambda: torch.zeros(8).as_strided((3, 4), (2, 1)),
    ],
)
def test_a_tensor_that_overlaps_itself_is_refused(bump: Made, door: str, view) -> None:
    x = view()
    with pytest.raises(
        RuntimeError, match=f"{bump.name}: x is written in place, but several of its elements share"
    ):
        bump.by(door)(x)
    assert not x.any()


def test_partial_overlap_is_refused_and_exact_aliasing_is_not(add_into: Made, door: str) -> None:
    base = torch.ones(10)
    with pytest.raises(
        RuntimeError, match=f"{add_into.name}: y is written in place, but partly overlaps x"
    ):
        add_into.by(door)(base[:6], base[4:])
    assert base.tolist() == [1.0] * 10
    add_into.by(door)(base[:5], base[5:])
    assert base.tolist() == [2.0] * 5 + [1.0] * 5
    y = torch.arange(4.0)
    add_into.by(door)(y, y)
    assert y.tolist() == [0.0, 2.0, 4.0, 6.0]
    add_into.by(door)(y[::2], y[::2])
    assert y.tolist() == [0.0, 2.0, 8.0, 6.0]


def test_interleaved_halves_do_not_overlap(add_into: Made, door: str) -> None:
    base = torch.tensor([1.0, 10.0, 2.0, 20.0])
    add_into.by(door)(base[::2], base[1::2])
    assert base.tolist() == [11.0, 10.0, 22.0, 20.0]


def test_the_version_says_that_a_tensor_was_written(bump: Made, door: str) -> None:
    x, base = torch.zeros(3), torch.zeros(4, 4)
    for written, whole in ((x, x), (base.t(), base), (base[0], base), (torch.zeros(()), None)):
        before = written._version
        bump.by(door)(written)
        assert written._version > before
        if whole is not None:
            assert whole._version == written._version


def test_what_is_only_read_keeps_its_version(add_into: Made, add: Made, door: str) -> None:
    y, x = torch.zeros(3), torch.zeros(3)
    add_into.by(door)(y, x)
    add.by(door)(x)
    assert (y._version, x._version) == (1, 0)


def test_autograd_notices_that_a_saved_tensor_was_written(bump: Made, door: str) -> None:
    w = torch.ones(3, requires_grad=True)
    x = torch.ones(3)
    loss = (w * x).sum()  # saves x
    bump.by(door)(x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_tensor_that_requires_grad_is_not_written_behind_autograds_back(
    bump: Made, add_into: Made, door
) -> None:
    x = torch.zeros(3, requires_grad=True)
    with pytest.raises(
        RuntimeError, match=f"{bump.name}: x requires grad, but the operator writes x in place"
    ):
        bump.by(door)(x)
    with pytest.raises(
        RuntimeError, match=f"{add_into.name}: x requires grad, but the operator writes y in place"
    ):
        add_into.by(door)(torch.zeros(3), x)
    assert not x.any() and x._version == 0
    with torch.no_grad():
        bump.by(door)(x)
    assert x.tolist() == [1.0] * 3 and x._version == 1


def test_inference_tensors_are_written_without_a_version(bump: Made, door: str) -> None:
    with torch.inference_mode():
        x = torch.zeros(3)
        bump.by(door)(x)
        bump.by(door)(x[::2])
        assert x.tolist() == [2.0, 1.0, 2.0]


def test_a_counter_in_place_beside_a_result(make: Maker, door: str) -> None:
    op = make(
        """
WICK_OP(OP, "x: f32[N], count!: i64[] -> y: f32[N]");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const float *x, int64_t *count, float *y, int64_t N)
{
    (void)ctx;
    memcpy(y, x, (size_t)N * sizeof *y);
    *count += N;
    return WICK_OK;
}
"""
    )
    count = torch.tensor(5)
    assert (
        op.by(door)(torch.ones(3), count).tolist() == [1.0] * 3
        and count.item() == 8
        and count._version == 1
    )


# ---- out= ----


def test_out_is_written_and_returned(add: Made) -> None:
    out = torch.full((2, 3), -1.0)
    at = out.data_ptr()
    assert add.direct(torch.zeros(2, 3), 2.0, out=out) is out
    assert torch.equal(out, torch.full((2, 3), 2.0)) and out.data_ptr() == at and out._version == 1


def test_out_of_none_is_no_out(add: Made) -> None:
    assert add.direct(torch.zeros(2), out=None).tolist() == [1.0, 1.0]


def test_out_of_several_results_is_a_tuple(reverse: Made) -> None:
    y, z = torch.empty(3), torch.empty(3, dtype=torch.int64)
    result = reverse.direct(torch.arange(3.0), out=(y, z))
    assert result[0] is y and result[1] is z
    assert (
        y.tolist() == [2.0, 1.0, 0.0] and z.tolist() == [0, 1, 2] and y._version == z._version == 1
    )


WRONG_OUT = {
    "shape": (lambda: torch.empty(4), ["shape [4]", "[2, 3]"]),
    "rank": (lambda: torch.empty(6), ["shape [6]", "[2, 3]"]),
    "larger": (lambda: torch.empty(3, 3), ["shape [3, 3]", "[2, 3]"]),
    "element type": (lambda: torch.empty(2, 3, dtype=torch.float64), ["f", "64"]),
    "device": (lambda: torch.empty(2, 3, device="meta"), ["meta", "cpu"]),
    "expanded": (lambda: torch.empty(3).expand(2, 3), ["share memory"]),
}


@pytest.mark.parametrize("case", WRONG_OUT)
def test_out_is_exact_and_never_resized(add: Made, case: str) -> None:
    out = WRONG_OUT[case][0]()
    size = out.shape
    with pytest.raises(RuntimeError) as e:
        add.direct(torch.zeros(2, 3), out=out)
    assert str(e.value).startswith(f"{add.name}: out")
    for word in WRONG_OUT[case][1]:
        assert word in str(e.value)
    assert out.shape == size


def test_out_of_the_wrong_kind(add: Made, reverse: Made, bump: Made) -> None:
    x = torch.zeros(3)
    for wrong in (3, [x], "x", (x, x)):
        with pytest.raises(TypeError, match=f"{add.name}: out .*expected a tensor"):
            add.direct(x, out=wrong)
    for wrong in (x, (x,), (x, x, x), (x, None), [x, x]):
        with pytest.raises(TypeError, match=f"{reverse.name}: out .*expected a tuple"):
            reverse.direct(x, out=wrong)
    with pytest.raises(TypeError, match=f"{bump.name}: got an unknown argument out"):
        bump.direct(x, out=x)


def test_out_that_is_the_input_is_still_right(reverse: Made, add: Made) -> None:
    x, z = torch.arange(4.0), torch.empty(4, dtype=torch.int64)
    reverse.direct(x, out=(x, z))
    assert x.tolist() == [3.0, 2.0, 1.0, 0.0]
    add.direct(x, out=x)
    assert x.tolist() == [4.0, 3.0, 2.0, 1.0]


beside = pytest.mark.skipif(
    _calls.mode == "dispatcher",
    reason="through the dispatcher alone, results are computed beside out and copied",
)


@beside
def test_out_that_partly_overlaps_an_input_is_refused(add: Made) -> None:
    base = torch.zeros(6)
    with pytest.raises(RuntimeError, match=f"{add.name}: out .*overlaps x"):
        add.direct(base[:4], out=base[2:])
    assert not base.any()


def test_out_that_is_a_view(reverse: Made, add: Made) -> None:
    base = torch.zeros(4, 3)
    add.direct(torch.arange(12.0).reshape(3, 4), out=base.t())
    assert torch.equal(base, torch.arange(12.0).reshape(3, 4).t() + 1) and base._version >= 1
    wide, z = torch.zeros(6), torch.empty(3, dtype=torch.int64)
    reverse.direct(torch.arange(3.0), out=(wide[::2], z))
    assert wide.tolist() == [2.0, 0.0, 1.0, 0.0, 0.0, 0.0]


def test_out_where_a_gradient_is_needed_is_refused(add: Made) -> None:
    x, out = torch.zeros(2), torch.zeros(2)
    with pytest.raises(RuntimeError, match=f"{add.name}: x requires grad, so out= cannot be used"):
        add.direct(x.clone().requires_grad_(), out=out)
    with pytest.raises(RuntimeError, match=f"{add.name}: out requires grad"):
        add.direct(x, out=out.clone().requires_grad_())
    assert not out.any() and out._version == 0
    with torch.no_grad():
        add.direct(x.clone().requires_grad_(), out=out)
        add.direct(x, out=torch.nn.Parameter(out.clone()))
    assert out.tolist() == [1.0, 1.0]


def test_out_with_an_output_that_is_not_wanted(make: Maker) -> None:
    op = make(
        """
WICK_OP(OP, "x: f32[N] -> y?: f32[N], n: int, z: f32[N]");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const float *x, float *y, int64_t *n, float *z, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++) {
        if (y) y[i] = x[i];
        z[i] = -x[i];
    }
    *n = N;
    return WICK_OK;
}
"""
    )

    class Quiet(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    for mode in (contextlib.nullcontext(), Quiet()):
        y, z = torch.zeros(2), torch.zeros(2)
        with mode:
            op.direct(torch.ones(2), want_y=False, out=(y, z))
        assert y.tolist() == [0.0, 0.0] and z.tolist() == [-1.0, -1.0] and y._version == 0


def test_out_of_a_special_tensor_that_requires_grad_is_refused(add: Made) -> None:
    x = torch._neg_view(torch.ones(2, requires_grad=True))
    with pytest.raises(RuntimeError, match=f"{add.name}: x requires grad, so out= cannot be used"):
        add.direct(x, out=torch.zeros(2))


def test_out_under_a_mode_goes_through_torch_and_is_the_same(add: Made, reverse: Made) -> None:
    class Quiet(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    with Quiet():
        out = torch.zeros(3)
        assert (
            add.direct(torch.zeros(3), out=out) is out
            and out.tolist() == [1.0] * 3
            and out._version >= 1
        )
        with pytest.raises(RuntimeError, match=f"{add.name}: out"):
            add.direct(torch.zeros(3), out=torch.zeros(4))
        x, z = torch.arange(3.0), torch.zeros(3, dtype=torch.int64)
        reverse.direct(x, out=(x, z))
        assert x.tolist() == [2.0, 1.0, 0.0]


def test_out_of_an_operator_without_tensor_inputs(make: Maker) -> None:
    op = make(
        """
WICK_OP(OP, "k: int -> y: f32[k]");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, int64_t k, float *y)
{
    (void)ctx;
    for (int64_t i = 0; i < k; i++)
        y[i] = 7;
    return WICK_OK;
}
"""
    )
    out = torch.zeros(3)
    assert op.direct(3, out=out) is out and out.tolist() == [7.0] * 3
    with pytest.raises(RuntimeError, match=f"{op.name}: out.*meta.*cpu"):
        op.direct(3, out=torch.zeros(3, device="meta"))


@beside
def test_two_outputs_into_one_tensor_are_refused(make: Maker) -> None:
    op = make(
        """
WICK_OP(OP, "x: f32[N] -> y: f32[N], z: f32[N]");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const float *x, float *y, float *z, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        y[i] = x[i], z[i] = -x[i];
    return WICK_OK;
}
"""
    )
    base = torch.zeros(6)
    for out in ((base[:4], base[2:]), (base[:4], base[:4])):
        with pytest.raises(RuntimeError, match=f"{op.name}: out .*overlap"):
            op.direct(torch.ones(4), out=out)
    assert not base.any()
    op.direct(torch.ones(3), out=(base[::2], base[1::2]))
    assert base.tolist() == [1.0, -1.0] * 3
