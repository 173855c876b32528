"""How wrong the gradients of the shipped operators are, in every type, against float64 (test_autograd.py has their rules).

The error is counted in units in the last place of the type: half a unit is what one rounding costs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import wick

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
NAN, INF = float("nan"), float("inf")


@pytest.fixture(params=["wick.ops", "torch.ops.wick"])
def ops(request: pytest.FixtureRequest) -> Any:
    return wick.ops if request.param == "wick.ops" else torch.ops.wick


# name: the gradients in plain arithmetic, of (dy, inputs); which of them are sums over other elements
def _affine(dy: torch.Tensor, x: torch.Tensor, bias: torch.Tensor, scale: Any) -> Any:
    """As the operator decides it: product and sum rounded in the accumulation type."""
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    by = scale if isinstance(scale, torch.Tensor) else torch.tensor(scale, dtype=wide)
    passed = dy.double() * (x.to(wide) * by.to(wide) + bias.to(wide) > 0)
    return passed, by.double()


def _scale_bias_relu(dy: torch.Tensor, x: torch.Tensor, bias: torch.Tensor, scale: Any) -> Any:
    passed, by = _affine(dy, x, bias, scale)
    return passed * by, passed.sum(0), (passed * x.double()).sum()


GRADIENTS: dict[str, Callable[..., tuple[torch.Tensor, ...]]] = {
    "addone": lambda dy, x: (dy.double(),),
    "relu": lambda dy, x: (dy.double() * (x > 0),),
    "mul": lambda dy, a, b: (dy.double() * b.double(), dy.double() * a.double()),
    "muladd": lambda dy, a, b, c: (dy.double() * b.double(), dy.double() * a.double()),
    "reduce_sum": lambda dy, x: (dy.double().expand(x.shape),),
    "reduce_sum_dim": lambda dy, x: (dy.double().unsqueeze(1).expand(x.shape),),
    "scale_bias_relu": lambda *a: _scale_bias_relu(*a)[:2],
    "scale_bias_relu_learned": _scale_bias_relu,
}
SUMS = {"scale_bias_relu": {1}, "scale_bias_relu_learned": {1, 2}}


def test_no_operator_is_left_out() -> None:
    names = [name for ns, name, _ in wick.operators() if ns == "wick"]
    assert sorted(GRADIENTS) == sorted(n for n in names if f"{n}_backward" in names)


def arguments(name: str, dtype: torch.dtype, rows: int, columns: int) -> list[Any]:
    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, dtype=torch.float64).to(dtype)

    wide = torch.float64 if dtype == torch.float64 else torch.float32
    return {
        "muladd": lambda: [draw(rows, columns), draw(rows, columns), 0.3],
        "mul": lambda: [draw(rows, columns), draw(rows, columns)],
        "scale_bias_relu": lambda: [draw(rows, columns), draw(columns), 0.7],
        "scale_bias_relu_learned": lambda: [
            draw(rows, columns),
            draw(columns),
            torch.tensor(-0.7, dtype=wide),
        ],
        "reduce_sum_dim": lambda: [draw(3, rows, columns)],
    }.get(name, lambda: [draw(rows, columns)])()


def ulps(found: torch.Tensor, right: torch.Tensor) -> float:
    """The largest error, in units in the last place of what is right."""
    if right.numel() == 0:
        return 0.0
    info = torch.finfo(found.dtype)
    _, exponent = torch.frexp(right.abs().clamp_min(info.tiny))
    unit = info.eps * torch.exp2((exponent - 1).double())
    return ((found.double() - right).abs() / unit).max().item()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", GRADIENTS)
def test_errors_in_units_in_the_last_place(ops: Any, name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(11)
    for rows, columns in [(1, 1), (3, 5), (7, 64), (129, 33), (0, 4), (4, 0)]:
        values = arguments(name, dtype, rows, columns)
        leaves = [v for v in values if isinstance(v, torch.Tensor)]
        for leaf in leaves:
            leaf.requires_grad_()
        y = getattr(ops, name)(*values)
        dy = torch.randn(y.shape, dtype=torch.float64).to(dtype)
        y.backward(dy)
        with torch.no_grad():
            right = GRADIENTS[name](dy, *values)
        for i, (leaf, wanted) in enumerate(zip(leaves, right, strict=True)):
            assert leaf.grad is not None
            assert (leaf.grad.dtype, leaf.grad.shape) == (leaf.dtype, leaf.shape)
            if i not in SUMS.get(name, ()):
                assert ulps(leaf.grad, wanted) <= 0.51, (name, i, rows, columns)
                continue
            passed, _ = _affine(dy, *values)
            terms = passed.abs() if i == 1 else (passed * values[0].double()).abs()
            total = terms.sum(0) if i == 1 else terms.sum()
            wide = torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).eps
            error = (leaf.grad.double() - wanted).abs()
            bound = torch.finfo(leaf.dtype).eps / 2 * wanted.abs() + 8 * wide * total
            assert (error <= bound).all(), (name, i, rows, columns)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("scale", [0.0, -0.0, -1.5, INF, -INF, NAN, 1e-300, 1e300], ids=str)
def test_any_scale_has_torchs_gradient(ops: Any, scale: float, dtype: torch.dtype) -> None:
    """Infinite, missing and vanishing ones included: a NaN stays one, and what torch lets pass passes."""
    torch.manual_seed(2)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    x = torch.randn(6, 5).to(dtype)
    bias = torch.tensor([0.0, -1.0, 1.0, INF, NAN]).to(dtype)
    # torch computes a half's steps in f32 and rounds each; Wick rounds once, which the wide type does.
    theirs = [t.to(wide, copy=True).requires_grad_() for t in (x, bias)]
    torch.relu(theirs[0] * scale + theirs[1]).sum().backward()
    learned = torch.tensor(scale, dtype=wide, requires_grad=True)
    for name, number in (("scale_bias_relu", scale), ("scale_bias_relu_learned", learned)):
        mine = [t.clone().requires_grad_() for t in (x, bias)]
        getattr(ops, name)(*mine, number).sum().backward()
        for got, wanted in zip(mine, theirs, strict=True):
            assert got.grad is not None and wanted.grad is not None
            torch.testing.assert_close(got.grad, wanted.grad.to(dtype), equal_nan=True)
    by = torch.tensor(scale, dtype=wide, requires_grad=True)
    torch.relu(x.to(wide) * by + bias.to(wide)).sum().backward()
    torch.testing.assert_close(learned.grad, by.grad, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_scale_as_a_tensor_is_trained(ops: Any, dtype: torch.dtype) -> None:
    """The 0-d tensor is never read on the host, and its gradient is of its own type."""
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    scale = torch.nn.Parameter(torch.tensor(0.5, dtype=wide))
    x, bias = torch.ones(2, 3, dtype=dtype), torch.zeros(3, dtype=dtype)
    ops.scale_bias_relu_learned(x, bias, scale).sum().backward()
    assert scale.grad is not None and scale.grad.dtype == wide and scale.grad.shape == ()
    assert scale.grad.item() == 6.0
