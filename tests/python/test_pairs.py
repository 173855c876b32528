"""foo_forward with foo_backward beside it: a gradient's pair, and one operator with two names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support import Made, build_module, fresh, spell, write

import wick

Maker = Callable[..., Made]
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]

FORWARD = """\
WICK_OP(OP_forward, "x: T[*N], k: float = 3.0 -> y: T[*N] where T: f16 bf16 f32 f64");
WICK_IMPL wick_status OP_forward_cpu(wick_ctx *ctx, const T *x, double k, T *y, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        y[i] = wick_T((A)k * wick_A(x[i]) * wick_A(x[i]));
    return WICK_OK;
}
"""
BACKWARD = """\
WICK_OP(OP_backward, "dy: T[*N], x: T[*N], k: float -> dx: T[*N]");
WICK_IMPL wick_status OP_backward_cpu(wick_ctx *ctx, const T *dy, const T *x, double k, T *dx,
                                      int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        dx[i] = wick_T(2 * (A)k * wick_A(dy[i]) * wick_A(x[i]));
    return WICK_OK;
}
"""
PAIR = FORWARD + BACKWARD
REAL = (
    'WICK_OP(OP, "x: f32[*N] -> y: f32[*N]");\n'
    + """\
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const float *x, float *y, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        y[i] = -x[i];
    return WICK_OK;
}
"""
)


def every_way(op: Made) -> dict[str, Any]:
    """Both names by every door."""
    ways = {}
    for name in (op.name, f"{op.name}_forward"):
        ways[f"loaded.{name}"] = getattr(op.loaded, name)
        ways[f"wick.ops.{name}"] = getattr(getattr(wick.ops, op.namespace), name)
        ways[f"torch.ops.{name}"] = getattr(getattr(torch.ops, op.namespace), name)
    return ways


def test_both_names_compute_and_differentiate(make: Maker) -> None:
    op = make(PAIR)
    assert op.loaded.names == [f"{op.name}_forward", f"{op.name}_backward", op.name]
    for name, f in every_way(op).items():
        for dtype in DTYPES:
            x = torch.tensor([1.0, -2.0, 0.5], dtype=dtype, requires_grad=True)
            f(x).sum().backward()
            assert x.grad is not None and x.grad.tolist() == [6.0, -12.0, 3.0], (name, dtype)
        x = torch.randn(4, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(lambda x, f=f: f(x, 1.5), (x,)), name


def test_a_second_name_is_an_operator_of_its_own(make: Maker) -> None:
    """To torch and in messages it goes by its own name; nothing is compiled for it."""
    op = make(PAIR)
    schema = torch.ops.local.__getattr__(op.name).default._schema
    assert str(schema) == f"local::{op.name}(Tensor x, float k=3.) -> Tensor"
    with pytest.raises(RuntimeError, match=f"^{op.name}: x is i32, expected f16"):
        op.direct(torch.ones(2, dtype=torch.int32))
    with pytest.raises(RuntimeError, match=f"^{op.name}: x is i32, expected f16"):
        op.torch(torch.ones(2, dtype=torch.int32))
    assert op.direct.__name__ == op.name
    listed = {name: signature for ns, name, signature in wick.operators() if ns == "local"}
    assert listed[op.name] == listed[f"{op.name}_forward"]


def test_second_names_of_modules_and_namespaces(tmp_path: Path) -> None:
    name = fresh()
    source = write(tmp_path, "WICK_NAMESPACE(pairs);\n" + PAIR, name)
    loaded = wick.load(build_module(tmp_path / "pair.so", source))
    op = Made(name, source, loaded, "pairs")
    x = torch.tensor([2.0])
    assert all(f(x, 1.0).tolist() == [4.0] for f in every_way(op).values())
    assert not hasattr(wick.ops.local, name)


def test_second_names_of_foreign_functions(tmp_path: Path) -> None:
    name = fresh()
    source = tmp_path / "plain.c"
    source.write_text(
        f"void {name}_forward(const float *x, float *y, long n)\n"
        "{\n    for (long i = 0; i < n; i++) y[i] = 5 * x[i];\n}\n"
        f"void {name}_backward(const float *dy, float *dx, long n)\n"
        "{\n    for (long i = 0; i < n; i++) dx[i] = 5 * dy[i];\n}\n"
    )
    signature = {
        f"{name}_forward": "x: f32[N] -> y: f32[N]",
        f"{name}_backward": "dy: f32[N] -> dx: f32[N]",
    }
    op = getattr(wick.load(source, signature=signature), name)
    x = torch.ones(3, requires_grad=True)
    op(x).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [5.0] * 3


def test_without_a_backward_there_is_one_name(make: Maker) -> None:
    op = make(FORWARD)
    assert op.loaded.names == [f"{op.name}_forward"]
    assert not hasattr(wick.ops.local, op.name)
    with pytest.raises(AttributeError):
        _ = op.torch


def test_an_operator_of_that_name_in_the_file_is_refused(tmp_path: Path) -> None:
    name = fresh()
    path = write(tmp_path, PAIR + REAL, name)
    with pytest.raises(wick.BuildError) as error:
        wick.load(path)
    real = 2 + PAIR.count("\n")
    assert str(error.value) == (
        f"{path}:2: {name}_forward is also {name}, since its gradient is {name}_backward; "
        f"but {path}:{real} defines {name} itself: rename one of them"
    )
    assert not hasattr(wick.ops.local, f"{name}_forward")


def test_an_operator_of_that_name_in_another_file_is_refused(tmp_path: Path) -> None:
    name = fresh()
    real, pair = tmp_path / "real.c", tmp_path / "pair.c"
    real.write_text(spell(REAL, name))
    pair.write_text(spell(PAIR, name))
    wick.load(real)
    with pytest.raises(wick.BuildError) as error:
        wick.load(pair)
    assert str(error.value).startswith(f"{pair}:2: {name}_forward is also {name}, ")
    assert f"operator local::{name} is already defined by {real}" in str(error.value)
    assert getattr(wick.ops.local, name)(torch.ones(1)).tolist() == [-1.0]


def test_loading_again_changes_both_names(tmp_path: Path) -> None:
    name = fresh()
    path = write(tmp_path, PAIR, name)
    loaded = wick.load(path)
    held, x = getattr(loaded, name), torch.tensor([2.0], requires_grad=True)
    other = PAIR.replace("wick_T(2 * (A)k", "wick_T(7 * (A)k").replace(
        "wick_T((A)k", "wick_T(9 * (A)k"
    )
    path.write_text(spell(other, name))
    wick.load(path)
    y = held(x, 1.0)
    y.backward()
    assert y.item() == 36.0
    assert x.grad is not None and x.grad.item() == 14.0


def test_a_second_name_goes_with_its_backward(tmp_path: Path) -> None:
    name = fresh()
    path = write(tmp_path, PAIR, name)
    loaded = wick.load(path)
    path.write_text(spell(FORWARD, name))
    wick.load(path)
    x = torch.tensor([2.0])
    assert getattr(loaded, f"{name}_forward")(x).item() == 12.0
    for call in (getattr(loaded, name), getattr(torch.ops.local, name)):
        with pytest.raises(RuntimeError, match=f"the file no longer defines operator {name}"):
            call(x)
