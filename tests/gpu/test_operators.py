"""The shipped operators and their gradients on the GPU, against float64 references in plain torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import wick

ops = torch.ops.wick
TYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
BOUND = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float32: 8e-6, torch.float64: 1e-12}
SHAPES = [
    (1, 1),
    (3, 5),
    (7, 33),
    (255, 257),
    (1000, 777),
    (128, 4096),
    (65537, 8),
    (70000, 16),
    (300000, 3),
    (2, 100003),
    (0, 8),
    (5, 0),
]


def tensor(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=torch.float64).to(dtype)


def sums(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


Case = tuple[Callable[..., Any], Callable[..., Any], tuple[torch.Tensor, ...]]


def case(name: str, shape: tuple[int, int], dtype: torch.dtype) -> Case:
    """The operator, its meaning, and inputs."""
    x, y = tensor(*shape, dtype=dtype), tensor(*shape, dtype=dtype)
    bias = tensor(shape[1], dtype=dtype)
    scale = torch.tensor(1.5, device="cuda", dtype=sums(dtype))
    cases: dict[str, Case] = {
        "addone": (ops.addone, lambda x: x + 1, (x,)),
        "relu": (ops.relu, torch.relu, (x,)),
        "mul": (ops.mul, lambda a, b: a * b, (x, y)),
        "muladd": (lambda a, b: ops.muladd(a, b, 0.5), lambda a, b: a * b + 0.5, (x, y)),
        "scale_bias_relu": (
            lambda x, b: ops.scale_bias_relu(x, b, 2.0),
            lambda x, b: torch.relu(x * 2 + b),
            (x, bias),
        ),
        "scale_bias_relu_learned": (
            lambda x, b, s: ops.scale_bias_relu_learned(x, b, s),
            lambda x, b, s: torch.relu(x * s + b),
            (x, bias, scale),
        ),
        "reduce_sum": (ops.reduce_sum, lambda x: x.sum(), (x,)),
        "sum of dim 0": (lambda x: ops.reduce_sum_dim(x[None])[0], lambda x: x.sum(0), (x,)),
        "sum of dim 1": (
            lambda x: ops.reduce_sum_dim(x[..., None])[..., 0],
            lambda x: x.sum(1),
            (x,),
        ),
    }
    return cases[name]


NAMES = [
    "addone",
    "relu",
    "mul",
    "muladd",
    "scale_bias_relu",
    "scale_bias_relu_learned",
    "reduce_sum",
    "sum of dim 0",
    "sum of dim 1",
]


def distance(found: torch.Tensor, wanted: torch.Tensor, size: torch.Tensor) -> float:
    """The largest error, in parts of what the result would be if nothing cancelled."""
    assert found.shape == wanted.shape and found.device.type == "cuda"
    if found.numel() == 0:
        return 0.0
    return ((found.double() - wanted).abs().max() / (size.abs().max() + 1e-30)).item()


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_values_and_gradients(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(3)
    for shape in SHAPES:
        op, meaning, inputs = case(name, shape, dtype)
        ours = [x.clone().requires_grad_() for x in inputs]
        exact = [x.double().requires_grad_() for x in inputs]
        y, wanted = op(*ours), meaning(*exact)
        dy = torch.randn_like(y)
        found = torch.autograd.grad(y, ours, dy)
        right = torch.autograd.grad(wanted, exact, dy.double())
        sizes = (meaning(*[x.detach().abs() for x in exact]), *[g.abs() for g in right])
        if name == "scale_bias_relu_learned":
            sizes = (*sizes[:3], (dy.double() * exact[0]).abs().sum().detach())
        if name.startswith("scale_bias_relu"):
            sizes = (*sizes[:2], dy.double().abs().sum(0), *sizes[3:])
        for a, b, size in zip((y, *found), (wanted, *right), sizes):
            assert distance(a.detach(), b.detach(), size) <= BOUND[dtype], (shape, a.shape)


@pytest.mark.parametrize("name", NAMES)
def test_awkward_memory(name: str) -> None:
    """Transposed, expanded, sliced and starting anywhere: as the same values side by side. A sum's order, and so its
    last bit, depends on how its input is aligned."""
    torch.manual_seed(4)
    op, _, inputs = case(name, (96, 64), torch.float32)
    straight = op(*inputs)
    for awkward in (
        lambda x: x.t().contiguous().t() if x.dim() == 2 else x,
        lambda x: torch.stack([x, x], -1)[..., 0],
        lambda x: torch.cat([x.new_zeros(1), x.flatten()])[1:].view(x.shape),
    ):
        torch.testing.assert_close(op(*[awkward(x) for x in inputs]), straight)
    wide = [x[:1].expand(x.shape) if x.dim() == 2 else x for x in inputs]
    torch.testing.assert_close(op(*wide), op(*[x.contiguous() for x in wide]))


@pytest.mark.parametrize("name", NAMES)
def test_the_same_every_time(name: str) -> None:
    torch.manual_seed(5)
    op, _, inputs = case(name, (3000, 501), torch.float32)
    leaves = [x.requires_grad_() for x in inputs]
    runs = []
    for _ in range(5):
        y = op(*leaves)
        runs.append((y, *torch.autograd.grad(y, leaves, torch.ones_like(y))))
    for run in runs[1:]:
        assert all(torch.equal(a, b) for a, b in zip(run, runs[0]))


@pytest.mark.parametrize("name", NAMES)
def test_gradcheck(name: str) -> None:
    torch.manual_seed(6)
    op, _, inputs = case(name, (4, 5), torch.float64)
    assert torch.autograd.gradcheck(op, [x.requires_grad_() for x in inputs], fast_mode=False)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_opcheck(requires_grad: bool) -> None:
    x, y, bias = (tensor(*s, dtype=torch.float32) for s in ((4, 6), (4, 6), (6,)))
    scale = torch.tensor(1.5, device="cuda")
    for op, args in (
        (ops.addone, (x,)),
        (ops.relu, (x,)),
        (ops.mul, (x, y)),
        (ops.muladd, (x, y, 0.5)),
        (ops.scale_bias_relu, (x, bias, 2.0)),
        (ops.scale_bias_relu_learned, (x, bias, scale)),
        (ops.reduce_sum, (x,)),
        (ops.reduce_sum_dim, (x[None].contiguous(),)),
    ):
        given = tuple(
            a.detach().clone().requires_grad_(requires_grad) if isinstance(a, torch.Tensor) else a
            for a in args
        )
        torch.library.opcheck(op.default, given)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), -0.0])
def test_special_values(value: float) -> None:
    x = tensor(33, 65, dtype=torch.float32)
    x[5, 7] = value
    zero = torch.zeros(65, device="cuda")
    for found, wanted in (
        (ops.relu(x), torch.relu(x)),
        (ops.addone(x), x + 1),
        (ops.mul(x, x), x * x),
        (ops.scale_bias_relu(x, zero, 1.0), torch.relu(x + zero)),
        (ops.reduce_sum_dim(x[None])[0, 7], x.sum(0)[7]),
    ):
        torch.testing.assert_close(found, wanted, equal_nan=True)


def test_in_place() -> None:
    for dtype in TYPES:
        a, b = tensor(777, dtype=dtype), tensor(777, dtype=dtype)
        out = torch.empty_like(a)
        ops.add_out(a, b, out)
        torch.testing.assert_close(out, a + b)


def test_more_than_two_to_the_31_elements() -> None:
    n = (1 << 31) + 12345
    x = torch.ones(n, device="cuda", dtype=torch.float16)
    assert bool((ops.addone(x) == 2).all())
    assert bool((ops.mul(x, x) == 1).all())
    zero = torch.zeros(1, device="cuda", dtype=torch.float16)
    assert bool((ops.scale_bias_relu(x[:, None], zero, 2.0) == 2).all())
    total = ops.reduce_sum(torch.ones(n, device="cuda", dtype=torch.bfloat16))
    assert total.item() == torch.tensor(float(n), dtype=torch.bfloat16).item()
    columns = torch.ones(1, n // 3, 3, device="cuda", dtype=torch.bfloat16)
    assert ops.reduce_sum_dim(columns).tolist() == [
        [torch.tensor(float(n // 3)).bfloat16().item()] * 3
    ]


def test_compiled() -> None:
    def model(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return wick.ops.relu(wick.ops.scale_bias_relu(x, b, 2.0)) * 2

    compiled = torch.compile(model, fullgraph=True)
    for rows in (8, 16, 24):
        x, b = tensor(rows, 32, dtype=torch.float32), tensor(32, dtype=torch.float32)
        torch.testing.assert_close(compiled(x, b), model(x, b))


@pytest.mark.parametrize("door", ["torch.ops", "wick.ops", "compiled"])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_the_gradient_of_a_number_on_the_cpu_is_there_too(dtype: torch.dtype, door: str) -> None:
    torch.manual_seed(7)
    op = ops.scale_bias_relu_learned if door == "torch.ops" else wick.ops.scale_bias_relu_learned
    if door == "compiled":
        op = torch.compile(lambda x, b, s: wick.ops.scale_bias_relu_learned(x, b, s) * 1)
    x, bias = tensor(33, 65, dtype=dtype), tensor(65, dtype=dtype)
    scale = torch.tensor(1.5, dtype=sums(dtype))
    there = [x, bias, scale.cuda()]
    for leaf in (x, bias, scale, there[2]):
        leaf.requires_grad_()
    dy = torch.randn_like(x)
    mixed = torch.autograd.grad(op(x, bias, scale), (x, bias, scale), dy)
    right = torch.autograd.grad(ops.scale_bias_relu_learned(*there), there, dy)
    assert [g.device for g in mixed] == [x.device, bias.device, torch.device("cpu")]
    assert mixed[2].dtype == scale.dtype and mixed[2].shape == ()
    for a, b in zip(mixed, right):
        torch.testing.assert_close(a.cuda(), b)
    (alone,) = torch.autograd.grad(op(x.detach(), bias.detach(), scale), scale, dy)
    torch.testing.assert_close(alone, mixed[2])
