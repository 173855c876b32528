"""forward, gradient and memory: what a guarded call leaves, against the reference.

One case is called three times: with a guard right behind every tensor, again with other bytes in the
results before the call, and with a guard right in front, some tensors aligned and others not. On a
GPU, where a guard is but a pattern, twice more: with nothing mapped at the one end, and at the other.
"""

from __future__ import annotations

import random
from typing import Any

import torch

from .. import fences, guarded, leftovers
from ..backward import Backward
from ..call import Call, Unfit
from ..case import Case
from ..compare import GRADIENT, RESULT, Verdict, judge, unravel
from ..device import DeviceLost
from ..draw import NOT_FINITE
from ..finding import Result, skip
from ..forward import Forward
from ..guarded import EXCUSED, FILLS, Manner, Outcome
from ..operator import Operator, candidates
from ..oracle import ByWidest, Unanswered
from ..phases import BEYOND
from ..pointers import is_for_finding

Subject = Forward | Backward
LARGE = 3_000_000  # elements: from here on, one call
FEW = 8  # elements of all inputs together, which a report shows


def number(value: Any, beside: Any = None) -> str:
    """In as many digits as tell it from the other one."""
    if not isinstance(value, float):
        return str(value)
    short = f"{value:.9g}"
    return f"{value:.17g}" if isinstance(beside, float) and short == f"{beside:.9g}" else short


def place(name: str, index: tuple[int, ...]) -> str:
    return f"{name}[{', '.join(map(str, index))}]" if index else name


def judge_values(subject: Subject, case: Case, only: set[str]) -> Result:
    result = Result()
    tag = "gradient" if isinstance(subject, Backward) else "forward"
    try:
        call = subject.prepare(case)
    except (Unfit, Unanswered) as why:
        return skip(why)
    try:
        expected = call.expected() if call.oracle is not None else None
    except Unanswered as why:
        return _judge_unanswered(subject, call, why, only)
    if tag not in only:
        expected = None  # it was asked whether it has an answer, no more
    if call.made and case.values in NOT_FINITE and tag == "forward":
        names, who = " and ".join(call.made), f"{case.op}_inputs"
        result.notes.append(f"{names}: made by {who}, not tried with NaN and infinities")
    first = call.run()
    if first.refused:
        judge_changes(call, first, result)
        usual = case.but(scalars=_usual_scalars(subject, case))
        if usual.scalars == case.scalars:
            _judge_refusal(tag, first, expected, result)
        else:  # one of them may be to blame: the reference may take more than the operator is for
            result.refused = first.message
            result.findings += judge_values(subject, usual, only).findings
        return result
    if expected is not None:
        _compare(call, tag, first.results, expected, result)
    if case.numel > LARGE:  # the same code as for less, and each call takes its time
        return result
    if "memory" in only or expected is not None:
        result.judged.append("memory")
        _judge_memory(call, first, result)
        _judge_bools(call, first, result)
        front = call.run(Manner(at_end=False, shift=_shift(case), fill=FILLS[2]))
        _report_damage(front, result)
        if expected is not None and not guarded.same(first.results, front.results):
            _compare(call, tag, front.results, expected, result)
        if call.device.type == "cuda":
            if problem := leftovers.problem(call.device.index or 0):
                result.notes.append(
                    f"what shared memory holds before a call is by chance: {problem}"
                )
            if not result.findings:
                _judge_fences(call, result)
    here = subject.device.type == "cpu"  # elsewhere it was called by a public door already
    if result.findings:  # a result that is not written is something else by each door
        return result
    if expected is not None and tag == "forward" and here and case.seed % 4 == 0:
        _judge_doors(call, case, expected, result)
    return result


def _judge_unanswered(subject: Subject, call: Call, why: Exception, only: set[str]) -> Result:
    """It may have an answer of its own, or refuse the call as the reference does; what it may not do is
    crash, and take the program along. Unless it was given places: who does not look at them says so."""
    result = skip(why)
    operator = subject.operator
    places = any(
        isinstance(v, torch.Tensor) and is_for_finding(operator, p, v.dtype)
        for p, v in zip(operator.inputs, call.values)
    )
    here = subject.device.type == "cpu"  # elsewhere, what fails takes the GPU along
    if "memory" in only and here and subject is subject.forward and not places and not call.made:
        outcome = call.run(phase=BEYOND)
        _report_damage(outcome, result)
        if not outcome.refused and not call.is_empty:
            result.notes.append("it takes calls that the reference refuses: is it meant to?")
    return result


def _shift(case: Case) -> int:
    """Which tensors begin an element off alignment: none, or any of them."""
    return random.Random(f"shift {case.seed}").choice((0, random.Random(case.seed).getrandbits(16)))


# ---- against the reference ----


def _usual_scalars(subject: Subject, case: Case) -> dict[str, Any]:
    """Those that nobody need be for are as usual. A choice or a bool is spelt out in the signature, and stays:
    but for two of them, which need not go together."""
    scalars = subject.forward.operator.scalars
    usual = {p.name: candidates(p)[0] for p in scalars}
    named = [p.name for p in scalars if p.kind in ("choice", "bool")]
    unusual = [name for name in named if case.scalars.get(name, usual[name]) != usual[name]]
    kept = unusual if len(unusual) == 1 else []
    return {name: value if name in kept else usual[name] for name, value in case.scalars.items()}


def _judge_refusal(tag: str, outcome: Outcome, expected: list[Any] | None, result: Result) -> None:
    """A fault where the reference has an answer."""
    result.refused = outcome.message
    if expected is None or outcome.status in EXCUSED:
        return
    result.judged.append(tag)
    result.refused = ""
    result.add(
        tag,
        "refused",
        f"it refuses what the reference has an answer for: {outcome.message}",
        "if it is right to: let the reference raise a ValueError, or NAME_inputs make other inputs",
    )


def judge_changes(call: Call, outcome: Outcome, result: Result, by: str = "memory") -> None:
    """What is refused has not begun. by: the judge that tells."""
    pairs = [(p.name, v) for p, v in zip(call.operator.inputs, call.values) if p.in_place]
    after = outcome.results[len(call.operator.outputs) :]
    for (name, before), now in zip(pairs, after):
        if not guarded.same([before.contiguous()], [now.contiguous()]):
            title = f"it refuses the call, but has written to {name} by then"
            result.add(by, f"changed-{name}", title, f"what it says: {outcome.message}")


def _compare(call: Call, tag: str, got: list[Any], expected: list[Any], result: Result) -> None:
    if tag not in result.judged and any(e is not None for e in expected):
        result.judged.append(tag)
    for k, (name, g, e) in enumerate(zip(call.outcome_names, got, expected)):
        if g is None or e is None:
            continue
        g, e = _as_tensor(g), _as_tensor(e)
        if call.extreme and g.shape == e.shape:  # the reference may have left the range
            e = torch.where(e.isfinite() | ~g.isfinite(), e, g.to(e.dtype))
        if call.drowned and g.shape == e.shape:
            e = torch.where(g.isnan(), g.to(e.dtype), e)
        if tag == "forward" and g.shape == e.shape and bool((e.isnan() & ~g.isnan()).any()):
            e = torch.where(g.isnan(), e, call.instead_of_nan(expected, k, g))
        whole = not e.is_floating_point()
        try:
            verdict = judge(
                g,
                e,
                call.working,
                lambda turn, k=k, whole=whole: [
                    _as_tensor(s[k]) for s in call.samples(expected, turn, whole)
                ],
                call.lenient,
                RESULT if tag == "forward" else GRADIENT,
            )
        except ValueError as error:
            result.add(tag, "shape", f"{name} has shape {list(g.shape)}, but {error}")
            continue
        result.worst = max(result.worst, verdict.worst if verdict.ok else 0.0)
        if verdict.zero_signs:
            result.notes.append(f"{name}: zeros of another sign than the reference's")
        if verdict.wild:
            result.notes.append(f"{name}: rounding errors grow beyond it, not judged")
        if not verdict.ok and isinstance(call.oracle, ByWidest) and call.working == torch.int64:
            result.notes.append(
                f"{name}: another number than in i64, which may be meant (no reference)"
            )
        elif not verdict.ok:
            _report_values(call, tag, name, verdict, result)
            if g.is_floating_point() and not e.is_floating_point():
                result.findings[-1].details.append(f"the reference returns {e.dtype}")


def _as_tensor(value: Any) -> torch.Tensor:
    """A plain number as precise as Python has it: torch would round it to f32."""
    return torch.as_tensor(value, dtype=torch.float64 if isinstance(value, float) else None)


def _report_values(call: Call, tag: str, name: str, v: Verdict, result: Result) -> None:
    assert v.index is not None
    kind = "values"
    if v.expected != v.expected or v.got != v.got:
        kind = "nan"
    elif abs(v.expected) == float("inf") or abs(v.got) == float("inf"):
        kind = "inf"
    source = "the reference" if tag == "forward" else "the reference's gradient"
    got, expected = number(v.got, v.expected), number(v.expected, v.got)
    title = f"{place(name, v.index)} is {got}, but {source} is {expected}"
    details = []
    if kind == "values" and v.allowed:
        error = abs(v.got - v.expected)
        digits = 3 if f"{error:.3g}" != f"{v.allowed:.3g}" else 9
        details.append(f"off by {error:.{digits}g}, where {v.allowed:.{digits}g} is allowed")
    if v.total > 1:
        details.append(f"{v.wrong} of {v.total} elements of {name} are wrong")
    result.add(tag, f"{kind}-{name}", title, *details, *_inputs(call))


def _inputs(call: Call) -> list[str]:
    """What went in, where it is little enough to be read."""
    tensors = [v for v in call.values if isinstance(v, torch.Tensor)]
    if not 0 < sum(v.numel() for v in tensors) <= FEW:
        return []
    given = [
        f"{p.name} = {_as_words(v.tolist() if isinstance(v, torch.Tensor) else v)}"
        for p, v in zip(call.operator.inputs, call.values)
        if v is not None and p.dim is None and (p.is_tensor or p.is_scalar)
    ]
    return [f"with {', '.join(given)}"]


def _as_words(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_as_words, value))}]"
    return f"{value:.6g}" if isinstance(value, float) else repr(value)


def _judge_doors(call: Call, case: Case, expected: list[Any], result: Result) -> None:
    """As a person calls it: the tensors as they are, through wick.ops and torch.ops."""
    op = call.operator
    for door in (op.function, op.overload):
        values = _own_copies(call)
        call.phase("operator")
        try:
            given = call.by_door(values, door)
        except (RuntimeError, TypeError) as error:
            result.add("forward", "door", f"the call is refused: {error}")
            return
        finally:
            call.phase("judge")
        _compare(call, "forward", results_of(op, given, values), expected, result)


def results_of(op: Operator, given: Any, values: list[Any]) -> list[Any]:
    """What a call by op.function returned, and then what it wrote in place; on the CPU."""
    returned = list(given) if isinstance(given, tuple) else [given]
    written = [v for p, v in zip(op.inputs, values) if p.in_place]
    found = (*returned[: len(op.outputs)], *written)
    return [r.cpu() if isinstance(r, torch.Tensor) else r for r in found]


def _own_copies(call: Call) -> list[Any]:
    """What is written in place is a copy, also where it is another argument as well."""
    pairs = list(zip(call.operator.inputs, call.values))
    copies = {id(v): v.clone() for p, v in pairs if p.in_place}
    return [copies.get(id(v), v) for _, v in pairs]


# ---- memory ----


def _report_damage(outcome: Outcome, result: Result) -> None:
    for line in dict.fromkeys(outcome.damage.splitlines()):
        result.add("memory", f"outside-{line.split()[-1]}", line)


def _judge_fences(call: Call, result: Result) -> None:
    """What is read outside of a tensor, and used for nothing, ends the call."""
    problem = fences.problem(call.device.index or 0)
    if problem:
        result.notes.append(f"reads outside of tensors that leave no trace are not seen: {problem}")
        return
    for at_end in (True, False):
        try:
            call.run(Manner(fenced=True, at_end=at_end))
        except DeviceLost as error:
            side = "behind the end" if at_end else "before the start"
            raise DeviceLost(
                f"it uses memory {side} of a tensor, where nothing is mapped ({error})"
            ) from error


def _judge_memory(call: Call, first: Outcome, result: Result) -> None:
    """With other bytes in the results before the call, they are the same after it."""
    _report_damage(first, result)
    second = call.run(Manner(fill=FILLS[1]))
    _report_damage(second, result)
    if second.refused or guarded.same(first.results, second.results):
        return
    steady = all(
        guarded.same(before.results, call.run(Manner(fill=fill)).results)
        for before, fill in ((second, FILLS[1]), (first, FILLS[0]))
    )
    for name, a, b in zip(call.outcome_names, first.results, second.results):
        if guarded.same([a], [b]):
            continue
        where = _unwritten(a, b) if isinstance(a, torch.Tensor) else ()
        if where is not None:
            result.add("memory", f"unwritten-{name}", f"{place(name, where)} is not written")
        elif steady:
            result.add(
                "memory",
                f"uninitialised-{name}",
                f"{name} depends on what was in memory before the call",
                "scratch, or the result itself, is read before it is written"
                + ("" if call.device.type == "cpu" else "; or memory outside is read"),
            )
        else:
            result.add("repeat", f"unsteady-{name}", f"{name} differs from one call to the next")


def _judge_bools(call: Call, outcome: Outcome, result: Result) -> None:
    """C reads any byte but 0 as true, and so do most functions of torch. Others count with it."""
    for name, found in zip(call.outcome_names, outcome.results):
        if not isinstance(found, torch.Tensor) or found.dtype != torch.bool:
            continue
        held = guarded.bits(found)
        other = (held > 1).nonzero()
        if len(other) and not result.findings:  # what is not written is no bool either
            flat = int(other[0])
            where = place(name, unravel(flat, found.shape))
            title = f"{where} holds the byte {int(held[flat])}, but a bool is 0 or 1"
            result.add("memory", f"bool-{name}", title)


def unwritten(call: Call, first: Outcome, phase: str = "operator") -> str:
    """The first element that a call, made with the first of the fills, has left as it was; "" for none."""
    second = call.run(Manner(fill=FILLS[1]), phase)
    for name, a, b in zip(call.outcome_names, first.results, second.results):
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
            where = _unwritten(a, b)
            if where is not None:
                return place(name, where)
    return ""


def _unwritten(a: torch.Tensor, b: torch.Tensor) -> tuple[int, ...] | None:
    """The first element that still holds what it was filled with, both times."""
    size = a.element_size()
    left = guarded.bits(a).reshape(-1, size) == FILLS[0]
    right = guarded.bits(b).reshape(-1, size) == FILLS[1]
    both = (left & right).all(1)
    if not both.any():
        return None
    return unravel(int(both.nonzero()[0]), a.shape)
