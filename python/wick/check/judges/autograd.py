"""gradient, as torch calls it: finite differences in f64, gradients that arrive in any layout, and
inputs that have none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from .. import draw
from ..backward import Backward
from ..call import Call, Unfit, answered
from ..case import Case
from ..compare import GRADIENT, judge
from ..device import moved
from ..finding import Result, skip
from ..forward import Forward
from ..operator import Operator
from ..oracle import ByGradient, Unanswered
from .values import number, place

LAYOUTS = (None, "expanded", "transposed", "sliced")


def judge_autograd(subject: Forward, case: Case) -> Result:
    """case: small, and of f64 for the finite differences."""
    result = Result()
    try:
        call = answered(subject, case)
    except (Unfit, Unanswered) as why:
        return skip(why)
    outcome = call.run()
    if outcome.refused:
        return Result(refused=outcome.message)
    op = subject.operator
    assert op.gradient is not None
    given = {op.inputs[i].name for i, _ in op.gradient.gives}
    leaves = [
        p.name
        for p, v in zip(op.inputs, call.values)
        if isinstance(v, torch.Tensor) and v.is_floating_point()
    ]
    if not leaves:
        return Result(skipped="unfit: of these types nothing has a gradient")
    result.judged.append("gradient")
    if subject.reference is not None:
        _judge_missing(subject, case, call, leaves, given, result)
        if not result.findings:
            _judge_arriving(subject, case, call, [n for n in leaves if n in given], result)
    if not result.findings and case.types.get("T", "f64") == "f64":
        _judge_differences(subject, case, call, [n for n in leaves if n in given], result)
    return result


def calls(
    call: Call, names: list[str], values: list[Any], only: list[bool] | None = None
) -> Callable[..., Any]:
    """The operator as a function of the named inputs alone; its float outputs, or some of them."""
    op = call.operator
    places = [[p.name for p in op.inputs].index(name) for name in names]

    def function(*leaves: torch.Tensor) -> tuple[torch.Tensor, ...]:
        args = list(values)
        for k, leaf in zip(places, leaves):
            args[k] = leaf
        given = op.function(*args)
        return floats(given if isinstance(given, tuple) else (given,), only)

    return function


def floats(results: Sequence[Any], only: list[bool] | None) -> tuple[torch.Tensor, ...]:
    wanted = only or [True] * len(results)
    return tuple(
        r
        for r, w in zip(results, wanted)
        if w and isinstance(r, torch.Tensor) and r.is_floating_point()
    )


def leaves_of(call: Call, names: list[str]) -> list[torch.Tensor]:
    values = dict(zip([p.name for p in call.operator.inputs], call.on_device()))
    return [values[name].detach().clone().requires_grad_() for name in names]


def _arriving(case: Case, call: Call, layout: str | None) -> list[torch.Tensor | None]:
    found: list[torch.Tensor | None] = []
    for p, about in zip(call.operator.outputs, call.shapes):
        if about is None or not about[1].is_floating_point:
            found.append(None)
            continue
        gen = draw.generator(case.seed, f"d{p.name}")

        def make(size: tuple[int, ...], dtype: torch.dtype = about[1], gen: Any = gen) -> Any:
            return draw.values("normal", size, dtype, gen)

        found.append(draw.arrange(layout, about[0], make, case.seed))
    return found


def _judge_missing(
    subject: Forward, case: Case, call: Call, leaves: list[str], given: set[str], result: Result
) -> None:
    """Inputs that the reference's result depends on, but that get no gradient."""
    names = [p.name for p in subject.operator.inputs]
    known = subject.inputs_for_reference(case, dict(zip(names, call.values)))
    oracle = ByGradient(
        subject.operator,
        subject.reference,
        known,
        _arriving(case, call, None),
        leaves,
        call.working,
    )
    try:
        call.phase("reference")
        oracle.exact()
    except Exception:  # without a gradient of its own, the reference has nothing to say here
        return
    finally:
        call.phase("judge")
    gradient = subject.operator.gradient
    assert gradient is not None
    for name in sorted(oracle.reached - given):
        result.add(
            "gradient",
            f"missing-{name}",
            f"{gradient.backward} has no result d{name}, but the reference depends on {name}",
            f"if {name} is not meant to have a gradient, the reference says {name}.detach()",
        )


def _judge_arriving(
    subject: Forward, case: Case, call: Call, names: list[str], result: Result
) -> None:
    """Through torch, with gradients that arrive in several layouts."""
    inputs = dict(zip([p.name for p in subject.operator.inputs], call.values))
    known = subject.inputs_for_reference(case, inputs)
    for layout in LAYOUTS:
        arriving = _arriving(case, call, layout)
        oracle = ByGradient(
            subject.operator, subject.reference, known, arriving, names, call.working
        )
        try:
            with call.asking():
                expected = oracle.exact()
        except Unanswered:
            return
        leaves = leaves_of(call, names)
        call.phase("operator")
        try:
            outputs = calls(call, names, call.on_device())(*leaves)
            got = _gradients(outputs, leaves, [dy for dy in arriving if dy is not None])
        except RuntimeError as error:
            result.add("gradient", "fails", f"backward fails: {error}")
            return
        finally:
            call.phase("judge")
        for k, (name, g, e) in enumerate(zip(names, got, expected)):
            g = torch.zeros_like(leaves[k].cpu()) if g is None else g.cpu()
            samples = partial(_samples, oracle, expected, k, subject, case, layout, names)
            verdict = judge(g, e, call.working, samples, True, GRADIENT)
            if not verdict.ok:
                how = f" when the gradient arrives {layout}" if layout else ""
                result.add(
                    "gradient",
                    f"autograd-{name}",
                    f"{place(f'{name}.grad', verdict.index or ())} is {number(verdict.got)}{how}, "
                    f"but the reference's is {number(verdict.expected)}",
                    *_hints(call),
                )
                return


def _gradients(
    outputs: Sequence[torch.Tensor], leaves: list[torch.Tensor], arriving: list[torch.Tensor]
) -> Sequence[torch.Tensor | None]:
    """What torch passes back. Outputs whose gradient the backward does not take have none."""
    ways = [(y, moved(dy, y.device)) for y, dy in zip(outputs, arriving) if y.requires_grad]
    if not ways:
        return [None] * len(leaves)
    ys, dys = zip(*ways)
    return torch.autograd.grad(ys, leaves, dys, allow_unused=True)


def _hints(call: Call) -> list[str]:
    """Outputs without a gradient, for which the reference may have one, as those have not that are kept."""
    outputs, gradient = call.operator.outputs, call.operator.gradient
    assert gradient is not None
    known = {index for source, index, *_ in gradient.feeds if source in ("gradient", "output")}
    return [
        f"{gradient.backward} does not take d{p.name}: if {p.name} is there for the backward alone, "
        "the reference returns it with .detach()"
        for i, (p, about) in enumerate(zip(outputs, call.shapes))
        if i not in known and about is not None and about[1].is_floating_point
    ]


def _samples(
    oracle: ByGradient,
    expected: list[Any],
    k: int,
    subject: Forward,
    case: Case,
    layout: str | None,
    names: list[str],
    turn: int,
) -> list[Any]:
    """Other values that the gradient of the k-th name may have."""
    others = oracle.samples(expected, turn)
    if turn == 0:
        others += _moved(subject, case, layout, names, expected)
    return [s[k] for s in others]


def _moved(
    subject: Forward, case: Case, layout: str | None, names: list[str], expected: list[Any]
) -> list[list[Any]]:
    """What the backward may give because saved outputs are rounded to their type."""
    backward = Backward(subject)
    arriving = {f"d{p.name}": layout for p in subject.operator.outputs if layout}
    call = backward.prepare(case.but(layouts={**case.layouts, **arriving}))
    if call.sensitivity is None:
        return []
    gives = [subject.operator.inputs[i].name for i, _ in backward.gradient.gives]
    places = [gives.index(name) for name in names]
    return [
        [e if moved[k] is None else e + moved[k].reshape(e.shape) for k, e in zip(places, expected)]
        for moved in call.sensitivity()
    ]


def _judge_differences(
    subject: Forward, case: Case, call: Call, names: list[str], result: Result
) -> None:
    """gradcheck. Where it does not take the reference either, the function has no such gradient."""
    leaves = leaves_of(call, names)
    if not leaves or not any(leaf.numel() for leaf in leaves):
        return
    only = differentiable(subject, case, call, names)
    if only is not None and not any(only):
        return
    reference = reference_function(subject, case, call, names)
    checks = [torch.autograd.gradcheck]
    if has_second_gradient(subject.operator):
        checks.append(torch.autograd.gradgradcheck)
    for check in checks:
        name = check.__name__
        call.phase("operator")
        said = objection(check, calls(call, names, call.on_device(), only), leaves)
        call.phase("judge")
        if not said:
            continue
        if subject.reference is not None:
            here = [leaf.detach().cpu().requires_grad_() for leaf in leaves]  # as all its inputs
            try:
                with call.asking():
                    other = objection(check, lambda *leaves: floats(reference(*leaves), only), here)
            except Unanswered as why:  # it refuses what is a little different
                other = str(why)
            if other:
                result.notes.append(f"{name} does not take the reference either: not judged by it")
                return
        result.add("gradient", name, f"{name} in f64 fails", *said.strip().splitlines()[:6])
        return


def has_second_gradient(op: Operator) -> bool:
    """foo_backward_backward is there."""
    assert op.gradient is not None
    return Operator(op.namespace, op.gradient.backward).gradient is not None


def objection(
    check: Callable[..., bool], function: Callable[..., Any], leaves: list[torch.Tensor]
) -> str:
    """What torch's check says against it; "" if nothing."""
    try:
        check(function, leaves, raise_exception=True)
    except RuntimeError as error:
        return str(error) or "it raises an error without words"
    return ""


def reference_function(
    subject: Forward, case: Case, call: Call, names: list[str]
) -> Callable[..., Any]:
    inputs = dict(zip([p.name for p in subject.operator.inputs], call.values))

    def function(*leaves: torch.Tensor) -> list[Any]:
        assert subject.reference is not None
        known = subject.inputs_for_reference(case, inputs)
        return subject.reference(subject.operator, {**known, **dict(zip(names, leaves))})

    return function


def differentiable(subject: Forward, case: Case, call: Call, names: list[str]) -> list[bool] | None:
    """Which outputs have a gradient, as the reference knows: what it detaches, or does not return, is there
    for the backward alone. None where nobody knows."""
    if subject.reference is None:
        return None
    leaves = [leaf.cpu().detach().requires_grad_() for leaf in leaves_of(call, names)]
    try:
        with call.asking(), torch.enable_grad():
            results = reference_function(subject, case, call, names)(*leaves)
    except (Unanswered, MemoryError):
        return None
    return [isinstance(r, torch.Tensor) and r.requires_grad for r in results]
