"""measure -- what the benches share besides wick.bench's timing: comparisons, the table, saved results.

A figure compares two things that were measured in the same run (wick/bench/timing.py), and the ratio is
the median over the rounds of ours / theirs. The quartiles stand beside the ratio: where they lie far
apart, the machine was busy, and the ratio says little.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import sys
from dataclasses import asdict, dataclass
from typing import Any

import torch

from wick.bench import records
from wick.bench.progress import Progress
from wick.bench.records import compiler
from wick.bench.timing import call_seconds, quartiles, quiet_process, rounds

__all__ = [
    "HERE",
    "Progress",
    "Row",
    "arguments",
    "call_seconds",
    "compare",
    "compiler",
    "facts",
    "limit",
    "missing",
    "print_table",
    "quiet_process",
    "rounds",
    "save",
]

HERE = os.path.dirname(os.path.abspath(__file__))


@dataclass
class Row:
    """One comparison. Times are in `unit`; None: not measured, and `note` says why."""

    what: str
    ours: float | None
    against: str
    theirs: float | None
    ratio: float | None
    target: str = ""  # as printed; "" when the row only informs
    met: bool | None = None
    unit: str = "us"
    note: str = ""
    spread: tuple[float, float] | None = None  # the ratio's quartiles over the rounds


def compare(
    what: str,
    ours: list[float],
    against: str,
    theirs: list[float],
    *,
    at_most: float | None = None,
    unit: str = "us",
) -> Row:
    """A row from the samples of two contenders; `at_most`: the largest ratio that is OK."""
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    first, ratio, third = quartiles(ratios)
    target = "" if at_most is None else f"<= {at_most:g} x"
    met = None if at_most is None else ratio <= at_most
    return Row(
        what,
        statistics.median(ours),
        against,
        statistics.median(theirs),
        ratio,
        target,
        met,
        unit,
        spread=(first, third),
    )


def limit(what: str, ours: list[float], at_most: float, unit: str = "us") -> Row:
    """A row whose target is a time."""
    median = statistics.median(ours)
    return Row(what, median, "", None, None, f"<= {at_most:g} {unit}", median <= at_most, unit)


def missing(
    what: str, ours: list[float], against: str, note: str, target: str = "", unit: str = "us"
) -> Row:
    """A row whose other side could not be measured."""
    return Row(what, statistics.median(ours), against, None, None, target, None, unit, note)


# ---- results ----


def facts() -> dict[str, Any]:
    """Where and when a result was measured, and by which command."""
    script = os.path.relpath(sys.argv[0], os.path.dirname(HERE))
    about = {"command": shlex.join(["python", script, *sys.argv[1:]]), **records.facts()}
    if torch.cuda.is_available():
        about["gpu"] = torch.cuda.get_device_name()
    return about


def _time(value: float | None, unit: str) -> str:
    return "" if value is None else f"{value:.3f} {unit}"


def _ratio(ratio: float) -> str:
    return f"{ratio:.2f} x" if ratio >= 0.1 else f"{ratio:.4f} x"


def _verdict(row: Row) -> str:
    if row.met is not None:
        return "OK" if row.met else "MISSED"
    return row.note


def print_table(title: str, rows: list[Row]) -> None:
    head = ("figure", "wick", "against", "its time", "ratio", "quartiles", "target", "")
    cells = [head] + [
        (
            row.what,
            _time(row.ours, row.unit),
            row.against,
            _time(row.theirs, row.unit),
            "" if row.ratio is None else _ratio(row.ratio),
            "" if row.spread is None else f"{row.spread[0]:.2f}-{row.spread[1]:.2f}",
            row.target,
            _verdict(row),
        )
        for row in rows
    ]
    widths = [max(len(line[i]) for line in cells) for i in range(len(head))]
    numbers = (1, 3, 4)
    print(f"\n{title}")
    for n, line in enumerate(cells):
        text = [
            c.rjust(widths[i]) if i in numbers else c.ljust(widths[i]) for i, c in enumerate(line)
        ]
        print("  ".join(text).rstrip())
        if n == 0:
            print("  ".join("-" * w for w in widths[:-1]))
    sys.stdout.flush()


def save(name: str, rows: list[Row]) -> None:
    """bench/results/NAME.jsonl: the rows of this run, each with where it was measured."""
    path = os.path.join(HERE, "results", f"{name}.jsonl")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    about, figure = facts(), ""
    with open(path, "w") as f:
        for row in rows:
            if not row.what.startswith(" "):
                figure = row.what or figure  # in the table a figure's further rows leave it out
            what = figure + (f", {row.what.strip()}" if row.what.startswith(" ") else "")
            f.write(json.dumps({"bench": name, **asdict(row), "what": what, **about}) + "\n")
    print(f"saved {os.path.relpath(path)}")


def arguments(what: str) -> argparse.ArgumentParser:
    """The options that every bench has."""
    parser = argparse.ArgumentParser(
        description=what, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--peers", action="store_true", help="also measure what is installed of the peers (minutes)"
    )
    parser.add_argument("--save", action="store_true", help="write bench/results/NAME.jsonl")
    return parser
