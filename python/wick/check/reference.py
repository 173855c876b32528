"""The reference: a function with the operator's name, in plain PyTorch, in the file beside the source.

It takes the inputs by name and returns the outputs. What an operator writes in place, the reference
writes in place too, or returns in front of the outputs. It is called with float64 (integers with
int64), so that what it returns is right as far as anybody can tell. None for an output means: not
to be judged.

Where not all values are allowed, NAME_inputs beside it makes those that are: it takes any of the
dims and types, by name, and returns a dict of inputs. It draws from torch's own random numbers.
"""

from __future__ import annotations

import inspect
import os
import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

from ..bench import target as files
from ..bench.inputs import ask_inputs
from .case import Case
from .operator import DTYPES, Operator

Function = Callable[..., Any]
MOST_WORDS = 12
OUT_OF_MEMORY = ("can't allocate memory", "error: out of memory", "no memory for ")
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class ReferenceError(Exception):
    """The reference cannot be used: it does not load, or does not fit the operator."""


def is_for_memory(error: Exception) -> bool:
    """There was not enough of it. torch's CPU allocator and CUDA's driver say so in words only."""
    known = isinstance(error, (MemoryError, torch.OutOfMemoryError))
    return known or any(w in str(error) for w in OUT_OF_MEMORY)


def words_of(error: BaseException) -> str:
    return str(error) or type(error).__name__


def broken(error: BaseException) -> ReferenceError:
    """What a mistake in the reference is told as: the line of its file, and the words."""
    if isinstance(error, ReferenceError):
        return error
    words = f"{type(error).__name__}: {error}"
    for frame in traceback.extract_tb(error.__traceback__):
        if not frame.filename.startswith((_OURS, "<")):  # the reference's own, not what it calls
            return ReferenceError(f"{frame.filename}:{frame.lineno}: {words}")
    return ReferenceError(str(error) or words)


class Reference:
    def __init__(self, path: str, function: Function, inputs: Function | None) -> None:
        self.path, self.function, self.inputs = path, function, inputs
        parameters = inspect.signature(function).parameters
        self.takes = None if _takes_any(parameters) else set(parameters)
        self.defaults = {
            p.name for p in parameters.values() if p.default is not inspect.Parameter.empty
        }

    @property
    def words(self) -> tuple[str, ...]:
        """Strings that it mentions: it may compare an argument with them, or look them up with it."""
        known = getattr(self.function, "__globals__", {}).items()
        own = [v for name, v in known if isinstance(v, dict) and not name.startswith("__")]
        tables = [key for table in own for key in table]
        code = getattr(self.function, "__code__", None)
        said = _strings(code.co_consts if code else ())
        words = [
            w for w in (*said, *tables) if isinstance(w, str) and re.fullmatch(r"[\w.-]{1,24}", w)
        ]
        return tuple(dict.fromkeys(words))[:MOST_WORDS]

    def check(self, operator: Operator) -> None:
        for p in operator.inputs:
            if self.takes is not None and p.name not in self.takes:
                raise ReferenceError(f"{self.path}: {operator.name} takes no argument {p.name}")

    def types(self, case: Case) -> dict[str, torch.dtype]:
        """By type variable what it is, where the reference asks for it: T, say, for where T ends."""
        asked = self.takes or set()
        return {name: DTYPES[kind] for name, kind in case.types.items() if name in asked}

    def own_inputs(self, operator: Operator, case: Case) -> Mapping[str, Any]:
        """What NAME_inputs makes for a case."""
        if self.inputs is None:
            return {}
        parameters = {"inputs": [{"name": p.name} for p in operator.inputs]}
        torch.manual_seed(case.seed)
        return ask_inputs(self.inputs, parameters, case, "cpu")

    def __call__(self, operator: Operator, inputs: Mapping[str, Any]) -> list[Any]:
        """Outputs and then what was written in place, in the signature's order."""
        written = [p.name for p in operator.inputs if p.in_place]
        given = self.function(**inputs)
        if given is None and operator.outputs:
            raise ReferenceError(f"{self.path}: {operator.name} returns nothing")
        results = [] if given is None and not operator.outputs else _as_list(given)
        n = len(operator.outputs)
        after = [inputs[name] for name in written]
        if written and len(results) == len(written) + n and _all_tensors(results[: len(written)]):
            after, results = results[: len(written)], results[len(written) :]
        elif len(results) != n and written and (n == 0 or len(results) == 0):
            results = []
        elif len(results) != n:
            raise ReferenceError(
                f"{self.path}: {operator.name} returns {len(results)} values, expected {n} "
                "(None for an output that is not to be judged)"
            )
        results = [_detached(r) if k in operator.kept else r for k, r in enumerate(results)]
        return [*results, *after]


def _strings(constants: Iterable[Any]) -> Iterator[str]:
    for value in constants:
        if isinstance(value, str):
            yield value
        elif isinstance(value, (tuple, frozenset)):
            yield from _strings(value)


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, torch.Tensor) else value


def _takes_any(parameters: Mapping[str, inspect.Parameter]) -> bool:
    return any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


def _all_tensors(values: Sequence[Any]) -> bool:
    return all(isinstance(v, torch.Tensor) for v in values)


def places(operator: Operator, target: str | None) -> list[str]:
    """Where the reference may be: beside what was loaded, beside the source, in the package."""
    found = [] if target is None else [os.path.splitext(target)[0]]
    if target is not None:  # a module holds operators of several sources
        name = os.path.splitext(os.path.basename(operator.file))[0]
        found.append(os.path.join(os.path.dirname(target), name))
    stem = files.stem_of(operator.function, None)
    return [f"{s}.py" for s in dict.fromkeys([*found, *([stem] if stem else [])])]


def load(path: str) -> Any:
    try:
        return files.load_reference(os.path.abspath(path))
    except files.TargetError as error:
        raise ReferenceError(str(error)) from error
    except SystemExit as error:
        raise broken(error) from error


def _those_of(module: Any) -> str:
    own = [n for n, f in vars(module).items() if getattr(f, "__module__", "") == module.__name__]
    return f"; it has {', '.join(own)}" if own else ""


def find(operator: Operator, target: str | None, given: str | None) -> Reference | None:
    """The operator's reference; None where there is none. given: the file that must have it."""
    names = [operator.name]
    if operator.name.endswith("_forward"):
        names.append(operator.name.removesuffix("_forward"))
    for path in [given] if given else places(operator, target):
        if not os.path.exists(path):
            if given:
                raise ReferenceError(f"{path}: there is no such file")
            continue
        module = load(path)
        for name in names:
            function = getattr(module, name, None)
            if callable(function):
                return Reference(path, function, getattr(module, f"{name}_inputs", None))
        if given:
            raise ReferenceError(f"{path}: has no function {operator.name}{_those_of(module)}")
    return None
