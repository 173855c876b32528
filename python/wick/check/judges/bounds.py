"""refuse: an operator that looks at the places in an input refuses the first one outside."""

from __future__ import annotations

import torch

from ..call import Call, Unfit, answered
from ..case import Case
from ..finding import Result, skip
from ..forward import Forward
from ..guarded import Manner
from ..oracle import Unanswered, cast_floats
from ..phases import BEYOND, OUTSIDE
from .values import judge_changes, unwritten

# Where no memory is, also when cut to 32 bits; in a narrow type as far as it goes, which ends in a guard.
FAR = 2**40 + 2**30
AROUND = 2**32  # what is cut to 32 bits is the same with so much more


def judge_bounds(subject: Forward, case: Case) -> Result:
    """Whether places are looked at is up to the operator: one that is given a place far outside and
    reads or writes there does not, and its end is no fault. One that refuses it looks, and is not to end for
    what lies on the other side."""
    try:
        call = answered(subject, case)
    except (Unfit, Unanswered) as why:
        return skip(why)
    result = Result(judged=["refuse"])
    ends = {**subject.offsets, **subject.lengths}
    for name, dim in (*subject.pointers.items(), *ends.items()):
        size = case.dims[dim]
        k = [p.name for p in call.operator.inputs].index(name)
        places = call.values[k]
        if not isinstance(size, int) or not isinstance(places, torch.Tensor) or places.numel() == 0:
            continue
        n = size + (name in ends)  # a segment may end behind the last one, and a length be all
        info = torch.iinfo(places.dtype)
        far, below = min(FAR, info.max), max(-FAR, info.min)
        looks = False  # at places; if so, it has to on both sides, whichever it is asked for first
        sides = [(far, n), (far, AROUND + n - 1), (below, -n - 1), (below, -1)]
        for outside, first in sides[:: -1 if case.seed % 2 else 1]:
            if first == outside or not info.min <= first <= info.max:
                continue
            if any(_has_answer(call, name, _with(places, one)) for one in (outside, first)):
                continue
            if looks:  # an end beside a tensor says more than one far away
                _with_place(call, k, first).run(Manner(at_end=first > 0), BEYOND)
            phase = BEYOND if looks else OUTSIDE
            far_off = _with_place(call, k, outside)
            survived = far_off.run(phase=phase)
            if not survived.refused:
                if where := unwritten(far_off, survived, phase):
                    title = f"{where} is not written for {outside} in {name}, where {dim} is {size}"
                    why = "if it looks at places, and does nothing then, it should refuse the call"
                    result.add("refuse", f"unwritten-{name}", title, why)
                    return result
                continue
            looks = True
            judge_changes(far_off, survived, result, "refuse")
            taken = _with_place(call, k, first).run(Manner(room=_room(case)))
            if not taken.refused:
                title = f"it takes {first} in {name}, where {dim} is {size}, though it refuses {outside}"
                words = ["the reference refuses both", *taken.damage.splitlines()]
                result.add("refuse", f"bounds-{name}", title, *words)
                return result  # the next call may be the last
    return result


def _room(case: Case) -> int:
    """For all rows, and one more, of whatever the place is in."""
    return 2 * 8 * case.numel


def _with(places: torch.Tensor, other: int) -> torch.Tensor:
    """The last of them is another one; the first, if it is negative: they may have to rise."""
    found = places.clone()
    found.view(-1)[0 if other < 0 else -1] = other
    return found


def _with_place(call: Call, k: int, place: int) -> Call:
    values = list(call.values)
    values[k] = _with(values[k], place)
    return call.but(values)


def _has_answer(call: Call, name: str, places: torch.Tensor) -> bool:
    assert call.oracle is not None
    inputs = {**call.oracle.inputs, name: places}
    try:
        call.oracle.answer({n: cast_floats(v, torch.float64) for n, v in inputs.items()})
    except (Exception, SystemExit):
        return False
    return True
