"""What is asked for, and what comes of it: targets and options in, a report out."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from .case import Case

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
    patience: float = 8.0  # seconds of CPU time after which a small call counts as a hang


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
    worst_case: Case | None = None
    deaths: int = 0
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
    slow: dict[tuple[str, str], int] = field(default_factory=dict)  # (judge, dim): too large


@dataclass
class Report:
    options: Options
    subjects: list[Subject] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    errors: list[tuple[Target, str]] = field(default_factory=list)  # what could not be checked
    seconds: float = 0.0
    cases: int = 0

    def unjudged(self) -> list[str]:
        """What was to be judged and could not be."""
        found = [f"{target.label}: {words}" for target, words in self.errors]
        for subject in self.subjects:
            tag = "forward" if subject.name == subject.forward else "gradient"
            tally = subject.tallies.get(tag)
            wanted = subject.target.only or self.options.only
            if tag not in wanted or self.options.case:
                continue
            if subject.problem:
                found.append(f"{subject.name}: {subject.problem}")
            elif tally is None or tally.cases == 0:
                found.append(f"{subject.name}: {tag} was not judged: {_why(subject, tag)}")
        return found

    @property
    def code(self) -> int:
        return 1 if self.faults else 2 if self.unjudged() else 0


def _why(subject: Subject, tag: str) -> str:
    if subject.reference is None:
        stem = os.path.splitext(os.path.basename(subject.file))[0]
        return f"there is no reference (a function {subject.forward} in {stem}.py beside {stem}.c, or --reference)"
    if subject.tallies.get("skipped-values", Tally()).deaths:
        return "its calls do not come back"
    words = subject.tallies.get("skipped-values", Tally()).skipped
    return max(words, key=lambda w: words[w]) if words else "no case was taken"
