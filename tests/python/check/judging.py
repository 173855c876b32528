"""An operator to be judged, with a fault on request; by one process for all tests, or by the command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from wick.check.crew import Crew
from wick.check.records import Options, Report, Target
from wick.check.run import check as check_with

TRIPLE = """\
#include <wick/op.h>
#ifndef FAULT
#define FAULT 0
#endif
WICK_OP(triple, "x: T[*N], by: float = 3.0 -> y: T[*N] where T: f32 f64");
WICK_IMPL wick_status triple_cpu(wick_ctx *ctx, const T *x, double by, T *y, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        y[i] = (T)(by * x[i]) + (T)(FAULT == 1 && i == 12);
    return WICK_OK;
}
"""

REFERENCE = "def triple(x, by=3.0):\n    return by * x\n"

QUICK: dict[str, Any] = {"only": ["forward", "memory"], "depth": "quick", "jobs": 1}

CREW = Crew()  # one process for all tests


def check(targets: list[Target], options: Options) -> Report:
    return check_with(targets, options, crew=CREW)


def judged(path: Path | str, flags: tuple[str, ...] = (), **options: Any) -> Report:
    target = Target(str(path), label=str(path), flags=flags)
    return check([target], Options(**{**QUICK, **options}))


def run(*words: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "wick", "check", *words],
        capture_output=True,
        text=True,
        timeout=300,
        **more,
    )
