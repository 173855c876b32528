"""Who is wrong where gradients differ? Now and then it is the reference: some functions of torch have a
gradient that does not hold for numbers that nobody gives them (F.cosine_similarity below a large eps).

It is to blame for a scalar's value if finite differences speak against its gradient and for the
operator's, and for the scalar's usual value they do not. One that has another gradient on purpose
(.detach(), a straight-through estimator) has it for the usual value too, and keeps its word.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from ..call import Unfit, answered
from ..case import Case
from ..finding import Result
from ..forward import Forward
from ..operator import NUMBERS, candidates
from ..oracle import Unanswered
from .autograd import calls, differentiable, floats, leaves_of, objection, reference_function

NOT_BY_REFERENCE = ("gradcheck", "gradgradcheck", "fails", "second-fails")
SEEDS, SIZES = 4, (1, 2, 3)
NOTE = "the reference's gradient fails gradcheck for unusual scalars, the operator's does not: not judged"


def leave_doubtful(forward: Forward, case: Case, result: Result) -> None:
    """Takes back what was found by a reference that is wrong itself."""
    doubtful = [
        f
        for f in result.findings
        if f.judge == "gradient"
        and f.kind not in NOT_BY_REFERENCE
        and not f.kind.startswith("missing-")
    ]
    if doubtful and _is_to_blame(forward, case):
        result.findings = [f for f in result.findings if f not in doubtful]
        result.notes.append(NOTE)


def _is_to_blame(forward: Forward, case: Case) -> bool:
    usual = {p.name: candidates(p)[0] for p in forward.operator.scalars if p.kind in NUMBERS}
    unusual = {n: v for n, v in case.scalars.items() if n in usual and v != usual[n]}
    if forward.reference is None or not unusual:
        return False
    asked = (tuple(sorted(case.scalars.items(), key=str)), case.absent)
    if asked not in forward.doubts:
        as_usual = case.but(scalars={**case.scalars, **{n: usual[n] for n in unusual}})
        forward.doubts[asked] = _is_wrong(forward, case) and not _is_wrong(forward, as_usual)
    return forward.doubts[asked]


def _small(forward: Forward, case: Case) -> Iterator[Case]:
    """In f64, a few elements, several times."""
    op = forward.operator
    types = {n: "f64" if "f64" in op.variables[n] else k for n, k in case.types.items()}
    inputs = {p.name for p in op.inputs}  # what arrives at a backward may be absent, too
    absent = tuple(n for n in case.absent if n in inputs)
    for size in SIZES:
        dims: dict[str, Any] = {n: (size,) if leading else size for n, leading in op.dims.items()}
        for seed in range(SEEDS):
            yield Case(op.name, types, dims, case.scalars, seed=seed, absent=absent)


def _is_wrong(forward: Forward, case: Case) -> bool:
    """Finite differences speak against the reference, and not against the operator."""
    op = forward.operator
    assert op.gradient is not None
    given = {op.inputs[i].name for i, _ in op.gradient.gives}
    for small in _small(forward, case):
        try:
            call = answered(forward, small)
        except (Unfit, Unanswered):
            continue
        names = [
            p.name
            for p, v in zip(op.inputs, call.values)
            if p.name in given and isinstance(v, torch.Tensor) and v.dtype == torch.float64
        ]
        only = differentiable(forward, small, call, names)
        if not names or only is None or not any(only):
            return False
        leaves = leaves_of(call, names)
        here = [leaf.detach().cpu().requires_grad_() for leaf in leaves]
        function = reference_function(forward, small, call, names)
        try:
            with call.asking():
                said = objection(
                    torch.autograd.gradcheck, lambda *x, f=function, o=only: floats(f(*x), o), here
                )
        except Unanswered:  # it refuses what is a little different
            continue
        call.phase("operator")
        operators = calls(call, names, call.on_device(), only)
        wrong = bool(said) and not objection(torch.autograd.gradcheck, operators, leaves)
        call.phase("judge")
        if wrong:
            return True
    return False
