"""Guarded calls on the CPU."""

from __future__ import annotations

import pytest
import torch
from parts import SCALE, subject_of

import wick
from wick.check import draw
from wick.check.case import Case
from wick.check.guarded import Manner


@pytest.mark.parametrize("layout", [None, *draw.LAYOUTS])
def test_a_guarded_call_is_the_operators_own(layout: str | None) -> None:
    forward = subject_of(SCALE, lambda x, bias, scale: torch.relu(x * scale + bias))
    layouts = {} if layout is None else {"x": layout}
    case = Case("scale_bias_relu", {"T": "f32"}, {"N": (6,), "C": 5}, {"scale": 2.0}, layouts)
    call = forward.prepare(case)
    wanted = wick.ops.scale_bias_relu(*call.values)
    for manner in (Manner(), Manner(at_end=False, shift=1), Manner(repeats=5)):
        outcome = call.run(manner)
        assert not outcome.refused and not outcome.damage and outcome.differs == -1
        assert torch.equal(outcome.results[0], wanted)


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("can't allocate memory: 1 GB")])
def test_a_reference_that_runs_out_of_memory_when_asked_again_says_so(error: Exception) -> None:
    asked = []

    def hungry(x: torch.Tensor, bias: torch.Tensor, scale: float) -> torch.Tensor:
        asked.append(x)
        if len(asked) > 1:
            raise error
        return torch.relu(x * scale + bias)

    subject = subject_of(SCALE, hungry)
    subject.natural = set()  # so that it is not asked about that
    call = subject.prepare(SCALE.read_case("scale_bias_relu T:f32 N=3 C=5"))
    expected = call.expected()
    with pytest.raises(MemoryError, match="the reference wants more than there is"):
        call.samples(expected, 0, False)
