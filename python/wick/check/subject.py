"""What is run and judged: an operator, or the backward of one, on the arguments of a case.

A case is always the forward's. The backward of an operator is fed as autograd feeds it: gradients
are drawn, inputs saved, outputs computed by the operator itself.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from . import device as on_device
from . import draw, guarded
from .case import Case
from .operator import DTYPES, NUMBERS, Operator, Parameter, candidates
from .oracle import ByGradient, ByReference, ByWidest, Oracle, Unanswered, working_type
from .pointers import (
    find_large,
    find_numbers,
    find_offsets,
    find_pointers,
    find_taken,
    is_for_finding,
)
from .reference import Reference, ReferenceError, broken, is_for_memory, words_of

Phase = Callable[[str], None]
CPU = torch.device("cpu")
# What a reference raises where it has no answer.
MISFITS = (ValueError, IndexError, ArithmeticError, AssertionError)
SEEDS, MORE = 8, 8  # of _sensitivity
WHOLE = {kind: kind for kind in ("zeros", "constant", "ties", "positive")}  # also for bytes
HUGE = 1 << 30  # bytes


class Unfit(Exception):
    """The case is none: its sizes do not fit the signature."""


@dataclass
class Call:
    """A call of an operator, with what it should give."""

    operator: Operator
    values: list[Any]
    wanted: list[bool]
    shapes: list[Any]  # (shape, dtype) of each output; None of a number
    oracle: Oracle | None
    working: torch.dtype
    phase: Phase
    device: torch.device = CPU
    sensitivity: Callable[[], list[list[Any]]] | None = None
    lenient: bool = False  # where the reference is not finite, any result that is not will do
    drowned: bool = False  # a backward is fed what is not finite: 0 times it is NaN, or left out
    made: tuple[str, ...] = ()  # inputs of floats that come from NAME_inputs
    tied: bool = False  # what goes in are whole numbers, and rounding is no excuse
    _heard: dict[tuple[int, bool], list[list[Any]]] = field(default_factory=dict)  # of _samples

    @property
    def outcome_names(self) -> list[str]:
        written = [p.name for p in self.operator.inputs if p.in_place]
        return [p.name for p in self.operator.outputs] + written

    def on_device(self) -> list[Any]:
        """The values where the operator runs, for those who call it by a public door."""
        if self.device.type == "cpu":
            return self.values
        return [v.to(self.device) if isinstance(v, torch.Tensor) else v for v in self.values]

    def run(self, manner: guarded.Manner | None = None, phase: str = "operator") -> guarded.Outcome:
        self.phase(phase)
        manner = manner or guarded.Manner()
        what = (self.operator, self.values, self.wanted, self.shapes, manner)
        if self.device.type == "cpu":
            outcome = guarded.run(*what)
        else:
            outcome = on_device.run(*what, self.device)
        self.phase("judge")
        return outcome

    def but(self, values: list[Any]) -> Call:
        """The same call with other values, and nobody to say what is right."""
        return replace(self, values=values, oracle=None, sensitivity=None, _heard={})

    def expected(self) -> list[Any]:
        """What the oracle says; raises Unanswered where it has nothing to say."""
        assert self.oracle is not None
        with self.asking():
            expected = self.oracle.exact()
        if self.is_empty:
            self._check_shapes(expected)
        return expected

    def instead_of_nan(self, expected: list[Any], k: int, got: torch.Tensor) -> torch.Tensor:
        """What the k-th result may be where the oracle says NaN and the operator does not: the number
        that it would be whatever stood in NaN's place; and infinite, where NaN comes of infinities."""
        assert self.oracle is not None
        try:
            with self.asking():
                found = self.oracle.regardless(expected)[k]
                infinite = found.isnan() & got.isinf()
                if infinite.any():
                    infinite &= self.oracle.is_nan_anyway(expected)[k]
                return torch.where(infinite, got.double(), found)
        except Unanswered:
            return expected[k]

    @property
    def is_empty(self) -> bool:
        return any(isinstance(v, torch.Tensor) and v.numel() == 0 for v in self.values)

    def _check_shapes(self, expected: list[Any]) -> None:
        """Some functions of torch are not made for sizes of 0 and return another shape then."""
        for p, about, e in zip(self.operator.outputs, self.shapes, expected):
            if about is not None and isinstance(e, torch.Tensor) and e.shape != tuple(about[0]):
                shape, wanted = list(e.shape), list(about[0])
                raise Unanswered(f"the reference's {p.name} has shape {shape}, expected {wanted}")

    def samples(self, base: list[Any], turn: int, whole: bool) -> list[list[Any]]:
        """What else is right. base: what the oracle has said. whole: of a result of whole numbers."""
        assert self.oracle is not None
        found = [] if whole and self.tied else self._samples(base, turn, False)
        if self.tied and (whole or self.oracle.stepped):
            found = self._samples(base, turn, True)
            if self.oracle.unstable:
                found = self._samples(base, turn, False)
        return found

    def _samples(self, base: list[Any], turn: int, strict: bool) -> list[list[Any]]:
        if (turn, strict) not in self._heard:
            self._heard[turn, strict] = self._ask_samples(base, turn, strict)
        return self._heard[turn, strict]

    def _ask_samples(self, base: list[Any], turn: int, strict: bool) -> list[list[Any]]:
        assert self.oracle is not None
        with self.asking():
            found = self.oracle.samples(base, turn, strict)
            if self.sensitivity is not None and turn == 0:
                for moved in self.sensitivity():
                    found.append([e if m is None else e + m for e, m in zip(base, moved)])
            return found

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        self.phase("reference")
        try:
            yield
        except Unanswered:
            raise
        except (MemoryError, RuntimeError) as error:
            if is_for_memory(error):
                raise MemoryError("the reference wants more than there is") from error
            raise Unanswered(words_of(error)) from error
        except MISFITS as error:
            raise Unanswered(words_of(error)) from error
        except (Exception, SystemExit) as error:
            raise broken(error) from error
        finally:
            self.phase("judge")


class Forward:
    """The operator itself."""

    def __init__(
        self,
        operator: Operator,
        reference: Reference | None,
        phase: Phase,
        device: torch.device = CPU,
    ) -> None:
        self.operator, self.reference, self.phase = operator, reference, phase
        self.device = device
        self.name = operator.name
        self.forward = self  # of its backward, too
        self.times_for_cuts: dict[str, int] = {}  # by dim, of judges/threads.py

    def prepare(self, case: Case) -> Call:
        op = self.operator
        try:
            about, outputs, _, _ = op.plan(case)
        except RuntimeError as error:
            raise Unfit(str(error)) from error
        if self.device.type == "cpu" and any(_is_huge(a) for a in (*about, *outputs) if a):
            raise Unfit("a tensor of more than 1 GiB, which only `huge` judges")
        inputs = self._draw(case, about)
        own = self._own_inputs(case)
        for p in op.inputs:
            if p.name in own and p.name not in case.absent:
                inputs[p.name] = self._like(p, own[p.name], inputs[p.name])
        shapes = [None if s is None else (s[0], DTYPES[s[1]]) for s in outputs]
        in_place = [DTYPES[a[1]] for p, a in zip(op.inputs, about) if p.in_place]
        working = working_type(case, [*(s[1] for s in shapes if s), *in_place])
        wanted = [p.name not in case.unwanted for p in op.outputs]
        values = [inputs[p.name] for p in op.inputs]
        oracle = self._oracle(case, inputs, working)
        call = Call(op, values, wanted, shapes, oracle, working, self.phase, self.device)
        call.lenient = _beyond_all(op, case)
        call.tied = case.values == "ties"
        call.made = tuple(n for n in own if _is_of_floats(inputs[n]))
        return call

    def inputs_for_reference(self, case: Case, inputs: dict[str, Any]) -> dict[str, Any]:
        """Scalars that the case leaves out are left to the reference's own defaults; but for those that
        NAME_inputs has made something of."""
        assert self.reference is not None
        left_out = {
            p.name
            for p in self.operator.scalars
            if p.name not in case.scalars
            and inputs[p.name] == p.default
            and p.name in self.reference.defaults
        }
        return {name: value for name, value in inputs.items() if name not in left_out}

    def _oracle(self, case: Case, inputs: dict[str, Any], working: torch.dtype) -> Oracle | None:
        if self.reference is not None:
            known = self.inputs_for_reference(case, inputs)
            return ByReference(self.operator, self.reference, known, working)
        if ByWidest.serves(self.operator, case):
            return ByWidest(self.operator, case, inputs, working)
        return None

    def _draw(self, case: Case, about: list[Any]) -> dict[str, Any]:
        inputs: dict[str, Any] = {}
        for p, a in zip(self.operator.inputs, about):
            if p.dim is not None:
                inputs[p.name] = case.dims[p.dim]
            elif p.is_scalar:
                inputs[p.name] = case.scalars.get(p.name, candidates(p)[0])
            elif p.name in case.absent:
                inputs[p.name] = None
            elif not p.is_tensor:
                inputs[p.name] = tuple(a[0])
            else:
                inputs[p.name] = self._draw_tensor(case, p, a[0], DTYPES[a[1]])
        for p in self.operator.inputs:
            if case.layouts.get(p.name, "").startswith("is-"):
                inputs[p.name] = inputs[case.layouts[p.name].removeprefix("is-")]
        return inputs

    def _own_inputs(self, case: Case) -> Mapping[str, Any]:
        if self.reference is None:
            return {}
        self.phase("reference")
        try:
            return self.reference.own_inputs(self.operator, case)
        except MISFITS as error:
            raise Unanswered(words_of(error)) from error
        except MemoryError:
            raise
        except (Exception, SystemExit) as error:
            raise broken(error) from error
        finally:
            self.phase("judge")

    def _like(self, p: Parameter, value: Any, drawn: Any) -> Any:
        """What the author's NAME_inputs returned, in the type and layout of what was drawn."""
        try:
            if not isinstance(drawn, torch.Tensor):
                return {"int": int, "float": float, "bool": bool}.get(p.kind, lambda v: v)(value)
            value = torch.as_tensor(value).to(drawn.dtype)
        except (TypeError, ValueError, RuntimeError):
            raise self._misfit(p, f"is {value!r}, expected {p.type}") from None
        if value.shape != drawn.shape:
            raise self._misfit(p, f"has shape {list(value.shape)}, expected {list(drawn.shape)}")
        if 0 in drawn.stride() and drawn.numel() > 1:
            return value  # an expanded tensor cannot take other values
        return drawn.copy_(value)

    def _misfit(self, p: Parameter, words: str) -> ReferenceError:
        assert self.reference is not None
        return ReferenceError(f"{self.reference.path}: {self.name}_inputs: {p.name} {words}")

    def _draw_tensor(
        self, case: Case, p: Parameter, shape: tuple[int, ...], dtype: torch.dtype
    ) -> torch.Tensor:
        data = -1 if self.operator.is_whole(case.types) else 0
        places = p.name in self.offsets or p.name in self.pointers
        if not places and not is_for_finding(self.operator, p, dtype):
            return tensor(case, p.name, shape, dtype, data)
        if dtype.itemsize == 1 and self.reference is not None and case.seed % 2:
            # Bytes may be data: as indices they are too large, as the reference will say.
            return tensor(case.but(values=WHOLE.get(case.values, "wide")), p.name, shape, dtype)
        if p.name in self.offsets:
            return tensor(case, p.name, shape, dtype, self._below(case, p) + 1, rising=True)
        if p.name in self.numbers and case.seed % 2:
            return tensor(case, p.name, shape, dtype, data)
        return tensor(case, p.name, shape, dtype, self._below(case, p))

    @functools.cached_property
    def pointers(self) -> dict[str, str]:
        """By input the dim that its numbers are places in, as far as the reference knows."""
        return self._ask(find_pointers, self.offsets) or {}

    @functools.cached_property
    def offsets(self) -> dict[str, str]:
        """By input the dim that it cuts into segments, as far as the reference knows."""
        return self._ask(find_offsets) or {}

    @functools.cached_property
    def numbers(self) -> set[str]:
        """Inputs of whole numbers that may be anything, as far as the reference knows."""
        return self._ask(find_numbers, self.offsets, self.pointers) or set()

    @functools.cached_property
    def large_ints(self) -> set[str]:
        """Ints that may be as large as they can be, as far as the reference knows."""
        return self._ask(find_large, self.offsets) or set()

    @functools.cached_property
    def taken(self) -> dict[str, list[Any]]:
        """Values of scalars that are numbers, as far as the reference knows them."""
        return self._ask(find_taken, self.offsets) or {}

    def _ask(self, find: Callable[..., Any], *known: Any) -> Any:
        """None where there is no reference to ask. One that hangs or dies does so as itself."""
        if self.reference is None:
            return None
        self.phase("reference")
        found = find(self.operator, self.reference, *known)
        self.phase("judge")
        return found

    def _below(self, case: Case, p: Parameter) -> int:
        dim = self.pointers.get(p.name) or self.offsets.get(p.name)
        if dim is None:
            return _smallest(case.dims)
        return max(case.length(dim), 0 if p.name in self.offsets else 1)


def _is_of_floats(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _beyond_all(op: Operator, case: Case) -> bool:
    """Scalars that nobody may ever give: an eps of 0, or a negative one. What is not finite then hangs on
    the formula. Of choices, only where nothing infinite goes in."""
    unusual = [
        p.kind for p in op.scalars if case.scalars.get(p.name, candidates(p)[0]) != candidates(p)[0]
    ]
    finite = case.values not in draw.NOT_FINITE
    return bool(unusual) and (finite or any(kind in NUMBERS for kind in unusual))


def _smallest(dims: dict[str, Any]) -> int:
    """The smallest dim: below it, an index fits whatever it is for."""
    sizes = [s for size in dims.values() for s in (size if isinstance(size, tuple) else (size,))]
    return max(1, min([s for s in sizes if s > 0], default=1))


def tensor(
    case: Case,
    name: str,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    below: int = 0,
    rising: bool = False,
) -> torch.Tensor:
    """The tensor of a name, drawn from the case's seed."""
    gen = draw.generator(case.seed, name)

    def make(size: tuple[int, ...]) -> torch.Tensor:
        drawn = draw.values(case.values, size, dtype, gen, below)
        return draw.rising(drawn, below - 1, whole=case.seed % 3 > 0) if rising else drawn

    return draw.arrange(case.layouts.get(name), tuple(shape), make, gen)


def answered(subject: Forward | Backward, case: Case) -> Call:
    """A call with inputs that the operator is for, as far as the reference knows: it is asked first."""
    call = subject.prepare(case)
    if call.oracle is not None:
        call.expected()
    return call


class Backward:
    """The backward of an operator."""

    def __init__(self, forward: Forward) -> None:
        self.forward, self.reference, self.phase = forward, forward.reference, forward.phase
        self.device = forward.device
        self.times_for_cuts: dict[str, int] = {}
        gradient = forward.operator.gradient
        assert gradient is not None
        self.gradient = gradient
        self.operator = Operator(forward.operator.namespace, gradient.backward)
        self.name = self.operator.name

    @functools.cached_property
    def pointers(self) -> dict[str, str]:
        """By input the dim, as the backward calls it, that its numbers are places in."""
        return self._in_own_dims(self.forward.pointers)

    @functools.cached_property
    def offsets(self) -> dict[str, str]:
        """By input the dim, as the backward calls it, that it cuts into segments."""
        return self._in_own_dims(self.forward.offsets)

    def _in_own_dims(self, found: Mapping[str, str]) -> dict[str, str]:
        """Inputs have the same names in both, dims need not."""
        names = {p.name for p in self.operator.inputs}
        own = self._own_names
        return {n: own[dim] for n, dim in found.items() if n in names and dim in own}

    @functools.cached_property
    def _own_names(self) -> dict[str, str]:
        """By a dim of the forward what the backward calls it: where both stand in the same place of a tensor."""
        forward, found = self.forward.operator, {}
        for p, (source, index, *_) in zip(self.operator.inputs, self.gradient.feeds):
            there = forward.outputs if source in ("output", "gradient") else forward.inputs
            if p.kind in ("tensor", "shape"):
                for theirs, ours in zip(reversed(there[index].sizes), reversed(p.sizes)):
                    if theirs in forward.dims and ours in self.operator.dims:
                        found.setdefault(theirs, ours)
        return found

    def prepare(self, case: Case) -> Call:
        names = [p.name for p in self.forward.operator.inputs]
        saved = any(source == "output" for source, *_ in self.gradient.feeds)
        calls = self.forward.prepare(case.but(unwanted=()))
        outputs: list[Any] = [None] * len(calls.shapes)
        if saved:
            outcome = calls.run()
            if outcome.refused:
                raise Unanswered(outcome.message)
            outputs = outcome.results
        arriving = self._arriving(case, calls)
        inputs = dict(zip(names, calls.values))
        values = self._feed(case, inputs, outputs, arriving)
        gives = [names[i] for i, _ in self.gradient.gives]
        shapes = [_about(inputs[name]) for name in gives]
        wanted = [
            about is not None and p.name not in case.unwanted
            for p, about in zip(self.operator.outputs, shapes)
        ]
        oracle = None
        if self.reference is not None:
            known = self.forward.inputs_for_reference(case, inputs)
            oracle = ByGradient(
                self.forward.operator, self.reference, known, arriving, gives, calls.working
            )
        call = replace(
            calls,
            operator=self.operator,
            values=values,
            wanted=wanted,
            shapes=shapes,
            oracle=oracle,
            lenient=True,  # inf or NaN: which of them hangs on the formula
            tied=False,  # a gradient at a tie hangs on the formula
            _heard={},
            drowned=any(isinstance(v, torch.Tensor) and not v.isfinite().all() for v in values),
        )
        if saved:
            call.sensitivity = lambda: _sensitivity(call, self.gradient.feeds, _exact(calls))
        return call

    def _arriving(self, case: Case, call: Call) -> list[torch.Tensor | None]:
        """A gradient for each output that has one."""
        found: list[torch.Tensor | None] = []
        for p, about in zip(self.forward.operator.outputs, call.shapes):
            name = f"d{p.name}"
            if about is None or not about[1].is_floating_point or name in case.absent:
                found.append(None)
            else:
                found.append(tensor(case, name, *about))
        return found

    def _feed(
        self,
        case: Case,
        inputs: dict[str, Any],
        outputs: list[Any],
        arriving: list[torch.Tensor | None],
    ) -> list[Any]:
        given = list(inputs.values())
        values: list[Any] = []
        for p, (source, index, axis, optional) in zip(self.operator.inputs, self.gradient.feeds):
            if source == "input":
                value = given[index]
            elif source == "output":
                value = outputs[index]
            elif source == "gradient":
                value = arriving[index]
                if value is None and not optional:
                    raise Unfit(f"{p.name} cannot be absent")
            else:
                shape = (
                    given[index].shape if isinstance(given[index], torch.Tensor) else given[index]
                )
                value = tuple(shape) if source == "shape" else shape[axis]
            layout = case.layouts.get(p.name)
            if source == "output" and layout not in (None, "expanded"):
                gen = draw.generator(case.seed, p.name)
                kept = value
                value = draw.arrange(layout, tuple(kept.shape), lambda _, k=kept: k, gen)
            values.append(value)
        return values


def _is_huge(about: Any) -> bool:
    """Of which a guarded call keeps the tail alone (src/trial/zone.c)."""
    shape, kind = about[:2]
    return math.prod(shape) * DTYPES[kind].itemsize >= HUGE


def _about(value: torch.Tensor | None) -> Any:
    return None if value is None else (tuple(value.shape), value.dtype)


def _exact(forward: Call) -> list[Any]:
    """The outputs before they were rounded, where somebody knows."""
    try:
        return forward.expected() if forward.oracle is not None else []
    except (Unanswered, MemoryError):
        return []


def _sensitivity(call: Call, feeds: list[Any], exact: list[Any]) -> list[list[Any]]:
    """By how much results move when saved outputs do, as far as one rounding moves them: at random, and
    as it did, which in rows of equal numbers is in one direction. These are moved by more, and the
    results by less: or what they move by is lost in their own rounding."""
    found = []
    base = call.run()
    for seed in range(SEEDS + bool(exact)):
        moved = list(call.values)
        for k, (source, index, *_) in enumerate(feeds):
            value = call.values[k]
            if source == "output" and isinstance(value, torch.Tensor) and value.is_floating_point():
                before = exact[index] if exact else None
                gen = draw.generator(seed, f"rounding {k}") if seed < SEEDS else None
                moved[k] = _moved(value, before, gen)
        other = call.but(moved).run()
        found.append(
            [
                _apart(a, b) / MORE if isinstance(a, torch.Tensor) else None
                for a, b in zip(base.results, other.results)
            ]
        )
    return found


def _apart(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """What was not finite before has not moved."""
    return torch.where(a.isfinite(), b.double() - a.double(), 0.0)


def _moved(value: torch.Tensor, before: Any, gen: torch.Generator | None) -> torch.Tensor:
    """MORE times as far as a rounding moves it. before: what it was. gen: at random, else as it did."""
    info, wide = torch.finfo(value.dtype), value.double()
    was = before.reshape(wide.shape).double() if isinstance(before, torch.Tensor) else wide
    step = wide.abs().clamp(min=info.smallest_normal) * info.eps
    step = step * ~((wide == 0) & (was == 0))  # what is 0, and was, stays so
    if gen is None:
        error = torch.nan_to_num(wide - was, 0.0, 0.0, 0.0)
        return (wide + MORE * error.clamp(-step, step)).to(value.dtype)
    share = torch.rand(value.shape, generator=gen, dtype=torch.float64) * 2 - 1
    return (wide + share * MORE * step).to(value.dtype)
