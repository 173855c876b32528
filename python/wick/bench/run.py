"""run -- the whole of `wick bench`: find, measure, judge, report"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any, TextIO

import torch

from .. import BuildError
from . import compare, contenders, inputs, records, rows, table, target, verdict, words
from .cuda import Cuda
from .floor import CACHES, Roof
from .host import Host
from .inputs import Traffic
from .plots import PlotsError
from .progress import Progress
from .rows import Effort, Row
from .shapes import FORMULAS, Case, Shapes, ShapesError
from .target import Operator, TargetError

OK, SLOWER, WRONG, STOPPED = 0, 1, 2, 130
Sized = tuple[Operator, Case, Traffic]
RAISED = (RuntimeError, MemoryError, TypeError, ValueError)  # by an operator, or of its inputs
STOPPED_EARLY = "stopped before the end"
AGAIN = 2  # times that what seems to have become slower is measured once more
Skipped = tuple[str, str, str, str]  # operator, call, device, why
QUICK = Effort(rounds=7, sample_s=5e-4, row_s=0.8, least=3)


class AskedWronglyError(Exception):
    """What stands on the command line cannot be done."""


class CannotMeasureError(Exception):
    """Not even a copy."""


def _devices(wanted: str | None, threads: int) -> list[Any]:
    names = [wanted] if wanted else ["cpu"] + ["cuda"] * torch.cuda.is_available()
    found: list[Any] = []
    for name in names:
        if name.startswith("cuda"):
            if not torch.cuda.is_available():
                raise AskedWronglyError(f"--device {name}: torch sees no GPU here")
            found.append(Cuda(name))
        elif name == "cpu":
            found.append(Host(threads))
        else:
            raise AskedWronglyError(f"--device {name}: expected cpu, cuda or cuda:N")
    return found


def _wanted(options: argparse.Namespace) -> tuple[str, ...]:
    return tuple(options.types.replace(",", " ").split()) if options.types else ()


def _asked(options: argparse.Namespace) -> tuple[str, ...]:
    return tuple((options.against or "").replace(",", " ").split())


def plan_calls(
    operators: Sequence[Operator], options: argparse.Namespace, verb: str
) -> list[tuple[Operator, Case]]:
    """The calls: from --size, from the files of sizes, or from the signatures. Says which operators
    have none."""
    wanted = _wanted(options)
    if not options.size:
        found = [(op, case) for op in operators for case in op.cases(wanted)]
    else:
        shapes = Shapes("\n".join(options.size), "--size")
        shapes.check({op.name: op.parameters for op in operators})
        for op in operators:
            op.given = shapes
        found = [
            (op, Case(case.dims, {**types, **case.types}, case.scalars, case.absent))
            for op in operators
            for types in op.types(wanted)
            for case in shapes.cases(op.name, op.parameters)
        ]
        found = [call for i, call in enumerate(found) if call not in found[:i]]
    planned = {id(op) for op, _ in found}
    left_out = [_why_not(op, options) for op in operators if id(op) not in planned]
    if left_out and not found:
        raise AskedWronglyError("; ".join(left_out))
    for why in left_out:
        print(f"wick {verb}: not measured: {why}", file=sys.stderr)
    return found


def _why_not(operator: Operator, options: argparse.Namespace) -> str:
    """Of an operator without a call to measure."""
    if not operator.types(_wanted(options)):
        variable, listed = operator.parameters["variables"][0]
        return f"--types {options.types}: {operator.name}'s {variable} is {' '.join(listed)}"
    where = (
        "--size" if options.size else operator.shapes_file and os.path.relpath(operator.shapes_file)
    )
    dims = ", ".join(dim for dim, _ in operator.parameters["dims"])
    return f"{where or 'sizes'}: {operator.name} needs {dims}"


class _Bench:
    def __init__(
        self, options: argparse.Namespace, progress: Progress, note: Callable[..., None]
    ) -> None:
        self.options, self.progress, self.note = options, progress, note
        self.asked = _asked(options)
        self.caches = CACHES if options.cache == "both" else (options.cache,)
        effort = QUICK if options.quick else Effort()
        rounds = options.rounds or effort.rounds
        self.effort = Effort(rounds, effort.sample_s, effort.row_s, min(effort.least, rounds))
        self.rows: list[Row] = []
        self.measured: list[tuple[Operator, Case, Any]] = []
        self._roofs: dict[str, Roof] = {}
        self._tiny: dict[Any, dict[str, float]] = {}
        self._found: list[list[Row]] = []  # rows, of each that was measured
        self.skipped: list[Skipped] = []
        self.stopped = False
        self.device_facts: list[dict[str, Any]] = []

    def measure(self, plan: list[tuple[Operator, Case]], device: Any) -> None:
        roof, before = Roof(device), device.state()
        facts = {**device.facts(), "before": before}
        try:
            self._measure(plan, device, roof, facts)
        finally:
            self.device_facts.append({**facts, **roof.facts(), "after": device.state()})

    def _measure(
        self, plan: list[tuple[Operator, Case]], device: Any, roof: Roof, facts: dict[str, Any]
    ) -> None:
        sizes = [(op, case, moves) for op, case in plan if (moves := self._fits(op, case, device))]
        if not sizes:
            return
        _try_inputs(sizes, device, self.options.seed)
        try:
            roof.measure([moves for _, _, moves in sizes], self.caches, self.progress)
        except (RuntimeError, MemoryError) as error:
            raise CannotMeasureError(f"the copy cannot be measured: {_first_line(error)}") from None
        self._roofs[device.name] = roof
        for i, (operator, case, _) in enumerate(sizes):
            self.progress.step(i, len(sizes), _call_words(operator, case))
            self.note(call=f"{_call_words(operator, case)} on {device.name}")
            try:
                found = self._measure_call(operator, case, device)
                self.rows += found
                self.measured.append((operator, case, device))
                self._found.append(found)
                self.note(rows=[row.record() for row in found], device={**facts, **roof.facts()})
            except RAISED as error:
                self._skip(operator, case, device, _first_line(error))

    def _measure_call(self, operator: Operator, case: Case, device: Any) -> list[Row]:
        key = (device.name, operator.namespace, operator.name, tuple(case.types.values()))
        if key not in self._tiny:
            self._tiny[key] = rows.smallest_call(operator, case, device, self.options.seed)
        return rows.measure(
            operator,
            case,
            device,
            self._roofs[device.name],
            self.caches,
            self.asked,
            self._tiny[key],
            self.effort,
            self.options.seed,
        )

    def look_again(self, earlier: tuple[dict[str, Any], list[Row]]) -> None:
        """What seems slower than then may have been disturbed: it is measured again, and the better of its
        times counts."""
        for _ in range(AGAIN):
            facts = records.machine(self.device_facts, [], "")
            slower = compare.compare(earlier, (facts, self.rows)).of(compare.SLOWER)
            suspects = {id(change.row) for change in slower}
            for i, (operator, case, device) in enumerate(self.measured):
                if not any(id(row) in suspects for row in self._found[i]):
                    continue
                words_ = _call_words(operator, case)
                self.progress.step(i, len(self.measured), f"{words_}, again")
                self.note(call=f"{words_} on {device.name}")
                with contextlib.suppress(*RAISED):  # it is known how it was before
                    again = self._measure_call(operator, case, device)
                    for row, other in zip(self._found[i], again):
                        row.take_better(other)

    def _skip(self, operator: Operator, case: Case, device: Any, why: str) -> None:
        self.skipped.append((operator.name, _call_words(operator, case), device.name, why))
        self.note(skipped=self.skipped[-1])

    def _fits(self, operator: Operator, case: Case, device: Any) -> Traffic | None:
        """What a call moves; None for one that is skipped, being larger than the memory there is. (The
        system grants more than it has, and ends the process that uses it.)"""
        try:
            shapes, _, read, written = inputs.plan(
                operator.namespace, operator.name, operator.parameters, case
            )
        except OverflowError:
            self._skip(operator, case, device, "a size does not fit into 63 bits")
            return None
        except (RuntimeError, ValueError) as error:
            self._skip(operator, case, device, _first_line(error))
            return None
        moves = inputs.traffic_of(operator.parameters, shapes, read, written)
        # out= and torch's result as well
        needed, free = moves.touched + 2 * written, device.free_bytes()
        if needed <= free:
            return moves.declared(operator.declared("bytes", case))
        why = f"it takes {words.binary(needed)} of memory, and {words.binary(free)} are free"
        self._skip(operator, case, device, why)
        return None


def _words_of(skipped: Sequence[Skipped]) -> list[str]:
    """Once for calls of an operator that differ in nothing but numbers."""
    alike: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for name, call, device, why in skipped:
        key = (name, device, re.sub(r"\d+", "#", why))
        alike.setdefault(key, []).append((call, why))
    found = []
    for (name, device, _), calls in alike.items():
        call, why = calls[0]
        what = call if len(calls) == 1 else f"{name} at {len(calls)} sizes, as {call},"
        found.append(f"skipped {what} on {device}: {why}")
    return found


def _say(notes: Sequence[str]) -> None:
    for note in notes:
        print(f"wick bench: {note}", file=sys.stderr)


def _call_words(operator: Operator, case: Case) -> str:
    return f"{operator.name} {case.words()} {' '.join(case.types.values())}".rstrip()


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _check_contenders(operators: Sequence[Operator], asked: Sequence[str]) -> None:
    """Of several operators one will do that has it."""
    known = dict.fromkeys((*contenders.OTHERS, *(n for op in operators for n in op.baselines())))
    for name in asked:
        if name not in known and name not in contenders.OURS:
            raise AskedWronglyError(
                f"--against {name}: there are {', '.join(known)}; a function "
                f"{operators[0].name}_baseline_{name} in the reference's file would be another"
            )


def _try_to_write(path: str) -> None:
    """Leaves no trace. What is no plain file (a pipe, /dev/null) is not opened: who reads from it would
    take the end of this for the end of everything."""
    is_new = not os.path.lexists(path)
    if is_new or os.path.isfile(path) or os.path.isdir(path):
        with open(path, "a"):
            pass
    if is_new:
        os.remove(path)


def _check_apart(options: argparse.Namespace) -> None:
    """Each output has a file of its own; the table and JSON alone may go to where commands print."""
    given: dict[str, str] = {}
    for name in ("json", "html", "profile"):
        path = getattr(options, name)
        if path == "-" and name != "json":
            raise AskedWronglyError(f"--{name} -: expected the name of a file")
        if path and path != "-":
            other = given.setdefault(os.path.realpath(path), name)
            if other != name and (os.path.isfile(path) or not os.path.exists(path)):
                raise AskedWronglyError(f"--{name} {path}: --{other} is written there")


def _check_outputs(options: argparse.Namespace) -> None:
    """Everything that would spoil the end of a long run is found at its beginning."""
    if options.html or options.plots:
        from . import plots

        plots.require()
    _check_apart(options)
    trace = options.profile
    if trace and os.path.exists(trace) and not os.path.isfile(trace):
        raise AskedWronglyError(f"--profile {trace}: torch writes a trace to plain files alone")
    try:
        for path in (options.json, options.html, options.profile):
            if path and path != "-":
                _try_to_write(path)
        if options.plots:
            os.makedirs(options.plots, exist_ok=True)
            _try_to_write(os.path.join(options.plots, ".wick"))
    except OSError as error:
        raise AskedWronglyError(f"{error.filename}: cannot be written: {error.strerror}") from None


def _try_inputs(sizes: Sequence[Sized], device: Any, seed: int) -> None:
    """Calls each NAME_inputs once, for the smallest of its sizes: one that is wrong is told before
    anything is measured."""
    tried: set[int] = set()
    for operator, case, _ in sorted(sizes, key=lambda size: size[2].moved):
        if operator.inputs() is None or id(operator) in tried:
            continue
        tried.add(id(operator))
        try:
            rows.make_call(operator, case, device, seed)
        except inputs.InputsError as error:
            raise AskedWronglyError(f"{operator.reference_file}: {error}") from None


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


def _nowhere(found: Sequence[Row], asked: Sequence[str]) -> bool:
    """Whether one that was asked for by name could be measured in no row. Below the table stands why."""
    return any(all(name in row.missing for row in found) for name in asked)


def bench(options: argparse.Namespace, words: list[str], note: Callable[..., None]) -> int:
    """Measures and reports; the exit code. `note` is told what is being done, and what was found."""
    out = sys.stdout
    with contextlib.redirect_stdout(sys.stderr if options.json == "-" else out):
        return _bench(options, words, note, out)  # what references print is no JSON


def _bench(
    options: argparse.Namespace, words: list[str], note: Callable[..., None], out: TextIO
) -> int:
    _check_outputs(options)
    earlier = records.read(options.compare) if options.compare else None
    failed: list[str] = []
    operators = target.find(options.operators, options.reference, options.shapes, failed)
    for why in failed:
        print(f"wick bench: {why}", file=sys.stderr)
    if not operators:
        return WRONG
    plan = plan_calls(operators, options, "bench")
    _check_contenders(operators, _asked(options))
    for operator, case in plan:
        for what in FORMULAS:
            operator.declared(what, case)  # a formula that is wrong is told before anything runs
    devices = _devices(options.device, options.threads or torch.get_num_threads())
    others = records.Others()
    with Progress("wick bench") as progress:
        work = _Bench(options, progress, note)
        try:
            for device in devices:
                work.measure(plan, device)
            if earlier is not None:
                work.look_again(earlier)
        except KeyboardInterrupt:  # what there is so far is reported
            work.stopped = True
        verdict.judge(work.rows)
    notes = _words_of(work.skipped)
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
        profiling.trace(options.profile, work.measured, work.asked, options.seed)
        print(f"wick bench: wrote {options.profile}", file=sys.stderr)
    whole = WRONG if failed or _nowhere(work.rows, work.asked) else OK
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
    return whole


def report_the_end(
    options: argparse.Namespace, words: list[str], notes: Sequence[dict[str, Any]], code: int
) -> int:
    """Of a process that did not end as it should: what it was at, and what it had found. `code` is its
    exit code, or the signal that ended it, below 0."""
    found = [Row.from_record(r) for note in notes for r in note.get("rows", ())]
    devices = {note["device"]["device"]: note["device"] for note in notes if "device" in note}
    how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    what = next((note["call"] for note in reversed(notes) if "call" in note), "what was loaded")
    end = f"{what} ended the process ({how})"
    if not any("reported" in note for note in notes):
        skipped = _words_of([note["skipped"] for note in notes if "skipped" in note])
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
