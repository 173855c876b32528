"""records -- rows as JSON lines: what a run found, and where and when it was measured

The first line is {"record": "machine", ...}, every further one {"record": "row", ...}.
"""

from __future__ import annotations

import contextlib
import datetime
import glob
import json
import math
import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from .. import _wick
from . import host
from .rows import Row

FORMAT = 1


class RecordsError(Exception):
    """A file that is not what --json writes."""


def compiler() -> str:
    """What `cc` says of itself; "none" where there is none."""
    cc = shlex.split(os.environ.get("CC", "")) or ["cc"]
    try:
        said = subprocess.run([*cc, "--version"], capture_output=True, text=True).stdout
    except OSError:
        return "none"
    return said.splitlines()[0] if said else " ".join(cc)


def facts() -> dict[str, Any]:
    """Where and when, for any measurement."""
    return {
        "cpu": host.model(),
        "cores": os.cpu_count(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "compiler": compiler(),
        "load": round(os.getloadavg()[0], 2),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    }


def busy() -> str:
    """Words, where others use the machine: more than a tenth of it over the last minute."""
    load, cpus = os.getloadavg()[0], os.cpu_count() or 1
    return f"load {load:.1f} on {cpus} CPUs" if load > max(0.5, 0.1 * cpus) else ""


def _cpu_seconds() -> float:
    """Of all CPUs, busy since the system began, also for other guests of the same machine."""
    with contextlib.suppress(OSError), open("/proc/stat") as f:
        user, nice, system, _, _, irq, softirq, steal = map(int, f.readline().split()[1:9])
        return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _own_cpu_seconds() -> float:
    """Of this process and all that it started, such as compilers."""
    seconds: dict[int, float] = {}
    parents: dict[int, int] = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError), open(path) as f:
            fields = f.read().rpartition(")")[2].split()
            pid = int(path.split("/")[2])
            parents[pid] = int(fields[1])
            seconds[pid] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def is_ours(pid: int) -> bool:
        while pid not in (0, os.getpid()):
            pid = parents.get(pid, 0)
        return pid != 0

    return sum(s for pid, s in seconds.items() if is_ours(pid))


class Others:
    """Who else uses the machine: the load of the minute before, and the CPUs they keep busy from then
    on."""

    def __init__(self) -> None:
        self._before = busy()
        self._began = time.monotonic()
        self._theirs = self._their_seconds()

    @staticmethod
    def _their_seconds() -> float:
        return _cpu_seconds() - _own_cpu_seconds()

    def words(self) -> str:
        """ "" where they hardly do."""
        elapsed = max(time.monotonic() - self._began, 1e-3)
        theirs, cpus = (self._their_seconds() - self._theirs) / elapsed, os.cpu_count() or 1
        found = [f"{self._before} when this began"] if self._before else []
        if theirs > max(0.5, 0.1 * cpus):
            found.append(f"others used {theirs:.1f} of {cpus} CPUs meanwhile")
        return ", ".join(found)


def machine(
    devices: Iterable[Mapping[str, Any]],
    words: list[str],
    was_busy: str,
    notes: Iterable[str] = (),
) -> dict[str, Any]:
    """notes: what is missing in this run."""
    return {
        "record": "machine",
        "format": FORMAT,
        "wick": _wick.__version__,
        "command": shlex.join(["wick", "bench", *words]),
        **facts(),
        "busy": was_busy,
        "notes": list(notes),
        "devices": list(devices),
    }


def write(path: str, about: Mapping[str, Any], rows: Iterable[Row]) -> None:
    """ "-" is stdout."""
    lines = [json.dumps(about), *(json.dumps({"record": "row", **r.record()}) for r in rows)]
    text = "\n".join(lines) + "\n"
    if path == "-":
        sys.stdout.write(text)
        return
    write_text(path, text)


def write_text(path: str, text: str) -> None:
    try:
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
    except OSError as error:
        error.filename = path  # a disk that is full names no file
        raise


def _is_sound(about: Mapping[str, Any], rows: Iterable[Row]) -> bool:
    """Whether every number that a comparison divides by is one."""
    numbers = [r for d in about["devices"] for r in d["copy_bytes_per_s"].values()]
    for row in rows:
        for t in (row.times["wick"], *row.times.values()):
            numbers += [t.median_s, t.first_s, t.third_s, *t.samples_s]
    return all(type(n) in (int, float) and 0 < n < math.inf for n in numbers)


def read(path: str) -> tuple[dict[str, Any], list[Row]]:
    try:
        with open(path, encoding="utf-8") as f:
            records = [json.loads(line) for line in f if line.strip()]
        about = next(r for r in records if r["record"] == "machine")
        if about["format"] != FORMAT:
            raise RecordsError(f"{path}: format {about['format']}, expected {FORMAT}")
        rows = [Row.from_record(r) for r in records if r["record"] == "row"]
        if not _is_sound(about, rows):
            raise ValueError
        return about, rows
    except OSError as error:
        raise RecordsError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration):
        raise RecordsError(f"{path}: not a file of wick bench --json") from None
