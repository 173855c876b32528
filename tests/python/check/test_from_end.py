"""Places that are counted from the end: drawn where the reference and the operator both take them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from judging import judged
from parts import rows, subject_of

from wick.check import draw
from wick.check.case import Case
from wick.check.operator import Operator
from wick.check.pointers import find_from_end

TABLE = """\
#include <wick/op.h>
WICK_OP(row, "table: T[V, D], at: i64[N] -> y: T[N, D] where T: f32 f64");
WICK_IMPL wick_status row_cpu(wick_ctx *ctx, const T *table, const int64_t *at, T *y, int64_t V,
                              int64_t D, int64_t N)
{
    for (int64_t n = 0; n < N; n++) {
        const int64_t place = at[n] LOOKS;
        memcpy(y + n * D, table + place * D, (size_t)D * sizeof(T));
    }
    return WICK_OK;
}
"""
COUNTS = (
    '< 0 ? at[n] + V : at[n]; if (place < 0 || place >= V) return wick_fail(ctx, WICK_EINVAL, "at")'
)
REFUSES = '; if (place < 0 || place >= V) return wick_fail(ctx, WICK_EINVAL, "at")'
BLIND = "; (void)ctx, (void)V"
REFERENCE = "def row(table, at):\n    return table[at]\n"


def by_select(table: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return table.index_select(0, at)


@pytest.mark.parametrize("function, found", [(rows, {"at"}), (by_select, set())])
def test_whether_places_may_be_below_zero_is_asked_of_the_reference(
    function: Any, found: set[str], make: Any
) -> None:
    text = TABLE.replace("row", "OP").replace("LOOKS", COUNTS)
    forward = subject_of(Operator("local", make(text).name), function)
    assert forward.pointers == {"at": "V"}
    assert find_from_end(forward.operator, forward.reference, {}, forward.pointers) == found


@pytest.mark.parametrize("looks, taken", [(COUNTS, True), (REFUSES, False), (BLIND, False)])
def test_whether_an_operator_takes_them_is_seen_without_being_hurt(
    looks: str, taken: bool, make: Any
) -> None:
    text = TABLE.replace("row", "OP").replace("LOOKS", looks)
    forward = subject_of(Operator("local", make(text).name), rows)
    assert forward.from_end == ({"at"} if taken else set())
    cases = [
        Case(forward.operator.name, {"T": "f32"}, {"V": 9, "D": 1, "N": 40}, seed=seed)
        for seed in range(40)
    ]
    drawn = [forward.prepare(case).values[1] for case in cases]
    below = sum(bool((at < 0).any()) for at in drawn)
    assert (0 < below < 30) if taken else below == 0
    assert all(bool(((at >= -9) & (at < 9)).all()) for at in drawn)


@pytest.mark.parametrize("looks", [REFUSES, BLIND])
def test_who_takes_no_places_below_zero_is_sound(looks: str, write: Callable[..., Path]) -> None:
    report = judged(write(TABLE.replace("LOOKS", looks), REFERENCE, "row"), types=["f32"])
    assert report.code == 0, report.faults


def test_places_that_a_type_does_not_hold_stay() -> None:
    places = torch.tensor([0, 100, 127], dtype=torch.int8)
    gen = draw.generator(0, "at")
    found = {tuple(draw.from_end(places, 130, gen).tolist()) for _ in range(50)}
    assert found == {(0, 100, 127), (0, -30, 127), (0, 100, -3), (0, -30, -3)}
