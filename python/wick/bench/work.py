"""work -- the calls of a run, measured one after another: rows, and what could not be measured"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from . import asked, compare, inputs, records, rows, words
from .floor import CACHES, Roof
from .inputs import Traffic
from .progress import Progress
from .rows import Effort, Row
from .shapes import Case
from .target import Operator

Sized = tuple[Operator, Case, Traffic]
RAISED = (RuntimeError, MemoryError, TypeError, ValueError)  # by an operator, or of its inputs
AGAIN = 2  # processes that measure what seems to have become slower
Skipped = tuple[str, str, str, str]  # operator, call, device, why
Elsewhere = Callable[[list[str], str], list[Row]]  # calls in words and a device: again.measure
LONG_S = 1.0  # of a call, from which on sizes that nobody has asked for are left out
QUICK = Effort(rounds=7, sample_s=5e-4, row_s=0.8, least=3)


class CannotMeasureError(Exception):
    """Not even a copy."""


def call_words(operator: Operator, case: Case) -> str:
    return f"{operator.name} {case.words()} {' '.join(case.types.values())}".rstrip()


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def expected_s(known: Sequence[tuple[int, float]], moved: int) -> float:
    """Of a call that moves so many bytes, by (bytes, seconds) of smaller ones: they grow on as the last two
    did, and not more slowly than the bytes. 0 where there is no smaller one."""
    if not known or moved <= known[-1][0]:
        return 0.0
    (less, sooner), (bytes_, seconds) = known[-2:] if len(known) > 1 else (known[0], known[0])
    power = math.log(seconds / sooner) / math.log(bytes_ / less) if less < bytes_ else 1.0
    return seconds * (moved / bytes_) ** min(max(power, 1.0), 2.0)


class Work:
    def __init__(
        self, options: argparse.Namespace, progress: Progress, note: Callable[..., None]
    ) -> None:
        self.options, self.progress, self.note = options, progress, note
        self.against = asked.against(options)
        self.caches = CACHES if options.cache == "both" else (options.cache,)
        effort = QUICK if options.quick else Effort()
        rounds = options.rounds or effort.rounds
        self.effort = Effort(rounds, effort.sample_s, effort.row_s, min(effort.least, rounds))
        self.rows: list[Row] = []
        self.measured: list[tuple[Operator, Case, Any]] = []
        self._roofs: dict[str, Roof] = {}
        self._tiny: dict[Any, dict[str, float]] = {}
        self._took: dict[Any, list[tuple[int, float]]] = {}  # by bytes, of sizes that were made up
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
            raise CannotMeasureError(f"the copy cannot be measured: {first_line(error)}") from None
        self._roofs[device.name] = roof
        for i, (operator, case, moves) in enumerate(sizes):
            self.progress.step(i, len(sizes), call_words(operator, case))
            if self._is_long(operator, case, device, moves.moved):
                continue
            self.note(call=f"{call_words(operator, case)} on {device.name}")
            try:
                found = self._measure_call(operator, case, device)
                if found:
                    took = self._took.setdefault(_kind_of(operator, case, device), [])
                    took.append((moves.moved, max(row.best_s for row in found)))
                self.rows += found
                self.measured.append((operator, case, device))
                self._found.append(found)
                self.note(rows=[row.record() for row in found], device={**facts, **roof.facts()})
            except RAISED as error:
                self._skip(operator, case, device, first_line(error))

    def _is_long(self, operator: Operator, case: Case, device: Any, moved: int) -> bool:
        """Whether this is a size that nobody has asked for, at which a call takes too long: such are not
        measured. A naive matrix product takes 64 times as long for 16 times the bytes."""
        if self.options.size or operator.shapes_file is not None:
            return False
        wanted = expected_s(self._took.get(_kind_of(operator, case, device), ()), moved)
        if wanted <= LONG_S:
            return False
        why = f"a call would take about {words.seconds(wanted)}; --size measures it nevertheless"
        self._skip(operator, case, device, why)
        return True

    def _measure_call(self, operator: Operator, case: Case, device: Any) -> list[Row]:
        key = _kind_of(operator, case, device)
        if key not in self._tiny:
            self._tiny[key] = rows.smallest_call(operator, case, device, self.options.seed)
        return rows.measure(
            operator,
            case,
            device,
            self._roofs[device.name],
            self.caches,
            self.against,
            self._tiny[key],
            self.effort,
            self.options.seed,
        )

    def look_again(self, earlier: tuple[dict[str, Any], list[Row]], elsewhere: Elsewhere) -> None:
        """What seems slower than then may have been disturbed, or the process has a bad place for it: others
        measure it again, and the better of its times counts."""
        for _ in range(AGAIN):
            facts = records.machine(self.device_facts, [], "")
            slower = compare.compare(earlier, (facts, self.rows)).of(compare.SLOWER)
            suspects = {id(change.row) for change in slower}
            for device in {d.name: d for _, _, d in self.measured}.values():
                calls = [
                    call_words(operator, case)
                    for found, (operator, case, on) in zip(self._found, self.measured)
                    if on is device and any(id(row) in suspects for row in found)
                ]
                if calls:
                    self._look_again(calls, device, elsewhere)

    def _look_again(self, calls: list[str], device: Any, elsewhere: Elsewhere) -> None:
        first = f"{calls[0]}{', ...' * (len(calls) > 1)}"
        self.progress.step(0, 1, f"{first} again, in another process")
        self.note(call=f"{first} on {device.name}, again")
        device.make_room()
        found = {row.key(): row for row in elsewhere(calls, device.name)}
        for row in self.rows:
            if row.key() in found:
                row.take_better(found[row.key()])

    def _skip(self, operator: Operator, case: Case, device: Any, why: str) -> None:
        self.skipped.append((operator.name, call_words(operator, case), device.name, why))
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
            self._skip(operator, case, device, first_line(error))
            return None
        moves = inputs.traffic_of(operator.parameters, shapes, read, written)
        # out= and torch's result as well
        needed, free = moves.touched + 2 * written, device.free_bytes()
        if needed <= free:
            return moves.declared(operator.declared("bytes", case))
        why = f"it takes {words.binary(needed)} of memory, and {words.binary(free)} are free"
        self._skip(operator, case, device, why)
        return None


def _kind_of(operator: Operator, case: Case, device: Any) -> tuple[Any, ...]:
    """What calls have in common that differ in their sizes alone."""
    return (device.name, operator.namespace, operator.name, tuple(case.types.values()))


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
            raise asked.AskedWronglyError(f"{operator.reference_file}: {error}") from None


def words_of(skipped: Sequence[Skipped]) -> list[str]:
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
