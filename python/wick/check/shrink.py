"""The smallest case that still fails: sizes down, and everything out that need not be there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from .case import Case

Fails = Callable[[Case], bool]


class Budget:
    """So many attempts, and so many seconds."""

    def __init__(self, attempts: int, seconds: float) -> None:
        self.attempts, self.until = attempts, time.monotonic() + seconds

    def take(self) -> bool:
        self.attempts -= 1
        return self.attempts >= 0 and time.monotonic() < self.until


def shrink(case: Case, fails: Fails, attempts: int = 80, seconds: float = 15.0) -> Case:
    budget = Budget(attempts, seconds)

    def still(smaller: Case) -> bool:
        return budget.take() and fails(smaller)

    for simpler in (_without_extras, _with_plain_values, _without_seed):
        case = _descend(case, simpler, still)
    for name in sorted(case.dims, key=lambda n: -case.length(n)):
        case = _shrink_dim(case, name, still)
    for simpler in (_without_extras, _without_seed):
        case = _descend(case, simpler, still)
    return case


def _descend(case: Case, simpler: Callable[[Case], Iterator[Case]], still: Fails) -> Case:
    """Takes the first simpler case that fails, again and again."""
    while True:
        found = next((c for c in simpler(case) if still(c)), None)
        if found is None:
            return case
        case = found


def _without_extras(case: Case) -> Iterator[Case]:
    for name in case.layouts:
        yield case.but(layouts={n: v for n, v in case.layouts.items() if n != name})
    for name in case.scalars:
        yield case.but(scalars={n: v for n, v in case.scalars.items() if n != name})
    for name in case.absent:
        yield case.but(absent=tuple(n for n in case.absent if n != name))
    for name in case.unwanted:
        yield case.but(unwanted=tuple(n for n in case.unwanted if n != name))


def _with_plain_values(case: Case) -> Iterator[Case]:
    """One kind of odd value tells more than many: which one it is does not hang on the case that a
    worker happened to see first."""
    if case.values != "normal":
        yield case.but(values="normal")
    if case.values == "special":
        yield case.but(values="nan")
        yield case.but(values="inf")


def _without_seed(case: Case) -> Iterator[Case]:
    if case.seed:
        yield case.but(seed=0)


def _shrink_dim(case: Case, name: str, still: Fails) -> Case:
    """Leading dims become one, or none; then bisection for the smallest that fails."""
    size = case.dims[name]
    if isinstance(size, tuple):
        for fewer in ((), (case.length(name),)):
            if len(fewer) < len(size) and still(case.with_dim(name, fewer)):
                case = case.with_dim(name, fewer)
                break
        size = case.dims[name]
        if isinstance(size, tuple) and len(size) != 1:
            return case
    n = case.length(name)

    def with_size(k: int) -> Case:
        return case.with_dim(name, (k,) if isinstance(size, tuple) else k)

    for few in (1, 2, 3):
        if few < n and still(with_size(few)):
            return with_size(few)
    low, high = min(3, n - 1), n  # low does not fail, high does
    while low + 1 < high:
        middle = (low + high) // 2
        if still(with_size(middle)):
            high = middle
        else:
            low = middle
    return with_size(high)
