"""Cases of one operator for one judge, and what people call it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .case import Case
from .records import Subject, Tally, Target

WATCHED = "shared"  # of `threads`: the one whose target is built so that it can be watched
# Of `threads`: elements over which a loop should be cut; if it is not, so many times as many.
CUT, LONGER = 60_000, (2, 4, 8, 16, 32, 64)
# What --only calls them, where it is another name.
NAMES = {
    "again": "repeat",
    "fresh": "repeat",
    "neighbours": "repeat",
    "leaks": "leak",
    "refused": "leak",
    "autograd": "gradient",
    "second": "gradient",
    "values": "memory",
    WATCHED: "threads",
    "batch": "opcheck",
    "bounds": "refuse",
}


@dataclass
class Job:
    subject: Subject
    judge: str
    cases: list[Case]
    part: int = 0  # of all cases of a kind, of which these are some

    @property
    def target(self) -> Target:
        """What has to be loaded for it."""
        return replace(self.subject.target, watched=self.judge == WATCHED)

    def is_of(self, target: Target | None) -> bool:
        """Of a target that is loaded, watched or not."""
        return target is not None and self.subject.target == replace(target, watched=False)

    @property
    def tally(self) -> Tally:
        """What was left out, and what it took."""
        return self.subject.tally(f"skipped-{self.judge}")

    @property
    def main_judge(self) -> str:
        """Under which name a crash is reported."""
        return NAMES.get(self.judge, self.judge)

    @property
    def shown(self) -> str:
        """What --only calls it."""
        if self.judge == "values":
            return "forward" if self.subject.name == self.subject.forward else "gradient"
        return self.main_judge
