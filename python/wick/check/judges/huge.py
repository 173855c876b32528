"""huge: more than 2^31 elements, where an index of 32 bits ends.

Inputs are zeros but for their tail, and of a result only the tail is kept (src/trial/zone.c), so that
this needs no memory to speak of. The tail is compared with what the operator makes of the tail alone.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import torch

from ... import _wick
from .. import draw, guarded
from ..case import Case
from ..device import synchronize
from ..finding import Result
from ..guarded import AT_ONCE, Manner, Zone
from ..operator import DTYPES, Operator
from ..plan import PACK
from .values import place

ELEMENTS = 2**31 + 2**21
LARGE = 1 << 30  # bytes; below it memory is memory
ROWS = 4099
BEFORE = 30_011  # rows of zeros, to see whether they make a difference


def plan_huge(op: Operator, packs: bool = False) -> list[Case]:
    """One dim is large. Another one in a further case where no tensor ties the two together: those
    beside it in a tensor are of a row, or of parameters, and small in life. packs: once more with rows
    that can be loaded in packs."""
    found, tied = [], set()
    for dim, case in _cases(op).items():
        if dim not in tied:
            found.append(case)
            tied |= _tied_to(op, dim)
            in_packs = _cases(op, PACK).get(dim, case)
            if packs and len(op.dims) > 1 and in_packs != case:
                found.append(in_packs)
    return found


def _cases(op: Operator, few: int = 3) -> dict[str, Case]:
    """By the dim that is large; of the smallest types. few: what the others are."""
    types = {
        name: min(kinds, key=lambda k: (DTYPES[k].itemsize, k != "f16"))
        for name, kinds in op.variables.items()
    }
    scalars = {p.name: scalar(p) for p in op.scalars}
    found = {}
    for dim in _candidates(op):
        dims: dict[str, Any] = {n: (few,) if leading else few for n, leading in op.dims.items()}
        for name in _in_front(op, dim):
            dims[name] = () if op.dims[name] else 1
        case = Case(op.name, types, dims, scalars, values="positive")
        per_row = _most(op, _sized(op, case, dim, 1000)) / 1000
        if per_row >= 1:
            found[dim] = _sized(op, case, dim, math.ceil(ELEMENTS / per_row))
    return found


def _tied_to(op: Operator, dim: str) -> set[str]:
    """It, and the dims beside it in some tensor."""
    sizes = [p.sizes for p in (*op.outputs, *op.inputs) if p.is_tensor]
    return {dim, *(s for size in sizes if dim in size for s in size)}


def scalar(p: Any) -> Any:
    if p.default is not None:
        return p.default
    return {"int": 1, "float": 1.0, "bool": False, "choice": (p.choices or ("",))[0]}.get(
        p.kind, ""
    )


def _sized(op: Operator, case: Case, dim: str, rows: int) -> Case:
    return case.with_dim(dim, (rows,) if op.dims[dim] else rows)


def _candidates(op: Operator) -> list[str]:
    """Dims that stand alone in front of a result or an input, those of results first."""
    found = []
    for p in (*op.outputs, *op.inputs):
        if p.is_tensor:
            found += [s for s in p.sizes if s in op.dims and s not in found]
    return found


def _in_front(op: Operator, dim: str) -> set[str]:
    """Dims that come before it in some tensor: they must be 1, so that its end is the tensor's."""
    front: set[str] = set()
    for p in (*op.outputs, *op.inputs):
        if p.kind in ("tensor", "shape") and dim in p.sizes:
            for size in p.sizes[: p.sizes.index(dim)]:
                front |= {name for name in op.dims if name in size}
    return front - {dim}


def _most(op: Operator, case: Case) -> int:
    inputs, outputs, _, _ = op.plan(case)
    return max((math.prod(a[0]) for a in (*inputs, *outputs) if a and a[1]), default=0)


def _large_dim(op: Operator, case: Case) -> str:
    return max(op.dims, key=lambda n: math.prod(case.dims[n]) if op.dims[n] else case.dims[n])


# ---- the calls ----


def judge_huge(op: Operator, case: Case, phase: Any, device: torch.device) -> Result:
    """Where rows hang together, the same is done in another dim as well, if they do not there."""
    result, alone = _judge_case(op, case, phase, device, False)
    for other in _cases(op).values():
        if alone or result.findings or result.refused or result.skipped:
            return result
        if other.dims != case.dims:
            found, alone = _judge_case(op, other, phase, device, True)
            result.findings += found.findings
    if not alone:
        result.notes.append("huge: rows hang together, only that it does not crash was judged")
    return result


def _judge_case(
    op: Operator, case: Case, phase: Any, device: torch.device, only_alone: bool
) -> tuple[Result, bool]:
    """And whether a result's rows hang on nothing but themselves. only_alone: else do nothing."""
    dim = _large_dim(op, case)
    result = Result(judged=["huge"])
    if device.type != "cpu" and (why := _too_large(op, case, device)):
        return Result(skipped=why), False
    small = _sized(op, case, dim, ROWS)
    tail = _inputs(op, small)
    expected = _call(op, small, tail, phase, device)
    if expected.refused:
        return Result(refused=expected.message), False
    longer = _sized(op, case, dim, BEFORE + ROWS)
    padded = _call(op, longer, _padded(op, longer, tail), phase, device)
    independent = [
        not padded.refused and _tails_agree(a, b) for a, b in zip(padded.results, expected.results)
    ]
    if only_alone and not any(independent):
        return result, False
    if device.type == "cpu":
        values = _huge_inputs(op, case, tail)
        outcome = _call(op, case, values, phase, device)
        outcome.results += [_end_of(v, ROWS) for p, v in zip(op.inputs, values) if p.in_place]
    else:
        outcome = _call(op, case, _padded(op, case, tail, device), phase, device)
    if outcome.refused:
        result.refused = outcome.message
        return result, any(independent)
    names = [p.name for p in op.outputs] + [p.name for p in op.inputs if p.in_place]
    for name, got, wanted, alone in zip(names, outcome.results, expected.results, independent):
        if alone and not _tails_agree(got, wanted):
            where = f"dim {dim} = {case.dims[dim]}"
            result.add(
                "huge",
                f"values-{name}",
                f"the end of {name} is wrong when it has more than 2^31 elements",
                f"{where}: it should be what the operator gives for the last {ROWS} rows alone",
                _first_difference(name, got, wanted),
            )
    return result, any(independent)


def _inputs(op: Operator, case: Case) -> list[Any]:
    about, _, _, _ = op.plan(case)
    values: list[Any] = []
    for p, a in zip(op.inputs, about):
        if p.dim is not None:
            values.append(case.dims[p.dim])
        elif p.is_scalar:
            values.append(case.scalars[p.name])
        elif not p.is_tensor:
            values.append(tuple(a[0]))
        else:
            gen = draw.generator(case.seed, p.name)
            values.append(draw.values("positive", tuple(a[0]), DTYPES[a[1]], gen, 1))
    return values


def _too_large(op: Operator, case: Case, device: torch.device) -> str:
    """On a device huge tensors are what they are."""
    _, _, read, written = op.plan(case)
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 0
    if (read + written) * 1.2 < free:
        return ""
    return f"out of memory: {(read + written) >> 30} GiB are needed, {free >> 30} GiB are free"


def _padded(
    op: Operator, case: Case, tail: list[Any], device: torch.device | None = None
) -> list[Any]:
    """The same with zeros in front."""
    about, _, _, _ = op.plan(case)
    values: list[Any] = []
    for p, a, value in zip(op.inputs, about, tail):
        if isinstance(value, torch.Tensor) and math.prod(a[0]) > value.numel():
            x = torch.zeros(tuple(a[0]), dtype=value.dtype, device=device)
            x.view(-1)[-value.numel() :] = value.flatten().to(x.device)
            values.append(x)
        else:
            values.append(_size_or(p, a, case, value))
    return values


def _size_or(p: Any, about: Any, case: Case, value: Any) -> Any:
    if p.dim is not None:
        return case.dims[p.dim]
    return tuple(about[0]) if p.kind == "shape" else value


def _huge_inputs(op: Operator, case: Case, tail: list[Any]) -> list[Any]:
    about, _, _, _ = op.plan(case)
    values: list[Any] = []
    for p, a, value in zip(op.inputs, about, tail):
        n = math.prod(a[0]) * value.element_size() if isinstance(value, torch.Tensor) else 0
        if n >= LARGE:
            address, room = _wick.reserve(p.name, n, p.in_place)
            raw = value.contiguous().view(-1).view(torch.uint8)
            assert raw.numel() <= room
            ctypes.memmove(address + n - raw.numel(), raw.data_ptr(), raw.numel())
            values.append(Zone(address, tuple(a[0]), value.dtype))
        elif n and math.prod(a[0]) != value.numel():
            values.append(_padded(op, case, tail)[len(values)])
        else:
            values.append(_size_or(p, a, case, value))
    return values


def _end_of(value: Any, rows: int) -> torch.Tensor:
    """The last elements of what was written in place."""
    if not isinstance(value, Zone):
        return value
    n = rows * math.prod(value.shape[1:])
    start = value.address + (math.prod(value.shape) - n) * value.dtype.itemsize
    raw = bytearray(ctypes.string_at(start, n * value.dtype.itemsize))
    return torch.frombuffer(raw, dtype=value.dtype)


def _call(
    op: Operator, case: Case, values: list[Any], phase: Any, device: torch.device
) -> guarded.Outcome:
    if device.type != "cpu":
        return _call_on(op, values, phase, device)
    _, outputs, _, _ = op.plan(case)
    shapes = [None if s is None else (s[0], DTYPES[s[1]]) for s in outputs]
    phase("operator")
    manner = Manner(threads=2, order=AT_ONCE)
    outcome = guarded.run(op, values, [True] * len(op.outputs), shapes, manner)
    phase("judge")
    return outcome


def _call_on(op: Operator, values: list[Any], phase: Any, device: torch.device) -> guarded.Outcome:
    values = [v.to(device) if isinstance(v, torch.Tensor) else v for v in values]
    phase("operator")
    try:
        given = op.function(*values)
        synchronize(device)
    except RuntimeError as error:
        return guarded.Outcome(status=1, message=str(error))
    finally:
        phase("judge")
    results = [] if not op.outputs else list(given) if isinstance(given, tuple) else [given]
    results += [v for p, v in zip(op.inputs, values) if p.in_place]
    rows = [
        r.reshape(-1)[-64 * ROWS :].cpu() if isinstance(r, torch.Tensor) else r for r in results
    ]
    return guarded.Outcome(results=rows)


def _ends(a: Any, b: Any) -> tuple[torch.Tensor, torch.Tensor]:
    x, y = torch.as_tensor(a).flatten(), torch.as_tensor(b).flatten()
    n = min(x.numel(), y.numel())
    return x[x.numel() - n :].double(), y[y.numel() - n :].double()


def _wrong(a: Any, b: Any) -> torch.Tensor:
    """Wrong by more than the order of additions explains."""
    x, y = _ends(a, b)
    return ~(((x - y).abs() <= 0.02 * torch.maximum(x.abs(), y.abs())) | (x == y))


def _tails_agree(a: Any, b: Any) -> bool:
    return a is None or b is None or not bool((_wrong(a, b)).any())


def _first_difference(name: str, got: Any, wanted: Any) -> str:
    x, y = _ends(got, wanted)
    flat = int(_wrong(got, wanted).nonzero()[0])
    return f"{place(name, (flat - x.numel(),))} (flat) is {x[flat]:g}, expected {y[flat]:g}"
