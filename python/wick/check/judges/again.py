"""repeat: the same call gives the same result, whatever was called before."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import torch

from .. import guarded
from ..case import Case
from ..finding import Result, skip
from ..guarded import Manner
from ..oracle import Unanswered
from ..subject import Call, Unfit, answered
from .values import Subject

REPEATS, FEW = 120, 1200  # equal calls, and those of a few elements


def _repeats(call: Call) -> int:
    elements = sum(v.numel() for v in call.values if isinstance(v, torch.Tensor))
    return FEW if elements < 100 else REPEATS


def digest(results: Sequence[Any]) -> str:
    state = hashlib.blake2b(digest_size=8)
    for value in results:
        raw = guarded.bits(value)
        state.update(raw.numpy().tobytes() if isinstance(raw, torch.Tensor) else repr(raw).encode())
    return state.hexdigest()


def judge_digest(subject: Subject, case: Case) -> Result:
    """One call, and its result in a few letters: to be compared with another process's."""
    result = Result(judged=["repeat"])
    try:
        outcome = answered(subject, case).run()
    except (Unfit, Unanswered) as why:
        return skip(why)
    result.digest = f"refused {outcome.message}" if outcome.refused else digest(outcome.results)
    return result


def judge_again(subject: Subject, case: Case, others: Sequence[tuple[Subject, Case]]) -> Result:
    """others: what is called in between."""
    result = Result()
    try:
        call = answered(subject, case)
        first = call.run()
    except (Unfit, Unanswered) as why:
        return skip(why)
    if first.refused:
        return Result(refused=first.message)
    result.judged.append("repeat")
    repeats = _repeats(call)
    repeated = call.run(Manner(repeats=repeats))
    if repeated.differs >= 0:
        result.add(
            "repeat",
            "unsteady",
            f"call {repeated.differs + 1} of {repeats} equal ones has another result",
        )
    for other, between in others:
        try:
            answered(other, between).run()
        except (Unfit, Unanswered):
            continue
    last = call.run()
    if not result.findings and not guarded.same(first.results, last.results):
        result.add(
            "repeat",
            "remembers",
            "the same call has another result after other calls",
            "something is kept from one call to the next",
        )
    return result
