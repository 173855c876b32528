"""wick tune: measures the launch choices that operators leave open, and keeps the better ones.

An operator lists its choices, WICK_TUNE(my_op, "threads: 128 256 512, rows: 1 2 4"), and has a rule
of its own for what to take. Here every combination is timed beside that rule, for each choice of
types and each class of sizes that the operator's file of sizes has. One that is clearly better than
the rule is written down for this device and used from the next call on; wherever none is, the rule
stays. docs/cuda.md has the rest.
"""

from __future__ import annotations

import argparse
import glob
import itertools
import math
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TextIO

import torch

from . import BuildError, _wick
from .bench import contenders, inputs, target, timing, words
from .bench.asked import AskedWronglyError, plan_calls
from .bench.progress import Progress
from .bench.run import OK, STOPPED, WRONG
from .bench.shapes import Case, ShapesError
from .bench.target import Operator, TargetError
from .bench.timing import Run

GAIN = 0.02
"""What a choice has to save, as a share of the rule's time: less is not worth a line."""
RULE = "rule"
FAILED = 1
"""The exit code where there is no GPU, or nothing to choose."""


class Device(Protocol):
    """What times calls: bench.cuda.Cuda, or a test's own."""

    name: str

    def learn(self, call: Callable[[], Any]) -> None: ...
    def warm(
        self, stmt: str, names: Mapping[str, Any], reset: Callable[[], None] | None = None
    ) -> Run: ...
    def cold(
        self, stmt: str, names: Mapping[str, Any], reset: Callable[[], None] | None = None
    ) -> Run: ...


@dataclass(frozen=True)
class Effort:
    """The first round is for all, the second for those that did best in it."""

    first_rounds: int = 5
    rounds: int = 21
    finalists: int = 3
    sample_s: float = 2e-3
    cache: str = "cold"


# ---- the choices ----


@dataclass(frozen=True)
class Choices:
    """Of one operator: knobs in their places, those of other operators without values."""

    operator: Operator
    text: str
    knobs: list[tuple[str, list[int]]]

    def combinations(self) -> list[tuple[int, ...]]:
        return list(itertools.product(*(values or [0] for _, values in self.knobs)))

    def words(self, values: Sequence[int]) -> str:
        """threads=128 rows=4"""
        own = [f"{name}={value}" for (name, listed), value in zip(self.knobs, values) if listed]
        return " ".join(own)

    def force(self, values: Sequence[int] | None) -> None:
        _wick.tune_force(self.operator.namespace, self.operator.name, values)

    def key(self, case: Case) -> str:
        """What calls like this one have in common: types, and the class of each size."""
        parameters = self.operator.parameters
        types = [case.types[name] for name, _ in parameters["variables"]]
        sizes = [case.dims[dim] for dim, _ in parameters["dims"]]
        numbers = [n if isinstance(n, int) else math.prod(n) for n in sizes]
        return _wick.tune_key(self.operator.namespace, self.operator.name, types, numbers)


def choices_of(operator: Operator) -> Choices | None:
    found = _wick.tune_choices(operator.namespace, operator.name)
    return Choices(operator, *found) if found else None


# ---- measuring ----


@dataclass
class Outcome:
    """One call: the rule's time and the best choice's."""

    choices: Choices
    case: Case
    rule_s: float
    best: tuple[int, ...] | None = None  # None: none could be run
    best_s: float = math.inf
    kept: bool = False
    refused: dict[str, str] = field(default_factory=dict)  # choice: why it is none

    @property
    def gain(self) -> float:
        return 1 - self.best_s / self.rule_s if self.best else 0.0


def _copies(results: Any) -> list[torch.Tensor]:
    every = results if isinstance(results, (tuple, list)) else (results,)
    return [r.clone() for r in every if isinstance(r, torch.Tensor)]


class _Trial:
    """The contenders of one call: the rule, and every choice that runs and gives the same results."""

    def __init__(self, choices: Choices, case: Case, device: Device, effort: Effort) -> None:
        operator = choices.operator
        self.choices, self.device, self.effort = choices, device, effort
        call = inputs.make(
            operator.namespace,
            operator.name,
            operator.parameters,
            case,
            device.name,
            0,
            operator.inputs(),
        )
        self.call = contenders.positional(RULE, operator.function, call)
        self.reset = contenders.resetter(call)
        self.in_place = [call.arguments[name] for name in call.in_place]
        self.refused: dict[str, str] = {}
        self.runs: dict[tuple[int, ...] | None, Run] = {}

    def _results(self, values: tuple[int, ...] | None) -> list[torch.Tensor]:
        """What one call gives; it is learnt on the way."""
        if self.reset:
            self.reset()
        found: list[Any] = []
        self.choices.force(values)
        self.device.learn(lambda: found.append(self.call.call()))
        return [*_copies(found[0]), *(t.clone() for t in self.in_place)]

    def _run(self, values: tuple[int, ...] | None) -> Run:
        how = self.device.cold if self.effort.cache == "cold" else self.device.warm
        run = how(self.call.stmt, self.call.names, self.reset)

        def timed(n: int) -> float:
            self.choices.force(values)
            return run(n)

        return timed

    def admit(self) -> None:
        wanted = self._results(None)
        self.runs[None] = self._run(None)
        for values in self.choices.combinations():
            name = self.choices.words(values)
            try:
                got = self._results(values)
                for one, other in zip(got, wanted):
                    torch.testing.assert_close(one, other, equal_nan=True)
                self.runs[values] = self._run(values)
            except AssertionError:
                self.refused[name] = "gives another result than the rule"
            except RuntimeError as error:  # a launch that does not fit the device
                self.refused[name] = (str(error).strip().splitlines() or ["failed"])[0]

    def rounds(self, who: Sequence[tuple[int, ...] | None], n: int) -> dict[Any, list[float]]:
        named = {str(i): self.runs[values] for i, values in enumerate(who)}
        samples = timing.rounds(named, n_rounds=n, sample_s=self.effort.sample_s)
        return {values: samples[str(i)] for i, values in enumerate(who)}


def measure(choices: Choices, case: Case, device: Device, effort: Effort) -> Outcome:
    """The best choice for one call, and whether it is clearly better than the rule."""
    trial = _Trial(choices, case, device, effort)
    try:
        trial.admit()
        first = trial.rounds(list(trial.runs), effort.first_rounds)
        medians = {v: timing.quartiles(s)[1] for v, s in first.items() if v is not None}
        finalists = sorted(medians, key=lambda v: medians[v])[: effort.finalists]
        # Anew: of many, the fastest by chance would win what was measured before.
        final = trial.rounds([None, *finalists], effort.rounds)
    finally:
        choices.force(None)
    quarters = {values: timing.quartiles(samples) for values, samples in final.items()}
    rule = quarters.pop(None)
    outcome = Outcome(choices, case, rule[1], refused=trial.refused)
    if quarters:
        outcome.best = min(quarters, key=lambda v: quarters[v][1])
        outcome.best_s = quarters[outcome.best][1]
        beyond_noise = quarters[outcome.best][2] < rule[0]
        outcome.kept = beyond_noise and outcome.gain >= GAIN
    return outcome


# ---- the file ----


def _read(path: str, head: str) -> dict[str, str]:
    """Key and values of each line; none of a file of other choices."""
    try:
        with open(path, encoding="utf-8") as f:
            lines = f.read().splitlines()
    except FileNotFoundError:
        return {}
    if not lines or lines[0] != head:
        return {}
    pairs = (line.rpartition(" ") for line in lines[1:])
    return {key: values for key, _, values in pairs if key}


def _write(path: str, head: str, lines: Mapping[str, str]) -> None:
    """Whole or not at all: a process may be reading it."""
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=folder, encoding="utf-8", delete=False) as f:
        f.write("\n".join([head, *(f"{key} {values}" for key, values in lines.items())]) + "\n")
    os.replace(f.name, path)


def keep(outcomes: Sequence[Outcome], device_name: str) -> None:
    """Writes down what is better than the rule, and takes out what no longer is."""
    for outcome in outcomes:
        choices, operator = outcome.choices, outcome.choices.operator
        path = _wick.tune_path(operator.namespace, operator.name, device_name)
        if not path:
            raise TargetError("there is no home folder for what was measured: set WICK_CACHE_DIR")
        lines = _read(path, choices.text)
        key = choices.key(outcome.case)
        if outcome.kept and outcome.best is not None:
            lines[key] = ",".join(map(str, outcome.best))
        elif lines.pop(key, None) is None:
            continue
        _write(path, choices.text, lines)
        _wick.tune_forget(operator.namespace, operator.name)


def clear(operators: Sequence[Operator]) -> list[str]:
    """Forgets what was measured of these operators, on every device."""
    removed = []
    for operator in operators:
        path = _wick.tune_path(operator.namespace, operator.name, "*")
        root, file = os.path.dirname(os.path.dirname(path)), os.path.basename(path)
        for found in sorted(glob.glob(os.path.join(glob.escape(root), "*", file))):
            os.remove(found)
            removed.append(found)
        _wick.tune_forget(operator.namespace, operator.name)
    return removed


# ---- the command ----


def cells(outcome: Outcome) -> list[str]:
    best = words.seconds(outcome.best_s) if outcome.best else "-"
    choice = outcome.choices.words(outcome.best) if outcome.best else "-"
    verdict = "kept" if outcome.kept else "the rule stays"
    gain = f"{100 * outcome.gain:+.1f} %" if outcome.best else "-"
    types = " ".join(outcome.case.types.values()) or "-"
    sizes = outcome.case.words()
    return [types, sizes, words.seconds(outcome.rule_s), best, gain, choice, verdict]


HEAD = ["types", "sizes", "rule", "best", "saves", "choice", ""]


def print_outcomes(outcomes: Sequence[Outcome], out: TextIO | None = None) -> None:
    out = out or sys.stdout
    for operator, group in itertools.groupby(outcomes, key=lambda o: o.choices.operator):
        found = list(group)
        out.write(f"{operator.namespace}.{operator.name}: {found[0].choices.text}\n")
        lines = [HEAD, *(cells(o) for o in found)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(HEAD))]
        for line in lines:
            text = [
                cell.rjust(w) if i in (2, 3, 4) else cell.ljust(w)
                for i, (cell, w) in enumerate(zip(line, widths))
            ]
            out.write("  " + "  ".join(text).rstrip() + "\n")
        refused = {pair: None for o in found for pair in o.refused.items()}
        for name, why in refused:
            out.write(f"  {name}: {why}\n")


def _tunable(options: argparse.Namespace) -> list[Choices]:
    operators = target.find(options.operators, None, options.shapes)
    found = [choices for choices in map(choices_of, operators) if choices]
    if not found:
        named = ", ".join(options.operators)
        raise TargetError(f"{named}: no operator in it has choices to measure (WICK_TUNE)")
    return found


def _cases(found: Sequence[Choices], options: argparse.Namespace) -> list[tuple[Choices, Case]]:
    """One call for each class of calls."""
    by_operator = {id(c.operator): c for c in found}
    planned = plan_calls([c.operator for c in found], options, "tune")
    classes: dict[tuple[int, str], tuple[Choices, Case]] = {}
    for operator, case in planned:
        choices = by_operator[id(operator)]
        classes.setdefault((id(operator), choices.key(case)), (choices, case))
    return list(classes.values())


def _device(name: str) -> Any:
    if not torch.cuda.is_available():
        raise TargetError(
            "launches are tuned on the GPU that they are for, and torch sees none here"
        )
    from .bench.cuda import Cuda

    return Cuda(name)


def tune(options: argparse.Namespace, device: Any = None, device_name: str = "") -> int:
    """Measures, keeps and reports; the exit code. A device of one's own is for tests."""
    if options.clear:
        removed = clear([c.operator for c in _tunable(options)])
        print(f"wick tune: {len(removed)} file{'s' * (len(removed) != 1)} removed")
        return OK
    if device is None:
        device = _device(options.device)
        device_name = torch.cuda.get_device_name(torch.device(device.name))
    effort = Effort(cache=options.cache)
    if options.rounds:
        effort = Effort(
            min(effort.first_rounds, options.rounds), options.rounds, cache=options.cache
        )
    calls = _cases(_tunable(options), options)
    outcomes: list[Outcome] = []
    stopped = False
    with Progress("wick tune") as progress:
        try:
            for i, (choices, case) in enumerate(calls):
                progress.step(i, len(calls), f"{choices.operator.name} {case.words()}")
                outcomes.append(measure(choices, case, device, effort))
        except KeyboardInterrupt:  # what there is so far is kept
            stopped = True
    print(f"{device_name}, {effort.cache} caches")
    print_outcomes(outcomes)
    if not options.dry_run:
        keep(outcomes, device_name)
    n = sum(o.kept for o in outcomes)
    done = "would be kept" if options.dry_run else "kept"
    print(f"{n} of {len(outcomes)} {done}; the others are within the noise or as good by the rule")
    return STOPPED if stopped else OK


def main(options: argparse.Namespace) -> int:
    try:
        return tune(options)
    except (AskedWronglyError, ShapesError) as error:
        print(f"wick tune: {error}", file=sys.stderr)
        return WRONG
    except (TargetError, BuildError) as error:
        print(f"wick tune: {error}", file=sys.stderr)
        return FAILED
