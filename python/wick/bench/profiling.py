"""profiling -- a trace of the calls, for chrome://tracing or ui.perfetto.dev"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from . import contenders, rows
from .shapes import Case
from .target import Operator

_CALLS = 3


def trace(
    path: str, calls: Iterable[tuple[Operator, Case, Any]], asked: tuple[str, ...], seed: int
) -> None:
    """A few calls of every contender, after one that is not in the trace."""
    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(ProfilerActivity.CUDA)
    fields = []
    for operator, case, device in calls:
        call = rows.make_call(operator, case, device, seed)
        words = f"{operator.name} {case.words()} {' '.join(case.types.values())} {device.name}"
        fields.append((words, contenders.field(operator, case, call, device, asked, seed)))
    with profile(activities=activities, record_shapes=True) as prof:
        for words, field in fields:
            for contender in field.contenders:
                if field.reset:
                    field.reset()
                with record_function(f"{contender.name}: {words}"):
                    for _ in range(_CALLS):
                        contender.call()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    prof.export_chrome_trace(path)
