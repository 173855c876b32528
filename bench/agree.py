"""agree -- whether wick bench measures what others measure.

    .venv/bin/python bench/agree.py [--save] [--threads N]

The same calls by `wick bench` and by torch.utils.benchmark, and the copy that the floor is made of
beside a loop in C as STREAM has it (OpenMP, best of its trials). Each pair takes turns, several times;
what is printed is the median of the ratios. Run it on a quiet machine.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import measure
from measure import Row

WITHIN = 0.05

STREAM = r"""
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    long n = argc > 1 ? atol(argv[1]) / (long)sizeof(double) : 0;
    double *a = malloc((size_t)n * sizeof *a), *c = malloc((size_t)n * sizeof *c), best = 1e30;
    if (!a || !c) return 1;
#pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++) {
        a[i] = (double)i;
        c[i] = 0;
    }
    for (int trial = 0; trial < 20; trial++) {
        double begin = omp_get_wtime(), took;
#pragma omp parallel for schedule(static)
        for (long i = 0; i < n; i++)
            c[i] = a[i];
        took = omp_get_wtime() - begin;
        if (took < best) best = took;
    }
    if (c[n / 2] != a[n / 2]) return 1;
    printf("%.6e\n", 2.0 * (double)n * (double)sizeof *a / best);
    return 0;
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


def calls() -> list[tuple[str, str, dict[str, Any]]]:
    """What, statement, names."""
    import torch

    import wick

    small, large = torch.randn(4), torch.randn(1 << 20)
    out, bias = torch.zeros_like(large), torch.randn(1024)
    x = torch.randn(256, 1024)
    return [
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


def compare_calls(threads: int, turns: int, progress: measure.Progress) -> list[Row]:
    from torch.utils.benchmark import Timer

    from wick.bench.host import Host
    from wick.bench.rows import Effort
    from wick.bench.timing import rounds

    host, effort = Host(threads), Effort()
    found = []
    cases = calls()
    for i, (what, stmt, names) in enumerate(cases):
        ours, theirs = [], []
        theirs_timer = Timer(stmt, globals=names, num_threads=threads)
        run = host.warm(stmt, names)
        for turn in range(turns):
            progress.step(i * turns + turn, len(cases) * turns, what)
            with host.quiet():
                samples = rounds({"it": run}, n_rounds=effort.rounds, sample_s=effort.sample_s)
                ours.append(statistics.median(samples["it"]) * 1e6)
                theirs.append(theirs_timer.blocked_autorange(min_run_time=0.1).median * 1e6)
        found.append(row(what, ours, "torch.utils.benchmark", theirs, "us"))
    return found


# ---- the copy ----


def compare_copy(threads: int, turns: int, progress: measure.Progress) -> list[Row]:
    from wick.bench.floor import Roof
    from wick.bench.host import Host

    host = Host(threads)
    places = ",".join(f"{{{cpu}}}" for cpu in host.facts()["held_on"])
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": str(threads),
        "OMP_PLACES": places,
        "OMP_PROC_BIND": "close",
    }
    size = 4 * host.facts()["last_cache_bytes"]
    with tempfile.TemporaryDirectory(prefix="wick-bench-") as folder:
        source, program = os.path.join(folder, "stream.c"), os.path.join(folder, "stream")
        with open(source, "w") as f:
            f.write(STREAM)
        subprocess.run(["cc", "-O3", "-fopenmp", "-o", program, source], check=True)
        ours, theirs = [], []
        for turn in range(turns):
            progress.step(turn, turns, "copy")
            roof = Roof(host)
            roof.measure_large()
            ours.append(roof.rates["plain"] / 1e9)
            said = subprocess.run(
                [program, str(size)], check=True, env=environment, capture_output=True, text=True
            )
            theirs.append(float(said.stdout) / 1e9)
    return [row(f"copy, {threads} thread(s)", ours, "STREAM's loop in C", theirs, "GB/s")]


def main() -> int:
    import torch

    parser = measure.arguments(__doc__)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--turns", type=int, default=7, help="how often each pair is measured (7)")
    options = parser.parse_args()
    with measure.Progress("agreement") as progress:
        rows = compare_calls(options.threads, options.turns, progress)
        rows += compare_copy(options.threads, options.turns, progress)
    measure.print_table(f"Agreement, {options.threads} thread(s)", rows)
    if options.save:
        measure.save("agree", rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
