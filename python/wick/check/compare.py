"""A result against the reference: is every element within its bound?

    one rounding in the result's type  +  what rounding in the accumulator's precision may do

The second part is FREE roundings of the result itself and, where that is not enough, as many of the
largest result and what the reference differs by when it is computed with rounding errors (noise.py):
only then is it asked. Where few elements are further off than that, it is asked again: a few runs may
all have been lucky there.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

FREE = 8.0  # roundings in the accumulator's precision that need no explanation
# And so many of its smallest numbers are as good as 0: their squares are, and nothing is wider.
VANISHES = 16.0
# A result of more than this part of the range may have left it on the way.
NEAR_END = 1 / 64
PIECE = 1 << 18  # elements that are compared at a time: what fits into caches
TURNS = 5  # in which the reference is asked, at most
MUCH = 2.0  # times as many elements, or as far, as of runs with rounding errors: _Wild

Samples = Callable[[int], list[torch.Tensor]]  # of a turn


@dataclass(frozen=True)
class Leeway:
    """In f64 the reference is no better itself, and what is wrong, by a constant of single precision say, is
    so by far more."""

    free_f64: float  # as FREE
    times_f64: float  # as far as the samples: a few random runs do not meet the worst case
    times: float  # in types other than f64

    def free(self, wide: bool) -> float:
        return self.free_f64 if wide else FREE

    def times_samples(self, wide: bool) -> float:
        return self.times_f64 if wide else self.times


RESULT = Leeway(256, 16, 4)
# A backward by hand is seldom autograd's formula: exp(alpha + beta - loss) of a long path, say, cancels
# thousands of roundings, of which autograd's has none.
GRADIENT = Leeway(2**17, 64, 6)


@dataclass
class Verdict:
    """worst: the largest error as a share of what is allowed. index: of an element out of bounds."""

    worst: float = 0.0
    index: tuple[int, ...] | None = None
    got: float = 0.0
    expected: float = 0.0
    allowed: float = 0.0
    wrong: int = 0
    total: int = 0
    zero_signs: int = 0  # zeros whose sign is not the reference's
    wild: bool = False  # rounding errors have grown over it: not judged

    @property
    def ok(self) -> bool:
        return self.index is None


def unravel(flat: int, shape: torch.Size) -> tuple[int, ...]:
    index = []
    for size in reversed(shape):
        index.append(flat % size)
        flat //= size
    return tuple(reversed(index))


def _judge_exact(got: torch.Tensor, expected: torch.Tensor, samples: Samples) -> Verdict:
    """Integers and truths: equal, unless rounding decides which is right."""
    wanted = expected.to(got.dtype)
    wrong = got != wanted
    for turn in range(TURNS):
        if not _is_worth_asking(wrong, turn):
            break
        for sample in samples(turn):
            wrong &= sample.to(got.dtype) == wanted
    verdict = Verdict(wrong=int(wrong.sum()), total=got.numel())
    if verdict.wrong:
        flat = int(wrong.flatten().nonzero()[0])
        verdict.index = unravel(flat, got.shape)
        verdict.got, verdict.expected = (t.flatten()[flat].item() for t in (got, wanted))
        verdict.worst = float("inf")
    return verdict


def _is_worth_asking(wrong: torch.Tensor, turn: int) -> bool:
    """Once, whatever is wrong; further on while it is little."""
    most = wrong.numel() if turn == 0 else max(4, wrong.numel() // 100)
    return 0 < int(wrong.sum()) <= most


def _same_kind(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Both NaN, or both the same infinity, or both finite."""
    return (a.isnan() & b.isnan()) | (a == b) | (a.isfinite() & b.isfinite())


def _spread(expected: torch.Tensor, sample: torch.Tensor) -> torch.Tensor:
    apart = (sample - expected).abs()
    apart = torch.where(sample == expected, 0.0, apart)  # equal infinities
    apart = torch.where(sample.isnan() & expected.isnan(), 0.0, apart)
    return torch.where(_same_kind(sample, expected), apart, float("inf"))


def judge(
    got: torch.Tensor,
    expected: torch.Tensor,
    accumulator: torch.dtype,
    samples: Samples,
    lenient: bool = False,
    leeway: Leeway = RESULT,
) -> Verdict:
    """got: as computed. expected: in f64, or integers. samples(turn): the reference with rounding errors,
    called when elements are further off than what needs no explanation. lenient: where the reference
    is infinite or NaN, so may the result be, in whatever way."""
    if got.shape != expected.shape:
        raise ValueError(f"the reference returns shape {list(expected.shape)}")
    if not got.dtype.is_floating_point or not expected.dtype.is_floating_point:
        return _judge_exact(got, expected, samples)
    flat_got, flat_expected = got.reshape(-1), expected.reshape(-1)
    whole = Verdict(total=got.numel())
    for start in range(0, got.numel(), PIECE):
        part = slice(start, start + PIECE)

        def others(turn: int, part: slice = part) -> list[torch.Tensor]:
            return [s.reshape(-1)[part] for s in samples(turn)]

        piece, wanted = flat_got[part], flat_expected[part]
        if lenient:
            wanted = torch.where(piece.isfinite() | wanted.isfinite(), wanted, piece.double())
        verdict = _judge_piece(piece, wanted, accumulator, others, leeway)
        _merge(whole, verdict, start, got.shape)
    return whole


def _merge(whole: Verdict, piece: Verdict, start: int, shape: torch.Size) -> None:
    whole.worst = max(whole.worst, piece.worst)
    whole.wrong += piece.wrong
    whole.zero_signs += piece.zero_signs
    whole.wild |= piece.wild
    if piece.index is not None and whole.index is None:
        whole.index = unravel(start + piece.index[0], shape)
        whole.got, whole.expected, whole.allowed = piece.got, piece.expected, piece.allowed


def _allowed(e: torch.Tensor, kind: torch.finfo, unit: float) -> torch.Tensor:
    """One rounding in that type, and units of what is rounded."""
    half = kind.eps / 2
    if kind.bits > 16:  # units are more by far
        return e.abs().mul_(half + unit)
    # Half of a step, which is the same from one power of two to the next.
    power = e.contiguous().view(torch.int64).bitwise_and(0x7FF << 52).view(torch.float64)
    return power.mul_(half).add_(e.abs(), alpha=unit)


def _judge_piece(
    got: torch.Tensor,
    expected: torch.Tensor,
    accumulator: torch.dtype,
    samples: Samples,
    leeway: Leeway,
) -> Verdict:
    kind = torch.finfo(got.dtype)
    g, e = got.double(), expected.double()
    computed_in = accumulator if accumulator.is_floating_point else torch.float64
    wide = got.dtype == torch.float64
    unit = leeway.free(wide) * torch.finfo(computed_in).eps
    absolute = kind.smallest_normal * (VANISHES if wide else kind.eps)
    share = (g - e).abs_().div_(_allowed(e, kind, unit).add_(absolute))
    worst = float(share.max()) if share.numel() else 0.0
    if worst <= 1.0:  # most are: all finite and fine by themselves
        return Verdict(worst, total=got.numel(), zero_signs=_zero_signs(g, e))
    size = torch.where(e.isfinite(), e, 0.0).abs()
    allowed = _allowed(size, kind, unit) + absolute
    error = torch.where(g.isfinite() & e.isfinite(), (g - e).abs(), float("inf"))
    fine = (g == e) | (g.isnan() & e.isnan()) | (error <= allowed)
    # Too large for the type: infinite, or the largest number if it is just above that.
    fine |= (size > kind.max * (1 - kind.eps)) & (g.abs() >= kind.max) & (g.sign() == e.sign())
    fine |= (size > torch.finfo(computed_in).max * NEAR_END) & ~g.isfinite()
    if wide:  # and so may the reference's
        fine |= e.isinf() & (g.abs() > kind.max * NEAR_END) & (g.sign() == e.sign())
    # As far as the largest result could be off: formulas differ most where they cancel.
    by_itself, times = allowed + unit * size.max(), leeway.times_samples(wide)
    spread = torch.zeros_like(e)
    for turn in range(TURNS):
        if not _is_worth_asking(~fine, turn):
            break
        for sample in samples(turn):
            spread = torch.maximum(spread, _spread(e, sample.double()))
        allowed = by_itself + times * spread
        fine |= error <= allowed  # infinite, where right answers differ in kind
        fine |= ((g == math.inf) & (e + allowed > kind.max)) | (
            (g == -math.inf) & (e - allowed < -kind.max)
        )
    wrong = torch.where(fine, 0.0, error)
    may_be_wild = not fine.all() and float(wrong.max()) <= times * float(spread.max())
    if may_be_wild and _Wild(e, by_itself, times, samples).excuses(wrong):
        return Verdict(total=got.numel(), wild=True)
    return _verdict(got, g, e, error, allowed, ~fine)


class _Wild:
    """A result that rounding errors have grown over, of many steps each of which makes them larger, say: runs
    with such errors then differ from one another as much as they differ from what is right, here more
    and there, by chance, hardly at all. So each of some runs is judged as if an operator had computed
    it, by what the others allow, and nothing is held against an operator that does no worse."""

    def __init__(
        self, expected: torch.Tensor, by_itself: torch.Tensor, times: float, samples: Samples
    ) -> None:
        self.by_itself, self.times = by_itself, times
        first, *rest = (
            [_spread(expected, s.double()) for s in samples(turn)] for turn in range(TURNS)
        )
        self.first = first  # some of these are of another kind
        self.runs = [run for turn in rest for run in turn]

    def excuses(self, error: torch.Tensor) -> bool:
        if not self.runs:
            return False
        wrong, worst = self._count(error, [*self.first, *self.runs])
        as_bad = [
            self._count(run, [*self.first, *self.runs[:k], *self.runs[k + 1 :]])
            for k, run in enumerate(self.runs)
        ]
        most, farthest = (max(about) for about in zip(*as_bad))
        return wrong <= MUCH * most and worst <= MUCH * farthest

    def _count(self, error: torch.Tensor, others: list[torch.Tensor]) -> tuple[int, float]:
        """How many elements are out of bounds, and how many times as far as allowed the worst of them."""
        spread = functools.reduce(torch.maximum, others, torch.zeros_like(error))
        share = error / (self.by_itself + self.times * spread)
        share = share.nan_to_num(0.0, math.inf)  # what differs in kind is beyond all
        return int((share > 1).sum()), float(share.max())


def _zero_signs(g: torch.Tensor, e: torch.Tensor) -> int:
    """Of what is equal, only zeros can differ in bits."""
    bits = g.contiguous().view(torch.int64) != e.contiguous().view(torch.int64)
    return int((bits & (g == e)).sum())


def _verdict(
    got: torch.Tensor,
    g: torch.Tensor,
    e: torch.Tensor,
    error: torch.Tensor,
    allowed: torch.Tensor,
    wrong: torch.Tensor,
) -> Verdict:
    share = torch.nan_to_num((error / allowed).masked_fill(error.isinf(), 0.0), nan=0.0)
    verdict = Verdict(wrong=int(wrong.sum()), total=got.numel())
    verdict.worst = float(share.max()) if share.numel() else 0.0
    verdict.zero_signs = _zero_signs(g, e)
    if verdict.wrong:
        flat = int(torch.where(wrong, error, -1.0).flatten().argmax())
        verdict.index = unravel(flat, got.shape)
        verdict.got, verdict.expected, verdict.allowed = (
            float(t.flatten()[flat]) for t in (g, e, allowed)
        )
    return verdict
