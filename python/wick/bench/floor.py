"""floor -- the least time that a call can take on this machine

A call must read its inputs and write its outputs once: that many bytes take as long as a copy that
moves as many, over as much memory (less, where it writes in place), with the caches as full or as
empty. So the copy is measured over the whole range of sizes, warm and cold, by the best way to copy
there is (plain stores or stores past the caches, one thread or all). Where an operator declares its
flops they count as well, at the rate of a large matrix product.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

from . import timing
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


class Roof:
    """What a device can do, measured."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self.curves = {cache: Curve() for cache in CACHES}
        self.rates: dict[str, float] = {}  # bytes per second of the largest copy, by how it copies
        self._flops: dict[torch.dtype, float] = {}

    # ---- bytes ----

    def measure(self, moved: Iterable[int], caches: Iterable[str], progress: Progress) -> None:
        """Measures the copy over the range of these calls' bytes, and a large one. What is larger than
        memory allows has the rate of the largest that could be measured."""
        wanted, caches = list(moved), list(caches)
        most = min(max(wanted), self.device.free_bytes() // 2)
        sizes = sizes_between(min(wanted), most)
        self.measure_large()
        with self.device.quiet():
            for i, n in enumerate(sizes):
                progress.step(i, len(sizes), "measuring the copy")
                try:
                    found = self._at(n, caches)
                except (RuntimeError, MemoryError):
                    if i == 0:
                        raise
                    break
                for cache, seconds in found.items():
                    self.curves[cache].moved.append(n)
                    self.curves[cache].seconds.append(seconds)
        if self.device.type == "cuda":
            self._straighten()

    def _at(self, moved: int, caches: list[str]) -> dict[str, float]:
        """Seconds by the state of the caches. Beyond them there is but one time, and an empty cache is
        never better than a full one."""
        if moved > _BEYOND * self.device.facts()["last_cache_bytes"]:
            return dict.fromkeys(caches, min(self._copies(moved, caches[0]).values()))
        found = {cache: min(self._copies(moved, cache).values()) for cache in caches}
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
        """Seconds of each way to copy: the best sample, as STREAM counts, since it is a limit."""
        make = self.device.warm if cache == "warm" else self.device.cold
        runs = {
            way: make(stmt, names) for way, (stmt, names) in self.device.copies(moved // 2).items()
        }
        call = {way: self.device.warm(*what) for way, what in self.device.empty_copy().items()}
        most = timing.ENOUGH_RUNS if cache == "warm" else 1
        found = timing.rounds(runs, n_rounds=samples, sample_s=_SAMPLE_S, most=most)
        empty = timing.rounds(call, n_rounds=_SAMPLES, sample_s=_SAMPLE_S / 10)
        nothing = min((min(s) for s in empty.values()), default=0.0)
        return {way: max(min(s) - nothing, _LEAST_SHARE * min(s)) for way, s in found.items()}

    def _straighten(self) -> None:
        """A small copy on a GPU shows its launch, which is not a matter of bytes: no size is slower
        than a larger one."""
        for curve in self.curves.values():
            best = 0.0
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

    def floor(
        self, n_bytes: int, touched: int, cache: str, flops: float | None, dtype: torch.dtype
    ) -> tuple[float, str]:
        """Seconds, and whether bytes or flops decide. `touched` is the memory that the bytes are in:
        the rate is that of a copy over as much."""
        by_bytes = self.curves[cache].at(touched) * n_bytes / touched if touched > 0 else 0.0
        rate = self.flop_rate(dtype) if flops else None
        by_flops = flops / rate if flops and rate else 0.0
        return (by_flops, "flops") if by_flops > by_bytes else (by_bytes, "bytes")

    def facts(self) -> dict[str, Any]:
        return {
            "copy_bytes_per_s": self.rates,
            "flops_per_s": {str(k).removeprefix("torch."): v for k, v in self._flops.items()},
            "copy": {cache: [c.moved, c.seconds] for cache, c in self.curves.items() if c.moved},
        }
