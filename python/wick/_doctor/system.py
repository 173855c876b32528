"""system -- the C library, the limits of the process, the container"""

from __future__ import annotations

import os
import platform
import resource

from .findings import Finding, ok, problem, warning
from .machine import Machine

OLDEST_GLIBC = (2, 28)
LARGE_ENOUGH = 64 << 20


def check_libc(m: Machine) -> list[Finding]:
    if platform.system() != "Linux":
        text = f"{platform.system()}: Wick runs on Linux (under Windows, in WSL)"
        return [problem("libc-not-linux", text, "wsl --install    # then install Wick in there")]
    try:
        name, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").split()
    except (ValueError, OSError):
        text = "the C library is not glibc (Alpine's is musl): torch has no wheels for it"
        return [problem("libc-musl", text, "docker run -it python:3.12-slim    # a glibc image")]
    return [judge_glibc(name, version)]


def judge_glibc(name: str, version: str) -> Finding:
    if tuple(int(n) for n in version.split(".")[:2]) < OLDEST_GLIBC:
        text = f"{name} {version}: torch 2.10 needs 2.28 or newer"
        return problem("libc-old", text, "docker run -it python:3.12-slim    # or a newer system")
    return ok("libc", f"{name} {version}, {platform.machine()}")


# ---- limits ----


def limits() -> dict[str, int]:
    """Soft limits by name; those that are infinite are left out."""
    names = ("NOFILE", "AS", "FSIZE", "NPROC", "DATA")
    values = {n: resource.getrlimit(getattr(resource, f"RLIMIT_{n}"))[0] for n in names}
    return {n: v for n, v in values.items() if v != resource.RLIM_INFINITY}


def check_limits(m: Machine) -> list[Finding]:
    return judge_limits(limits()) + judge_pids(*_pids()) or [
        ok("limits", "the limits on files, memory and processes are wide enough")
    ]


def judge_limits(limit: dict[str, int]) -> list[Finding]:
    found: list[Finding] = []
    if limit.get("FSIZE", LARGE_ENOUGH) < LARGE_ENOUGH:
        text = f"files may have {limit['FSIZE']} bytes at most: modules are cut short"
        found.append(problem("limit-file-size", text, "ulimit -f unlimited"))
    if limit.get("NOFILE", 256) < 256:
        text = f"a process may open {limit['NOFILE']} files: too few for torch and a compiler"
        found.append(warning("limit-files", text, "ulimit -n 1024"))
    for name, flag in (("AS", "-v"), ("DATA", "-d")):
        if limit.get(name, 4 << 30) < 4 << 30:
            text = (
                f"a process may have {limit[name] >> 20} MiB of address space: importing torch "
                "and compiling may run out"
            )
            found.append(warning("limit-memory", text, f"ulimit {flag} unlimited"))
    return found


def _pids() -> tuple[int, int]:
    """(used, allowed) processes of this container; (0, 0) where there is no limit."""
    try:
        with open("/sys/fs/cgroup/pids.max", encoding="utf-8") as most:
            allowed = most.read().strip()
        with open("/sys/fs/cgroup/pids.current", encoding="utf-8") as now:
            return (0, 0) if allowed == "max" else (int(now.read()), int(allowed))
    except (OSError, ValueError):
        return (0, 0)


def judge_pids(used: int, allowed: int) -> list[Finding]:
    if not allowed or allowed - used >= 16:
        return []
    text = f"{used} of {allowed} processes of this container are in use: a compiler cannot start"
    return [problem("limit-processes", text, "docker update --pids-limit 4096 CONTAINER")]


def check_memory(m: Machine) -> list[Finding]:
    free = available_memory()
    if free is None:
        return []
    if free < 512 << 20:
        text = f"{free >> 20} MiB of memory are free: the compiler may be killed"
        return [warning("memory-low", text, "ps aux --sort=-rss | head    # who has it")]
    return [ok("memory", f"{free / (1 << 30):.1f} GiB of memory are free")]


def available_memory() -> int | None:
    """Bytes that may still be taken: the machine's, or the container's if it has less."""
    try:
        with open("/proc/meminfo", encoding="utf-8") as file:
            lines = dict(line.split(":", 1) for line in file)
        free = int(lines["MemAvailable"].split()[0]) << 10
    except (OSError, ValueError, KeyError):
        return None
    try:
        with open("/sys/fs/cgroup/memory.max", encoding="utf-8") as most:
            allowed = int(most.read())  # "max" is no number
        with open("/sys/fs/cgroup/memory.stat", encoding="utf-8") as file:
            used = dict(line.split() for line in file)
        return min(free, allowed - int(used["anon"]))
    except (OSError, ValueError, KeyError):
        return free


def check_proc(m: Machine) -> list[Finding]:
    return judge_proc("/proc")


def judge_proc(proc: str) -> list[Finding]:
    if os.path.exists(os.path.join(proc, "self", "exe")):
        return [ok("proc", "/proc is there")]
    text = (
        "/proc is not mounted: the command finds its headers only with --include, and torch "
        "guesses the number of CPUs"
    )
    return [warning("proc-missing", text, "mount -t proc proc /proc")]
