"""Runs an operator on a device through the public door, with room around every tensor that is watched.

What guarded.py does with the memory management of the CPU is done here by comparing: the room is
filled with a pattern that must still be there after the call, and so must the inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .guarded import Manner, Outcome, same
from .operator import Operator

REPEATS = 20  # the most: every call is waited for
ROOM = 512  # elements before and behind; a multiple of what any alignment asks for
PATTERN = 0xC5


@dataclass
class Placed:
    """A tensor with room around it."""

    name: str
    tensor: torch.Tensor
    buffer: torch.Tensor  # bytes, room included
    start: int  # of the tensor in it, in bytes
    end: int

    def damage(self) -> list[str]:
        raw = self.buffer.cpu()
        found = []
        before = (raw[: self.start] != PATTERN).nonzero()
        behind = (raw[self.end :] != PATTERN).nonzero()
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


def place(name: str, x: torch.Tensor, device: torch.device, shift: int = 0) -> Placed:
    """A copy of x on the device, in the same layout. shift: elements off alignment."""
    n, size = _span(x), x.element_size()
    start = (ROOM + shift) * size
    buffer = torch.full((start + (n + ROOM) * size,), PATTERN, dtype=torch.uint8, device=device)
    flat = buffer[start : start + n * size].view(x.dtype)
    flat.copy_(x.as_strided((n,), (1,)))
    return Placed(name, flat.as_strided(x.shape, x.stride()), buffer, start, start + n * size)


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
        again = _run_once(operator, values, wanted, shapes, manner, device)
        if again.refused or not same(first.results, again.results):
            again.differs = k
            return again
    return first


def _run_once(
    operator: Operator,
    values: Sequence[Any],
    wanted: Sequence[bool],
    shapes: Sequence[Any],
    manner: Manner,
    device: torch.device,
) -> Outcome:
    shift = 0 if manner.at_end else manner.shift  # a bit for each
    placed: dict[str, Placed] = {}
    args: list[Any] = []
    for k, (p, value) in enumerate(zip(operator.inputs, values)):
        if isinstance(value, torch.Tensor):
            placed[p.name] = place(p.name, value, device, shift >> k & 1)
            args.append(placed[p.name].tensor)
        else:
            args.append(value)
    results = _room_for_results(
        operator, wanted, shapes, manner, device, shift >> len(operator.inputs)
    )
    keywords: dict[str, Any] = {
        f"want_{p.name}": w for p, w in zip(operator.outputs, wanted) if p.optional
    }
    if results:
        out = tuple(r.tensor for r in results)
        keywords["out"] = out if len(out) > 1 else out[0]
    try:
        given = operator.function(*args, **keywords)
    except RuntimeError as error:
        synchronize(device)  # what failed on the device itself is told here
        return Outcome(status=1, message=str(error))
    synchronize(device)
    return _outcome(operator, values, given, placed, results)


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
    manner: Manner,
    device: torch.device,
    shift: int,
) -> list[Placed]:
    """out= for all results, where it can be had."""
    if any(p.name == "out" for p in operator.inputs) or not all(wanted) or None in shapes:
        return []
    found = []
    for k, (p, (shape, dtype)) in enumerate(zip(operator.outputs, shapes)):
        there = place(p.name, torch.empty(shape, dtype=dtype), device, shift >> k & 1)
        there.buffer[there.start : there.end] = manner.fill
        found.append(there)
    return found


def _outcome(
    operator: Operator,
    values: Sequence[Any],
    given: Any,
    placed: dict[str, Placed],
    results: Sequence[Placed],
) -> Outcome:
    damage = [line for there in (*placed.values(), *results) for line in there.damage()]
    outputs: list[Any] = []
    if operator.outputs:
        outputs = list(given) if isinstance(given, tuple) else [given]
    for p, value in zip(operator.inputs, values):
        if not isinstance(value, torch.Tensor):
            continue
        after = placed[p.name].tensor.cpu()
        if p.in_place:
            outputs.append(after)
        elif not same([value.contiguous()], [after.contiguous()]):
            damage.append(f"it wrote into {p.name}")
    moved = [r.cpu() if isinstance(r, torch.Tensor) else r for r in outputs]
    return Outcome(results=moved, damage="\n".join(damage))
