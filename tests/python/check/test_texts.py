"""What a str may be: words that the reference knows, and other texts that it takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from judging import judged

ENCODE = """\
#include <wick/op.h>
#ifndef FAULT
#define FAULT 0
#endif
WICK_OP(encode, "x: u8[*N], alphabet: str = 'ACGT' -> y: i64[*N]");
WICK_IMPL wick_status encode_cpu(wick_ctx *ctx, const uint8_t *x, const char *alphabet, int64_t *y,
                                 int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++) {
        y[i] = -1;
        for (int64_t k = 0; alphabet[k] && (FAULT != 2 || k < 8); k++)
            if (x[i] == (uint8_t)alphabet[k] && (FAULT == 1 || y[i] < 0)) y[i] = k;
    }
    return WICK_OK;
}
"""
REFERENCE = """\
import torch

def encode(x, alphabet="ACGT"):
    y = torch.full(x.shape, -1, dtype=torch.int64)
    for place, code in reversed(list(enumerate(alphabet.encode()))):
        y[x == code] = place
    return y
"""


@pytest.mark.parametrize(
    "fault, code",
    [
        pytest.param(0, 0, id="sound"),
        pytest.param(1, 1, id="the last of two letters counts"),
        pytest.param(2, 1, id="letters beyond the eighth are left out"),
    ],
)
def test_texts_that_nobody_mentions_are_tried(
    fault: int, code: int, write: Callable[..., Path]
) -> None:
    path = write(ENCODE, REFERENCE, "encode")
    report = judged(path, (f"-DFAULT={fault}",), only=["forward"])
    assert report.code == code, report.faults


def test_only_texts_that_the_reference_takes_go_with_others(write: Callable[..., Path]) -> None:
    """Of those that it refuses there would be more than of all else."""
    strict = REFERENCE.replace("    y =", "    ['ACGT', 'AC'].index(alphabet)\n    y =", 1)
    report = judged(write(ENCODE, strict, "encode"), only=["forward"])
    (subject,) = report.subjects
    assert report.code == 0
    assert not subject.tally("skipped-values").skipped
