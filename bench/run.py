"""run -- all figures, side by side: what `make bench` prints.

    .venv/bin/python bench/run.py [--peers] [--save] [NAME ...]

Each bench is a program of its own and runs in a process of its own, one after another. PEERS=1 in
the environment (`make bench PEERS=1`) is --peers. The figures are reported, never asserted: a
busy machine is no fault.
"""

from __future__ import annotations

import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import measure

BENCHES = ("build_time", "load_time", "call_time", "autograd_time", "ops_cpu")


def run(name: str, flags: list[str]) -> int:
    return subprocess.run(
        [sys.executable, os.path.join(measure.HERE, f"{name}.py"), *flags]
    ).returncode


def main() -> int:
    parser = measure.arguments(__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"only these: {', '.join(BENCHES)}"
    )
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in BENCHES]
    if unknown:
        parser.error(f"no bench {', '.join(unknown)}; there are {', '.join(BENCHES)}")
    peers = options.peers or os.environ.get("PEERS", "") not in ("", "0")
    flags = ["--peers"] * peers + ["--save"] * options.save
    about = measure.facts()
    print(
        f"{about['cpu']}, {about['cores']} CPUs, load {about['load']}, torch {about['torch']}, "
        f"Python {about['python']}, {about['date']}"
    )
    failed = [name for name in options.names or BENCHES if run(name, flags)]
    if failed:
        print(f"did not run: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
