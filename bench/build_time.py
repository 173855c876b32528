"""build_time -- from a C file with one operator and one element type to a module that can be
called, cold.

    .venv/bin/python bench/build_time.py [--peers] [--save]

Every build has a text of its own (a number in a comment), so no cache can answer, and wick.load
runs in a fresh process. What it is compared with is the C compiler alone on the same function,
with the same flags: one that compiles for another CPU or without -pipe would be another task. The
rows of CPU time (user and system, all child processes) hold on a busy machine too, where a build
waits for its turn and the wall clock says little.
"""

from __future__ import annotations

import os
import random
import resource
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import measure
from measure import Row, compare, limit, missing
from peers import cpp, tvm

OPERATOR = """/* scale -- y = x * by. Build {nonce}. */
#include <wick/op.h>

WICK_OP(bench_scale, "x: f32[*N], by: float -> y: f32[*N]");

WICK_IMPL wick_status bench_scale_cpu(wick_ctx *ctx, const float *x, double by, float *y, int64_t N)
{{
    (void)ctx;
    for (int64_t i = 0; i < N; i++) y[i] = x[i] * (float)by;
    return WICK_OK;
}}
"""

BARE = """/* scale -- y = x * by. Build {nonce}. */
#include <stdint.h>

int bench_scale_cpu(void *ctx, const float *x, double by, float *y, int64_t N)
{{
    (void)ctx;
    for (int64_t i = 0; i < N; i++) y[i] = x[i] * (float)by;
    return 0;
}}
"""

LOAD = """
import resource, sys, time, torch, wick
def cpu():
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in both)
c, t = cpu(), time.perf_counter()
wick.load(sys.argv[1])
print(time.perf_counter() - t, cpu() - c)
"""
PEER = (
    "import sys, time, torch; sys.path.insert(0, sys.argv[1]); from peers import {0} as peer; {1}; "
    "t = time.perf_counter(); peer.build_scale(sys.argv[2], sys.argv[3]); "
    "print('seconds', time.perf_counter() - t)"
)

# What src/build/toolchain.c passes, less what only shapes messages.
CC_FLAGS = ["-O3", "-std=gnu11", "-pipe", "-fPIC", "-fno-math-errno", "-fno-trapping-math"]
CC_FLAGS += ["-ffp-contract=off", "-Wall", "-march=native", "-shared", "-Wl,-z,defs"]

Cost = tuple[float, float]  # seconds: wall clock, CPU

SECONDS = 0.3
WITHIN_CC = 2.5


def fresh_nonce() -> str:
    return f"{time.time_ns():x}{random.getrandbits(32):08x}"


def write_source(folder: str, text: str) -> str:
    path = os.path.join(folder, "bench_scale.c")
    with open(path, "w") as f:
        f.write(text.format(nonce=fresh_nonce()))
    return path


def children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def timed(argv: list[str]) -> Cost:
    cpu, began = children_cpu(), time.perf_counter()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began, children_cpu() - cpu


def wick_command() -> str | None:
    """The one installed beside this Python, else the one on the PATH."""
    beside = os.path.dirname(sys.executable)
    return shutil.which("wick", path=os.pathsep.join([beside, os.environ.get("PATH", "")]))


def build_bare(folder: str) -> Cost:
    cc = shlex.split(os.environ.get("CC", "")) or ["cc"]
    source = write_source(folder, BARE)
    return timed([*cc, *CC_FLAGS, "-o", os.path.join(folder, "bare.so"), source, "-lm"])


def build_wick(folder: str, *flags: str) -> Cost:
    command = wick_command()
    assert command
    return timed(
        [
            command,
            "build",
            *flags,
            write_source(folder, OPERATOR),
            "-o",
            os.path.join(folder, "op.so"),
        ]
    )


def load_wick(folder: str) -> Cost:
    argv = [sys.executable, "-c", LOAD, write_source(folder, OPERATOR)]
    wall, cpu = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    return float(wall), float(cpu)


def build_peer(name: str, folder: str) -> float:
    imported = "import tvm_ffi.cpp" if name == "tvm" else "import torch.utils.cpp_extension"
    argv = [sys.executable, "-c", PEER.format(name, imported), measure.HERE, folder, fresh_nonce()]
    said = subprocess.run(argv, capture_output=True, text=True)
    if said.returncode:
        raise RuntimeError(f"{name}: {said.stderr.strip().splitlines()[-1]}")
    return float(said.stdout.rsplit("seconds", 1)[1])


def in_fresh_folder(build: Callable[[str], Any]) -> Any:
    with tempfile.TemporaryDirectory(prefix="wick-bench-") as folder:
        return build(folder)


def sample(n: int) -> dict[str, list[Cost]]:
    """What each contender costs, in rounds."""
    contenders: dict[str, Callable[[str], Cost]] = {"cc": build_bare, "load": load_wick}
    if wick_command():
        contenders["native"] = lambda folder: build_wick(folder, "--native")
        contenders["portable"] = build_wick
    samples: dict[str, list[Cost]] = {name: [] for name in contenders}
    for build in (
        contenders.values()
    ):  # warm: files of the compiler and of Python come from the disk only once
        in_fresh_folder(build)
    with measure.Progress("build time") as progress:
        order = list(contenders)
        for i in range(n):
            random.shuffle(order)
            for name in order:
                samples[name].append(in_fresh_folder(contenders[name]))
            progress.step(i + 1, n)
    return samples


def sample_peers(wanted: bool) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Seconds per peer, or why there are none. tvm-ffi three times; C++, half a minute, once."""
    found: dict[str, list[float]] = {}
    notes: dict[str, str] = {}
    with measure.Progress("build time") as progress:
        for name, peer, n in (("tvm", tvm, 3), ("cpp", cpp, 1)):
            notes[name] = peer.missing() or ("" if wanted else "run with --peers")
            if notes[name]:
                continue
            progress.say("tvm-ffi" if name == "tvm" else "C++ by cpp_extension, half a minute")
            try:
                found[name] = [
                    in_fresh_folder(lambda folder, name=name: build_peer(name, folder))
                    for _ in range(n)
                ]
            except RuntimeError as e:
                notes[name] = str(e)
    return found, notes


def make_rows(
    costs: dict[str, list[Cost]], peers: dict[str, list[float]], notes: dict[str, str]
) -> list[Row]:
    rows = []
    t = {name: [wall for wall, _ in all_] for name, all_ in costs.items()}
    cpu = {name: [used for _, used in all_] for name, all_ in costs.items()}
    for name, what in (("load", "wick.load"), ("native", "wick build --native")):
        if name not in t:
            rows.append(
                Row(
                    what,
                    None,
                    "",
                    None,
                    None,
                    note="no wick command beside this Python: make build",
                )
            )
            continue
        rows.append(limit(what, t[name], SECONDS, "s"))
        rows.append(compare("", t[name], "cc -O3 -shared", t["cc"], at_most=WITHIN_CC, unit="s"))
        rows.append(
            compare(
                "  CPU time", cpu[name], "cc -O3 -shared", cpu["cc"], at_most=WITHIN_CC, unit="s"
            )
        )
    if "portable" in t:
        what, cc = "wick build (2 CPU levels)", "cc -O3 -shared"
        rows.append(compare(what, t["portable"], cc, t["cc"], unit="s"))
        rows.append(compare("  CPU time", cpu["portable"], cc, cpu["cc"], unit="s"))
    for name, words in (("tvm", "tvm-ffi load_inline"), ("cpp", "cpp_extension, slim headers")):
        if name in peers:
            ours, theirs = statistics.median(t["load"]), statistics.median(peers[name])
            rows.append(Row("wick.load", ours, words, theirs, ours / theirs, unit="s"))
        else:
            rows.append(missing("wick.load", t["load"], words, notes[name], unit="s"))
    return rows


def main() -> int:
    parser = measure.arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="builds of each kind (15)")
    options = parser.parse_args()
    times = sample(options.rounds)
    peers, notes = sample_peers(options.peers)
    rows = make_rows(times, peers, notes)
    measure.print_table(
        f"Build time: one operator, one element type, cold, medians of {options.rounds} "
        f"({measure.compiler()})",
        rows,
    )
    if options.save:
        measure.save("build_time", rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
