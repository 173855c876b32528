"""opcheck, of a signature's `batch` dims: a row is the same alone as among others.

vmap and DTensor take the signature's word for it.
"""

from __future__ import annotations

from typing import Any

import torch

from .. import guarded
from ..call import Call, Unfit, answered
from ..case import Case, Size
from ..finding import Result, skip
from ..forward import Forward
from ..operator import Operator, Parameter
from ..oracle import Unanswered

ROWS = 3


def judge_batch(subject: Forward, case: Case) -> Result:
    result = Result(judged=["opcheck"])
    op = subject.operator
    for dim in op.batch_dims:
        try:
            call = answered(subject, case.with_dim(dim, _size(op, dim, ROWS)))
        except (Unfit, Unanswered) as why:
            return skip(why)
        whole = call.run()
        if whole.refused:
            return Result(refused=whole.message)
        for row in range(ROWS):
            _judge_row(call, case, dim, row, whole.results, result)
            if result.findings:
                return result
    return result


def _size(op: Operator, dim: str, n: int) -> Size:
    return (n,) if op.dims[dim] else n


def _judge_row(
    call: Call, case: Case, dim: str, row: int, whole: list[Any], result: Result
) -> None:
    op = call.operator
    values = [1 if p.dim == dim else _row(v, p, dim, row) for p, v in zip(op.inputs, call.values)]
    shapes = op.results(case.with_dim(dim, _size(op, dim, 1)))
    call.phase("operator")
    alone = guarded.run(op, values, call.wanted, shapes, guarded.Manner())
    call.phase("judge")
    if alone.refused:
        return
    parameters = [*op.outputs, *(p for p in op.inputs if p.in_place)]
    for p, a, b in zip(parameters, alone.results, whole):
        if isinstance(a, torch.Tensor) and dim in p.sizes and not _agree(a, _row(b, p, dim, row)):
            result.add(
                "opcheck",
                f"batch-{dim}",
                f"`batch {dim}` does not hold: a row of {p.name} is another one among others",
                "vmap and DTensor go by it; without the word, vmap calls the operator row by row",
            )
            return


def _row(value: Any, p: Parameter, dim: str, row: int) -> Any:
    """Of what has the dim."""
    if p.kind == "shape" and dim in p.sizes:
        axis = p.sizes.index(dim) - len(p.sizes)
        return (*value[:axis], 1, *value[len(value) + axis + 1 :])
    if isinstance(value, torch.Tensor) and dim in p.sizes:
        return value.narrow(p.sizes.index(dim) - len(p.sizes), row, 1).contiguous()
    return value


def _agree(a: torch.Tensor, b: torch.Tensor) -> bool:
    """But for the order of additions."""
    if not a.is_floating_point():
        return torch.equal(a, b)
    x, y = a.double(), b.double()
    if not x.numel():
        return True
    near = (x - y).abs() <= 0.05 * torch.maximum(x.abs(), y.abs()) + 1e-3 * y.abs().nan_to_num(
        0.0
    ).amax()
    return bool((near | (x == y) | (x.isnan() & y.isnan())).all())
