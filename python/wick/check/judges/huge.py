"""huge: more than 2^31 elements, where an index of 32 bits ends.

Inputs are zeros but for their tail, and of a result only the tail is kept (src/trial/zone.c), so that
this needs no memory to speak of. The tail is compared with what the operator makes of the tail alone.
Whole numbers may be places: a result then lies further on by as many rows as are in front, and an input
is made to point at the tail.
"""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Mapping
from typing import Any

import torch

from ... import _wick
from .. import draw, guarded
from ..backward import Backward
from ..call import Unfit, answered
from ..case import Case
from ..device import synchronize
from ..finding import Result, skip
from ..forward import Forward
from ..guarded import AT_ONCE, Manner, Zone
from ..operator import COUNTS, DTYPES, Operator, Parameter, candidates
from ..oracle import Unanswered
from ..phases import SOON
from ..plan import Planner
from ..plan_huge import (
    ELEMENTS,
    WRAPPED,
    cases_of,
    is_in_parts,
    large_dim,
    most_elements,
    rows_for,
    with_rows,
)
from ..pointers import is_for_finding
from ..reference import ReferenceError
from .values import place

MOST_KEPT = 1 << 20  # elements of a tail
BEYOND = 2**36  # elements, far more than are needed
LARGE = 1 << 30  # bytes; below it memory is memory
ROWS = 4099
FEWER = (1021, 251)  # of what grows as a square, whose tail would be huge itself
BEFORE = (30_011, 8_009, 2_003)  # rows of zeros, to see whether they make a difference
# Seconds: what nobody waits twice for, and what is so far from the limit that it is none of a slow operator.
LONG, SOON_DONE = 25.0, 12.0
HOPELESS = 60.0  # which is waited for, of calls that end at last
MEASURED = 1 << 20  # elements by which that is known beforehand


def judge_huge(subject: Forward | Backward, case: Case) -> Result:
    """Where rows hang together, the same is done in another dim as well, if they do not there."""
    if why := _refused_zeros(subject.forward):
        return skip(why)
    if most_elements(subject.operator, case) < ELEMENTS:
        return skip(Unfit("none of its tensors is huge"))
    if most_elements(subject.operator, case) > BEYOND:
        return Result(skipped=f"more than {BEYOND:.1e} elements, which nobody can wait for")
    result, alone = _judge_case(subject, case, False)
    for other in cases_of(subject.operator, case.types).values():
        if alone or result.findings or result.refused or result.skipped:
            return result
        if other.dims != case.dims:
            found, alone = _judge_case(subject, other, True)
            result.findings += found.findings
    if not alone:
        judged = "whether results are written" if subject.device.type == "cpu" else "that it ends"
        result.notes.append(f"huge: rows (or parts of scratch) hang together: judged was {judged}")
    return result


def _refused_zeros(forward: Forward) -> Exception | None:
    """What the reference has against zeros, of which most of a huge input is made."""
    case = next(Planner(forward.operator, 0).tiny(1, usual=True)).but(values="zeros")
    against: Exception | None = None
    for seed in range(3):  # where sections begin and end hangs on it
        try:
            answered(forward, case.but(seed=seed))
            return None
        except (Unfit, Unanswered) as why:
            against = why
    return against


def _judge_case(subject: Forward | Backward, case: Case, only_alone: bool) -> tuple[Result, bool]:
    """And whether a result's rows hang on nothing but themselves. only_alone: else do nothing."""
    op, device = subject.operator, subject.device
    dim = large_dim(op, case)
    if device.type != "cpu" and (why := _too_large(op, case, device)):
        return Result(skipped=why), False
    small = _tail_of(op, case, dim)
    if small is None:
        return Result(skipped=f"huge already with {FEWER[-1]} rows of {dim}"), False
    tail = _inputs(subject, small)
    expected = _call(subject, small, tail)
    if expected.refused:
        return Result(refused=expected.message), False
    result, known = Result(judged=["huge"]), set()
    seconds = _seconds_for(subject, case, small, dim, tail) if device.type == "cpu" else 0.0
    shorter = with_rows(op, case, dim, rows_for(op, small, dim, ELEMENTS))
    if seconds > LONG and most_elements(op, case) > 1.5 * most_elements(op, shorter):
        seconds *= shorter.length(dim) / case.length(dim)
        case = shorter
        result.notes.append("huge: up to 2^31 elements, since 2^32 would take long")
    if HOPELESS < seconds < math.inf:
        return Result(skipped=f"would take about {seconds:.0f} s"), False
    front = case.length(dim) - small.length(dim)
    phase = SOON if seconds < SOON_DONE else "operator"
    for pointer in (None, *_pointers(subject, dim, tail, front)):
        # Twice: a mean may happen to be that of the rows in front.
        moves = _moves(subject, small, dim, tail, pointer)
        again = _moves(subject, small, dim, _inputs(subject, small, "offset"), pointer)
        fresh = {k: m for k, m in moves.items() if again.get(k) == m and k not in known}
        if device.type == "cpu" and is_in_parts(op, case, dim):
            fresh = {}
        if not fresh and (only_alone or pointer is not None):
            continue
        known |= set(fresh)
        outcome = _call_huge(subject, case, _aimed(subject, dim, tail, pointer, front), phase)
        if outcome.refused:
            result.refused = outcome.message
            break
        for k, move in fresh.items():
            got, wanted = outcome.results[k], expected.results[k]
            if _holds(wanted, move * front) and not _tails_agree(got, wanted, move * front):
                name = (op.outputs + [p for p in op.inputs if p.in_place])[k].name
                result.add(
                    "huge",
                    f"values-{name}",
                    f"the end of {name} is wrong where a tensor has more than 2^31 elements",
                    f"dim {dim} = {case.dims[dim]}: it should be what the operator gives for the "
                    f"last {small.length(dim)} rows alone",
                    _first_difference(name, got, wanted, move * front),
                )
        if device.type == "cpu" and not result.findings:
            _judge_written(op, case, dim, outcome, result)
    if device.type == "cpu" and not (result.findings or result.refused or only_alone):
        _judge_wide(subject, case, dim, result)
    return result, bool(known)


def _judge_wide(subject: Forward | Backward, case: Case, dim: str, result: Result) -> None:
    """Several of what lies in front, too, where NAME_inputs makes lengths and the like, which say how far is
    looked: it does not crash, and the ends of results are written."""
    op = subject.operator
    if not _made(subject, case.but(dims={**case.dims, dim: with_rows(op, case, dim, 3).dims[dim]})):
        return
    few = {n: (3,) if op.dims[n] else 3 for n, size in case.dims.items() if size in (1, ())}
    small = _tail_of(op, case.but(dims={**case.dims, **few}), dim)
    if small is None:
        return
    wide = with_rows(op, small, dim, rows_for(op, small, dim, WRAPPED))
    if not few or not op.fits(wide) or most_elements(op, wide) < WRAPPED:
        return
    tail = _inputs(subject, small)
    if _seconds_for(subject, wide, small, dim, tail) > LONG:
        return
    outcome = _call_huge(subject, wide, tail, "operator")
    if not outcome.refused:
        _judge_written(op, wide, dim, outcome, result)


def _tail_of(op: Operator, case: Case, dim: str) -> Case | None:
    """The last rows alone: many, as long as they are no more than memory."""
    cases = (with_rows(op, case, dim, rows) for rows in (ROWS, *FEWER))
    return next((c for c in cases if _is_memory(op, c)), None)


def _seconds_for(
    subject: Forward | Backward, case: Case, small: Case, dim: str, tail: list[Any]
) -> float:
    """About how many of CPU time the call will take, by what so many rows take that memory is memory. By
    the public door: guards take longer than many an operator."""
    op = subject.operator
    rows = max(small.length(dim), rows_for(op, small, dim, MEASURED))
    longer = with_rows(op, case, dim, rows)
    if not _is_memory(op, longer):
        return math.inf
    padded = _padded(op, longer, tail)
    values = [v.clone() if isinstance(v, torch.Tensor) else v for v in padded]  # it may write there
    took = []
    subject.phase("operator")
    try:
        for _ in range(3):
            start = time.process_time()
            op.function(*values)
            took.append(time.process_time() - start)
    except RuntimeError:  # as will be told
        return math.inf
    finally:
        subject.phase("judge")
    # What grows as a square takes as many times as long as it has elements.
    elements = most_elements(op, case) / max(1, most_elements(op, longer))
    return min(took) * max(case.length(dim) / rows, elements)


def _before(op: Operator, small: Case, dim: str) -> int:
    """Rows of zeros for the front; 0 where even a few are too much."""
    rows = small.length(dim)
    return next((n for n in BEFORE if _is_memory(op, with_rows(op, small, dim, n + rows))), 0)


def _judge_written(
    op: Operator, case: Case, dim: str, outcome: guarded.Outcome, result: Result
) -> None:
    """Whatever its values should be, the end of a result is not what was there before the call."""
    for p, got in zip(op.outputs, outcome.results):
        if not isinstance(got, torch.Tensor) or got.numel() == 0:
            continue
        if got.element_size() == 1:  # the largest one, by saturation say
            continue
        end = got.contiguous().view(-1)[-ROWS:]
        if bool((end.view(torch.uint8) == Manner.fill).all()):
            title = f"the end of {p.name} is not written where a tensor has more than 2^31 elements"
            result.add("huge", f"unwritten-{p.name}", title, f"dim {dim} = {case.dims[dim]}")


def _pointers(subject: Forward | Backward, dim: str, tail: list[Any], front: int) -> list[int]:
    """Inputs that hold places in this dim, and can hold any."""
    inputs = enumerate(subject.operator.inputs)
    held = [i for i, p in inputs if p.is_tensor and subject.pointers.get(p.name) == dim]
    return [i for i in held if _holds(tail[i], front)]


def _aimed(
    subject: Forward | Backward, dim: str, tail: list[Any], pointer: int | None, front: int
) -> list[Any]:
    """The same, pointing as many rows further on, and so do segments."""
    values = list(tail)
    if pointer is not None:
        values[pointer] = tail[pointer] + front
    for i, p in enumerate(subject.operator.inputs):
        if subject.offsets.get(p.name) == dim and _holds(tail[i], front):
            values[i] = tail[i] + front
    return values


def _holds(value: Any, more: int) -> bool:
    """Its type has room for what is larger by so much."""
    x = torch.as_tensor(value)
    return x.numel() == 0 or more == 0 or int(x.max()) + more <= torch.iinfo(x.dtype).max


def _is_memory(op: Operator, case: Case) -> bool:
    """None of its tensors is folded or takes long to fill, as far as the plan knows them."""
    inputs, outputs, _, _ = op.plan(case)
    there = [a for a in (*inputs, *outputs) if a and a[1]]
    return all(math.prod(a[0]) * DTYPES[a[1]].itemsize < LARGE // 4 for a in there)


def _moves(
    subject: Forward | Backward, small: Case, dim: str, tail: list[Any], pointer: int | None
) -> dict[int, int]:
    """Results whose rows hang on nothing but themselves: 0 where they are the same, 1 where they are
    larger by the rows in front."""
    op = subject.operator
    before = _before(op, small, dim)
    if before == 0:
        return {}
    longer = with_rows(op, small, dim, before + small.length(dim))
    expected = _call(subject, small, tail)
    aimed = _aimed(subject, dim, tail, pointer, before)
    padded = _call(subject, longer, _padded(op, longer, aimed))
    found: dict[int, int] = {}
    if padded.refused or expected.refused:
        return found
    for k, (a, b) in enumerate(zip(padded.results, expected.results)):
        if _tails_agree(a, b):
            found[k] = 0
        elif torch.as_tensor(b).dtype in COUNTS and _tails_agree(a, b, before):
            found[k] = 1
    return found


def _inputs(subject: Forward | Backward, case: Case, profile: str = "positive") -> list[Any]:
    op, offsets = subject.operator, subject.offsets
    about, _, _, _ = op.plan(case)
    made = _made(subject, case)
    values: list[Any] = []
    for p, a in zip(op.inputs, about):
        if p.dim is not None:
            values.append(case.dims[p.dim])
        elif _is_of(made.get(p.name), p, a):
            values.append(_made_as(made[p.name], p, a))
        elif p.is_scalar:
            values.append(case.scalars.get(p.name, candidates(p)[0]))
        elif not p.is_tensor:
            values.append(tuple(a[0]))
        elif p.name in offsets:
            length = case.length(offsets[p.name])
            values.append(draw.segments(tuple(a[0]), DTYPES[a[1]], length))
        else:
            gen, dtype = draw.generator(case.seed, p.name), DTYPES[a[1]]
            below = 1 if p.name in subject.pointers or is_for_finding(op, p, dtype) else 0
            values.append(draw.values(profile, tuple(a[0]), dtype, gen, below))
    return values


def _made(subject: Forward | Backward, case: Case) -> Mapping[str, Any]:
    """By the reference's NAME_inputs; of a backward, where its dims have the names that the forward's have."""
    forward = subject.forward
    if not set(forward.operator.dims) <= set(case.dims):
        return {}
    try:
        return forward.own_inputs(case)
    except (Unanswered, ReferenceError, MemoryError):  # it is not for sizes like these
        return {}


def _is_of(value: Any, p: Parameter, about: Any) -> bool:
    """There is one, and it is what the signature wants."""
    if value is None or not p.is_tensor:
        return value is not None
    return tuple(torch.as_tensor(value).shape) == tuple(about[0])


def _made_as(value: Any, p: Parameter, about: Any) -> Any:
    return torch.as_tensor(value, dtype=DTYPES[about[1]]) if p.is_tensor else value


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
    return [
        _pad(value, a[0], device)
        if isinstance(value, torch.Tensor) and math.prod(a[0]) > value.numel()
        else _size_or(p, a, case, value)
        for p, a, value in zip(op.inputs, about, tail)
    ]


def _pad(value: torch.Tensor, shape: Any, device: torch.device | None = None) -> torch.Tensor:
    x = torch.zeros(tuple(shape), dtype=value.dtype, device=device)
    x.view(-1)[-value.numel() :] = value.flatten().to(x.device)
    return x


def _size_or(p: Any, about: Any, case: Case, value: Any) -> Any:
    if p.dim is not None:
        return case.dims[p.dim]
    if isinstance(value, torch.Tensor) and value.numel() == 0:  # as [0, 4099] is: of another size
        return value.new_empty(tuple(about[0]))
    return tuple(about[0]) if p.kind == "shape" else value


def _huge_inputs(op: Operator, case: Case, tail: list[Any]) -> list[Any]:
    about, _, _, _ = op.plan(case)
    values: list[Any] = []
    for p, a, value in zip(op.inputs, about, tail):
        n = math.prod(a[0]) * value.element_size() if isinstance(value, torch.Tensor) else 0
        if n >= LARGE:
            address, room = _wick.reserve(p.name, n, p.in_place)
            raw = value.contiguous().view(-1).view(torch.uint8)
            if raw.numel() <= room:  # what grows as a square has no such tail: it is all 0
                ctypes.memmove(address + n - raw.numel(), raw.data_ptr(), raw.numel())
            values.append(Zone(address, tuple(a[0]), value.dtype))
        elif n and math.prod(a[0]) != value.numel():
            values.append(_pad(value, a[0]))
        else:
            values.append(_size_or(p, a, case, value))
    return values


def _end_of(value: Zone, rows: int) -> torch.Tensor:
    """The last elements of what was written in place."""
    n = min(rows * math.prod(value.shape[1:]), MOST_KEPT)
    start = value.address + (math.prod(value.shape) - n) * value.dtype.itemsize
    raw = bytearray(ctypes.string_at(start, n * value.dtype.itemsize))
    return torch.frombuffer(raw, dtype=value.dtype)


def _call_huge(
    subject: Forward | Backward, case: Case, tail: list[Any], phase: str
) -> guarded.Outcome:
    op = subject.operator
    if subject.device.type != "cpu":
        return _call(subject, case, _padded(op, case, tail, subject.device))
    values = _huge_inputs(op, case, tail)
    outcome = _call(subject, case, values, phase)
    n = len(op.outputs)
    rest = iter(outcome.results[n:])  # what is not huge was read already
    written = [v for p, v in zip(op.inputs, values) if p.in_place]
    ends = [_end_of(v, ROWS) if isinstance(v, Zone) else next(rest) for v in written]
    outcome.results = [*outcome.results[:n], *ends]
    return outcome


def _call(
    subject: Forward | Backward, case: Case, values: list[Any], phase: str = "operator"
) -> guarded.Outcome:
    op = subject.operator
    if subject.device.type != "cpu":
        return _call_on(op, values, subject.phase, subject.device)
    subject.phase(phase)
    manner = Manner(threads=2, order=AT_ONCE)
    outcome = guarded.run(op, values, [True] * len(op.outputs), op.results(case), manner)
    subject.phase("judge")
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


def _ends(a: Any, b: Any, more: int) -> tuple[torch.Tensor, torch.Tensor]:
    """more: what the first is larger by, which is taken off."""
    x, y = torch.as_tensor(a).flatten(), torch.as_tensor(b).flatten()
    n = min(x.numel(), y.numel())
    return x[x.numel() - n :].double() - more, y[y.numel() - n :].double()


def _wrong(a: Any, b: Any, more: int) -> torch.Tensor:
    """Wrong by more than the order of additions explains."""
    x, y = _ends(a, b, more)
    return ~(((x - y).abs() <= 0.02 * torch.maximum(x.abs(), y.abs())) | (x == y))


def _tails_agree(a: Any, b: Any, more: int = 0) -> bool:
    return a is None or b is None or not bool((_wrong(a, b, more)).any())


def _first_difference(name: str, got: Any, wanted: Any, more: int) -> str:
    x, y = _ends(got, wanted, more)
    flat = int(_wrong(got, wanted, more).nonzero()[0])
    where = place(name, (flat - x.numel(),))
    return f"{where} (flat) is {x[flat] + more:.15g}, expected {y[flat] + more:.15g}"
