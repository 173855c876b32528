"""my_op against its reference: python -m pytest test_my_op.py"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch

import wick

HERE = Path(__file__).parent
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
SHAPES = [(), (0,), (1,), (7,), (3, 0, 2), (5, 33), (2, 3, 4, 5), (70_001,)]


def _reference():
    """my_op.py, by its path: its name may be one that Python has imported already."""
    spec = importlib.util.spec_from_file_location("my_op_reference", HERE / "my_op.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.my_op


op = wick.load(HERE / "my_op.c")
reference = _reference()


def _close(got: torch.Tensor, wanted: torch.Tensor) -> None:
    """Within the rounding of the type; `wanted` was computed in f64."""
    torch.testing.assert_close(got, wanted.to(got.dtype), equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values(shape, dtype):
    x = torch.randn(shape, dtype=torch.float64).mul(4).to(dtype)
    _close(op.my_op(x, 1.5), reference(x.double(), 1.5))
    _close(op.my_op(x), reference(x.double()))


@pytest.mark.parametrize("dtype", DTYPES)
def test_gradient(dtype):
    x = torch.randn(5, 33, dtype=torch.float64).to(dtype)
    dy = torch.randn(5, 33, dtype=torch.float64).to(dtype)
    exact = x.double().requires_grad_()
    reference(exact, 1.5).backward(dy.double())
    _close(op.my_op_backward(dy, x, 1.5), exact.grad)


def test_any_layout():
    x = torch.randn(6, 4, 5)
    for view in (x.transpose(0, 2), x[::2, 1:], x[0, 0].expand(3, 5)):
        _close(op.my_op(view, 2.0), reference(view.double(), 2.0))


def test_special_values():
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0])
    _close(op.my_op(x), reference(x.double()))


def test_a_wrong_value_is_refused():
    with pytest.raises(RuntimeError, match=r"my_op.*scale is -1"):
        op.my_op(torch.ones(3), -1.0)


def test_a_wrong_type_is_refused():
    with pytest.raises(RuntimeError, match=r"my_op.*x "):
        op.my_op(torch.ones(3, dtype=torch.int64))
