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
import glob
import json
import math
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

_MOST_THREADS = 1024
_STOPPED = "wick bench: stopped"
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
        """Also while the other writes: where it writes next, both would have moved."""
        fd = self._file.fileno()
        lines = os.pread(fd, os.fstat(fd).st_size, 0).splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith(b"\n")]


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
        if notes:
            notes.write(began=True)
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
        print(_STOPPED, file=sys.stderr)
        return 128 + signal.SIGINT


# ---- the process that waits ----

_SIGNALS = {signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
_PR_SET_PDEATHSIG = 1  # of linux/prctl.h
_PATIENCE_S = 2.0  # after Ctrl-C, for those that measure to hear of it
_TWICE_S = 0.3  # between two that are one: `timeout` sends it to the process and to its group
_LONG_S = 1e6


def _measure(words: Sequence[str], notes: Notes) -> int:
    """As a program of its own would: the exit code."""
    try:
        code = main(words, notes)
    except SystemExit as end:  # argparse's
        code = end.code if isinstance(end.code, int) else 2
    notes.write(done=True)
    return code


def _started_by(pid: int) -> list[int]:
    """Processes, and those that they have started: compilers, or what a reference calls."""
    found: list[int] = []
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        with contextlib.suppress(OSError), open(path) as f:
            for child in map(int, f.read().split()):
                found += [child, *_started_by(child)]
    return found


class _Watch:
    """Over the process that measures. What is sent to this one alone is passed on; what a terminal sends,
    it sends to both. Ctrl-C is for Python, which hears nothing of it while an operator does not return:
    after a while the process is killed."""

    def __init__(self, child: int, notes: Notes) -> None:
        self._child, self._notes = child, notes
        self._hears = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN  # not in the background
        self._asked_at = self._deadline = math.inf
        self.passed_on = 0  # a signal
        self.killed = False

    def wait(self) -> int:
        """How it ended."""
        while True:
            left = self._deadline - time.monotonic()
            said = signal.sigtimedwait(_SIGNALS, max(0.0, min(left, _LONG_S)))
            if said is None:
                if time.monotonic() >= self._deadline:
                    self._end_a_deaf_one()
            elif said.si_signo == signal.SIGCHLD:
                pid, status = os.waitpid(self._child, os.WNOHANG)
                if pid:
                    return status
            else:
                self._hear(said)

    def _hear(self, said: signal.struct_siginfo) -> None:
        if said.si_code <= 0:  # by a process, not by the kernel
            self.passed_on = said.si_signo
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._child, self.passed_on)
        if said.si_signo != signal.SIGINT or not self._hears:
            return
        now = time.monotonic()
        if self._asked_at == math.inf:
            self._asked_at, self._deadline = now, now + _PATIENCE_S
        elif now > self._asked_at + _TWICE_S:
            self._kill()

    def _end_a_deaf_one(self) -> None:
        """One that has heard may take its time to report, and to end."""
        self._deadline = math.inf
        if not any("stopping" in note or "done" in note for note in self._notes.read()):
            self._kill()

    def _kill(self) -> None:
        self.killed = True
        for pid in (*_started_by(self._child), self._child):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _clear_line() -> None:
    """Of a progress bar that nobody has put away, which hides the cursor."""
    if sys.stderr.isatty():
        print("\r\x1b[K\x1b[?25h", end="", file=sys.stderr, flush=True)


def _what_ran(said: Sequence[dict[str, Any]]) -> str:
    """The call that was made last."""
    return next((note["call"] for note in reversed(said) if "call" in note), "what was loaded")


def _report_the_end(words: Sequence[str], said: list[dict[str, Any]], how: str) -> int:
    # torch's import does not bear Ctrl-C.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        from wick.bench.run import report_the_end
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    end = f"{_what_ran(said)} {how}"
    return report_the_end(parser().parse_args(words), list(words), said, end)


def _report_a_killed_one(words: Sequence[str], said: list[dict[str, Any]]) -> int:
    """After Ctrl-C: at once, unless there is something to show."""
    how = "did not react to Ctrl-C and was killed"
    known = {key for note in said for key in note}
    if "began" not in known or known & {"stopping", "done"}:
        print(_STOPPED, file=sys.stderr)
    elif "rows" in known:
        try:
            _report_the_end(words, said, how)
        except KeyboardInterrupt:
            print(_STOPPED, file=sys.stderr)
    else:
        print(f"wick bench: {_what_ran(said)} {how}", file=sys.stderr)
    return 128 + signal.SIGINT


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
    watch = _Watch(child, notes)
    code = os.waitstatus_to_exitcode(watch.wait())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    said = notes.read()
    if any("done" in note for note in said) and not watch.killed:
        return code if code >= 0 else 128 - code  # as a shell says it
    if watch.passed_on and code == -watch.passed_on:
        return 128 + watch.passed_on
    _clear_line()
    if watch.killed:
        return _report_a_killed_one(words, said)
    how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return _report_the_end(words, said, f"ended the process ({how})")


if __name__ == "__main__":
    # By path this folder leads the search path; the one above it has the package.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    sys.exit(watched(sys.argv[1:]))
