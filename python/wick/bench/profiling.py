"""profiling -- a trace of the calls, for chrome://tracing or ui.perfetto.dev

While torch's profiler looks on, a call of Wick's goes through torch's dispatcher, so that it is seen;
with out= that is a new result and a copy, which is not the call that was measured. The profiler looks on
in one thread alone: so out= is called in another, and the trace has the span of these calls without
anything inside, and on a GPU their kernels.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from . import contenders, rows, timing
from .contenders import Contender, Field
from .shapes import Case
from .target import Operator

_CALLS = 3
_UNSEEN = ("out=",)
_SILENT = "6"  # above all levels of the profiler's log

Runs = dict[str, Callable[[], Any]]


def _runs(field: Field, unseen: ThreadPoolExecutor) -> Runs:
    """A few calls of each contender, in the loop that timed them."""

    def few(contender: Contender) -> Callable[[], Any]:
        timer = timing.timer(contender.stmt, contender.names)
        if contender.name in _UNSEEN:
            return lambda: unseen.submit(timer.timeit, _CALLS).result()
        return lambda: timer.timeit(_CALLS)

    return {contender.name: few(contender) for contender in field.contenders}


def _run_all(fields: Iterable[tuple[str, Field, Runs]]) -> None:
    for words, field, runs in fields:
        for name, run in runs.items():
            if field.reset:
                field.reset()
            with record_function(f"{name}: {words}"):
                run()
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _be_silent() -> None:
    """The profiler logs its start and end to stderr, at a level above that of errors. It looks at this
    variable when it begins. On a GPU its errors are of use: there may be no kernels in the trace."""
    if not torch.cuda.is_available():
        os.environ.setdefault("KINETO_LOG_LEVEL", _SILENT)


def trace(
    path: str, calls: Iterable[tuple[Operator, Case, Any]], asked: tuple[str, ...], seed: int
) -> None:
    """A few calls of every contender. All of it was run before: what a field compiles is forgotten
    when the next one is made, and would be compiled again in the trace."""
    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(ProfilerActivity.CUDA)
    fields = []
    for operator, case, device in calls:
        call = rows.make_call(operator, case, device, seed)
        words = f"{operator.name} {case.words()} {' '.join(case.types.values())} {device.name}"
        fields.append((words, contenders.field(operator, case, call, device, asked, seed)))
    compiles = any(c.name == "compile" for _, field in fields for c in field.contenders)
    limits = contenders.compiled_without_end() if compiles else contextlib.nullcontext()
    with ThreadPoolExecutor(1) as unseen, limits:
        runs = [(words, field, _runs(field, unseen)) for words, field in fields]
        _run_all(runs)
        _be_silent()
        with profile(activities=activities, record_shapes=True) as prof:
            _run_all(runs)
    prof.export_chrome_trace(path)
