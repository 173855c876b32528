"""timing -- how long calls take: rounds in which every contender is timed once

A figure compares things that were measured in the same run: in every round each contender is timed
once, in an order that changes. A machine that slows down for a while slows all of them, and a
single disturbed round moves no median.
"""

from __future__ import annotations

import contextlib
import gc
import os
import random
import statistics
import timeit
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

Run = Callable[[int], float]
"""n runs; seconds per run."""

ENOUGH_RUNS = 1 << 22
UNCOUNTED, UNCOUNTED_SHARE = 2, 0.25  # calls before a sample: as many, or such a share of it
LONG_S = 0.2  # a run longer than this is one sample, whatever interrupted it


class Steps(Protocol):
    """Who is told how far it is: progress.Progress."""

    def step(self, done: int, total: int, now: str = "") -> None: ...


def timer(stmt: str, names: Mapping[str, Any]) -> timeit.Timer:
    """Of a statement whose names are locals of the loop, so that the loop costs little."""
    setup = "; ".join(f"{name} = given_{name}" for name in names) or "pass"
    given = {f"given_{name}": value for name, value in names.items()}
    return timeit.Timer(stmt, setup, globals=given)


def call_seconds(stmt: str, names: Mapping[str, Any]) -> Run:
    """A function: n runs of `stmt`, seconds per run."""
    t = timer(stmt, names)
    return lambda n: t.timeit(n) / n


def uncounted(n: int, seconds: float) -> int:
    """How many calls are made before n that count, to find things as the n leave them; none where a call
    takes so long that it does not matter."""
    return 0 if seconds >= LONG_S else max(UNCOUNTED, round(UNCOUNTED_SHARE * n))


def runs_for(run: Run, sample_s: float, most: int = ENOUGH_RUNS, tried: float | None = None) -> int:
    """How many runs last about `sample_s`, at least one; found by trying, which also warms up. A try
    that was long is made again: it may have been the one that compiled something, or was interrupted.
    `tried` is the seconds of a run that was made already."""
    n = 1
    if most == 1 or (tried is not None and tried >= LONG_S):
        return 1
    while True:
        took = run(n) if tried is None else tried
        tried = None
        if took * n >= sample_s / 4:
            took = min(took, run(n))
        if took * n >= sample_s / 4 or n >= most:
            return max(1, min(most, round(sample_s / max(took, 1e-9))))
        n = min(4 * n, most)


def rounds(
    contenders: Mapping[str, Run],
    *,
    n_rounds: int,
    sample_s: float,
    progress: Steps | None = None,
    most: int = ENOUGH_RUNS,
    tried: Mapping[str, float] | None = None,
) -> dict[str, list[float]]:
    """Seconds per run of every contender in every round; each sample lasts about `sample_s`. `tried`
    is a run of each that was made already; a long one is its first sample."""
    tried = tried or {}
    counts = {
        name: runs_for(run, sample_s, most, tried.get(name)) for name, run in contenders.items()
    }
    samples = {name: [s for s in (tried.get(name, 0.0),) if s >= LONG_S] for name in contenders}
    order = list(contenders)
    for i in range(n_rounds):
        random.shuffle(order)
        for name in order:
            if len(samples[name]) < n_rounds:
                samples[name].append(contenders[name](counts[name]))
        if progress is not None:
            progress.step(i + 1, n_rounds)
    return samples


def quartiles(samples: Sequence[float]) -> tuple[float, float, float]:
    """The first, the median and the third; one sample is all three."""
    if len(samples) < 2:
        return (samples[0],) * 3
    first, _, third = statistics.quantiles(samples, n=4, method="inclusive")
    return first, statistics.median(samples), third


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """No garbage is collected inside, and none is left from before."""
    was_collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_collecting:
            gc.enable()


@contextlib.contextmanager
def quiet_process() -> Iterator[None]:
    """One CPU, no garbage collection: for times of less than a millisecond, on one thread."""
    cpus = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cpus)})
    try:
        with no_collection():
            yield
    finally:
        os.sched_setaffinity(0, cpus)
