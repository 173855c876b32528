"""What the tests share: operators made from C text, and Python code run in a process of its own.

In an operator's text, OP stands for its name. Every operator that is made gets a name that nothing else in the process
has, because two files that define one operator are an error.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import wick

HEAD = "#include <wick/op.h>\n"
"""Line 1 of every source that is written here; the text begins at line 2."""

ADD = """\
WICK_OP(OP, "x: T[*N], by: float = 1.0 -> y: T[*N] where T: f16 bf16 f32 f64");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const T *x, double by, T *y, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        y[i] = wick_T(wick_A(x[i]) + (A)by);
    return WICK_OK;
}
"""
"""y = x + by: what a test takes when any operator will do."""

ADD_IN_PLACE = """\
WICK_OP(OP, "x!: f32[*N], by: float = 1.0 -> ()");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, float *x, double by, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        x[i] += (float)by;
    return WICK_OK;
}
"""

_numbers = itertools.count()


def fresh(stem: str = "op") -> str:
    """A name that no operator of this process has."""
    return f"{stem}_{next(_numbers)}"


def spell(text: str, name: str) -> str:
    """The complete source of an operator's text."""
    return HEAD + re.sub(r"\bOP(?=\b|_)", name, text)


def write(folder: Path, text: str, name: str) -> Path:
    path = folder / f"{name}.c"
    path.write_text(spell(text, name))
    return path


@dataclass
class Made:
    """An operator that was made from text, and the doors by which it is called."""

    name: str
    path: Path
    loaded: wick.Loaded
    namespace: str = "local"

    @property
    def direct(self) -> Any:
        return getattr(self.loaded, self.name)

    @property
    def torch(self) -> Any:
        return getattr(getattr(torch.ops, self.namespace), self.name)

    @property
    def wick(self) -> Any:
        return getattr(getattr(wick.ops, self.namespace), self.name)

    def by(self, door: str) -> Any:
        return getattr(self, door)


def command() -> str:
    """The `wick` command: beside this Python, else the one on the path."""
    beside = str(Path(sys.executable).parent)
    found = shutil.which("wick", path=beside) or shutil.which("wick")
    assert found, f"the wick command is neither in {beside} nor on the path"
    return found


def build_module(path: Path, *sources: Path) -> Path:
    """A module made by `wick build`."""
    include = Path(wick.__file__).parent / "include"
    subprocess.run(
        [
            command(),
            "build",
            "--native",
            "--include",
            str(include),
            "-o",
            str(path),
            *map(str, sources),
        ],
        check=True,
        capture_output=True,
        timeout=120,
    )
    return path


def run_python(code: str, *arguments: str, **environment: str) -> str:
    """Runs code in a fresh process and returns what it printed; what it failed with is the message."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
