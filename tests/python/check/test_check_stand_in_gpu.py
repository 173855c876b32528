"""`wick check --device cuda` goes its way without a GPU: no mistake of its own, and no false alarm.

The workers see a torch whose GPU is the CPU (../stand_in_gpu/sitecustomize.py). opcheck is left out: torch
itself would go to the GPU there. What a GPU alone can show is in tests/gpu.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from gallery import FAST, planted, sources

from wick.check.records import JUDGES, Options, Report, Target
from wick.check.report import lines
from wick.check.run import check

STAND_IN = Path(__file__).parents[1] / "stand_in_gpu"
ONLY = [judge for judge in JUDGES if judge != "opcheck"]
# Optional inputs and results, offsets, in place, numbers, scratch, two types, second gradients.
FILES = [
    p for p in sources() if p.stem in ["affine", "bags", "blend_", "count", "dot", "nth", "tally"]
]
OPTIONS = Options(device="cuda", depth="quick", only=ONLY)
# What does not need the CPU's guards, or a GPU, to be seen.
SHOWN = ("forward", "gradient", "repeat")


@pytest.fixture(scope="module", autouse=True)
def stand_in() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(STAND_IN))
        yield


def words(report: Report) -> str:
    return "\n".join(line for line, _ in lines(report))


@pytest.fixture(scope="module")
def sound() -> Report:
    shipped = Target(None, names=("scale_bias_relu", "add_out", "reduce_sum_dim"), types=("f32",))
    files = [Target(str(p), label=p.stem, flags=FAST, types=("f32", "i32")) for p in FILES]
    return check([shipped, *files], OPTIONS)


def test_sound_operators_are_sound(sound: Report) -> None:
    assert sound.code == 0, words(sound)


def test_all_that_a_gpu_is_asked_about_is_judged(sound: Report) -> None:
    asked = {judge for s in sound.subjects for judge in s.tallies}
    assert asked >= {"forward", "gradient", "memory", "repeat", "threads", "leak", "stream"}
    assert {s.target.device for s in sound.subjects} == {"cuda"}


def test_planted_faults_are_found() -> None:
    faults = [p for p in planted() if p.path in FILES and p.judge in SHOWN]
    assert len(faults) > 20
    report = check([p.target for p in faults], Options(device="cuda", first=True))
    told = {f.target.label for f in report.faults}
    assert sorted({str(p) for p in faults} - told) == [], words(report)
