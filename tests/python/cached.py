"""What the tests of the cache share: a compiler that counts its runs, entries, and small sources.

A Room is a folder with a cache and a compiler; room.run(...) is a process that has just been started and uses them.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from pathlib import Path
from typing import Any

from zygote import Child, Done, Zygote

CC = shutil.which("cc") or "cc"

ONE_TYPE = """\
#include <wick/op.h>
WICK_OP(OP, "x: f32[*N] -> y: f32[*N]");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const float *x, float *y, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        y[i] = x[i] + FACTOR;
    return WICK_OK;
}
"""
"""y = x + FACTOR, for one element type: a build is one run of the compiler."""

CALL = """
for path in args:
    loaded = wick.load(path)
    print(getattr(loaded, loaded.names[0])(torch.zeros(1)).item())
"""
"""Loads every file that it is given and prints what its operator makes of 0."""


def one_type(folder: Path, name: str = "op", factor: object = 1, head: str = "") -> Path:
    path = folder / f"{name}.c"
    path.write_text(head + re.sub(r"\bOP(?=\b|_)", name, ONE_TYPE).replace("FACTOR", str(factor)))
    return path


def same_size_and_time(path: Path, text: str) -> None:
    """Another text in the file, unseen by whoever looks at sizes and clocks."""
    before = path.stat()
    assert len(text.encode()) == before.st_size, "for this the texts must be of one length"
    path.write_text(text)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


class Compiler:
    """cc behind a script that writes down each run; `before` is shell code in front of it."""

    def __init__(self, folder: Path, before: str = "", name: str = "counting-cc") -> None:
        self.path, self.log = folder / name, folder / f"{name}.log"
        self.write(before)

    def write(self, before: str = "") -> None:
        fresh = self.path.with_suffix(".new")
        fresh.write_text(f"#!/bin/sh\necho run >> '{self.log}'\n{before}\nexec {CC} \"$@\"\n")
        fresh.chmod(0o700)
        fresh.rename(self.path)  # a script that is being run stays whole

    @property
    def runs(self) -> int:
        return self.log.read_text().count("run") if self.log.exists() else 0

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return str(self.path)


SEAL = 32
"""Bytes at the end of every sealed entry: a magic word, the length before it, the hash of that."""


def entries(cache: Path, ending: str = "") -> list[Path]:
    return sorted(p for p in (cache / "v1").glob("*" + ending) if p.is_file())


def looks_whole(entry: Path) -> bool:
    data = entry.read_bytes()
    seal = data[-SEAL:]
    return seal[:8] == b"WICKSEAL" and int.from_bytes(seal[8:16], "little") == len(data) - SEAL


def private_mode(path: Path) -> bool:
    return not path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH)


class Room:
    def __init__(self, folder: Path, zygote: Zygote) -> None:
        self.folder, self.zygote = folder, zygote
        self.cache = folder / "the cache"
        self.compiler = Compiler(folder)
        self.temporary = folder / "temporary"  # killed builders and compilers leave things there
        self.temporary.mkdir()

    def _environment(self, environment: dict[str, str | None]) -> dict[str, str | None]:
        return {
            "WICK_CACHE_DIR": str(self.cache),
            "CC": str(self.compiler),
            "TMPDIR": str(self.temporary),
            **environment,
        }

    def start(self, code: str, *args: Any, **environment: Any) -> Child:
        return self.zygote.start(code, *args, folder=self.folder, **self._environment(environment))

    def run(self, code: str, *args: Any, **environment: Any) -> Done:
        return self.zygote.run(code, *args, folder=self.folder, **self._environment(environment))

    def call(self, *paths: Path, **environment: Any) -> list[float]:
        """What the operators of these files make of 0, in a process that has loaded nothing yet."""
        return [float(line) for line in self.run(CALL, *paths, **environment).out.split()]

    def entries(self, ending: str = "") -> list[Path]:
        return entries(self.cache, ending)
