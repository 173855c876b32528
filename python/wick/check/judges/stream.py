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
    others = list(_others(subject, case))
    before = next((o.values for o in others if _sizes(o) == _sizes(call)), call.values)
    for busy in (0, 2 * DELAY):
        if not result.findings:
            _judge_side_stream(call, before, alone.results, busy, result)
    for other in others:
        if not any(f.kind == "together" for f in result.findings):
            _judge_together(call, other, alone.results, result)
    if all(p.is_tensor for p in call.operator.outputs):  # a number has to be waited for
        _judge_graph(call, before, alone.results, result)
    return result


def _judge_side_stream(
    call: Call, before: list[Any], wanted: list[Any], busy: int, result: Result
) -> None:
    """Inputs are written late on another stream than the default one: who does not wait reads those of
    before, and who writes elsewhere is overtaken by the reader. busy: clock cycles for which the default
    one has other work, and whoever leaves something there comes too late."""
    finished = call.on_device()
    late = _in_place_of(before, finished)
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
        given = call.by_door(late)
        copies = [g.clone() if isinstance(g, torch.Tensor) else g for g in _as_list(given)]
    torch.cuda.synchronize(call.device)
    call.phase("judge")
    got = results_of(call.operator, tuple(copies) if len(copies) != 1 else copies[0], late)
    if not guarded.alike(got, wanted):
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
    calls = [(call, wanted), (other, alone.results)] * 2
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
                given[k] = calls[k][0].by_door(values[k])
        torch.cuda.synchronize(call.device)
        call.phase("judge")
        for (_, right), got, at in zip(calls, given, values):
            if not guarded.alike(results_of(call.operator, got, at), right):
                result.add(
                    "stream",
                    "together",
                    "while another call runs on another stream, the result is another",
                    "both write to the same memory: ask for scratch in the signature",
                )
                return


def _others(subject: Subject, case: Case) -> Iterator[Call]:
    """Calls of the same sizes with other numbers: in tensors alone, and in scalars as well."""
    scalars = {**case.scalars, **_other_scalars(subject, case)}
    for there in (case.scalars, scalars) if scalars != case.scalars else (scalars,):
        with contextlib.suppress(Unfit, Unanswered):
            yield answered(subject, case.but(scalars=there, seed=case.seed + 1000))


def _sizes(call: Call) -> list[Any]:
    return [v.shape for v in call.values if isinstance(v, torch.Tensor)]


def _other_scalars(subject: Subject, case: Case) -> dict[str, Any]:
    forward = subject.forward
    found = {}
    for p in forward.operator.scalars:
        is_now = case.scalars.get(p.name, p.default)
        values = [v for v in forward.taken.get(p.name) or candidates(p) if v != is_now]
        found.update({p.name: values[0]} if values else {})
    return found


def _in_place_of(before: list[Any], finished: list[Any]) -> list[Any]:
    """Tensors with the numbers of before, into which the finished ones can be copied."""
    return [
        torch.empty_like(v).copy_(b) if isinstance(v, torch.Tensor) else v
        for b, v in zip(before, finished)
    ]


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple) else [value]


def _judge_graph(call: Call, before: list[Any], wanted: list[Any], result: Result) -> None:
    """Captured with other inputs, then replayed with these."""
    finished = call.on_device()
    static = _in_place_of(before, finished)
    graph = torch.cuda.CUDAGraph()
    call.phase("operator")
    try:
        call.by_door(static)  # whatever is done once is done before
        torch.cuda.synchronize(call.device)
        with torch.cuda.graph(graph):
            given = call.by_door(static)
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
    if not guarded.alike(results_of(call.operator, given, static), wanted):
        result.add(
            "stream",
            "replay",
            "replayed from a CUDA graph the result is another",
            "something was computed on the host, or on another stream, when it was captured",
        )
