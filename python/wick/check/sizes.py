"""Sizes that fit together: what the signature, the reference and the time that there is allow."""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Collection

from .case import Case, Size
from .operator import Operator, Parameter

PACK = 16  # elements that are loaded at once, at most
# Elements that a tensor with all dims would have: of a case that is large, and of those in a sweep over sizes.
MOST_WORK, MOST_SWEPT = 1_000_000_000, 50_000_000
MOST_ELEMENTS = 7_000_000  # of a tensor in a sweep over sizes
DRAWS = 8  # of sizes, until they fit together
ROOM = 600  # a dim that is subtracted, a window say, is no longer than this
BUDGET = 1_500_000  # elements of a tensor whose sizes are drawn


class Sizes:
    """Drawn for an operator. bounded: dims of which the first may not be longer than the second."""

    def __init__(
        self, operator: Operator, bounded: Collection[tuple[str, str]], drawing: random.Random
    ) -> None:
        self.op, self.bounded, self.random = operator, bounded, drawing
        self._given = {p.dim: p.default for p in operator.inputs if p.dim and p.default is not None}

    def small(self) -> dict[str, Size]:
        return self.drawn("random", BUDGET)

    def odd(self, budget: int = 40_000) -> dict[str, Size]:
        return self.drawn("odd", budget)

    def drawn(self, kind: str, budget: int) -> dict[str, Size]:
        for _ in range(DRAWS):
            dims = self.op.sample(kind, self.random.getrandbits(32), budget)
            if self.fit(dims):
                break
        return dims

    def long(self) -> dict[str, Size]:
        """One dim, drawn, of a thousand: long sums."""
        names = list(self.op.dims)
        return (
            self.around(self.random.choice(names), 1000 + self.random.randrange(99))
            if names
            else {}
        )

    def around(self, name: str, size: int) -> dict[str, Size]:
        """That dim of that size; the others small, but for one that may have to make room."""
        dims: dict[str, Size] = {}
        for turn in range(2 * DRAWS):
            dims = {n: self._few(n, size) for n in self.op.dims}
            dims[name] = self.of(name, size)
            if turn >= DRAWS:
                dims = self.with_room(dims, (name,), size)
            if self.fit(dims):
                break
        return dims

    def with_room(self, dims: dict[str, Size], kept: Collection[str], size: int) -> dict[str, Size]:
        """Another dim, or two, as long as it takes for those, of about that size, to fit; few of what is left."""
        known = {b: self.of(b, size + 1) for a, b in self.bounded if a in kept and b not in kept}
        for roomy in (dims, {**dims, **known}):
            if self.fit(roomy):
                return self.lighter(roomy, (*kept, *known), MOST_SWEPT)
        others = [name for name in self.op.dims if name not in kept]
        for many, times in itertools.product((1, 2), (1, 2, 6) if size <= ROOM else ()):
            for some in itertools.combinations(others, many):
                wider = {**dims, **{name: self.of(name, times * size + 1) for name in some}}
                if self.fit(wider):
                    return self.lighter(wider, (*kept, *some), MOST_SWEPT)
        return dims

    def of(self, name: str, size: int) -> Size:
        return (size,) if self.op.dims[name] else size

    def are_too_much(self, dims: dict[str, Size], most: int = MOST_ELEMENTS) -> bool:
        """Where a tensor grows with a product of sizes, or a square; or the work does."""
        if Case(self.op.name, {}, dims).numel > MOST_WORK:
            return True
        try:
            inputs, outputs, _, _ = self.op.plan(self._of_any_type(dims))
        except RuntimeError:
            return False  # no case, as will be told
        return any(math.prod(a[0]) > most for a in (*inputs, *outputs) if a)

    def fit(self, dims: dict[str, Size]) -> bool:
        case = self._of_any_type(dims)
        return self.op.fits(case) and all(case.length(a) <= case.length(b) for a, b in self.bounded)

    def _of_any_type(self, dims: dict[str, Size]) -> Case:
        return Case(self.op.name, {n: k[0] for n, k in self.op.variables.items()}, dims)

    def _few(self, name: str, beside: int) -> Size:
        usual = self._given.get(name)
        if usual is not None and self.random.random() < 0.5:
            return usual
        return self.of(name, self.random.choice((1, 1, 2) if beside > 2000 else (1, 2, 3, 5)))

    def within_a_result(self, dims: dict[str, Size]) -> dict[str, Size]:
        """The same where the first result has them, and few of all others: what is summed over many, for
        many, takes minutes."""
        sizes = next((p.sizes for p in self.op.outputs if p.is_tensor), [])
        return {n: size if n in sizes else self._few(n, 0) for n, size in dims.items()}

    def little(self, name: str) -> Size:
        usual = self._given.get(name)
        if usual is not None:
            return self.random.choice((usual, usual, 0, 1, 2, 3))
        return self.of(name, self.random.choice((1, 1, 1, 2, 3, 5, 8, 9, 17)))

    def of_result(self, dims: dict[str, Size], name: str, size: int) -> dict[str, Size] | None:
        """With as much of that dim as makes a result that long which is made of several (H-K+1, say)."""
        results = [p for p in self.op.outputs if p.is_tensor]
        made = [(p, k) for p in results for k, s in enumerate(p.sizes) if self._is_made(s, name)]
        for p, axis in made:
            longer = dims
            for _ in range(2):
                have = self._extent(longer, p, axis)
                if have is None or isinstance(longer[name], tuple):
                    break
                if have == size:
                    return longer if longer != dims and not self.are_too_much(longer) else None
                longer = {**longer, name: max(0, longer[name] + size - have)}
        return None

    def _is_made(self, size: str, name: str) -> bool:
        """Of that dim and something else."""
        return size not in self.op.dims and name in re.findall(r"[A-Za-z_]\w*", size)

    def _extent(self, dims: dict[str, Size], p: Parameter, axis: int) -> int | None:
        """Of a result; None where the sizes do not fit."""
        try:
            _, outputs, _, _ = self.op.plan(self._of_any_type(dims))
        except RuntimeError:
            return None
        return outputs[self.op.outputs.index(p)][0][axis - len(p.sizes)]

    def lighter(self, dims: dict[str, Size], kept: Collection[str], most: int) -> dict[str, Size]:
        """With fewer of all but those, where a tensor with all dims would have more elements than that."""
        for few in (2, 1):
            if Case(self.op.name, {}, dims).numel <= most:
                break
            fewer = {
                n: size if n in kept or size in (0, 1, (0,), (1,)) else self.of(n, few)
                for n, size in dims.items()
            }
            dims = fewer if self.fit(fewer) else dims
        return dims


def in_packs(size: Size) -> Size:
    """About that, in the last place where there are several: 16 times an odd number."""
    if isinstance(size, tuple):
        return (*size[:-1], in_packs(size[-1])) if size else size
    return size if size < 16 else (size // 32 * 2 + 1) * PACK
