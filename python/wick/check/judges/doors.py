"""refuse: wrong calls get an error that names the operator. opcheck: torch's own tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from ..call import Call, Unfit, answered
from ..case import Case
from ..finding import Result, skip
from ..forward import Forward
from ..guarded import Outcome
from ..operator import NAMES
from ..oracle import Unanswered

Wrong = tuple[str, list[Any]]
TRIES = 12  # until an operator's results are numbers
AOT_TEST = "test_aot_dispatch_dynamic"
TESTS = ("test_schema", "test_autograd_registration", "test_faketensor", AOT_TEST)


def judge_refusals(subject: Forward, case: Case) -> Result:
    """Wrong type, shape and device for each tensor, by both doors."""
    result = Result()
    try:
        call = subject.prepare(case)
    except (Unfit, Unanswered) as why:
        return skip(why)
    result.judged.append("refuse")
    op = subject.operator
    for what, values in _wrong_calls(call):
        for door, words in ((op.function, "wick.ops"), (op.overload, "torch.ops")):
            call.phase("operator")
            try:
                door(*values)
            except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
                if op.name not in str(error):
                    result.notes.append(f"{what}: the error does not name the operator: {error}")
                continue
            finally:
                call.phase("judge")
            result.add("refuse", "accepted", f"{words} takes a call with {what}")
    return result


def _wrong_calls(call: Call) -> Iterator[Wrong]:
    op = call.operator
    for k, p in enumerate(op.inputs):
        values = call.on_device()
        value = values[k]
        if not isinstance(value, torch.Tensor):
            continue

        def but(other: Any, k: int = k, values: list[Any] = values) -> list[Any]:
            return [*values[:k], other, *values[k + 1 :]]

        yield f"complex {p.name}", but(torch.zeros_like(value, dtype=torch.complex64))
        yield f"a str for {p.name}", but("x")
        for dtype in (torch.float32, torch.float64, torch.int64):
            fits = not _may_be(call, k, dtype)
            if fits:
                yield f"{dtype} {p.name}", but(value.to(dtype))
        if "*" not in p.type:
            yield f"{p.name} of one more dimension", but(value[None])
        others = [v for i, v in enumerate(call.values) if i != k and isinstance(v, torch.Tensor)]
        if others:
            yield f"{p.name} on another device", but(value.to("meta"))


def _may_be(call: Call, k: int, dtype: torch.dtype) -> bool:
    """Whether the signature lets this tensor have that type in this call."""
    p, op = call.operator.inputs[k], call.operator
    if call.values[k].dtype == dtype:
        return True
    alone = sum(q.is_tensor and q.element == p.element for q in op.inputs) == 1
    uses = any(q.is_tensor and q.element == "A" for q in op.inputs) and p.element == "T"
    return alone and not uses and NAMES.get(dtype) in op.variables.get(p.element, [])


def _has_nan(outcome: Outcome) -> bool:
    return any(isinstance(r, torch.Tensor) and bool(r.isnan().any()) for r in outcome.results)


def _with_numbers(subject: Forward, case: Case) -> tuple[Call, Outcome]:
    """The case, or one like it that the reference has an answer to and whose results are numbers."""
    found, why = None, Unanswered("")
    for k in range(TRIES):
        kind = "positive" if k % 2 else case.values
        try:
            call = answered(subject, case.but(seed=case.seed + k, values=kind))
        except Unanswered as error:
            why = error
            continue
        found = call, call.run()
        if found[1].refused or not _has_nan(found[1]):
            break
    if found is None:
        raise why
    return found


def judge_opcheck(subject: Forward, case: Case) -> Result:
    result = Result()
    try:
        call, outcome = _with_numbers(subject, case)
    except (Unfit, Unanswered) as why:
        return skip(why)
    if outcome.refused:
        return Result(refused=outcome.message)
    op = subject.operator
    if any(about is None for about in call.shapes):
        return Result(skipped="returns a plain number, which has no fake implementation")
    if _has_nan(outcome):
        return Result(skipped="results are NaN, which opcheck takes for different ones")
    gives = set() if op.gradient is None else {i for i, _ in op.gradient.gives}
    values = [
        v.clone().requires_grad_()
        if k in gives and isinstance(v, torch.Tensor) and v.is_floating_point()
        else v
        for k, v in enumerate(call.on_device())
    ]
    keywords = op.wants(call.wanted)
    result.judged.append("opcheck")
    call.phase("operator")
    said = _opcheck(call, values, keywords)
    call.phase("judge")
    for test, outcome in said.items():
        if outcome != "SUCCESS":
            lines = [line for line in str(outcome).strip().splitlines() if line.strip()]
            result.add("opcheck", test, f"{test}: {lines[0] if lines else outcome}", *lines[1:4])
    return result


def _opcheck(call: Call, values: list[Any], keywords: dict[str, Any]) -> dict[str, Any]:
    """What torch says, by test. AOT_TEST adds results up, in the type of the first, and fails where that is
    of whole numbers and a later one is not: it is asked without gradients then."""
    op, tests = call.operator.overload, TESTS
    floats = [about[1].is_floating_point for about in call.shapes if about is not None]
    said = {}
    if any(floats) and not floats[0]:
        tests = tuple(t for t in TESTS if t != AOT_TEST)
        plain = tuple(v.detach() if isinstance(v, torch.Tensor) else v for v in values)
        said = torch.library.opcheck(
            op, plain, keywords, test_utils=AOT_TEST, raise_exception=False
        )
    return said | torch.library.opcheck(
        op, tuple(values), keywords, test_utils=tests, raise_exception=False
    )
