"""What becomes of a finding: known already, or made small, told again as it is alone, and recorded."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

from . import answers
from .case import Case
from .crew import Answer, Limits, Worker
from .finding import Finding, Result
from .job import Job
from .records import DEATHS, TYPES, Fault, Report
from .shrink import shrink

ALONE = ("values", "autograd", "second")  # what these find needs no call before it
NOT_AGAIN = "not when the same call was made alone: it depends on the calls before it"
MOST_KINDS = 3  # faults of one judge of one operator that are followed up
MOST_DEATHS = 6  # crashes and hangs of one judge of one operator

Ask = Callable[[Worker, Job, Case, Limits | None], Answer]


class Follower:
    """lock: held while the report is changed. told: called with words of each new fault, under it."""

    def __init__(
        self, report: Report, lock: threading.Condition, ask: Ask, told: Callable[[str], None]
    ) -> None:
        self.report, self.options, self.lock = report, report.options, lock
        self.ask, self.told = ask, told

    def follow(self, worker: Worker, job: Job, case: Case, finding: Finding) -> None:
        if self._is_known(job, case, finding):
            return
        smallest = case if self.options.case else self._shrink(worker, job, case, finding)
        if job.judge in ALONE and not (self.options.case or self.options.first):
            self._tell_alone(worker, job, smallest, case, finding)
        else:
            self.record(job, smallest, self._words_for(worker, job, smallest, finding), case)

    def record(self, job: Job, smallest: Case, finding: Finding, case: Case) -> None:
        with self.lock:
            if any(_is(f, job, finding) for f in self.report.faults):
                return
            if self.options.first and self.report.has_fault(job.subject.target):
                return  # others were at it at the same time
            fault = Fault(
                job.subject.target,
                job.subject.name,
                finding.judge,
                finding.kind,
                finding.title,
                finding.details,
                smallest.but(op=job.subject.name),
            )
            _note_types(fault, case)
            self.report.faults.append(fault)
            self.told(f"{fault.subject}: {fault.title}")

    def _is_known(self, job: Job, case: Case, finding: Finding) -> bool:
        """Or one of so many kinds that they say nothing more."""
        with self.lock:
            known = next((f for f in self.report.faults if _is(f, job, finding)), None)
            if known is not None:
                known.count += 1
                _note_types(known, case)
            tally = job.tally
            tally.deaths += finding.kind in DEATHS
            kinds = {
                f.kind
                for f in self.report.faults
                if f.subject == job.subject.name
                and f.target == job.subject.target
                and f.judge == finding.judge
            }
            if tally.deaths >= MOST_DEATHS or (finding.kind == "hang" and tally.deaths >= 2):
                tally.stopped = True
        return known is not None or len(kinds) >= MOST_KINDS

    def _tell_alone(
        self, worker: Worker, job: Job, smallest: Case, case: Case, finding: Finding
    ) -> None:
        """As it is where nothing was called before, since that is what the printed line will do. What was made
        small may have failed for what earlier calls had left."""
        for tried in (smallest, case) if smallest != case else (case,):
            worker.renew()
            told = self._words_for(worker, job, tried, finding)
            if NOT_AGAIN not in told.details:
                break
        self.record(job, tried, told, case)

    def _shrink(self, worker: Worker, job: Job, case: Case, finding: Finding) -> Case:
        if job.judge == "huge" or self.options.first:
            return case
        hang = finding.kind == "hang"
        limits = Limits(operator=1.5) if hang else None

        def fails(smaller: Case) -> bool:
            for _ in range(1 if hang or finding.judge != "threads" else 2):
                result = self._read(job, smaller, self.ask(worker, job, smaller, limits))
                if any(f.kind == finding.kind for f in result.findings):
                    return True
            return False

        dies_slowly = finding.kind in DEATHS and job.target.device != "cpu"  # CUDA starts anew
        return shrink(case, fails, attempts=8 if hang else 20 if dies_slowly else 80)

    def _words_for(self, worker: Worker, job: Job, case: Case, finding: Finding) -> Finding:
        """The finding as the smallest case has it. Who asks for the first one is told of it as it was found."""
        if job.judge == "huge" or finding.kind == "hang":
            return finding
        if self.options.first and finding.kind in DEATHS:
            return finding
        result = self._read(job, case, self.ask(worker, job, case, None))
        for again in result.findings:
            if again.kind == finding.kind:
                return finding if self.options.first else again
        told = [*finding.details, NOT_AGAIN] if job.judge in ALONE else finding.details
        return replace(finding, details=told)

    @staticmethod
    def _read(job: Job, case: Case, answer: Answer) -> Result:
        return answers.read(job, case, answer).result or Result()


def _is(fault: Fault, job: Job, finding: Finding) -> bool:
    return (fault.target, fault.subject, fault.kind) == (
        job.subject.target,
        job.subject.name,
        finding.kind,
    ) and (fault.judge == finding.judge or finding.kind in DEATHS)


def _note_types(fault: Fault, case: Case) -> None:
    words = " ".join(case.types.values())
    if words and words not in fault.types:
        fault.types.append(words)
        fault.types.sort(key=lambda each: [TYPES.index(kind) for kind in each.split()])
