"""What is asked for, and what comes of it: targets and options in, a report out."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from .case import Case
from .finding import UNANSWERED
from .pace import Pace

TYPES = ("f16", "bf16", "f32", "f64", "i8", "i16", "i32", "i64", "u8", "bool")
LIMIT = 120.0  # seconds of work for each judge of an operator
DEATHS = ("crash", "hang", "exit")  # of the process: one fault, whatever was being judged

JUDGES = {
    "forward": "results against the reference",
    "gradient": "gradients against the reference's, and by finite differences",
    "memory": "nothing read or written outside, every element written, inputs untouched",
    "repeat": "the same result again, after other calls, in another process",
    "threads": "the same result on any number of threads, from several callers",
    "leak": "nothing left behind",
    "refuse": "wrong calls get an error",
    "opcheck": "torch.library.opcheck",
    "huge": "more than 2^31 elements",
    "stream": "on a GPU: streams and graphs",
}


@dataclass
class Options:
    only: list[str] = field(default_factory=lambda: list(JUDGES))
    seed: int = 0
    seconds: float = 0.0  # --time: further rounds with other seeds, until then
    depth: str = "default"
    types: list[str] = field(default_factory=list)
    device: str = "all"
    reference: str | None = None
    case: str | None = None
    jobs: int = 0
    first: bool = False  # stop at a target's first fault, and leave it as it is
    limit: float | None = None  # seconds of work for each judge of an operator; 0: no limit
    patience: float = 8.0  # seconds of CPU time after which a small call counts as a hang

    @property
    def seconds_of_work(self) -> float:
        if self.limit is not None:
            return self.limit
        return 0.0 if self.depth == "full" or self.case else LIMIT


@dataclass(frozen=True)
class Target:
    """path None: the operators that come with Wick. names: only these; () is all."""

    path: str | None
    names: tuple[str, ...] = ()
    device: str = ""  # "": not decided yet
    label: str = ""
    flags: tuple[str, ...] = ()  # for the C compiler
    only: tuple[str, ...] = ()  # of its own; () is the options'
    types: tuple[str, ...] = ()  # likewise
    watched: bool = False  # built so that it can be watched


@dataclass
class Fault:
    target: Target
    subject: str
    judge: str
    kind: str
    title: str
    details: list[str]
    case: Case
    count: int = 1
    types: list[str] = field(default_factory=list)


@dataclass
class Tally:
    """What one judge did with one operator."""

    cases: int = 0
    skipped: dict[str, int] = field(default_factory=dict)  # why: how often
    refused: dict[str, int] = field(default_factory=dict)
    worst: float = 0.0
    deaths: int = 0
    seconds: float = 0.0  # of work, in this round
    stopped: bool = False


@dataclass
class Subject:
    target: Target
    name: str
    forward: str
    signature: str
    file: str
    reference: str | None
    problem: str
    tallies: dict[str, Tally] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)
    pace: Pace = field(default_factory=Pace)

    def tally(self, judge: str) -> Tally:
        return self.tallies.setdefault(judge, Tally())


@dataclass
class Report:
    options: Options
    subjects: list[Subject] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    errors: list[tuple[Target, str]] = field(default_factory=list)  # what could not be checked
    seconds: float = 0.0
    cases: int = 0
    interrupted: bool = False

    def has_fault(self, target: Target) -> bool:
        return any(f.target == target for f in self.faults)

    def unjudged(self) -> list[str]:
        """What was to be judged and could not be."""
        found = [f"{target.label}: {words}" for target, words in self.errors]
        for subject in self.subjects:
            why = self._unproved(subject)
            if why:
                found.append(f"{subject.name}: {why}")
        if self.interrupted:
            found.append("the rest: interrupted")
        if not found and self.cases == 0:
            asked = (
                f"no operator is called {self.options.case.split()[0]}" if self.options.case else ""
            )
            found.append(f"anything: {asked or 'no operator has a case for what was asked'}")
        return found

    def _unproved(self, subject: Subject) -> str:
        """What is missing before its values can be called right; "" for nothing."""
        tag = "forward" if subject.name == subject.forward else "gradient"
        if tag not in (subject.target.only or self.options.only):
            return ""
        if self.options.case and self.options.case.split()[0] != subject.name:
            return ""
        if subject.problem:
            return subject.problem
        if self.interrupted or any(self._hides(f, subject) for f in self.faults):
            return ""
        if subject.tallies.get(tag, Tally()).cases == 0:
            return f"{tag} was not judged: {_why(subject, tag)}"
        if tag == "forward" and subject.reference is None and self.stands_alone(subject):
            return f"forward was judged against its own widest type alone: {_no_reference(subject)}"
        return ""

    def _hides(self, fault: Fault, subject: Subject) -> bool:
        """After a fault not everything is looked at any more."""
        return fault.target == subject.target and (
            self.options.first or fault.subject == subject.name
        )

    def stands_alone(self, subject: Subject) -> bool:
        """On a GPU an operator is compared with its version for the CPU, which then is the reference."""
        there = [
            s.target.device
            for s in self.subjects
            if (s.name, s.file) == (subject.name, subject.file)
        ]
        return set(there) == {"cpu"}

    @property
    def code(self) -> int:
        return 1 if self.faults else 2 if self.unjudged() else 0


def _why(subject: Subject, tag: str) -> str:
    if subject.reference is None:
        return _no_reference(subject)
    if subject.tallies.get("skipped-values", Tally()).deaths:
        return "its calls do not come back"
    counts = subject.tallies.get("skipped-values", Tally()).skipped
    if not counts:
        return "no case was taken"
    most = max(counts, key=lambda w: counts[w])
    if most.startswith(UNANSWERED):
        return f"the reference has no answer ({most.removeprefix(UNANSWERED)})"
    return most


def _no_reference(subject: Subject) -> str:
    stem = os.path.splitext(os.path.basename(subject.file))[0]
    return f"there is no reference (a function {subject.forward} in {stem}.py beside {stem}.c, or --reference)"
