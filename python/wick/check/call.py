"""A call of an operator: its arguments, and what it should give."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch

from . import device as on_device
from . import guarded
from .case import Case
from .operator import Operator
from .oracle import Oracle, Unanswered
from .reference import broken, is_for_memory, words_of

Phase = Callable[[str], None]
CPU = torch.device("cpu")
LONG = 0.3  # seconds of a slow reference
SHORTER = 8  # times less is what it is asked about then
# What a reference raises where it has no answer.
MISFITS = (ValueError, IndexError, ArithmeticError, AssertionError)


class Unfit(Exception):
    """The case is none: its sizes do not fit the signature."""


@dataclass
class Call:
    """A call of an operator, with what it should give."""

    operator: Operator
    values: list[Any]
    wanted: list[bool]
    shapes: list[Any]  # (shape, dtype) of each output; None of a number
    oracle: Oracle | None
    working: torch.dtype
    phase: Phase
    device: torch.device = CPU
    sensitivity: Callable[[], list[list[Any]]] | None = None
    lenient: bool = False  # where the reference is not finite, any result that is not will do
    drowned: bool = False  # a backward is fed what is not finite: 0 times it is NaN, or left out
    made: tuple[str, ...] = ()  # inputs of floats that come from NAME_inputs
    extreme: bool = False  # what goes in may be so large that the reference's own range ends
    tied: bool = False  # what goes in are whole numbers, and rounding is no excuse
    _heard: dict[tuple[int, bool], list[list[Any]]] = field(default_factory=dict)  # of _samples

    @property
    def outcome_names(self) -> list[str]:
        written = [p.name for p in self.operator.inputs if p.in_place]
        return [p.name for p in self.operator.outputs] + written

    def on_device(self) -> list[Any]:
        """The values where the operator runs, for those who call it by a public door."""
        if self.device.type == "cpu":
            return self.values
        return [v.to(self.device) if isinstance(v, torch.Tensor) else v for v in self.values]

    def run(self, manner: guarded.Manner | None = None, phase: str = "operator") -> guarded.Outcome:
        self.phase(phase)
        manner = manner or guarded.Manner()
        what = (self.operator, self.values, self.wanted, self.shapes, manner)
        if self.device.type == "cpu":
            outcome = guarded.run(*what)
        else:
            outcome = on_device.run(*what, self.device)
        self.phase("judge")
        return outcome

    def by_door(self, values: list[Any], door: Callable[..., Any] | None = None) -> Any:
        """What a person is given for such values, by wick.ops or another door."""
        return (door or self.operator.function)(*values, **self.operator.wants(self.wanted))

    def but(self, values: list[Any]) -> Call:
        """The same call with other values, and nobody to say what is right."""
        return replace(self, values=values, oracle=None, sensitivity=None, _heard={})

    def expected(self) -> list[Any]:
        """What the oracle says; raises Unanswered where it has nothing to say."""
        assert self.oracle is not None
        with self.asking():
            expected = self.oracle.exact()
        if self.is_empty:
            self._check_shapes(expected)
        return expected

    def instead_of_nan(self, expected: list[Any], k: int, got: torch.Tensor) -> torch.Tensor:
        """What the k-th result may be where the oracle says NaN and the operator does not: the number
        that it would be whatever stood in NaN's place; and infinite, where NaN comes of infinities, or
        makes no difference beside one."""
        assert self.oracle is not None
        try:
            with self.asking():
                found = self.oracle.regardless(expected)[k]
                found = torch.as_tensor(found, dtype=torch.float64)  # it may be a plain number
                infinite = found.isnan() & got.isinf()
                if infinite.any():
                    infinite &= self.oracle.may_be_infinite(k, got)
                return torch.where(infinite, got.double(), found)
        except Unanswered:
            return torch.as_tensor(expected[k])

    @property
    def is_empty(self) -> bool:
        return any(isinstance(v, torch.Tensor) and v.numel() == 0 for v in self.values)

    def _check_shapes(self, expected: list[Any]) -> None:
        """Some functions of torch are not made for sizes of 0 and return another shape then."""
        for p, about, e in zip(self.operator.outputs, self.shapes, expected):
            if about is not None and isinstance(e, torch.Tensor) and e.shape != tuple(about[0]):
                shape, wanted = list(e.shape), list(about[0])
                raise Unanswered(f"the reference's {p.name} has shape {shape}, expected {wanted}")

    def samples(self, base: list[Any], turn: int, whole: bool) -> list[list[Any]]:
        """What else is right. base: what the oracle has said. whole: of a result of whole numbers."""
        assert self.oracle is not None
        found = [] if whole and self.tied else self._samples(base, turn, False)
        if self.tied and (whole or self.oracle.stepped):
            found = self._samples(base, turn, True)
            if self.oracle.unstable:
                found = self._samples(base, turn, False)
        return found

    def _samples(self, base: list[Any], turn: int, strict: bool) -> list[list[Any]]:
        if (turn, strict) not in self._heard:
            self._heard[turn, strict] = self._ask_samples(base, turn, strict)
        return self._heard[turn, strict]

    def _ask_samples(self, base: list[Any], turn: int, strict: bool) -> list[list[Any]]:
        assert self.oracle is not None
        with self.asking():
            found = self.oracle.samples(base, turn, strict)
            if self.sensitivity is not None and turn == 0:
                for moved in self.sensitivity():
                    found.append([e if m is None else e + m for e, m in zip(base, moved)])
            return found

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        self.phase(self.oracle.phase if self.oracle is not None else "reference")
        try:
            yield
        except (Unanswered, on_device.DeviceLost):
            raise
        except (MemoryError, RuntimeError) as error:
            if is_for_memory(error):
                raise MemoryError("the reference wants more than there is") from error
            raise Unanswered(words_of(error)) from error
        except MISFITS as error:
            raise Unanswered(words_of(error)) from error
        except (Exception, SystemExit) as error:
            raise broken(error) from error
        finally:
            self.phase("judge")


class Preparing(Protocol):
    """forward.Forward, or backward.Backward."""

    slow: Slow

    def prepare(self, case: Case) -> Call: ...


class Slow:
    """By dim, the length from which on a reference takes its time."""

    def __init__(self) -> None:
        self._lengths: dict[str, int] = {}

    def took(self, case: Case, seconds: float) -> None:
        if seconds > LONG and case.dims:
            name = max(case.dims, key=case.length)
            self._lengths[name] = min(case.length(name), self._lengths.get(name, case.length(name)))

    def shorter(self, case: Case) -> Case | None:
        """The same with less of its longest dim, if that is too long to ask about."""
        name = max(case.dims, key=case.length, default="")
        if name not in self._lengths or case.length(name) < self._lengths[name]:
            return None
        size = max(1, self._lengths[name] // SHORTER)
        return case.with_dim(name, (size,) if isinstance(case.dims[name], tuple) else size)


def answered(subject: Preparing, case: Case) -> Call:
    """A call with inputs that the operator is for, as far as the reference knows: it is asked first. One
    that takes long is asked about less of the same."""
    call = subject.prepare(case)
    if call.oracle is None or _answers_shorter(subject, case):
        return call
    start = time.process_time()
    call.expected()
    subject.slow.took(case, time.process_time() - start)
    return call


def _answers_shorter(subject: Preparing, case: Case) -> bool:
    shorter = subject.slow.shorter(case)
    if shorter is None:
        return False
    try:
        subject.prepare(shorter).expected()
    except (Unfit, Unanswered):
        return False
    return True
