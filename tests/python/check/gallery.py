"""The gallery: operators with planted faults (faults/*.c), each a number that the file lists.

    *    7  forward    scale is ignored

The file is sound unless FAULT is defined as one of its numbers. A fault is looked for in the types
that its words name, in all if they name T; else in f32, or the file's first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from wick.check.records import Target

FOLDER = Path(__file__).parent / "faults"
FAST = ("-O0",)  # to build, which most of the time goes into
TYPES = ("f16", "bf16", "f32", "f64", "i8", "i16", "i32", "i64", "u8", "bool")
USED = re.compile(r"FAULT\s*[=!]=\s*(\d+)")
ROW = re.compile(r"^ \*\s+(\d+)\s+(\w+)\s+(.*)$", re.M)


@dataclass(frozen=True)
class Planted:
    path: Path
    number: int
    judge: str
    words: str

    @property
    def types(self) -> tuple[str, ...]:
        """() is all of them."""
        named = set(re.findall(r"\w+", self.words)) & {*TYPES, "T"}
        if "T" in named or self.judge == "huge":
            return ()
        joined = re.sub(r'"\s*"', "", self.path.read_text())  # a text over several lines
        own = re.search(r"where T: ([a-z0-9 ]+)", joined)
        if own is None:
            return ()
        listed = [t for t in own[1].split() if t in TYPES]
        if named:
            return tuple(named & {*listed})  # () where it names what T cannot be
        return ("f32",) if "f32" in listed else tuple(listed[:1])

    @property
    def target(self) -> Target:
        """Judged by what should find it, and nothing else."""
        flags = (f"-DFAULT={self.number}", *(() if self.judge == "huge" else FAST))
        only = (self.judge,)
        return Target(str(self.path), label=str(self), flags=flags, only=only, types=self.types)

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


def unlisted(folder: Path = FOLDER) -> list[str]:
    """Faults that a file has and does not list, or lists and does not have."""
    listed = {str(p) for p in planted(folder)}
    used = {f"{p.stem}-{n}" for p in sources(folder) for n in USED.findall(p.read_text()) if int(n)}
    return sorted(listed ^ used)
