"""host -- times on the CPU: threads stay where they are, and caches are empty on request

Every thread that takes part is held on a CPU of its own, on different cores as far as there are. A
library's threads are those that appear when it is first called (torch has a pool, and code that
torch.compile makes may have another); each pool is spread over the same CPUs.
"""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from .. import _wick
from .._doctor.system import available_memory
from . import timing
from .timing import Run

LINE = 64  # bytes; what _wick.copy counts in
BY_LIBRARY, IN_A_LOOP, PAST_THE_CACHES = range(3)  # how it copies
_MEGABYTE = 1 << 20


# ---- what the machine says of itself ----


def read(path: str) -> str:
    with contextlib.suppress(OSError), open(path) as f:
        return f.read().strip()
    return ""


def _numbers(text: str) -> set[int]:
    """{0, 1, 2, 8} of "0-2,8"."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def cpus(near: str = "") -> list[int]:
    """Those we may use: one of each core first, then the cores' further ones; the last core first,
    since the first one usually serves interrupts. `near`, as "0-2,8": of these alone, if we may."""
    may = os.sched_getaffinity(0)
    allowed = sorted(may & _numbers(near) or may, reverse=True)
    seen: set[int] = set()
    first: list[int] = []
    further: list[int] = []
    for cpu in allowed:
        (further if cpu in seen else first).append(cpu)
        siblings = f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
        seen |= _numbers(read(siblings))
    return first + further


def cache_bytes() -> int:
    """Of the last level, all of its instances together; 32 MB where the system does not tell."""
    instances: dict[tuple[int, str], int] = {}
    for folder in glob.glob("/sys/devices/system/cpu/cpu[0-9]*/cache/index[0-9]*"):
        level, size = read(f"{folder}/level"), read(f"{folder}/size")
        if level and size and read(f"{folder}/type") != "Instruction":
            unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(size[-1])
            n = int(size[:-1]) * unit if unit else int(size)
            instances[int(level), read(f"{folder}/shared_cpu_list")] = n
    last = max((level for level, _ in instances), default=0)
    return sum(n for (level, _), n in instances.items() if level == last) or 32 * _MEGABYTE


def model() -> str:
    for line in read("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return os.uname().machine


# ---- threads ----


def _threads() -> set[int]:
    return {int(name) for name in os.listdir("/proc/self/task")}


class Pins:
    """Holds this process's threads on CPUs of their own."""

    def __init__(self, n: int, near: str = "") -> None:
        self.cpus = cpus(near)[:n]
        self._pools: list[list[int]] = []

    @contextlib.contextmanager
    def learn(self) -> Iterator[None]:
        """Threads that begin inside belong together: a pool."""
        before = _threads()
        yield
        pool = sorted(_threads() - before)
        if pool:
            self._pools.append(pool)

    def places(self) -> dict[int, int]:
        """Which thread belongs on which CPU; this thread has the first."""
        found = {os.getpid(): self.cpus[0]}
        for pool in self._pools:
            for i, thread in enumerate(pool, 1):
                found[thread] = self.cpus[i % len(self.cpus)]
        return found

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        before: dict[int, set[int]] = {}
        for thread, cpu in self.places().items():
            with contextlib.suppress(OSError):  # it has ended
                before[thread] = os.sched_getaffinity(thread)
                os.sched_setaffinity(thread, {cpu})
        try:
            yield
        finally:
            for thread, mask in before.items():
                with contextlib.suppress(OSError):
                    os.sched_setaffinity(thread, mask)


# ---- the device ----


class Host:
    """The CPU, with torch's number of threads."""

    def __init__(self, threads: int) -> None:
        torch.set_num_threads(threads)
        self.name = self.type = "cpu"
        self.threads = threads
        self._pins = Pins(threads)
        self._dirt = torch.zeros(max(2 * cache_bytes(), 16 * _MEGABYTE) // 8, dtype=torch.int64)
        with self._pins.learn():
            self.flush()

    def words(self) -> str:
        return f"cpu, {self.threads} thread{'s' * (self.threads != 1)}"

    def facts(self) -> dict[str, Any]:
        """What may explain a figure later."""
        frequency = read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
        return {
            "device": "cpu",
            "model": model(),
            "cpus": os.cpu_count(),
            "threads": self.threads,
            "held_on": self._pins.cpus,
            "last_cache_bytes": cache_bytes(),
            "governor": frequency or "not told",
        }

    def state(self) -> dict[str, Any]:
        """What changes while we measure."""
        clocks = [
            float(line.split(":")[1])
            for line in read("/proc/cpuinfo").splitlines()
            if line.startswith("cpu MHz")
        ]
        state: dict[str, Any] = {"load": round(os.getloadavg()[0], 2)}
        if clocks:
            state["mhz"] = round(max(clocks))
        return state

    def free_bytes(self) -> int:
        """Where the system does not tell, as much as anybody may ask for."""
        return available_memory() or 1 << 62

    def make_room(self) -> None:
        """Memory that is free is everybody's."""

    def learn(self, call: Callable[[], Any]) -> None:
        """A first call, in which a library may start its threads."""
        with self._pins.learn():
            call()

    def flush(self) -> None:
        """Leaves nothing of ours in any cache: every thread writes its part of a larger buffer."""
        self._dirt.add_(1)

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        with self._pins.hold(), timing.no_collection():
            yield

    def warm(
        self, stmt: str, names: Mapping[str, Any], reset: Callable[[], None] | None = None
    ) -> Run:
        """Call after call, on the same tensors; `reset` puts them back before each sample. The first,
        which find in the caches and in malloc what others left there, do not count."""
        t = timing.timer(stmt, names)
        took = timing.LONG_S  # of the call before: the very first may be one that lasts minutes

        def run(n: int) -> float:
            nonlocal took
            if reset:
                reset()
            if first := timing.uncounted(n, took):
                t.timeit(first)
            took = t.timeit(n) / n
            return took

        return run

    def cold(
        self, stmt: str, names: Mapping[str, Any], reset: Callable[[], None] | None = None
    ) -> Run:
        """Each call finds the caches empty."""
        t = timing.timer(stmt, names)

        def run(n: int) -> float:
            total = 0.0
            for _ in range(n):
                if reset:
                    reset()
                self.flush()
                total += t.timeit(1)
            return total / n

        return run

    # ---- ceilings ----

    def copies(self, n_bytes: int) -> dict[str, tuple[str, dict[str, Any]]]:
        """Ways to copy n_bytes, as statements: plain and past the caches, on one thread and on all."""
        n = max(LINE, n_bytes // LINE * LINE)
        source, target = (torch.ones(n + LINE, dtype=torch.uint8) for _ in range(2))
        begin = [-(-t.data_ptr() // LINE) * LINE for t in (source, target)]
        share = max(LINE, -(-n // self.threads // LINE) * LINE)
        found = {}
        plain = BY_LIBRARY if n <= cache_bytes() else IN_A_LOOP  # the one is for caches
        for kind, way in (("plain", plain), ("streaming", PAST_THE_CACHES)):
            for words, grain in (("one", n), ("all", share)):
                name = f"{kind}, {words}"
                names = {
                    "copy": _wick.copy,
                    "a": begin[1],
                    "b": begin[0],
                    "n": n,
                    "g": grain,
                    "w": way,
                    "keep": (source, target),
                }
                found[name] = ("copy(a, b, n, g, w, 1)", names)
        return found if self.threads > 1 else {k: v for k, v in found.items() if "one" in k}

    def empty_copy(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """What a statement of `copies` costs by itself."""
        return {"nothing": ("copy(64, 64, 0, 64, 0, 1)", {"copy": _wick.copy})}

    def updates(self, n_bytes: int) -> dict[str, tuple[str, dict[str, Any]]]:
        """Ways to read n_bytes and write them where they were: torch's shortest loop, whose numbers
        never leave 1 and -1."""
        return {"in place": ("a.neg_()", {"a": torch.ones(max(1, n_bytes // 4))})}

    def empty_update(self) -> dict[str, tuple[str, dict[str, Any]]]:
        return {"nothing": ("a.neg_()", {"a": torch.ones(1)})}

    def arithmetic(self, dtype: torch.dtype) -> torch.dtype | None:
        """What operators compute in: f16 and bf16 in f32 (A). Torch's products of whole numbers are a
        plain loop, and no limit."""
        if not dtype.is_floating_point:
            return None
        return torch.float32 if dtype.itemsize < 4 else dtype

    def product(self, dtype: torch.dtype) -> tuple[int, str, dict[str, Any]]:
        """A matrix product large enough to keep every core busy: its flops, and the statement."""
        n = 768
        a, b = (torch.randn(n, n).to(dtype) for _ in range(2))
        return 2 * n**3, "mm(a, b)", {"mm": torch.mm, "a": a, "b": b}
