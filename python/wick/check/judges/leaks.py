"""leak: a call leaves nothing behind, also one that is refused."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch

from ..case import Case
from ..finding import Result
from ..guarded import Manner
from ..oracle import Unanswered
from ..subject import Call, Unfit
from .values import Subject

REPEATS = 40
HALF = REPEATS // 2
# What one call may lose on average before it counts: none of it is one allocation, file or thread.
LOSSES = (
    ("heap", 8, "bytes of memory"),
    ("mapping", 4096, "bytes of mapped memory"),
    ("file", 1, "open file(s)"),
    ("thread", 1, "running thread(s)"),
)


def judge_leaks(subject: Subject, case: Case) -> Result:
    result = Result()
    try:
        call = subject.prepare(case)
    except (Unfit, Unanswered) as why:
        return Result(skipped=str(why))
    outcome = call.run(Manner(repeats=REPEATS))
    if outcome.refused:
        result.refused = outcome.message
    result.judged.append("leak")
    _report(outcome.leaked, "a call", result)
    return result


def _report(leaked: tuple[int, ...], who: str, result: Result) -> bool:
    for (kind, least, words), lost in zip(LOSSES, leaked):
        if lost >= least * HALF:
            each = lost / HALF
            result.add("leak", kind, f"{who} loses {each:.0f} {words}", f"{lost} in {HALF} calls")
            return True
    return False


def judge_refused_leaks(subject: Subject, case: Case) -> Result:
    """Calls that the operator itself refuses: it must let go of what it holds by then. Numbers out of
    all bounds are tried until it refuses some."""
    result = Result()
    try:
        call = subject.prepare(case)
    except (Unfit, Unanswered) as why:
        return Result(skipped=str(why))
    for values in _strange(call):
        outcome = call.but(values).run(Manner(repeats=REPEATS))
        if outcome.refused:
            result.judged.append("leak")
            if _report(outcome.leaked, f"a refused call ({outcome.message})", result):
                break
    return result


def _strange(call: Call) -> Iterator[list[Any]]:
    odd = {
        "int": (-1, -(2**40), 2**40),
        "float": (-1.0, float("nan"), float("inf"), 1e300),
    }
    for k, p in enumerate(call.operator.inputs):
        if p.dim is None:
            for value in odd.get(p.kind, ()):
                yield [*call.values[:k], value, *call.values[k + 1 :]]
        value = call.values[k]
        if isinstance(value, torch.Tensor) and not value.is_floating_point():
            for extreme in itertools.islice(_extremes(value), 2):
                yield [*call.values[:k], extreme, *call.values[k + 1 :]]


def _extremes(value: torch.Tensor) -> Iterator[torch.Tensor]:
    if value.dtype != torch.bool and value.numel():
        info = torch.iinfo(value.dtype)
        yield torch.full_like(value, info.max)
        yield torch.full_like(value, max(info.min, -1))
