"""wick tune: measures the launch choices that operators leave open, on this GPU.

    wick tune my_op.cu                      at the sizes of my_op.shapes.txt
    wick tune my_op.cu --types "f32 bf16" --size "N=8192 C=4096"
    wick tune my_op.cu --clear

The command runs it by path, so that it is this installation's whatever folder it is called in.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="wick tune",
        usage="wick tune [OPTION...] OPERATOR|FILE.cu|MODULE.so|FOLDER... (--help lists options)",
        allow_abbrev=False,
        description=__doc__,
    )
    p.add_argument("operators", nargs="+", metavar="OPERATOR|FILE.cu|MODULE.so|FOLDER")
    p.add_argument("--shapes", metavar="FILE", help="sizes from this file")
    p.add_argument("--size", metavar="SIZES", action="append", default=[], help="these sizes")
    p.add_argument("--types", metavar="TYPES", help="element types")
    p.add_argument("--device", metavar="DEVICE", default="cuda", help="cuda or cuda:N")
    p.add_argument("--cache", metavar="STATE", choices=("warm", "cold"), default="cold")
    p.add_argument("--rounds", metavar="N", type=int, help="how often the best are timed")
    p.add_argument("--dry-run", action="store_true", help="measure, keep nothing")
    p.add_argument("--clear", action="store_true", help="forget what was measured")
    return p


def main(words: Sequence[str]) -> int:
    options = parser().parse_args(words)
    if options.rounds is not None and options.rounds < 1:
        parser().error(f"--rounds is {options.rounds}, expected 1 or more")
    if not options.device.startswith("cuda"):
        parser().error(f"--device {options.device}: expected cuda or cuda:N")
    from wick.tune import main as run

    return run(options)


if __name__ == "__main__":
    # By path this folder leads the search path; the one above it has the package.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    sys.exit(main(sys.argv[1:]))
