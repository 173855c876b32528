"""Runs an operator on a device through the public door, with room around every tensor that is watched.

What guarded.py does with the memory management of the CPU is done here by comparing: the room is
filled with a pattern that must still be there after the call, and so must the inputs. What lies in
the room is another thing from call to call, as is what results, scratch and shared memory
(leftovers.py) hold: who reads it, and makes something of it, gets another result. Who reads it and
makes nothing of it is stopped where nothing is mapped (fences.py).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .. import _wick
from . import fences, leftovers
from .guarded import EINVAL, FILLS, Manner, Outcome, same
from .operator import Operator
from .reference import is_for_memory

REPEATS = 20  # the most: every call is waited for
ROOM = 512  # elements before and behind; a multiple of what any alignment asks for
# What is in it, by what is in the results. Of the numbers that these bytes make one is negative, one
# NaN, one positive: of a largest or a smallest number, or of a product with 0, one at least is seen.
PATTERN = dict(zip(FILLS, (0xC5, 0xFF, 0x45)))
ALIGNED = 512  # scratch, as torch's own memory is


@dataclass
class Placed:
    """A tensor with room around it."""

    name: str
    tensor: torch.Tensor
    buffer: torch.Tensor  # bytes, room included
    start: int  # of the tensor in it, in bytes
    end: int
    pattern: int

    def damage(self) -> list[str]:
        raw = self.buffer.cpu()
        found = []
        before = (raw[: self.start] != self.pattern).nonzero()
        behind = (raw[self.end :] != self.pattern).nonzero()
        if before.numel():
            found.append(
                f"it wrote {self.start - int(before[0])} bytes before the start of {self.name}"
            )
        if behind.numel():
            far = int(behind[0])
            how = f"{far} bytes" if far else "right"
            found.append(f"it wrote {how} past the end of {self.name}")
        return found


def _span(x: torch.Tensor) -> int:
    """Elements from the first to the last, gaps included."""
    if x.numel() == 0:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(x.shape, x.stride()))


def place(
    name: str, x: torch.Tensor, device: torch.device, shift: int = 0, fill: int = FILLS[0]
) -> Placed:
    """A copy of x on the device, in the same layout. shift: elements off alignment."""
    n, size = _span(x), x.element_size()
    start, pattern = (ROOM + shift) * size, PATTERN[fill]
    buffer = torch.full((start + (n + ROOM) * size,), pattern, dtype=torch.uint8, device=device)
    end = start + n * size
    return Placed(name, _copied(x, buffer[start:end]), buffer, start, end, pattern)


def moved(x: torch.Tensor, device: torch.device) -> torch.Tensor:
    """x on the device in the same layout; to() would make most of them dense."""
    if x.device == device:
        return x
    return _copied(x, torch.empty(_span(x) * x.element_size(), dtype=torch.uint8, device=device))


def _copied(x: torch.Tensor, to: torch.Tensor) -> torch.Tensor:
    """x in the same layout in those bytes."""
    flat = to.view(x.dtype)
    flat.copy_(x.as_strided((flat.numel(),), (1,)))
    return flat.as_strided(x.shape, x.stride())


def _fenced(
    name: str, x: torch.Tensor, device: torch.device, slot: int, at_end: bool
) -> Placed | None:
    size = _span(x) * x.element_size()
    bytes_ = fences.room(device.index or 0, slot, size, at_end)
    return None if bytes_ is None else Placed(name, _copied(x, bytes_), bytes_, 0, size, 0)


@contextlib.contextmanager
def scratch(fill: int, device: torch.device) -> Iterator[list[Placed]]:
    """What operators ask for as scratch meanwhile, with room around it, and filled."""
    found: list[Placed] = []

    def make(name: str, index: int, n: int) -> int:
        buffer = torch.full(
            (n + 3 * ALIGNED,), PATTERN[fill], dtype=torch.uint8, device=torch.device("cuda", index)
        )
        start = ALIGNED + -buffer.data_ptr() % ALIGNED
        there = buffer[start : start + n]
        there.fill_(fill)
        found.append(Placed(f"scratch {name}", there, buffer, start, start + n, PATTERN[fill]))
        return buffer.data_ptr() + start

    if device.type == "cpu":  # src/trial sees to it
        yield found
        return
    _wick.scratch_from(make)
    try:
        yield found
    finally:
        _wick.scratch_from(None)


class DeviceLost(Exception):
    """A kernel has failed so badly that the process cannot use the device any more."""


def run(
    operator: Operator,
    values: Sequence[Any],
    wanted: Sequence[bool],
    shapes: Sequence[Any],
    manner: Manner,
    device: torch.device,
) -> Outcome:
    first = _run_once(operator, values, wanted, shapes, manner, device)
    for k in range(1, min(manner.repeats, REPEATS)):
        if first.refused:
            break
        if k % 2:
            _disturb(device)
        again = _run_once(operator, values, wanted, shapes, manner, device)
        if again.refused or not same(first.results, again.results):
            again.differs = k
            return again
    return first


@functools.cache
def _elsewhere(device: torch.device) -> tuple[torch.cuda.Stream, torch.Tensor]:
    return torch.cuda.Stream(device), torch.zeros(1 << 24, device=device)


def _disturb(device: torch.device) -> None:
    """Work on another stream, so that blocks of a kernel begin at other times than usual."""
    if device.type == "cuda":
        stream, x = _elsewhere(device)
        with torch.cuda.stream(stream):
            for _ in range(4):
                x.add_(1)


def _run_once(
    operator: Operator,
    values: Sequence[Any],
    wanted: Sequence[bool],
    shapes: Sequence[Any],
    manner: Manner,
    device: torch.device,
) -> Outcome:
    shift = 0 if manner.at_end else manner.shift  # a bit for each

    def put(name: str, k: int, x: torch.Tensor) -> Placed:
        there = _fenced(name, x, device, k, manner.at_end) if manner.fenced else None
        return there or place(name, x, device, shift >> k & 1, manner.fill)

    placed: dict[int, Placed] = {}  # by what they were: two arguments may be the same tensor
    args: list[Any] = []
    for k, (p, value) in enumerate(zip(operator.inputs, values)):
        if isinstance(value, torch.Tensor):
            if id(value) not in placed:
                placed[id(value)] = put(p.name, k, value)
            args.append(placed[id(value)].tensor)
        else:
            args.append(value)
    results = _room_for_results(operator, wanted, shapes, manner.fill, put)
    keywords = operator.wants(wanted)
    if results:
        out = tuple(r.tensor for r in results)
        keywords["out"] = out if len(out) > 1 else out[0]
    if device.type == "cuda":
        leftovers.leave(device, PATTERN[manner.fill])
    with scratch(manner.fill, device) as made:
        try:
            given = operator.function(*args, **keywords)
        except RuntimeError as error:
            synchronize(device)  # what failed on the device itself is told here
            if is_for_memory(error):
                raise
            written = [v for p, v in zip(operator.inputs, values) if p.in_place]
            results = [None] * len(operator.outputs)
            results += [placed[id(v)].tensor.cpu() for v in written]
            status = getattr(error, "_status", EINVAL)  # of our own door; torch has none
            return Outcome(status=status, message=str(error), results=results)
        synchronize(device)
    return _outcome(operator, values, given, placed, [*results, *made])


def synchronize(device: torch.device) -> None:
    if device.type != "cuda":
        return
    try:
        torch.cuda.synchronize(device)
    except RuntimeError as error:
        raise DeviceLost(str(error).splitlines()[0]) from error


def _room_for_results(
    operator: Operator,
    wanted: Sequence[bool],
    shapes: Sequence[Any],
    fill: int,
    put: Callable[[str, int, torch.Tensor], Placed],
) -> list[Placed]:
    """out= for all results, where it can be had."""
    if any(p.name == "out" for p in operator.inputs) or not all(wanted) or None in shapes:
        return []
    found = []
    for k, (p, (shape, dtype)) in enumerate(zip(operator.outputs, shapes), len(operator.inputs)):
        there = put(p.name, k, torch.empty(shape, dtype=dtype))
        there.buffer[there.start : there.end] = fill
        found.append(there)
    return found


def _outcome(
    operator: Operator,
    values: Sequence[Any],
    given: Any,
    placed: dict[int, Placed],
    others: Sequence[Placed],
) -> Outcome:
    damage = [line for there in (*placed.values(), *others) for line in there.damage()]
    written = {id(v) for p, v in zip(operator.inputs, values) if p.in_place}
    outputs: list[Any] = []
    if operator.outputs:
        outputs = list(given) if isinstance(given, tuple) else [given]
    for p, value in zip(operator.inputs, values):
        if not isinstance(value, torch.Tensor):
            continue
        after = placed[id(value)].tensor.cpu()
        if p.in_place:
            outputs.append(after)
        elif id(value) not in written and not same([value.contiguous()], [after.contiguous()]):
            damage.append(f"it wrote into {p.name}")
    moved = [r.cpu() if isinstance(r, torch.Tensor) else r for r in outputs]
    return Outcome(results=moved, damage="\n".join(damage))
