"""From a case to tensors: values and layouts, the same for the same seed."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence

import torch

PROFILES = {
    "normal": "normally distributed",
    "positive": "between 0.5 and 1.5, so that sums grow",
    "negative": "between -1.5 and -0.5",
    "wide": "magnitudes from 1/64 to 512, powers of 2 and their neighbours among them; integers of many bits",
    "offset": "far from 0 as compared with their spread",
    "ties": "small whole numbers, many of them equal",
    "constant": "all the same",
    "zeros": "all 0, some of them -0",
    "late": "0 but for the last hundred, and the largest at an odd place",
    "nan": "NaN here and there, with all kinds of bits",
    "inf": "infinities here and there",
    "special": "NaN, infinities, zeros of both signs, denormals and ends of the range here and there",
    "tiny": "about the smallest numbers of the type, and denormals down to the last",
    "big": "near the largest number of the type, where sums have more room than the type",
}
NOT_FINITE = ("nan", "inf", "special")
EXTREME = ("wide", "big")  # values of which a rounding may be larger than 1
LAYOUTS = {
    "transposed": "dims in reverse order in memory",
    "sliced": "every second element of the last dim",
    "padded": "rows further apart than they are long",
    "expanded": "one dim repeats the same memory, of which every second element may be used",
    "misaligned": "begins one element behind an aligned address",
}
# Drawing takes longer than computing: what is larger repeats itself after so many, a prime, so that an
# index that is off by a round number finds other values.
PERIOD = 262_147
REPEATED = ("normal", "positive", "wide", "offset", "ties")
LATE = 100
RUN = 24  # elements of "tiny" that are about as large: one that is larger hides what others are
FLOAT_JUNK, INT_JUNK = float("nan"), 77
_SAME_SIZE = {2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes


def generator(seed: int, name: str) -> torch.Generator:
    digest = hashlib.blake2b(f"{seed} {name}".encode(), digest_size=6).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "little"))


# ---- values ----


def _sprinkle(x: torch.Tensor, with_what: Sequence[float], gen: torch.Generator) -> torch.Tensor:
    """Replaces an eighth of the elements, one at least, and some that follow one another by the same:
    there are rows of nothing else."""
    n = x.numel()
    if n == 0:
        return x
    flat = x.view(-1)
    hit = torch.rand(flat.shape, generator=gen) < 0.125
    first = int(torch.randint(n, (), generator=gen))
    run = slice(first, first + max(1, n // 6))
    hit[run] = True
    which = torch.randint(len(with_what), flat.shape, generator=gen)
    which[run] = int(torch.randint(len(with_what), (), generator=gen))
    return torch.where(hit, torch.tensor(with_what, dtype=x.dtype)[which], flat).view(x.shape)


def _floats(
    profile: str, shape: tuple[int, ...], dtype: torch.dtype, gen: torch.Generator
) -> torch.Tensor:
    info = torch.finfo(dtype)
    inf, nan, denormal = float("inf"), float("nan"), info.tiny / 4
    if profile in ("positive", "negative"):
        drawn = torch.rand(shape, generator=gen, dtype=torch.float64) + 0.5
        return drawn if profile == "positive" else -drawn
    if profile == "ties":
        return torch.randint(-3, 4, shape, generator=gen).double()
    if profile == "constant":
        return torch.full(shape, 0.7, dtype=torch.float64)
    if profile == "zeros":
        return torch.where(torch.rand(shape, generator=gen) < 0.25, -0.0, 0.0).double()
    normal = torch.randn(shape, generator=gen, dtype=torch.float64)
    if profile == "wide":
        power = torch.exp2(torch.randint(-6, 10, shape, generator=gen).double())
        return torch.where(normal.abs() < 0.15, _near_powers(power, info.eps, gen), normal * power)
    if profile == "offset":
        return normal + 16
    if profile == "nan":
        return _sprinkle(normal, [nan], gen)
    if profile == "inf":
        return _sprinkle(normal, [inf, -inf], gen)
    if profile == "special":
        return _sprinkle(normal, [nan, inf, -inf, 0.0, -0.0, denormal, -denormal], gen)
    if profile == "tiny":
        runs = torch.randint(
            0, 2 - int(math.log2(info.eps)), (normal.numel() // RUN + 1,), generator=gen
        )
        below = torch.exp2(-runs.double()).repeat_interleave(RUN)[: normal.numel()]
        return normal * info.tiny * below.view(shape)
    if profile == "big" and dtype == torch.float16:
        sign = torch.where(normal < 0, -1.0, 1.0).double()
        return (
            sign * info.max * (torch.rand(shape, generator=gen, dtype=torch.float64) * 0.75 + 0.25)
        )
    return normal


def _near_powers(power: torch.Tensor, eps: float, gen: torch.Generator) -> torch.Tensor:
    """Powers of 2, of both signs, and what a type has next to them: steps are longer above than below."""
    factors = torch.tensor([1 - eps / 2, 1.0, 1 + eps], dtype=torch.float64)
    factors = torch.cat([factors, -factors])
    return power * factors[torch.randint(len(factors), power.shape, generator=gen)]


def _with_all_nan(x: torch.Tensor, gen: torch.Generator) -> torch.Tensor:
    """Of NaN there are many: any sign, and any bits behind the exponent but none at all."""
    whole = _SAME_SIZE[x.dtype.itemsize]
    bits = -int(math.log2(torch.finfo(x.dtype).eps))
    sign = torch.randint(2, x.shape, generator=gen).bool()
    behind = torch.randint(1, 2**bits, x.shape, generator=gen)
    few = torch.randint(4, x.shape, generator=gen)
    behind = torch.where(few == 0, 1, torch.where(few == 1, 2**bits - 1, behind))
    infinite = torch.where(sign, -math.inf, math.inf).to(x.dtype).view(whole)
    return torch.where(x.isnan(), (infinite | behind.to(whole)).view(x.dtype), x)


def _alike_when_cut(
    drawn: torch.Tensor, half: int, gen: torch.Generator, exact: bool
) -> torch.Tensor:
    """A quarter of them are numbers of which the lower half, or 16 bits, are often those of others. exact: f32
    holds all of them."""
    few = torch.randint(-3, 4, drawn.shape, generator=gen)
    above = torch.randint(-2, 3, drawn.shape, generator=gen)
    by_half = torch.rand(drawn.shape, generator=gen) < 0.5
    alike = torch.where(by_half, above * 2**half + few * (not exact), above * 2**16 + few)
    return torch.where(torch.rand(drawn.shape, generator=gen) < 0.25, alike, drawn)


def _integers(
    profile: str, shape: tuple[int, ...], dtype: torch.dtype, gen: torch.Generator, below: int
) -> torch.Tensor:
    """below: 0 for numbers that are computed with, -1 where nothing becomes a float, else indices
    below it."""
    info = torch.iinfo(dtype)
    if profile == "zeros":
        return torch.zeros(shape, dtype=torch.int64)
    if below > 0:
        below = min(below, info.max + 1)
        drawn = torch.randint(0, below, shape, generator=gen)
        if profile == "ties":  # few places, the last one among them
            few = torch.randint(0, below, (3,), generator=gen)
            few[0] = below - 1
            return few[drawn % 3]
        return drawn
    low, high = -20, 21
    if profile in ("positive", "constant"):
        low, high = 1, 10
    elif profile == "negative":
        low, high = (-9, 0) if info.min < 0 else (1, 10)
    elif profile == "ties":
        low, high = -3, 4
    elif profile == "big" and info.bits < 64:
        low, high = info.min, info.max + 1
    elif profile == "wide":
        most = 2**40 if info.bits == 64 and below < 0 else 2**20
        low, high = (-most, most) if info.bits > 16 else (info.min, info.max + 1)
    elif profile == "offset" and below < 0 and info.bits >= 32:  # neighbours that are one as floats
        most = 2**54 if info.bits == 64 else 2**25
        low, high = most - 3, most + 4
    drawn = torch.randint(max(low, info.min), min(high, info.max + 1), shape, generator=gen)
    if profile == "wide" and info.bits > 16:
        return _alike_when_cut(drawn, info.bits // 2, gen, exact=below == 0)
    if profile in ("big", "special") and info.bits < 64:
        return _sprinkle(drawn, [info.min, info.max, 0, max(info.min, -1)], gen)
    if profile == "special" and below < 0:
        some = [
            2**53 + 1,
            -(2**53) - 1,
            2**62 + 1,
            0,
            -1,
            info.min,
        ]  # the first three are no doubles
        return _sprinkle(drawn, some, gen)
    return drawn


def values(
    profile: str, shape: tuple[int, ...], dtype: torch.dtype, gen: torch.Generator, below: int = 0
) -> torch.Tensor:
    n = math.prod(shape)
    if profile == "late":
        x = torch.zeros(n, dtype=dtype)
        x[-LATE:] = values("positive", (min(n, LATE),), dtype, gen, below)
        if n > 1 and below <= 0:
            x[n - 1 - n % 2] = 20  # the largest has an odd place: no float beyond 2^24
        return x.view(shape)
    if n > PERIOD and profile in REPEATED:
        block = values(profile, (PERIOD,), dtype, gen, below)
        return block.repeat(-(-n // PERIOD))[:n].view(shape)
    if dtype.is_floating_point:
        drawn = _floats(profile, shape, dtype, gen).to(dtype)
        return _with_all_nan(drawn, gen) if profile == "nan" else drawn
    if dtype == torch.bool:
        share = {"zeros": 0.0, "constant": 1.0}.get(profile, 0.5)
        return torch.rand(shape, generator=gen) < share
    return _integers(profile, shape, dtype, gen, below).to(dtype)


def with_some(drawn: torch.Tensor, numbers: Sequence[float], gen: torch.Generator) -> torch.Tensor:
    """An eighth are those, as far as the type holds them: whole numbers, or in f64 others."""
    if drawn.dtype == torch.float64:
        held = torch.tensor(numbers, dtype=drawn.dtype)
    elif drawn.dtype.is_floating_point or drawn.dtype == torch.bool:
        return drawn
    else:
        info = torch.iinfo(drawn.dtype)
        held = torch.tensor([n for n in numbers if info.min <= n <= info.max], dtype=drawn.dtype)
    if not len(held):
        return drawn
    hit = torch.rand(drawn.shape, generator=gen) < 0.125
    return torch.where(hit, held[torch.randint(len(held), drawn.shape, generator=gen)], drawn)


def segments(shape: tuple[int, ...], dtype: torch.dtype, length: int) -> torch.Tensor:
    """Where segments begin and end that cut a length evenly."""
    cuts = torch.linspace(0, length, shape[-1] if shape else 1, dtype=torch.float64)
    return cuts.round().to(dtype).expand(shape).clone()


def from_end(places: torch.Tensor, size: int, gen: torch.Generator) -> torch.Tensor:
    """Half of them counted from the end, as far as the type goes."""
    counted = places.long() - size
    hit = torch.rand(places.shape, generator=gen) < 0.5
    hit &= counted >= torch.iinfo(places.dtype).min
    return torch.where(hit, counted.to(places.dtype), places)


def rising(drawn: torch.Tensor, last: int, whole: bool) -> torch.Tensor:
    """The same numbers in order. whole: from 0 to the last one, as some want it."""
    found = drawn.sort(-1).values if drawn.dim() else drawn
    if whole and found.dim() and found.shape[-1] > 1:
        found[..., 0], found[..., -1] = 0, min(last, torch.iinfo(found.dtype).max)
    return found


# ---- layouts ----


def _junk(shape: list[int], dtype: torch.dtype) -> torch.Tensor:
    """Memory with something in it that no result may depend on."""
    if dtype == torch.bool:
        return torch.ones(shape, dtype=dtype)
    return torch.full(shape, FLOAT_JUNK if dtype.is_floating_point else INT_JUNK, dtype=dtype)


def _order(dims: int, turn: int) -> list[int]:
    """In which they lie in memory: backwards, or two neighbours in each other's place."""
    order = list(range(dims))
    k = turn % dims
    if dims == 2 or k == dims - 1:
        return order[::-1]
    order[k : k + 2] = order[k + 1], order[k]
    return order


Make = Callable[[tuple[int, ...]], torch.Tensor]


def arrange(layout: str | None, shape: tuple[int, ...], make: Make, turn: int) -> torch.Tensor:
    """A tensor of that shape in that layout; make(shape) draws its values. turn: of the ways to lie so,
    which one; those of cases that follow one another do."""
    n = list(shape)
    if layout == "expanded":
        long = [d for d, size in enumerate(n) if size > 1]
        if long:
            d = long[turn % len(long)]
            inner = (None, "sliced")[turn // len(long) % 2]
            return arrange(inner, (*n[:d], 1, *n[d + 1 :]), make, turn).expand(shape)
    x = make(shape)
    if layout == "transposed" and len(n) > 1:
        order = _order(len(n), turn)
        there = torch.empty([n[d] for d in order], dtype=x.dtype)
        return there.permute([order.index(d) for d in range(len(n))]).copy_(x)
    if layout == "sliced" and n:
        return _junk([*n[:-1], 2 * n[-1] + 1], x.dtype)[..., 1 : 2 * n[-1] + 1 : 2].copy_(x)
    if layout == "padded" and n:
        return _junk([*n[:-1], n[-1] + 3], x.dtype)[..., : n[-1]].copy_(x)
    if layout == "misaligned":
        return _junk([x.numel() + 1], x.dtype)[1:].view(shape).copy_(x)
    return x
