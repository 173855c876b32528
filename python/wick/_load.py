"""wick.load: a C file, a piece of C text, existing C code or a built module becomes operators."""

from __future__ import annotations

import os
import re
import sys
import types as _types
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from . import _foreign, _progress, _wick

_INCLUDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "include")
_Path = str | os.PathLike[str]


class BuildWarning(UserWarning):
    """What the C compiler had to say about an operator's source that it built."""


class Loaded(_types.ModuleType):
    """What a load defined: its operators are attributes, `names` lists them."""

    def __init__(self, name: str, origin: str, functions: Sequence[Any]) -> None:
        super().__init__(name, f"Operators of {origin}.")
        self.origin = origin
        self.names = [f.__name__ for f in functions]
        for function in functions:
            setattr(self, function.__name__, function)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(f"no operator {name} in {self.origin}; it has {', '.join(self.names)}")

    def __repr__(self) -> str:
        return f"<wick operators of {self.origin}: {', '.join(self.names)}>"


_loaded: dict[int, list[Any]] = {}  # the functions of each load that may still be current
_single: dict[tuple[int, str | None], Loaded] = {}  # and the object that was returned for it


def load(
    path: _Path | None = None,
    sources: _Path | Sequence[_Path] | None = None,
    *,
    source: str | None = None,
    name: str | None = None,
    signature: Mapping[str, str | tuple[str, str]] | None = None,
    flags: Sequence[str] = (),
    types: str | None = None,
    verbose: bool = False,
    extra_cflags: Sequence[str] | None = None,
    extra_cuda_cflags: Sequence[str] | None = None,
    extra_ldflags: Sequence[str] | None = None,
    extra_include_paths: Sequence[_Path] | None = None,
    build_directory: _Path | None = None,
    with_cuda: bool | None = None,
) -> Loaded:
    """Loads operators and returns an object that has them as attributes.

    path       a C source (built now, or found in the cache) or a module made by `wick build` (a .so)
    sources    several of them
    source     the text of a C source instead, as in a notebook cell
    name       makes the result importable (`import NAME`); for `source`, also what messages call it
    signature  {function: signature} makes operators of plain C functions, in a source or a shared
               library that knows nothing of Wick; (signature, prototype) where the library's
               function takes other C types than the signature implies
    flags      further flags for the C compiler; also spelt extra_cflags, extra_ldflags,
               extra_include_paths, as in torch.utils.cpp_extension.load
    extra_cuda_cflags   flags for the device compiler, spelt as nvcc's (-maxrregcount=64,
               --use_fast_math); what concerns nvcc's host compiler alone is passed over by NVRTC,
               and for which GPU it compiles is Wick's to say
    with_cuda  False leaves the operators' CUDA versions out, as USE_CUDA=0 does
    types      "all" builds every element type now; otherwise one is built now and the others,
               which the compiler has already read, when they are first called
    verbose    says what is built, also when it takes less than a second
    build_directory   a cache of its own for this load

    The operators are in torch.ops.local, or in the namespace that a file names with WICK_NAMESPACE.
    Loading the same file, or the same name, again replaces them; if nothing changed, nothing is
    done. What does not build raises wick.BuildError.

        >>> op = wick.load("my_op.c")
        >>> op.my_op(torch.ones(3))
    """
    if sources is not None and path is not None and name is None:
        name, path = os.fspath(path), None  # load("name", ["a.c", "b.c"])
    if sum(x is not None for x in (path, sources, source)) != 1:
        raise TypeError("wick.load takes a path, sources= or source=, one of the three")
    if types not in (None, "all"):
        raise TypeError(f"types is {types!r}, expected 'all' or nothing")
    settings = _Settings(
        flags=(
            *_strings("flags", flags),
            *_strings("extra_cflags", extra_cflags),
            *(
                f"-I{os.path.abspath(p)}"
                for p in _paths("extra_include_paths", extra_include_paths)
            ),
            *_strings("extra_ldflags", extra_ldflags),
        ),
        cuda_flags=tuple(_strings("extra_cuda_cflags", extra_cuda_cflags)),
        cache=None if build_directory is None else os.fspath(build_directory),
        all_types=types == "all",
        cuda=with_cuda is not False,
    )
    with _progress.patience(0.0 if verbose else None):
        if source is not None:
            loads = [_load_text(source, name or _cell(source, signature), signature, settings)]
        else:
            files = [path] if path is not None else _paths("sources", sources)
            if not files:
                raise TypeError("sources is empty, expected at least one file")
            loads = []
            for f in files:  # no comprehension: before Python 3.12 its frame would be taken for a warning's place
                loads.append(_load_file(os.fspath(f), signature, settings))
    return _result(loads, name)


@dataclass(frozen=True)
class _Settings:
    flags: tuple[str, ...]
    cuda_flags: tuple[str, ...]
    cache: str | None
    all_types: bool
    cuda: bool

    def with_flags(self, *flags: str) -> _Settings:
        return replace(self, flags=(*self.flags, *flags))

    def load(self, path: str, text: str | None) -> tuple[int, list[Any] | None, str]:
        return _wick.load_source(
            path,
            text,
            _INCLUDE,
            self.flags,
            self.cuda_flags,
            self.cache,
            self.all_types,
            self.cuda,
        )


def _strings(what: str, value: Sequence[str] | None) -> Sequence[str]:
    if isinstance(value, str):
        raise TypeError(f"{what} is a str, expected a sequence such as [{value!r}]")
    return value or ()


def _paths(what: str, value: _Path | Sequence[_Path] | None) -> list[str]:
    if isinstance(value, (str, os.PathLike)):
        value = [value]
    return [os.fspath(p) for p in value or ()]


_cells: dict[str, str] = {}  # operator: what the nameless text that defines it is called


def _cell(text: str, signature: Mapping[str, Any] | None) -> str:
    """A name for a text that has none: that of an earlier one with an operator of this one, which it replaces."""
    names = [*re.findall(r"\bWICK_OP\s*\(\s*(\w+)", text), *(signature or ())]
    known = [_cells[name] for name in names if name in _cells]
    n = len(set(_cells.values()))
    cell = known[0] if known else f"<source {n + 1}>" if n else "<source>"
    _cells.update(dict.fromkeys(names, cell))
    return cell


# One load: (number, functions, origin). The number tells sources apart; a module has 0.
_One = tuple[int, list[Any], str]


def _load_text(
    text: str,
    name: str,
    signature: Mapping[str, str | tuple[str, str]] | None,
    settings: _Settings,
    folder: str | None = None,
) -> _One:
    if signature is not None:
        text = _foreign.adapt_source(text, name, signature)
    if folder is not None:
        settings = settings.with_flags("-iquote", folder)
    return _finish(
        name,
        settings.load(name, text),
    )


def _load_file(
    path: str, signature: Mapping[str, str | tuple[str, str]] | None, settings: _Settings
) -> _One:
    if path.endswith(".so") and signature is None:
        functions = _wick.load_module(path)
        return (0, functions, path)
    if signature is None:
        return _finish(path, settings.load(path, None))
    absolute = os.path.abspath(path)
    if path.endswith(".so"):
        text, flags = _foreign.adapt_library(absolute, signature)
        return _load_text(text, absolute, None, settings.with_flags(*flags))
    with open(absolute, encoding="utf-8", errors="surrogateescape") as file:
        text = file.read()
    return _load_text(text, absolute, signature, settings, os.path.dirname(absolute))


def _finish(origin: str, found: tuple[int, list[Any] | None, str]) -> _One:
    number, functions, said = found
    if said:
        warnings.warn(said, BuildWarning, stacklevel=4)
    if functions is None and number in _loaded:
        return (number, _loaded[number], origin)
    if functions is None:  # another thread has loaded it, and is not here yet
        functions = _wick.functions(number)
    _loaded[number] = functions
    return (number, functions, origin)


def _result(loads: list[_One], name: str | None) -> Loaded:
    number, _, origin = loads[0]
    loaded = _single.get((number, name)) if len(loads) == 1 and number else None
    if loaded is None:
        functions = [f for _, fs, _ in loads for f in fs]
        loaded = Loaded(name or "wick_operators", ", ".join(o for _, _, o in loads), functions)
        if len(loads) == 1:
            loaded.origin = origin
            _single[number, name] = loaded
    if name is not None and name.isidentifier():
        there = sys.modules.get(name)
        if there is not None and not isinstance(there, Loaded):
            raise ValueError(
                f"name is {name!r}, but a module of that name is already imported: choose another"
            )
        sys.modules[name] = loaded
    return loaded


def operators() -> list[tuple[str, str, str]]:
    """(namespace, name, signature) of every operator that is loaded."""
    return _wick.operators()
