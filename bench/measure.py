"""measure -- what the benches share: timing in rounds, the table, progress and saved results.

A figure compares two things that were measured in the same run: in every round each contender is
timed once, in an order that changes, and the ratio is the median over the rounds of ours /
theirs. A machine that slows down for a while slows both, and a single disturbed round moves no
median. The quartiles stand beside the ratio: where they lie far apart, the machine was busy, and
the ratio says little.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import gc
import json
import os
import platform
import random
import shlex
import statistics
import subprocess
import sys
import time
import timeit
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

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
    ratio = statistics.median(ratios)
    quartiles = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else [ratio] * 3
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
        spread=(quartiles[0], quartiles[2]),
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


# ---- timing ----


def call_seconds(stmt: str, names: dict[str, Any]) -> Callable[[int], float]:
    """A function: n runs of `stmt`, seconds per run. The names are locals of the loop."""
    setup = "; ".join(f"{name} = _{name}" for name in names) or "pass"
    timer = timeit.Timer(stmt, setup, globals={f"_{name}": value for name, value in names.items()})
    return lambda n: timer.timeit(n) / n


def rounds(
    contenders: dict[str, Callable[[int], float]],
    *,
    n_rounds: int,
    sample_s: float,
    progress: Progress,
) -> dict[str, list[float]]:
    """Seconds per run of every contender in every round; each sample lasts about `sample_s`."""
    counts = {}
    for name, run in contenders.items():
        run(200)  # warm
        counts[name] = max(1, round(sample_s / run(1000)))
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    order = list(contenders)
    for i in range(n_rounds):
        random.shuffle(order)
        for name in order:
            samples[name].append(contenders[name](counts[name]))
        progress.step(i + 1, n_rounds)
    return samples


@contextlib.contextmanager
def quiet_process() -> Iterator[None]:
    """One CPU, no garbage collection: for times of less than a millisecond."""
    cpus = os.sched_getaffinity(0)
    was_collecting = gc.isenabled()
    os.sched_setaffinity(0, {max(cpus)})
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        os.sched_setaffinity(0, cpus)
        if was_collecting:
            gc.enable()


# ---- progress ----


class Progress:
    """Says on stderr what is running: a bar on a terminal that has rich, else plain lines."""

    def __init__(self, what: str) -> None:
        self.what = what
        self._began = self._said = time.monotonic()
        self._bar = None
        if sys.stderr.isatty():
            with contextlib.suppress(ImportError):
                from rich.console import Console
                from rich.progress import Progress as Bar

                self._bar = Bar(console=Console(stderr=True), transient=True)
                self._task = self._bar.add_task(what, total=1.0)

    def __enter__(self) -> Progress:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._bar:
            self._bar.stop()

    def step(self, done: int, total: int, now: str = "") -> None:
        if self._bar:
            self._bar.update(self._task, completed=done / total, description=f"{self.what} {now}")
            return
        if time.monotonic() - self._said > 5:
            self._said = time.monotonic()
            print(f"{self.what}: {done}/{total} {now}", file=sys.stderr, flush=True)

    def say(self, now: str) -> None:
        """Before one long step."""
        if self._bar:
            self._bar.update(self._task, description=f"{self.what} {now}")
        else:
            print(f"{self.what}: {now}", file=sys.stderr, flush=True)


# ---- results ----


def cpu_model() -> str:
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as f:
        for line in f:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def compiler() -> str:
    cc = shlex.split(os.environ.get("CC", "")) or ["cc"]
    with contextlib.suppress(OSError):
        said = subprocess.run([*cc, "--version"], capture_output=True, text=True).stdout
        return said.splitlines()[0] if said else " ".join(cc)
    return "none"


def facts() -> dict[str, Any]:
    """Where and when a result was measured."""
    from importlib.metadata import version

    return {
        "command": shlex.join(
            ["python", os.path.relpath(sys.argv[0], os.path.dirname(HERE)), *sys.argv[1:]]
        ),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "torch": version("torch"),
        "python": platform.python_version(),
        "compiler": compiler(),
        "load": round(os.getloadavg()[0], 2),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    }


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
