"""run -- the whole of `wick bench`: find, measure, judge, report"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from typing import Any

import torch

from .. import BuildError, _wick
from . import compare, inputs, records, rows, table, target, verdict
from .cuda import Cuda
from .floor import CACHES, Roof
from .host import Host
from .plots import PlotsError
from .progress import Progress
from .rows import Effort, Row
from .shapes import Case, Shapes, ShapesError
from .target import Operator, TargetError

OK, FAILED, WRONG, STOPPED = 0, 1, 2, 130
QUICK = Effort(rounds=7, sample_s=5e-4, row_s=1.0, least=3)


class AskedWronglyError(Exception):
    """What stands on the command line cannot be done."""


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
        found = [
            (op, Case(case.dims, {**types, **case.types}, case.scalars, case.absent))
            for op in operators
            for types in op.types(wanted)
            for case in shapes.cases(op.name, op.parameters)
        ]
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
    def __init__(self, options: argparse.Namespace, progress: Progress) -> None:
        self.options, self.progress = options, progress
        self.asked = tuple(filter(None, (options.against or "").replace(",", " ").split()))
        self.caches = CACHES if options.cache == "both" else (options.cache,)
        effort = QUICK if options.quick else Effort()
        rounds = options.rounds or effort.rounds
        self.effort = Effort(rounds, effort.sample_s, effort.row_s, min(effort.least, rounds))
        self.rows: list[Row] = []
        self.skipped: list[tuple[str, str, str, str]] = []  # operator, call, device, why
        self.stopped = False
        self.device_facts: list[dict[str, Any]] = []

    def measure(self, plan: list[tuple[Operator, Case]], device: Any) -> None:
        roof, before = Roof(device), device.state()
        try:
            self._measure(plan, device, roof)
        finally:
            facts = {**device.facts(), **roof.facts(), "before": before, "after": device.state()}
            self.device_facts.append(facts)

    def _measure(self, plan: list[tuple[Operator, Case]], device: Any, roof: Roof) -> None:
        sizes = [max(1, self._touched(operator, case)) for operator, case in plan]
        roof.measure(sizes, self.caches, self.progress)
        tiny: dict[Any, dict[str, float]] = {}
        for i, (operator, case) in enumerate(plan):
            words = f"{operator.name} {case.words()} {' '.join(case.types.values())}".rstrip()
            self.progress.step(i, len(plan), words)
            try:
                key = (operator.namespace, operator.name, tuple(case.types.values()))
                if key not in tiny:
                    tiny[key] = rows.smallest_call(operator, case, device, self.options.seed)
                self.rows += rows.measure(
                    operator,
                    case,
                    device,
                    roof,
                    self.caches,
                    self.asked,
                    tiny[key],
                    self.effort,
                    self.options.seed,
                )
            except (RuntimeError, MemoryError) as error:
                said = str(error).strip().splitlines() or [type(error).__name__]
                self.skipped.append((operator.name, words, device.name, said[0]))

    def say_skipped(self) -> None:
        """Once for calls of an operator that differ in nothing but numbers."""
        alike: dict[tuple[str, ...], list[tuple[str, str]]] = {}
        for name, words, device, why in self.skipped:
            key = (name, device, re.sub(r"\d+", "#", why))
            alike.setdefault(key, []).append((words, why))
        for (name, device, _), calls in alike.items():
            words, why = calls[0]
            what = words if len(calls) == 1 else f"{name} at {len(calls)} sizes, as {words},"
            print(f"wick bench: skipped {what} on {device}: {why}", file=sys.stderr)

    @staticmethod
    def _touched(operator: Operator, case: Case) -> int:
        try:
            plan = _wick.plan(operator.namespace, operator.name, case.dims, case.types, case.absent)
        except RuntimeError as error:
            raise AskedWronglyError(f"{operator.name} {case.words()}: {error}") from None
        return inputs.touched_bytes(operator.parameters, plan[0], plan[2] + plan[3])


def _check_outputs(options: argparse.Namespace) -> None:
    """Everything that would spoil the end of a long run is found at its beginning."""
    if options.html or options.plots:
        from . import plots

        plots.require()
    for path in filter(None, (options.json, options.html, options.profile)):
        folder = os.path.dirname(path) or "."
        if path != "-" and not os.access(folder, os.W_OK):
            raise AskedWronglyError(f"{path}: {folder} is not a folder that can be written")
    if options.plots:
        os.makedirs(options.plots, exist_ok=True)


def _report(bench: _Bench, facts: dict[str, Any], options: argparse.Namespace) -> None:
    if options.json != "-":
        table.print_rows(facts, bench.rows)
    if options.json:
        records.write(options.json, facts, bench.rows)
    if options.plots:
        from . import plots

        paths = plots.write(options.plots, facts, bench.rows)
        for path in paths:
            print(f"wick bench: wrote {path}", file=sys.stderr)
        if not paths:
            print("wick bench: nothing to draw: no call moves any bytes", file=sys.stderr)
    if options.html:
        from . import page

        page.write(options.html, facts, bench.rows)
        print(f"wick bench: wrote {options.html}", file=sys.stderr)


def bench(options: argparse.Namespace, words: list[str]) -> int:
    """Measures and reports; the exit code."""
    _check_outputs(options)
    earlier = records.read(options.compare) if options.compare else None
    failed: list[str] = []
    operators = target.find(options.operators, options.reference, options.shapes, failed)
    for why in failed:
        print(f"wick bench: {why}", file=sys.stderr)
    if not operators:
        return FAILED
    plan = plan_calls(operators, options, "bench")
    devices = _devices(options.device, options.threads or torch.get_num_threads())
    was_busy = records.busy()
    with Progress("wick bench") as progress:
        work = _Bench(options, progress)
        try:
            for device in devices:
                work.measure(plan, device)
        except KeyboardInterrupt:  # what there is so far is reported
            work.stopped = True
        verdict.judge(work.rows)
        if options.profile and not work.stopped:
            from . import profiling

            progress.say("tracing")
            calls = [(op, case, device) for op, case in plan for device in devices]
            profiling.trace(options.profile, calls, work.asked, options.seed)
    facts = records.machine(work.device_facts, words, was_busy)
    work.say_skipped()
    if not work.rows:
        if work.stopped:
            return STOPPED
        hint = "" if options.size else "; --size, or NAME.shapes.txt beside the source, names sizes"
        print(f"wick bench: nothing was measured{hint}", file=sys.stderr)
        return FAILED
    _report(work, facts, options)
    if work.stopped:
        print("wick bench: stopped before the end", file=sys.stderr)
        return STOPPED
    if options.profile:
        print(f"wick bench: wrote {options.profile}", file=sys.stderr)
    if earlier is None:
        return FAILED if failed else OK
    found = compare.compare(earlier, (facts, work.rows))
    table.print_comparison(
        found, options.compare, sys.stderr if options.json == "-" else sys.stdout
    )
    if not found.changes:
        raise AskedWronglyError(f"--compare {options.compare}: no row of it is in this run")
    return FAILED if found.of(compare.SLOWER) or failed else OK


def main(options: argparse.Namespace, words: list[str]) -> int:
    try:
        return bench(options, words)
    except (AskedWronglyError, records.RecordsError, ShapesError) as error:
        print(f"wick bench: {error}", file=sys.stderr)
        return WRONG
    except (TargetError, BuildError, PlotsError) as error:
        print(f"wick bench: {error}", file=sys.stderr)
        return FAILED
