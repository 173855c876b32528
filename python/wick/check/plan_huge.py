"""Which cases are huge: one dim so long that a tensor has more elements than 32 bits count."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from typing import Any

from .case import Case
from .operator import DTYPES, Operator, candidates
from .sizes import PACK

ELEMENTS = 2**31 + 2**21
WRAPPED = 2**32 + 2**21  # where an unsigned one ends
BLOCK = 2064  # elements of a row: more than a block has threads, and packs
CONVERTED = ("f16", "bf16")  # number by number, before they are computed with
MOST_WORK = 15_000_000_000  # elements that a tensor with all dims would have: others are shorter, or it takes minutes


def plan_huge(
    op: Operator, packs: bool = False, unsigned: bool = False, asked: Collection[str] = ()
) -> list[Case]:
    """One dim is large. Another one in a further case where no tensor ties the two together: those
    beside it in a tensor are of a row, or of parameters, and small in life; or where a result may be
    a place in it. On the CPU, where it costs little, those beside it as well that are summed up, and
    the last of a matrix, which may have so many elements by itself. packs, on a GPU: once more with rows
    that can be loaded in packs, and with rows that take a block each. Where an input may hold places in
    it, once more in the least type that does. unsigned: the first has so many that 32 bits without a sign
    do not hold them either. asked: of these element types, if the operator has them."""
    found, tied, inner = [], set(), None
    types = _types(op, asked, packs)
    in_matrix = set() if packs else _dims_of_matrices(op)
    summed = set() if packs else _summed_dims(op)
    for dim, case in cases_of(op, types).items():
        if dim in tied & in_matrix:
            inner = case
        wrapped = unsigned and not found
        if dim in tied & summed:  # alone, or it would not be that long itself
            found.append(cases_of(op, types, few=1).get(dim, case))
        elif dim not in tied or dim in op.counted_dims:
            found.append(cases_of(op, types, elements=WRAPPED).get(dim, case) if wrapped else case)
            tied |= _tied_to(op, dim)
            in_packs = cases_of(op, types, PACK).get(dim, case)
            if packs and len(op.dims) > 1 and in_packs != case:
                found.append(in_packs)
            found += _in_blocks(op, types, dim) if packs else []
            narrow = cases_of(op, types, places="i32").get(dim, case)
            if narrow != case and narrow.length(dim) < 2**31 and _may_be_pointed_to(op, dim):
                found.append(narrow)
    return found if inner is None else [*found, inner]


def _in_blocks(op: Operator, types: dict[str, str], dim: str) -> list[Case]:
    """That dim in front of long rows, if any tensor has it so."""
    given = {p.dim for p in op.inputs if p.dim is not None}
    last = [p.sizes[-1] for p in (*op.outputs, *op.inputs) if p.is_tensor and dim in p.sizes]
    rows = [s for s in last if s != dim and s in op.dims and s not in given and not op.dims[s]]
    if not rows:
        return []
    case = cases_of(op, types, few=1, row={rows[0]: BLOCK}).get(dim)
    return [case] if case is not None and case.dims[rows[0]] == BLOCK else []


def _summed_dims(op: Operator) -> set[str]:
    """Those that no result has."""
    kept = {name for p in op.outputs if p.is_tensor for size in p.sizes for name in _names(size)}
    written = {name for p in op.inputs if p.in_place for size in p.sizes for name in _names(size)}
    return set(op.dims) - kept - written


def _names(size: str) -> list[str]:
    return re.findall(r"[A-Za-z_]\w*", size)


def _dims_of_matrices(op: Operator) -> set[str]:
    """Of results: two or more that are no batch."""
    batch = {*op.batch_dims, *(n for n, leading in op.dims.items() if leading), *op.counted_dims}
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


def cases_of(
    op: Operator,
    types: dict[str, str],
    few: int = 3,
    places: str = "",
    elements: int = ELEMENTS,
    row: Mapping[str, int] | None = None,
) -> dict[str, Case]:
    """By the dim that is large. few: what the others are, but for those that an int gives, and for row.
    places: the type of what is not computed with, where it has that."""
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
            dims |= row or {}
            for name in _in_front(op, dim):
                dims[name] = () if op.dims[name] else 1
            case = Case(op.name, types, dims, scalars, values="positive")
            large = with_rows(op, case, dim, rows_for(op, case, dim, elements))
            if op.fits(large) and most_elements(op, large) >= elements:
                found[dim] = large
                if large.numel < MOST_WORK:
                    break
    return found


def rows_for(op: Operator, case: Case, dim: str, elements: int) -> int:
    """How long a dim has to be for the largest tensor to have so many elements; 0 where it does not grow."""

    def most(rows: int) -> int:
        sized = with_rows(op, case, dim, rows)
        return most_elements(op, sized) if op.fits(sized) else 0

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


def with_rows(op: Operator, case: Case, dim: str, rows: int) -> Case:
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


def is_in_parts(op: Operator, case: Case, dim: str) -> bool:
    """Scratch has more than the rows of this dim, one after another. What is huge and written shares
    memory but for its end: of [8, N], only the last N end there."""
    return any(
        dim in _names(size) and (size != dim or any(case.dims.get(s) not in (1, ()) for s in front))
        for p in op.scratch
        for size, front in ((size, p.sizes[:i]) for i, size in enumerate(p.sizes))
    )


def most_elements(op: Operator, case: Case) -> int:
    inputs, outputs, _, _ = op.plan(case)
    return max((math.prod(a[0]) for a in (*inputs, *outputs) if a and a[1]), default=0)


def large_dim(op: Operator, case: Case) -> str:
    return max(op.dims, key=case.length)
