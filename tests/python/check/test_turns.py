"""Several processes on one GPU: they stand still for the one that measures, and what others take is not called a leak."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from wick.check import turns
from wick.check.call import Call
from wick.check.forward import Forward
from wick.check.judges import leaks
from wick.check.operator import Operator

NEIGHBOUR = """
import sys, time
from wick.check.turns import Turns
turns, log = Turns(), open(sys.argv[1], "w")
while True:
    with turns.together():
        print("in", file=log, flush=True)
        time.sleep(float(sys.argv[2]))
        print("out", file=log, flush=True)
"""


class Neighbour:
    """A process that is in the room nearly always."""

    def __init__(self, log: Path, stay: float) -> None:
        self.log = log
        self.process = subprocess.Popen([sys.executable, "-c", NEIGHBOUR, str(log), str(stay)])
        self.await_more(0)

    def said(self) -> list[str]:
        return self.log.read_text().split() if self.log.exists() else []

    def await_more(self, than: int) -> None:
        end = time.monotonic() + 60
        while len(self.said()) <= than:
            assert time.monotonic() < end and self.process.poll() is None
            time.sleep(0.01)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def neighbour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    there: list[Neighbour] = []

    def start(stay: float) -> Neighbour:
        there.append(Neighbour(tmp_path / f"log{len(there)}", stay))
        return there[-1]

    yield start
    for other in there:
        other.kill()


def test_others_stand_still_for_who_wants_to_be_alone(neighbour: Any) -> None:
    others = [neighbour(0.05), neighbour(0.03)]
    mine = turns.Turns()
    with mine.together():
        with mine.alone() as all_left:
            assert all_left
            before = [other.said() for other in others]
            assert all(lines[-1] == "out" for lines in before)
            time.sleep(0.2)
            assert [other.said() for other in others] == before
        for other, lines in zip(others, before):
            other.await_more(len(lines))  # beside us again


def test_who_is_killed_or_hangs_keeps_nobody_out(
    neighbour: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, hanging = turns.Turns(), neighbour(1000)
    ticks: list[float] = []
    mine.tick = lambda: ticks.append(time.monotonic())
    monkeypatch.setattr(turns, "PATIENCE", 1.5)
    with mine.together():
        with mine.alone() as all_left:
            assert not all_left and ticks
        hanging.kill()
        with mine.alone() as all_left:
            assert all_left


SEGMENT = 2 << 20  # what the driver takes at once


class Device:
    """Stands in for one whose memory is counted: each call loses something, and so do others."""

    def __init__(self, loses: int = 0, others: Callable[[int], int] = lambda time: 0) -> None:
        self.calls = self.times = 0
        self.loses, self.others = loses, others

    def call(self, *args: Any) -> None:
        self.calls += 1

    def holdings(self, device: torch.device) -> tuple[int, int, int]:
        self.times += 1
        return 0, self.calls * self.loses // SEGMENT * SEGMENT + self.others(self.times), 0


@pytest.mark.parametrize(
    ("there", "leaks_there"),
    [
        (Device(), False),
        (Device(loses=512), True),
        (Device(loses=100_000), True),
        (Device(others=lambda time: 600_000_000 * (time > 3)), False),  # another begins
        (Device(others=lambda time: 40_000_000 * min(time, 8)), False),  # another grows
        (Device(others=lambda time: -40_000_000 * time), False),
        (Device(loses=4096, others=lambda time: 600_000_000 * (time > 3)), True),
    ],
)
def test_only_what_calls_lose_again_and_again_is_a_leak(
    there: Device, leaks_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = Operator("wick", "relu")
    call: Call = Forward(operator, None, lambda phase: None).prepare(
        operator.read_case("relu T:f32 N=3")
    )
    monkeypatch.setattr(leaks, "_device_holdings", there.holdings)
    monkeypatch.setattr(leaks, "PAUSES", tuple(0.0 for _ in leaks.PAUSES))
    monkeypatch.setattr(type(operator), "function", there.call, raising=False)
    turn = turns.Turns()
    monkeypatch.setattr(turns, "mine", lambda: turn)
    with turn.together():
        result = leaks._judge_device_leaks(call)
    assert bool(result.findings) == leaks_there, result.findings
