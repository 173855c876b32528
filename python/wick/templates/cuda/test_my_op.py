"""my_op against its reference, on the CPU and on the GPU if there is one: python -m pytest test_my_op.py"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch

import wick

HERE = Path(__file__).parent
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
SHAPES = [(), (0,), (1,), (7,), (3, 0, 2), (5, 33), (2, 3, 4, 5), (70_001,)]
DEVICES = [
    "cpu",
    pytest.param(
        "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
    ),
]
every_device = pytest.mark.parametrize("device", DEVICES)


def _reference():
    """my_op.py, by its path: its name may be one that Python has imported already."""
    spec = importlib.util.spec_from_file_location("my_op_reference", HERE / "my_op.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.my_op


op = wick.load(HERE / "my_op.cu")
reference = _reference()


def _close(got: torch.Tensor, wanted: torch.Tensor) -> None:
    """Within the rounding of the type; `wanted` was computed in f64."""
    torch.testing.assert_close(got.cpu(), wanted.to(got.dtype).cpu(), equal_nan=True)


@every_device
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values(shape, dtype, device):
    x = torch.randn(shape, dtype=torch.float64).mul(4).to(device, dtype)
    _close(op.my_op(x, 1.5), reference(x.double(), 1.5))
    _close(op.my_op(x), reference(x.double()))


@every_device
@pytest.mark.parametrize("dtype", DTYPES)
def test_gradient(dtype, device):
    x = torch.randn(5, 33, dtype=torch.float64).to(device, dtype)
    dy = torch.randn(5, 33, dtype=torch.float64).to(device, dtype)
    exact = x.double().requires_grad_()
    reference(exact, 1.5).backward(dy.double())
    _close(op.my_op_backward(dy, x, 1.5), exact.grad)


@every_device
def test_any_layout(device):
    """Also a tensor that does not begin at a multiple of 16 bytes."""
    x = torch.randn(6, 4, 5, device=device)
    for view in (x.transpose(0, 2), x[::2, 1:], x[0, 0].expand(3, 5), x.flatten()[1:]):
        _close(op.my_op(view, 2.0), reference(view.double(), 2.0))


@every_device
def test_special_values(device):
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0], device=device)
    _close(op.my_op(x), reference(x.double()))


@every_device
def test_a_wrong_value_is_refused(device):
    with pytest.raises(RuntimeError, match=r"my_op.*scale is -1"):
        op.my_op(torch.ones(3, device=device), -1.0)


def test_a_wrong_type_is_refused():
    with pytest.raises(RuntimeError, match=r"my_op.*x "):
        op.my_op(torch.ones(3, dtype=torch.int64))
