"""What is drawn: values of every kind, in every layout."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from parts import SCALE, drawn

from wick.check import draw
from wick.check.case import Case
from wick.check.forward import Forward


def test_the_same_seed_and_name_draw_the_same() -> None:
    a, b, c, d = (
        draw.values("normal", (9,), torch.float32, draw.generator(seed, name))
        for seed, name in ((1, "x"), (1, "x"), (2, "x"), (1, "y"))
    )
    assert torch.equal(a, b) and not torch.equal(a, c) and not torch.equal(a, d)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_profiles_are_what_they_promise(dtype: torch.dtype) -> None:
    info = torch.finfo(dtype)
    assert drawn("nan", dtype).isnan().any() and not drawn("nan", dtype).isinf().any()
    assert drawn("inf", dtype).isposinf().any() and drawn("inf", dtype).isneginf().any()
    special = drawn("special", dtype)
    zeros = special == 0
    assert (zeros & special.signbit()).any() and (zeros & ~special.signbit()).any()
    tiny = drawn("tiny", dtype).abs()
    assert ((tiny != 0) & (tiny < info.tiny)).any()
    assert ((tiny != 0) & (tiny < 3 * info.smallest_normal * info.eps)).any()  # the last ones
    assert (tiny >= info.tiny).any()
    assert drawn("positive", dtype).min() > 0
    assert drawn("ties", dtype).unique().numel() == 7
    zeros = drawn("zeros", dtype)
    assert not zeros.any() and zeros.signbit().any() and not zeros.signbit().all()
    assert drawn("constant", dtype).unique().numel() == 1
    # Near the limit only where sums have more room than the type.
    near = drawn("big", dtype).abs().max() > 0.5 * info.max
    assert bool(near) == (dtype == torch.float16)


def test_a_single_element_is_special_too() -> None:
    assert draw.values("nan", (1,), torch.float32, draw.generator(0, "x")).isnan().all()


def test_integers_are_indices_or_numbers() -> None:
    gen = draw.generator(0, "x")
    below = draw.values("normal", (500,), torch.int64, gen, below=7)
    assert below.min() == 0 and below.max() == 6
    assert draw.values("normal", (500,), torch.int32, gen).min() < 0
    wide = draw.values("big", (500,), torch.int8, gen)
    assert wide.min() < -100 and wide.max() > 100
    assert draw.values("big", (500,), torch.int64, gen).abs().max() < 100


@pytest.mark.parametrize("shape", [(), (1,), (5,), (3, 4), (2, 3, 4), (0, 3), (3, 0)])
@pytest.mark.parametrize("layout", [*draw.LAYOUTS, None])
@pytest.mark.parametrize("turn", range(6))
def test_a_layout_changes_neither_shape_nor_values(
    layout: Any, shape: tuple[int, ...], turn: int
) -> None:
    values = torch.randn(shape)
    made: list[torch.Tensor] = []

    def make(size: tuple[int, ...]) -> torch.Tensor:
        made.append(values if tuple(size) == shape else torch.randn(size))
        return made[-1]

    x = draw.arrange(layout, shape, make, turn)
    assert tuple(x.shape) == shape
    assert torch.equal(x, made[0].expand(shape))
    if layout == "expanded" and max(shape, default=0) > 1 and x.numel():
        assert 0 in x.stride()
    if layout in ("transposed", "sliced", "padded") and len(shape) == 2 and x.numel():
        assert not x.is_contiguous()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_nan_comes_with_all_kinds_of_bits(dtype: torch.dtype) -> None:
    whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    nan = drawn("nan", dtype)
    nan = nan[nan.isnan()]
    behind = nan.view(whole) & (round(1 / torch.finfo(dtype).eps) - 1)
    assert nan.signbit().any() and not nan.signbit().all()
    assert (
        (behind == 1).any() and (behind == behind.max()).sum() > 1 and behind.unique().numel() > 9
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_wide_values_lie_on_and_next_to_powers_of_two(dtype: torch.dtype) -> None:
    mantissa = drawn("wide", dtype).double().frexp().mantissa.abs()
    eps = torch.finfo(dtype).eps
    for wanted in (0.5, 0.5 + eps / 2, 1 - eps / 2):
        assert (mantissa == wanted).any()


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_some_wide_integers_are_one_if_they_are_cut(dtype: torch.dtype) -> None:
    x = draw.values("wide", (200,), dtype, draw.generator(1, "x"), -1)
    half = 2 ** (8 * dtype.itemsize // 2)
    assert (x % half).unique().numel() < x.unique().numel() - 5


def test_some_integers_are_those_that_are_asked_for() -> None:
    x = draw.with_some(torch.zeros(1000, dtype=torch.uint8), [7, 256, -1], draw.generator(1, "x"))
    assert x.unique().tolist() == [0, 7]  # the others are no bytes
    floats = torch.zeros(1000)
    assert draw.with_some(floats, [7], draw.generator(1, "x")) is floats
    exact = draw.with_some(floats.double(), [0.3, 0.7], draw.generator(1, "x"))
    assert {0.3, 0.7} < set(exact.tolist())


def test_in_f64_there_are_numbers_next_to_those_that_are_given() -> None:
    """Nearer than floats of 32 bits can tell."""
    case = Case(
        "scale_bias_relu", {"T": "f64"}, {"N": (40,), "C": 9}, {"scale": 0.3}, values="wide"
    )
    for kind, there in (("f64", True), ("f32", False)):
        (x, _, _) = Forward(SCALE, None, lambda _: None).prepare(case.but(types={"T": kind})).values
        near = x[(x.float() == torch.tensor(0.3)) & (x != 0.3)]
        assert (len(near.unique()) > 1) == there
