"""What is known of an operator: its parameters, from the C core, and its gradient."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from .. import _wick
from .._signature import signature
from ..bench.inputs import DTYPES
from .case import Case, CaseError, parse
from .draw import LAYOUTS, PROFILES

NAMES = {dtype: name for name, dtype in DTYPES.items()}
COUNTS = (torch.int32, torch.int64)  # what places and numbers of elements are kept in


@dataclass(frozen=True)
class Parameter:
    name: str
    kind: str  # tensor, shape, int, float, bool, str, choice
    type: str  # as written
    optional: bool
    in_place: bool
    dim: str | None  # of an int: the dim that it gives
    choices: tuple[str, ...]
    default: Any  # None: there is none
    words: tuple[str, ...] = ()  # of a str: what else it may be

    @property
    def is_tensor(self) -> bool:
        return self.kind == "tensor"

    @property
    def is_scalar(self) -> bool:
        """A number, truth or word that is nobody's size."""
        return self.kind not in ("tensor", "shape") and self.dim is None

    @property
    def strided(self) -> bool:
        return self.type.startswith("strided ")

    @property
    def element(self) -> str:
        """The element type as written: a type, a variable or A."""
        return self.type.removeprefix("strided ").partition("[")[0]

    @property
    def sizes(self) -> list[str]:
        """Of a tensor, as written, without the star."""
        return [s.strip().lstrip("*") for s in self.type.partition("[")[2].rstrip("]").split(",")]


def _parameter(about: dict[str, Any]) -> Parameter:
    rest = {k: about[k] for k in ("name", "kind", "type", "optional", "in_place", "dim")}
    return Parameter(**rest, choices=tuple(about["choices"]), default=about.get("default"))


@dataclass(frozen=True)
class Gradient:
    """How `backward` is fed from a call of the forward (src/signature/gradient.c)."""

    backward: str
    feeds: list[tuple[str, int, int, bool]]  # source, index, axis, optional; per input of backward
    gives: list[tuple[int, bool]]  # the forward's input, and whether optional; per output


class NoSizes(Exception):
    """None were found that fit the signature."""


class Operator:
    def __init__(self, namespace: str, name: str) -> None:
        self.namespace, self.name = namespace, name
        about = _wick.parameters(namespace, name)
        self.inputs = [_parameter(p) for p in about["inputs"]]
        self.outputs = [_parameter(p) for p in about["outputs"]]
        self.scratch = [_parameter(p) for p in about["scratch"]]
        self.dims: dict[str, bool] = dict(about["dims"])  # name: stands for any number of them
        self.variables: dict[str, list[str]] = dict(about["variables"])

    @cached_property
    def function(self) -> Any:
        return _wick.find(self.namespace, self.name)

    @property
    def overload(self) -> Any:
        return getattr(getattr(torch.ops, self.namespace), self.name).default

    @property
    def signature(self) -> str:
        return self.function.__self__.signature

    @property
    def file(self) -> str:
        return self.function.__self__.file

    @cached_property
    def gradient(self) -> Gradient | None:
        found = _wick.gradient(self.namespace, self.name)
        return None if found is None else Gradient(*found)

    @cached_property
    def kept(self) -> set[int]:
        """Outputs that the backward is given, and whose gradient it does not take: kept for it alone."""
        feeds = self.gradient.feeds if self.gradient else []
        taken = {index for source, index, *_ in feeds if source == "gradient"}
        return {index for source, index, *_ in feeds if source == "output"} - taken

    @property
    def scalars(self) -> list[Parameter]:
        return [p for p in self.inputs if p.is_scalar]

    def learn_words(self, words: tuple[str, ...]) -> None:
        """What its strings may be, as far as somebody knows."""
        self.inputs = [replace(p, words=words) if p.kind == "str" else p for p in self.inputs]

    @property
    def tensors(self) -> list[Parameter]:
        return [p for p in self.inputs if p.is_tensor]

    def kinds_of(self, variable: str, asked: Collection[str]) -> list[str]:
        """The element types that it may be: those asked for, and all if it has none of these."""
        kinds = self.variables[variable]
        return [k for k in kinds if k in asked] or kinds

    @property
    def counted_dims(self) -> list[str]:
        """Those that leave a whole number: which element, or how many of them."""
        taken = [d for d in self.dims if any(d in p.sizes for p in self.tensors)]
        return [d for d in taken if any(d not in p.sizes for p in self._counts)]

    @property
    def placed_dims(self) -> list[str]:
        """Those that a whole number may be a place in: they leave one, or else have one for every element."""
        kept = [
            d
            for d, leading in self.dims.items()
            if not leading and any(d in p.sizes for p in self._counts)
        ]
        return self.counted_dims or kept

    @property
    def batch_dims(self) -> list[str]:
        """Those that the signature calls independent and that are a whole size wherever they are one."""
        parameters = [p for p in (*self.inputs, *self.outputs) if p.kind in ("tensor", "shape")]
        words = [re.findall(r"\w+", size) for p in parameters for size in p.sizes]
        parts = {name for size in words if len(size) > 1 for name in size}
        twice = {d for d in self.dims if any(p.sizes.count(d) > 1 for p in parameters)}
        dims = signature(self.namespace, self.name).dims
        return [d.name for d in dims if d.batch and d.name not in parts | twice]

    @property
    def _counts(self) -> list[Parameter]:
        return [p for p in self.outputs if p.kind == "int" or DTYPES.get(p.element) in COUNTS]

    def plan(self, case: Case) -> tuple[list[Any], list[Any], int, int]:
        """Shapes and types of a case's inputs and outputs, and the bytes moved; raises RuntimeError
        where the sizes do not fit the signature."""
        return _wick.plan(self.namespace, self.name, case.dims, case.types, case.absent)

    def results(self, case: Case) -> list[tuple[tuple[int, ...], torch.dtype] | None]:
        """Shape and type of each output; None of a number."""
        _, outputs, _, _ = self.plan(case)
        return [None if s is None else (s[0], DTYPES[s[1]]) for s in outputs]

    def wants(self, wanted: Sequence[bool]) -> dict[str, Any]:
        """The keywords that say so, of those that can be left out."""
        return {f"want_{p.name}": w for p, w in zip(self.outputs, wanted) if p.optional}

    def fits(self, case: Case) -> bool:
        try:
            self.plan(case)
        except RuntimeError:
            return False
        return True

    def sample(self, kind: str, seed: int, budget: int = 0) -> dict[str, Any]:
        try:
            return _wick.sample(self.namespace, self.name, kind, seed, budget)
        except RuntimeError as error:
            raise NoSizes(str(error)) from error

    def read_case(self, text: str) -> Case:
        inputs, outputs = list(self.inputs), list(self.outputs)
        if self.gradient is not None:  # layouts of the backward's own arguments
            backward = Operator(self.namespace, self.gradient.backward)
            inputs += backward.inputs
            outputs += backward.outputs
        names = {p.name for p in (*inputs, *outputs)}
        usual = {
            p.dim: p.default for p in self.inputs if p.dim is not None and p.default is not None
        }
        text += "".join(f" {dim}={n}" for dim, n in usual.items() if f" {dim}=" not in text)
        case = parse(text, self.dims, {p.name: p.kind for p in self.scalars}, names)
        for variable, types in self.variables.items():
            if case.types.get(variable) not in types:
                raise CaseError(f"{variable}: is missing or none of {', '.join(types)}")
        for name in case.types:
            if name not in self.variables:
                raise CaseError(f"{name}:{case.types[name]}: {name} is no type variable of it")
        for name in case.absent:
            if not any(p.name == name and p.optional for p in inputs):
                raise CaseError(f"{name}~absent: {name} is no optional input")
        for name in case.unwanted:
            if not any(p.name == name and p.optional for p in outputs):
                raise CaseError(f"{name}~unwanted: {name} is no optional result")
        if case.values not in PROFILES:
            raise CaseError(f"values={case.values}: expected {', '.join(PROFILES)}")
        for name, layout in case.layouts.items():
            mine = next((p for p in inputs if p.name == name and p.is_tensor), None)
            if mine is None:
                raise CaseError(f"{name}~{layout}: {name} is no tensor that goes in")
            if layout.startswith("is-"):
                self._check_same(mine, layout.removeprefix("is-"))
            elif layout not in LAYOUTS:
                words = ", ".join(LAYOUTS)
                raise CaseError(f"{name}~{layout}: expected {words}, absent or unwanted")
            elif mine.in_place and layout == "expanded":
                raise CaseError(f"{name}~{layout}: {name} is written in place")
        return case

    def _check_same(self, mine: Parameter, name: str) -> None:
        """Whether it can be the same tensor as the one of that name."""
        other = next((p for p in self.tensors if p.name == name), None)
        alike = other is not None and (other.element, len(other.sizes)) == (
            mine.element,
            len(mine.sizes),
        )
        if not alike or other == mine:
            raise CaseError(f"{mine.name}~is-{name}: expected another tensor of its type and rank")

    def is_whole(self, types: Mapping[str, str]) -> bool:
        """With these types all numbers are integers: none is rounded, however large."""
        fixed = [DTYPES.get(p.element) for p in (*self.inputs, *self.outputs) if p.is_tensor]
        kinds = [*fixed, *(DTYPES[k] for k in types.values())]
        floats = any(k is not None and k.is_floating_point for k in kinds)
        return not floats and all(p.kind != "float" for p in (*self.inputs, *self.outputs))

    def is_arithmetic(self, element: str) -> bool:
        """Integers of this element type are computed with, or else used to find something. Where the
        results have it too (places, and how many there are at most), it can be either: ask whether they
        may be places as well."""
        if element not in self.variables:
            return False
        return element == "T" or any(p.is_tensor and p.element == element for p in self.outputs)

    def may_be_places(self, element: str) -> bool:
        """Integers of this element type may be used to find something in numbers of another."""
        kinds = self.variables.get(element, ())
        whole = bool(kinds) and not any(DTYPES[k].is_floating_point for k in kinds)
        beside = element != "T" and "T" in self.variables
        return whole and (beside or not self.is_arithmetic(element))


NUMBERS = ("int", "float")  # kinds of scalars


def candidates(p: Parameter) -> list[Any]:
    """Values of a scalar; the first is the default, or a harmless one."""
    if p.kind == "bool":
        found: list[Any] = [False, True]
    elif p.kind == "choice":
        found = list(p.choices)
    elif p.kind == "float":
        found = [1.0, 0.5, 2.0, 1.5, -0.75, 0.0, 3.3, 0.3]  # the last two are no floats of 32 bits
    elif p.kind == "int":
        found = [1, 2, 0, 3, 5]
    else:
        found = list(dict.fromkeys(("", *p.words, *_texts(p.default))))
    if p.default is None:
        return found
    return [p.default, *(v for v in found if v != p.default)]


def _texts(usual: str | None) -> tuple[str, ...]:
    """What a str may be where it is no word: one letter, the usual ones in another order, all of them twice,
    and more letters than a few."""
    usual = usual or "abc"
    return ("a", usual[::-1], usual + usual[::-1], "zyxwvutsrqponmlkjihgfedcba")


def accumulator(dtype: torch.dtype) -> torch.dtype:
    """What a type is summed in."""
    if dtype == torch.float64:
        return torch.float64
    return torch.float32 if dtype.is_floating_point else torch.int64
