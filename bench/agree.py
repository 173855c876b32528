"""agree -- whether wick bench measures what others measure.

    .venv/bin/python bench/agree.py [--save] [--threads N] [--device cuda]

The same calls as `wick bench` times them and by torch.utils.benchmark's Timer, sample by sample in
turns; what is compared are the medians over a row's rounds, and what is printed is the median of the
ratios of several turns, of those in which the samples lie closest together. Samples are equally long,
since a longer one is interrupted more often: a busy machine seems slower with blocks of 10 ms, as
blocked_autorange has them, than with samples of 2 ms. The copy that the floor is made of stands beside
a loop in C as STREAM has it (OpenMP), trial by trial in turns as well, the best of the trials of each; over
the same memory, since how the system lays pages out makes 15 % between one allocation and the next. On
a GPU the calls are timed by events, Timer waits for the device, and STREAM's loop is a kernel.
On a busy machine calls with several threads say little; --threads 1 says more.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import measure
from measure import Row

from wick.bench import records
from wick.bench.rows import Effort, Times

WITHIN = 0.05
CALM = 0.05  # spread of samples, up to which a turn counts as undisturbed
TRIES = 4  # times as many turns as are wanted, to find calm ones; else the calmest are taken

STREAM = r"""
void stream_copy(double *c, const double *a, long n)
{
#pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++)
        c[i] = a[i];
}
"""

STREAM_ON_GPU = r"""
#include <wick/op.h>

enum { PER_THREAD = 4 }; /* pairs: one double per thread leaves too little under way, 3.4 of 4.1 TB/s */

WICK_OP(stream_copy, "c!: f64[N], a: f64[N] -> ()");

static __global__ void copy_kernel(double2 *c, const double2 *a, int64_t n)
{
    const int64_t first = (int64_t)blockIdx.x * PER_THREAD * blockDim.x + threadIdx.x;
    double2 v[PER_THREAD];
    for (int k = 0; k < PER_THREAD; k++)
        if (first + k * blockDim.x < n) v[k] = a[first + k * blockDim.x];
    for (int k = 0; k < PER_THREAD; k++)
        if (first + k * blockDim.x < n) c[first + k * blockDim.x] = v[k];
}

WICK_IMPL wick_status stream_copy_cuda(wick_ctx *ctx, double *c, const double *a, int64_t N)
{
    const int64_t n = N / 2;
    return WICK_LAUNCH(ctx, copy_kernel, wick_1d(wick_ceil_div(n, PER_THREAD * 256)), wick_1d(256), 0,
                       (double2 *)c, (const double2 *)a, n);
}
"""


def row(what: str, ours: list[float], against: str, theirs: list[float], unit: str) -> Row:
    """A row that is met within WITHIN, to either side."""
    found = measure.compare(what, ours, against, theirs, unit=unit)
    assert found.ratio is not None
    found.target = f"1 +- {WITHIN:g}"
    found.met = abs(found.ratio - 1) <= WITHIN
    return found


# ---- calls ----


@dataclass
class Turn:
    """Medians of both in the same rounds, and how far their samples lie apart."""

    ours: float
    theirs: float
    spread: float

    @classmethod
    def of(cls, ours: list[float], theirs: list[float]) -> Turn:
        times = [Times.of(samples) for samples in (ours, theirs)]
        return cls(times[0].median_s, times[1].median_s, max(t.spread for t in times))


def calls(device: str) -> list[tuple[str, str, dict[str, Any]]]:
    """What, statement, names."""
    import torch

    import wick

    small, large = (torch.randn(n, device=device) for n in (4, 1 << 20))
    out, bias = torch.zeros_like(large), torch.randn(1024, device=device)
    x = torch.randn(256, 1024, device=device)
    found = [
        ("wick.ops.relu, 4 elements", "f(a0)", {"f": wick.ops.relu, "a0": small}),
        ("torch.relu, 4 elements", "f(a0)", {"f": torch.relu, "a0": small}),
        ("wick.ops.relu out=, 1 M", "f(a0, out=o)", {"f": wick.ops.relu, "a0": large, "o": out}),
        ("torch.sum, 1 M", "f(a0)", {"f": torch.sum, "a0": large}),
        (
            "scale_bias_relu, 256 x 1024",
            "f(a0, a1, 1.5)",
            {"f": wick.ops.scale_bias_relu, "a0": x, "a1": bias},
        ),
    ]
    if device != "cpu":  # whose memory takes longer than a launch
        huge = torch.randn(1 << 26, device=device)
        found += [
            ("wick.ops.relu, 64 M", "f(a0)", {"f": wick.ops.relu, "a0": huge}),
            ("torch.relu, 64 M", "f(a0)", {"f": torch.relu, "a0": huge}),
        ]
    return found


def compare_calls(device: Any, turns: int, progress: measure.Progress) -> list[Row]:
    from torch.utils.benchmark import Timer

    from wick.bench.timing import Run, rounds

    effort = Effort()
    found = []
    cases = calls(device.type)
    for i, (what, stmt, names) in enumerate(cases):
        timer = Timer(stmt, globals=names, num_threads=device.threads)
        runs: dict[str, Run] = {
            "ours": device.warm(stmt, names),
            "theirs": lambda n, timer=timer: timer.timeit(n).median,
        }
        taken: list[Turn] = []
        while len(taken) < TRIES * turns and sum(t.spread < CALM for t in taken) < turns:
            progress.step(i * turns + min(len(taken), turns), len(cases) * turns, what)
            with device.quiet():
                samples = rounds(runs, n_rounds=effort.rounds, sample_s=effort.sample_s)
            taken.append(Turn.of(samples["ours"], samples["theirs"]))
        calm = sorted(taken, key=lambda t: t.spread)[:turns]
        ours, theirs = [t.ours * 1e6 for t in calm], [t.theirs * 1e6 for t in calm]
        found.append(row(what, ours, "torch.utils.benchmark", theirs, "us"))
    return found


# ---- the copy ----


def load_stream(folder: str, cpus: list[int]) -> ctypes.CDLL:
    source, library = os.path.join(folder, "stream.c"), os.path.join(folder, "stream.so")
    with open(source, "w") as f:
        f.write(STREAM)
    words = ["cc", "-O3", "-fopenmp", "-shared", "-fPIC", "-o", library, source]
    subprocess.run(words, check=True)
    os.environ["OMP_NUM_THREADS"] = str(len(cpus))
    os.environ["OMP_PLACES"] = ",".join(f"{{{cpu}}}" for cpu in cpus)
    os.environ["OMP_PROC_BIND"] = "close"
    return ctypes.CDLL(library)


def with_stream(threads: int) -> Any:
    """The CPU, with STREAM's loop as one more way to copy."""
    from wick.bench.host import Host

    with tempfile.TemporaryDirectory(prefix="wick-bench-") as folder:
        stream = load_stream(folder, Host(threads).facts()["held_on"])

    class WithStream(Host):
        def copies(self, n_bytes: int) -> dict[str, Any]:
            ours = super().copies(n_bytes)
            _, names = ours["plain, one"]
            to, source = (ctypes.c_void_p(names[k]) for k in "ab")
            what = {"f": stream.stream_copy, "c": to, "a": source, "n": ctypes.c_long(n_bytes // 8)}
            return {**ours, "STREAM": ("f(c, a, n)", what)}

    return WithStream(threads)


def with_stream_on_gpu(name: str) -> Any:
    import torch

    import wick
    from wick.bench.cuda import Cuda

    stream = wick.load(source=STREAM_ON_GPU)

    class WithStream(Cuda):
        def copies(self, n_bytes: int) -> dict[str, Any]:
            ours = super().copies(n_bytes)
            _, names = ours["plain"]
            to, source = (names[k][: n_bytes // 16 * 16].view(torch.float64) for k in "ab")
            return {**ours, "STREAM": ("f(c, a)", {"f": stream.stream_copy, "c": to, "a": source})}

    return WithStream(name)


def compare_copy(device: Any, turns: int, progress: measure.Progress) -> list[Row]:
    """STREAM's loop is timed by wick bench in the same rounds as its own."""
    from wick.bench.floor import Roof

    ours, theirs = [], []
    for turn in range(turns):
        progress.step(turn, turns, "copy")
        roof = Roof(device)
        roof.measure_large()
        ours.append(roof.rates["plain"] / 1e9)
        theirs.append(roof.rates["STREAM"] / 1e9)
    return [row(f"copy, {device.words()}", ours, "STREAM's loop in C", theirs, "GB/s")]


def main() -> int:
    import torch

    parser = measure.arguments(__doc__)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--turns", type=int, default=7, help="how often each pair is measured (7)")
    parser.add_argument("--device", default="cpu", help="cpu, or a GPU, as cuda")
    options = parser.parse_args()
    on_cpu = options.device == "cpu"
    device = with_stream(options.threads) if on_cpu else with_stream_on_gpu(options.device)
    if busy := records.busy():
        print(f"The machine is busy ({busy}): run it again when it is not.")
    with measure.Progress("agreement") as progress:
        rows = compare_calls(device, options.turns, progress)
        rows += compare_copy(device, options.turns, progress)
    measure.print_table(f"Agreement, {device.words()}", rows)
    if options.save:
        measure.save("agree" if on_cpu else "agree_gpu", rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
