"""wick bench: times of operators beside torch and beside what the machine allows.

    wick bench my_op.c                      at the sizes of my_op.shapes.txt, beside my_op.py
    wick bench relu --types "f32 bf16"      an operator that comes with Wick
    wick bench my_op.c --json new.json --compare old.json

The command runs it by path, so that it is this installation's whatever folder it is called in.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence

_FILES = ("shapes", "reference", "json", "html", "plots", "profile", "compare")


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="wick bench",
        usage="wick bench [OPTION...] [OPERATOR|FILE.c|MODULE.so|FOLDER...] (--help lists options)",
        allow_abbrev=False,
        description=__doc__,
    )
    p.add_argument("operators", nargs="*", metavar="OPERATOR|FILE.c|MODULE.so|FOLDER")
    p.add_argument("--shapes", metavar="FILE", help="sizes from this file")
    p.add_argument("--size", metavar="SIZES", action="append", default=[], help="these sizes")
    p.add_argument("--types", metavar="TYPES", help="element types")
    p.add_argument("--reference", metavar="FILE", help="the reference's file")
    p.add_argument("--against", metavar="NAMES", help="eager, compile, dispatcher, baselines")
    p.add_argument("--device", metavar="DEVICE", help="cpu, cuda or cuda:N")
    p.add_argument("--threads", metavar="N", type=int, help="torch's threads")
    p.add_argument("--cache", metavar="STATE", choices=("warm", "cold", "both"), default="both")
    p.add_argument("--rounds", metavar="N", type=int, help="samples of each time")
    p.add_argument("--quick", action="store_true", help="fewer and shorter samples")
    p.add_argument("--seed", metavar="N", type=int, default=0, help="of the inputs")
    p.add_argument("--json", metavar="FILE", help="JSON lines")
    p.add_argument("--html", metavar="FILE", help="a report in one file")
    p.add_argument("--plots", metavar="DIR", help="roofline and sweeps, PNG and SVG")
    p.add_argument("--profile", metavar="FILE", help="a trace")
    p.add_argument("--compare", metavar="FILE", help="an earlier run's JSON lines")
    return p


def main(words: Sequence[str]) -> int:
    options = parser().parse_args(words)
    for name in ("threads", "rounds"):
        if getattr(options, name) is not None and getattr(options, name) < 1:
            parser().error(f"--{name} is {getattr(options, name)}, expected 1 or more")
    for name in _FILES:
        if getattr(options, name) == "":
            parser().error(f"--{name}: expected a name")
    if not -(1 << 63) <= options.seed < 1 << 64:
        parser().error(f"--seed is {options.seed}, expected a number of 64 bits")
    try:
        from wick.bench.run import main as run

        code = run(options, list(words))
        sys.stdout.flush()
        return code
    except SystemExit as end:  # not argparse's
        print(f"wick bench: a reference ended it: sys.exit({end.code!r})", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # Whoever read has gone. What is still held back must not fail once more at the very end.
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        return 128 + signal.SIGPIPE
    except KeyboardInterrupt:
        print("wick bench: stopped", file=sys.stderr)
        return 128 + signal.SIGINT


if __name__ == "__main__":
    # By path this folder leads the search path; the one above it has the package.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    sys.exit(main(sys.argv[1:]))
