"""run -- the whole of `wick bench`: find, measure, judge, report"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Sequence
from typing import Any, TextIO

import torch

from .. import BuildError
from . import again, asked, compare, records, table, target, verdict
from .asked import AskedWronglyError
from .plots import PlotsError
from .progress import Progress
from .rows import Row
from .shapes import FORMULAS, ShapesError
from .target import TargetError
from .work import CannotMeasureError, Work, words_of

OK, SLOWER, WRONG, STOPPED = 0, 1, 2, 130
STOPPED_EARLY = "stopped before the end"


def _say(notes: Sequence[str]) -> None:
    for note in notes:
        print(f"wick bench: {note}", file=sys.stderr)


def _report(found: list[Row], facts: dict[str, Any], options: argparse.Namespace) -> None:
    try:  # first: whoever reads the table may have gone
        if options.json:
            records.write(options.json, facts, found)
    finally:
        if options.json != "-":
            table.print_rows(facts, found)
    if options.plots:
        from . import plots

        paths = plots.write(options.plots, facts, found)
        for path in paths:
            print(f"wick bench: wrote {path}", file=sys.stderr)
        if not paths:
            print("wick bench: nothing to draw: no call moves any bytes", file=sys.stderr)
    if options.html:
        from . import page

        page.write(options.html, facts, found)
        print(f"wick bench: wrote {options.html}", file=sys.stderr)


def _nowhere(found: Sequence[Row], names: Sequence[str]) -> bool:
    """Whether one that was asked for by name could be measured in no row. Below the table stands why."""
    return any(all(name in row.missing for row in found) for name in names)


def bench(options: argparse.Namespace, words: list[str], note: Callable[..., None]) -> int:
    """Measures and reports; the exit code. `note` is told what is being done, and what was found."""
    out = sys.stdout
    with contextlib.redirect_stdout(sys.stderr if options.json == "-" else out):
        return _bench(options, words, note, out)  # what references print is no JSON


def _bench(
    options: argparse.Namespace, words: list[str], note: Callable[..., None], out: TextIO
) -> int:
    asked.check_outputs(options)
    earlier = records.read(options.compare) if options.compare else None
    failed: list[str] = []
    operators = target.find(options.operators, options.reference, options.shapes, failed)
    for why in failed:
        print(f"wick bench: {why}", file=sys.stderr)
    if not operators:
        return WRONG
    plan = asked.plan_calls(operators, options, "bench")
    asked.check_contenders(operators, asked.against(options))
    for operator, case in plan:
        for what in FORMULAS:
            operator.declared(what, case)  # a formula that is wrong is told before anything runs
    devices = asked.devices(options.device, options.threads or torch.get_num_threads())
    others = records.Others()
    with Progress("wick bench") as progress:
        work = Work(options, progress, note)
        try:
            for device in devices:
                work.measure(plan, device)
            if earlier is not None:
                work.look_again(earlier, lambda *what: again.measure(words, *what))
        except KeyboardInterrupt:  # what there is so far is reported
            work.stopped = True
            note(stopping=True)
        verdict.judge(work.rows)
    notes = words_of(work.skipped)
    _say(notes)
    if work.stopped:
        notes.append(STOPPED_EARLY)
    facts = records.machine(work.device_facts, words, others.words(), notes)
    if not work.rows:
        if work.stopped:
            print("wick bench: stopped before anything was measured", file=sys.stderr)
            return STOPPED
        hint = "" if options.size else "; --size, or NAME.shapes.txt beside the source, names sizes"
        print(f"wick bench: nothing was measured{hint}", file=sys.stderr)
        return WRONG
    with contextlib.redirect_stdout(out):
        _report(work.rows, facts, options)
    note(reported=True)
    if work.stopped:
        _say([STOPPED_EARLY])
        return STOPPED
    if options.profile:
        from . import profiling

        print("wick bench: tracing", file=sys.stderr)
        note(call="the trace")
        profiling.trace(options.profile, work.measured, work.against, options.seed)
        print(f"wick bench: wrote {options.profile}", file=sys.stderr)
    whole = WRONG if failed or _nowhere(work.rows, work.against) else OK
    if earlier is None:
        return whole
    found = compare.compare(earlier, (facts, work.rows))
    if found.changes and not found.is_possible and not found.of(compare.SLOWER):
        raise AskedWronglyError(
            f"--compare {options.compare}: cannot compare: the machine takes {found.drift:.2f} x as "
            f"long as then, by {found.drift_by}{found.elsewhere and f'; {found.elsewhere}'}"
        )
    table.print_comparison(
        found, options.compare, sys.stderr if options.json == "-" else sys.stdout
    )
    if not found.changes:
        raise AskedWronglyError(f"--compare {options.compare}: no row of it is in this run")
    if found.of(compare.SLOWER):
        return SLOWER
    return WRONG if found.of(compare.DISTURBED) else whole


def report_the_end(
    options: argparse.Namespace, words: list[str], notes: Sequence[dict[str, Any]], end: str
) -> int:
    """Of a process that did not end as it should: what it had found, and `end`, what it was at and how it
    ended."""
    found = [Row.from_record(r) for note in notes for r in note.get("rows", ())]
    devices = {note["device"]["device"]: note["device"] for note in notes if "device" in note}
    if not any("reported" in note for note in notes):
        skipped = words_of([note["skipped"] for note in notes if "skipped" in note])
        _say(skipped)
        if found:
            verdict.judge(found)
            about = records.machine(devices.values(), words, records.busy(), [*skipped, end])
            _report(found, about, options)
    sys.stdout.flush()
    _say([end])
    return WRONG


def _no_note(**what: Any) -> None:
    """Nobody waits."""


def main(options: argparse.Namespace, words: list[str], notes: Any = None) -> int:
    try:
        return bench(options, words, notes.write if notes else _no_note)
    except BrokenPipeError:
        raise
    except OSError as error:  # a disk that is full by now
        print(f"wick bench: {error.filename or 'output'}: {error.strerror}", file=sys.stderr)
        return WRONG
    except (
        AskedWronglyError,
        BuildError,
        CannotMeasureError,
        PlotsError,
        ShapesError,
        TargetError,
        records.RecordsError,
    ) as error:
        print(f"wick bench: {error}", file=sys.stderr)
        return WRONG
