"""repeat: the same call gives the same result, whatever was called before."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from .. import guarded
from ..call import Call, Unfit, answered
from ..case import Case, Size, dims_text
from ..device import REPEATS as REPEATS_ON_DEVICE
from ..device import synchronize
from ..finding import Result, skip
from ..guarded import Manner
from ..oracle import Unanswered
from .values import Subject, results_of

REPEATS, FEW = 120, 1200  # equal calls, and those of a few elements


def _repeats(call: Call) -> int:
    elements = sum(v.numel() for v in call.values if isinstance(v, torch.Tensor))
    most = FEW if elements < 100 else REPEATS
    return guarded.affordable(most if call.device.type == "cpu" else REPEATS_ON_DEVICE)


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
    if not result.findings:
        _judge_new_values(subject, case, call, result)
    return result


def judge_neighbours(subject: Subject, case: Case) -> Result:
    """Right after a call that differs in a size, or has two of them the other way round, the result is what
    it is after one that has nothing in common with either."""
    result = Result()
    try:
        call = answered(subject, case)
        stranger = answered(subject, case.but(dims=_unlike(subject, case)))
        stranger.run()
        wanted = call.run()
    except (Unfit, Unanswered) as why:
        return skip(why)
    if wanted.refused:
        return Result(refused=wanted.message)
    result.judged.append("repeat")
    for dims in neighbours(case.dims):
        try:
            before = answered(subject, case.but(dims=dims))
        except (Unfit, Unanswered):
            continue
        stranger.run()
        before.run()
        if not guarded.same(wanted.results, call.run().results):
            result.add(
                "repeat",
                "remembers-sizes",
                f"the result is another right after a call with {dims_text(dims)}",
                "something is kept from one call to the next, and taken for sizes that it is not of",
            )
            break
    return result


def neighbours(dims: dict[str, Size]) -> Iterator[dict[str, Size]]:
    """Sizes that somebody might take for these: as many elements, or all dims but one the same."""
    lengths = {name: math.prod(s) if isinstance(s, tuple) else s for name, s in dims.items()}
    for a, b in itertools.combinations(dims, 2):
        if lengths[a] != lengths[b]:
            yield {**dims, a: _size(dims[a], lengths[b]), b: _size(dims[b], lengths[a])}
    for name, length in lengths.items():
        for other in (length // 2 + 1, 2 * length + 33):
            if other != length:
                yield {**dims, name: _size(dims[name], other)}


def _unlike(subject: Subject, case: Case) -> dict[str, Size]:
    """Sizes of which, if possible, none is one of the case's."""
    forward = subject.forward
    drawn = [forward.operator.sample("odd", case.seed + k, 2000) for k in range(8)]
    return min(drawn, key=lambda dims: sum(dims[name] == size for name, size in case.dims.items()))


def _size(like: Size, length: int) -> Size:
    return (length,) if isinstance(like, tuple) else length


def _judge_new_values(subject: Subject, case: Case, call: Call, result: Result) -> None:
    """The same tensors with other numbers in them, but for their ends, which somebody may look at."""
    try:
        other = answered(subject, case.but(seed=case.seed + 1))
    except (Unfit, Unanswered):
        return
    values = [_copy(v) for v in call.on_device()]
    new = [_but_for_ends(o, v) for o, v in zip(other.on_device(), call.on_device())]
    call.phase("operator")
    try:
        call.by_door(values)
        for v, n in zip(values, new):
            if isinstance(v, torch.Tensor):
                v.copy_(n)
        given = _results(call, values)
        expected = _results(call, [_copy(n) for n in new])
    except RuntimeError:  # others judge what is refused; who has failed on a device is told here
        synchronize(call.device)
        return
    finally:
        call.phase("judge")
    if not guarded.alike(given, expected):
        result.add(
            "repeat",
            "remembers-values",
            "with other numbers in the same tensors, the result is not theirs",
            "something is kept that was made of an input, and is found again by its address",
        )


def _copy(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _but_for_ends(new: Any, old: Any) -> Any:
    """Whole numbers stay among those that they were drawn with."""
    if not isinstance(new, torch.Tensor) or not new.is_floating_point() or new.numel() < 3:
        return new
    flat, was = new.contiguous().clone().view(-1), old.contiguous().view(-1)
    flat[0], flat[-1] = was[0], was[-1]
    return flat.view(new.shape)


def _results(call: Call, values: list[Any]) -> list[Any]:
    return results_of(call.operator, call.by_door(values), values)
