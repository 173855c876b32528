"""The backward of an operator, fed as autograd feeds it: gradients are drawn, inputs saved, outputs computed
by the operator itself. A case is always the forward's.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from . import draw
from .call import Call, Slow, Unfit
from .case import Case
from .forward import Forward, tensor
from .operator import Operator
from .oracle import ByGradient, Unanswered

SEEDS, MORE = 8, 8  # of _sensitivity
LITTLE = 2.0**-10  # times the gradients that arrive, of _lost


class Backward:
    """The backward of an operator."""

    def __init__(self, forward: Forward) -> None:
        self.forward, self.reference, self.phase = forward, forward.reference, forward.phase
        self.device = forward.device
        self.times_for_cuts: dict[str, int] = {}
        self.slow = Slow()
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
            if self.device.type != "cpu" and calls.oracle is not None:
                calls.expected()  # where it has no answer nothing is run: what fails takes the GPU along
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
            feeds = self.gradient.feeds
            call.sensitivity = lambda: _moves(call, feeds, _saved(calls))
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
                of = given[index]
                shape = of.shape if isinstance(of, torch.Tensor) else of
                value = tuple(shape) if source == "shape" else shape[axis]
            layout = case.layouts.get(p.name)
            if source == "output" and layout not in (None, "expanded"):
                kept = value
                value = draw.arrange(layout, tuple(kept.shape), lambda _, k=kept: k, case.seed)
            values.append(value)
        return values


def _about(value: torch.Tensor | None) -> Any:
    return None if value is None else (tuple(value.shape), value.dtype)


@dataclass
class _Saved:
    """An output as it was before it was rounded, and how far from that a right one may be."""

    exact: torch.Tensor
    off: torch.Tensor


def _saved(forward: Call) -> dict[int, _Saved]:
    """By the index of an output, where somebody knows."""
    if forward.oracle is None:
        return {}
    try:
        exact = forward.expected()
        samples = forward.samples(exact, 0, False)
    except (Unanswered, MemoryError):
        return {}
    found = {}
    for k, e in enumerate(exact):
        if isinstance(e, torch.Tensor) and e.is_floating_point():
            apart = [(s[k].double() - e).abs().nan_to_num(0.0, 0.0, 0.0) for s in samples]
            found[k] = _Saved(
                e.double(), functools.reduce(torch.maximum, apart, torch.zeros_like(e))
            )
    return found


def _moves(call: Call, feeds: list[Any], saved: dict[int, _Saved]) -> list[list[Any]]:
    """By how much results may be off because of what was saved."""
    found = _sensitivity(call, feeds, saved)
    return [*found, _lost(call, feeds, saved)] if call.extreme else found


def _sensitivity(call: Call, feeds: list[Any], saved: dict[int, _Saved]) -> list[list[Any]]:
    """By how much results move when saved outputs do, as far as one rounding moves them, or as they may be
    off, a logarithm that is carried over many steps say: at random, and as they are off, which in rows of
    equal numbers is in one direction. These are moved by more, and the results by less: or what they move
    by is lost in their own rounding."""
    found = []
    base = call.run()
    for seed in range(SEEDS + bool(saved)):
        moved = list(call.values)
        for k, index in _kept(call, feeds):
            gen = draw.generator(seed, f"rounding {k}") if seed < SEEDS else None
            moved[k] = _moved(call.values[k], saved.get(index), gen)
        other = call.but(moved).run()
        found.append(
            [
                _apart(a, b) / MORE if isinstance(a, torch.Tensor) else None
                for a, b in zip(base.results, other.results)
            ]
        )
    return found


def _kept(call: Call, feeds: list[Any]) -> list[tuple[int, int]]:
    """Saved outputs that a rounding moves: which argument, and which output it was."""
    return [
        (k, index)
        for k, ((source, index, *_), value) in enumerate(zip(feeds, call.values))
        if source == "output" and isinstance(value, torch.Tensor) and value.is_floating_point()
    ]


def _lost(call: Call, feeds: list[Any], saved: dict[int, _Saved]) -> list[Any]:
    """Infinite where a result of such large numbers hangs on the last bits of what was saved, exp(score - lse)
    say with scores of ten million: one rounding of it, up or down, makes half as much of it, or half as much
    again. Gradients that arrive are small here: what ends at the end of the range tells nothing. Where a
    rounding is more than 1, exp of it is anything, and so may be what is no number wherever it is moved."""
    values = [
        v * LITTLE
        if source == "gradient" and isinstance(v, torch.Tensor) and v.is_floating_point()
        else v
        for (source, *_), v in zip(feeds, call.values)
    ]
    base = call.but(values).run().results
    lost = [torch.zeros(a.shape) if isinstance(a, torch.Tensor) else None for a in base]
    steps = {k: _step(values[k], saved.get(index)) for k, index in _kept(call, feeds)}
    if any(bool((step > 1).any()) for step in steps.values()):
        for there, a in zip(lost, base):
            if there is not None:
                there[~a.isfinite()] = math.inf
    for share in (1.0, -1.0, 0.6, -0.6):
        moved = list(values)
        for k, step in steps.items():
            moved[k] = (values[k].double() + share * step).to(values[k].dtype)
        for there, a, b in zip(lost, base, call.but(moved).run().results):
            if there is not None:
                there[_is_another(a.double(), b.double())] = math.inf
    return lost


def _is_another(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """One is a number, and the other is none, or one that is half as large again."""
    near = a.isfinite() & b.isfinite() & ((b - a).abs() <= a.abs() / 2)
    return ~near & (a.isfinite() | b.isfinite())


def _apart(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """NaN has not moved; what became infinite, or was, as far as to the end of the type's range."""
    most = torch.finfo(a.dtype).max if a.is_floating_point() else math.inf
    moved = b.double().clamp(-most, most) - a.double().clamp(-most, most)
    return torch.where(moved.isnan() | (a.isinf() & b.isinf()), 0.0, moved)


def _moved(value: torch.Tensor, saved: _Saved | None, gen: torch.Generator | None) -> torch.Tensor:
    """MORE times as far as it may be off. gen: at random, else as it is."""
    wide, step = value.double(), _step(value, saved)
    if gen is None:
        was = wide if saved is None else saved.exact.reshape(wide.shape)
        error = torch.nan_to_num(wide - was, 0.0, 0.0, 0.0)
        return (wide + MORE * error.clamp(-step, step)).to(value.dtype)
    share = torch.rand(value.shape, generator=gen, dtype=torch.float64) * 2 - 1
    return (wide + share * MORE * step).to(value.dtype)


def _step(value: torch.Tensor, saved: _Saved | None) -> torch.Tensor:
    """As far as it may be off."""
    info, wide = torch.finfo(value.dtype), value.double()
    step = wide.abs().clamp(min=info.smallest_normal) * info.eps
    if saved is None:
        return step * (wide != 0)
    step = torch.maximum(step, saved.off.reshape(wide.shape))
    return step * ~((wide == 0) & (saved.exact.reshape(wide.shape) == 0))  # what was 0 stays so
