"""autograd_time -- what a gradient costs beyond the kernels, and what its mere existence costs.

    .venv/bin/python bench/autograd_time.py [--peers] [--save]

Forward and backward on tensors of four elements; the time of the two kernels, called directly, is
taken off. torch.library.register_autograd is measured over an operator in C++ where that was built
(--peers, or an earlier run of call_time.py with it), and over an operator of Wick's.
"""

from __future__ import annotations

import os
import sys
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import measure
from call_time import NOT_BUILT, Contenders, cache_folder
from measure import Row, call_seconds, compare, limit, missing
from peers import cpp

KERNEL = """
WICK_IMPL wick_status NAME_cpu(wick_ctx *ctx, const float *x, float *y, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++) y[i] = x[i] + 1;
    return WICK_OK;
}
"""
# The same kernel three times: with a gradient by name, as that gradient, and with none.
SOURCE = (
    """/* plusone, with a gradient and without one; the gradient computes the same, for the time. */
#include <wick/op.h>

WICK_OP(bench_grad, "x: f32[*N] -> y: f32[*N]");
WICK_OP(bench_grad_backward, "dy: f32[*N] -> dx: f32[*N]");
WICK_OP(bench_bare, "x: f32[*N] -> y: f32[*N]");
WICK_OP(bench_by_hand, "x: f32[*N] -> y: f32[*N]");
"""
    + KERNEL.replace("NAME", "bench_grad")
    + KERNEL.replace("NAME", "bench_grad_backward")
    + KERNEL.replace("NAME", "bench_bare")
    + KERNEL.replace("NAME", "bench_by_hand")
)

DIRECT_US, OPS_US = 0.3, 0.5  # what a gradient that is not asked for may cost


def both_ways(function: Any) -> Any:
    import torch

    x, dy = torch.zeros(4, requires_grad=True), torch.ones(4)
    names = {"f": function, "x": x, "dy": dy}
    return call_seconds("f(x).backward(dy); x.grad = None", names)


def wick_contenders(module: Any) -> Contenders:
    import torch

    x, local = torch.zeros(4), torch.ops.local
    names = {"f": module.bench_grad, "g": module.bench_grad_backward, "x": x}
    return {
        "kernels": call_seconds("f(x); g(x)", names),
        "wick both": both_ways(module.bench_grad),
        "ops both": both_ways(local.bench_grad),
        "wick": call_seconds("f(x)", {"f": module.bench_grad, "x": x}),
        "wick bare": call_seconds("f(x)", {"f": module.bench_bare, "x": x}),
        "ops": call_seconds("f(x)", {"f": local.bench_grad, "x": x}),
        "ops bare": call_seconds("f(x)", {"f": local.bench_bare, "x": x}),
    }


def function_contenders(module: Any) -> Contenders:
    """A torch.autograd.Function as people write it, around the same kernels."""
    import torch

    class PlusOne(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return module.bench_bare(x)

        @staticmethod
        def backward(ctx: Any, dy: torch.Tensor) -> torch.Tensor:
            return module.bench_grad_backward(dy)

    return {"Function": both_ways(PlusOne.apply)}


def registered_contenders(module: Any) -> Contenders:
    import torch

    torch.library.register_autograd(
        "local::bench_by_hand", lambda ctx, dy: module.bench_grad_backward(dy)
    )
    return {"registered": both_ways(torch.ops.local.bench_by_hand)}


def cpp_contenders(build: bool, notes: dict[str, str]) -> Contenders:
    import torch

    cache = cache_folder()
    notes["cpp"] = "" if cpp.is_built(cache) else cpp.missing() or ("" if build else NOT_BUILT)
    if notes["cpp"]:
        return {}
    ops = cpp.calls(cache)
    torch.library.register_autograd("wick_bench_cpp::plusone", lambda ctx, dy: ops.plusone(dy))
    x = torch.zeros(4)
    return {
        "cpp both": both_ways(ops.plusone),
        "cpp kernels": call_seconds("f(x); f(x)", {"f": ops.plusone_lean, "x": x}),
    }


def make_rows(t: dict[str, list[float]], notes: dict[str, str]) -> list[Row]:
    def less(a: str, b: str) -> list[float]:
        return [x - y for x, y in zip(t[a], t[b], strict=True)]

    ours, direct = less("ops both", "kernels"), less("wick both", "kernels")
    words = "register_autograd, C++ operator"
    what = "torch.ops, forward + backward"
    return [
        compare(what, ours, words, less("cpp both", "cpp kernels"), at_most=1.0)
        if "cpp both" in t
        else missing(what, ours, words, notes["cpp"], "<= 1 x"),
        compare(
            "", ours, "register_autograd, Wick operator", less("registered", "kernels"), at_most=1.0
        ),
        compare(
            "direct, forward + backward",
            direct,
            "torch.autograd.Function",
            less("Function", "kernels"),
            at_most=1.0,
        ),
        limit("torch.ops, no gradient asked for: added", less("ops", "ops bare"), OPS_US),
        limit("direct, no gradient asked for: added", less("wick", "wick bare"), DIRECT_US),
    ]


def main() -> int:
    parser = measure.arguments(__doc__)
    parser.add_argument(
        "--rounds", type=int, default=200, help="each contender is timed once per round (200)"
    )
    options = parser.parse_args()
    import torch

    import wick

    torch.set_num_threads(1)
    notes: dict[str, str] = {}
    module = wick.load(source=SOURCE, name="bench/autograd_time")
    with measure.quiet_process(), measure.Progress("autograd time") as progress:
        contenders = wick_contenders(module) | function_contenders(module)
        contenders |= registered_contenders(module) | cpp_contenders(options.peers, notes)
        samples = measure.rounds(
            contenders, n_rounds=options.rounds, sample_s=0.002, progress=progress
        )
    rows = make_rows({name: [s * 1e6 for s in all_] for name, all_ in samples.items()}, notes)
    title = (
        f"Gradients: 4-element f32 tensors, time beyond the kernels, medians of {options.rounds} rounds, one CPU "
        f"(direct: {wick._calls.mode})"
    )
    measure.print_table(title, rows)
    if options.save:
        measure.save("autograd_time", rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
