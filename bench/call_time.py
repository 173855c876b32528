"""call_time -- what one call costs, on tensors of four elements, where nothing but the call is
measured.

    .venv/bin/python bench/call_time.py [--peers] [--save]

With --peers the operators are also built by tvm-ffi and by torch.utils.cpp_extension (half a
minute, once per torch version; kept in ~/.cache/wick-bench and used by later runs without --peers
too).
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import measure
from measure import Row, call_seconds, compare, limit, missing
from peers import cpp, python_op, tvm

SOURCE = """/* The smallest operators of each form. */
#include <wick/op.h>

WICK_OP(bench_addone, "x: int -> y: int");
WICK_IMPL wick_status bench_addone_cpu(wick_ctx *ctx, int64_t x, int64_t *y)
{
    (void)ctx;
    *y = x + 1;
    return WICK_OK;
}

WICK_OP(bench_inc, "x!: f32[*N] -> ()");
WICK_IMPL wick_status bench_inc_cpu(wick_ctx *ctx, float *x, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++) x[i] += 1;
    return WICK_OK;
}

WICK_OP(bench_accumulate, "x: f32[*N], y!: f32[*N] -> ()");
WICK_IMPL wick_status bench_accumulate_cpu(wick_ctx *ctx, const float *x, float *y, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++) y[i] += x[i];
    return WICK_OK;
}

WICK_OP(bench_plusone, "x: f32[*N] -> y: f32[*N]");
WICK_IMPL wick_status bench_plusone_cpu(wick_ctx *ctx, const float *x, float *y, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++) y[i] = x[i] + 1;
    return WICK_OK;
}
"""

WITHIN_CPP = 1.15  # a torch.ops call against the same operator in C++
WITHIN_EMPTY = 1.2  # a new output against torch.empty_like alone
ONE_TENSOR_US = 0.3
NOT_BUILT = "run once with --peers"

Contenders = dict[str, Callable[[int], float]]


def cache_folder() -> str:
    """Peers are built for one torch and one Python; another pair gets another folder."""
    from importlib.metadata import version

    root = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(
        root, "wick-bench", f"torch-{version('torch')}-py{platform.python_version()}"
    )


def wick_contenders() -> Contenders:
    import torch

    import wick

    direct = wick.load(source=SOURCE, name="bench/call_time")
    x, y = torch.zeros(4), torch.zeros(4)
    local = torch.ops.local
    return {
        "wick addone": call_seconds("f(1)", {"f": direct.bench_addone}),
        "wick inc": call_seconds("f(x)", {"f": direct.bench_inc, "x": x}),
        "wick accumulate": call_seconds("f(x, y)", {"f": direct.bench_accumulate, "x": x, "y": y}),
        "wick plusone": call_seconds("f(x)", {"f": direct.bench_plusone, "x": x}),
        "ops plusone": call_seconds("f(x)", {"f": local.bench_plusone, "x": x}),
        "ops inc": call_seconds("f(x)", {"f": local.bench_inc, "x": x}),
        "ops accumulate": call_seconds("f(x, y)", {"f": local.bench_accumulate, "x": x, "y": y}),
    }


def torch_contenders() -> Contenders:
    import torch

    x, y = torch.zeros(4), torch.zeros(4)

    def addone(x: int) -> int:
        return x + 1

    return {
        "python addone": call_seconds("f(1)", {"f": addone}),
        "empty_like": call_seconds("f(x)", {"f": torch.empty_like, "x": x}),
        "relu": call_seconds("f(x)", {"f": torch.relu, "x": x}),
        "add_": call_seconds("x.add_(y)", {"x": x, "y": y}),
        "custom_op": call_seconds("f(x)", {"f": python_op.plusone(), "x": x}),
    }


def tvm_contenders(module: Any) -> Contenders:
    import torch

    x, y = torch.zeros(4), torch.zeros(4)
    return {
        "tvm addone": call_seconds("f(1)", {"f": module.addone}),
        "tvm inc": call_seconds("f(x)", {"f": module.inc, "x": x}),
        "tvm accumulate": call_seconds("f(x, y)", {"f": module.accumulate, "x": x, "y": y}),
    }


def cpp_contenders(ops: Any) -> Contenders:
    import torch

    x, y = torch.zeros(4), torch.zeros(4)
    return {
        "cpp plusone": call_seconds("f(x)", {"f": ops.plusone, "x": x}),
        "cpp lean": call_seconds("f(x)", {"f": ops.plusone_lean, "x": x}),
        "cpp inc": call_seconds("f(x)", {"f": ops.inc, "x": x}),
        "cpp accumulate": call_seconds("f(x, y)", {"f": ops.accumulate, "x": x, "y": y}),
    }


def peer_contenders(build: bool, notes: dict[str, str]) -> Contenders:
    """What there is of tvm-ffi and C++; `notes` says why one is not there."""
    cache, found = cache_folder(), {}
    with measure.Progress("peers") as progress:
        tvm_built = os.path.exists(os.path.join(cache, "tvm"))
        notes["tvm"] = tvm.missing() or ("" if build or tvm_built else NOT_BUILT)
        if not notes["tvm"]:
            progress.say("tvm-ffi")
            found |= tvm_contenders(tvm.calls(cache))
        notes["cpp"] = "" if cpp.is_built(cache) else cpp.missing() or ("" if build else NOT_BUILT)
        if not notes["cpp"]:
            progress.say(
                "C++"
                if cpp.is_built(cache)
                else "C++ (cpp_extension builds it: half a minute, once)"
            )
            found |= cpp_contenders(cpp.calls(cache))
    return found


def make_rows(t: dict[str, list[float]], notes: dict[str, str]) -> list[Row]:
    """t: microseconds per contender and round."""

    def beside(what: str, ours: str, peer: str, words: str, at_most: float | None = None) -> Row:
        if peer in t:
            return compare(what, t[ours], words, t[peer], at_most=at_most)
        target = "" if at_most is None else f"<= {at_most:g} x"
        return missing(what, t[ours], words, notes[peer.split()[0]], target)

    return [
        limit("direct, in place, 1 tensor", t["wick inc"], ONE_TENSOR_US),
        beside("", "wick inc", "tvm inc", "tvm-ffi"),
        beside("direct, in place, 2 tensors", "wick accumulate", "tvm accumulate", "tvm-ffi", 1.0),
        beside("", "wick accumulate", "add_", "x.add_(y)"),
        beside(
            "direct, new output", "wick plusone", "empty_like", "torch.empty_like", WITHIN_EMPTY
        ),
        beside("", "wick plusone", "relu", "torch.relu"),
        beside(
            "torch.ops, new output", "ops plusone", "cpp plusone", "C++, at::empty_like", WITHIN_CPP
        ),
        beside("", "ops plusone", "cpp lean", "C++, detail::empty_cpu", WITHIN_CPP),
        beside("", "ops plusone", "custom_op", "Python custom_op"),
        beside("", "ops plusone", "relu", "torch.relu"),
        beside("torch.ops, in place, 1 tensor", "ops inc", "cpp inc", "C++, unboxed", WITHIN_CPP),
        beside(
            "torch.ops, in place, 2 tensors",
            "ops accumulate",
            "cpp accumulate",
            "C++, unboxed",
            WITHIN_CPP,
        ),
        beside("direct, no tensor: addone(1)", "wick addone", "tvm addone", "tvm-ffi"),
        beside("", "wick addone", "python addone", "a Python function"),
    ]


def main() -> int:
    parser = measure.arguments(__doc__)
    parser.add_argument(
        "--rounds", type=int, default=300, help="each contender is timed once per round (300)"
    )
    options = parser.parse_args()
    import torch

    import wick

    torch.set_num_threads(1)
    notes: dict[str, str] = {}
    peers = peer_contenders(options.peers, notes)
    with measure.quiet_process(), measure.Progress("call time") as progress:
        contenders = wick_contenders() | torch_contenders() | peers
        samples = measure.rounds(
            contenders, n_rounds=options.rounds, sample_s=0.001, progress=progress
        )
    rows = make_rows({name: [s * 1e6 for s in all_] for name, all_ in samples.items()}, notes)
    title = (
        f"Call time: 4-element f32 tensors, medians of {options.rounds} rounds, one CPU "
        f"(direct: {wick._calls.mode})"
    )
    measure.print_table(title, rows)
    if options.save:
        measure.save("call_time", rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
