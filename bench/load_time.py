"""load_time -- how long a person waits for wick.load, with nothing in the cache and with everything
in it, and for the command.

    .venv/bin/python bench/load_time.py [--save] [--rounds N]

Every load is in a fresh process, which has imported torch and wick before the clock starts, and with
a cache of its own. Cold is the load and the first call; the bare compiler beside it has the same
function and the same flags. A hit is a load of a file that this process has loaded before: the file
is read again, since an edit must be seen.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import build_time
import measure
from measure import Row, compare, limit

FILES, OPERATORS = 10, 10  # of each file

# Each prints its seconds.
COLD = """
import sys, time, torch, wick
x = torch.ones(8)
t = time.perf_counter()
wick.load(sys.argv[1]).bench_scale(x, 2.0)
print(time.perf_counter() - t)
"""
WARM = """
import sys, time, torch, wick
t = time.perf_counter()
loads = [wick.load(path) for path in sys.argv[1:]]
print(time.perf_counter() - t)
"""
HIT = """
import sys, timeit, torch, wick
load, path = wick.load, sys.argv[1]
load(path)
print(min(timeit.repeat(lambda: load(path), number=500, repeat=7)) / 500)
"""

MANY = """WICK_OP(bench_{name}, "x: f32[*N], by: float -> y: f32[*N]");
WICK_IMPL wick_status bench_{name}_cpu(wick_ctx *ctx, const float *x, double by, float *y, int64_t N)
{{
    (void)ctx;
    for (int64_t i = 0; i < N; i++) y[i] = x[i] * (float)by;
    return WICK_OK;
}}
"""


def write_many(folder: str) -> list[str]:
    paths = []
    for f in range(FILES):
        paths.append(os.path.join(folder, f"many{f}.c"))
        with open(paths[-1], "w") as file:
            file.write("#include <wick/op.h>\n")
            file.writelines(MANY.format(name=f"{f}_{i}") for i in range(OPERATORS))
    return paths


def run(code: str, cache: str, paths: list[str]) -> float:
    environment = {**os.environ, "WICK_CACHE_DIR": cache}
    argv = [sys.executable, "-c", code, *paths]
    done = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return float(done.stdout)


def cold(folder: str) -> float:
    with tempfile.TemporaryDirectory() as cache:
        return run(COLD, cache, [build_time.write_source(folder, build_time.OPERATOR)])


def contenders(folder: str) -> dict[str, Callable[[], float]]:
    """What is timed, by name; what it needs is written and, for the warm ones, built."""
    cache, many = os.path.join(folder, "cache"), write_many(folder)
    one = os.path.join(folder, "one.c")
    with open(one, "w") as file:
        file.write(build_time.OPERATOR.format(nonce="warm"))
    run(WARM, cache, [one, *many])
    found: dict[str, Callable[[], float]] = {
        "cc": lambda: build_time.build_bare(folder)[0],
        "cold": lambda: cold(folder),
        "warm": lambda: run(WARM, cache, [one]),
        "many": lambda: run(WARM, cache, many),
        "hit": lambda: run(HIT, cache, [one]),
    }
    command = build_time.wick_command()
    if command:
        os.environ["WICK_CACHE_DIR"] = cache
        found["help"] = lambda: build_time.timed([command, "--help"])[0]
        found["cache"] = lambda: build_time.timed([command, "cache"])[0]
    return found


def sample(n: int) -> dict[str, list[float]]:
    with (
        tempfile.TemporaryDirectory(prefix="wick-bench-") as folder,
        measure.Progress("load time") as progress,
    ):
        timed = contenders(folder)
        samples: dict[str, list[float]] = {name: [] for name in timed}
        for i in range(n):
            for name, once in timed.items():
                samples[name].append(once())
            progress.step(i + 1, n)
    return samples


def scaled(samples: list[float], by: float) -> list[float]:
    return [s * by for s in samples]


def make_rows(t: dict[str, list[float]]) -> list[Row]:
    what = f"{FILES * OPERATORS} operators in {FILES} files, warm"
    rows = [
        limit("cold load and first call", t["cold"], 0.3, "s"),
        compare("", t["cold"], "cc -O3 -shared", t["cc"], at_most=2.5, unit="s"),
        limit("warm load in a fresh process", scaled(t["warm"], 1e3), 5, "ms"),
        limit(what, scaled(t["many"], 1e3), 50, "ms"),
        limit("hit in the same process", scaled(t["hit"], 1e6), 20, "us"),
    ]
    for name, words in (("help", "wick --help"), ("cache", "wick cache")):
        if name in t:
            rows.append(limit(words, scaled(t[name], 1e3), 50, "ms"))
        else:
            note = "no wick command beside this Python: make build"
            rows.append(Row(words, None, "", None, None, "<= 50 ms", None, "ms", note))
    return rows


def main() -> int:
    parser = measure.arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="processes of each kind (7)")
    options = parser.parse_args()
    rows = make_rows(sample(options.rounds))
    measure.print_table(f"Load time, medians of {options.rounds}", rows)
    if options.save:
        measure.save("load_time", rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
