"""What a judge says of a case."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

UNANSWERED = "unanswered: "  # so begins why a case was skipped that the reference had no answer to


@dataclass
class Finding:
    judge: str  # forward, memory, ...
    kind: str  # one word: findings of one kind are one fault
    title: str  # one line
    details: list[str] = field(default_factory=list)


@dataclass
class Result:
    """of one judge on one case. skipped: why nothing was judged."""

    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    skipped: str = ""
    refused: str = ""  # the operator's own words where it did not take the case
    worst: float = 0.0  # the largest error, as a share of what is allowed
    judged: list[str] = field(default_factory=list)  # what was judged, by name
    digest: str = ""

    def add(self, judge: str, kind: str, title: str, *details: str) -> None:
        self.findings.append(Finding(judge, kind, title, list(details)))

    def pack(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def unpack(packed: dict[str, Any]) -> Result:
        findings = [Finding(**f) for f in packed["findings"]]
        return Result(**{**packed, "findings": findings})


def skip(why: Exception) -> Result:
    """Unanswered, or Unfit: by the reference, by the signature."""
    return Result(skipped=f"{type(why).__name__.lower()}: {why}")
