"""wick.load: a C file, a piece of C text or a built module becomes operators."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Any

from . import _wick, ops

_INCLUDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "include")


class BuildWarning(UserWarning):
    """What the C compiler had to say about an operator's source that it built."""


class Loaded:
    """What a file defined: its operators are attributes, `names` lists them."""

    def __init__(self, origin: str, functions: Sequence[Any]) -> None:
        self.origin = origin
        self.names = [f.__name__ for f in functions]
        for function in functions:
            setattr(self, function.__name__, function)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"no operator {name} in {self.origin}; it has {', '.join(self.names)}")

    def __repr__(self) -> str:
        return f"<wick operators of {self.origin}: {', '.join(self.names)}>"


def load(
    path: str | os.PathLike[str] | None = None,
    *,
    source: str | None = None,
    name: str | None = None,
    flags: Sequence[str] = (),
) -> Loaded:
    """Loads operators and returns an object that has them as attributes.

    path    a C source (built now) or a module made by `wick build` (a .so)
    source  the text of a C source instead, as in a notebook cell; `name` is what messages call it
    flags   further flags for the C compiler

    The operators are in torch.ops.local, or in the namespace that the file names with WICK_NAMESPACE. Loading the same
    file, or the same name, again replaces them. What does not build raises wick.BuildError.

        >>> op = wick.load("my_op.c")
        >>> op.my_op(torch.ones(3))
    """
    if (path is None) == (source is None):
        raise TypeError("wick.load takes a path or source=, one of the two")
    if isinstance(flags, str):
        raise TypeError(f"flags is a str, expected a sequence such as [{flags!r}]")
    if path is not None:
        origin = os.fspath(path)
        if origin.endswith(".so"):
            functions = _wick.load_module(origin)
            said = ""
        else:
            functions, said = _wick.load_source(origin, None, _INCLUDE, tuple(flags))
    else:
        origin = name or "<source>"
        functions, said = _wick.load_source(origin, source, _INCLUDE, tuple(flags))
    if said:
        warnings.warn(said, BuildWarning, stacklevel=2)
    for function in functions:
        ops._forget(function.__self__.namespace, [function.__name__])
    return Loaded(origin, functions)


def operators() -> list[tuple[str, str, str]]:
    """(namespace, name, signature) of every operator that is loaded."""
    return _wick.operators()
