"""stream: on a GPU, work goes to the current stream and can be captured into a graph."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import torch

from .. import guarded
from ..call import Call, Unfit, answered
from ..case import Case
from ..finding import Result, skip
from ..operator import candidates
from ..oracle import Unanswered
from .values import Subject, results_of

DELAY = 20_000_000  # clock cycles: long enough for a launch on another stream to overtake
ROUNDS = 10  # of calls at once
JUNK = 0x5A


def judge_stream(subject: Subject, case: Case) -> Result:
    result = Result()
    try:
        call = answered(subject, case)
        alone = call.run()
    except (Unfit, Unanswered) as why:
        return skip(why)
    if alone.refused:
        return Result(refused=alone.message)
    result.judged.append("stream")
    for busy in (0, 2 * DELAY):
        if not result.findings:
            _judge_side_stream(call, alone.results, busy, result)
    for other in _others(subject, case, call):
        if not any(f.kind == "together" for f in result.findings):
            _judge_together(call, other, alone.results, result)
    _judge_graph(call, alone.results, result)
    return result


def _judge_side_stream(call: Call, wanted: list[Any], busy: int, result: Result) -> None:
    """Inputs are written late on another stream than the default one: who does not wait reads junk,
    and who writes elsewhere is overtaken by the reader. busy: clock cycles for which the default one has
    other work, and whoever leaves something there comes too late."""
    finished = call.on_device()
    late = [torch.zeros_like(v) if isinstance(v, torch.Tensor) else v for v in finished]
    stream = torch.cuda.Stream(call.device)
    torch.cuda.synchronize(call.device)
    call.phase("operator")
    if busy:
        with torch.cuda.stream(torch.cuda.default_stream(call.device)):
            torch.cuda._sleep(busy)
    with torch.cuda.stream(stream):
        _use_memory(call)
        torch.cuda._sleep(DELAY)
        for to, value in zip(late, finished):
            if isinstance(to, torch.Tensor):
                to.copy_(value)
        given = call.operator.function(*late)
        copies = [g.clone() if isinstance(g, torch.Tensor) else g for g in _as_list(given)]
    torch.cuda.synchronize(call.device)
    call.phase("judge")
    got = results_of(call.operator, tuple(copies) if len(copies) != 1 else copies[0], late)
    if not guarded.same(got, wanted):
        result.add(
            "stream",
            "side",
            "on a stream of its own the result is another",
            "the kernel is not launched on the current stream: use the launch of <wick/op.h>",
        )


def _use_memory(call: Call) -> None:
    """Results will lie where something was: fresh memory is zero, as if somebody had cleared it in time."""
    sizes = [math.prod(about[0]) * about[1].itemsize for about in call.shapes if about]
    rooms = [torch.empty(n, dtype=torch.uint8, device=call.device).fill_(JUNK) for n in sizes]
    del rooms


def _judge_together(call: Call, other: Call, wanted: list[Any], result: Result) -> None:
    """At once with a call whose inputs are others, on two streams each: what both write to, one of them
    reads."""
    alone = other.run()
    if alone.refused:
        return
    right = None if _has_indices(other) else alone.results
    calls: list[tuple[Call, list[Any] | None]] = [(call, wanted), (other, right)] * 2
    streams = [torch.cuda.Stream(call.device) for _ in calls]
    first = torch.cuda.Stream(call.device)
    for turn in range(ROUNDS):
        values = [each.on_device() for each, _ in calls]
        torch.cuda.synchronize(call.device)
        call.phase("operator")
        with torch.cuda.stream(first):
            torch.cuda._sleep(DELAY // 10)
            start = torch.cuda.Event()
            start.record()
        given: list[Any] = [None] * len(calls)
        order = [0, 1, 2, 3] if turn % 2 else [1, 0, 3, 2]
        for k in order:
            with torch.cuda.stream(streams[k]):
                _use_memory(call)
                streams[k].wait_event(start)
                given[k] = call.operator.function(*values[k])
        torch.cuda.synchronize(call.device)
        call.phase("judge")
        for (_, right), got, at in zip(calls, given, values):
            if right is None:
                continue
            if not guarded.same(results_of(call.operator, got, at), right):
                result.add(
                    "stream",
                    "together",
                    "while another call runs on another stream, the result is another",
                    "both write to the same memory: ask for scratch in the signature",
                )
                return


def _has_indices(call: Call) -> bool:
    """Whose others are all the same, and of what goes to one place any may come last."""
    return any(isinstance(v, torch.Tensor) and not v.is_floating_point() for v in call.values)


def _others(subject: Subject, case: Case, call: Call) -> Iterator[Call]:
    """Calls with other numbers: in tensors alone, and in scalars as well."""
    yield call.but([_other(v) for v in call.values])
    scalars = {**case.scalars, **_other_scalars(subject, case)}
    if scalars != case.scalars:
        with contextlib.suppress(Unfit, Unanswered):
            unlike = answered(subject, case.but(scalars=scalars))
            yield unlike.but([_other(v) for v in unlike.values])


def _other_scalars(subject: Subject, case: Case) -> dict[str, Any]:
    forward = subject.forward
    found = {}
    for p in forward.operator.scalars:
        is_now = case.scalars.get(p.name, p.default)
        values = [v for v in forward.taken.get(p.name) or candidates(p) if v != is_now]
        found.update({p.name: values[0]} if values else {})
    return found


def _other(value: Any) -> Any:
    """Larger and smaller numbers; of indices, those that are always allowed."""
    if not isinstance(value, torch.Tensor):
        return value
    return value * -2 if value.is_floating_point() else torch.zeros_like(value)


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple) else [value]


def _judge_graph(call: Call, wanted: list[Any], result: Result) -> None:
    """Captured with other inputs, then replayed with these."""
    finished = call.on_device()
    static = [torch.zeros_like(v) if isinstance(v, torch.Tensor) else v for v in finished]
    graph = torch.cuda.CUDAGraph()
    call.phase("operator")
    try:
        call.operator.function(*static)  # whatever is done once is done before
        torch.cuda.synchronize(call.device)
        with torch.cuda.graph(graph):
            given = call.operator.function(*static)
        for to, value in zip(static, finished):
            if isinstance(to, torch.Tensor):
                to.copy_(value)
        graph.replay()
        torch.cuda.synchronize(call.device)
    except RuntimeError as error:
        result.add("stream", "capture", f"it cannot be captured into a CUDA graph: {error}")
        return
    finally:
        call.phase("judge")
    if not guarded.same(results_of(call.operator, given, static), wanted):
        result.add(
            "stream",
            "replay",
            "replayed from a CUDA graph the result is another",
            "something was computed on the host, or on another stream, when it was captured",
        )
