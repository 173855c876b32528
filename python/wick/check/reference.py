"""The reference: a function with the operator's name, in plain PyTorch, in the file beside the source.

It takes the inputs by name and returns the outputs. What an operator writes in place, the reference
writes in place too, or returns in front of the outputs. It is called with float64 (integers with
int64), so that what it returns is right as far as anybody can tell. None for an output means: not
to be judged.

    NAME_inputs(**inputs) -> dict     may stand beside it, where not all values are allowed: it is
                                      given what was drawn and returns what to change
"""

from __future__ import annotations

import importlib.util
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from .operator import Operator

Function = Callable[..., Any]


class ReferenceError(Exception):
    """The reference cannot be used: it does not load, or does not fit the operator."""


class Reference:
    def __init__(self, path: str, function: Function, inputs: Function | None) -> None:
        self.path, self.function, self.inputs = path, function, inputs
        parameters = inspect.signature(function).parameters
        self.takes = None if _takes_any(parameters) else set(parameters)
        self.defaults = {
            p.name for p in parameters.values() if p.default is not inspect.Parameter.empty
        }

    def check(self, operator: Operator) -> None:
        for p in operator.inputs:
            if self.takes is not None and p.name not in self.takes:
                raise ReferenceError(f"{self.path}: {operator.name} takes no argument {p.name}")

    def __call__(self, operator: Operator, inputs: Mapping[str, Any]) -> list[Any]:
        """Outputs and then what was written in place, in the signature's order."""
        written = [p.name for p in operator.inputs if p.in_place]
        given = self.function(**inputs)
        results = [] if given is None and not operator.outputs else _as_list(given)
        n = len(operator.outputs)
        if written and len(results) == len(written) + n and _all_tensors(results[: len(written)]):
            return results[len(written) :] + results[: len(written)]
        if len(results) != n and written and (n == 0 or len(results) == 0):
            results = []
        elif len(results) != n:
            raise ReferenceError(
                f"{self.path}: {operator.name} returns {len(results)} values, expected {n} "
                "(None for an output that is not to be judged)"
            )
        return results + [inputs[name] for name in written]


def _takes_any(parameters: Mapping[str, inspect.Parameter]) -> bool:
    return any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


def _all_tensors(values: Sequence[Any]) -> bool:
    return all(isinstance(v, torch.Tensor) for v in values)


_modules: dict[str, Any] = {}


def _module(path: str) -> Any:
    if path not in _modules:
        name = f"wick_reference_{len(_modules)}"
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ReferenceError(f"{path} is no Python file")
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            raise ReferenceError(f"{path}: {type(error).__name__}: {error}") from error
        _modules[path] = module
    return _modules[path]


def _shipped(source: str) -> str:
    """Where an installation has the references of the operators that come with Wick."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return os.path.join(package, "references", os.path.basename(source))


def places(operator: Operator, target: str | None) -> list[str]:
    """Where the reference may be: beside the source, beside the module."""
    stem = os.path.splitext(operator.file)[0]
    found = [stem + ".py"]
    if target is not None:
        found.append(os.path.join(os.path.dirname(target), os.path.basename(stem) + ".py"))
    if operator.namespace == "wick":
        found.append(_shipped(stem + ".py"))
    return found


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
        module = _module(os.path.abspath(path))
        for name in names:
            function = getattr(module, name, None)
            if callable(function):
                return Reference(path, function, getattr(module, f"{name}_inputs", None))
    return None
