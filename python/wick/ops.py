"""The operators that come with Wick (`wick.ops.relu`), and other loaded namespaces (`wick.ops.acme.foo`).

Every operator is a builtin function. It takes the shortest way to its C code for plain tensors and is the same as
`torch.ops.wick.<name>` for everything else.
"""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

from . import _wick


class Namespace(ModuleType):
    """The operators of one WICK_NAMESPACE. A module, so that torch.compile reads it as one."""

    def __init__(self, name: str) -> None:
        super().__init__(f"wick.ops.{name}")
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return _find(self._name, name)

    def __dir__(self) -> list[str]:
        return _names(self._name)

    def __repr__(self) -> str:
        return f"<wick operators of {self._name}: {', '.join(_names(self._name))}>"


def _names(namespace: str) -> list[str]:
    return sorted(name for ns, name, _ in _wick.operators() if ns == namespace)


def _find(namespace: str, name: str) -> Any:
    function = None if name.startswith("__") else _wick.find(namespace, name)
    if function is None:
        near = _wick.suggest(namespace, name)
        hint = (
            f"; did you mean {near}?"
            if near
            else f"; it has {', '.join(_names(namespace)) or 'none'}"
        )
        raise AttributeError(f"no operator {name} in namespace {namespace}{hint}")
    return function


class _Reference:
    """What an operator's pickle holds in place of the operator's namespace (src/python/operator.c)."""

    def __init__(self, namespace: str, file: str) -> None:
        self._namespace, self._file = namespace, file

    def __getattr__(self, name: str) -> Any:
        function = None if name.startswith("__") else _wick.find(self._namespace, name)
        if function is None and self._namespace == "wick":
            raise AttributeError(f"this version of Wick has no operator {name}")
        if function is None:
            raise AttributeError(
                f"operator {self._namespace}::{name} is not loaded here: load {self._file}, or "
                "import the package that has it, first"
            )
        return function


def _reference(namespace: str, file: str) -> _Reference:
    """Its name is in pickles, and therefore permanent."""
    return _Reference(namespace, file)


def __getattr__(name: str) -> Any:
    if (
        not name.startswith("__")
        and any(ns == name for ns, _, _ in _wick.operators())
        and name != "wick"
    ):
        found: Any = Namespace(name)
    else:
        found = _find("wick", name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return _names("wick") + sorted({ns for ns, _, _ in _wick.operators() if ns != "wick"})


_wick.load_module(os.path.join(os.path.dirname(os.path.abspath(__file__)), "wick_ops.so"))
