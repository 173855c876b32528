"""wick bench: times of operators beside torch and beside what the machine allows.

    wick bench my_op.c                      at the sizes of my_op.shapes.txt, beside my_op.py
    wick bench relu --types "f32 bf16"      an operator that comes with Wick
    wick bench my_op.c --json new.json --compare old.json

The command runs it by path, so that it is this installation's whatever folder it is called in. It
measures in a process of its own, since an operator may end the one that it runs in: what was measured
before is told nevertheless, and which call it was.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

_MOST_THREADS = 1024
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


class Notes:
    """What the one that measures writes down for the one that waits: JSON lines in a file without a
    name, which both have."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 (for as long as the process)

    def write(self, **what: Any) -> None:
        os.write(self._file.fileno(), (json.dumps(what) + "\n").encode())

    def read(self) -> list[dict[str, Any]]:
        self._file.seek(0)
        return [json.loads(line) for line in self._file if line.endswith(b"\n")]


def _import() -> Callable[..., int]:
    """With Ctrl-C held back: what raises an error deep inside of torch's import is not always heard of."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        from wick.bench.run import main as run
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return run


def main(words: Sequence[str], notes: Notes | None = None) -> int:
    options = parser().parse_args(words)
    for name in ("threads", "rounds"):
        if getattr(options, name) is not None and getattr(options, name) < 1:
            parser().error(f"--{name} is {getattr(options, name)}, expected 1 or more")
    if (options.threads or 1) > _MOST_THREADS:
        parser().error(f"--threads is {options.threads}, expected {_MOST_THREADS} at most")
    for name in _FILES:
        if getattr(options, name) == "":
            parser().error(f"--{name}: expected a name")
    if not -(1 << 63) <= options.seed < 1 << 64:
        parser().error(f"--seed is {options.seed}, expected a number of 64 bits")
    try:
        run = _import()
        code = run(options, list(words), notes)
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


# ---- the process that waits ----

_SIGNALS = {signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
_PR_SET_PDEATHSIG = 1  # of linux/prctl.h


def _measure(words: Sequence[str], notes: Notes) -> int:
    """As a program of its own would: the exit code."""
    try:
        code = main(words, notes)
    except SystemExit as end:  # argparse's
        code = end.code if isinstance(end.code, int) else 2
    notes.write(done=True)
    return code


def _wait(child: int) -> tuple[int, int]:
    """How it ended, and by which signal of ours. What is sent to this process alone is passed on; what
    a terminal sends, it sends to both."""
    passed_on = 0
    while True:
        said = signal.sigwaitinfo(_SIGNALS)
        if said.si_signo == signal.SIGCHLD:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                return status, passed_on
        elif said.si_code <= 0:  # by a process, not by the kernel
            passed_on = said.si_signo
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, passed_on)


def watched(words: Sequence[str]) -> int:
    """main in a process of its own."""
    notes = Notes()
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)  # nobody waits any more
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        return _measure(words, notes)
    status, passed_on = _wait(child)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    said = notes.read()
    code = os.waitstatus_to_exitcode(status)
    if any("done" in note for note in said):
        return code if code >= 0 else 128 - code  # as a shell says it
    if passed_on and code == -passed_on:
        return 128 + passed_on
    from wick.bench.run import report_the_end

    return report_the_end(parser().parse_args(words), list(words), said, code)


if __name__ == "__main__":
    # By path this folder leads the search path; the one above it has the package.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    sys.exit(watched(sys.argv[1:]))
