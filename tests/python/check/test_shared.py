"""What `wick check` says of memory that is shared: whoever has a lock may, and a race has lines."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from wick.check.records import Options, Report, Target
from wick.check.report import lines
from wick.check.run import check

SOURCE = Path(__file__).parent / "sharing.c"
ROW = re.compile(r"^ \*\s+(\d+)\s+(sound|race|static)\s+(.*)$", re.M)
WAYS = {int(number): (kind, words) for number, kind, words in ROW.findall(SOURCE.read_text())}
COMPILERS = [cc for cc in ("gcc", "clang", "clang-14") if shutil.which(cc)]


def target(way: int) -> Target:
    return Target(str(SOURCE), label=str(way), flags=(f"-DWAY={way}",), only=("threads",))


@pytest.fixture(scope="module", params=COMPILERS)
def found(request: pytest.FixtureRequest) -> Report:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CC", request.param)
        return check([target(way) for way in WAYS], Options(depth="quick"))


def faults_of(report: Report, way: int) -> dict[str, list[str]]:
    assert not report.errors
    notes = [s.notes for s in report.subjects if s.target.label == str(way)]
    assert notes == [{}], "it was watched"
    faults = [f for f in report.faults if f.target.label == str(way)]
    return {f.kind: f.details for f in faults if f.kind.startswith("shared")}


@pytest.mark.parametrize("way", [n for n, (kind, _) in WAYS.items() if kind == "sound"])
def test_what_is_ordered_is_no_fault(way: int, found: Report) -> None:
    assert faults_of(found, way) == {}, "\n".join(line for line, _ in lines(found))


@pytest.mark.parametrize("way", [n for n, (kind, _) in WAYS.items() if kind != "sound"])
def test_what_is_not_ordered_is_found_without_luck(way: int, found: Report) -> None:
    kind, words = WAYS[way]
    assert list(faults_of(found, way)) == [f"shared {kind}"], words


def line_of(text: str) -> int:
    return next(k for k, line in enumerate(SOURCE.read_text().split("\n"), 1) if text in line)


def test_lines_are_named(found: Report) -> None:
    line = line_of("/* the count */")
    details = faults_of(found, 11)["shared race"]
    assert f"sharing.c:{line} writes what sharing.c:{line} has written" in details


def test_tensors_are_named(found: Report) -> None:
    line = line_of("if (WAY == 13) memset")
    assert f"sharing.c:{line} writes" in (words := faults_of(found, 13)["shared race"][0])
    assert re.search(r"\(byte \d+ of y\)$", words)


def test_the_operators_that_come_with_wick_share_nothing() -> None:
    report = check([Target(None, only=("threads",))], Options(depth="quick"))
    assert len(report.subjects) >= 9
    assert not report.errors and not any(s.notes for s in report.subjects)
    assert not report.faults, "\n".join(line for line, _ in lines(report))
    assert all(not s.tallies["skipped-shared"].skipped for s in report.subjects), "all were watched"


def test_a_compiler_that_cannot_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other judges judge, and the report says what was left out."""
    wrapper = tmp_path / "cc"
    wrapper.write_text(
        '#!/bin/sh\nfor a; do case "$a" in -fsanitize=thread)'
        ' echo "cc: error: unsupported option $a" >&2; exit 1;; esac; done\nexec gcc "$@"\n'
    )
    wrapper.chmod(0o755)
    monkeypatch.setenv("CC", str(wrapper))
    report = check([target(11)], Options(depth="quick"))
    (subject,) = report.subjects
    (note,) = subject.notes
    assert note.startswith("memory could not be watched: ")
    assert "-fsanitize=thread" in note
    assert subject.tallies["threads"].cases > 0
