"""`wick check` on a GPU: every fault planted in faults/*.c is found there, and none where none is."""

from __future__ import annotations

from pathlib import Path

import pytest
from gallery import Planted, planted, sources

from wick.check.report import lines
from wick.check.run import Options, Report, Target, check

FOLDER = Path(__file__).parent / "faults"
PLANTED = planted(FOLDER)


@pytest.fixture(scope="module")
def found() -> Report:
    return check([p.target for p in PLANTED], Options(first=True, device="cuda"))


@pytest.mark.parametrize("fault", PLANTED, ids=str)
def test_a_planted_fault_is_found(fault: Planted, found: Report) -> None:
    errors = [words for target, words in found.errors if target.label == str(fault)]
    assert not errors
    judges = {f.judge for f in found.faults if f.target.label == str(fault)}
    assert fault.judge in judges, fault.words


@pytest.mark.parametrize("path", sources(FOLDER), ids=lambda p: p.stem)
def test_the_sound_twin_passes(path: Path) -> None:
    report = check([Target(str(path), label=path.stem)], Options(device="cuda"))
    words = "\n".join(line for line, _ in lines(report))
    assert report.code == 0, words
    assert "stream" in report.subjects[0].tallies, words


@pytest.mark.parametrize("name", ["scale_bias_relu", "reduce_sum_dim", "mul", "add_out"])
def test_shipped_operators_are_sound(name: str) -> None:
    report = check([Target(None, (name,), label=name)], Options(device="cuda", depth="quick"))
    assert report.code == 0, "\n".join(line for line, _ in lines(report))
