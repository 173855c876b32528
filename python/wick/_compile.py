"""What torch.compile, torch.export and DTensor need to know of operators, arranged when they are imported and not before:
importing wick imports none of them.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import torch

from . import _autograd
from ._out import copy_out, refuse_gradients
from ._signature import signature

_functions: dict[tuple[str, str], Any] = {}  # every operator that is loaded, as wick.ops has it
_arrangements: list[Callable[[str, str, Any], None]] = []  # what is done with each


def published(ns: str, name: str, function: Any) -> None:
    """An operator was loaded, maybe not for the first time."""
    _functions[ns, name] = function
    for arrange in _arrangements:
        arrange(ns, name, function)


def _arrange(what: Callable[[str, str, Any], None]) -> None:
    """From now on, for every operator: those that are here and those to come."""
    _arrangements.append(what)
    for (ns, name), function in list(_functions.items()):
        what(ns, name, function)


# ---- fake tensors ----


def _imitate() -> None:
    """One rule for all operators, behind what torch.library.register_fake may have for one of them."""
    from torch._subclasses.fake_impls import op_implementations_checks, register_op_impl

    @register_op_impl(lambda func: tuple(func._schema.name.split("::")) in _functions)
    def imitate(mode: Any, func: Any, *args: Any, **keywords: Any) -> Any:
        from . import _fake

        return _fake.implementation(mode, func, *args, **keywords)

    # Before torch's own rules: one of them takes every operator without tensors for a torch.zeros(size, device=...).
    op_implementations_checks.insert(0, op_implementations_checks.pop())


# ---- tracing with symbols ----

_KEYS = [torch._C.DispatchKey.__members__[key] for key in _autograd.GATED]


def _trace(ns: str, name: str, function: Any) -> None:
    """Symbols reach a kernel as symbols only in Python: where torch's Python dispatcher is on, it takes these."""
    overload = getattr(getattr(torch.ops, ns), name).default
    if _KEYS[0] in overload.py_kernels:
        return  # loaded again with the same schema
    gate = _autograd.gate(ns, name)
    for key in _KEYS:
        overload.py_impl(key)(gate)
    overload.py_impl(torch._C.DispatchKey.FuncTorchBatched)(_autograd.batch_kernel(ns, name))


# ---- Dynamo ----


_substituted: set[tuple[str, str]] = (
    set()
)  # an operator's function stays the same when it is loaded again


def _substitute(ns: str, name: str, function: Any) -> None:
    """Dynamo sees torch.ops where a model calls the function."""
    if (ns, name) in _substituted:
        return
    _substituted.add((ns, name))

    @torch.compiler.assume_constant_result
    def numbers() -> tuple[tuple[int, str], ...]:
        inputs = enumerate(signature(ns, name).inputs)
        return tuple((i, p.name) for i, p in inputs if p.kind in ("int", "float", "bool"))

    def traced(*args: Any, **keywords: Any) -> Any:
        for i, of in numbers():
            if isinstance(args[i] if i < len(args) else keywords.get(of), torch.Tensor):
                torch._dynamo.graph_break(
                    msg=f"{name}: {of} is a tensor, and only a call tells its number"
                )
        out = keywords.pop("out", None)
        if out is not None:
            refuse_gradients(name, (*args, *keywords.values()), out)
        result = getattr(getattr(torch.ops, ns), name)(*args, **keywords)
        return result if out is None else copy_out(name, result, out)

    torch.compiler.substitute_in_graph(function, skip_signature_check=True)(traced)


# ---- DTensor ----


def _shard() -> None:
    from . import _dtensor

    _arrange(_dtensor.register)


# ---- when others are imported ----


class _Finder(importlib.abc.MetaPathFinder):
    """Finds nothing itself: it lets the others find, and does something when the module has run."""

    def __init__(self) -> None:
        self.waiting: dict[str, Callable[[], None]] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in self.waiting:
            return None
        then = self.waiting.pop(name)
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                _run_after(spec.loader, then)
                return spec
        self.waiting[name] = then
        return None


def _run_after(loader: Any, then: Callable[[], None]) -> None:
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        del loader.exec_module
        try:
            execute(module)
        except BaseException:
            _finder.waiting[module.__name__] = then  # it may be tried again
            raise
        then()

    loader.exec_module = exec_module


def _when_imported(name: str, then: Callable[[], None]) -> None:
    if name in sys.modules:
        then()
    else:
        _finder.waiting[name] = then


_finder = _Finder()
sys.meta_path.insert(0, _finder)
_when_imported("torch._subclasses.fake_impls", _imitate)
_when_imported("torch.fx.experimental.symbolic_shapes", lambda: _arrange(_trace))
_when_imported("torch._dynamo", lambda: _arrange(_substitute))
_when_imported("torch.distributed.tensor", _shard)
