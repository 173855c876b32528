"""gradient of a gradient: foo_backward_backward as torch calls it, against the reference's.

In f32 and f64: of smaller types torch adds up parts that are rounded already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from .. import draw
from ..call import Call, Unfit, answered
from ..case import Case
from ..compare import GRADIENT, judge
from ..finding import Result, skip
from ..forward import Forward
from ..operator import Operator
from ..oracle import Oracle, Unanswered
from ..reference import Reference
from .autograd import calls, differentiable, floats, has_second_gradient
from .values import number, place

TYPES = ("f32", "f64")


def judge_second(subject: Forward, case: Case) -> Result:
    op = subject.operator
    if subject.reference is None or not has_second_gradient(op):
        return Result(skipped="unfit: there is no second gradient to compare")
    if case.types.get("T", "f64") not in TYPES:
        return Result(skipped="unfit: only f32 and f64 are judged")
    try:
        call = answered(subject, case)
    except (Unfit, Unanswered) as why:
        return skip(why)
    assert op.gradient is not None
    values = dict(zip([p.name for p in op.inputs], call.values))
    given = [op.inputs[i].name for i, _ in op.gradient.gives]
    names = [n for n in given if isinstance(values[n], torch.Tensor)]
    only = differentiable(subject, case, call, names)
    if not names or only is None or not any(only) or call.run().refused:
        return Result(skipped="unfit: nothing has a second gradient")
    vectors = _vectors(case, call, names, only)
    known = subject.inputs_for_reference(case, values)
    oracle = _BySecondGradient(op, subject.reference, known, names, only, vectors, call.working)
    try:
        with call.asking():
            expected = oracle.exact()
    except Unanswered as why:
        return skip(why)
    result = Result(judged=["gradient"])
    name = f"{op.gradient.backward}_backward"
    result.notes.append(f"{name}: judged as torch calls it, its memory is not guarded")
    leaves = [_on(call, values[n]).detach().clone() for n in names]
    there = [[_on(call, v) for v in some] for some in vectors]
    call.phase("operator")
    try:
        got = _second(calls(call, names, call.on_device(), only), leaves, *there)
    except RuntimeError as error:
        result.add("gradient", "second-fails", f"the gradient of the gradient fails: {error}")
        return result
    finally:
        call.phase("judge")
    _compare(call, oracle, names, got, expected, result)
    return result


def _compare(
    call: Call,
    oracle: Oracle,
    names: list[str],
    got: list[torch.Tensor],
    expected: list[torch.Tensor],
    result: Result,
) -> None:
    outputs = [f"d{p.name}" for p in call.operator.outputs]
    for k, (name, g, e) in enumerate(zip([*names, *outputs], got, expected)):
        samples = partial(_samples, oracle, expected, k)
        verdict = judge(g.cpu(), e, call.working, samples, True, GRADIENT)
        if not verdict.ok:
            title = (
                f"{place(f'{name}.grad', verdict.index or ())} of the gradient is "
                f"{number(verdict.got)}, but the reference's is {number(verdict.expected)}"
            )
            result.add("gradient", f"second-{name}", title)
            return


def _samples(oracle: Oracle, expected: list[Any], k: int, turn: int) -> list[Any]:
    return [s[k] for s in oracle.samples(expected, turn)]


def _on(call: Call, value: torch.Tensor) -> torch.Tensor:
    return value.to(call.device)


def _vectors(
    case: Case, call: Call, names: list[str], only: list[bool]
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """What arrives at the outputs, and then at the gradients."""
    shapes = [s for s, w in zip(call.shapes, only) if w and s and s[1].is_floating_point]
    inputs = dict(zip([p.name for p in call.operator.inputs], call.values))
    leaves = [(tuple(inputs[n].shape), inputs[n].dtype) for n in names]

    def drawn(about: Sequence[Any], what: str) -> list[torch.Tensor]:
        gens = (draw.generator(case.seed, f"{what} {k}") for k in range(len(about)))
        return [draw.values("normal", tuple(s), d, gen) for (s, d), gen in zip(about, gens)]

    return drawn(shapes, "first"), drawn(leaves, "second")


def _second(
    function: Callable[..., Sequence[torch.Tensor]],
    leaves: list[torch.Tensor],
    arriving: list[torch.Tensor],
    vectors: list[torch.Tensor],
) -> list[torch.Tensor]:
    """By the leaves and then by what arrives."""
    leaves = [leaf.requires_grad_() for leaf in leaves]
    with torch.enable_grad():
        ys = function(*leaves)
        dys = [dy.detach().to(y.dtype).requires_grad_() for dy, y in zip(arriving, ys)]
        ways = [(y, dy) for y, dy in zip(ys, dys) if y.requires_grad]
        first = torch.autograd.grad(
            [y for y, _ in ways],
            leaves,
            [dy for _, dy in ways],
            create_graph=True,
            allow_unused=True,
        )
    on = [(g, v.to(g.dtype)) for g, v in zip(first, vectors) if g is not None and g.requires_grad]
    by = [*leaves, *dys]
    if not on:
        return [torch.zeros_like(x) for x in by]
    found = torch.autograd.grad([g for g, _ in on], by, [v for _, v in on], allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(by, found)]


class _BySecondGradient(Oracle):
    def __init__(
        self,
        operator: Operator,
        reference: Reference,
        inputs: Mapping[str, Any],
        names: list[str],
        only: list[bool],
        vectors: tuple[list[torch.Tensor], list[torch.Tensor]],
        working: torch.dtype,
    ) -> None:
        super().__init__(inputs, working)
        self.operator, self.reference, self.names = operator, reference, names
        self.only, self.vectors = only, vectors

    def answer(self, inputs: Mapping[str, Any]) -> list[Any]:
        def function(*leaves: torch.Tensor) -> Sequence[torch.Tensor]:
            given = {**inputs, **dict(zip(self.names, leaves))}
            return floats(self.reference(self.operator, given), self.only)

        return _second(function, [inputs[n] for n in self.names], *self.vectors)
