"""machine -- the facts that checks look at, each found out once and only when asked for

Every fact is an attribute, so that a check can be tried against a machine that does not exist: set
the attribute.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE = 180
"""Seconds for one process: importing torch from a cold network disk takes long."""


def run(command: Sequence[str], env: Mapping[str, str], **options: Any) -> tuple[int, str, str]:
    """Exit code (127: cannot be run, -9: took too long), stdout, stderr. Does not raise."""
    try:
        done = subprocess.run(
            list(command),
            env=dict(env),
            capture_output=True,
            text=True,
            errors="replace",
            stdin=None if "input" in options else subprocess.DEVNULL,
            timeout=options.pop("timeout", PATIENCE),
            **options,
        )
    except subprocess.TimeoutExpired:
        return -signal.SIGKILL, "", f"no answer in {PATIENCE} seconds"
    except OSError as error:
        return 127, "", f"{command[0]}: {error.strerror}"
    return done.returncode, done.stdout, done.stderr


def numbers(version: str) -> tuple[int, ...]:
    """(2, 10) of "2.10.0+cu130": the first two numbers."""
    return tuple(int(n) for n in re.findall(r"(?:^|\.)(\d+)", version.split("+")[0])[:2])


def first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


class Machine:
    """This machine, as the process with these environment variables sees it."""

    def __init__(self, env: Mapping[str, str] | None = None, package: str | None = None) -> None:
        self.env: dict[str, str] = dict(os.environ if env is None else env)
        self.package = package or os.path.dirname(HERE)
        self.python = sys.executable or "python3"

    # ---- words for remedies ----

    @cached_property
    def pip(self) -> str:
        return f"{self.python} -m pip"

    def install(self, package: str) -> str:
        """How this system installs a package that is called the same everywhere."""
        for tool, words in (
            ("apt-get", "sudo apt install"),
            ("dnf", "sudo dnf install"),
            ("zypper", "sudo zypper install"),
            ("pacman", "sudo pacman -S"),
            ("apk", "sudo apk add"),
        ):
            if shutil.which(tool, path="/usr/bin:/sbin:/usr/sbin:/bin"):
                return f"{words} {package}"
        return f"conda install -c conda-forge {package}"

    def which(self, name: str) -> str | None:
        return shutil.which(name, path=self.env.get("PATH", "/usr/bin:/bin"))

    # ---- the compiler ----

    @cached_property
    def compiler(self) -> list[str] | None:
        """The words a compilation begins with: $CC, else cc, gcc or clang; None: cannot be run."""
        words = self.env.get("CC", "").split()
        if words:
            return words if self.which(words[0]) else None
        return next(([name] for name in ("cc", "gcc", "clang") if self.which(name)), None)

    @cached_property
    def compiler_macros(self) -> dict[str, str]:
        """What the compiler says of itself (__GNUC__, __clang_major__ ...); empty: nothing."""
        if not self.compiler:
            return {}
        command = [*self.compiler, "-dM", "-E", "-x", "c", "-"]
        code, out, _ = run(command, self.env, input="", timeout=30)
        lines = [line.split(None, 2) for line in out.splitlines()] if code == 0 else []
        return {line[1]: line[2] for line in lines if len(line) == 3}

    # ---- what other processes report ----

    def _child(self, *arguments: str) -> dict[str, dict[str, Any]]:
        command = [self.python, os.path.join(HERE, "child.py"), *arguments]
        code, out, err = run(command, self.env)
        steps: dict[str, dict[str, Any]] = {}
        for line in out.splitlines():
            try:
                fact = json.loads(line)
            except ValueError:
                continue
            steps[fact.pop("step")] = fact
        if code < 0 and steps:
            last = steps[next(reversed(steps))]
            if not last:
                name = signal.Signals(-code).name if -code in list(signal.Signals) else str(-code)
                last["error"], last["crash"] = f"the process was ended by {name}", name
                last["said"] = err[-2000:]
        if not steps:
            said = first_line(err) or f"exit code {code}"
            raise RuntimeError(f"{command[0]} does not run: {said}")
        return steps

    @cached_property
    def _torch_child(self) -> dict[str, dict[str, Any]]:
        return self._child("torch", self.package)

    @cached_property
    def _gpu_child(self) -> dict[str, dict[str, Any]]:
        return self._child("gpu")

    @cached_property
    def core(self) -> dict[str, Any]:
        """version; or error. Of the C core alone, which needs no torch."""
        return self._child("core", self.package).get("core", {"error": "the process ended"})

    @cached_property
    def torch(self) -> dict[str, Any]:
        """version, file, cuda, architectures, available, threads, libstdcxx; or error."""
        return self._torch_child.get("torch", {"error": "the process ended before torch was tried"})

    @cached_property
    def wick(self) -> dict[str, Any]:
        """version, file, mode; or error; empty when torch does not import."""
        return self._torch_child.get("package", {})

    @cached_property
    def built(self) -> dict[str, Any]:
        """seconds; or error; empty when wick does not import."""
        return self._torch_child.get("build", {})

    @cached_property
    def driver(self) -> dict[str, Any]:
        """cuda (what the driver supports); or error where there is none."""
        return self._gpu_child.get("driver", {"error": "the process ended"})

    @cached_property
    def devices(self) -> dict[str, Any]:
        """status, driver, devices; or error where there is no NVML."""
        return self._gpu_child.get("devices", {"error": "the process ended"})

    @cached_property
    def pci_gpu(self) -> bool:
        """An NVIDIA graphics device is on the PCI bus, with or without a driver."""
        folder = "/sys/bus/pci/devices"
        for device in os.listdir(folder) if os.path.isdir(folder) else []:
            try:
                with open(f"{folder}/{device}/vendor") as file:
                    vendor = file.read().strip()
                with open(f"{folder}/{device}/class") as file:
                    if vendor == "0x10de" and file.read().startswith("0x03"):
                        return True
            except OSError:
                continue
        return False

    # ---- the command ----

    @cached_property
    def commands(self) -> list[str]:
        """Every `wick` on the PATH, links followed, in order."""
        folders = self.env.get("PATH", "").split(os.pathsep)
        found = [os.path.realpath(p) for f in folders if f and (p := shutil.which("wick", path=f))]
        return list(dict.fromkeys(found))

    @cached_property
    def command(self) -> str | None:
        """This installation's: $WICK_CLI, the one beside this Python, or the first on the PATH."""
        given = self.env.get("WICK_CLI") or shutil.which("wick", path=os.path.dirname(self.python))
        return os.path.realpath(given) if given else next(iter(self.commands), None)

    # ---- folders ----

    @cached_property
    def tmp(self) -> str:
        return self.env.get("TMPDIR") or "/tmp"

    @cached_property
    def cache(self) -> str | None:
        """The folder of the cache as src/build/cache.c finds it."""
        if self.env.get("WICK_CACHE_DIR"):
            return self.env["WICK_CACHE_DIR"]
        if self.env.get("XDG_CACHE_HOME"):
            return os.path.join(self.env["XDG_CACHE_HOME"], "wick")
        home = self.env.get("HOME") or os.path.expanduser("~")
        return os.path.join(home, ".cache", "wick") if home and home != "~" else None

    @cached_property
    def cpus(self) -> int:
        """CPUs this process may use: its affinity, and a container's quota."""
        n = (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )
        try:
            with open("/sys/fs/cgroup/cpu.max", encoding="utf-8") as file:
                quota, period = file.read().split()
            return n if quota == "max" else max(1, min(n, round(int(quota) / int(period))))
        except (OSError, ValueError):
            return n
