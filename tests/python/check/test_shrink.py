"""How what fails is made small."""

from __future__ import annotations

import math

import pytest

from wick.check import shrink
from wick.check.case import Case


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
