"""The operators of my_package against plain PyTorch."""

import pytest
import torch
from torch.nn.functional import leaky_relu

import my_package

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
SHAPES = [(3,), (0, 3), (5, 1), (4, 33), (2, 3, 5), (300, 257)]


def _random(shape, dtype):
    return torch.randn(shape, dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_leaky_bias(shape, dtype):
    x, bias = _random(shape, dtype), _random(shape[-1:], dtype)
    wanted = leaky_relu(x.double() + bias.double(), 0.1).to(dtype)
    torch.testing.assert_close(my_package.leaky_bias(x, bias, 0.1), wanted)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_leaky_gate(shape, dtype):
    x, gate = _random(shape, dtype), _random(shape, dtype)
    wanted = (leaky_relu(x.double(), 0.1) * gate.double()).to(dtype)
    torch.testing.assert_close(my_package.leaky_gate(x, gate, slope=0.1), wanted)


def test_halve_writes_in_place():
    x = torch.tensor([2.0, -3.0])
    my_package.halve_(x)
    assert x.tolist() == [1.0, -1.5]


def test_torch_has_the_same_operators():
    assert set(my_package.__all__) >= {"halve_", "leaky_bias", "leaky_gate"}
    x, bias = torch.randn(4, 3), torch.randn(3)
    direct = my_package.leaky_bias(x, bias)
    assert torch.equal(direct, torch.ops.my_package.leaky_bias(x, bias))


def test_a_wrong_shape_is_refused():
    with pytest.raises(RuntimeError, match=r"leaky_bias.*bias"):
        my_package.leaky_bias(torch.ones(4, 3), torch.ones(4))
