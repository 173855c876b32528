"""Signatures as Python sees them: tables that the C core fills (src/python/describe.c)."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from . import _wick

DTYPES = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "u8": torch.uint8,
    "bool": torch.bool,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
FLOATS = frozenset(("f16", "bf16", "f32", "f64"))

Term = tuple[int, tuple[int, ...]]  # coefficient, and the dims that it is multiplied with
Size = list[Term]  # a sum


REQUIRED = object()
"""The default of what has none."""


class Param(NamedTuple):
    name: str
    kind: str  # tensor, shape, int, float, bool, str or choice
    type: str  # as the signature writes it
    optional: bool
    in_place: bool
    types: list[str]  # a tensor's possible element types
    variable: int  # the type variable that is its element type, or -1
    leading: int  # the dim of `*N`, or -1
    sizes: list[Size]  # those after it
    gives_dim: int  # an int: the dim that it gives a value, or -1
    dim: str | None  # that dim's name
    choices: list[str]
    default: Any = REQUIRED

    def axis_of(self, dim: int) -> int | None:
        """Where the dim stands alone, counted from the end (-1 is the last); None where it does not."""
        for i, size in enumerate(self.sizes):
            if size == [(1, (dim,))]:
                return i - len(self.sizes)
        return None

    def mentions(self, dim: int) -> bool:
        return self.leading == dim or any(dim in names for s in self.sizes for _, names in s)

    def stands_alone(self, dim: int) -> bool:
        """The dim is there exactly once, as itself."""
        n = sum(names.count(dim) for size in self.sizes for _, names in size)
        return (self.leading == dim and n == 0) or (n == 1 and self.axis_of(dim) is not None)


class Dim(NamedTuple):
    name: str
    leading: bool  # *N: any number of dims
    batch: bool  # the operator is independent along it
    from_int: int  # the int input that gives its value, or -1


class Signature(NamedTuple):
    ns: str
    name: str
    inputs: list[Param]
    outputs: list[Param]
    dims: list[Dim]
    autocast: str  # keep, f32 or follow

    @property
    def qualname(self) -> str:
        return f"{self.ns}::{self.name}"

    @property
    def wanted(self) -> list[str]:
        """The keyword-only arguments of the schema: want_x for each optional output."""
        return [f"want_{p.name}" for p in self.outputs if p.optional]

    @property
    def writes(self) -> list[str]:
        return [p.name for p in self.inputs if p.in_place]

    @property
    def overload(self) -> Any:
        """The operator as torch.ops has it."""
        return getattr(getattr(torch.ops, self.ns), self.name).default

    @property
    def function(self) -> Any:
        """The operator as wick.ops has it."""
        return _wick.find(self.ns, self.name)

    def complete(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
        """One value per input and then per want_x, where torch leaves out what has its default."""
        schema = self.overload._schema.arguments
        given = list(args[: len(schema)])
        for argument in schema[len(given) :]:
            if argument.name in keywords or not argument.has_default_value():
                given.append(keywords.get(argument.name))
            else:
                given.append(argument.default_value)
        return tuple(given)

    def split(self, values: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The other way: positional arguments, and the keyword-only ones."""
        n = len(self.inputs)
        return values[:n], dict(zip(self.wanted, values[n:]))


_known: dict[tuple[str, str], Signature] = {}


def signature(ns: str, name: str) -> Signature:
    found = _known.get((ns, name))
    if found is None:
        told = _wick.describe(ns, name)
        found = _known[ns, name] = Signature(
            ns,
            name,
            [Param(**p) for p in told["inputs"]],
            [Param(**p) for p in told["outputs"]],
            [Dim(**d) for d in told["dims"]],
            told["autocast"],
        )
    return found


def forget(ns: str, name: str) -> None:
    """The operator was loaded again."""
    _known.pop((ns, name), None)
