"""target -- which operators are measured, and what is known of them besides their signature

The reference of my_op.c is my_op.py beside it: a function with the operator's name, taking the inputs
by their names and returning the outputs, in plain PyTorch. Further functions of that file are found by
their names as well:

    my_op                    the reference: what `eager` and `compile` run
    my_op_backward           the same for the gradient; without it torch differentiates the reference
    my_op_baseline_apex      another implementation to measure beside: `apex`
    my_op_inputs             the arguments to measure with (inputs.py)

Sizes are in my_op.shapes.txt (shapes.py). Of the operators that come with Wick these files lie in the
package, in sources/.
"""

from __future__ import annotations

import functools
import glob
import importlib.util
import itertools
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import wick

from .. import BuildError, _wick
from .._sources import sources_in
from .shapes import Case, Shapes, ShapesError, cases_from_signature

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOURCES = os.path.join(PACKAGE, "sources")


class TargetError(Exception):
    """What was asked for cannot be measured, in words."""


@functools.cache
def load_reference(path: str) -> Any:
    """A reference file, by its path: its name may be one that Python has imported already."""
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(f"wick_reference_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    if (folder := os.path.dirname(os.path.abspath(path))) not in sys.path:
        sys.path.append(folder)  # it may import what lies beside it
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == path]
        line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else 1
        said = error.msg if isinstance(error, SyntaxError) else error
        raise TargetError(f"{path}:{line}: {type(error).__name__}: {said}") from error
    return module


@functools.cache
def _shapes(path: str) -> Shapes:
    shown = os.path.relpath(path) if path.startswith(os.getcwd()) else path
    try:
        with open(path, encoding="utf-8") as f:
            return Shapes(f.read(), shown)
    except OSError as error:
        raise ShapesError(f"{shown}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ShapesError(
            f"{shown}: not UTF-8: byte {error.start} is {error.object[error.start]:#x}"
        ) from None


@dataclass
class Operator:
    """One operator and the files that belong to its source."""

    function: Any
    stem: str | None  # of its files: path/of/my_op
    reference_file: str | None
    shapes_file: str | None
    given: Shapes | None = None  # sizes of the command line
    # All that have the same file of sizes, this one among them.
    company: list[Operator] = field(default_factory=list, repr=False, compare=False)

    @property
    def namespace(self) -> str:
        return self.function.__self__.namespace

    @property
    def name(self) -> str:
        return self.function.__self__.name

    @functools.cached_property
    def parameters(self) -> dict[str, Any]:
        return _wick.parameters(self.namespace, self.name)

    # ---- functions of the reference file ----

    def _functions(self) -> dict[str, Callable[..., Any]]:
        if self.reference_file is None:
            return {}
        found = vars(load_reference(self.reference_file))
        return {name: value for name, value in found.items() if callable(value)}

    @property
    def _called(self) -> str:
        """What its functions are named after: foo_forward, with its foo_backward, is also foo."""
        functions = self._functions()
        short = self.name.removesuffix("_forward")
        return short if self.name not in functions and short in functions else self.name

    def reference(self) -> Callable[..., Any] | None:
        return self._functions().get(self._called)

    def inputs(self) -> Callable[..., Any] | None:
        return self._functions().get(f"{self._called}_inputs")

    def baselines(self) -> dict[str, Callable[..., Any]]:
        start = f"{self._called}_baseline_"
        found = self._functions().items()
        return {name.removeprefix(start): f for name, f in found if name.startswith(start)}

    def forward(self) -> Operator | None:
        """The operator whose gradient this is."""
        stem = self.name.removesuffix("_backward")
        for name in (stem, f"{stem}_forward") if stem != self.name else ():
            gradient = _wick.gradient(self.namespace, name)
            if gradient is not None and gradient[0] == self.name:
                function = _wick.find(self.namespace, name)
                return Operator(function, self.stem, self.reference_file, self.shapes_file)
        return None

    # ---- sizes ----

    def types(self, wanted: Sequence[str]) -> list[dict[str, str]]:
        """Choices of element types: of each variable the wanted ones ("all": every one); of one that
        has none of them, or where none is wanted, the first, but f32 of the first variable. None at
        all where no variable has what is wanted."""
        variables = self.parameters["variables"]
        if not variables:
            return [{}]
        chosen = {
            name: [word for word in listed if word in wanted or "all" in wanted]
            for name, listed in variables
        }
        if wanted and not any(chosen.values()):
            return []
        for i, (name, listed) in enumerate(variables):
            usual = "f32" if i == 0 and "f32" in listed else listed[0]
            chosen[name] = chosen[name] or [usual]
        return [dict(zip(chosen, words)) for words in itertools.product(*chosen.values())]

    def cases(self, wanted: Sequence[str]) -> list[Case]:
        """The calls to be measured. A line of the file that names its types is measured with those,
        unless others are wanted."""
        found: list[Case] = []
        for types in self.types(wanted):
            if self.shapes_file is None:
                listed = cases_from_signature(self.namespace, self.name, self.parameters, types)
            else:
                shapes = _shapes(self.shapes_file)
                shapes.check(self._siblings())
                listed = shapes.cases(self.name, self.parameters)
            for case in listed:
                chosen = types if wanted else {**types, **case.types}
                complete = Case(case.dims, chosen, case.scalars, case.absent)
                if complete not in found:
                    found.append(complete)
        return found

    def _siblings(self) -> dict[str, Any]:
        """Parameters of all operators of the source, and of what else it is measured with, by name: what
        a file of sizes may speak of."""
        source = self.function.__self__.file
        found = {
            name: _wick.parameters(ns, name)
            for ns, name, _ in wick.operators()
            if ns == self.namespace and _wick.find(ns, name).__self__.file == source
        }
        return found | {operator.name: operator.parameters for operator in self.company}

    def declared(self, what: str, case: Case) -> float | None:
        """Flops or bytes of a call by the formula of its sizes, if there is one: that of the command
        line before the file's."""
        files = [self.given] if self.given else []
        if self.shapes_file is not None:
            files.append(_shapes(self.shapes_file))
        found = (shapes.declared(what, self.name, self.parameters, case) for shapes in files)
        return next((n for n in found if n is not None), None)


# ---- finding ----


def _beside(stem: str | None, ending: str) -> str | None:
    path = f"{stem}{ending}" if stem else ""
    return path if os.path.exists(path) else None


def stem_of(function: Any, path: str | None) -> str | None:
    """Where the files of an operator lie: beside what was loaded, else beside its source, else among
    the shipped ones."""
    source = function.__self__.file
    shipped = os.path.join(SOURCES, *source.split("/")[1:]) if source.startswith("ops/") else ""
    for candidate in (path, shipped, source):
        stem = os.path.splitext(candidate)[0] if candidate else ""
        if stem and glob.glob(f"{glob.escape(stem)}.*"):
            return os.path.abspath(stem)
    return None


def _operator(
    function: Any, path: str | None, reference: str | None, shapes: str | None
) -> Operator:
    stem = stem_of(function, path)
    return Operator(
        function,
        stem,
        os.path.abspath(reference) if reference else _beside(stem, ".py"),
        os.path.abspath(shapes) if shapes else _beside(stem, ".shapes.txt"),
    )


def is_file(word: str) -> bool:
    return "/" in word or "." in word


def _load(word: str) -> list[tuple[Any, str | None]]:
    """Functions, and the file they were loaded from."""
    if not os.path.exists(word):
        word = re.sub(r"^wick(::|\.)(?=\w+$)", "", word)  # as reports print it
    if is_file(word):
        if not os.path.exists(word):
            raise TargetError(f"{word}: there is no such file")
        loaded = wick.load(word)
        return [(getattr(loaded, name), word) for name in loaded.names]
    try:
        return [(getattr(wick.ops, word), None)]
    except AttributeError as error:
        raise TargetError(str(error)) from None


def _spread(words: Iterable[str]) -> list[str]:
    """Folders as the sources in them; all shipped operators, if nothing is named."""
    found: list[str] = []
    for word in words:
        inside = sources_in(word) if os.path.isdir(word) else [word]
        if not inside:
            raise TargetError(f"{word}: no operator file is in there")
        found += inside
    return list(dict.fromkeys(found)) or [name for ns, name, _ in wick.operators() if ns == "wick"]


def find(
    words: Iterable[str],
    reference: str | None,
    shapes: str | None,
    failed: list[str] | None = None,
) -> list[Operator]:
    """The operators that are named by files, modules, folders or shipped names; all shipped ones if
    none is. Of several, one that does not load is told in `failed`, if that is given."""
    for path in filter(None, (reference, shapes)):
        if not os.path.exists(path):
            raise TargetError(f"{path}: there is no such file")
    if reference and os.path.isdir(reference):
        raise TargetError(f"{reference}: it is a folder")
    if reference and not reference.endswith(".py"):
        raise TargetError(f"{reference} is no Python file (its name has to end in .py)")
    operators: list[Operator] = []
    named = _spread(words)
    for word in named:
        try:
            found = [_operator(f, path, reference, shapes) for f, path in _load(word)]
            for operator in found:
                operator.reference()  # whether its file can be read is known before anything runs
            operators += found
        except (BuildError, TargetError) as error:
            if failed is None or len(named) == 1:
                raise
            failed.append(str(error))
    if not operators and not failed:
        raise TargetError(f"{', '.join(named)}: no operator is in it")
    for operator in operators:
        operator.company = [o for o in operators if o.shapes_file == operator.shapes_file]
    return operators
