"""`wick check` on a GPU: every fault that is planted in a kernel is found, and none where none was planted.

All are judged in one run, each by what should find it; the sound file by everything. It runs by itself, with whatever
wick and torch that Python has:  pytest tests/gpu/test_check_gpu.py
"""

from __future__ import annotations

from pathlib import Path

import pytest
from gallery import Planted, planted, sources, unlisted

import wick.testing
from wick.check.records import JUDGES, Options, Report, Target
from wick.check.report import lines
from wick.check.run import check

FOLDER = Path(__file__).parent / "faults"
PLANTED = planted(FOLDER)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WICK_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def found(cache: None) -> Report:
    return check([p.target for p in PLANTED], Options(device="cuda", first=True))


@pytest.fixture(scope="module")
def sound(cache: None) -> Report:
    targets = [Target(str(path), label=path.stem) for path in sources(FOLDER)]
    return check(targets, Options(device="cuda"))


def words(report: Report) -> str:
    return "\n".join(line for line, _ in lines(report))


def test_there_are_many_and_of_every_kind() -> None:
    assert len(PLANTED) >= 15
    kinds = {"forward", "gradient", "memory", "repeat", "threads", "leak", "huge", "stream"}
    assert {p.judge for p in PLANTED} == kinds


def test_all_are_listed() -> None:
    assert unlisted(FOLDER) == []


@pytest.mark.parametrize("fault", PLANTED, ids=str)
def test_a_planted_fault_is_found(fault: Planted, found: Report) -> None:
    errors = [said for target, said in found.errors if target.label == str(fault)]
    assert not errors
    judges = {f.judge for f in found.faults if f.target.label == str(fault)}
    assert fault.judge in judges, f"{fault.words}\n{words(found)}"


def test_the_sound_twin_passes(sound: Report) -> None:
    assert sound.code == 0, words(sound)
    (forward, *_) = [s for s in sound.subjects if s.name == "rows"]
    assert forward.target.device == "cuda"
    judged = {judge for judge in JUDGES if judge in forward.tallies}
    assert judged >= {"forward", "memory", "repeat", "threads", "leak", "stream", "huge"}


def test_an_operator_is_judged_on_both_devices(cache: None) -> None:
    report = wick.testing.check(
        FOLDER / "rows.c", only=["forward", "stream"], depth="quick", types=["f32"]
    )
    assert {s.target.device for s in report.subjects} == {"cpu", "cuda"}
    assert "rows on cuda: " in words(report)


def test_a_fault_of_a_kernel_is_told_with_a_line_that_shows_it_again(cache: None) -> None:
    with pytest.raises(AssertionError, match=r"(?s)FAULT memory: rows.*--device cuda") as raised:
        wick.testing.check(
            FOLDER / "rows.c", only=["memory"], types=["f32"], device="cuda", flags=["-DFAULT=5"]
        )
    assert "it wrote right past the end of y" in str(raised.value)
