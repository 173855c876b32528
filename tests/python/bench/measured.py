"""An operator with all the files that may lie beside it, and rows as if it had been measured."""

from __future__ import annotations

from pathlib import Path

from wick.bench import rows, target
from wick.bench.shapes import Case

SOURCE = """/* slope -- y = x * by, and its gradient */
#include <wick/op.h>
WICK_OP(OP, "x: T[*N, C], by: float = 2.0, bias?: T[C] -> y: T[*N, C] where T: f32 f64");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const T *x, double by, const T *bias, T *y, int64_t N, int64_t C)
{
    (void)ctx;
    for (int64_t i = 0; i < N * C; i++) y[i] = (T)(x[i] * by + (bias ? bias[i % C] : 0));
    return WICK_OK;
}
WICK_OP(OP_backward, "dy: T[*N, C], by: float -> dx: T[*N, C]");
WICK_IMPL wick_status OP_backward_cpu(wick_ctx *ctx, const T *dy, double by, T *dx, int64_t N, int64_t C)
{
    (void)ctx;
    for (int64_t i = 0; i < N * C; i++) dx[i] = (T)(dy[i] * by);
    return WICK_OK;
}
"""

REFERENCE = """
import torch
def OP(x, by=2.0, bias=None):
    return x * by if bias is None else x * by + bias
def OP_baseline_twice(x, by, bias):
    return (x + x) * (by / 2) + bias
def OP_baseline_broken(x):
    raise ValueError("not today")
def helper(x):
    return x
"""

SIZES = """# sizes of OP
flops: 2*N*C
N=2x3 C=4      # small
N=5 C=7 T=f64 by=0.5 bias=none
[OP_backward]
N=3 C=3
flops: N*C
"""


def source_in(folder: Path) -> Path:
    return next(folder.glob("slope_*.c"))


def operator_in(folder: Path, which: int = 0) -> target.Operator:
    return target.find([str(source_in(folder))], None, None)[which]


def times(median: float, spread: float = 0.01) -> rows.Times:
    return rows.Times.of([median * (1 + spread * k) for k in (-2, -1, 0, 1, 2)])


def a_row(**changes: object) -> rows.Row:
    values: dict[str, object] = {
        "operator": "local.it",
        "signature": "x: f32[N] -> y: f32[N]",
        "device": "cpu",
        "threads": 2,
        "case": Case({"N": 1000}, {"T": "f32"}),
        "cache": "warm",
        "read_bytes": 4000,
        "written_bytes": 4000,
        "flops": None,
        "floor_s": 1e-3,
        "limit": "bytes",
        "call_s": 1e-6,
        "times": {"wick": times(1.05e-3)},
        "cores": 2.0,
    }
    return rows.Row(**{**values, **changes})


def run_of(*medians: float, eager: float | None = None, spread: float = 0.01) -> tuple[dict, list]:
    made = []
    for i, median in enumerate(medians):
        each = {"wick": times(median, spread)}
        if eager is not None:
            each["eager"] = times(eager)
        made.append(a_row(case=Case({"N": i}, {"T": "f32"}), times=each))
    return {"torch": "2", "devices": [{"device": "cpu", "copy_bytes_per_s": {"plain": 1e9}}]}, made
