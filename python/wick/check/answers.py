"""What a worker's answer means, or its death: a result, a case that was skipped, or the end of a judge."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Any

from .case import Case
from .crew import Answer
from .finding import Result
from .job import CUT, LONGER, WATCHED, Job
from .pace import TOOK_LONG, has_large_int
from .phases import BEYOND, OUTSIDE, SOON

OUT_OF_MEMORY = "ran out of memory"


@dataclass
class Reading:
    """One of the first three."""

    result: Result | None = None
    skipped: str = ""  # why
    given_up: dict[str, Any] | None = None  # the reference has a mistake, or we have
    too_large: str = ""  # why larger cases would be, too
    by_reference: bool = False  # whoever judges them
    too_large_an_int: bool = False
    seconds: float | None = None  # it took, and the longest call of the operator in it
    call: float = 0.0
    hung: float = 0.0  # seconds that it was given, where it is told as hanging


def read(job: Job, case: Case, answer: Answer) -> Reading:
    """Changes nothing: whoever makes a case smaller reads many that do not count."""
    if answer.done is not None:
        return _read_done(answer.done)
    if answer.phase == OUTSIDE:  # it does not look, which is up to it
        return Reading(Result(judged=[job.main_judge]))
    by_reference = answer.phase == "reference"
    if by_reference and answer.status == -signal.SIGFPE:  # torch.div of the least one by -1
        return Reading(skipped="the reference crashes at a division of integers")
    if by_reference and not answer.hung and answer.status != -9:
        return Reading(given_up={"broken": f"the reference {ending(answer)}"})
    if answer.hung:
        return _read_hang(job, case, answer)
    if answer.status == -9 and not answer.crash:
        why = "the system ended the process: out of memory?"
        return Reading(skipped=why, too_large=OUT_OF_MEMORY)
    if answer.crash or answer.status < 0:
        return _death(job, case, answer, "crash", answer.crash or f"signal {-answer.status}")
    return _death(job, case, answer, "exit", f"it {ending(answer)}")


def _read_done(done: dict[str, Any]) -> Reading:
    if "failed" in done or "broken" in done or "error" in done:
        return Reading(given_up=done)
    if "skipped" in done and "findings" not in done:
        return Reading(skipped=done["skipped"], too_large=OUT_OF_MEMORY)
    packed = dict(done)
    call, seconds = packed.pop("call"), packed.pop("seconds")
    return Reading(Result.unpack(packed), call=call, seconds=seconds)


def _read_hang(job: Job, case: Case, answer: Answer) -> Reading:
    words = f"takes more than {answer.hung:.0f} s"
    if answer.phase == "reference":
        return Reading(skipped=f"the reference {words}", too_large=TOOK_LONG, by_reference=True)
    if has_large_int(case):  # it may count that far
        return Reading(skipped=words, too_large=TOOK_LONG, too_large_an_int=True)
    slow = job.judge in ("huge", WATCHED) or job.subject.pace.may_take(case, answer.hung)
    if slow and answer.phase != SOON:
        return Reading(skipped=words, too_large=TOOK_LONG)
    how = "waits for something for ever" if answer.waiting else "does not come to an end"
    found = _death(job, case, answer, "hang", f"it {how} (given {answer.hung:.0f} s)")
    found.too_large, found.hung = TOOK_LONG, 0.0 if answer.waiting else answer.hung
    return found


def _death(job: Job, case: Case, answer: Answer, kind: str, words: str) -> Reading:
    result = Result(judged=[job.main_judge])
    if job.judge == "refused":  # a note, unless it does so with other numbers as well
        return Reading(Result(notes=[f"{words}, when given numbers out of all bounds"]))
    beyond = ["the reference refuses such a call, and so should the operator"]
    if job.judge == "bounds":
        beyond.insert(0, "an index or a length was given that lies outside of its dim")
    details = beyond if answer.phase == BEYOND else []
    if job.main_judge == "threads" and case.numel >= CUT:
        details = [f"here, or with up to {LONGER[-1]} times as much, for its loop to be cut"]
    result.add(job.main_judge, kind, words, *details)
    return Reading(result)


def ending(answer: Answer) -> str:
    if answer.crash or answer.status < 0:
        return f"crashes ({answer.crash or f'signal {-answer.status}'})"
    return f"ends the process (exit status {answer.status})"


def end(answer: Answer) -> str:
    """Before there was anything to judge."""
    who = "the reference" if answer.phase == "reference" else "it"
    return (
        f"{who} takes more than {answer.hung:.0f} s" if answer.hung else f"{who} {ending(answer)}"
    )
