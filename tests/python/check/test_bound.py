"""The bound: what is a rounding and what is a mistake."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from parts import SCALE

from wick.check import draw, guarded
from wick.check.backward import (
    MORE,
    Backward,
    _apart,
    _is_another,
    _lost,
    _moved,
    _Saved,
    _saved,
)
from wick.check.case import Case
from wick.check.compare import GRADIENT, RESULT, Leeway, judge
from wick.check.forward import Forward
from wick.check.operator import Operator
from wick.check.oracle import ByGradient, ByReference
from wick.check.reference import Reference


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


def steps(x: torch.Tensor, squared: bool = False) -> torch.Tensor:
    """Each of which makes errors larger: after 60 of them nothing is left of x in f32, and what is told of
    each, -1 or 1 most often, is the same by chance in several runs."""
    found = []
    for _ in range(120):
        x = 3.9 * x - 3.9 * x * x if squared else 3.9 * x * (1 - x)
        found.append(torch.tanh(40 * (x - 0.5)))
    return torch.stack(found)


@pytest.mark.parametrize("width", [1, 7, 500])
def test_errors_that_grow_beyond_a_result_are_nobodys(width: int) -> None:
    x = torch.rand(width, generator=torch.Generator().manual_seed(width))
    verdict = judged(steps, steps(x, squared=True), x)
    assert verdict.ok
    if width == 500:
        assert verdict.wild


def test_what_is_wrong_before_errors_have_grown_is_still_told() -> None:
    x = torch.rand(200, generator=torch.Generator().manual_seed(1))
    got = steps(x, squared=True)
    assert judged(steps, got, x).ok
    got[3] += 1e-3
    assert not judged(steps, got, x).ok
    assert not judged(steps, steps(x, squared=True).roll(1, 0), x).ok


def test_large_numbers_beside_it_excuse_nothing() -> None:
    """Of sums some may be off by much; the others may not."""
    x = torch.randn(300, 40, generator=torch.Generator().manual_seed(2))
    x[::2] *= 1e6
    x[::2, 0] -= x[::2].sum(1)  # cancels
    right = x.sum(1)
    assert judged(lambda x: x.sum(1), right, x).ok
    for row, off in ((1, 1e-2), (299, 0.1), (17, 1.0)):
        wrong = right.clone()
        wrong[row] += off
        verdict = judged(lambda x: x.sum(1), wrong, x)
        assert verdict.index == (row,) and not verdict.wild


def test_a_saved_output_is_moved_as_its_rounding_moved_it() -> None:
    """In a row of equal numbers all in one direction, and never by more than a rounding could."""
    exact = torch.full((41,), 1 / 41, dtype=torch.float64)
    value = exact.half()
    step = value.double() * torch.finfo(torch.float16).eps
    none = torch.zeros_like(exact)
    as_it_did = _moved(value, _Saved(exact, none), None).double() - value
    torch.testing.assert_close(as_it_did, MORE * (value - exact), atol=step[0], rtol=0)
    assert as_it_did.unique().numel() == 1 and as_it_did[0] != 0
    at_random = _moved(value, _Saved(exact, none), draw.generator(1, "y")).double() - value
    assert (at_random > 0).any() and (at_random < 0).any()
    far_off = _moved(value, _Saved(exact + 1, none), None).double() - value
    assert (far_off.abs() <= MORE * step + step).all()
    may_be = _moved(value, _Saved(exact + 1, none + 0.5), None).double() - value
    torch.testing.assert_close(may_be, none - MORE * 0.5, atol=0.01, rtol=0)


# The scores, what the backward makes of p = exp(score - lse), and for which x that hangs on lse's last bits.
LAST_BITS = {
    ("x", "p"): {3.0: False, 500.0: False, 1e7: True, 1e8: True},
    ("x * x", "p / total"): {3.0: False, 3e6: True},  # inf / inf, or 0 / 0, wherever lse is
}


@pytest.mark.parametrize("score, formula", LAST_BITS)
def test_what_hangs_on_the_last_bits_of_what_was_saved_is_told_by_other_calls(
    make: Any, score: str, formula: str
) -> None:
    """exp(x - lse): of scores of ten million f32 holds no fraction. Of those of a few it does."""
    made = make(
        '#include <math.h>\nWICK_OP(OP_forward, "x: T[N] -> y: T[], lse: A[] where T: f32 f64");\n'
        f"static double score(double x) {{ return {score}; }}\n"
        "WICK_IMPL wick_status OP_forward_cpu(wick_ctx *c, const T *x, T *y, A *lse, int64_t N)\n"
        "{ (void)c; double most = -1e300, sum = 0;\n"
        "  for (int64_t i = 0; i < N; i++) if (score(x[i]) > most) most = score(x[i]);\n"
        "  for (int64_t i = 0; i < N; i++) sum += exp(score(x[i]) - most);\n"
        "  *lse = (A)(most + log(sum)), *y = (T)*lse; return WICK_OK; }\n"
        'WICK_OP(OP_backward, "dy: T[], x: T[N], lse: A[] -> dx: T[N]");\n'
        "WICK_IMPL wick_status OP_backward_cpu(wick_ctx *c, const T *dy, const T *x, const A *lse,\n"
        "                                      T *dx, int64_t N)\n"
        "{ (void)c; double total = 0;\n"
        "  for (int64_t i = 0; i < N; i++) total += exp(score(x[i]) - *lse);\n"
        "  for (int64_t i = 0; i < N; i++) {\n"
        f"    double p = exp(score(x[i]) - *lse); dx[i] = (T)(*dy * {formula}); }}\n"
        "  (void)total; return WICK_OK; }\n"
    )
    operator = Operator("local", f"{made.name}_forward")

    def lse(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        lse = (x if score == "x" else x * x).logsumexp(-1)
        return lse, lse.detach()

    forward = Forward(operator, Reference("here", lse, None), lambda phase: None)
    backward = Backward(forward)
    call = backward.prepare(Case(operator.name, {"T": "f32"}, {"N": 3}, values="wide"))
    feeds = backward.gradient.feeds
    for at, lost in LAST_BITS[score, formula].items():
        x = torch.tensor([at, at - 0.3, at - 0.9])
        there = forward.prepare(Case(operator.name, {"T": "f32"}, {"N": 3}))
        there = replace(there, values=[x], oracle=None)
        saved = there.run().results[1]
        values = [x if source == "input" else v for (source, *_), v in zip(feeds, call.values)]
        values = [saved if s == "output" else v for (s, *_), v in zip(feeds, values)]
        found = _lost(call.but(values), feeds, _saved(there))
        assert bool(found[0].isinf().all()) == lost == bool(found[0].any()), at


def test_what_is_another_number_or_none() -> None:
    inf, nan = float("inf"), float("nan")
    a = torch.tensor([1.0, 1.0, 0.0, 0.0, inf, 1.0, inf, nan, nan], dtype=torch.float64)
    b = torch.tensor([1.4, 1.6, 0.0, 0.1, 0.0, nan, inf, 3.0, inf], dtype=torch.float64)
    wanted = [False, True, False, True, True, True, False, True, False]
    assert _is_another(a, b).tolist() == wanted


def test_what_a_rounding_makes_infinite_has_moved_to_the_end_of_the_range() -> None:
    inf, nan = float("inf"), float("nan")
    a = torch.tensor([1.0, inf, inf, 65000.0, nan, -inf], dtype=torch.float16)
    b = torch.tensor([2.0, inf, 65000.0, inf, 1.0, inf], dtype=torch.float16)
    assert _apart(a, b).tolist() == [1.0, 0.0, -512.0, 512.0, 0.0, 0.0]


def test_near_the_end_of_the_range_a_step_on_the_way_may_leave_it() -> None:
    """Four neighbours are added up, and then divided: the sum may be infinite where the mean is not."""

    def ok(got: float, expected: float, dtype: torch.dtype) -> bool:
        g = torch.tensor([got, 1.0], dtype=dtype)
        e = torch.tensor([expected, 1.0], dtype=torch.float64)
        working = torch.float64 if dtype == torch.float64 else torch.float32
        return judge(g, e, working, no_samples, False, RESULT).ok

    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        most = torch.finfo(dtype).max
        assert ok(math.inf, most / 4, dtype) and ok(math.nan, -most / 4, dtype)
        assert not ok(math.inf, most / 100, dtype) and not ok(0.0, most / 4, dtype)
    assert not ok(math.inf, 65504 / 4, torch.float16)  # f32 has room for all of it
    assert ok(1.7e308, math.inf, torch.float64) and not ok(1.7e308, -math.inf, torch.float64)
    assert not ok(1e306, math.inf, torch.float64) and not ok(3e38, math.inf, torch.float32)


def test_integers_are_as_large_as_nothing_rounds_them() -> None:
    def wide(below: int, dtype: torch.dtype) -> torch.Tensor:
        return draw.values("wide", (100,), dtype, draw.generator(1, "x"), below)

    def largest(below: int, dtype: torch.dtype) -> int:
        return int(wide(below, dtype).abs().max())

    assert largest(-1, torch.int64) > 2**33 and largest(0, torch.int64) == 2**33
    assert torch.equal(wide(0, torch.int64).float().long(), wide(0, torch.int64))
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


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_what_is_cut_off_is_not_rounded(dtype: torch.dtype) -> None:
    """Wherever between two powers of two it lies: half of a step is allowed there, and no more."""
    exact = torch.rand(4000, dtype=torch.float64) * 3 + 0.25
    rounded = exact.to(dtype)
    assert judge(rounded, exact, torch.float32, lambda turn: []).ok
    eps = torch.finfo(dtype).eps
    step = eps * 2 ** torch.floor(torch.log2(exact))
    cut = ((exact / step).floor() * step).to(dtype)
    verdict = judge(cut, exact, torch.float32, lambda turn: [])
    off = (cut != rounded) & ((exact / step).frac() > 0.51)
    assert verdict.wrong >= int(off.sum()) > 1000


def test_of_nan_the_sign_is_nobodys() -> None:
    """Nor are its other bits; zeros have theirs."""
    a = torch.tensor([math.nan, 1.0, 0.0], dtype=torch.float64)
    b = torch.tensor([-math.nan, 1.0, 0.0], dtype=torch.float64)
    assert guarded.alike([a, 3, None], [b, 3, None]) and not guarded.same([a], [b])
    for k, other in ((0, 0.0), (1, math.nan), (2, -0.0)):
        wrong = b.clone()
        wrong[k] = other
        assert not guarded.alike([a], [wrong]), k
