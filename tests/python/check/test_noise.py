"""What else is right: the reference with other roundings."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from parts import subject_of

from wick.check.noise import Noise
from wick.check.operator import Operator


def noisy(f: Any, *inputs: torch.Tensor, strict: bool = False) -> list[torch.Tensor]:
    found = []
    for seed in range(6):
        noise = Noise(1e-7, seed, strict=strict)
        moved = [noise.disturb_input(x) for x in inputs]
        with noise:
            found.append(f(*moved))
    return found


@pytest.mark.parametrize(
    ("what", "by_hand"),
    [
        (lambda x: torch.logcumsumexp(x, 0)[-1:], lambda x: by_steps(x, torch.logaddexp)),
        (lambda x: conv_gradient(x), lambda x: by_steps(x, torch.add)),
        (lambda x: x.mean(0, keepdim=True), lambda x: by_steps(x, torch.add) / len(x)),
        (
            lambda x: torch.var_mean(x, [0], unbiased=False, keepdim=True)[1],
            lambda x: by_steps(x, torch.add) / len(x),
        ),
        (
            lambda x: torch.fft.rfft(x)[:1].real,
            lambda x: by_steps(x, torch.add),
        ),
        (
            lambda x: torch.segment_reduce(x, "sum", lengths=torch.tensor([len(x)])),
            lambda x: by_steps(x, torch.add),
        ),
        (
            lambda x: torch.bincount(torch.zeros(len(x)).long(), x),
            lambda x: by_steps(x, torch.add),
        ),
        (
            lambda x: x.new_zeros(1).scatter_reduce(0, torch.zeros(len(x)).long(), x, "sum"),
            lambda x: by_steps(x, torch.add),
        ),
    ],
    ids=[
        "logcumsumexp",
        "convolution",
        "mean",
        "var_mean",
        "fft",
        "segment",
        "bincount",
        "scatter",
    ],
)
def test_a_long_sum_may_be_off_by_its_length(what: Any, by_hand: Any) -> None:
    x = torch.rand(3000, generator=torch.Generator().manual_seed(1), dtype=torch.float64) + 0.5
    exact, plain = what(x), by_hand(x.float())
    spread = float(max((y - exact).abs().max() for y in noisy(what, x)) / exact)
    assert 1e-5 < spread < 1e-2  # one rounding is 1e-7
    assert float((plain - exact).abs() / exact) < spread


@pytest.mark.parametrize(
    "what",
    [
        lambda x: F.layer_norm(x, x.shape[-1:]),
        lambda x: F.group_norm(x[None], 1)[0],
        lambda x: (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True),
        lambda x: (x - torch.std_mean(x, -1, keepdim=True)[1]) / x.var(-1, keepdim=True),
    ],
    ids=["layer_norm", "group_norm", "std", "std_mean"],
)
def test_what_is_centred_may_be_off_by_the_length_of_its_mean(what: Any) -> None:
    """Whichever of torch's functions computes it: an operator may add up one after the other."""
    x = torch.rand(2, 1000, generator=torch.Generator().manual_seed(1), dtype=torch.float64) + 1
    exact = what(x)
    spread = max(float((y - exact).abs().max()) for y in noisy(what, x))
    assert 1e-5 < spread < 1e-2


def test_a_function_that_is_made_of_others_is_taken_apart() -> None:
    """Attention is one function of torch's on the CPU; its sums are sums all the same."""
    q = torch.rand(1, 1, 4, 2000, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def attend(q: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, q, q, is_causal=True)

    exact = attend(q)
    assert max(float((y - exact).abs().max()) for y in noisy(attend, q)) > 1e-5


def by_steps(x: torch.Tensor, add: Any) -> torch.Tensor:
    """One after the other, as an operator would, in x's own type."""
    total = x[0]
    for value in x[1:]:
        total = add(total, value)
    return total.reshape(1)


def conv_gradient(x: torch.Tensor) -> torch.Tensor:
    weight = torch.ones(1, 1, 1, dtype=x.dtype, requires_grad=True)
    with torch.enable_grad():
        y = torch.nn.functional.conv1d(x.reshape(1, 1, -1), weight)
    return torch.autograd.grad(y.sum(), weight)[0].reshape(1)


def test_what_nobody_rounds_is_not_rounded() -> None:
    x = torch.tensor([1.3, -2.6, 100.2], dtype=torch.float64)
    bias = torch.full_like(x, 3.0)

    def quantise(x: torch.Tensor) -> torch.Tensor:
        q = (torch.round(x) + bias) * 2 - torch.full_like(x, 1.0)
        return torch.where(q.isnan(), 0.0, q).clamp(-100, 127).to(torch.int8)

    assert all(torch.equal(q, quantise(x)) for q in noisy(quantise, x))
    halves = noisy(lambda x: (torch.round(x) + 3) * 0.3, x)
    assert len({float(y[0]) for y in halves}) > 1  # and what is rounded is


def test_a_tie_is_one_where_nothing_is_rounded() -> None:
    x = torch.tensor([1.0, 3.0, -1.0, 5.0], dtype=torch.float64)
    halves = lambda x: torch.round(x / 2)  # noqa: E731
    assert len({tuple(y.tolist()) for y in noisy(halves, x)}) > 1
    assert {tuple(y.tolist()) for y in noisy(halves, x, strict=True)} == {(0.0, 2.0, 0.0, 2.0)}
    thirds = lambda x: torch.round(x / 3 + 1 / 6)  # noqa: E731 -- not a tie by all formulas
    assert len({tuple(y.tolist()) for y in noisy(thirds, x, strict=True)}) > 1


def test_of_equals_either_may_come_first_where_the_reference_sorts() -> None:
    operator = Operator("wick", "relu")
    case = operator.read_case("relu T:f32 N=40 values=ties")
    for stable in (False, True):
        call = subject_of(operator, lambda x, s=stable: x.argsort(stable=s)).prepare(case)
        samples = [s[0] for s in call.samples(call.expected(), 0, whole=True)]
        assert (len({tuple(s.tolist()) for s in samples}) == 1) == stable


def test_the_drift_of_equal_numbers_is_allowed() -> None:
    def added(x: torch.Tensor) -> torch.Tensor:
        sum = torch.zeros((), dtype=x.dtype)
        for value in x:
            sum = sum + value
        return sum

    x = torch.full((3000,), 0.7, dtype=torch.float64)
    up = added(x.float())
    with Noise(torch.finfo(torch.float32).eps, 0):
        at_random = (added(x) - added(x)).abs()
    with Noise(torch.finfo(torch.float32).eps, 0, drift=True):
        drifted = added(x)
    error = (up.double() - 2100).abs()
    assert error < 4 * (drifted - 2100).abs()
    assert error > 4 * at_random  # no luck: what is equal is rounded in one direction


def test_a_product_may_leave_the_range_on_its_way() -> None:
    x = torch.tensor([2.0] * 130 + [0.5] * 130, dtype=torch.float64)
    for drift in (False, True):
        with Noise(torch.finfo(torch.float32).eps, 0, drift):
            assert bool(x.prod().isnan()) == drift
            assert bool(x.cumprod(0)[-1].isnan()) == drift
            assert not x.cumprod(0)[:100].isnan().any()
