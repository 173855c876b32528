"""An operator on the arguments of a case: what goes in, and who says what comes out."""

from __future__ import annotations

import functools
import inspect
import math
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from . import draw, outside
from .call import CPU, MISFITS, Call, Phase, Slow, Unfit
from .case import Case
from .operator import DTYPES, NUMBERS, Operator, Parameter, candidates
from .oracle import ByReference, ByWidest, Oracle, Unanswered, working_type
from .pointers import (
    few_of,
    find_bounded,
    find_from_end,
    find_large,
    find_lengths,
    find_natural,
    find_numbers,
    find_offsets,
    find_pointers,
    find_taken,
    is_for_finding,
)
from .reference import Reference, ReferenceError, broken, words_of

WHOLE = {kind: kind for kind in ("zeros", "constant", "ties", "positive")}  # also for bytes
WITH_ENDS = ("wide", "special")
NEAR, EPS = 2**-32, sys.float_info.epsilon
HUGE = 1 << 30  # bytes
FROM_END = 0.25  # of the calls have places below 0


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
        self.slow = Slow()
        self.doubts: dict[Any, bool] = {}  # by scalars and what is absent, of judges/doubt.py
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
        own = self.own_inputs(case)
        for p in op.inputs:
            if p.name in own and p.name not in case.absent:
                inputs[p.name] = self._like(p, own[p.name], inputs[p.name])
        shapes = op.results(case)
        in_place = [DTYPES[a[1]] for p, a in zip(op.inputs, about) if p.in_place]
        working = working_type(case, [*(s[1] for s in shapes if s), *in_place])
        wanted = [p.name not in case.unwanted for p in op.outputs]
        values = [inputs[p.name] for p in op.inputs]
        oracle = self._oracle(case, inputs, working)
        call = Call(op, values, wanted, shapes, oracle, working, self.phase, self.device)
        call.lenient = _beyond_all(op, case)
        call.tied = case.values == "ties"
        call.extreme = case.values in draw.EXTREME
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
        known = {name: value for name, value in inputs.items() if name not in left_out}
        return {**known, **self.reference.types(case)}

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

    def own_inputs(self, case: Case) -> Mapping[str, Any]:
        if self.reference is None:
            return {}
        self.phase("reference")
        try:
            return self.reference.own_inputs(self.operator, case)
        except MISFITS as error:
            raise Unanswered(words_of(error)) from error
        except MemoryError:
            raise
        except TypeError as error:
            raise ReferenceError(f"{broken(error)}{self._about_leading(case)}") from error
        except (Exception, SystemExit) as error:
            raise broken(error) from error
        finally:
            self.phase("judge")

    def _about_leading(self, case: Case) -> str:
        """What is easily forgotten: `*N`, if it is asked for, is any number of dims."""
        assert self.reference is not None and self.reference.inputs is not None
        asked = inspect.signature(self.reference.inputs).parameters
        return "".join(
            f"\n{n} is a tuple of sizes, here {case.dims[n]}: torch.rand(*{n}, 3), say"
            for n, is_leading in self.operator.dims.items()
            if is_leading and n in asked
        )

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
        natural = p.name in self.natural and case.values != "negative"
        ends = []
        if case.values in WITH_ENDS and case.seed % 2 == 0:
            ends = self._thresholds(case) if dtype == torch.float64 else self._ends(case)
        places = p.name in self.offsets or p.name in self.pointers or p.name in self.lengths
        if not places and not is_for_finding(self.operator, p, dtype):
            return tensor(case, p.name, shape, dtype, data, natural=natural, ends=ends)
        if dtype.itemsize == 1 and self.reference is not None and case.seed % 2:
            # Bytes may be data: as indices they are too large, as the reference will say.
            return tensor(case.but(values=WHOLE.get(case.values, "wide")), p.name, shape, dtype)
        if p.name in self.offsets:
            return tensor(case, p.name, shape, dtype, self._below(case, p) + 1, rising=True)
        if p.name in self.lengths:  # most often all counts
            full = case.seed % 2 == 1 and case.values != "zeros"
            return tensor(case, p.name, shape, dtype, self._below(case, p) + 1, full=full)
        if p.name in self.numbers and case.seed % 2:
            return tensor(case, p.name, shape, dtype, data, natural=natural)
        from_end = _often(FROM_END, p.name, case) and p.name in self.from_end
        return tensor(case, p.name, shape, dtype, self._below(case, p), from_end=from_end)

    def _ends(self, case: Case) -> list[int]:
        """Numbers at which a loop or a table may end: sizes and ints, and what is next to them; and letters of
        a str."""
        given = [case.scalars.get(p.name, p.default) for p in self.operator.scalars]
        firsts = [0, *(n for n in given if type(n) is int)]
        ends = {f + case.length(d) + k for f in firsts for d in case.dims for k in (-1, 0, 1)}
        return sorted(ends.union(*(text.encode() for text in given if isinstance(text, str))))

    def _thresholds(self, case: Case) -> list[float]:
        """Numbers at which something may change: floats, and what is near them, so near that floats of 32
        bits are the same. Of f64 alone: elsewhere an operator may round them first."""
        given = [case.scalars.get(p.name, p.default) for p in self.operator.scalars]
        floats = [n for n in given if isinstance(n, float)]
        return [n * near for n in floats for near in (1 - NEAR, 1 - EPS, 1, 1 + EPS, 1 + NEAR)]

    @functools.cached_property
    def pointers(self) -> dict[str, str]:
        """By input the dim that its numbers are places in, as far as the reference knows."""
        return self._ask(find_pointers, self.offsets, self.lengths) or {}

    @functools.cached_property
    def from_end(self) -> set[str]:
        """Inputs whose places may be below 0: the reference counts them from the end, and the operator
        has an answer, too. One that looks at no place ends in a guard, as it may."""
        found = self._ask(find_from_end, self.offsets, self.pointers)
        return {name for name in found or () if self._takes_from_end(name)}

    def _takes_from_end(self, name: str) -> bool:
        """The last place, or the first, alone."""
        plain = Forward(self.operator, self.reference, lambda _: None)
        plain.from_end = set()  # of what it draws
        case = few_of(self.operator)
        try:
            call = plain.prepare(case)
        except (Unfit, Unanswered):  # NAME_inputs is not for so few
            return False
        k = [p.name for p in self.operator.inputs].index(name)
        places = [
            torch.full_like(call.values[k], -n) for n in (1, case.length(self.pointers[name]))
        ]
        return any(
            outside.answers(call.but([*call.values[:k], given, *call.values[k + 1 :]]))
            for given in places
        )

    @functools.cached_property
    def offsets(self) -> dict[str, str]:
        """By input the dim that it cuts into segments, as far as the reference knows."""
        return self._ask(find_offsets) or {}

    @functools.cached_property
    def lengths(self) -> dict[str, str]:
        """By input the dim of which its numbers say how much counts, as far as the reference knows."""
        return self._ask(find_lengths, self.offsets) or {}

    @functools.cached_property
    def numbers(self) -> set[str]:
        """Inputs of whole numbers that may be anything, as far as the reference knows."""
        return self._ask(find_numbers, self.offsets, self.pointers) or set()

    @functools.cached_property
    def natural(self) -> set[str]:
        """Inputs that may not be negative, as far as the reference knows."""
        return self._ask(find_natural, self.offsets) or set()

    @functools.cached_property
    def large_ints(self) -> set[str]:
        """Ints that may be as large as they can be, as far as the reference knows."""
        return self._ask(find_large, self.offsets) or set()

    @functools.cached_property
    def bounded(self) -> set[tuple[str, str]]:
        """Dims of which the first may not be longer than the second, as far as the reference knows."""
        return self._ask(find_bounded, self.offsets) or set()

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
        ends = {**self.offsets, **self.lengths}  # which may be the size itself
        dim = self.pointers.get(p.name) or ends.get(p.name)
        if dim is None:
            return _smallest(case.dims)
        return max(case.length(dim), 0 if p.name in ends else 1)


def _often(share: float, name: str, case: Case) -> bool:
    """In that share of cases."""
    return random.Random(f"{name} {case.seed}").random() < share


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
    full: bool = False,
    natural: bool = False,
    ends: Sequence[float] = (),
    from_end: bool = False,
) -> torch.Tensor:
    """The tensor of a name, drawn from the case's seed. full: the largest that is below. natural: none below
    0. ends: some that are among them. from_end: some are counted so."""
    gen = draw.generator(case.seed, name)

    def make(size: tuple[int, ...]) -> torch.Tensor:
        drawn = draw.values(case.values, size, dtype, gen, below)
        if ends:
            drawn = draw.with_some(drawn, ends, gen)
        if natural:
            drawn = (
                drawn.abs() if dtype.is_floating_point else torch.where(drawn < 0, ~drawn, drawn)
            )
        if full:
            drawn.fill_(min(below - 1, torch.iinfo(dtype).max))
        if from_end:
            drawn = draw.from_end(drawn, below, gen)
        return draw.rising(drawn, below - 1, whole=case.seed % 3 > 0) if rising else drawn

    return draw.arrange(case.layouts.get(name), tuple(shape), make, case.seed)


def _is_huge(about: Any) -> bool:
    """Of which a guarded call keeps the tail alone (src/trial/zone.c)."""
    shape, kind = about[:2]
    return math.prod(shape) * DTYPES[kind].itemsize >= HUGE
