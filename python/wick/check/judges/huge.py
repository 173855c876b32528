"""huge: more than 2^31 elements, where an index of 32 bits ends.

Inputs are zeros but for their tail, and of a result only the tail is kept (src/trial/zone.c), so that
this needs no memory to speak of. The tail is compared with what the operator makes of the tail alone.
Whole numbers may be places: a result then lies further on by as many rows as are in front, and an input
is made to point at the tail.
"""

from __future__ import annotations

import ctypes
import math
import re
import time
from collections.abc import Collection
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
from ..operator import COUNTS, DTYPES, Operator, candidates
from ..oracle import Unanswered
from ..phases import SOON
from ..plan import PACK, Planner
from ..pointers import is_for_finding
from .batch import batch_dims
from .values import place

ELEMENTS = 2**31 + 2**21
WRAPPED = 2**32 + 2**21  # where an unsigned one ends
MOST_KEPT = 1 << 20  # elements of a tail
BEYOND = 2**36  # elements, far more than are needed
LARGE = 1 << 30  # bytes; below it memory is memory
ROWS = 4099
CONVERTED = ("f16", "bf16")  # number by number, before they are computed with
MOST_WORK = 15_000_000_000  # elements that a tensor with all dims would have: others are shorter, or it takes minutes
BEFORE = (30_011, 8_009, 2_003)  # rows of zeros, to see whether they make a difference
# Seconds: what nobody waits twice for, and what is so far from the limit that it is none of a slow operator.
LONG, SOON_DONE = 25.0, 12.0
MEASURED = 1 << 20  # elements by which that is known beforehand


def plan_huge(
    op: Operator, packs: bool = False, unsigned: bool = False, asked: Collection[str] = ()
) -> list[Case]:
    """One dim is large. Another one in a further case where no tensor ties the two together: those
    beside it in a tensor are of a row, or of parameters, and small in life; or where a result may be
    a place in it. On the CPU, where it costs little, those beside it as well that are summed up, and
    the last of a matrix, which may have so many elements by itself. packs, on a GPU: once more with rows
    that can be loaded in packs. Where an input may hold places in it, once more in the least type that
    does. unsigned: the first has so many that 32 bits without a sign do not hold them either. asked: of
    these element types, if the operator has them."""
    found, tied, inner = [], set(), None
    types = _types(op, asked, packs)
    in_matrix = set() if packs else _dims_of_matrices(op)
    summed = set() if packs else _summed_dims(op)
    for dim, case in _cases(op, types).items():
        if dim in tied & in_matrix:
            inner = case
        wrapped = unsigned and not found
        if dim in tied & summed:  # alone, or it would not be that long itself
            found.append(_cases(op, types, few=1).get(dim, case))
        elif dim not in tied or dim in op.counted_dims:
            found.append(_cases(op, types, elements=WRAPPED).get(dim, case) if wrapped else case)
            tied |= _tied_to(op, dim)
            in_packs = _cases(op, types, PACK).get(dim, case)
            if packs and len(op.dims) > 1 and in_packs != case:
                found.append(in_packs)
            narrow = _cases(op, types, places="i32").get(dim, case)
            if narrow != case and narrow.length(dim) < 2**31 and _may_be_pointed_to(op, dim):
                found.append(narrow)
    return found if inner is None else [*found, inner]


def _summed_dims(op: Operator) -> set[str]:
    """Those that no result has."""
    kept = {name for p in op.outputs if p.is_tensor for size in p.sizes for name in _names(size)}
    written = {name for p in op.inputs if p.in_place for size in p.sizes for name in _names(size)}
    return set(op.dims) - kept - written


def _names(size: str) -> list[str]:
    return re.findall(r"[A-Za-z_]\w*", size)


def _dims_of_matrices(op: Operator) -> set[str]:
    """Of results: two or more that are no batch."""
    batch = {*batch_dims(op), *(n for n, leading in op.dims.items() if leading), *op.counted_dims}
    sizes = [{s for s in p.sizes if s in op.dims} - batch for p in op.outputs if p.is_tensor]
    return {dim for dims in sizes if len(dims) > 1 for dim in dims}


def _may_be_pointed_to(op: Operator, dim: str) -> bool:
    """By numbers of which there are as many as something else has elements."""
    return any(op.may_be_places(p.element) and dim not in p.sizes for p in op.tensors)


def _types(op: Operator, asked: Collection[str], on_gpu: bool) -> dict[str, str]:
    """By variable. On a GPU memory is short, and on the CPU time: there a loop of f32 takes a tenth of one
    that converts every number. A place in what is huge takes bits."""
    found = {}
    for name in op.variables:
        kinds = op.kinds_of(name, asked)
        if op.may_be_places(name):
            found[name] = max(kinds, key=lambda k: DTYPES[k].itemsize)
        elif on_gpu:
            found[name] = min(kinds, key=lambda k: (DTYPES[k].itemsize, k != "f16"))
        else:
            found[name] = min(kinds, key=lambda k: (k in CONVERTED, DTYPES[k].itemsize, k != "f16"))
    return found


def _cases(
    op: Operator,
    types: dict[str, str],
    few: int = 3,
    places: str = "",
    elements: int = ELEMENTS,
) -> dict[str, Case]:
    """By the dim that is large. few: what the others are, but for those that an int gives. places: the
    type of what is not computed with, where it has that."""
    narrow = {n: places for n in types if op.may_be_places(n) and places in op.variables[n]}
    types = {**types, **narrow}
    given = {p.dim: candidates(p)[0] for p in op.inputs if p.dim is not None}
    scalars = {p.name: candidates(p)[0] for p in op.scalars}
    found = {}
    for dim in _candidates(op):
        for n in (few,) if few == PACK else range(few, 0, -1):
            dims: dict[str, Any] = {
                name: (n,) if leading else given.get(name, n) for name, leading in op.dims.items()
            }
            for name in _in_front(op, dim):
                dims[name] = () if op.dims[name] else 1
            case = Case(op.name, types, dims, scalars, values="positive")
            large = _sized(op, case, dim, _rows_for(op, case, dim, elements))
            if op.fits(large) and _most(op, large) >= elements:
                found[dim] = large
                if large.numel < MOST_WORK:
                    break
    return found


def _rows_for(op: Operator, case: Case, dim: str, elements: int) -> int:
    """How long a dim has to be for the largest tensor to have so many elements; 0 where it does not grow."""

    def most(rows: int) -> int:
        sized = _sized(op, case, dim, rows)
        return _most(op, sized) if op.fits(sized) else 0

    per_row = most(1000) / 1000
    if per_row < 1:
        return 0
    rows = math.ceil(elements / per_row)
    if most(rows) <= 2 * elements:
        return rows
    low, high = 1000, rows  # it grows as a square
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if most(middle) < elements else (low, middle)
    return high


def _tied_to(op: Operator, dim: str) -> set[str]:
    """It, and the dims beside it in some tensor."""
    sizes = [p.sizes for p in (*op.outputs, *op.inputs) if p.is_tensor]
    return {dim, *(s for size in sizes if dim in size for s in size)}


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
    for p in (*op.outputs, *op.inputs, *op.scratch):
        if p.kind in ("tensor", "shape") and dim in p.sizes:
            for size in p.sizes[: p.sizes.index(dim)]:
                front |= {name for name in op.dims if name in size}
    return front - {dim}


def _is_in_parts(op: Operator, case: Case, dim: str) -> bool:
    """Scratch has more than the rows of this dim, one after another. What is huge and written shares
    memory but for its end: of [8, N], only the last N end there."""
    return any(
        dim in _names(size) and (size != dim or any(case.dims.get(s) not in (1, ()) for s in front))
        for p in op.scratch
        for size, front in ((size, p.sizes[:i]) for i, size in enumerate(p.sizes))
    )


def _most(op: Operator, case: Case) -> int:
    inputs, outputs, _, _ = op.plan(case)
    return max((math.prod(a[0]) for a in (*inputs, *outputs) if a and a[1]), default=0)


def _large_dim(op: Operator, case: Case) -> str:
    return max(op.dims, key=case.length)


# ---- the calls ----


def judge_huge(subject: Forward | Backward, case: Case) -> Result:
    """Where rows hang together, the same is done in another dim as well, if they do not there."""
    if why := _refused_zeros(subject.forward):
        return skip(why)
    if _most(subject.operator, case) > BEYOND:
        return Result(skipped=f"more than {BEYOND:.1e} elements, which nobody can wait for")
    result, alone = _judge_case(subject, case, False)
    for other in _cases(subject.operator, case.types).values():
        if alone or result.findings or result.refused or result.skipped:
            return result
        if other.dims != case.dims:
            found, alone = _judge_case(subject, other, True)
            result.findings += found.findings
    if not alone:
        result.notes.append(
            "huge: rows (or parts of scratch) hang together: judged was whether results are written"
        )
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
    dim = _large_dim(op, case)
    if device.type != "cpu" and (why := _too_large(op, case, device)):
        return Result(skipped=why), False
    small = _sized(op, case, dim, ROWS)
    tail = _inputs(subject, small)
    expected = _call(subject, small, tail)
    if expected.refused:
        return Result(refused=expected.message), False
    result, known = Result(judged=["huge"]), set()
    seconds = _seconds_for(subject, case, dim, tail) if device.type == "cpu" else 0.0
    shorter = _sized(op, case, dim, _rows_for(op, small, dim, ELEMENTS))
    if seconds > LONG and _most(op, case) > 1.5 * _most(op, shorter):
        seconds *= shorter.length(dim) / case.length(dim)
        case = shorter
        result.notes.append("huge: up to 2^31 elements, since 2^32 would take long")
    front = case.length(dim) - ROWS
    phase = SOON if seconds < SOON_DONE else "operator"
    for pointer in (None, *_pointers(subject, dim, tail, front)):
        # Twice: a mean may happen to be that of the rows in front.
        moves = _moves(subject, small, dim, tail, pointer)
        again = _moves(subject, small, dim, _inputs(subject, small, "offset"), pointer)
        fresh = {k: m for k, m in moves.items() if again.get(k) == m and k not in known}
        if device.type == "cpu" and _is_in_parts(op, case, dim):
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
                    f"last {ROWS} rows alone",
                    _first_difference(name, got, wanted, move * front),
                )
        if device.type == "cpu" and not result.findings:
            _judge_written(op, case, dim, outcome, result)
    return result, bool(known)


def _seconds_for(subject: Forward | Backward, case: Case, dim: str, tail: list[Any]) -> float:
    """About how many of CPU time the call will take, by what so many rows take that memory is memory. By
    the public door: guards take longer than many an operator."""
    op = subject.operator
    rows = max(ROWS, _rows_for(op, _sized(op, case, dim, ROWS), dim, MEASURED))
    longer = _sized(op, case, dim, rows)
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
    return min(took) * case.length(dim) / rows


def _before(op: Operator, small: Case, dim: str) -> int:
    """Rows of zeros for the front; 0 where even a few are too much."""
    return next((n for n in BEFORE if _is_memory(op, _sized(op, small, dim, n + ROWS))), 0)


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
    longer = _sized(op, small, dim, before + ROWS)
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
    values: list[Any] = []
    for p, a in zip(op.inputs, about):
        if p.dim is not None:
            values.append(case.dims[p.dim])
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
