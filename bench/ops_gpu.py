"""ops_gpu -- the shipped operators on the GPU beside eager torch, torch.compile and a plain copy.

    python bench/ops_gpu.py [--save] [--quick] [--only forward,backward,sums,sweep] [--plot FILE.png]

Times are the GPU's own (CUDA events), medians over rounds in which every contender runs once, in a
changing order. Buffers are rotated, so that nothing is found in the L2 cache that a large tensor
would not leave there; small tensors are timed warm, as a model leaves them. GB/s counts the bytes
that must move: each input once, each result once.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import sys
from collections.abc import Callable
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import measure
import torch

import wick

ops = torch.ops.wick
ROTATED = 512 << 20  # bytes of inputs that a contender goes through before it meets one again


def gpu_times(
    contenders: dict[str, Callable[[], Any]], n_rounds: int, inner: int
) -> dict[str, float]:
    """Median microseconds of one run of each."""
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    for run in contenders.values():
        for _ in range(3):
            run()
    torch.cuda.synchronize()
    order = list(contenders)
    for _ in range(n_rounds):
        random.shuffle(order)
        for name in order:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            # The queue is filled while the GPU waits.
            torch.cuda._sleep(max(800_000, 60_000 * inner))
            start.record()
            for _ in range(inner):
                contenders[name]()
            end.record()
            end.synchronize()
            samples[name].append(start.elapsed_time(end) * 1e3 / inner)
    return {name: statistics.median(found) for name, found in samples.items()}


def rotating(make: Callable[[], tuple[Any, ...]], bytes_each: int) -> Callable[[], tuple[Any, ...]]:
    """Gives one set of inputs after another, more of them than the L2 holds."""
    sets = [make() for _ in range(max(1, min(64, ROTATED // max(1, bytes_each))))]
    at = [0]

    def following() -> tuple[Any, ...]:
        at[0] = (at[0] + 1) % len(sets)
        return sets[at[0]]

    return following


class Report:
    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def add(
        self, what: str, times: dict[str, float], moved: int, targets: dict[str, float]
    ) -> None:
        ours = times["wick"]
        row = {"what": what, "bytes": moved, "us": {k: round(v, 2) for k, v in times.items()}}
        row["GB/s"] = round(moved / ours / 1e3, 1)
        words = [f"{what:<44} {ours:10.2f} us {row['GB/s']:8.1f} GB/s"]
        for name, theirs in times.items():
            if name == "wick":
                continue
            ratio = ours / theirs
            verdict = ""
            if name in targets:
                verdict = " OK" if ratio <= targets[name] else f" MISSED (<= {targets[name]:g})"
                row.setdefault("targets", {})[name] = [targets[name], ratio <= targets[name]]
            words.append(f"{name} {theirs:.2f} ({ratio:.2f} x{verdict})")
        print("  ".join(words), flush=True)
        self.lines.append(row)


def eager(x: Any, b: Any) -> Any:
    return torch.relu(x * 2.0 + b)


def ours(x: Any, b: Any) -> Any:
    return ops.scale_bias_relu(x, b, 2.0)


def forward(report: Report, rounds: int, dtype: torch.dtype) -> None:
    compiled = torch.compile(eager)
    x = torch.randn(65536, 4096, device="cuda", dtype=dtype)
    b = torch.randn(4096, device="cuda", dtype=dtype)
    out = torch.empty_like(x)
    times = gpu_times(
        {
            "wick": lambda: wick.ops.scale_bias_relu(x, b, 2.0, out=out),
            "copy": lambda: out.copy_(x),
            "compile": lambda: compiled(x, b),
            "eager": lambda: eager(x, b),
            "wick, new output": lambda: ours(x, b),
        },
        rounds,
        2,
    )
    what = f"scale_bias_relu {str(dtype)[6:]} 65536x4096"
    targets = {"copy": 1 / 0.97, "compile": 1.0}
    report.add(what, times, 2 * x.numel() * x.element_size(), targets)


def backward(report: Report, rounds: int, dtype: torch.dtype) -> None:
    compiled = torch.compile(eager)
    x = torch.randn(65536, 4096, device="cuda", dtype=dtype, requires_grad=True)
    b = torch.randn(4096, device="cuda", dtype=dtype, requires_grad=True)
    dy = torch.randn_like(x)

    def both(f: Callable[..., Any]) -> None:
        torch.autograd.grad(f(x, b), (x, b), dy)

    times = gpu_times(
        {
            "wick": lambda: both(ours),
            "compile": lambda: both(compiled),
            "eager": lambda: both(eager),
        },
        rounds,
        2,
    )
    what = f"scale_bias_relu fwd+bwd {str(dtype)[6:]} 65536x4096"
    report.add(what, times, 5 * x.numel() * x.element_size(), {"compile": 1.0})
    limit = 1300 if dtype == torch.float32 else 650
    print(f"    target <= {limit} us: {'OK' if times['wick'] <= limit else 'MISSED'}")


def sums(report: Report, rounds: int, quick: bool) -> None:
    sizes = [1 << k for k in (16, 20, 23, 27, 30)] if quick else [1 << k for k in range(16, 31, 2)]
    for dtype in (torch.float32, torch.bfloat16):
        for size in sizes:
            n = size // dtype.itemsize
            cols = 1 << ((n.bit_length() - 1) // 2)
            rows = n // cols
            following = rotating(
                lambda r=rows, c=cols, d=dtype: (torch.randn(r, c, device="cuda", dtype=d),), size
            )
            where = f"{str(dtype)[6:]} {rows}x{cols}"
            small = size <= 8 << 20
            for what, ours, theirs in (
                ("full", lambda x: ops.reduce_sum(x), lambda x: x.sum()),
                ("dim 0", lambda x: ops.reduce_sum_dim(x[None]), lambda x: x.sum(0)),
                ("dim 1", lambda x: ops.reduce_sum_dim(x[..., None]), lambda x: x.sum(1)),
            ):
                try:
                    times = gpu_times(
                        {
                            "wick": lambda f=ours, g=following: f(*g()),
                            "torch": lambda f=theirs, g=following: f(*g()),
                        },
                        rounds,
                        20 if small else 3,
                    )
                except Exception as error:
                    print(f"sum {what} {where}: {error}")
                    continue
                report.add(f"sum {what} {where}", times, size, {"torch": 1.0 if small else 1.03})


def sweep(report: Report, rounds: int, plot: str | None) -> None:
    found: dict[str, list[tuple[int, float]]] = {"wick": [], "eager": [], "copy": []}
    for k in range(10, 29, 2):
        n, cols = 1 << k, 1 << min(10, k // 2)
        size = n * 4
        following = rotating(
            lambda n=n, c=cols: (
                torch.randn(n // c, c, device="cuda"),
                torch.randn(c, device="cuda"),
            ),
            size,
        )
        times = gpu_times(
            {
                "wick": lambda g=following: ops.scale_bias_relu(*g(), 2.0),
                "eager": lambda g=following: eager(*g()),
                "copy": lambda g=following: g()[0].clone(),
            },
            rounds,
            50 if k < 22 else 5,
        )
        report.add(f"scale_bias_relu f32, {n} elements", times, 2 * size, {"eager": 1.0})
        for name in found:
            found[name].append((n, 2 * size / times[name] / 1e3))
    if plot:
        draw(found, plot)


def draw(found: dict[str, list[tuple[int, float]]], path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for name, points in found.items():
        axis.plot(*zip(*points), marker="o", markersize=3, label=name)
    axis.set(xscale="log", yscale="log", xlabel="elements", ylabel="GB/s (bytes in and out)")
    axis.set_xscale("log", base=2)
    axis.grid(alpha=0.3)
    axis.legend(frameon=False)
    axis.set_title(
        f"scale_bias_relu f32, {torch.cuda.get_device_name()}, torch {torch.__version__}"
    )
    figure.savefig(path, dpi=150)


def main() -> int:
    parser = measure.arguments(__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer sizes and rounds")
    parser.add_argument("--only", default="forward,backward,sums,sweep", help="some of these")
    parser.add_argument("--plot", metavar="FILE.png", help="draws the sweep")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("ops_gpu: there is no GPU that torch can use", file=sys.stderr)
        return 1
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    report, rounds = Report(), 15 if options.quick else 41
    wanted = options.only.split(",")
    for dtype in (torch.float32, torch.bfloat16):
        if "forward" in wanted:
            forward(report, rounds, dtype)
        if "backward" in wanted:
            backward(report, rounds, dtype)
    if "sums" in wanted:
        sums(report, rounds, options.quick)
    if "sweep" in wanted:
        sweep(report, rounds, options.plot)
    if options.save:
        about = measure.facts()
        with open(os.path.join(measure.HERE, "results", "ops_gpu.jsonl"), "w") as file:
            for line in report.lines:
                file.write(json.dumps({**line, **about}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
