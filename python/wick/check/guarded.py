"""Runs an operator on the CPU with all its memory guarded (src/trial)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from .. import _wick
from .operator import NAMES, Operator

left: list[str] = []  # settings of the process that calls have changed, for whoever tells of them
seconds: list[float] = []  # of CPU time that calls took
# Of include/wick/types.h: the caller broke the contract; and what is no fault: not supported, no memory.
EINVAL, EXCUSED = 1, (2, 3)
TOGETHER = 4.0  # seconds of repeated calls, about
FILLS = (0x7F, 0xFF, 0x00)  # what results and scratch hold before a call: huge numbers, NaN, 0
FORWARDS, BACKWARDS, SHUFFLED, AT_ONCE, WATCHED = range(5)


@dataclass(frozen=True)
class Manner:
    """How a call is made."""

    at_end: bool = True  # a guard right behind each tensor; else right in front of it
    shift: int = 0  # bit k: tensor k (inputs, then results) is off alignment, unless at_end
    fill: int = FILLS[0]
    threads: int = 1
    order: int = FORWARDS
    seed: int = 0
    repeats: int = 1
    meetings: int = 0  # fewer repeats, once pieces of loops have run at the same time so often
    room: int = 0  # bytes on both sides of each tensor that may be used, and are told of
    fenced: bool = False  # on a GPU: nothing mapped at that end of each tensor

    def settings(self) -> tuple[Any, ...]:
        return (
            *(self.at_end, self.shift, self.fill, self.threads, self.order, self.seed),
            *(self.repeats, self.meetings, self.room),
        )


@dataclass
class Outcome:
    """What a call left. results: outputs, then what was written in place; None where not wanted."""

    status: int = 0
    message: str = ""
    results: list[Any] = field(default_factory=list)
    damage: str = ""
    differs: int = -1
    leaked: tuple[int, ...] = (0, 0, 0, 0)
    loops: tuple[int, int] = (0, 0)  # that could be cut, and into how many pieces

    @property
    def refused(self) -> bool:
        return self.status != 0


@dataclass(frozen=True)
class Zone:
    """A contiguous tensor in guarded memory (_wick.reserve), too large to be copied."""

    address: int
    shape: tuple[int, ...]
    dtype: torch.dtype

    def stride(self) -> tuple[int, ...]:
        strides, step = [], 1
        for size in reversed(self.shape):
            strides.append(step)
            step *= max(size, 1)
        return tuple(reversed(strides))


def _argument(value: Any, kind: str) -> Any:
    if isinstance(value, (torch.Tensor, Zone)):
        address = value.address if isinstance(value, Zone) else value.data_ptr()
        about = NAMES[value.dtype], tuple(value.shape), tuple(value.stride())
        return (address, *about, isinstance(value, Zone))
    if kind == "shape":
        return (tuple(value),)
    return float(value) if kind == "float" else value


def arguments(operator: Operator, values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(_argument(v, p.kind) for v, p in zip(values, operator.inputs))


def _tensor(raw: bytearray, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Of a huge result only the tail has come back, and has no shape."""
    flat = torch.frombuffer(raw, dtype=dtype) if raw else torch.empty(0, dtype=dtype)
    n = 1
    for size in shape:
        n *= size
    return flat.view(shape) if flat.numel() == n else flat


def run(
    operator: Operator,
    values: Sequence[Any],
    wanted: Sequence[bool],
    shapes: Sequence[Any],
    manner: Manner,
) -> Outcome:
    """shapes: (shape, type) of each output, None of a number (Operator.plan)."""
    start = time.process_time()
    told = _wick.trial(
        operator.namespace,
        operator.name,
        arguments(operator, values),
        tuple(wanted),
        manner.settings(),
    )
    seconds.append((time.process_time() - start) / manner.repeats)
    left.extend(told["left"].splitlines())
    results: list[Any] = []
    for raw, about in zip(told["results"], shapes):
        results.append(_tensor(raw, *about) if isinstance(raw, bytearray) else raw)
    for raw, value in zip(told["written"], values):
        if raw is not None:
            flat = torch.frombuffer(raw, dtype=value.dtype) if raw else value.new_empty(0)
            results.append(torch.as_strided(flat, value.shape, value.stride()))
    return Outcome(
        told["status"],
        told["message"],
        results,
        told["damage"],
        told["differs"],
        told["leaked"],
        told["loops"],
    )


class TooSlow(Exception):
    """One call takes so long that several would be taken for a hang."""


def affordable(repeats: int, fewest: int = 2) -> int:
    """As many repeats of the last call, or fewer where they would take long: that is no hang."""
    each = seconds[-1] if seconds else 0.0
    if each * fewest > TOGETHER:
        raise TooSlow(f"a call takes {each:.1f} s, and several are needed")
    return max(fewest, min(repeats, int(TOGETHER / max(each, 1e-9))))


def together(
    operator: Operator,
    calls: Sequence[Sequence[Any]],
    wanted: Sequence[bool],
    manner: Manner,
    rounds: int,
) -> int:
    """The calls, by a thread each, at once; the index of one whose result changes, or -1."""
    packed = tuple(arguments(operator, values) for values in calls)
    return _wick.trial_together(
        operator.namespace, operator.name, packed, tuple(wanted), manner.settings(), rounds
    )


def bits(value: Any) -> Any:
    """A result as something that can be compared bit by bit."""
    if isinstance(value, torch.Tensor):
        flat = value.contiguous().reshape(-1)
        return flat.as_strided(flat.shape, (1,)).view(torch.uint8)  # one element has any stride
    return value


def same(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Bit by bit: NaN are as equal as their bits."""
    for x, y in zip(a, b):
        if isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor):
            if x.shape != y.shape or not torch.equal(bits(x), bits(y)):
                return False
        elif x is not y and not (x == y or (x != x and y != y)):
            return False
    return True


def alike(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Bit by bit, but for NaN: of which two in a product the sign is kept is up to the compiler, which may
    decide so for whole packs of elements and otherwise for those that are left over."""
    return same([_with_one_nan(x) for x in a], [_with_one_nan(y) for y in b])


def _with_one_nan(value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    return torch.where(value.isnan(), torch.nan, value)
