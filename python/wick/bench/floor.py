"""floor -- the least time that a call can take on this machine

A call that reads all of its inputs and writes all of its outputs takes as long as a copy that moves
as many bytes, over as much memory (less, where it writes in place), with the caches as full or as empty.
So the copy is measured over the whole range of sizes, warm and cold, by the best way to copy there is
(plain stores or stores past the caches, one thread or all). What is written where it was read costs
less in a cache, which need not fetch what is overwritten: for operators that write in place alone an
update of one buffer is measured as well, and the lesser of the two counts. Where an operator declares
its flops they count as well, at the rate of a large matrix product.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from . import timing
from .inputs import Traffic
from .progress import Progress

_STEP = 4  # factor between two sizes of the curve
_SMALLEST = 1 << 12
_GRAIN = 128  # bytes moved: a line read and a line written
_SAMPLES, _LARGE_SAMPLES = 9, 20
_SAMPLE_S = 1e-3
_LARGEST = 1 << 30
_BEYOND = 8  # times the last cache, from where on what is in it does not matter
_LEAST_SHARE = 0.1  # of a tiny copy that is the copying, when the call around it is taken away
CACHES = ("warm", "cold")

Ways = Callable[[int, str], dict[str, float]]
"""Bytes moved and the state of the caches; seconds of each way to move them."""
Statements = Mapping[str, tuple[str, dict[str, Any]]]


@dataclass
class Curve:
    """Seconds of a copy over the bytes that it moves (read and written together)."""

    moved: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def at(self, n_bytes: int) -> float:
        """Between two sizes by interpolation of the logarithms, outside at the nearest one's rate."""
        if not self.moved or n_bytes <= 0:
            return 0.0
        i = bisect.bisect_left(self.moved, n_bytes)
        if i in (0, len(self.moved)):
            nearest = 0 if i == 0 else -1
            return self.seconds[nearest] * n_bytes / self.moved[nearest]
        low, high = math.log(self.moved[i - 1]), math.log(self.moved[i])
        share = (math.log(n_bytes) - low) / (high - low)
        times = [math.log(self.seconds[k]) for k in (i - 1, i)]
        return math.exp(times[0] + share * (times[1] - times[0]))


def sizes_between(least: int, most: int) -> list[int]:
    """Bytes moved at which the copy is measured, so that these lie between; the last is as large as the
    largest of them and no larger, since that is memory."""
    sizes = [max(_SMALLEST, _STEP ** math.floor(math.log(max(1, least), _STEP)))]
    most = -(-most // _GRAIN) * _GRAIN
    while sizes[-1] < most:
        sizes.append(min(sizes[-1] * _STEP, most))
    return sizes


def _drawn(curves: dict[str, Curve]) -> dict[str, list[Any]]:
    return {cache: [c.moved, c.seconds] for cache, c in curves.items() if c.moved}


class Roof:
    """What a device can do, measured."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self.curves = {cache: Curve() for cache in CACHES}
        self.updates = {cache: Curve() for cache in CACHES}  # of one buffer, in place
        self.rates: dict[str, float] = {}  # bytes per second of the largest copy, by how it copies
        self._flops: dict[torch.dtype, float] = {}

    # ---- bytes ----

    def measure(self, calls: Iterable[Traffic], caches: Iterable[str], progress: Progress) -> None:
        """Measures the copy over the range of these calls' bytes, and a large one; the update where
        some of them are in place. What is larger than memory allows has the rate of the largest that
        could be measured."""
        calls, caches = list(calls), list(caches)
        self.measure_large()
        with self.device.quiet():
            copied = [max(1, c.touched) for c in calls] + self._beyond_launches()
            self._measure(self.curves, copied, caches, self._copies, progress)
            updated = [2 * max(1, c.touched) for c in calls if c.in_place]
            if updated:
                updated += self._beyond_launches()
                self._measure(self.updates, updated, caches, self._updates, progress)
        if self.device.type == "cuda":
            self._straighten()

    def _measure(
        self,
        curves: dict[str, Curve],
        wanted: list[int],
        caches: list[str],
        ways: Ways,
        progress: Progress,
    ) -> None:
        most = min(max(wanted), self.device.free_bytes() // 2)
        sizes = sizes_between(min(wanted), most)
        for i, n in enumerate(sizes):
            progress.step(i, len(sizes), "measuring the copy")
            try:
                found = self._at(n, caches, ways)
            except (RuntimeError, MemoryError):
                if i == 0:
                    raise
                break
            for cache, seconds in found.items():
                curves[cache].moved.append(n)
                curves[cache].seconds.append(seconds)

    def _at(self, moved: int, caches: list[str], ways: Ways) -> dict[str, float]:
        """Seconds by the state of the caches. Beyond them there is but one time, and an empty cache is
        never better than a full one."""
        if moved > _BEYOND * self.device.facts()["last_cache_bytes"]:
            return dict.fromkeys(caches, min(ways(moved, caches[0]).values()))
        found = {cache: min(ways(moved, cache).values()) for cache in caches}
        if "cold" in found:
            found["cold"] = max(found.values())
        return found

    def measure_large(self) -> None:
        """The rate out of memory: each of the two arrays is four times the last cache, as STREAM's."""
        large = min(_BEYOND * self.device.facts()["last_cache_bytes"], _LARGEST)
        large = min(large, self.device.free_bytes() // 2)
        with self.device.quiet():
            for way, seconds in self._copies(large, "warm", _LARGE_SAMPLES).items():
                kind = way.split(",")[0]
                self.rates[kind] = max(self.rates.get(kind, 0.0), large / seconds)

    def _copies(self, moved: int, cache: str, samples: int = _SAMPLES) -> dict[str, float]:
        """Seconds of each way to copy."""
        return self._best(self.device.copies(moved // 2), self.device.empty_copy(), cache, samples)

    def _updates(self, moved: int, cache: str) -> dict[str, float]:
        """Seconds of each way to read one buffer and write it again."""
        return self._best(
            self.device.updates(moved // 2), self.device.empty_update(), cache, _SAMPLES
        )

    def _best(
        self, ways: Statements, nothing_: Statements, cache: str, samples: int
    ) -> dict[str, float]:
        """Of each way the best sample, as STREAM counts, since it is a limit; without what the call
        around it takes, which also takes longer when the caches are empty."""
        make = self.device.warm if cache == "warm" else self.device.cold
        runs = {way: make(stmt, names) for way, (stmt, names) in ways.items()}
        call = {way: make(stmt, names) for way, (stmt, names) in nothing_.items()}
        most = timing.ENOUGH_RUNS if cache == "warm" else 1
        found = timing.rounds(runs, n_rounds=samples, sample_s=_SAMPLE_S, most=most)
        empty = timing.rounds(call, n_rounds=_SAMPLES, sample_s=_SAMPLE_S / 10, most=most)
        nothing = min((min(s) for s in empty.values()), default=0.0)
        return {way: max(min(s) - nothing, _LEAST_SHARE * min(s)) for way, s in found.items()}

    def _beyond_launches(self) -> list[int]:
        """Bytes of a copy on a GPU that its launch hardly matters to, and that a cache still holds."""
        return [self.device.facts()["last_cache_bytes"]] if self.device.type == "cuda" else []

    def _straighten(self) -> None:
        """A small copy on a GPU shows its launch, which is not a matter of bytes: no size is slower
        than a larger one, and none than the largest."""
        for curve in (*self.curves.values(), *self.updates.values()):
            best = max(self.rates.values(), default=0.0)
            for i in reversed(range(len(curve.moved))):
                best = max(best, curve.moved[i] / curve.seconds[i])
                curve.seconds[i] = curve.moved[i] / best

    # ---- flops ----

    def flop_rate(self, stored: torch.dtype) -> float | None:
        """Flops per second of a matrix product, in the type that elements of this one are computed in;
        None where there is none."""
        dtype = self.device.arithmetic(stored)
        if dtype is None:
            return None
        if dtype not in self._flops:
            try:
                flops, stmt, names = self.device.product(dtype)
                self.device.learn(lambda: timing.timer(stmt, names).timeit(1))
                with self.device.quiet():
                    run = self.device.warm(stmt, names)
                    samples = timing.rounds({"product": run}, n_rounds=5, sample_s=5e-3)["product"]
                self._flops[dtype] = flops / min(samples)
            except (RuntimeError, TypeError):
                self._flops[dtype] = 0.0
        return self._flops[dtype] or None

    # ---- both ----

    def _of_bytes(self, moves: Traffic, cache: str) -> float:
        """At the rate of a copy over as much memory, or, in place, of an update of as much."""
        if moves.touched <= 0:
            return 0.0
        rounds = moves.moved / moves.touched
        found = self.curves[cache].at(moves.touched) * rounds
        if moves.in_place and self.updates[cache].moved:
            found = min(found, self.updates[cache].at(2 * moves.touched) * rounds / 2)
        return found

    def floor(
        self, moves: Traffic, cache: str, flops: float | None, dtype: torch.dtype
    ) -> tuple[float, str]:
        """Seconds, and whether bytes or flops decide."""
        by_bytes = self._of_bytes(moves, cache)
        rate = self.flop_rate(dtype) if flops else None
        by_flops = flops / rate if flops and rate else 0.0
        return (by_flops, "flops") if by_flops > by_bytes else (by_bytes, "bytes")

    def facts(self) -> dict[str, Any]:
        return {
            "copy_bytes_per_s": self.rates,
            "flops_per_s": {str(k).removeprefix("torch."): v for k, v in self._flops.items()},
            "copy": _drawn(self.curves),
            "update": _drawn(self.updates),
        }
