"""The whole: targets are described, their cases handed to workers, what fails is made small."""

from __future__ import annotations

import difflib
import os
import queue
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from . import answers
from .answers import Reading
from .case import Case
from .crew import Answer, Crew, Limits, Lost, Worker
from .finding import Finding, Result
from .follow import Follower
from .job import WATCHED, Job
from .pace import ANY, TOOK_LONG, is_slow, longest
from .records import DEATHS, Options, Report, Subject, Target

CHUNK = 60  # cases that a worker takes at a time
# What most faults are found by comes first, whatever the operator; what takes longest last.
ORDER = {
    "values": 0,
    "autograd": 1,
    "second": 1,
    "again": 2,
    "neighbours": 2,
    "leaks": 2,
    "threads": 2,
    "refuse": 2,
    "opcheck": 2,
    "batch": 2,
    "bounds": 2,
    "refused": 2,
    WATCHED: 1,
}
LARGE, LATER = 20_000_000, 1 + max(ORDER.values())
FEW = 10  # cases that may be dear, which a worker takes at a time
LITTLE, SHORT = 50_000, 300  # elements of a case that is cheap, and its longest dim
Watcher = Callable[[str, int, int, str], None]  # event, done, total, words


def _rank(job: Job) -> tuple[int, int]:
    """When it is its turn: the first cases of everything before the second ones of anything, so that little
    of the time tells much. Large cases wait for what is cheap, whatever that looks for."""
    if job.judge == "values" and any(case.numel > LARGE for case in job.cases):
        return LATER, 0
    order = ORDER.get(job.judge, LATER + 1)
    return (order, 0) if order > LATER else (0, order + job.part)


def _jobs(subject: Subject, judge: str, cases: list[Case]) -> Iterator[Job]:
    """The cases, as many at a time as a worker takes."""
    groups = _groups(cases) if judge == "values" else {CHUNK: cases}
    for chunk, group in groups.items():
        size = max(1, len(group) if judge == "fresh" else chunk)
        for part, first in enumerate(range(0, len(group), size), 0 if chunk == CHUNK else 1):
            yield Job(subject, judge, group[first : first + size], part)


def _groups(cases: list[Case]) -> dict[int, list[Case]]:
    """By how many a worker takes at a time: many that are cheap, those of nothing first, a few that may be
    dear, the longest last, and each that is large by itself. Types and dims are mixed, so that the first
    ones tell of all: for more there may be no time."""
    groups: dict[int, list[Case]] = {CHUNK: [], FEW: [], 1: []}
    for case in _mixed(cases):
        is_cheap = case.numel <= LITTLE and (not case.dims or longest(case)[1] <= SHORT)
        groups[1 if case.numel > LARGE else CHUNK if is_cheap else FEW].append(case)
    groups[CHUNK].sort(key=lambda case: not case.is_empty)
    groups[FEW].sort(key=lambda case: longest(case)[1].bit_length())
    return groups


def _mixed(cases: list[Case]) -> list[Case]:
    """Of layouts, which are planned so that the first ones read nothing outside, the types in turns."""
    if not any(case.layouts for case in cases):
        return random.Random(len(cases)).sample(cases, len(cases))
    turns: Counter[str] = Counter()
    places: list[int] = []
    for case in cases:
        kind = " ".join(case.types.values())
        places.append(turns[kind])
        turns[kind] += 1
    return [cases[k] for k in sorted(range(len(cases)), key=places.__getitem__)]


class Run:
    def __init__(
        self, targets: Sequence[Target], options: Options, watch: Watcher, crew: Crew | None
    ) -> None:
        self.options, self.watch, self.crew = options, watch, crew
        self.report = Report(options)
        self.targets: queue.SimpleQueue[Target] = queue.SimpleQueue()
        for target in targets:
            self.targets.put(replace(target, device=self._first_device()))
        self.jobs: list[Job] = []
        self.lock = threading.Condition()
        self.done = self.total = 0
        self.busy = 0
        self.round = 0
        self.start = time.monotonic()
        self.failure: BaseException | None = None
        self.workers: list[Worker] = []
        self.follower = Follower(self.report, self.lock, self._ask, self._tell)

    # ---- who does what ----

    def run(self) -> Report:
        n = self.options.jobs or min(os.cpu_count() or 1, 4)
        threads = [threading.Thread(target=self._work, daemon=True) for _ in range(n)]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except KeyboardInterrupt as stop:
            self._fail(stop)
            with self.lock:
                for worker in self.workers:
                    worker.kill()
            self.report.interrupted = True
        if self.failure is not None and not self.report.interrupted:
            raise self.failure
        self.report.seconds = time.monotonic() - self.start
        return self.report

    def _work(self) -> None:
        try:
            worker = self._hire()
        except OSError as error:
            self._fail(error)
            return
        with self.lock:
            self.workers.append(worker)
        try:
            while True:
                what = self._next(worker)
                if what is None:
                    return
                if isinstance(what, Target):
                    self._describe(worker, what)
                else:
                    self._judge_all(worker, what)
                with self.lock:
                    self.busy -= 1
                    self.lock.notify_all()
        except BaseException as error:
            self._fail(error)
        finally:
            self._dismiss(worker)

    def _hire(self) -> Worker:
        if self.options.case:  # of a single case, all that is printed is wanted
            return Worker({"WICK_CHECK_LOUD": "1"})
        return self.crew.take() if self.crew else Worker()

    def _dismiss(self, worker: Worker) -> None:
        if self.crew and not self.options.case and self.failure is None:
            self.crew.give_back(worker)
        else:
            worker.close()

    def _fail(self, error: BaseException) -> None:
        with self.lock:
            self.failure = self.failure or error
            self.busy -= 1
            self.lock.notify_all()

    def _next(self, worker: Worker) -> Target | Job | None:
        """A job of the worker's target if there is one, however it is built, else another's, else a new one."""
        with self.lock:
            while self.failure is None:
                mine = next((j for j in self.jobs if j.is_of(worker.target)), None)
                if mine is None and not self.targets.empty():
                    self.busy += 1
                    return self.targets.get()
                mine = mine or next(iter(self.jobs), None)
                if mine is not None:
                    self.jobs.remove(mine)
                    self.busy += 1
                    return mine
                if self.busy == 0 and not self._again():
                    return None
                self.lock.wait(0.5)
            return None

    def _again(self) -> bool:
        """--time: another round, with another seed."""
        if time.monotonic() - self.start >= self.options.seconds or self.options.case:
            return False
        self.round += 1
        targets = list(dict.fromkeys(s.target for s in self.report.subjects))
        for target in targets:
            self.targets.put(target)
        return bool(targets)

    # ---- describing ----

    def _request(self, target: Target) -> dict[str, Any]:
        return {
            "path": target.path,
            "device": target.device,
            "reference": self.options.reference,
            "flags": target.flags,
            "types": list(target.types) or self.options.types,
            "watched": target.watched,
        }

    def _first_device(self) -> str:
        return "cpu" if self.options.device == "all" else self.options.device

    def _only(self, target: Target) -> list[str]:
        return list(target.only) or self.options.only

    def _describe(self, worker: Worker, target: Target) -> None:
        self.watch("loading", self.done, self.total, target.label)
        worker.aim(target)
        answer = worker.ask(
            {
                "do": "describe",
                "target": self._request(target),
                "names": list(target.names),
                "only": self._only(target),
                "seed": self.options.seed + self.round,
                "types": list(target.types) or self.options.types,
                "depth": self.options.depth,
                "case": self.options.case,
            },
            Limits(judge=600.0),
        )
        done = answer.done
        if done is None or "operators" not in done:
            told = done or {}
            said = (told.get(key) for key in ("error", "failed", "skipped"))
            words = next(filter(None, said), answers.end(answer))
            with self.lock:
                self.report.errors.append((target, words))
            return
        if not done["operators"] and target.device == self._first_device():
            with self.lock:
                self.report.errors.append((target, self._nothing_in(target, done["names"])))
        for about in done["operators"]:
            self._add(target, about)
        first_round = self.round == 0  # further ones have all targets of this one
        if self.options.device == "all" and target.device == "cpu" and done["cuda"] and first_round:
            self.targets.put(replace(target, device="cuda"))

    def _nothing_in(self, target: Target, known: list[str]) -> str:
        types = list(target.types) or self.options.types
        if types:
            return f"no operator there takes {' or '.join(types)}"
        near = [n for name in target.names for n in difflib.get_close_matches(name, known, 1)]
        hint = f"did you mean {' or '.join(near)}?" if near else "`wick list` has their names"
        return f"there is no operator {' or '.join(target.names)} ({hint})"

    def _add(self, target: Target, about: dict[str, Any]) -> None:
        with self.lock:
            key = (target, about["name"])
            known = {(s.target, s.name): s for s in self.report.subjects}
            subject = known.get(key)
            if subject is None:
                fields = ("name", "forward", "signature", "file", "reference", "problem")
                subject = Subject(target, **{k: about[k] for k in fields})
                self.report.subjects.append(subject)
            for tally in subject.tallies.values():
                tally.seconds = 0.0
            for task in about["tasks"]:
                cases = [Case.unpack(c) for c in task["cases"]]
                self.jobs += _jobs(subject, task["judge"], cases)
                self.total += len(cases)
            self.jobs.sort(key=_rank)
            self.lock.notify_all()

    # ---- judging ----

    def _judge_all(self, worker: Worker, job: Job) -> None:
        worker.aim(job.target)
        if job.judge == "fresh":
            if not self._left_out(job, job.cases[0]):
                self._judge_fresh(worker, job)
            return
        if job.judge == "leaks" and job.target.device == "cpu":  # CUDA would have to begin anew
            worker.renew()  # of threads, say, others may have lost as many as there can be
        for case in job.cases:
            if not self._left_out(job, case):
                start = time.monotonic()
                self._judge_one(worker, job, case)
                with self.lock:
                    job.tally.seconds += time.monotonic() - start
            self._step(job, 1)

    def _step(self, job: Job, n: int) -> None:
        with self.lock:
            self.done += n
            self.watch("judging", self.done, self.total, f"{job.subject.name} {job.shown}")

    def _tell(self, words: str) -> None:
        self.watch("fault", self.done, self.total, words)

    def _left_out(self, job: Job, case: Case) -> bool:
        if job.tally.stopped or (self.options.first and self.report.has_fault(job.subject.target)):
            return True
        why = job.subject.pace.why_not(job.judge, case)
        limit = self.options.seconds_of_work
        if not why and 0 < limit < job.tally.seconds:
            why = f"the {limit:g} s of work for {job.shown} are over (--limit)"
        if why:
            self._skip(job, why)
        return bool(why)

    def _dies(self, subject: Subject) -> bool:
        about = (subject.target, subject.name)
        return any((f.target, f.subject) == about and f.kind in DEATHS for f in self.report.faults)

    def _skip(self, job: Job, words: str) -> None:
        with self.lock:
            skipped = job.tally.skipped
            skipped[words] = skipped.get(words, 0) + 1

    def _limits(self, job: Job, case: Case) -> Limits:
        if job.judge in ("huge", WATCHED, "opcheck"):  # most of opcheck's time is torch's own
            return Limits(operator=100.0)
        if job.judge == "refused":
            return Limits(operator=2.0)
        many = 5 if job.judge == "threads" else 1  # calls, which wait for one another
        return Limits(operator=many * (self.options.patience + case.numel * 4e-7))

    def _ask(self, worker: Worker, job: Job, case: Case, limits: Limits | None = None) -> Answer:
        return worker.ask(
            {
                "do": "judge",
                "target": self._request(job.target),
                "subject": job.subject.name,
                "judge": job.judge,
                "case": case.pack(),
                "only": self._only(job.subject.target),
            },
            limits or self._limits(job, case),
        )

    def _judge_one(self, worker: Worker, job: Job, case: Case) -> None:
        reading = answers.read(job, case, self._ask(worker, job, case))
        if reading.hung and self._is_slow(worker, job, case, reading.hung):
            reading = Reading(skipped=f"takes more than {reading.hung:.0f} s", too_large=TOOK_LONG)
        self._keep_pace(job, case, reading)
        if reading.given_up is not None:
            self._give_up(job, case, reading.given_up)
        elif reading.result is None:
            self._skip(job, reading.skipped)
        else:
            self._take(worker, job, case, reading.result)

    def _is_slow(self, worker: Worker, job: Job, case: Case, seconds: float) -> bool:
        """By what the operator takes for less of everything."""
        if self.options.case:
            return False

        def call_of(smaller: Case) -> float | None:
            reading = answers.read(job, smaller, self._ask(worker, job, smaller))
            return reading.call if reading.seconds is not None else None

        return is_slow(case, seconds, call_of)

    def _keep_pace(self, job: Job, case: Case, reading: Reading) -> None:
        pace = job.subject.pace
        if reading.too_large:
            pace.too_large(ANY if reading.by_reference else job.judge, case, reading.too_large)
        if reading.too_large_an_int:
            pace.too_large_an_int(job.judge)
        if reading.seconds is not None:
            pace.took(job.judge, case, reading.seconds, reading.call)

    def _take(self, worker: Worker, job: Job, case: Case, result: Result) -> None:
        if job.judge == "refused" and not result.judged and self._dies(job.subject):
            result = Result()  # it does so with other numbers as well
        with self.lock:
            self._count(job, result)
        once: dict[tuple[str, str], Finding] = {}
        for finding in result.findings:
            once.setdefault((finding.judge, finding.kind), finding)
        for finding in once.values():
            self.follower.follow(worker, job, case, finding)

    def _count(self, job: Job, result: Result) -> None:
        self.report.cases += 1
        if job.judge != "values" and any(f.kind in DEATHS for f in result.findings):
            return  # nothing was judged: the crash is told once, where it was seen first
        for name in result.judged:
            tally = job.subject.tally(name)
            tally.cases += 1
            if result.worst > tally.worst and name in ("forward", "gradient"):
                tally.worst = result.worst
        own = job.tally
        for words, counts in ((result.skipped, own.skipped), (result.refused, own.refused)):
            if words:
                counts[words] = counts.get(words, 0) + 1
        for note in dict.fromkeys(result.notes):
            job.subject.notes[note] = job.subject.notes.get(note, 0) + 1

    def _give_up(self, job: Job, case: Case, told: dict[str, Any]) -> None:
        """The reference has a mistake, or we have: this judge of this operator ends here."""
        with self.lock:
            job.tally.stopped = True
            if job.judge == WATCHED and "error" in told:
                words = ": ".join(told["error"].split("\n")[:2])
                job.subject.notes[f"memory could not be watched: {words}"] = 1
                return
            if "broken" in told:
                job.subject.problem = job.subject.problem or told["broken"]
                return
            words = told.get("error") or f"{case.text()}: {told['failed'].strip()}"
            known = (job.subject.target, words)
            if known not in self.report.errors:
                self.report.errors.append(known)

    def _judge_fresh(self, worker: Worker, job: Job) -> None:
        """One after another in one process, and each in a process of its own."""
        worker.renew()
        together = [self._ask(worker, job, case) for case in job.cases]
        for case, beside in zip(job.cases, together):
            worker.renew()
            alone = self._ask(worker, job, case)
            self._step(job, 1)
            if beside.done is None or alone.done is None:
                continue
            if beside.done.get("skipped") or alone.done.get("skipped"):
                continue
            failed = [a.done for a in (alone, beside) if "digest" not in a.done]
            if failed:
                self._give_up(job, case, failed[0])
                continue
            with self.lock:
                job.subject.tally("repeat").cases += 1
                self.report.cases += 1
            if beside.done["digest"] != alone.done["digest"]:
                finding = Finding(
                    "repeat",
                    "fresh",
                    "in a process that has called nothing before, the result is another",
                    ["something is kept from one call to the next"],
                )
                self.follower.record(job, case, finding, case)
        worker.renew()  # for others, who look at what the first call of a process leaves


def check(
    targets: Sequence[Target],
    options: Options,
    watch: Watcher | None = None,
    crew: Crew | None = None,
) -> Report:
    """crew: workers that are kept for the next time."""
    try:
        return Run(targets, options, watch or (lambda *_: None), crew).run()
    except Lost as error:
        report = Report(options)
        report.errors = [(target, str(error)) for target in targets]
        return report
