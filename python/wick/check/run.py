"""The whole: targets are described, their cases handed to workers, what fails is made small."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .case import Case
from .crew import Answer, Crew, Limits, Lost, Worker
from .finding import Finding, Result
from .phases import OUTSIDE
from .records import Fault, Options, Report, Subject, Tally, Target
from .shrink import shrink

WATCHED = "shared"  # of `threads`: the one whose target is built so that it can be watched
DEATHS = ("crash", "hang", "exit")  # of the process: one fault, whatever was being judged
CHUNK = 60  # cases that a worker takes at a time
ALONE = ("values", "autograd")  # what these find needs no call before it
NOT_AGAIN = "not when the same call was made alone: it depends on the calls before it"
MOST_KINDS = 3  # faults of one judge of one operator that are followed up
MOST_DEATHS = 6  # crashes and hangs of one judge of one operator
# What most faults are found by comes first, whatever the operator; what takes longest last.
ORDER = {
    "values": 0,
    "autograd": 1,
    "again": 2,
    "neighbours": 2,
    "leaks": 2,
    "threads": 2,
    "refuse": 2,
    "opcheck": 2,
    "batch": 2,
}
LARGE_INT = "an int"  # beside the dims that make a case slow
SLOW = 10.0  # seconds of a case after which larger ones of its kind are left out
LONG, ENOUGH = 1.0, 40.0  # or after so many of cases that take this long


@dataclass
class Job:
    subject: Subject
    judge: str
    cases: list[Case]

    @property
    def target(self) -> Target:
        """What has to be loaded for it."""
        return replace(self.subject.target, watched=self.judge == WATCHED)


Watcher = Callable[[str, int, int, str], None]  # event, done, total, words


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
        """A job of the worker's target if there is one, else another's, else a new target."""
        with self.lock:
            while self.failure is None:
                mine = next((j for j in self.jobs if j.target == worker.target), None)
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
            words = told.get("error") or told.get("failed") or _end(answer)
            with self.lock:
                self.report.errors.append((target, words))
            return
        if not done["operators"] and target.device == self._first_device():
            with self.lock:
                self.report.errors.append((target, self._nothing_in(target)))
        for about in done["operators"]:
            self._add(target, about)
        first_round = self.round == 0  # further ones have all targets of this one
        if self.options.device == "all" and target.device == "cpu" and done["cuda"] and first_round:
            self.targets.put(replace(target, device="cuda"))

    def _nothing_in(self, target: Target) -> str:
        types = list(target.types) or self.options.types
        if types:
            return f"no operator there takes {' or '.join(types)}"
        return f"there is no operator {' or '.join(target.names)} (`wick list` has their names)"

    def _add(self, target: Target, about: dict[str, Any]) -> None:
        with self.lock:
            key = (target, about["name"])
            known = {(s.target, s.name): s for s in self.report.subjects}
            subject = known.get(key)
            if subject is None:
                fields = ("name", "forward", "signature", "file", "reference", "problem")
                subject = Subject(target, **{k: about[k] for k in fields})
                self.report.subjects.append(subject)
            for task in about["tasks"]:
                cases = [Case.unpack(c) for c in task["cases"]]
                size = len(cases) if task["judge"] == "fresh" else CHUNK
                for k in range(0, len(cases), max(1, size)):
                    self.jobs.append(Job(subject, task["judge"], cases[k : k + size]))
                self.total += len(cases)
            self.jobs.sort(key=lambda job: ORDER.get(job.judge, len(ORDER)))
            self.lock.notify_all()

    # ---- judging ----

    def _judge_all(self, worker: Worker, job: Job) -> None:
        worker.aim(job.target)
        if job.judge == "fresh":
            if not self._left_out(job, job.cases[0]):
                self._judge_fresh(worker, job)
            return
        for case in job.cases:
            if not self._left_out(job, case):
                self._judge_one(worker, job, case)
            self._step(job, 1)

    def _step(self, job: Job, n: int) -> None:
        with self.lock:
            self.done += n
            self.watch("judging", self.done, self.total, f"{job.subject.name} {_shown(job)}")

    def _left_out(self, job: Job, case: Case) -> bool:
        tally = self._tally(job.subject, f"skipped-{job.judge}")
        if tally.stopped or (self.options.first and self._has_fault(job.subject.target)):
            return True
        if _has_large_int(case) and (job.judge, LARGE_INT) in job.subject.slow:
            self._skip(job, "an int as large as one that took too long")
            return True
        for name, size in case.dims.items():
            limit, why = job.subject.slow.get((job.judge, name), (None, ""))
            length = size if isinstance(size, int) else max(size, default=1)
            if limit is not None and length >= limit:
                self._skip(job, f"larger than a case that {why}")
                return True
        return False

    def _dies(self, subject: Subject) -> bool:
        about = (subject.target, subject.name)
        return any((f.target, f.subject) == about and f.kind in DEATHS for f in self.report.faults)

    def _has_fault(self, target: Target) -> bool:
        return any(f.target == target for f in self.report.faults)

    def _tally(self, subject: Subject, judge: str) -> Tally:
        return subject.tallies.setdefault(judge, Tally())

    def _skip(self, job: Job, words: str) -> None:
        with self.lock:
            skipped = self._tally(job.subject, f"skipped-{job.judge}").skipped
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
        answer = self._ask(worker, job, case)
        result = self._read(job, case, answer)
        if result is None:
            return
        with self.lock:
            self._count(job, case, result)
        for finding in {(f.judge, f.kind): f for f in reversed(result.findings)}.values():
            self._follow(worker, job, case, finding, answer)

    def _count(self, job: Job, case: Case, result: Result) -> None:
        self.report.cases += 1
        if job.judge != "values" and any(f.kind in DEATHS for f in result.findings):
            return  # nothing was judged: the crash is told once, where it was seen first
        for name in result.judged:
            tally = self._tally(job.subject, name)
            tally.cases += 1
            if result.worst > tally.worst and name in ("forward", "gradient"):
                tally.worst, tally.worst_case = result.worst, case
        own = self._tally(job.subject, f"skipped-{job.judge}")
        for words, counts in ((result.skipped, own.skipped), (result.refused, own.refused)):
            if words:
                counts[words] = counts.get(words, 0) + 1
        for note in result.notes:
            job.subject.notes[note] = job.subject.notes.get(note, 0) + 1

    def _read(self, job: Job, case: Case, answer: Answer) -> Result | None:
        """What was answered, or what its death means; None where there is nothing to count."""
        judge = _main_judge(job)
        if answer.done is not None:
            if "failed" in answer.done or "broken" in answer.done or "error" in answer.done:
                self._give_up(job, case, answer.done)
                return None
            if "skipped" in answer.done and "findings" not in answer.done:
                self._too_large(job, case, "ran out of memory")
                self._skip(job, answer.done["skipped"])
                return None
            packed = dict(answer.done)
            self._keep_pace(job, case, packed.pop("call"))
            seconds = packed.pop("seconds")
            if seconds > SLOW or (seconds > LONG and self._spend(job, case, seconds) > ENOUGH):
                self._too_large(job, case)
            return Result.unpack(packed)
        result = Result(judged=[judge])
        if answer.phase == OUTSIDE:  # it does not look, which is up to it
            return result
        if answer.phase == "reference" and not answer.hung and answer.status != -9:
            self._give_up(job, case, {"broken": f"the reference {_ending(answer)}"})
            return None
        if answer.hung:
            self._too_large(job, case)
            if answer.phase == "reference":
                self._skip(job, f"the reference takes more than {answer.hung:.0f} s")
                return None
            if _has_large_int(case):  # it may count that far
                job.subject.slow[job.judge, LARGE_INT] = (0, "took too long")
                self._skip(job, f"takes more than {answer.hung:.0f} s")
                return None
            if job.judge in ("huge", WATCHED) or self._may_take(job, case, answer.hung):
                self._skip(job, f"takes more than {answer.hung:.0f} s")
                return None
            how = "waits for something for ever" if answer.waiting else "does not come to an end"
            result.add(judge, "hang", f"it {how} (given {answer.hung:.0f} s)")
        elif answer.status == -9 and not answer.crash:
            self._too_large(job, case, "ran out of memory")
            self._skip(job, "the system ended the process: out of memory?")
            return None
        elif answer.crash or answer.status < 0:
            result.add(judge, "crash", answer.crash or f"signal {-answer.status}")
        else:
            result.add(judge, "exit", f"it {_ending(answer)}")
        if job.judge == "refused":
            if self._dies(job.subject):
                return Result()  # it does so with other numbers as well
            words = f"{result.findings[0].title}, when given numbers out of all bounds"
            return Result(notes=[words])
        return result

    def _give_up(self, job: Job, case: Case, told: dict[str, Any]) -> None:
        """The reference has a mistake, or we have: this judge of this operator ends here."""
        with self.lock:
            self._tally(job.subject, f"skipped-{job.judge}").stopped = True
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

    def _too_large(self, job: Job, case: Case, why: str = "took too long") -> None:
        """Cases as large in the dim that is largest here would do the same."""
        if not case.dims or job.judge == "huge":
            return
        name, length = _longest_dim(case)
        with self.lock:
            known = job.subject.slow.get((job.judge, name), (length, why))
            if length > 64:
                job.subject.slow[job.judge, name] = min(known, (length, why))

    def _spend(self, job: Job, case: Case, seconds: float) -> float:
        """What long cases have taken so far, of those where the same dim is the largest."""
        if not case.dims:
            return 0.0
        about = (job.judge, _longest_dim(case)[0])
        with self.lock:
            spent = job.subject.spent
            spent[about] = spent.get(about, 0.0) + seconds
            return spent[about]

    def _keep_pace(self, job: Job, case: Case, seconds: float) -> None:
        if case.dims:
            name, length = _longest_dim(case)
            with self.lock:
                known = job.subject.pace.setdefault(name, {})
                known[length] = max(known.get(length, 0.0), seconds)

    def _may_take(self, job: Job, case: Case, seconds: float) -> bool:
        """Whether the operator, with the square of the size, is on its way to take so long: it is slow then,
        and does not hang."""
        if not case.dims:
            return False
        name, length = _longest_dim(case)
        with self.lock:
            shorter = [
                took * (length / n) ** 2
                for n, took in job.subject.pace.get(name, {}).items()
                if length / 4 <= n < length
            ]
        return max(shorter, default=0.0) > seconds / 4

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
                self._tally(job.subject, "repeat").cases += 1
                self.report.cases += 1
            if beside.done["digest"] != alone.done["digest"]:
                finding = Finding(
                    "repeat",
                    "fresh",
                    "in a process that has called nothing before, the result is another",
                    ["something is kept from one call to the next"],
                )
                self._record(job, case, finding, case)
        worker.renew()  # for others, who look at what the first call of a process leaves

    # ---- findings ----

    def _follow(
        self, worker: Worker, job: Job, case: Case, finding: Finding, answer: Answer
    ) -> None:
        with self.lock:
            known = next((f for f in self.report.faults if _is(f, job, finding)), None)
            if known is not None:
                known.count += 1
                _note_types(known, case)
            tally = self._tally(job.subject, f"skipped-{job.judge}")
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
        if known is not None or len(kinds) >= MOST_KINDS:
            return
        smallest = case if self.options.case else self._shrink(worker, job, case, finding)
        if job.judge in ALONE and not (self.options.case or self.options.first):
            self._tell_alone(worker, job, smallest, case, finding)
        else:
            self._record(job, smallest, self._words_for(worker, job, smallest, finding), case)

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
        self._record(job, tried, told, case)

    def _record(self, job: Job, smallest: Case, finding: Finding, case: Case) -> None:
        with self.lock:
            if any(_is(f, job, finding) for f in self.report.faults):
                return
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
            self.watch("fault", self.done, self.total, f"{fault.subject}: {fault.title}")

    def _shrink(self, worker: Worker, job: Job, case: Case, finding: Finding) -> Case:
        if job.judge == "huge" or self.options.first:
            return case
        hang = finding.kind == "hang"
        limits = Limits(operator=1.5) if hang else None

        def fails(smaller: Case) -> bool:
            for _ in range(1 if hang or finding.judge != "threads" else 2):
                result = self._read_quietly(job, smaller, self._ask(worker, job, smaller, limits))
                if any(f.kind == finding.kind for f in result.findings):
                    return True
            return False

        dies_slowly = finding.kind in DEATHS and job.target.device != "cpu"  # CUDA starts anew
        return shrink(case, fails, attempts=8 if hang else 20 if dies_slowly else 80)

    def _read_quietly(self, job: Job, case: Case, answer: Answer) -> Result:
        """Leaves no trace in the report."""
        if answer.done is not None and "findings" not in answer.done:
            return Result()
        quiet = Job(Subject(job.subject.target, *[""] * 4, None, ""), job.judge, [])
        return self._read(quiet, case, answer) or Result()

    def _words_for(self, worker: Worker, job: Job, case: Case, finding: Finding) -> Finding:
        """The finding as the smallest case has it. Who asks for the first one is told of it as it was found."""
        if job.judge == "huge" or finding.kind == "hang":
            return finding
        if self.options.first and finding.kind in DEATHS:
            return finding
        result = self._read_quietly(job, case, self._ask(worker, job, case))
        for again in result.findings:
            if again.kind == finding.kind:
                return finding if self.options.first else again
        told = [*finding.details, NOT_AGAIN] if job.judge in ALONE else finding.details
        return replace(finding, details=told)


def _has_large_int(case: Case) -> bool:
    return any(isinstance(v, int) and abs(v) >= 2**31 for v in case.scalars.values())


def _longest_dim(case: Case) -> tuple[str, int]:
    lengths = {n: s if isinstance(s, int) else max(s, default=1) for n, s in case.dims.items()}
    name = max(lengths, key=lambda n: lengths[n])
    return name, lengths[name]


def _ending(answer: Answer) -> str:
    if answer.crash or answer.status < 0:
        return f"crashes ({answer.crash or f'signal {-answer.status}'})"
    return f"ends the process (exit status {answer.status})"


def _end(answer: Answer) -> str:
    """Before there was anything to judge."""
    who = "the reference" if answer.phase == "reference" else "it"
    return (
        f"{who} takes more than {answer.hung:.0f} s" if answer.hung else f"{who} {_ending(answer)}"
    )


def _main_judge(job: Job) -> str:
    """Under which name a crash is reported."""
    names = {"again": "repeat", "fresh": "repeat", "leaks": "leak", "refused": "leak"}
    names |= {"autograd": "gradient", "values": "memory", WATCHED: "threads", "batch": "opcheck"}
    names |= {"bounds": "refuse", "neighbours": "repeat"}
    return names.get(job.judge, job.judge)


def _shown(job: Job) -> str:
    """What --only calls it."""
    if job.judge == "values":
        return "forward" if job.subject.name == job.subject.forward else "gradient"
    return _main_judge(job)


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
