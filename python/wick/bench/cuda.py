"""cuda -- times on a GPU: events on the device, an emptied L2 on request, clocks written down

The clocks are taken as they are found, and noted before and after. A warm figure is a train of calls
between two events, so it is what a program that calls the operator gets: where launching takes
longer than computing, it is the launch; the thread that does it is held on one CPU. A cold one has an
event before and behind each call; the write that empties the cache runs meanwhile, so launching is
hidden in it.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from . import host, timing
from .timing import Run

_MEGABYTE = 1 << 20
_QUERY = ("clocks.sm", "clocks.mem", "power.draw", "temperature.gpu")


def _ask_nvidia_smi(device: torch.device) -> dict[str, Any]:
    """Clocks in MHz, power in W, temperature; {} where the tool is not there or does not answer."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return {}
    uuid = str(getattr(torch.cuda.get_device_properties(device), "uuid", ""))
    chosen = ["-i", f"GPU-{uuid}"] if uuid else []
    words = [tool, *chosen, f"--query-gpu={','.join(_QUERY)}", "--format=csv,noheader,nounits"]
    try:
        said = subprocess.run(words, capture_output=True, text=True, timeout=20).stdout
    except (OSError, subprocess.TimeoutExpired):
        return {}
    values = [word.strip() for word in said.splitlines()[0].split(",")] if said.strip() else []
    found: dict[str, Any] = {}
    for name, value in zip(_QUERY, values):
        with contextlib.suppress(ValueError):
            found[name.replace(".", "_")] = float(value)
    return found


def _cpus_near(device: torch.device) -> str:
    """The CPUs on the GPU's side of the machine, as "0-15"; "" where the system does not tell."""
    properties = torch.cuda.get_device_properties(device)
    place = [getattr(properties, f"pci_{part}_id", None) for part in ("domain", "bus", "device")]
    if None in place:
        return ""
    domain, bus, slot = place
    return host.read(f"/sys/bus/pci/devices/{domain:04x}:{bus:02x}:{slot:02x}.0/local_cpulist")


def _events() -> tuple[torch.cuda.Event, torch.cuda.Event]:
    return torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)


class _Train:
    """n calls between two events; `host_s` is what this thread spent on each of them."""

    def __init__(
        self, stmt: str, names: Mapping[str, Any], reset: Callable[[], None] | None
    ) -> None:
        self._timer = timing.timer(stmt, names)
        self._reset = reset
        self.host_s = 0.0

    def __call__(self, n: int) -> float:
        start, end = _events()
        if self._reset:
            self._reset()
        torch.cuda.synchronize()
        start.record()
        self.host_s = self._timer.timeit(n) / n
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1e3 / n


class Cuda:
    """One GPU, on torch's current stream."""

    def __init__(self, name: str) -> None:
        self._device = torch.device(name)
        if self._device.index is None:
            self._device = torch.device("cuda", torch.cuda.current_device())
        self.name, self.type = str(self._device), "cuda"
        self.threads = torch.get_num_threads()
        self._pins = host.Pins(1, _cpus_near(self._device))
        properties = torch.cuda.get_device_properties(self._device)
        self._l2 = int(getattr(properties, "L2_cache_size", 0)) or 64 * _MEGABYTE
        dirt = max(4 * self._l2, 256 * _MEGABYTE)
        self._dirt = torch.zeros(dirt // 8, dtype=torch.int64, device=self._device)

    def words(self) -> str:
        return f"{self.name}, {torch.cuda.get_device_name(self._device)}"

    def facts(self) -> dict[str, Any]:
        properties = torch.cuda.get_device_properties(self._device)
        return {
            "device": self.name,
            "model": properties.name,
            "capability": f"{properties.major}.{properties.minor}",
            "processors": properties.multi_processor_count,
            "memory_bytes": properties.total_memory,
            "last_cache_bytes": self._l2,
            "held_on": self._pins.cpus,
            "cuda": torch.version.cuda,
            "allow_tf32": torch.backends.cuda.matmul.allow_tf32,
        }

    def state(self) -> dict[str, Any]:
        return _ask_nvidia_smi(self._device)

    def free_bytes(self) -> int:
        """Of the driver, and what torch holds without using it."""
        held = torch.cuda.memory_reserved(self._device) - torch.cuda.memory_allocated(self._device)
        return torch.cuda.mem_get_info(self._device)[0] + held

    def make_room(self) -> None:
        """For another process: what torch holds without using it."""
        torch.cuda.empty_cache()

    def learn(self, call: Callable[[], Any]) -> None:
        call()
        torch.cuda.synchronize(self._device)

    def flush(self) -> None:
        self._dirt.zero_()

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        with self._pins.hold(), timing.no_collection(), torch.cuda.device(self._device):
            torch.cuda.synchronize()
            yield
            torch.cuda.synchronize()

    def warm(
        self, stmt: str, names: Mapping[str, Any], reset: Callable[[], None] | None = None
    ) -> Run:
        return _Train(stmt, names, reset)

    def cold(
        self, stmt: str, names: Mapping[str, Any], reset: Callable[[], None] | None = None
    ) -> Run:
        t = timing.timer(stmt, names)

        def run(n: int) -> float:
            pairs = []
            for _ in range(n):
                start, end = _events()
                if reset:
                    reset()
                self.flush()
                start.record()
                t.timeit(1)
                end.record()
                pairs.append((start, end))
            torch.cuda.synchronize()
            return sum(start.elapsed_time(end) for start, end in pairs) / 1e3 / n

        return run

    # ---- ceilings ----

    def copies(self, n_bytes: int) -> dict[str, tuple[str, dict[str, Any]]]:
        n = max(64, n_bytes)
        source, target = (torch.ones(n, dtype=torch.uint8, device=self._device) for _ in range(2))
        return {"plain": ("a.copy_(b)", {"a": target, "b": source})}

    def empty_copy(self) -> dict[str, tuple[str, dict[str, Any]]]:
        return {}  # a launch is a matter of time, not of bytes: see Roof

    def updates(self, n_bytes: int) -> dict[str, tuple[str, dict[str, Any]]]:
        """One buffer, read and written."""
        buffer = torch.ones(max(1, n_bytes // 4), device=self._device)
        return {"in place": ("a.neg_()", {"a": buffer})}

    def empty_update(self) -> dict[str, tuple[str, dict[str, Any]]]:
        return {}

    def arithmetic(self, dtype: torch.dtype) -> torch.dtype | None:
        """Every type in itself: the units that multiply f16 and bf16 take them as they are."""
        return dtype

    def product(self, dtype: torch.dtype) -> tuple[int, str, dict[str, Any]]:
        n = 8192 if dtype.itemsize <= 4 else 4096
        a, b = (torch.randn(n, n, device=self._device).to(dtype) for _ in range(2))
        out = torch.empty_like(a)
        names = {"mm": torch.mm, "a": a, "b": b, "out": out}
        return 2 * n**3, "mm(a, b, out=out)", names
