"""Watches over the processes that run operators (worker.py): asks, waits, and ends what hangs.

Only the standard library: this side imports neither torch nor wick.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from . import phases, spawn

TICKS = os.sysconf("SC_CLK_TCK")
ASK_DRIVER = {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}  # is there a GPU? without starting CUDA
SOON = 60.0  # seconds of CPU time for what should be done in a fifth of it
WAITS = ("S", "T")  # states of a process: asleep, stopped by a signal
IDLE = 25.0  # seconds in which a process that waits for nobody would have done something


@dataclass
class Limits:
    """Seconds of CPU time for one stretch of work: the operator's, the reference's, ours."""

    operator: float = 8.0
    reference: float = 20.0
    judge: float = 60.0

    def of(self, phase: str) -> float:
        others = {"reference": self.reference, "judge": self.judge, phases.SOON: SOON}
        return others.get(phase, self.operator)


@dataclass
class Answer:
    """done: what was answered; None where the child died or was ended."""

    done: dict[str, Any] | None = None
    phase: str = ""  # where it was
    crash: str = ""  # its last words
    status: int = 0  # as of waitpid: negative for a signal
    hung: float = 0.0  # seconds of CPU time that it was given
    waiting: bool = False  # and did not use


@dataclass
class _Watch:
    """How long a child has been in a phase."""

    phases: phases.Phases
    pid: int = 0
    phase: str = "judge"
    changes: int = -1
    cpu: float = 0.0
    start: float = field(default_factory=time.monotonic)

    def look(self) -> bool:
        """Whether it is where it was when we last looked."""
        changes, self.phase = self.phases.now()
        if changes == self.changes:
            return True
        self.changes, self.cpu, self.start = changes, _cpu_seconds(self.pid), time.monotonic()
        return False

    def used(self) -> float:
        return _cpu_seconds(self.pid) - self.cpu

    def stuck(self) -> bool:
        """Nothing happens, and not for want of a CPU."""
        idle = time.monotonic() - self.start
        return idle > IDLE and self.used() < 0.02 * idle and _state(self.pid) in WAITS


def _stat(pid: int) -> list[str]:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()
    return []


def _cpu_seconds(pid: int) -> float:
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / TICKS if fields else 0.0


def _state(pid: int) -> str:
    fields = _stat(pid)
    return fields[0] if fields else ""


class Lost(RuntimeError):
    """The process that forks the others is gone."""


class Worker:
    """One zygote and its present child."""

    def __init__(self, environment: dict[str, str] | None = None) -> None:
        theirs_in, self.requests = os.pipe()
        self.answers, theirs_out = os.pipe()
        page = phases.make()
        self.phases = phases.Phases(page)
        theirs = (theirs_in, theirs_out, page)
        self.process = subprocess.Popen(
            spawn.command("wick.check.worker", *theirs),
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
            pass_fds=theirs,
            env=spawn.environment(**ASK_DRIVER, **(environment or {})),
            start_new_session=True,  # Ctrl-C is for us, who then end it and all that it has forked
        )
        for fd in theirs:
            os.close(fd)
        self.pending = b""
        self.lines: list[bytes] = []
        self.ready = False
        self.target: Any = None

    def _read(self, seconds: float) -> dict[str, Any] | None:
        """The next line; None when there was none in that time."""
        while not self.lines:
            there, _, _ = select.select([self.answers], [], [], seconds)
            if not there:
                return None
            piece = os.read(self.answers, 1 << 16)
            if not piece:
                raise Lost("the process that runs operators has ended")
            self.pending += piece
            *self.lines, self.pending = self.pending.split(b"\n")
        return json.loads(self.lines.pop(0))

    def wait_ready(self) -> None:
        while not self.ready:
            self.ready = self._read(60.0) is not None

    def ask(self, request: dict[str, Any], limits: Limits | None = None) -> Answer:
        self.wait_ready()
        limits = limits or Limits()
        line = json.dumps(request) + "\n"
        os.write(self.requests, line.encode())
        watch, answer = _Watch(self.phases), Answer()
        while True:
            told = self._read(0.25)
            if told is None:
                if watch.pid and not answer.hung:
                    self._stop_if_hung(watch, limits, answer)
            elif "started" in told:
                watch.pid = told["started"]
                watch.look()
            elif "crash" in told:
                answer.crash = told["crash"]
            elif "died" in told:
                answer.status, answer.phase = told["died"], self.phases.now()[1]
                return answer
            elif "done" in told:
                answer.done, answer.phase = told["done"], self.phases.now()[1]
                return answer

    def _stop_if_hung(self, watch: _Watch, limits: Limits, answer: Answer) -> None:
        if not watch.look():
            return
        limit = limits.of(watch.phase)
        stuck = watch.stuck()
        if watch.used() > limit or stuck:
            answer.hung, answer.waiting = (IDLE if stuck else limit), stuck
            with contextlib.suppress(ProcessLookupError):
                os.kill(watch.pid, signal.SIGKILL)

    def renew(self) -> None:
        """The next request goes to a process that has called nothing yet. It loads the same target again."""
        self.ask({"do": "renew"})

    def aim(self, target: Any) -> None:
        """A child has one target: another one needs another child."""
        if self.target is not None and self.target != target:
            self.renew()
        self.target = target

    def close(self) -> None:
        for fd in (self.requests, self.answers):
            with contextlib.suppress(OSError):
                os.close(fd)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()
            self.process.wait()
        self.kill()  # what operators have left running

    def kill(self) -> None:
        """With whatever it is doing."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


class Crew:
    """Workers at rest, for whoever checks more than once: starting one imports torch."""

    def __init__(self) -> None:
        self.resting: list[Worker] = []
        atexit.register(self.close)

    def take(self) -> Worker:
        return self.resting.pop() if self.resting else Worker()

    def give_back(self, worker: Worker) -> None:
        """What it has loaded is gone by then: the next target may be the same file, changed."""
        try:
            worker.renew()
        except (Lost, OSError):
            worker.close()
            return
        self.resting.append(worker)

    def close(self) -> None:
        while self.resting:
            self.resting.pop().close()
