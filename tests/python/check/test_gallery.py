"""Every planted fault is found, and none where none was planted.

All are judged in one run, on all CPUs: what a fault's own judge finds, and the sound files by all.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from gallery import FAST, Planted, planted, sources, unlisted

from wick.check.records import JUDGES, Options, Report, Target
from wick.check.report import lines
from wick.check.run import check

PLANTED = planted()
SOURCES = sources()


def judges_of(path: Path) -> tuple[str, ...]:
    """What may be wrong with a sound file: not Wick's own part, nor threads where there are none."""
    threads = "wick_parallel(" in path.read_text()
    left_out = {"refuse", "opcheck", *(() if threads else ("threads",))}
    return tuple(judge for judge in JUDGES if judge not in left_out)


@pytest.fixture(scope="module")
def found() -> Report:
    return check([p.target for p in PLANTED], Options(first=True, patience=1.5))


def narrow(source: str) -> tuple[str, ...]:
    first = next((t for t in ("f16", "bf16", "f32") if re.search(rf"\b{t}\b", source)), "f32")
    return first, "i8", "i32"


@pytest.fixture(scope="module")
def sound() -> Report:
    """In one narrow type: it has the most that can go wrong."""
    targets = [
        Target(
            str(path),
            label=path.stem,
            flags=FAST,
            only=judges_of(path),
            types=narrow(path.read_text()),
        )
        for path in SOURCES
    ]
    return check(targets, Options(depth="quick"))


def test_there_are_many_and_of_every_kind() -> None:
    assert len(PLANTED) >= 100
    judges = {p.judge for p in PLANTED}
    wanted = {"forward", "gradient", "memory", "repeat", "threads", "leak", "refuse", "huge"}
    assert judges == wanted
    assert len({str(p) for p in PLANTED}) == len(PLANTED)


def test_all_are_listed() -> None:
    assert unlisted() == []


@pytest.mark.parametrize("fault", PLANTED, ids=str)
def test_a_planted_fault_is_found(fault: Planted, found: Report) -> None:
    errors = [words for target, words in found.errors if target.label == str(fault)]
    assert not errors
    judges = {f.judge for f in found.faults if f.target.label == str(fault)}
    assert fault.judge in judges, fault.words


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.stem)
def test_the_sound_twin_passes(path: Path, sound: Report) -> None:
    assert path.stem in {s.target.label for s in sound.subjects}
    faults = [f for f in sound.faults if f.target.label == path.stem]
    unjudged = [w for w in sound.unjudged() if re.match(rf"{path.stem}(_backward)?:", w)]
    assert not faults and not unjudged, "\n".join(line for line, _ in lines(sound))
