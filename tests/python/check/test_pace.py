"""What takes long, and what hangs."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from parts import SCALE, subject_of

from wick.check import answers, crew, phases, run
from wick.check.call import answered
from wick.check.case import Case
from wick.check.crew import Answer
from wick.check.job import Job
from wick.check.pace import ANY, Pace, is_slow
from wick.check.records import Subject, Target


def test_what_takes_long_takes_it_so_often_and_no_more() -> None:
    """A reference that goes step by step is given some time, and then no longer rows."""
    pace = Pace()

    def sized(length: int) -> Case:
        return Case("scale_bias_relu", {"T": "f32"}, {"N": (1,), "C": length})

    def takes(seconds: float, length: int) -> None:
        pace.took("values", sized(length), seconds, 0.0)

    def is_left_out(length: int) -> bool:
        assert not pace.why_not("threads", sized(length))
        return bool(pace.why_not("values", sized(length)))

    for _ in range(1000):
        takes(0.9, 500)  # not long
    for _ in range(13):
        takes(3.0, 1000)
    assert not is_left_out(3000) and not is_left_out(10**6)  # of which nobody knows
    assert is_left_out(4000)  # it would take more than ten seconds
    takes(3.0, 800)
    assert is_left_out(800) and is_left_out(1000) and not is_left_out(799)
    takes(3.0, 60)
    assert not is_left_out(60)


def test_a_process_that_stopped_itself_waits_for_ever(monkeypatch: Any) -> None:
    monkeypatch.setattr(crew, "IDLE", 0.2)
    there = subprocess.Popen(["sh", "-c", "kill -STOP $$"])
    try:
        watch = crew._Watch(phases.Phases(phases.make()), pid=there.pid)
        watch.look()
        end = time.monotonic() + 30
        while not watch.stuck() and time.monotonic() < end:
            time.sleep(0.05)
        assert watch.stuck()
    finally:
        there.kill()
        there.wait()


@pytest.mark.parametrize(
    ("work", "slow"),
    [
        (lambda n, m: 1e-9 * n * m * m, True),  # 13 s, given 10
        (lambda n, m: 1e-6 * n, False),  # a loop: it would have been done at once
        (lambda n, m: None if n > 600 else 1e-6, False),
        (lambda n, m: None, False),
        (
            lambda n, m: None if n * m * m > 4e9 else 1e-9 * n * m * m,
            True,
        ),  # half is too long as well
    ],
)
def test_what_is_slow_is_told_from_what_hangs_by_less_of_it(work: Any, slow: bool) -> None:
    case = Case("op", {}, {"N": (2, 3250), "M": 2000})

    def call_of(smaller: Case) -> float | None:
        return work(smaller.length("N"), smaller.length("M"))

    assert is_slow(case, 10.0, call_of) == slow
    assert not is_slow(case.but(dims={"N": (1,), "M": 2}), 10.0, call_of)


@pytest.mark.parametrize(
    ("seconds", "left_out"),
    [
        (lambda n, m: 5e-9 * n * n * m, True),  # 25 s at the largest
        (lambda n, m: 1e-6 * n * m, False),
        (lambda n, m: 1e-9 * n * n * m, False),  # 5 s, and five of them
        (lambda n, m: 0.004 if n == 2000 else 1e-7 * n * m, False),  # somebody else had the CPU
    ],
)
def test_what_grows_as_a_square_is_not_called_many_times(seconds: Any, left_out: bool) -> None:
    pace = Pace()
    for n, m in [(33, 1), (500, 1), (2000, 1), (2000, 2), (9000, 1)]:
        pace.took("values", Case("op", {}, {"N": n, "M": m}), 0.1, seconds(n, m))
    large = Case("op", {}, {"N": 70_001, "M": 1})
    assert bool(pace.why_not("threads", large)) == left_out
    assert bool(pace.why_not("shared", large)) == left_out
    assert not pace.why_not("huge", large) and not pace.why_not(
        "threads", large.with_dim("N", 9001)
    )


def test_what_the_reference_takes_too_long_for_no_other_judge_asks_it() -> None:
    pace = Pace()
    pace.too_large(ANY, Case("op", {}, {"N": 5000}))
    for judge, left_out in (("values", True), ("leaks", True), ("huge", False)):
        assert bool(pace.why_not(judge, Case("op", {}, {"N": 6000}))) == left_out
        assert not pace.why_not(judge, Case("op", {}, {"N": 4000}))


def test_a_reference_that_takes_long_is_asked_about_less() -> None:
    asked = []

    def slow(x: torch.Tensor, bias: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        asked.append(x.shape[-1])
        end = time.process_time() + (0.4 if x.shape[-1] >= 1000 else 0)
        while time.process_time() < end:
            pass
        return torch.relu(x * scale + bias)

    subject = subject_of(SCALE, slow)
    subject.natural = set()  # so that it is not asked about that
    case = Case(SCALE.name, {"T": "f32"}, {"N": (2,), "C": 1000})
    assert answered(subject, case).values[0].shape[-1] == 1000 and asked == [1000]
    for length in (1000, 5000):
        assert answered(subject, case.with_dim("C", length)).values[0].shape[-1] == length
    assert answered(subject, case.with_dim("C", 999)) and asked == [1000, 125, 125, 999]


def test_a_division_at_which_the_reference_crashes_is_no_mistake_of_anybody() -> None:
    job = Job(Subject(Target(None), "op", "op", "", "", None, ""), "values", [])
    case = Case("op", {}, {})
    read = answers.read(job, case, Answer(phase="reference", status=-signal.SIGFPE))
    assert read.skipped and read.given_up is None and read.result is None
    read = answers.read(job, case, Answer(phase="reference", status=-signal.SIGSEGV))
    assert read.given_up is not None


def test_what_is_cheap_comes_before_what_is_large() -> None:
    subject = Subject(Target(None), "op", "op", "", "", None, "")

    def rank(judge: str, n: int, part: int = 0) -> tuple[int, int]:
        cases = [Case("op", {}, {"N": 3}), Case("op", {}, {"N": n})]
        return run._rank(Job(subject, judge, cases, part))

    order = [("values", 9), ("leaks", 9), ("values", 9, 3), ("values", 10**8), ("huge", 2**31)]
    assert [rank(*about) for about in order] == sorted({rank(*about) for about in order})
    assert (
        rank("values", 9) < rank("leaks", 9) < rank("values", 9, part=9)
    )  # something of everything


def test_nothing_of_it_is_imported_with_wick(tmp_path: Path) -> None:
    from support import run_python

    said = run_python(
        "import wick, sys; print(any(m.startswith('wick.check') for m in sys.modules))"
    )
    assert said.strip() == "False"
