"""inputs -- the arguments of one call: random tensors of the right shapes and types

Never zeros: those hide mistakes, and some machines compute them faster. Whole numbers are smaller
than the smallest dim, so that they may be indices into any. An operator that wants more than that
says so in its reference file: NAME_inputs(dims and types by name, device) returns a dict of the
arguments that are to be taken instead.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from .. import _wick
from .._signature import DTYPES
from .shapes import Case


class InputsError(RuntimeError):
    """NAME_inputs is not what it should be, in words."""


@dataclass(frozen=True)
class Traffic:
    """What a call moves."""

    moved: int  # bytes read and written
    touched: int  # of these, each place once: the memory that it works on
    in_place: bool  # whether all that is written was read in the same place

    def declared(self, n_bytes: float | None) -> Traffic:
        """The same with as many bytes as its author says, if he does."""
        if n_bytes is None or not self.moved:
            return self
        touched = round(n_bytes * self.touched / self.moved)
        return Traffic(round(n_bytes), touched, self.in_place)


@dataclass
class Call:
    """What one call takes, by name, and what it moves."""

    arguments: dict[str, Any]
    in_place: list[str]
    outputs: list[tuple[tuple[int, ...], torch.dtype]]  # of the results that are tensors
    read: int
    written: int
    traffic: Traffic
    unwanted: list[str]  # of the results
    types: dict[str, torch.dtype] = field(default_factory=dict)  # by type variable

    def out(self, device: str) -> Any:
        """Memory for the results, touched; what `out=` takes."""
        made = [torch.zeros(shape, dtype=dtype, device=device) for shape, dtype in self.outputs]
        return made[0] if len(made) == 1 else tuple(made)


def _whole_numbers(case: Case) -> int:
    sizes = [n if isinstance(n, int) else math.prod(n) for n in case.dims.values()]
    return max(1, min([n for n in sizes if n > 0], default=2))


def _random(
    shape: tuple[int, ...], dtype: torch.dtype, device: str, below: int, source: torch.Generator
) -> torch.Tensor:
    options: Any = {"generator": source, "device": device}
    if dtype.is_floating_point:
        made = torch.randn(shape, dtype=torch.float32, **options)
        return made.to(dtype)
    if dtype is torch.bool:
        return torch.randint(0, 2, shape, **options).to(dtype)
    return torch.randint(0, min(below, torch.iinfo(dtype).max), shape, **options).to(dtype)


def _scalar(p: Mapping[str, Any], case: Case) -> Any:
    if p["name"] in case.scalars:
        return case.scalars[p["name"]]
    if p["dim"] is not None:
        return case.dims[p["dim"]]
    if "default" in p:
        return p["default"]
    made_up = {"int": 1, "float": 1.5, "bool": True, "str": "", "choice": None}[p["kind"]]
    return p["choices"][0] if p["kind"] == "choice" else made_up


def plan(
    namespace: str, name: str, parameters: Mapping[str, Any], case: Case
) -> tuple[list[Any], list[Any], int, int]:
    """Places of the inputs and of the results, (shape, type) each, and the bytes read and written. A
    result that is not wanted has no place."""
    shapes, results, read, written = _wick.plan(
        namespace, name, dict(case.dims), dict(case.types), case.absent
    )
    for i, p in enumerate(parameters["outputs"]):
        if p["name"] in case.absent and results[i] is not None:
            written -= math.prod(results[i][0]) * DTYPES[results[i][1]].itemsize
            results[i] = None
    return shapes, results, read, written


def make(
    namespace: str,
    name: str,
    parameters: Mapping[str, Any],
    case: Case,
    device: str,
    seed: int,
    given: Callable[..., Mapping[str, Any]] | None = None,
) -> Call:
    shapes, results, read, written = plan(namespace, name, parameters, case)
    source = torch.Generator(device=device).manual_seed(seed)
    below = _whole_numbers(case)
    arguments: dict[str, Any] = {}
    for p, place in zip(parameters["inputs"], shapes):
        if p["kind"] == "tensor":
            made = None
            if place is not None:
                made = _random(place[0], DTYPES[place[1]], device, below, source)
            arguments[p["name"]] = made
        else:
            arguments[p["name"]] = place[0] if p["kind"] == "shape" else _scalar(p, case)
    if given is not None:
        arguments.update(_given(given, parameters, case, device))
    return Call(
        arguments,
        [p["name"] for p in parameters["inputs"] if p["in_place"]],
        [(place[0], DTYPES[place[1]]) for place in results if place is not None],
        read,
        written,
        traffic_of(parameters, shapes, read, written),
        [p["name"] for p in parameters["outputs"] if p["name"] in case.absent],
        {variable: DTYPES[word] for variable, word in case.types.items()},
    )


def traffic_of(
    parameters: Mapping[str, Any], places: Sequence[Any], read: int, written: int
) -> Traffic:
    """What is written in place was read there."""
    in_place = sum(
        math.prod(place[0]) * DTYPES[place[1]].itemsize
        for p, place in zip(parameters["inputs"], places)
        if p["in_place"] and place is not None
    )
    moved = read + written
    return Traffic(moved, moved - in_place, in_place > 0 and in_place == written)


def _given(
    function: Callable[..., Mapping[str, Any]],
    parameters: Mapping[str, Any],
    case: Case,
    device: str,
) -> Mapping[str, Any]:
    """What NAME_inputs returns; whatever it raises, as words."""
    try:
        return ask_inputs(function, parameters, case, device)
    except (InputsError, MemoryError, torch.OutOfMemoryError):
        raise
    except (Exception, SystemExit) as error:
        raise InputsError(f"{function.__name__}: {type(error).__name__}: {error}") from error


def ask_inputs(
    given: Callable[..., Mapping[str, Any]],
    parameters: Mapping[str, Any],
    case: Case,
    device: str,
) -> Mapping[str, Any]:
    """NAME_inputs with whichever of dims, types and device it takes."""
    names: dict[str, Any] = {**case.dims, "device": device}
    names.update({variable: DTYPES[word] for variable, word in case.types.items()})
    taken = inspect.signature(given).parameters
    unknown = [
        name for name in taken if name not in names and taken[name].default is taken[name].empty
    ]
    if unknown:
        raise InputsError(
            f"{given.__name__} takes {', '.join(unknown)}; there are {', '.join(names)}"
        )
    arguments = given(**{name: value for name, value in names.items() if name in taken})
    if not isinstance(arguments, Mapping):
        raise InputsError(f"{given.__name__} returned {arguments!r:.60}, expected a dict")
    known = {p["name"] for p in parameters["inputs"]}
    if strange := sorted(set(arguments) - known):
        raise InputsError(f"{given.__name__} returned {', '.join(strange)}, which is no argument")
    return arguments
