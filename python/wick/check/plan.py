"""Which cases: every size near a boundary, every value that is special, every layout and scalar.

Cases are those of the forward; the backward is judged on the same ones. Sizes vary one dim at a time,
the others stay small; values, layouts and scalars vary over a few sizes.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from .case import Case, Size
from .draw import LAYOUTS, NOT_FINITE, PROFILES
from .operator import DTYPES, NUMBERS, Operator, Parameter, candidates
from .sizes import DRAWS, MOST_WORK, Sizes, in_packs

SMALL = range(36)
PLAIN = 18  # sizes less than that once more without any optional input: often there is a faster way then
EDGES = (
    *(47, 48, 49, 61, 63, 64, 65, 97, 127, 128, 129, 191, 255, 256, 257, 383, 511, 512, 513),
    *(769, 1000, 1023, 1024, 1025, 2047, 2049, 3001, 4095, 4096, 4097, 8193, 16385, 32769),
)
# Each of these in one of the types: what is wrong for a single size is so whatever the type. Those that
# people use in the widest as well, where little is enough to be seen.
ONCE = tuple(n for n in range(36, 131) if n not in EDGES)
USUAL = (
    *(144, 150, 160, 192, 196, 200, 224, 250, 300, 320, 384, 400, 500, 600, 640, 700, 768, 800),
    *(900, 960, 999, 1200, 1280, 1500, 1536, 1920, 2000, 2048, 2500, 3000, 3072, 4000, 5000, 6000),
    *(7000, 8000, 8192, 9999, 10_000, 12_288, 16_384, 20_000, 32_768, 50_000, 65_536, 100_000),
)
LARGE = (65_535, 65_537, 131_073, 300_007, 1_048_579)
LARGE_VALUES = ("ties", "wide", "positive", "wide", "ties")  # sums of ties are exact
TILES = (530, 270, 70)  # two dims are as large as that
SQUARE = 70
MOST_CALLED = 500_000  # elements of what is called many times, if a tensor had all dims
LAYOUT_DRAWS = 6
TOGETHER, MOST_TOGETHER = 6, 48  # cases of small sizes for each dim, and in all
STREAMING = 34 << 20  # bytes: a result that goes past the caches
MOST_OFTEN, TIMES = 250_000, 32  # or so many for each of a size, of one that is called many times
WARPS = 70  # elements: more than two of them
LOOPING = 6_000_000  # elements: more than a GPU works on at once
COUNTED = 2**24 + 100_003
LARGE_INTS = (2**32 + 5, 2**53 + 2**33 + 9)  # more than 32 bits hold, and more than a double does
LITTLE, TINY = 24, 64  # cases of finite differences, and the elements that they are taken of
MOST_TYPES = 12  # choices of element types
MOST_FLAGS = 200  # ways in which truths and choices go together
FEW_VALUES = ("normal", "special")
CHOICE_VALUES = {"choice": ("normal", "special", "ties"), "str": ("normal", "wide")}
SWEEP_VALUES = ("normal", "positive", "wide", "ties")
SHAPES_OF_LEADING: tuple[tuple[int, ...], ...] = (
    (),
    (1,),
    (2, 3),
    (3, 1, 2),
    (2, 0, 3),
    (1, 1, 1, 5),
)


class Planner:
    """taken: values that numbers and strs among the scalars may have; without it, any of the usual ones. bounded:
    dims of which the first may not be longer than the second. own: the operator whose results some may
    not want, where it is another (the backward)."""

    def __init__(
        self,
        operator: Operator,
        seed: int,
        types: tuple[str, ...] = (),
        taken: Mapping[str, list[Any]] | None = None,
        bounded: Collection[tuple[str, str]] = (),
        own: Operator | None = None,
    ) -> None:
        self.op, self.seed, self.taken = operator, seed, taken or {}
        self.only_types = types
        self.may_be_unwanted = [p.name for p in (own or operator).outputs if p.optional]
        self._optional = tuple(p.name for p in operator.inputs if p.optional)
        self._turns = itertools.count()
        self._flags = itertools.cycle(self._together())
        self._usual = {p.name: candidates(p)[0] for p in operator.scalars if p.kind in NUMBERS}
        self.random = random.Random(f"{seed} {operator.name}")
        self.dims = Sizes(operator, bounded, self.random)
        self.counter = itertools.count(seed * 100_000)

    # ---- parts ----

    def types(self) -> list[dict[str, str]]:
        names = list(self.op.variables)
        lists = [self.op.kinds_of(n, self.only_types) for n in names]
        choices = [dict(zip(names, kinds)) for kinds in itertools.product(*lists)]
        if len(choices) <= MOST_TYPES:
            return choices
        # Every type of every variable at least once, the others as they come.
        self.random.shuffle(choices)
        seen: set[tuple[str, str]] = set()
        first = []
        for choice in choices:
            if not seen >= choice.items():
                first.append(choice)
                seen |= choice.items()
        rest = [c for c in choices if c not in first]
        return first + rest[: max(0, MOST_TYPES - len(first))]

    def scalars(self) -> dict[str, Any]:
        """Values for those that have no default; the others are left out."""
        return {p.name: candidates(p)[0] for p in self.op.scalars if p.default is None}

    def base(self, types: dict[str, str], dims: dict[str, Size], **more: Any) -> Case:
        seed = next(self.counter)
        return Case(self.op.name, types, dims, self.scalars(), seed=seed, **more)

    def layout_choices(self, operator: Operator | None = None) -> list[tuple[str, str]]:
        found = []
        for p in (operator or self.op).tensors:
            for layout in LAYOUTS:
                if not (p.in_place and layout == "expanded"):
                    found.append((p.name, layout))
        return found

    def aliases(self) -> Iterator[Case]:
        """What is written in place is an input as well: allowed, where it is all of it. Two that are
        both written may be the same to nobody. Two that are read may always be."""
        pairs = [
            (p.name, q.name)
            for p in self.op.tensors
            for q in self.op.tensors
            if p.in_place and not q.in_place and (p.type, q.optional) == (q.type, False)
        ]
        for types in self.types():
            for later, first, equal in self._alike():
                dims = self.dims.odd(2000)
                sizes = {self.op.dims[name]: dims[name] for name in equal}
                dims |= {name: sizes[self.op.dims[name]] for name in equal}
                for values in ("normal", "special"):
                    yield self.base(types, dims, values=values, layouts={later: f"is-{first}"})
            for written, read in pairs:
                layouts = {written: f"is-{read}"}
                for dims in (self.dims.small(), self.dims.odd(2000)):
                    yield self.base(types, dims, layouts=layouts)
                for scalars in self.each_scalar():
                    yield self.base(types, self.dims.odd(2000), layouts=layouts).but(
                        scalars=scalars
                    )

    def _alike(self) -> Iterator[tuple[str, str, list[str]]]:
        """Inputs that are only read and could be the same tensor, with dims that are to be equal then."""
        read = [p for p in self.op.tensors if not p.in_place]
        for first, later in itertools.combinations(read, 2):
            if first.element != later.element or len(first.sizes) != len(later.sizes):
                continue
            apart = [(a, b) for a, b in zip(first.sizes, later.sizes) if a != b]
            dims = self.op.dims
            if all(a in dims and b in dims and dims[a] == dims[b] for a, b in apart):
                yield later.name, first.name, list(itertools.chain(*apart))

    # ---- the whole ----

    def sizes(self, thin: int = 1, once: bool = True) -> Iterator[Case]:
        """Every dim through all sizes. thin: only every so many of them. once: and those of ONCE and USUAL."""
        choices = self.types()
        widest = max(choices, key=lambda t: sum(DTYPES[k].itemsize for k in t.values()))
        for turn, types in enumerate(choices):
            rest = (*ONCE, *USUAL)[turn :: len(choices)] if once else ()
            if once and types == widest:
                rest = tuple(dict.fromkeys((*rest, *USUAL)))
            for name in self.op.dims:
                sizes = [*SMALL, *EDGES][self.seed % thin :: thin]
                for k, size in enumerate((*sizes, *rest)):
                    values = SWEEP_VALUES[k % len(SWEEP_VALUES)]
                    case = self.base(types, self.dims.around(name, size), values=values)
                    if not self.dims.are_too_much(case.dims):
                        yield from self.varied(case, k + turn)
                    if size < PLAIN and self._optional:
                        least = case.but(absent=self._optional, seed=next(self.counter))
                        flagged = self.with_flags(least)
                        yield flagged
                        if k % len(choices) == turn and flagged.scalars != least.scalars:
                            yield least
                    once_more = k >= len(sizes) or k % len(choices) == turn
                    if once_more and (dims := self.dims.of_result(case.dims, name, size)):
                        yield self.base(types, dims, values=values)
            yield from self._two_at_once(types, turn)
            for shape in SHAPES_OF_LEADING:
                for name, leading in self.op.dims.items():
                    if leading:
                        yield self.base(types, {**self.dims.small(), name: shape})

    def _two_at_once(self, types: dict[str, str], turn: int) -> Iterator[Case]:
        """Two dims beyond a tile, of whatever size that is; the largest in the first type for the last two,
        which are most often cut so. And once as large as each other, which has ways of its own."""
        for k, pair in enumerate(reversed(list(itertools.combinations(self.op.dims, 2)))):
            for size in TILES[(turn + k) % len(TILES) :]:
                for a, b in (pair, reversed(pair)):
                    dims = {**self.dims.around(a, size), b: self.dims.of(b, size + 7)}
                    dims = self.dims.with_room(dims, pair, size + 7)
                    if self.dims.fit(dims):
                        break
                if not self.dims.are_too_much(dims):
                    yield self.base(types, dims)
                    break
            dims = {**self.dims.around(pair[0], SQUARE), pair[1]: self.dims.of(pair[1], SQUARE)}
            dims = self.dims.with_room(dims, pair, SQUARE)
            if not self.dims.are_too_much(dims):
                yield self.base(types, dims)

    def large(self) -> Iterator[Case]:
        for turn, types in enumerate(self.types()):
            for name in self.op.dims:
                for k, (size, values) in enumerate(zip(LARGE, LARGE_VALUES)):
                    case = self.base(types, self.dims.around(name, size), values=values)
                    if not self.dims.are_too_much(case.dims):
                        yield from self.varied(case, k + turn)

    def streaming(self) -> Iterator[Case]:
        """Results larger than the caches, in two types. Sizes of one are such that packs fit, and the steps
        that loops take do not."""
        choices = self.types()
        for turn, types in enumerate(self.random.sample(choices, min(2, len(choices)))):
            size = min((DTYPES[k].itemsize for k in types.values()), default=4)
            dims = self.op.sample("large", self.random.getrandbits(32), STREAMING // size)
            if Case(self.op.name, types, dims).numel > MOST_WORK:
                dims = self.dims.within_a_result(dims)
            case = self.base(types, dims)
            yield self.with_flags(case) if turn else case
            if turn == 0 and len(dims) > 1:
                yield self.base(types, {name: in_packs(n) for name, n in dims.items()})

    def looping(self) -> Iterator[Case]:
        """So large that the blocks of a grid go round, where they do: one dim, the two behind or before it
        a few warps."""
        names = list(self.op.dims)
        for k, name in enumerate(names):
            beside = (*names[k + 1 :], *reversed(names[:k]))[:2]
            dims = {n: self.dims.of(n, WARPS if n in beside else 1) for n in names}
            dims[name] = self.dims.of(name, LOOPING // WARPS ** len(beside))
            if self.dims.fit(dims) and not self.dims.are_too_much(dims):
                yield self.base(self.types()[0], dims)

    def counted(self) -> Iterator[Case]:
        """More elements than a float can count, in the smallest types."""
        types = min(self.types(), key=lambda t: sum(DTYPES[k].itemsize for k in t.values()))
        for name in self.op.placed_dims:
            dims = {n: () if leading else 1 for n, leading in self.op.dims.items()}
            dims[name] = self.dims.of(name, COUNTED)
            for values in ("positive", "late", "zeros"):  # zeros: all in one place
                case = self.base(types, dims, values=values)
                yield case
            yield from self.with_less(case)

    def values(self) -> Iterator[Case]:
        names = [p for p in PROFILES if p not in ("normal", "wide")]
        for types in self.types():
            for profile in names:
                if profile == "big" and not _has_narrow(types):
                    continue
                for dims in (self.dims.small(), self.dims.odd(2000)):
                    yield self.base(types, dims, values=profile)
                for k, dims in enumerate((self.dims.odd(), self.dims.long())):
                    case = self.with_flags(self.base(types, dims, values=profile))
                    yield case
                    if k > 0 or profile in NOT_FINITE:
                        yield from self.with_less(case)

    def layouts(self, operator: Operator | None = None) -> Iterator[Case]:
        for types in self.types():
            for name, layout in self.layout_choices(operator):
                for k in range(LAYOUT_DRAWS):  # each is drawn, too: which dims, and how
                    dims = self.dims.odd(2000) if k % 2 else self.dims.small()
                    yield self.base(types, dims, layouts={name: layout})
            every = self.layout_choices(operator)
            for _ in range(4 if every else 0):
                some = dict(self.random.sample(every, min(3, len(every))))
                yield self.base(types, self.dims.odd(2000), layouts=some)

    def choices(self, large: Collection[str] = ()) -> Iterator[Case]:
        """Every value of every scalar, and all of them together at random. large: ints that may be that."""
        for types in self.types():
            for p in self.op.scalars:
                known = self._texts(p) if p.kind == "str" else candidates(p)
                for value in (*known, *beyond(p), *LARGE_INTS * (p.name in large)):
                    for profile in CHOICE_VALUES.get(p.kind, ("normal",)):
                        many = self.dims.long() if profile == "special" else self.dims.odd(2000)
                        other = profile if p.choices else "ties"  # zeros among them
                        for dims, values in ((self.dims.small(), profile), (many, other)):
                            case = self.base(types, dims, values=values)
                            yield case.but(scalars={**case.scalars, p.name: value})
                    if p.kind in NUMBERS and value in candidates(p):  # 0 times NaN
                        case = self.base(types, self.dims.odd(2000), values="special")
                        yield case.but(scalars={**case.scalars, p.name: value})
                    for name in self.op.dims if p.choices or p.kind == "bool" else ():
                        for size in (0, 1):
                            case = self.base(types, self.dims.around(name, size))
                            yield case.but(scalars={**case.scalars, p.name: value})
            for _ in range(6 if self.op.scalars else 0):
                yield self.base(types, self.dims.odd(2000)).but(scalars=self.draw_scalars())
        yield from self._ints_as_sizes()

    def _ints_as_sizes(self) -> Iterator[Case]:
        """Each int as large as each dim, and one less: the first that is no place in it, and the last. In
        the types in turns."""
        types = itertools.cycle(self.types())
        ints = [p for p in self.op.scalars if p.kind == "int"]
        for p, value, name in itertools.product(ints, (1, 2, 3), self.op.dims):
            for size in (value, value + 1):
                case = self.base(next(types), self.dims.around(name, size))
                case = case.but(scalars={**case.scalars, p.name: value})
                yield case
                yield from self.with_less(case)

    def absences(self, operator: Operator | None = None) -> Iterator[Case]:
        """Optional inputs and outputs there and not there."""
        op = operator or self.op
        inputs = [p.name for p in (*self.op.inputs, *op.inputs) if p.optional]
        outputs = [p.name for p in op.outputs if p.optional]
        inputs = list(dict.fromkeys(inputs))
        for types in self.types():
            for absent in _subsets(inputs):
                for unwanted in _subsets(outputs):
                    if absent or unwanted:
                        more = {"absent": absent, "unwanted": unwanted}
                        yield self.base(types, self.dims.small(), **more)
                        yield self.base(types, self.dims.odd(2000), values="special", **more)
                        case = self.base(types, self.dims.odd(2000), **more)
                        yield case
                        if self.op.scalars:
                            yield case.but(scalars=self.draw_scalars())

    def together(self, often: bool) -> Iterator[Case]:
        """Small sizes and scalars, whichever together: where several are 1, or what they usually are, there
        may be a way of its own."""
        count = TOGETHER * len(self.op.dims) if len(self.op.dims) > 1 else 0
        for types in self.types():
            for k in range(min(count, MOST_TOGETHER) // (1 if often else 4)):
                for _ in range(DRAWS):
                    dims = {n: self.dims.little(n) for n in self.op.dims}
                    if self.dims.fit(dims):
                        break
                case = self.base(types, dims, values=FEW_VALUES[k % 4 == 3])
                yield case.but(scalars=self.draw_scalars()) if k % 2 else case
        for (
            shorter,
            longer,
        ) in self.dims.bounded:  # which the reference refuses, and nobody may crash at
            for types in self.types():
                dims = {**self.dims.small(), shorter: self.dims.of(shorter, 4)}
                yield self.base(types, {**dims, longer: self.dims.of(longer, 3)})

    def little(self, only: str) -> Iterator[Case]:
        """Few elements, in dims that are often 1; truths and choices in turns. only: of this element type."""
        for types in self.types():
            for _ in range(LITTLE if only in types.values() else 0):
                case = self.base(types, {n: self.dims.little(n) for n in self.op.dims})
                if self.dims.fit(case.dims) and 0 < case.numel <= TINY:
                    yield self.with_flags(case)

    def drawn(self, count: int, operator: Operator | None = None) -> Iterator[Case]:
        """Everything at random."""
        every = self.layout_choices(operator)
        kinds = [p for p in PROFILES if p not in ("big", "late")]
        for types in self.types():
            for _ in range(count):
                case = self.base(types, self.dims.odd(), values=self.random.choice(kinds))
                some = dict(self.random.sample(every, min(len(every), self.random.randrange(3))))
                yield case.but(scalars=self.draw_scalars(), layouts=some)

    def few(
        self, sizes: tuple[int, ...], types: int | None = None, plain: bool = False
    ) -> Iterator[Case]:
        """Each type, or the first so many, at each of these sizes, in each dim; values and scalars as usual
        and others, in turns, and then in every second type without some of the optional inputs. plain:
        no NaN and infinities, beside which nothing else is seen in a sum."""
        for turn, choice in enumerate(self.types()[:types]):
            for at, name in enumerate(self.op.dims or ("",)):
                for k, size in enumerate(sizes):
                    values = FEW_VALUES[0 if plain else (k + at + turn) % len(FEW_VALUES)]
                    most = max(MOST_OFTEN, TIMES * size)
                    while (
                        name
                        and size > 1
                        and self.dims.are_too_much(self.dims.around(name, size), most)
                    ):
                        size //= 2
                    dims = {}
                    if name:
                        dims = self.dims.lighter(self.dims.around(name, size), (name,), MOST_CALLED)
                    case = self.base(choice, dims, values=values)
                    if k % 2:
                        case = case.but(scalars=self.draw_scalars())
                        case = next(self.with_less(case), case) if turn % 2 == 0 else case
                    yield case

    def ones(self) -> Iterator[Case]:
        """One element, of which there is none before and none after."""
        for types in self.types():
            yield self.base(types, {name: self.dims.of(name, 1) for name in self.op.dims})

    def draw_scalars(self) -> dict[str, Any]:
        return {p.name: self._draw_scalar(p) for p in self.op.scalars}

    def _draw_scalar(self, p: Parameter) -> Any:
        return self.random.choice(self.taken.get(p.name) or candidates(p))

    def _together(self) -> list[dict[str, Any]]:
        """What truths and choices may be together, in some order."""
        flags = [p for p in self.op.scalars if p.kind not in NUMBERS]
        each = itertools.product(*map(self._texts, flags))
        found = [dict(zip((p.name for p in flags), c)) for c in itertools.islice(each, MOST_FLAGS)]
        random.Random(self.seed).shuffle(found)
        return found

    def _texts(self, p: Parameter) -> list[Any]:
        """Of a str those that the reference takes, if it takes any; of others, all values."""
        return self.taken.get(p.name) or candidates(p)

    def varied(self, case: Case, turn: int) -> Iterator[Case]:
        """The case; every third time with other scalars, and every third once more with less."""
        yield self.with_flags(case) if turn % 3 == 1 else case
        if turn % 3 == 2:
            yield from self.with_less(case)

    def with_flags(self, case: Case) -> Case:
        """Truths and choices, which change what is done, all together in turns, and one number that the
        reference takes other than it usually is."""
        scalars = {**case.scalars, **next(self._flags)}
        others = {
            n: [v for v in self.taken.get(n, ()) if v != usual] for n, usual in self._usual.items()
        }
        numbers = [name for name, values in others.items() if values]
        if numbers:
            name = numbers[next(self._turns) % len(numbers)]
            scalars[name] = self.random.choice(others[name])
        return case.but(scalars=scalars)

    def with_less(self, case: Case) -> Iterator[Case]:
        """Once more, without some of its optional inputs, and without some of its optional results: often
        there is a loop of its own for that."""
        if self._optional:
            yield case.but(absent=self._some(self._optional), seed=next(self.counter))
        if self.may_be_unwanted:
            unwanted = self._some(self.may_be_unwanted)
            yield case.but(unwanted=unwanted, seed=next(self.counter))

    def _some(self, names: Sequence[str]) -> tuple[str, ...]:
        return tuple(self.random.sample(list(names), self.random.randint(1, len(names))))

    def each_scalar(self) -> Iterator[dict[str, Any]]:
        """Every value of every scalar, beside the usual ones of the others."""
        for p in self.op.scalars:
            for value in candidates(p):
                yield {**self.scalars(), p.name: value}

    def pairs(self) -> Iterator[Case]:
        """Calls one after another that are alike in all but values, and one with other scalars."""
        for types in self.types():
            dims, scalars = self.dims.odd(2000), self.draw_scalars()
            yield self.base(types, dims).but(scalars=scalars)
            yield self.base(types, dims).but(scalars=scalars)
            yield self.base(types, dims).but(scalars=self.draw_scalars())

    def tiny(self, count: int, only: str = "", usual: bool = False) -> Iterator[Case]:
        """A few elements, for finite differences and the like. only: of this element type. usual:
        with scalars that it surely takes."""
        for types in self.types():
            if only and set(types.values()) & {"f16", "bf16", "f32", "f64"} not in ({only}, set()):
                continue
            for _ in range(count):
                dims = self.dims.drawn("random", 24)
                case = self.base(types, dims)
                few = 1 if usual else 3
                drawn = {p.name: self.random.choice(candidates(p)[:few]) for p in self.op.scalars}
                yield case.but(scalars=drawn)


def _has_narrow(types: dict[str, str]) -> bool:
    """Types with less room than what they are summed in."""
    return any(k in ("f16", "i8", "i16", "i32", "u8") for k in types.values())


def _subsets(names: list[str]) -> list[tuple[str, ...]]:
    if len(names) <= 3:
        sizes = range(len(names) + 1)
        return [c for n in sizes for c in itertools.combinations(names, n)]
    return [(), tuple(names), *((n,) for n in names)]


def beyond(p: Parameter) -> list[Any]:
    """Values for which a reference may have no answer: tried only where it is asked first."""
    return [-1, -2, 8, 16, 17, 32, 33, 64, 130] if p.kind == "int" else []
