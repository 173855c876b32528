"""Who says what is right: the reference, or else the operator's own widest type on the CPU.

An oracle answers in several voices: exact; in the accumulator's type; and with rounding errors, at
random and always upwards. All but the first are asked only where an element is further off than one
rounding.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from . import guarded
from .case import Case
from .noise import Noise
from .operator import DTYPES, Operator, accumulator
from .reference import Reference, is_for_memory
from .sums import is_float

NOISY = 3  # runs with rounding errors, per round
MAGNIFIED = 1024.0
LARGE = 2.0**100
SAME = 1e-9  # how far apart numbers of float64 are that are the same but for rounding
VANISHES = 1e-306  # which float64 holds a few digits of
INSTEAD_OF_NAN = (0.3, -0.7, 37.0, -41.0)  # on both sides of whatever a formula may compare with
BEYOND_ALL = (1e300, -1e300)  # and of the largest and smallest of other elements
WIDEST = ("f64", "i64")


class Unanswered(Exception):
    """The oracle has no answer for this input: it is outside of what the operator is for."""


def cast_floats(value: Any, dtype: torch.dtype) -> Any:
    """Floats in that type; integers in 64 bits; always memory of its own."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.dtype.is_floating_point:
        return value.to(dtype, copy=True, memory_format=torch.contiguous_format)
    if value.dtype == torch.bool:
        return value.clone(memory_format=torch.contiguous_format)
    return value.to(torch.int64, copy=True, memory_format=torch.contiguous_format)


def _nearer(exact: Any, answer: Any) -> Any:
    """An answer with magnified errors, brought back."""
    if not isinstance(answer, torch.Tensor) or not answer.is_floating_point():
        return exact
    back = exact + (answer - exact) / MAGNIFIED
    return torch.where(answer.isfinite() & exact.isfinite(), back, exact)


SILENT = (Unanswered, ValueError, IndexError, ArithmeticError, AssertionError, RuntimeError)


class Oracle:
    """Answers for one set of inputs, by name."""

    phase = "reference"  # whose fault it is if it does not come back

    def __init__(self, inputs: Mapping[str, Any], working: torch.dtype) -> None:
        self.inputs, self.working = inputs, working
        self.stepped = self.unstable = False  # as far as it was heard with rounding errors

    def answer(self, inputs: Mapping[str, Any]) -> list[Any]:
        raise NotImplementedError

    def exact(self) -> list[Any]:
        return self._ask(torch.float64)

    def samples(self, exact: list[Any], turn: int = 0, strict: bool = False) -> list[list[Any]]:
        """Other answers that are as right; in every turn further ones. strict: of inputs that have no
        rounding errors (Noise)."""
        level = torch.finfo(self.working).eps if self.working.is_floating_point else 0.0
        seeds = range(turn * NOISY, (turn + 1) * NOISY)
        answers = self._heard(level, seeds, strict)
        if self.working == torch.float32 and turn == 0:
            with contextlib.suppress(Exception):  # who insists on float64 has no other voice
                answers.append(self._ask(self.working))
        if self.working == torch.float64:  # too fine to be seen in f64 itself: magnified, and back
            for large in self._heard(level * MAGNIFIED, seeds, strict):
                answers.append([_nearer(e, a) for e, a in zip(exact, large)])
        return answers

    def _heard(self, level: float, seeds: range, strict: bool) -> list[list[Any]]:
        """With rounding errors. Who has no answer to inputs that are a little different (x == x.amax()) has
        none of these voices."""
        found = []
        for seed, drift in itertools.product(seeds, (False, True)):
            if drift and seed > 0:
                continue  # one of these will do
            try:
                found.append(self._noisy(Noise(level, seed, drift, strict)))
            except SILENT as error:
                if is_for_memory(error):
                    raise
        return found

    def _ask(self, dtype: torch.dtype) -> list[Any]:
        return self.answer({n: cast_floats(v, dtype) for n, v in self.inputs.items()})

    def _noisy(self, noise: Noise) -> list[Any]:
        inputs = {n: cast_floats(v, torch.float64) for n, v in self.inputs.items()}
        inputs = {
            n: noise.disturb_input(v) if isinstance(v, torch.Tensor) else v
            for n, v in inputs.items()
        }
        with noise:
            answer = self.answer(inputs)
        self.stepped, self.unstable = self.stepped or noise.stepped, self.unstable or noise.unstable
        return answer

    def regardless(self, exact: list[Any]) -> list[Any]:
        """Where an answer is NaN, the number that it would be whatever stood in the place of NaN and
        infinities: 0 times them, which a mask leaves out, is NaN only for who multiplies."""
        return exact

    def may_be_infinite(self, k: int, got: torch.Tensor) -> torch.Tensor:
        """Where the k-th answer is NaN, and such an infinity will do. It is NaN with numbers in the place of
        NaN as well: because of infinities, as in inf - inf, and another formula for the same may be
        infinite there. Or it is that infinity then, and NaN would make no difference to a number."""
        return torch.tensor(False)


def _regardless(exact: Sequence[Any], answers: Sequence[Sequence[Any]]) -> list[Any]:
    """answers: with other numbers for those that are not finite."""
    found = []
    for e, first, *others in zip(exact, *answers):
        if is_float(e):
            needless = e.isnan()
            for other in others:  # a formula that divides by what it has multiplied with rounds
                needless &= torch.isclose(first, other, rtol=SAME, atol=VANISHES)
            e = torch.where(needless, first, e)
        found.append(e)
    return found


class ByReference(Oracle):
    def __init__(
        self,
        operator: Operator,
        reference: Reference,
        inputs: Mapping[str, Any],
        working: torch.dtype,
    ) -> None:
        super().__init__(inputs, working)
        self.operator, self.reference = operator, reference

    def answer(self, inputs: Mapping[str, Any]) -> list[Any]:
        with torch.no_grad():
            return self.reference(self.operator, inputs)

    def regardless(self, exact: list[Any]) -> list[Any]:
        """In all inputs, and in each of them: an infinity of another one may well matter."""
        odd = [n for n, v in self.inputs.items() if is_float(v) and not bool(v.isfinite().all())]
        for names in (odd, *([name] for name in odd if len(odd) > 1)):
            others = [
                self._with_numbers(n, torch.isfinite, names) for n in (*INSTEAD_OF_NAN, *BEYOND_ALL)
            ]
            exact = _regardless(exact, [[_or_nan(a) for a in answer] for answer in others])
        return exact

    def may_be_infinite(self, k: int, got: torch.Tensor) -> torch.Tensor:
        said = torch.stack([self._without_nan(k, n) for n in INSTEAD_OF_NAN])
        tame = {n: _tamed(v) if is_float(v) else v for n, v in self.inputs.items()}
        other = ByReference(self.operator, self.reference, tame, self.working)
        first, *others = (other._without_nan(k, n) for n in (*INSTEAD_OF_NAN, *BEYOND_ALL))
        needless = torch.stack([torch.isclose(first, o, rtol=SAME, atol=0.0) for o in others])
        return said.isnan().all(0) | needless.all(0) & (said == got.double()).all(0)

    def _without_nan(self, k: int, other: float) -> torch.Tensor:
        """The k-th answer with numbers about that in NaN's place."""
        answer = self._with_numbers(other, lambda v: ~v.isnan(), list(self.inputs))
        return torch.as_tensor(answer[k], dtype=torch.float64)

    def _with_numbers(
        self, other: float, is_kept: Callable[[torch.Tensor], Any], names: list[str]
    ) -> list[Any]:
        """About that for all that is not kept in these: no two are the same, or their difference would
        always be 0."""
        inputs = {n: cast_floats(v, torch.float64) for n, v in self.inputs.items()}
        gen = torch.Generator().manual_seed(1)

        def with_numbers(v: torch.Tensor) -> torch.Tensor:
            about = other * (1 + torch.rand(v.shape, generator=gen, dtype=v.dtype))
            return torch.where(is_kept(v), v, about)

        return self.answer(
            {n: with_numbers(v) if is_float(v) and n in names else v for n, v in inputs.items()}
        )


class ByGradient(Oracle):
    """The gradient of the reference, by autograd. wanted: the inputs whose gradient is asked for; those
    that are absent keep their places, and have none."""

    def __init__(
        self,
        operator: Operator,
        reference: Reference,
        inputs: Mapping[str, Any],
        arriving: Sequence[torch.Tensor | None],
        wanted: Sequence[str],
        working: torch.dtype,
    ) -> None:
        super().__init__(inputs, working)
        self.operator, self.reference = operator, reference
        self.arriving, self.wanted = arriving, wanted
        self.reached: set[str] = set()  # inputs that the outputs depend on

    def answer(self, inputs: Mapping[str, Any]) -> list[Any]:
        there = [name for name in self.wanted if inputs[name] is not None]
        found = dict(zip(there, self._gradients(inputs, there)))
        self.reached = {n for n, g in found.items() if g.count_nonzero()}
        return [found.get(name) for name in self.wanted]

    def _gradients(self, inputs: Mapping[str, Any], wanted: list[str]) -> list[torch.Tensor]:
        leaves = [inputs[name].requires_grad_() for name in wanted]
        with torch.enable_grad():
            outputs = self.reference(self.operator, inputs)
        pairs = [
            (y, dy.to(y.dtype))
            for y, dy in zip(outputs, self.arriving)
            if dy is not None and isinstance(y, torch.Tensor) and y.requires_grad
        ]
        if not pairs:
            return [torch.zeros_like(leaf) for leaf in leaves]
        found = torch.autograd.grad(
            [y for y, _ in pairs], leaves, [dy for _, dy in pairs], allow_unused=True
        )
        return [torch.zeros_like(x) if g is None else g for x, g in zip(leaves, found)]

    def samples(self, exact: list[Any], turn: int = 0, strict: bool = False) -> list[list[Any]]:
        found = super().samples(exact, turn, strict)
        if turn == 0 and any(bool(e.isnan().any()) for e in exact if e is not None):
            with contextlib.suppress(*SILENT):
                found.append(self._with_finite_inputs(exact))
        return found

    def _with_finite_inputs(self, exact: list[Any]) -> list[Any]:
        """Autograd takes a formula apart. Its parts may be inf / inf where the gradient has a limit, and 0 times
        NaN where a mask leaves something out: what is NaN for no other reason may be anything, and
        what is the same whatever stands in NaN's place may be that."""
        has_nan = any(_has_nan(v) for v in (*self.inputs.values(), *self.arriving))
        return _regardless(
            exact, [self._with(other) for other in INSTEAD_OF_NAN[: None if has_nan else 1]]
        )

    def _with(self, other: float) -> list[Any]:
        """The gradients with this for NaN, and with large numbers for infinities."""
        inputs = {n: _finite(v, other) for n, v in self.inputs.items()}
        arriving = [_finite(dy, other) for dy in self.arriving]
        beside = ByGradient(
            self.operator, self.reference, inputs, arriving, self.wanted, self.working
        )
        return beside.exact()


def _tamed(value: torch.Tensor) -> torch.Tensor:
    """Numbers for infinities, no two the same."""
    gen = torch.Generator().manual_seed(2)
    about = 3 + torch.rand(value.shape, generator=gen, dtype=torch.float64)
    return torch.where(value.isinf(), about * value.sign(), value.double())


def _or_nan(value: Any) -> Any:
    """What is a number; the rest is none."""
    return torch.where(value.isfinite(), value, torch.nan) if is_float(value) else value


def _has_nan(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and bool(value.isnan().any())


def _finite(value: Any, other: float) -> Any:
    """In float64, with large numbers for infinities, whose products are finite too."""
    if not is_float(value):
        return value
    return value.double().nan_to_num(nan=other).clamp(-LARGE, LARGE)


class ByWidest(Oracle):
    """The operator itself, on the CPU, in a type that has room to spare."""

    phase = "operator"

    def __init__(
        self, operator: Operator, case: Case, inputs: Mapping[str, Any], working: torch.dtype
    ) -> None:
        super().__init__(inputs, working)
        self.operator, self.case = operator, case

    @staticmethod
    def serves(operator: Operator, case: Case) -> bool:
        types = {widest(operator, name, kind) for name, kind in case.types.items()}
        return bool(types) and None not in types and types != set(case.types.values())

    def answer(self, inputs: Mapping[str, Any]) -> list[Any]:
        """Whatever the voice, the operator runs in its widest type: the inputs are what differs."""
        kinds = {n: widest(self.operator, n, k) or k for n, k in self.case.types.items()}
        case = self.case.but(types=kinds)
        about, _, _, _ = self.operator.plan(case)
        values = [
            inputs[p.name].to(DTYPES[a[1]])
            if isinstance(inputs[p.name], torch.Tensor)
            else inputs[p.name]
            for p, a in zip(self.operator.inputs, about)
        ]
        wanted = [p.name not in case.unwanted for p in self.operator.outputs]
        outcome = guarded.run(
            self.operator, values, wanted, self.operator.results(case), guarded.Manner()
        )
        if outcome.refused:
            raise Unanswered(outcome.message)
        return outcome.results


def widest(operator: Operator, variable: str, kind: str) -> str | None:
    """The type of the variable's list with the most room; None where it has none such."""
    wanted = WIDEST[0] if DTYPES[kind].is_floating_point else WIDEST[1]
    return wanted if wanted in operator.variables[variable] else None


def working_type(case: Case, written: Sequence[torch.dtype]) -> torch.dtype:
    """What the operator is expected to compute in. written: the types of its results and of what it
    writes in place."""
    kinds = [DTYPES[case.types["T"]]] if "T" in case.types else []
    if not any(k.is_floating_point for k in kinds):
        kinds = list(written)
    floats = [accumulator(k) for k in kinds if k.is_floating_point]
    if not floats:
        return torch.int64
    return torch.float64 if all(f == torch.float64 for f in floats) else torch.float32
