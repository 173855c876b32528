"""The gallery: operators with planted faults (faults/*.c), each a number that the file lists.

    *    7  forward    scale is ignored

The file is sound unless FAULT is defined as one of its numbers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from wick.check.run import Target

FOLDER = Path(__file__).parent / "faults"
ROW = re.compile(r"^ \*\s+(\d+)\s+(\w+)\s+(.*)$", re.M)


@dataclass(frozen=True)
class Planted:
    path: Path
    number: int
    judge: str
    words: str

    @property
    def target(self) -> Target:
        """Judged by what should find it, and nothing else."""
        flags = (f"-DFAULT={self.number}",)
        return Target(str(self.path), label=str(self), flags=flags, only=(self.judge,))

    def __str__(self) -> str:
        return f"{self.path.stem}-{self.number}"


def planted(folder: Path = FOLDER) -> list[Planted]:
    return [
        Planted(path, int(number), judge, words)
        for path in sorted(folder.glob("*.c"))
        for number, judge, words in ROW.findall(path.read_text())
    ]


def sources(folder: Path = FOLDER) -> list[Path]:
    return sorted(folder.glob("*.c"))
