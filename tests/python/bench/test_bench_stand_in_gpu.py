"""`wick bench --device cuda` goes its way without a GPU: see ../stand_in_gpu/sitecustomize.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FILES = [
    str(HERE.parent / "check/faults" / name) for name in ("bend.c", "blend_.c")
]  # one of them in place
SIZES = ("--size", "N=16384", "--size", "N=16")


def bench(*args: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "wick", "bench", *FILES, "--device", "cuda", "--quick"]
    words += ["--types", "f32", "--against", "eager", *SIZES, *args]
    path = os.pathsep.join(
        p for p in (str(HERE.parent / "stand_in_gpu"), os.environ.get("PYTHONPATH")) if p
    )
    return subprocess.run(
        words, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_gpu_is_measured_written_down_and_compared(tmp_path: Path) -> None:
    path = tmp_path / "then.json"
    done = bench("--json", str(path))
    assert done.returncode == 0, done.stderr
    assert "bend, f32, cuda:0" in done.stdout and "Traceback" not in done.stderr
    measured = [row for row in rows(path) if row["record"] == "row"]
    assert len(measured) == 8, "two operators, two sizes, warm and cold"
    assert all({"wick", "eager"} <= set(row["times"]) for row in measured)
    again = bench("--compare", str(path))
    # 2: where others use the machine, rows may be disturbed
    wanted = (0, 1, 2) if "not compared" in again.stdout else (0, 1)
    assert again.returncode in wanted, again.stderr
    assert "Traceback" not in again.stderr
