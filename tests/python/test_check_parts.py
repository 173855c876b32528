"""The parts of `wick check`: cases, what is drawn, the bound, how cases are made smaller."""

from __future__ import annotations

import contextlib
import itertools
import math
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import wick
from wick.check import (
    answers,
    crew,
    device,
    draw,
    fences,
    guarded,
    loaded,
    phases,
    run,
    shrink,
    worker,
)
from wick.check.backward import MORE, Backward, _apart, _moved
from wick.check.call import Unfit, answered
from wick.check.case import Case, CaseError
from wick.check.compare import GRADIENT, RESULT, Leeway, judge
from wick.check.crew import Answer
from wick.check.finding import Result
from wick.check.forward import Forward
from wick.check.guarded import Manner
from wick.check.job import Job
from wick.check.judges import huge
from wick.check.judges.again import neighbours
from wick.check.judges.stream import _judge_together, _others
from wick.check.noise import Noise
from wick.check.operator import Operator
from wick.check.oracle import ByGradient, ByReference, Unanswered
from wick.check.pace import Pace, is_slow
from wick.check.plan import Planner, candidates
from wick.check.plan_huge import plan_huge
from wick.check.pointers import find_pointers
from wick.check.records import Subject, Target
from wick.check.reference import Reference, ReferenceError

SCALE = Operator("wick", "scale_bias_relu")


# ---- cases ----

CASE = Case(
    "scale_bias_relu",
    {"T": "f16"},
    {"N": (2, 3), "C": 17},
    {"scale": 0.5},
    {"x": "transposed"},
    values="nan",
    seed=7,
)


def test_a_case_is_read_as_it_is_printed() -> None:
    text = "scale_bias_relu T:f16 N=2x3 C=17 scale=0.5 x~transposed values=nan seed=7"
    assert CASE.text() == text
    assert SCALE.read_case(text) == CASE
    assert Case.unpack(CASE.pack()) == CASE
    none = CASE.with_dim("N", ())
    assert "N=() " in none.text() and SCALE.read_case(none.text()) == none


def test_an_argument_may_be_called_seed(make: Any) -> None:
    made = make(
        'WICK_OP(OP, "x: f32[N], seed: int = 3 -> y: f32[N]");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *x, int64_t s, float *y, int64_t N)\n"
        "{ (void)c, (void)x, (void)s, (void)y, (void)N; return WICK_OK; }\n"
    )
    operator = Operator("local", made.name)
    for seed in (0, 7):
        for scalars in ({}, {"seed": 0}, {"seed": 5}):
            case = Case(made.name, {}, {"N": 2}, scalars, seed=seed)
            assert operator.read_case(case.text()) == case, case.text()


def test_a_scalar_may_be_left_out_and_words_may_have_blanks(make: Any) -> None:
    made = make(
        "WICK_OP(OP, \"x: f32[N], by: float, how: str = 'a b %' -> y: f32[N]\");\n"
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *x, double by, const char *how, float *y,\n"
        "                             int64_t N)\n"
        "{ (void)c, (void)x, (void)by, (void)how, (void)y, (void)N; return WICK_OK; }\n"
    )
    operator = Operator("local", made.name)
    case = Case(made.name, {}, {"N": 2}, {"by": 0.5, "how": "a b %"})
    assert operator.read_case(case.text()) == case, case.text()
    call = Forward(operator, None, lambda phase: None).prepare(case.but(scalars={}))
    assert call.values[1:] == [1.0, "a b %"] and not call.run().refused


@pytest.mark.parametrize(
    "text, words",
    [
        ("scale_bias_relu T:f16 N=1", "the size of C is missing: C=1"),
        ("scale_bias_relu T:f16 N=1 C=two", "C=two: expected a size"),
        ("scale_bias_relu T:f16 N=1 C=2x3", "C=2x3: expected one size"),
        ("scale_bias_relu T:f16 N=1 C=1 scale=x", "scale=x: expected float"),
        ("scale_bias_relu T:f16 N=1 C=1 values=foo", "values=foo: expected normal, positive"),
        ("scale_bias_relu T:f16 N=1 C=1 x~foo", "x~foo: expected transposed, sliced"),
        ("scale_bias_relu T:f16 N=1 C=1 seed=x", "seed=x: expected int"),
        ("scale_bias_relu T:f16 N=1 C=1 K=2", "K=2 is no part of a case of scale_bias_relu"),
        ("scale_bias_relu T:i8 N=1 C=1", "T: is missing or none of f16, bf16, f32, f64"),
        ("scale_bias_relu N=1 C=1", "T: is missing or none of f16, bf16, f32, f64"),
    ],
)
def test_a_text_that_is_no_case_is_refused_in_words(text: str, words: str) -> None:
    with pytest.raises(CaseError) as caught:
        SCALE.read_case(text)
    assert str(caught.value).startswith(words)


# ---- what is drawn ----


def drawn(profile: str, dtype: torch.dtype, n: int = 4000) -> torch.Tensor:
    return draw.values(profile, (n,), dtype, draw.generator(1, "x"))


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
    tiny = drawn("tiny", dtype)
    assert ((tiny != 0) & (tiny.abs() < info.tiny)).any()
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


# ---- the bound ----


def judged(
    f: Any, got: torch.Tensor, *inputs: torch.Tensor, working: torch.dtype = torch.float32
) -> Any:
    """A result of f as an operator may have computed it, against f itself."""
    operator = Operator("wick", "relu")
    names = {"x": inputs[0]} if len(inputs) == 1 else {f"x{k}": v for k, v in enumerate(inputs)}
    reference = Reference("here", lambda **values: f(*values.values()), None)
    oracle = ByReference(operator, reference, names, working)
    exact = oracle.exact()
    return judge(got, exact[0], working, lambda turn: [s[0] for s in oracle.samples(exact, turn)])


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_a_gradient_may_have_a_limit_where_autograd_has_none(dtype: torch.dtype) -> None:
    """inf / inf in a formula taken apart; but a NaN that was given stays one."""
    x = torch.tensor([1.0, math.inf, -math.inf, math.nan, -2.0], dtype=dtype)
    dy = torch.tensor([1.0, 2.0, math.inf, 1.0, -1.0], dtype=dtype)
    operator, working = Operator("wick", "relu"), torch.promote_types(dtype, torch.float32)
    reference = Reference("here", lambda x: x / (1 + x.abs()), None)
    oracle = ByGradient(operator, reference, {"x": x}, [dy], ["x"], working)
    exact = oracle.exact()
    assert exact[0].isnan().tolist() == [False, True, True, True, False]

    def is_fine(got: torch.Tensor) -> bool:
        samples = lambda turn: [s[0] for s in oracle.samples(exact, turn)]  # noqa: E731
        return judge(got, exact[0], working, samples, lenient=True).ok

    got = (dy.double() / (1 + x.double().abs()) ** 2).to(dtype)
    assert got[1] == 0 and is_fine(got)
    for place in (0, 3, 4):
        wrong = got.clone()
        wrong[place] = 0.0
        assert not is_fine(wrong)


def test_a_saved_output_is_moved_as_its_rounding_moved_it() -> None:
    """In a row of equal numbers all in one direction, and never by more than a rounding could."""
    exact = torch.full((41,), 1 / 41, dtype=torch.float64)
    value = exact.half()
    step = value.double() * torch.finfo(torch.float16).eps
    as_it_did = _moved(value, exact, None).double() - value
    torch.testing.assert_close(as_it_did, MORE * (value - exact), atol=step[0], rtol=0)
    assert as_it_did.unique().numel() == 1 and as_it_did[0] != 0
    at_random = _moved(value, exact, draw.generator(1, "y")).double() - value
    assert (at_random > 0).any() and (at_random < 0).any()
    far_off = _moved(value, exact + 1, None).double() - value
    assert (far_off.abs() <= MORE * step + step).all()


def test_what_a_rounding_makes_infinite_has_moved_to_the_end_of_the_range() -> None:
    inf, nan = float("inf"), float("nan")
    a = torch.tensor([1.0, inf, inf, 65000.0, nan, -inf], dtype=torch.float16)
    b = torch.tensor([2.0, inf, 65000.0, inf, 1.0, inf], dtype=torch.float16)
    assert _apart(a, b).tolist() == [1.0, 0.0, -512.0, 512.0, 0.0, 0.0]


def test_integers_are_as_large_as_nothing_rounds_them() -> None:
    def largest(below: int, dtype: torch.dtype) -> int:
        x = draw.values("wide", (100,), dtype, draw.generator(1, "x"), below)
        return int(x.abs().max())

    assert largest(-1, torch.int64) > 2**33 and largest(0, torch.int64) < 2**21
    assert largest(-1, torch.int32) < 2**21 and largest(7, torch.int64) < 7
    assert not SCALE.is_whole({"T": "f32"})
    assert Operator("wick", "relu").is_whole({"T": "i64"})  # whatever else T may be


def no_samples(turn: int) -> list[torch.Tensor]:
    return []


HALVES = [torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("n", [16, 100, 4000])
def test_a_sum_kept_in_the_storage_type_does_not_pass(dtype: torch.dtype, n: int) -> None:
    x = (torch.rand(20, n) + 0.5).to(dtype)
    kept = torch.zeros(20, dtype=dtype)
    for k in range(n):
        kept = (kept.float() + x[:, k].float()).to(dtype)
    assert not judged(lambda v: v.sum(1), kept, x).ok
    assert judged(lambda v: v.sum(1), x.float().sum(1).to(dtype), x).ok


@pytest.mark.parametrize("constant", [False, True])
def test_a_long_sum_one_by_one_in_the_accumulator_passes(constant: bool) -> None:
    x = torch.full((200_000,), 0.1) if constant else torch.randn(200_000)
    total = torch.cumsum(x, 0, dtype=torch.float32)[-1]
    assert judged(lambda v: v.sum(), total, x).ok


@pytest.mark.parametrize(
    "f", [torch.sum, lambda v: v @ v, lambda v: (v * v).sum(), lambda v: v.cumsum(0)]
)
def test_a_long_sum_of_whole_numbers_is_exact(f: Any) -> None:
    """What is left out shows, as soon as it is more than a few roundings of the sum."""
    x = torch.randint(-3, 4, (300_007,)).float()
    right = f(x.double()).float()
    assert judged(f, right, x).ok
    assert not judged(f, right + 20, x).ok


@pytest.mark.parametrize("dtype", HALVES)
def test_two_roundings_do_not_pass(dtype: torch.dtype) -> None:
    x = torch.randn(3000).to(dtype)
    once, twice = (x.float() * 0.7 + 0.3).to(dtype), (x * 0.7).to(dtype).float() + 0.3
    f = lambda v: v * 0.7 + 0.3  # noqa: E731
    assert judged(f, once, x).ok
    assert not judged(f, twice.to(dtype), x).ok


@pytest.mark.parametrize(
    "f, plain",
    [
        (F.gelu, lambda x: 0.5 * x * (1 + torch.erf(x * math.sqrt(0.5)))),
        (F.silu, lambda x: x / (1 + torch.exp(-x))),
        (F.softplus, lambda x: torch.log1p(torch.exp(x))),
        (
            lambda x: F.layer_norm(x, (64,)),
            lambda x: (
                (x - x.mean(-1, keepdim=True))
                * (x.var(-1, correction=0, keepdim=True) + 1e-5).rsqrt()
            ),
        ),
        (
            lambda x: torch.softmax(x, -1),
            lambda x: (
                torch.exp(x - x.amax(-1, True)) / torch.exp(x - x.amax(-1, True)).sum(-1, True)
            ),
        ),
        (
            lambda x: x / x.norm(dim=-1, keepdim=True),
            lambda x: x * (x * x).sum(-1, keepdim=True).rsqrt(),
        ),
        (torch.tanh, lambda x: 1 - 2 / (torch.exp(2 * x) + 1)),
        (lambda x: x @ x.T, lambda x: (x[:, None] * x).sum(-1)),
    ],
    ids=["gelu", "silu", "softplus", "layer_norm", "softmax", "normalise", "tanh", "matmul"],
)
def test_another_formula_in_the_same_precision_passes(f: Any, plain: Any) -> None:
    torch.manual_seed(0)
    x = torch.randn(40, 64) * 3
    assert judged(f, plain(x), x).ok
    wrong = plain(x)
    wrong[3, 5] += 0.001 * wrong[3, 5].abs() + 1e-4
    assert not judged(f, wrong, x).ok
    assert judged(f, plain(x.double()), x.double(), working=torch.float64).ok
    assert not judged(f, plain(x).double(), x.double(), working=torch.float64).ok


def test_special_values_are_compared_in_kind() -> None:
    nan, inf = math.nan, math.inf
    e = torch.tensor([nan, inf, -inf, 1.0], dtype=torch.float64)

    def verdict(*values: float) -> bool:
        return judge(torch.tensor(values), e, torch.float32, no_samples).ok

    assert verdict(nan, inf, -inf, 1.0)
    assert not verdict(0.0, inf, -inf, 1.0)
    assert not verdict(nan, -inf, -inf, 1.0)
    assert not verdict(nan, 3e38, -inf, 1.0)
    assert not verdict(nan, inf, -inf, nan)
    assert not verdict(nan, inf, -inf, inf)


def test_what_is_too_large_for_the_type_is_infinite() -> None:
    big = torch.tensor([70000.0, -70000.0, 65504.0], dtype=torch.float64)
    assert judge(
        torch.tensor([math.inf, -math.inf, 65504], dtype=torch.half), big, torch.float32, no_samples
    ).ok
    assert not judge(
        torch.tensor([1000, -math.inf, 65504], dtype=torch.half), big, torch.float32, no_samples
    ).ok


def test_what_vanishes_when_squared_may_vanish_in_f64() -> None:
    """There is nothing wider; in f32 there is, and the reference is asked."""
    for dtype, accumulator, fine in (
        (torch.float64, torch.float64, True),
        (torch.float32, torch.float32, False),
    ):
        few = torch.tensor([8 * torch.finfo(dtype).tiny], dtype=torch.float64)
        assert judge(torch.zeros(1, dtype=dtype), few, accumulator, no_samples).ok == fine
        assert not judge(torch.zeros(1, dtype=dtype), 1000 * few, accumulator, no_samples).ok


@pytest.mark.parametrize(("leeway", "most"), [(RESULT, 16), (GRADIENT, 64)])
def test_in_f64_results_and_gradients_may_be_so_much_worse_than_samples(
    leeway: Leeway, most: int
) -> None:
    one, spread = torch.ones(1, dtype=torch.float64), 1e-10

    def off_by(times: float) -> bool:
        samples = [one + spread]
        return judge(one + times * spread, one, torch.float64, lambda _: samples, leeway=leeway).ok

    assert off_by(most - 1) and not off_by(most + 1)


def test_a_gradient_in_f64_may_cancel_what_autograds_does_not() -> None:
    """exp(alpha + beta - loss), where alpha is some thousands; a constant of single precision is worse."""
    one = torch.ones(1, dtype=torch.float64)
    for off, fine in ((2e-11, True), (1e-9, False)):
        assert judge(one + off, one, torch.float64, lambda _: [one], leeway=GRADIENT).ok == fine
        assert not judge(one + off, one, torch.float64, lambda _: [one]).ok


def test_where_a_tie_decides_either_is_right() -> None:
    x = torch.tensor([[1.0, 2.0, 2.0], [3.0, 1.0, 0.0]])
    assert judged(lambda v: v.argmax(-1), torch.tensor([2, 0]), x).ok
    assert judged(lambda v: v.argmax(-1), torch.tensor([1, 0]), x).ok
    assert not judged(lambda v: v.argmax(-1), torch.tensor([1, 1]), x).ok


def test_a_few_lucky_runs_do_not_decide() -> None:
    """What cancels is right by as much as rounding makes of it: in thousands of rows, some are always
    far off, and some of the reference's runs near."""
    x = torch.randn(400, 1).expand(400, 33) * 1000

    def f(v: torch.Tensor) -> torch.Tensor:
        return (v - v.mean(-1, keepdim=True)) * 300

    for seed in range(20):
        gen = torch.Generator().manual_seed(seed)
        exact = torch.zeros(x.shape, dtype=torch.float64)
        mean = x.double() * (1 + (torch.rand(400, 1, generator=gen) * 2 - 1) * 33 * 2.0**-24)
        assert judged(f, ((x.double() - mean) * 300).float(), x).ok, seed
        assert not judged(f, (exact + 1).float(), x).ok


def test_the_reference_is_asked_again_only_where_little_is_wrong() -> None:
    expected, asked = torch.zeros(1000, dtype=torch.float64), []

    def samples(turn: int) -> list[torch.Tensor]:
        asked.append(turn)
        return [expected]

    for wrong, turns in ((0, []), (1, [0, 1, 2, 3, 4]), (10, [0, 1, 2, 3, 4]), (11, [0])):
        got = expected.float()
        got[:wrong] = 1
        asked.clear()
        assert judge(got, expected, torch.float32, samples).wrong == wrong
        assert asked == turns
        asked.clear()
        assert judge(got.long(), expected.long(), torch.int64, samples).wrong == wrong
        assert asked == turns


def test_integers_are_exact() -> None:
    x = torch.tensor([200, 100], dtype=torch.uint8)
    f = lambda v: (v + v) // 2  # noqa: E731
    assert judged(f, x.clone(), x, working=torch.int64).ok
    assert not judged(f, (x + x) // 2, x, working=torch.int64).ok


def test_a_result_in_another_shape_is_told() -> None:
    with pytest.raises(ValueError, match=r"the reference returns shape \[3\]"):
        judge(torch.zeros(1), torch.zeros(3, dtype=torch.float64), torch.float32, no_samples)


# ---- references ----


def reference(function: Any) -> Reference:
    return Reference("ref.py", function, None)


def test_in_place_the_reference_writes_or_returns() -> None:
    operator = Operator("wick", "add_out")
    a, b = torch.ones(2), torch.full((2,), 2.0)

    def writes(a: Any, b: Any, out: Any) -> None:
        out.copy_(a + b)

    for function in (writes, lambda a, b, out: a + b):
        (result,) = reference(function)(operator, {"a": a, "b": b, "out": torch.zeros(2)})
        assert result.tolist() == [3, 3]


def test_a_reference_that_does_not_fit_is_told() -> None:
    operator = Operator("wick", "mul")
    with pytest.raises(ReferenceError, match=r"ref.py: mul takes no argument b"):
        reference(lambda a: a).check(operator)
    reference(lambda **inputs: 0).check(operator)
    with pytest.raises(ReferenceError, match=r"ref.py: mul returns 2 values, expected 1"):
        reference(lambda a, b: (a, b))(operator, {"a": 1, "b": 2})


# ---- subjects ----


def subject_of(operator: Operator, function: Any) -> Forward:
    return Forward(operator, reference(function), lambda phase: None)


def test_sizes_that_do_not_fit_are_no_case(make: Any) -> None:
    made = make(
        'WICK_OP(OP, "x: f32[S-3] -> y: f32[S]");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *x, float *y, int64_t S)\n"
        "{ (void)c, (void)x, (void)y, (void)S; return WICK_OK; }\n"
    )
    subject = Forward(Operator("local", made.name), None, lambda phase: None)
    with pytest.raises(Unfit):
        subject.prepare(Case(made.name, dims={"S": 1}))


def test_what_the_reference_refuses_is_outside() -> None:
    def refuses(x: Any) -> Any:
        raise IndexError("out of range")

    call = subject_of(Operator("wick", "relu"), refuses).prepare(
        Case("relu", {"T": "f32"}, {"N": (3,)})
    )
    with pytest.raises(Unanswered, match="out of range"):
        call.expected()


def test_the_backward_is_fed_as_autograd_feeds_it() -> None:
    operator = Operator("wick", "scale_bias_relu")
    forward = subject_of(operator, lambda x, bias, scale: torch.relu(x * scale + bias))
    case = Case("scale_bias_relu", {"T": "f32"}, {"N": (4,), "C": 5}, {"scale": 2.0})
    call = Backward(forward).prepare(case)
    assert [p.name for p in call.operator.inputs] == ["dy", "x", "bias", "scale"]
    assert call.values[3] == 2.0 and call.values[0].shape == (4, 5)
    got, expected = call.run().results, call.expected()
    for g, e in zip(got, expected):
        torch.testing.assert_close(g.double(), e)


def test_what_is_added_up_at_an_index_is_a_long_sum() -> None:
    x = torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
    at = torch.zeros(1000, dtype=torch.int64)
    with Noise(1e-7, 0):
        (dx,) = torch.autograd.grad(x[:, at].sum(), x)
    assert 1e-4 < (dx[0, 0] - 1000).abs() < 0.2 and dx[0, 1] == 0


def test_the_largest_is_one_of_them() -> None:
    x = torch.randn(50, dtype=torch.float64)
    with Noise(1e-7, 0):
        assert (x == x.amax()).sum() == 1 and (x * 1 != x).any()


# ---- guarded calls, and those on a device ----


@pytest.mark.parametrize("layout", [None, *draw.LAYOUTS])
def test_a_guarded_call_is_the_operators_own(layout: str | None) -> None:
    forward = subject_of(SCALE, lambda x, bias, scale: torch.relu(x * scale + bias))
    layouts = {} if layout is None else {"x": layout}
    case = Case("scale_bias_relu", {"T": "f32"}, {"N": (6,), "C": 5}, {"scale": 2.0}, layouts)
    call = forward.prepare(case)
    wanted = wick.ops.scale_bias_relu(*call.values)
    for manner in (Manner(), Manner(at_end=False, shift=1), Manner(repeats=5)):
        outcome = call.run(manner)
        assert not outcome.refused and not outcome.damage and outcome.differs == -1
        assert torch.equal(outcome.results[0], wanted)


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("can't allocate memory: 1 GB")])
def test_a_reference_that_runs_out_of_memory_when_asked_again_says_so(error: Exception) -> None:
    asked = []

    def hungry(x: torch.Tensor, bias: torch.Tensor, scale: float) -> torch.Tensor:
        asked.append(x)
        if len(asked) > 1:
            raise error
        return torch.relu(x * scale + bias)

    call = subject_of(SCALE, hungry).prepare(SCALE.read_case("scale_bias_relu T:f32 N=3 C=5"))
    expected = call.expected()
    with pytest.raises(MemoryError, match="the reference wants more than there is"):
        call.samples(expected, 0, False)


@pytest.mark.parametrize("name", ["scale_bias_relu", "add_out", "mul_backward", "reduce_sum"])
def test_the_way_of_devices_agrees_with_the_guarded_one(name: str) -> None:
    """On the CPU, which is a device as well."""
    operator = Operator("wick", name)
    case = next(Planner(operator, 0, ("f32",)).tiny(1))
    call = Forward(operator, None, lambda phase: None).prepare(case)
    here = device.run(
        operator, call.values, call.wanted, call.shapes, Manner(repeats=3), torch.device("cpu")
    )
    assert not here.refused and not here.damage and here.differs == -1
    assert guarded.same(here.results, call.run().results)


def test_what_a_device_does_not_support_is_no_refusal(make: Any) -> None:
    made = make(
        'WICK_OP(OP, "x: f32[N], how: int -> y: f32[N]");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *x, int64_t how, float *y, int64_t N)\n"
        '{ (void)x, (void)y, (void)N; return wick_fail(c, (wick_status)how, "no"); }\n'
    )
    operator = Operator("local", made.name)
    subject = Forward(operator, None, lambda phase: None)
    for status in (1, 2, 4):
        call = subject.prepare(operator.read_case(f"{made.name} N=3 how={status}"))
        what = (operator, call.values, call.wanted, call.shapes, Manner())
        assert device.run(*what, torch.device("cpu")).status == call.run().status == status


def test_one_element_with_any_stride_is_compared_on_a_device() -> None:
    operator = Operator("wick", "relu")
    subject = Forward(operator, None, lambda phase: None)
    for layout in draw.LAYOUTS:
        call = subject.prepare(operator.read_case(f"relu T:f16 N=1 x~{layout}"))
        what = (operator, call.values, call.wanted, call.shapes, Manner())
        assert not device.run(*what, torch.device("cpu")).damage


def test_a_kernel_that_fails_at_once_is_left_to_the_first_case(monkeypatch: Any) -> None:
    class Lost:
        def __init__(self, *about: Any) -> None:
            pass

        def prepare(self, case: Case) -> Any:
            raise device.DeviceLost("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(loaded, "Forward", Lost)
    there = loaded.Loaded.__new__(loaded.Loaded)
    there.device, there.phase = torch.device("cuda"), lambda phase: None
    assert there._runs_here(Operator("wick", "relu"))


@pytest.mark.parametrize(
    "words, ends", [("CUDA error: an illegal access", True), ("CUDA error: out of memory", False)]
)
def test_a_device_that_is_lost_ends_the_process_and_one_that_is_full_does_not(
    monkeypatch: Any, words: str, ends: bool
) -> None:
    def fails(request: Any) -> Any:
        raise RuntimeError(words)

    said: list[Any] = []
    child = worker.Child.__new__(worker.Child)
    child.loaded = type("Loaded", (), {"judge": staticmethod(fails)})
    monkeypatch.setattr(child, "say", said.append)
    monkeypatch.setattr(worker.os, "_exit", lambda code: said.append(code))
    answer = child.answer({"do": "judge"})
    assert said == ([{"crash": words}, 1] if ends else [])
    assert ends or answer == {"skipped": "out of memory"}


def test_beside_a_call_on_another_stream_others_are_computed() -> None:
    subject = Forward(SCALE, None, lambda phase: None)
    case = SCALE.read_case("scale_bias_relu T:f32 N=2 C=3 scale=0.5")
    call = subject.prepare(case)
    same, unlike = _others(subject, case)
    place = [p.name for p in SCALE.inputs].index("scale")
    assert same.values[place] == 0.5 and unlike.values[place] != 0.5
    for other in (same, unlike):
        assert other.values[0].shape == call.values[0].shape
        assert not torch.equal(other.values[0], call.values[0])
    relu = Operator("wick", "relu")
    case = relu.read_case("relu T:f32 N=2")
    assert len(list(_others(Forward(relu, None, lambda phase: None), case))) == 1


class NoStream:
    """Of torch.cuda, as much as is needed to make calls one after another."""

    def __init__(self, *_: Any) -> None:
        pass

    def wait_event(self, _: Any) -> None:
        pass

    def record(self) -> None:
        pass


@pytest.mark.parametrize("who", ["none", "call", "other"])
def test_calls_at_once_are_both_judged(monkeypatch: pytest.MonkeyPatch, who: str) -> None:
    for name in ("Stream", "Event"):
        monkeypatch.setattr(torch.cuda, name, NoStream)
    monkeypatch.setattr(torch.cuda, "stream", lambda _: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _: None)
    monkeypatch.setattr(torch.cuda, "_sleep", lambda _: None)
    operator = Operator("wick", "scale_bias_relu")
    subject = Forward(operator, None, lambda phase: None)
    case = operator.read_case("scale_bias_relu T:f32 N=2 C=3")
    call = subject.prepare(case)
    other = next(_others(subject, case))
    spoilt = {"none": None, "call": call, "other": other}[who]
    right = operator.function

    def function(*values: Any) -> Any:
        is_spoilt = spoilt is not None and torch.equal(values[0], spoilt.values[0])
        return right(*values) + is_spoilt

    operator.function = function
    result = Result()
    _judge_together(call, other, call.run().results, result)
    assert [f.kind for f in result.findings] == ([] if who == "none" else ["together"])


def test_sizes_that_could_be_taken_for_others() -> None:
    dims = {"N": (4, 2), "C": 6, "K": 8}
    found = list(neighbours(dims))
    assert {"N": (6,), "C": 8, "K": 8} in found, "as many elements, the other way round"
    assert {"N": (8,), "C": 8, "K": 6} not in found, "of N and C alone"
    assert {"N": (4, 2), "C": 8, "K": 6} in found
    for name, size in dims.items():
        alone = [d for d in found if all(d[n] == s for n, s in dims.items() if n != name)]
        assert len(alone) == 2 and all(d[name] != size for d in alone)
    assert list(neighbours({})) == []


def test_a_tensor_can_lie_at_either_end_of_a_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [torch.zeros(64, dtype=torch.uint8) for _ in range(4)]
    monkeypatch.setattr(fences, "fence", lambda index, slot: made[slot])
    operator = Operator("wick", "add_out")
    case = operator.read_case("add_out T:f32 N=7")
    call = Forward(operator, None, lambda phase: None).prepare(case)
    a, b, _ = call.values
    for at_end, where in ((True, slice(36, 64)), (False, slice(0, 28))):
        manner = Manner(fenced=True, at_end=at_end)
        what = (operator, call.values, call.wanted, call.shapes, manner)
        outcome = device.run(*what, torch.device("cpu"))
        assert not outcome.damage and torch.equal(outcome.results[0], a + b)
        assert torch.equal(made[0][where].view(torch.float32), a)
    case = operator.read_case("add_out T:f32 N=17")  # has no place there
    call = Forward(operator, None, lambda phase: None).prepare(case)
    what = (operator, call.values, call.wanted, call.shapes, manner)
    assert torch.equal(device.run(*what, torch.device("cpu")).results[0], sum(call.values[:2]))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_fences_that_cannot_be_had_say_why() -> None:
    assert "CUDA driver" in fences.problem(0)


def test_two_arguments_may_be_one_tensor_on_a_device() -> None:
    operator = Operator("wick", "add_out")
    case = operator.read_case("add_out T:f32 N=7 out~is-a")
    call = Forward(operator, None, lambda phase: None).prepare(case)
    a, b, out = call.values
    assert out is a
    what = (operator, call.values, call.wanted, call.shapes, Manner())
    outcome = device.run(*what, torch.device("cpu"))
    assert not outcome.damage and torch.equal(outcome.results[0], a + b)


@pytest.mark.parametrize("fill", guarded.FILLS)
def test_room_around_tensors_on_a_device_is_watched(fill: int) -> None:
    x = torch.arange(6.0).view(2, 3).t()
    there = device.place("x", x, torch.device("cpu"), shift=1, fill=fill)
    assert torch.equal(there.tensor, x) and there.tensor.stride() == x.stride()
    assert there.damage() == []
    flat = there.tensor.as_strided((1,), (1,), there.tensor.storage_offset() + 6)
    flat.fill_(1)
    assert there.damage() == ["it wrote right past the end of x"]


# ---- which cases ----


def test_inputs_that_are_only_read_may_be_the_same(make: Any) -> None:
    made = make(
        'WICK_OP(OP, "x: f32[M, D], y: f32[N, D], z: f32[D] -> d: f32[M, N]");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *x, const float *y, const float *z,\n"
        "                             float *d, int64_t M, int64_t D, int64_t N)\n"
        "{ (void)c, (void)x, (void)y, (void)z, (void)d, (void)M, (void)D, (void)N; return WICK_OK; }\n"
    )
    cases = list(Planner(Operator("local", made.name), 0).aliases())
    assert [case.values for case in cases] == ["normal", "special"]
    for case in cases:
        assert case.layouts == {"y": "is-x"} and case.dims["M"] == case.dims["N"]


def test_a_size_with_a_default_may_be_left_out_of_a_case(make: Any) -> None:
    made = make(
        'WICK_OP(OP, "x: f32[N], k: int = 3 -> y: f32[N, k]");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *x, int64_t k, float *y, int64_t N)\n"
        "{ (void)c, (void)x, (void)k, (void)y, (void)N; return WICK_OK; }\n"
    )
    operator = Operator("local", made.name)
    assert operator.read_case(f"{made.name} N=2").dims == {"N": 2, "k": 3}
    assert operator.read_case(f"{made.name} N=2 k=5").dims == {"N": 2, "k": 5}


def test_a_matrix_that_is_multiplied_with_itself_is_square(make: Any) -> None:
    made = make(
        'WICK_OP(OP, "a: f32[M, K], b: f32[K, N] -> y: f32[M, N]");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *a, const float *b, float *y,\n"
        "                             int64_t M, int64_t K, int64_t N)\n"
        "{ (void)c, (void)a, (void)b, (void)y, (void)M, (void)K, (void)N; return WICK_OK; }\n"
    )
    cases = list(Planner(Operator("local", made.name), 0).aliases())
    assert [case.values for case in cases] == ["normal", "special"]
    for case in cases:
        assert case.layouts == {"b": "is-a"} and len(set(case.dims.values())) == 1


def test_large_sizes_are_odd_and_also_such_that_packs_fit() -> None:
    for seed in range(5):
        cases = [c.dims for c in Planner(SCALE, seed).streaming()]
        packed = [d for d in cases if d["C"] % 16 == 0 and d["C"] // 16 % 2]
        assert packed and len(packed) < len(cases)
        assert all(math.prod(d["N"]) * d["C"] > 4_000_000 for d in packed)
    rows = {case.dims["C"] for case in plan_huge(SCALE, packs=True)}
    assert rows == {3, 16}


def test_bytes_are_any_number_where_the_reference_can_say_no(make: Any) -> None:
    made = make(
        'WICK_OP(OP, "x: u8[N, K], i: i32[N] -> y: i32[N]");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const uint8_t *x, const int32_t *i, int32_t *y,\n"
        "                             int64_t N, int64_t K)\n"
        "{ (void)c, (void)x, (void)i, (void)y, (void)N, (void)K; return WICK_OK; }\n"
    )
    operator = Operator("local", made.name)
    for known in (True, False):
        subject = Forward(
            operator, reference(lambda x, i: x) if known else None, lambda phase: None
        )
        largest = {"x": 0, "i": 0}
        for seed in range(6):
            case = Case(made.name, dims={"N": 3, "K": 500}, seed=seed)
            for name, value in zip(("x", "i"), subject.prepare(case).values):
                largest[name] = max(largest[name], int(value.max()))
        assert largest["i"] == 2 and largest["x"] == (255 if known else 2)


@pytest.mark.parametrize(
    "function, is_data",
    [
        (lambda x, n: (x.abs() % 7 + n.sum() * 0, n * 1), True),
        (lambda x, n: (x.new_tensor(range(99))[x], n * 1), False),  # a table
    ],
)
def test_whole_numbers_that_may_be_anything_are(make: Any, function: Any, is_data: bool) -> None:
    """If the reference takes them, and they have all of the dims: lengths have not."""
    made = make(
        'WICK_OP(OP, "x: i32[N, M], n: i16[N] -> y: i64[N, M], z: i64[N]");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const int32_t *x, const int16_t *n, int64_t *y,\n"
        "                             int64_t *z, int64_t N, int64_t M)\n"
        "{ (void)c, (void)x, (void)n, (void)y, (void)z, (void)N, (void)M; return WICK_OK; }\n"
    )
    subject = subject_of(Operator("local", made.name), function)
    assert subject.numbers == ({"x"} if is_data else set())
    case = Case(made.name, {}, {"N": 30, "M": 40}, values="wide", seed=1)
    x, n = subject.prepare(case).values
    assert (int(x.min()) < -1000) == is_data
    assert int(n.min()) >= 0 and int(n.max()) < 30


def test_dims_are_swapped_with_their_neighbours_as_well_as_reversed() -> None:
    orders = set()
    for turn in range(3):
        x = draw.arrange("transposed", (2, 3, 5), torch.rand, turn)
        assert tuple(x.shape) == (2, 3, 5)
        orders.add(tuple(sorted(range(3), key=lambda d: -x.stride(d))))
    assert orders == {(2, 1, 0), (1, 0, 2), (0, 2, 1)}


def test_each_dim_repeats_the_same_memory_dense_and_not() -> None:
    ways = {draw.arrange("expanded", (3, 4), torch.rand, turn).stride() for turn in range(4)}
    assert ways == {(0, 1), (0, 2), (1, 0), (3, 0)}


def test_cases_of_threads_and_leaks_have_odd_values_too() -> None:
    plan = Planner(Operator("wick", "relu"), 0)
    assert {c.values for c in plan.few((7, 700))} == {"normal", "special"}
    assert {c.values for c in plan.few((7, 700), plain=True)} == {"normal"}


def test_integers_that_no_double_holds_are_tried() -> None:
    gen = draw.generator(0, "x")
    drawn = draw.values("special", (999,), torch.int64, gen, below=-1)
    assert (drawn.double().long() != drawn).any()


def test_every_case_fits_and_every_kind_of_size_is_there() -> None:
    for seed in range(3):
        plan = Planner(SCALE, seed)
        cases = [*plan.sizes(), *plan.values(), *plan.layouts(), *plan.choices(), *plan.large()]
        for case in cases:
            SCALE.plan(case)
        sizes = {case.dims["C"] for case in cases}
        assert {0, 1, 2, 7, 15, 16, 17, 31, 33, 255, 257, 1025, 4097, 65537} <= sizes
        assert {c.types["T"] for c in cases} == {"f16", "bf16", "f32", "f64"}
        assert set(draw.LAYOUTS) <= {v for c in cases for v in c.layouts.values()}
        assert {c.values for c in cases} >= {"normal", "nan", "inf", "special", "tiny", "zeros"}
        assert all(c.values != "big" or c.types["T"] == "f16" for c in cases)
        leading = {c.dims["N"] for c in cases}
        assert {(), (0,), (2, 3), (2, 0, 3)} <= leading


def test_every_choice_of_every_scalar_is_tried(make: Any) -> None:
    made = make(
        "WICK_OP(OP, \"x: f32[N], s: float, m: 'p'|'q'|'r', k: int = 7, b: bool = true -> y: f32[N]\");\n"
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *x, double s, int m, int64_t k, bool b,\n"
        "                             float *y, int64_t N)\n"
        "{ (void)c, (void)x, (void)k, (void)s, (void)b, (void)m, (void)y, (void)N; return WICK_OK; }\n"
    )
    operator = Operator("local", made.name)
    cases = list(Planner(operator, 0).choices())
    for p in operator.scalars:
        assert set(candidates(p)) <= {c.scalars.get(p.name, p.default) for c in cases}, p.name
    assert candidates(operator.scalars[2])[0] == 7


def test_huge_cases_are_huge() -> None:
    for name in ("relu", "scale_bias_relu", "reduce_sum", "reduce_sum_dim", "mul_backward"):
        operator = Operator("wick", name)
        cases = plan_huge(operator)
        assert len(cases) == (
            2 if name == "reduce_sum_dim" else 1
        )  # what is summed up is long as well
        for case in cases:
            assert case.types == {"T": "f32"}
            assert 2**31 < _most_elements(operator, case) < 2**31 + 2**23, name
        first, *others = plan_huge(operator, unsigned=True)
        assert 2**32 < _most_elements(operator, first) < 2**32 + 2**23, name
        assert others == cases[1:]


def test_huge_cases_are_of_types_that_are_asked_for_and_quick_or_small() -> None:
    operator = Operator("wick", "scale_bias_relu")

    def types(**about: Any) -> set[str]:
        return {case.types["T"] for case in plan_huge(operator, **about)}

    assert types() == {"f32"}  # nothing is converted
    assert types(packs=True) == {"f16"}  # on a GPU, where memory is what it is
    assert types(asked=("f64", "bf16")) == {"f64"}
    assert types(asked=("bf16",)) == types(asked=("bf16",), packs=True) == {"bf16"}
    assert types(asked=("i8",)) == {"f32"}  # it has none of these


def _most_elements(operator: Operator, case: Case) -> int:
    inputs, outputs, _, _ = operator.plan(case)
    return max(math.prod(a[0]) for a in (*inputs, *outputs) if a)


def test_how_long_a_huge_call_takes_is_found_out_without_a_trace(make: Any) -> None:
    made = make(
        'WICK_OP(OP, "y!: f32[V], x: f32[N] -> ()");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, float *y, const float *x, int64_t V, int64_t N)\n"
        "{ (void)c; for (int64_t i = 0; i < N && V > 0; i++) y[0] += x[i]; return WICK_OK; }\n"
    )
    subject = Forward(Operator("local", made.name), None, lambda phase: None)
    case = Case(made.name, {}, {"V": 1, "N": 2**31})
    tail = [torch.tensor([0.5]), torch.ones(4099)]
    assert 0 < huge._seconds_for(subject, case, "N", tail) < 1000
    assert tail[0].item() == 0.5


def test_dims_that_nothing_ties_together_are_huge_each(make: Any) -> None:
    made = make(
        'WICK_OP(OP, "x: f32[N], y: f32[M], w: f32[M, C], K: int -> z: f32[K]");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *x, const float *y, const float *w,\n"
        "                             int64_t K, float *z, int64_t N, int64_t M, int64_t C)\n"
        "{ (void)c, (void)x, (void)y, (void)w, (void)z, (void)N, (void)M, (void)C, (void)K;\n"
        "  return WICK_OK; }\n"
    )

    def large(packs: bool) -> list[str]:
        cases = plan_huge(Operator("local", made.name), packs)
        return sorted(name for c in cases for name, size in c.dims.items() if size > 2**29)

    assert large(packs=False) == ["C", "K", "M", "N"]  # no result has C: it is summed up
    assert sorted(set(large(packs=True))) == ["K", "M", "N"]


def test_sizes_of_many_dims_are_not_all_large_at_once(make: Any) -> None:
    made = make(
        'WICK_OP(OP, "x: f32[B, C, H, W], w: f32[O, C, K, L] -> y: f32[B, O, H-K+1, W-L+1]");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *x, const float *w, float *y, int64_t B,\n"
        "                             int64_t C, int64_t H, int64_t W, int64_t O, int64_t K, int64_t L)\n"
        "{ (void)c, (void)x, (void)w, (void)y, (void)B, (void)C, (void)H, (void)W, (void)O, (void)K, (void)L;\n"
        "  return WICK_OK; }\n"
    )
    operator = Operator("local", made.name)
    cases = list(Planner(operator, 0).sizes())
    fit = [case for case in cases if operator.fits(case)]
    assert max(case.numel for case in fit) <= 1_000_000_000
    assert sorted(case.numel for case in fit)[-len(fit) // 50] <= 50_000_000  # but for windows
    for name in operator.dims:  # a window of 513 needs as much room
        assert 513 in {case.dims[name] for case in fit}
    results = [operator.plan(case)[1][0][0] for case in fit]
    for axis in range(4):  # 100 columns are left, however long the row was
        assert {*range(131), 768} <= {shape[axis] for shape in results}
    for pair in itertools.combinations(operator.dims, 2):
        assert any(min(case.dims[name] for name in pair) >= 70 for case in fit), pair


def test_a_dim_that_leaves_a_whole_number_is_huge_as_well(make: Any) -> None:
    made = make(
        'WICK_OP(OP, "x: f32[R, C], w?: f32[C] -> v: f32[R], at: i64[R]");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *x, const float *w, float *v, int64_t *at,\n"
        "                             int64_t R, int64_t C)\n"
        "{ (void)c, (void)x, (void)w, (void)v, (void)at, (void)R, (void)C; return WICK_OK; }\n"
    )
    operator = Operator("local", made.name)
    assert operator.counted_dims == ["C"]
    assert [case.dims["C"] > 2**31 for case in plan_huge(operator)] == [False, True]
    counted = list(Planner(operator, 0).counted())
    assert {case.dims["C"] > 2**24 for case in counted} == {True}
    assert {case.values for case in counted} == {"positive", "late", "zeros"}
    assert [case.values for case in counted if case.absent == ("w",)] == ["zeros"]


def test_a_place_for_every_element_is_beyond_what_a_float_counts_too(make: Any) -> None:
    made = make(
        'WICK_OP(OP, "x: f32[*N, L] -> at: i64[*N, L]");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *x, int64_t *at, int64_t N, int64_t L)\n"
        "{ (void)c, (void)x, (void)at, (void)N, (void)L; return WICK_OK; }\n"
    )
    operator = Operator("local", made.name)
    assert operator.counted_dims == [] and operator.placed_dims == ["L"]
    assert {case.dims["L"] > 2**24 for case in Planner(operator, 0).counted()} == {True}


def test_places_in_what_is_huge_are_of_every_type_that_holds_them(make: Any) -> None:
    made = make(
        'WICK_OP(OP, "x: f32[N, C], at: U[N], S: int -> y: f32[S, C] where U: i32 i64");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *x, const U *at, int64_t S, float *y,\n"
        "                             int64_t N, int64_t C)\n"
        "{ (void)c, (void)x, (void)at, (void)y, (void)N, (void)C, (void)S; return WICK_OK; }\n"
    )
    cases = plan_huge(Operator("local", made.name))
    assert {(c.types["U"], c.dims["S"] > 2**29) for c in cases} == {
        ("i64", True),
        ("i32", True),
        ("i64", False),
    }
    assert all(c.dims["S"] < 2**31 for c in cases)


def test_a_size_that_an_int_gives_is_its_default_in_huge_cases(make: Any) -> None:
    """Those of a row may have to be more than it."""
    made = make(
        'WICK_OP(OP, "x: f32[*N, L], q: int, p: int = 2 -> y: f32[*N, L+2*p+q]");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *x, int64_t q, int64_t p, float *y,\n"
        "                             int64_t N, int64_t L)\n"
        "{ (void)c, (void)x, (void)q, (void)p, (void)y, (void)N, (void)L; return WICK_OK; }\n"
    )
    for case in plan_huge(Operator("local", made.name)):
        assert (case.dims["p"], case.dims["q"]) == (2, 1)


@pytest.mark.parametrize(
    ("function", "large"),
    [
        (lambda x, k, n: x * k + n % 7, {"k", "n"}),
        (lambda x, k, n: sum(x for _ in range(k)) + n, {"n"}),  # as many times
        (lambda x, k, n: x + torch.arange(k).sum() + n, {"n"}),  # as many elements
        (lambda x, k, n: x + len([0 for _ in range(k)]) + n, {"n"}),  # torch does not see these
        (lambda x, k, n: x[k % 2 : -n or None], {"k"}),
    ],
)
def test_ints_may_be_large_where_that_is_no_more_to_do(
    make: Any, function: Any, large: set[str]
) -> None:
    made = make(
        'WICK_OP(OP, "x: f64[N], k: int, n: int = 1 -> y: f64[N]");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const double *x, int64_t k, int64_t n, double *y,\n"
        "                             int64_t N)\n"
        "{ (void)c, (void)x, (void)k, (void)n, (void)y, (void)N; return WICK_OK; }\n"
    )
    if large == {"k"}:  # whose n is refused when it is out of bounds

        def checked(x: torch.Tensor, k: int, n: int = 1) -> torch.Tensor:
            if n > 100:
                raise ValueError("n is too large")
            return x * k

        function = checked
    operator = Operator("local", made.name)
    subject = subject_of(operator, function)
    assert subject.large_ints == large
    cases = list(Planner(operator, 0).choices(subject.large_ints))
    for name in ("k", "n"):
        largest = max(c.scalars.get(name, 0) for c in cases)
        assert (largest > 2**53) == (name in large), name


def test_sizes_are_tried_without_optional_inputs_as_well(make: Any) -> None:
    made = make(
        'WICK_OP(OP, "x: f32[N, C], a?: f32[C], b?: f32[C] -> y: f32[N, C]");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *x, const float *a, const float *b,\n"
        "                             float *y, int64_t N, int64_t C)\n"
        "{ (void)c, (void)x, (void)a, (void)b, (void)y, (void)N, (void)C; return WICK_OK; }\n"
    )
    plan = Planner(Operator("local", made.name), 0)
    cases = [*plan.sizes(), *plan.values()]
    for some in (("a",), ("b",), ("a", "b")):
        sizes = {c.dims["C"] for c in cases if set(c.absent) == set(some)}
        assert len(sizes) > 12 and max(sizes) > 1000, some
    assert {c.values for c in cases if c.absent} == {c.values for c in cases}
    few = list(plan.few((0, 7, 700, 70_000)))  # what leaks and threads are judged by
    assert {c.dims["C"] for c in few if c.absent} >= {7, 70_000} and any(not c.absent for c in few)


def test_every_kind_of_values_is_tried_where_a_result_is_not_wanted(make: Any) -> None:
    made = make(
        'WICK_OP(OP, "x: f32[N] -> y: f32[N], at?: i64[N]");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *x, float *y, int64_t *at, int64_t N)\n"
        "{ (void)c, (void)x, (void)y, (void)at, (void)N; return WICK_OK; }\n"
    )
    plan = Planner(Operator("local", made.name), 0)
    cases = [*plan.sizes(), *plan.values()]
    assert {c.values for c in cases if c.unwanted} == {c.values for c in cases}
    assert len({c.dims["N"] for c in cases if c.unwanted}) > 12


def test_what_takes_long_takes_it_so_often_and_no_more() -> None:
    """A reference that goes step by step is given some time, and then no longer rows."""
    pace = Pace()

    def sized(length: int) -> Case:
        return Case("scale_bias_relu", {"T": "f32"}, {"N": (1,), "C": length})

    def takes(seconds: float, length: int) -> None:
        pace.took("values", sized(length), seconds, 0.0)

    def is_left_out(length: int) -> bool:
        assert not pace.why_not("threads", sized(length))
        return bool(pace.why_not("values", sized(length)))

    for _ in range(1000):
        takes(0.9, 500)  # not long
    for _ in range(13):
        takes(3.0, 1000)
    assert not is_left_out(3000) and not is_left_out(10**6)  # of which nobody knows
    assert is_left_out(4000)  # it would take more than ten seconds
    takes(3.0, 800)
    assert is_left_out(800) and is_left_out(1000) and not is_left_out(799)
    takes(3.0, 60)
    assert not is_left_out(60)


def test_gradients_behind_an_absent_input_keep_their_places() -> None:
    x, z, dy = torch.randn(3), torch.randn(3), torch.randn(3)
    reference = Reference("here", lambda x, b, z: x * 2 + (0 if b is None else b) + z * 3, None)
    inputs = {"x": x, "b": None, "z": z}
    oracle = ByGradient(SCALE, reference, inputs, [dy], ["x", "b", "z"], torch.float32)
    dx, db, dz = exact = oracle.exact()
    assert db is None and oracle.reached == {"x", "z"}
    torch.testing.assert_close([dx, dz], [2 * dy.double(), 3 * dy.double()])
    for sample in oracle.samples(exact):
        assert sample[1] is None
        torch.testing.assert_close(sample[2].double(), dz, rtol=1e-5, atol=1e-5)


def test_what_a_formula_divides_by_need_not_be_nan() -> None:
    """torch's gradient of cumprod divides by x, though that of an element does not hang on it."""
    x = torch.tensor([1.043, math.nan, -0.32], dtype=torch.float64)
    dy = torch.tensor([0.7, 0.0402, 1.4648], dtype=torch.float64)
    reference = Reference("here", lambda x: x.cumprod(-1), None)
    oracle = ByGradient(Operator("wick", "relu"), reference, {"x": x}, [dy], ["x"], torch.float64)
    exact = oracle.exact()
    (dx,) = exact
    assert dx.isnan().tolist() == [True, True, True]
    found = [s[0] for s in oracle.samples(exact)]
    right = 1.043 * (0.0402 - 0.32 * 1.4648)
    assert any(abs(f[1] - right) < 1e-12 and f[[0, 2]].isnan().all() for f in found)


def test_what_a_mask_leaves_out_need_not_be_nan() -> None:
    """Autograd multiplies it by 0. A gradient that NaN does matter to is NaN in every voice."""
    x = torch.tensor([math.nan, math.nan, 1.5, math.inf])
    mask, dy = torch.tensor([False, True, True, False]), torch.ones(4)

    def right(rows: slice) -> tuple[list[Any], list[list[Any]]]:
        inputs = {"x": x[rows], "scale": torch.tensor(2.0)}
        reference = Reference("here", lambda x, scale: masked_rows(x, scale, rows), None)
        oracle = ByGradient(SCALE, reference, inputs, [dy[rows]], list(inputs), torch.float32)
        exact = oracle.exact()
        return exact, oracle.samples(exact)

    def masked_rows(x: torch.Tensor, scale: torch.Tensor, rows: slice) -> torch.Tensor:
        return torch.where(mask[rows], (x * scale) ** 2, 0.0)

    (dx, dscale), samples = right(slice(0, 4))
    assert dx.isnan().tolist() == [True, True, False, True] and bool(dscale.isnan())
    assert any(s[0].isnan().tolist() == [False, True, False, False] for s in samples)
    assert all(bool(s[1].isnan()) for s in samples)
    (_, dscale), samples = right(slice(2, 4))  # its sum has nothing but what is left out
    assert bool(dscale.isnan()) and any(float(s[1]) == 2 * 2.0 * 1.5**2 for s in samples)


def test_what_a_forward_leaves_out_need_not_be_nan() -> None:
    """0 times NaN is NaN for who multiplies. What NaN matters to, be it as the largest, is NaN."""
    mask = torch.tensor([0.0, 1.0, 0.0])
    x = torch.tensor([[math.nan, 2.0, 1.0], [math.inf, 2.0, 1.0], [1.0, math.nan, 1.0]])

    def regardless(f: Any) -> list[float]:
        oracle = ByReference(SCALE, Reference("here", f, None), {"x": x}, torch.float32)
        return [float(v) for v in oracle.regardless(oracle.exact())[0]]

    def same(found: list[float], wanted: list[float]) -> bool:
        return torch.allclose(torch.tensor(found), torch.tensor(wanted), equal_nan=True)

    assert same(regardless(lambda x: (x * mask).sum(-1)), [2.0, 2.0, math.nan])
    assert same(regardless(lambda x: x.amax(-1)), [math.nan, math.inf, math.nan])
    assert same(regardless(lambda x: x.relu().sum(-1)), [math.nan, math.inf, math.nan])
    assert same(regardless(lambda x: (1e4 * x).clamp(0, 1).sum(-1)), [math.nan, 3.0, math.nan])


def test_what_is_nan_because_of_infinities_may_be_infinite() -> None:
    """Another formula may not subtract them. What is NaN because of NaN may not."""
    x = torch.tensor([math.inf, math.inf, math.nan, 1.0])
    y = torch.tensor([math.inf, math.nan, math.inf, 1.0])
    reference = Reference("here", lambda x, y: x - y, None)
    oracle = ByReference(SCALE, reference, {"x": x, "y": y}, torch.float32)
    exact = oracle.exact()
    assert exact[0].isnan().tolist() == [True, True, True, False]
    endless = torch.full((4,), math.inf)
    assert oracle.may_be_infinite(0, endless).tolist() == [True, False, False, False]
    call = Forward(SCALE, None, lambda phase: None).prepare(CASE)
    call.oracle = oracle
    got = torch.tensor([math.inf, math.inf, 5.0, 1.0])
    found = call.instead_of_nan(exact, 0, got)
    assert found.isnan().tolist() == [False, True, True, False] and found[0] == math.inf


def test_what_is_left_out_beside_infinities_may_be_infinite() -> None:
    """0 times NaN, as at the border of a convolution, where a loop leaves it out."""
    w = torch.tensor([math.nan, 1.0, 2.0])
    x = torch.tensor([[-math.inf, 1.0], [2.0, 1.0], [-math.inf, math.nan]])
    reference = Reference("here", lambda x, w: F.pad(x, (1, 0)) @ w, None)
    oracle = ByReference(SCALE, reference, {"x": x, "w": w}, torch.float32)
    assert oracle.exact()[0].isnan().all()
    assert oracle.may_be_infinite(0, torch.full((3,), -math.inf)).tolist() == [True, False, False]
    assert not oracle.may_be_infinite(0, torch.full((3,), math.inf)).any()


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


def test_two_dims_are_large_at_once() -> None:
    plan = Planner(Operator("wick", "reduce_sum_dim"), 0, ("f32",))
    sizes = [
        [s if isinstance(s, int) else max(s, default=1) for s in c.dims.values()]
        for c in plan.sizes()
    ]
    assert any(sorted(s)[-2] > 256 for s in sizes)
    assert any(s[-1] == s[-2] > 64 for s in sizes)


def test_two_dims_are_not_too_large_at_once(make: Any) -> None:
    made = make(
        'WICK_OP(OP, "x: f32[H, W], k: int = 2 -> y: f32[H*k, W*k]");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *x, int64_t k, float *y, int64_t H, int64_t W)\n"
        "{ (void)c, (void)x, (void)k, (void)y, (void)H, (void)W; return WICK_OK; }\n"
    )
    operator = Operator("local", made.name)
    cases = list(Planner(operator, 0).sizes())
    made_of = [c.dims["H"] * c.dims["W"] * c.dims["k"] ** 2 for c in cases]
    assert max(made_of) < 8_000_000
    assert any(c.dims["k"] > 64 and c.dims["W"] > 64 for c in cases)


def test_more_rows_than_a_gpu_takes_at_once() -> None:
    cases = list(Planner(SCALE, 0).looping())
    assert [c.dims for c in cases] == [{"N": (85714,), "C": 70}, {"N": (70,), "C": 85714}]


def test_flags_are_tried_at_all_sizes_and_values(make: Any) -> None:
    made = make(
        "WICK_OP(OP, \"x: f32[N], m: 'p'|'q' = 'p', b: bool = false, k: int = 7 -> y: f32[N]\");\n"
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *x, int m, bool b, int64_t k, float *y,\n"
        "                             int64_t N)\n"
        "{ (void)c, (void)x, (void)k, (void)b, (void)m, (void)y, (void)N; return WICK_OK; }\n"
    )
    plan = Planner(Operator("local", made.name), 0)
    for cases, key in ((list(plan.sizes()), "N"), (list(plan.values()), "values")):
        other = [c for c in cases if c.scalars.get("m") == "q" and c.scalars["b"]]
        keys = {c.dims["N"] if key == "N" else c.values for c in other}
        assert len(keys) > 3 and len(other) < len(cases) / 2
        assert all("k" not in c.scalars for c in cases)


def test_numbers_that_the_reference_takes_are_tried_at_all_sizes(make: Any) -> None:
    made = make(
        'WICK_OP(OP, "x: f32[N], mode: int = 1, eps: float = 0.5 -> y: f32[N]");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *x, int64_t mode, double eps, float *y,\n"
        "                             int64_t N)\n"
        "{ (void)c, (void)x, (void)mode, (void)eps, (void)y, (void)N; return WICK_OK; }\n"
    )

    def function(x: torch.Tensor, mode: int = 1, eps: float = 0.5) -> torch.Tensor:
        if mode not in (0, 1):
            raise ValueError("mode must be 0 or 1")
        return x * mode + torch.tensor(eps).sqrt()

    operator = Operator("local", made.name)
    taken = subject_of(operator, function).taken
    assert taken == {"mode": [1, 0], "eps": [0.5, 1.0, 2.0, 1.5, 0.0, 3.3, 0.3]}
    plan = Planner(operator, 0, (), taken)
    for cases in (list(plan.sizes()), list(plan.large())):
        assert all(c.scalars.get("mode", 1) in (0, 1) for c in cases)
        assert sum(not c.scalars for c in cases) > len(cases) / 2
    for name in ("mode", "eps"):
        sizes = {c.dims["N"] for c in plan.sizes() if name in c.scalars}
        assert max(sizes) > 4096 and len(sizes) > 20, name
    assert any(c.scalars for c in plan.large())
    assert plan.draw_scalars()["mode"] in (0, 1)


def test_a_process_that_stopped_itself_waits_for_ever(monkeypatch: Any) -> None:
    monkeypatch.setattr(crew, "IDLE", 0.2)
    there = subprocess.Popen(["sh", "-c", "kill -STOP $$"])
    try:
        watch = crew._Watch(phases.Phases(phases.make()), pid=there.pid)
        watch.look()
        end = time.monotonic() + 30
        while not watch.stuck() and time.monotonic() < end:
            time.sleep(0.05)
        assert watch.stuck()
    finally:
        there.kill()
        there.wait()


@pytest.mark.parametrize(
    ("work", "slow"),
    [
        (lambda n, m: 1e-9 * n * m * m, True),  # 13 s, given 10
        (lambda n, m: 1e-6 * n, False),  # a loop: it would have been done at once
        (lambda n, m: None if n > 600 else 1e-6, False),
        (lambda n, m: None, False),
        (
            lambda n, m: None if n * m * m > 4e9 else 1e-9 * n * m * m,
            True,
        ),  # half is too long as well
    ],
)
def test_what_is_slow_is_told_from_what_hangs_by_less_of_it(work: Any, slow: bool) -> None:
    case = Case("op", {}, {"N": (2, 3250), "M": 2000})

    def call_of(smaller: Case) -> float | None:
        return work(smaller.length("N"), smaller.length("M"))

    assert is_slow(case, 10.0, call_of) == slow
    assert not is_slow(case.but(dims={"N": (1,), "M": 2}), 10.0, call_of)


def test_dims_that_may_not_be_longer_than_others_are_asked_about(make: Any) -> None:
    made = make(
        'WICK_OP(OP, "x: f32[*N, C], k: int = 1 -> y: f32[*N, k]");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *x, int64_t k, float *y, int64_t N,\n"
        "                             int64_t C)\n"
        "{ (void)c, (void)x, (void)k, (void)y, (void)N, (void)C; return WICK_OK; }\n"
    )
    operator = Operator("local", made.name)
    bounded = subject_of(operator, lambda x, k=1: torch.topk(x, k)[0]).bounded
    assert bounded == {("k", "C")}
    assert subject_of(operator, lambda x, k=1: x[..., :1].expand(*x.shape[:-1], k)).bounded == set()
    square = subject_of(
        operator, lambda x, k=1: x.view(*x.shape[:-1], k)
    ).bounded  # as long, no less
    assert square == set()
    plan = Planner(operator, 0, bounded=bounded)
    swept = [c.dims for c in (*plan.sizes(), *plan.values(), *plan.tiny(9)) if operator.fits(c)]
    longer = [dims for dims in swept if dims["k"] > dims["C"]]
    assert len(longer) < len(swept) / 50  # a C of 0
    assert {100, 513, 768} <= {dims["k"] for dims in swept}
    assert any(dims["C"] > dims["k"] > 500 for dims in swept)
    assert any(c.dims["k"] > c.dims["C"] for c in plan.together(True))  # to see that nobody crashes


def test_small_sizes_and_usual_ints_come_together(make: Any) -> None:
    made = make(
        'WICK_OP(OP, "x: T[B, S*P+K-S-2*pad], w: T[K, O], pad: int = 0, S: int = 1, s: float = 1.0"\n'
        '            " -> y: T[B, P, O] where T: f32 f64");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const T *x, const T *w, int64_t pad, int64_t S,\n"
        "                             double s, T *y, int64_t B, int64_t P, int64_t K, int64_t O)\n"
        "{ (void)c, (void)x, (void)w, (void)pad, (void)S, (void)s, (void)y, (void)B, (void)P, (void)K;\n"
        "  (void)O; return WICK_OK; }\n"
    )
    operator = Operator("local", made.name)
    cases = [c for c in Planner(operator, 0).together(True) if operator.fits(c)]
    ways = [(c.dims["K"] == 1, c.dims["pad"] == 0, c.dims["S"] > 1) for c in cases]
    assert ways.count((True, True, True)) > 1
    assert {bool(c.scalars) for c in cases} == {True, False}
    assert max(c.numel for c in cases) < 10**7


def test_a_reference_that_takes_long_is_asked_about_less() -> None:
    asked = []

    def slow(x: torch.Tensor, bias: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        asked.append(x.shape[-1])
        end = time.process_time() + (0.4 if x.shape[-1] >= 1000 else 0)
        while time.process_time() < end:
            pass
        return torch.relu(x * scale + bias)

    subject = subject_of(SCALE, slow)
    case = Case(SCALE.name, {"T": "f32"}, {"N": (2,), "C": 1000})
    assert answered(subject, case).values[0].shape[-1] == 1000 and asked == [1000]
    for length in (1000, 5000):
        assert answered(subject, case.with_dim("C", length)).values[0].shape[-1] == length
    assert answered(subject, case.with_dim("C", 999)) and asked == [1000, 125, 125, 999]


def test_a_division_at_which_the_reference_crashes_is_no_mistake_of_anybody() -> None:
    job = Job(Subject(Target(None), "op", "op", "", "", None, ""), "values", [])
    case = Case("op", {}, {})
    read = answers.read(job, case, Answer(phase="reference", status=-signal.SIGFPE))
    assert read.skipped and read.given_up is None and read.result is None
    read = answers.read(job, case, Answer(phase="reference", status=-signal.SIGSEGV))
    assert read.given_up is not None


def test_what_is_cheap_comes_before_what_is_large() -> None:
    subject = Subject(Target(None), "op", "op", "", "", None, "")

    def rank(judge: str, n: int) -> int:
        return run._rank(Job(subject, judge, [Case("op", {}, {"N": 3}), Case("op", {}, {"N": n})]))

    order = [("values", 9), ("leaks", 9), ("values", 10**6), ("huge", 2**31)]
    assert [rank(*about) for about in order] == sorted({rank(*about) for about in order})


def test_whole_numbers_that_are_one_as_floats() -> None:
    gen = draw.generator(0, "x")
    for dtype, narrow in ((torch.int64, torch.float64), (torch.int32, torch.float32)):
        drawn = draw.values("offset", (99,), dtype, gen, below=-1)
        assert len(drawn.unique()) == 7 and len(drawn.to(narrow).unique()) < 7
    assert draw.values("offset", (99,), torch.int64, gen, below=4).max() < 4


def test_sizes_that_people_use_are_tried() -> None:
    cases = list(Planner(SCALE, 0).sizes())
    for name in ("N", "C"):
        tried = {c.dims[name] if name == "C" else math.prod(c.dims[name]) for c in cases}
        assert tried >= {*range(131), 200, 500, 768, 5000, 10_000, 100_000}, name


def test_a_window_has_a_row_to_lie_in(make: Any) -> None:
    made = make(
        'WICK_OP(OP, "x: f32[L], w: f32[K], dil: int = 1 -> y: f32[L-dil*K+dil]");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *x, const float *w, int64_t dil, float *y,\n"
        "                             int64_t L, int64_t K)\n"
        "{ (void)c, (void)x, (void)w, (void)dil, (void)y, (void)L, (void)K; return WICK_OK; }\n"
    )
    operator = Operator("local", made.name)
    for size in (2, 40, 513):
        assert operator.fits(Case(made.name, {}, Planner(operator, 0).dims.around("K", size))), size
    assert all(operator.fits(case) for case in plan_huge(operator))


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


# ---- inputs that are places ----

TABLE = """WICK_OP(OP, "table: T[V, D], at: i64[N] -> y: T[N, D] where T: f32 f64");
WICK_IMPL wick_status OP_cpu(wick_ctx *c, const T *table, const int64_t *at, T *y, int64_t V,
                             int64_t D, int64_t N)
{ (void)c, (void)table, (void)at, (void)y, (void)V, (void)D, (void)N; return WICK_OK; }
"""


def rows(table: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return table[at]


def rows_by_mask(table: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return (at[:, None] == torch.arange(len(table))).double() @ table


def cross_entropy(table: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return table.log_softmax(0)[at]


def nothing(table: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return at.double()[:, None] + torch.zeros(table.shape[1])


def scaled(table: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    """Hangs on V, and yet is no place there."""
    return (at.double()[:, None] + 1) * len(table) + torch.zeros(table.shape[1])


@pytest.mark.parametrize(
    "function, pointers",
    [
        (rows, {"at": "V"}),
        (rows_by_mask, {"at": "V"}),
        (cross_entropy, {"at": "V"}),
        (nothing, {}),
        (scaled, {}),
    ],
)
def test_what_an_index_is_for_is_asked_of_the_reference(
    function: Any, pointers: dict[str, str], make: Any
) -> None:
    operator = Operator("local", make(TABLE).name)
    forward = Forward(operator, Reference("here", function, None), lambda _: None)
    assert forward.pointers == pointers
    case = Case(operator.name, {"T": "f32"}, {"V": 70_000, "D": 2, "N": 500})
    (_, at) = forward.prepare(case).values
    assert (int(at.max()) > 60_000) == bool(pointers)


SECTIONS = """\
WICK_OP(OP, "x: f32[M, C], at: i64[S+1] -> y: f32[S, C]");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const float *x, const int64_t *at, float *y, int64_t M, int64_t C, int64_t S)
{
    (void)x, (void)at, (void)y, (void)M, (void)C, (void)S;
    return wick_fail(ctx, WICK_ENOTSUP, "never called");
}
"""


def sections(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    if at[0] < 0 or at[-1] > len(x) or bool((at.diff() < 0).any()):
        raise ValueError("not in order, or outside")
    return torch.stack([x[a:b].sum(0) for a, b in zip(at.tolist(), at.tolist()[1:])])


def whole_sections(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    if at[0] != 0 or at[-1] != len(x):
        raise ValueError("not all of x")
    return sections(x, at)


def any_sections(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return torch.stack([x[a:b].sum(0) for a, b in zip(at.tolist(), at.tolist()[1:])])


@pytest.mark.parametrize(
    "function, offsets",
    [(sections, {"at": "M"}), (whole_sections, {"at": "M"}), (any_sections, {})],
)
def test_where_sections_begin_is_asked_of_the_reference(
    function: Any, offsets: dict[str, str], make: Any
) -> None:
    operator = Operator("local", make(SECTIONS).name)
    forward = Forward(operator, Reference("here", function, None), lambda _: None)
    assert forward.offsets == offsets
    for seed, values in ((1, "normal"), (2, "ties"), (4, "late")):
        case = Case(operator.name, {}, {"M": 900, "C": 1, "S": 20}, values=values, seed=seed)
        call = forward.prepare(case)
        at = call.values[1]
        if offsets:
            assert at[0] == 0 and at[-1] == 900 and bool((at.diff() >= 0).all())
            call.expected()
        else:
            assert values == "late" or bool((at.diff() < 0).any())


BAGS = """\
WICK_OP(OP, "table: f32[V, D], which: i64[L], at: i64[B+1] -> y: f32[B, D]");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const float *table, const int64_t *which, const int64_t *at, float *y, int64_t V, int64_t D, int64_t L, int64_t B)
{
    (void)table, (void)which, (void)at, (void)y, (void)V, (void)D, (void)L, (void)B;
    return wick_fail(ctx, WICK_ENOTSUP, "never called");
}
"""


def test_an_index_beside_sections_is_found_too(make: Any) -> None:
    """It has an answer only where the sections fit."""

    def bags(table: torch.Tensor, which: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return whole_sections(table[which], at)

    operator = Operator("local", make(BAGS).name)
    forward = Forward(operator, Reference("here", bags, None), lambda _: None)
    assert (forward.offsets, forward.pointers) == ({"at": "L"}, {"which": "V"})


def test_what_is_a_float_points_nowhere() -> None:
    operator = Operator("wick", "scale_bias_relu_learned")
    reference = Reference("here", lambda x, bias, scale: torch.relu(x * scale + bias), None)
    assert find_pointers(operator, reference, {}) == {}


# ---- smaller cases ----


def test_the_smallest_case_is_found() -> None:
    def fails(case: Case) -> bool:
        return case.dims["C"] >= 13 and math.prod(case.dims["N"]) >= 1 and case.values == "nan"

    start = Case(
        "op",
        {"T": "f32"},
        {"N": (5, 4, 3), "C": 1000},
        {"s": 0.5},
        {"x": "sliced"},
        values="nan",
        seed=99,
    )
    smallest = shrink.shrink(start, fails, seconds=60)
    assert smallest == Case("op", {"T": "f32"}, {"N": (), "C": 13}, values="nan")


@pytest.mark.parametrize("culprit", ["nan", "inf"])
def test_one_odd_value_is_told_rather_than_many(culprit: str) -> None:
    """And the size is one at which the values of no particular seed will do."""

    def fails(case: Case) -> bool:
        few = 2 if case.seed == 56 else 3
        return case.dims["C"] >= few and case.values in (culprit, "special")

    start = Case("op", {"T": "f32"}, {"C": 23}, values="special", seed=56)
    smallest = shrink.shrink(start, fails, seconds=60)
    assert smallest == Case("op", {"T": "f32"}, {"C": 3}, values=culprit)


def test_shrinking_stops_when_its_attempts_are_used_up() -> None:
    tried = []

    def fails(case: Case) -> bool:
        tried.append(case)
        return False

    start = Case("op", dims={"N": 10**9})
    assert shrink.shrink(start, fails, attempts=10) == start
    assert len(tried) == 10


def test_nothing_of_it_is_imported_with_wick(tmp_path: Path) -> None:
    from support import run_python

    said = run_python(
        "import wick, sys; print(any(m.startswith('wick.check') for m in sys.modules))"
    )
    assert said.strip() == "False"
