"""Which inputs hold places, and in what: rows of a table, classes of a loss.

The reference is asked. Either it takes places up to the last one of a dim, and refuses what comes after.
Or, with more rows in front and numbers that are larger by as many, it says the same as before, and
something else where the numbers have stayed as they were. Or it takes numbers that rise from 0 to the size
of a dim, where segments begin and end, and refuses those that fall or go on. Or numbers up to the size of a
dim, and not one more: these are lengths. Places below 0 it may count from the end, down to the first one
of the dim, and refuse what comes before. It is also asked whether it takes any numbers at all: these are
data; or any but negative ones. Of an int that is no size, whether more of it is more to do: if not, it may
be as large as an int can be, a seed say. Of every number and str which of the usual values it takes. And
of dims which are never longer than which others: how many are to be found, and in how many.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from . import draw
from .case import Case
from .operator import DTYPES, NUMBERS, Operator, Parameter, candidates
from .oracle import cast_floats
from .reference import Reference

FEW, FRONT = 3, 5  # the size of dims, and how many rows are put in front


def is_for_finding(op: Operator, p: Parameter, dtype: torch.dtype) -> bool:
    """Its whole numbers are not computed with."""
    return not (op.is_arithmetic(p.element) or dtype.is_floating_point)


Offsets = Mapping[str, str]  # by input the dim that it cuts into segments


def _whole(op: Operator) -> Iterator[tuple[Parameter, torch.dtype]]:
    """Inputs of whole numbers that may be places, in their widest type."""
    types = _widest(op)
    for p in op.tensors:
        dtype = DTYPES.get(types.get(p.element, p.element), torch.float64)  # A is a float
        if dtype != torch.bool and (is_for_finding(op, p, dtype) or op.may_be_places(p.element)):
            yield p, dtype


def find_numbers(
    op: Operator, reference: Reference, offsets: Offsets, pointers: Mapping[str, str]
) -> set[str]:
    """Inputs of whole numbers that are data for all we know: as large as the operator has dims, which
    lengths are not, and the reference takes whatever is there."""
    found = set()
    for p, dtype in _whole(op):
        if p.name in pointers or p.name in offsets:
            continue
        if not all(any(dim in size for size in p.sizes) for dim in op.dims):
            continue
        inputs = _few_inputs(op, reference, offsets)
        if inputs is None:
            continue
        shape, gen = tuple(inputs[p.name].shape), draw.generator(0, p.name)
        inputs[p.name] = draw.values("wide", shape, dtype, gen)
        if _answers(op, reference, inputs) is not None:
            found.add(p.name)
    return found


def find_natural(op: Operator, reference: Reference, offsets: Offsets) -> set[str]:
    """Inputs that may not be negative: the reference takes what is above 0 and refuses what is below."""
    inputs = _few_inputs(op, reference, offsets)
    if inputs is None or _answers(op, reference, inputs) is None:
        return set()
    types = _widest(op)
    signed = [p.name for p in op.tensors if types.get(p.element, p.element) not in ("u8", "bool")]
    below = {name: -inputs[name] for name in signed if name not in offsets}
    return {n for n, x in below.items() if _answers(op, reference, {**inputs, n: x}) is None}


LARGER = (2**12, 2**18, 2**24)  # ints, of which the first shows a loop and a size
MORE = 50  # operations, or elements, more than before: it is one of these
AT_ONCE_S = 0.1  # of a CPU: a loop that does nothing for torch to see takes longer


def find_large(op: Operator, reference: Reference, offsets: Offsets) -> set[str]:
    """Ints that may be of any size: the reference takes them, and has as much to do as before."""
    ints = [p.name for p in op.scalars if p.kind == "int"]
    inputs = _few_inputs(op, reference, offsets) if ints else None
    if inputs is None:
        return set()
    usual = _work(op, reference, inputs)
    return {n for n in ints if all(_is_no_more(op, reference, inputs, n, k, usual) for k in LARGER)}


def find_taken(op: Operator, reference: Reference, offsets: Offsets) -> dict[str, list[Any]]:
    """By scalar that is a number or a str its values for which the answer is one of numbers."""
    scalars = [p for p in op.scalars if p.kind in (*NUMBERS, "str")]
    inputs = _few_inputs(op, reference, offsets) if scalars else None
    if inputs is None:
        return {}
    return {
        p.name: [v for v in candidates(p) if _is_of_numbers(op, reference, {**inputs, p.name: v})]
        for p in scalars
    }


def find_bounded(op: Operator, reference: Reference, offsets: Offsets) -> set[tuple[str, str]]:
    """Dims of which the first may not be longer than the second, though the signature says nothing of it."""

    def answers(*longer: str) -> bool | None:
        """With one more of these; None where it has no such sizes."""
        case = few_of(op)
        for name in longer:
            case = case.with_dim(name, (FEW + 1,) if op.dims[name] else FEW + 1)
        try:
            return _answers(op, reference, _inputs(op, reference, case, offsets)) is not None
        except RuntimeError:
            return None

    if len(op.dims) < 2 or not answers():
        return set()
    refused = [dim for dim in op.dims if answers(dim) is False]
    pairs = [(dim, other) for dim in refused for other in op.dims if other != dim]
    return {(dim, other) for dim, other in pairs if answers(other) and answers(dim, other)}


def _is_of_numbers(op: Operator, reference: Reference, inputs: dict[str, Any]) -> bool:
    answer = _answers(op, reference, inputs)
    if answer is None:
        return False
    return all(bool(a.isfinite().all()) for a in answer if isinstance(a, torch.Tensor))


def _few_inputs(op: Operator, reference: Reference, offsets: Offsets) -> dict[str, Any] | None:
    """A few of each; None where the operator has no such sizes."""
    try:
        return _inputs(op, reference, few_of(op), offsets)
    except RuntimeError:
        return None


def _is_no_more(
    op: Operator, reference: Reference, inputs: dict[str, Any], name: str, value: int, usual: int
) -> bool:
    start = time.process_time()
    work = _work(op, reference, {**inputs, name: value})
    return 0 < work < usual + MORE and time.process_time() - start < AT_ONCE_S


class _Work(TorchDispatchMode):
    """Operations, and elements that they make."""

    done = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        made = result if isinstance(result, (tuple, list)) else [result]
        self.done += 1 + sum(t.numel() for t in made if isinstance(t, torch.Tensor))
        return result


def _work(op: Operator, reference: Reference, inputs: dict[str, Any]) -> int:
    """What it takes to answer; 0 where it has no answer."""
    with _Work() as work:
        answer = _answers(op, reference, inputs)
    return work.done if answer is not None else 0


def few_of(op: Operator) -> Case:
    """A few of each."""
    dims: dict[str, Any] = {n: (FEW,) if leading else FEW for n, leading in op.dims.items()}
    return Case(op.name, _widest(op), dims)


def _more(op: Operator, dim: str) -> Case:
    """The same with rows in front."""
    return few_of(op).with_dim(dim, (FEW + FRONT,) if op.dims[dim] else FEW + FRONT)


def _widest(op: Operator) -> dict[str, str]:
    return {n: max(kinds, key=lambda k: DTYPES[k].itemsize) for n, kinds in op.variables.items()}


def _answers(op: Operator, reference: Reference, inputs: dict[str, Any]) -> list[Any] | None:
    try:
        return reference(op, {n: cast_floats(v, torch.float64) for n, v in inputs.items()})
    except (Exception, SystemExit):  # not what it is for; or a mistake, which others will tell
        return None


def find_offsets(op: Operator, reference: Reference) -> dict[str, str]:
    """By input the dim that its numbers, which do not fall, cut into segments, where there is one."""
    return _one_dim_each(op, lambda name, dim: _cuts(op, reference, name, dim))


def find_pointers(
    op: Operator, reference: Reference, offsets: Offsets, lengths: Mapping[str, str]
) -> dict[str, str]:
    """By input the dim that its numbers are places in, where there is one."""

    def points(name: str, dim: str) -> bool:
        known = name in offsets or name in lengths
        return not known and _points_into(op, reference, offsets, name, dim)

    return _one_dim_each(op, points)


def find_lengths(op: Operator, reference: Reference, offsets: Offsets) -> dict[str, str]:
    """By input the dim of which its numbers say how much counts, where there is one."""

    def measures(name: str, dim: str) -> bool:
        if name in offsets:
            return False
        try:
            inputs = _inputs(op, reference, _more(op, dim), offsets)
        except RuntimeError:  # no sizes of this operator
            return False
        lengths = [torch.full_like(inputs[name], FEW + FRONT + more) for more in (0, 1)]
        taken = [_answers(op, reference, {**inputs, name: n}) is not None for n in lengths]
        return taken == [True, False]

    return _one_dim_each(op, measures)


def find_from_end(
    op: Operator, reference: Reference, offsets: Offsets, pointers: Mapping[str, str]
) -> set[str]:
    """Inputs of places that may be below 0, which are counted from the end then."""
    found = set()
    for name, dim in pointers.items():
        inputs = _inputs(op, reference, _more(op, dim), offsets)
        if not inputs[name].dtype.is_signed:
            continue
        places = (-1, -FEW - FRONT, -FEW - FRONT - 1)
        given = [{**inputs, name: torch.full_like(inputs[name], place)} for place in places]
        if [_answers(op, reference, one) is not None for one in given] == [True, True, False]:
            found.add(name)
    return found


def _one_dim_each(op: Operator, is_for: Callable[[str, str], bool]) -> dict[str, str]:
    """By input the dim that it is for. Where it could be several, nobody knows."""
    found = {}
    for p, _ in _whole(op):
        dims = [dim for dim in op.dims if is_for(p.name, dim)]
        if len(dims) == 1:
            found[p.name] = dims[0]
    return found


def _cuts(op: Operator, reference: Reference, name: str, dim: str) -> bool:
    try:
        inputs = _inputs(op, reference, _more(op, dim), {})
    except RuntimeError:  # no sizes of this operator
        return False
    places, most = inputs[name], FEW + FRONT
    if places.dim() == 0 or places.shape[-1] < 2:
        return False
    rising = draw.segments(tuple(places.shape), places.dtype, most)
    beyond = rising.clone()
    beyond[..., -1] = most + 1
    taken = [
        _answers(op, reference, {**inputs, name: given}) is not None
        for given in (rising, beyond, rising.flip(-1))
    ]
    return taken == [True, False, False]


def _points_into(op: Operator, reference: Reference, offsets: Offsets, name: str, dim: str) -> bool:
    few, more = few_of(op), _more(op, dim)

    def answers(inputs: dict[str, Any]) -> list[Any] | None:
        return _answers(op, reference, inputs)

    try:
        before = _inputs(op, reference, few, offsets)
        after = _with_front(op, more, before)
        raised = _with_front(op, more, {**before, name: before[name] + FRONT})
    except RuntimeError:  # no sizes of this operator
        return False
    last = {**after, name: torch.full_like(after[name], FEW + FRONT - 1)}
    if answers(last) is not None and answers({**last, name: last[name] + 1}) is None:
        return True
    expected = answers(before)
    moved = _ends_alike(answers(raised), expected)
    return moved and not _ends_alike(answers(after), expected)


def _inputs(op: Operator, reference: Reference, case: Case, offsets: Offsets) -> dict[str, Any]:
    about, _, _, _ = op.plan(case)
    inputs: dict[str, Any] = {}
    for p, a in zip(op.inputs, about):
        if p.dim is not None:
            inputs[p.name] = case.dims[p.dim]
        elif p.name in offsets:
            inputs[p.name] = draw.segments(tuple(a[0]), DTYPES[a[1]], case.length(offsets[p.name]))
        elif p.is_tensor:
            gen, dtype = draw.generator(0, p.name), DTYPES[a[1]]
            drawn = draw.values("positive", tuple(a[0]), dtype, gen, FEW)
            whole = not (dtype.is_floating_point or dtype == torch.bool)
            inputs[p.name] = drawn.clamp(min=1) if whole else drawn  # a length may not be 0
        elif not p.is_scalar:
            inputs[p.name] = tuple(a[0])
        elif p.name not in reference.defaults:
            inputs[p.name] = candidates(p)[0]
    return {**inputs, **reference.types(case)}


def _with_front(op: Operator, case: Case, inputs: dict[str, Any]) -> dict[str, Any]:
    """The inputs in the sizes of a case, with zeros in front of what they were."""
    about, _, _, _ = op.plan(case)
    found = dict(inputs)
    for p, a in zip(op.inputs, about):
        if p.dim is not None:
            found[p.name] = case.dims[p.dim]
        elif p.kind == "shape":
            found[p.name] = tuple(a[0])
        elif p.is_tensor:
            x = torch.zeros(tuple(a[0]), dtype=inputs[p.name].dtype)
            _end(x, inputs[p.name].shape).copy_(inputs[p.name])
            found[p.name] = x
    return found


def _end(x: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """What lies behind the rows in front."""
    return x[tuple(slice(n - s, None) for n, s in zip(x.shape, shape))]


def _ends_alike(longer: list[Any] | None, expected: list[Any] | None) -> bool:
    pairs = [(a, b) for a, b in zip(longer or [], expected or []) if isinstance(b, torch.Tensor)]
    return bool(pairs) and all(
        torch.allclose(_end(a, b.shape).double(), b.double(), equal_nan=True) for a, b in pairs
    )
