"""Autocast, for operators whose signature says `autocast f32` or `autocast follow`: their tensors of a type variable are
cast on the way in. With `keep`, which is the rule unless said, autocast leaves an operator alone and nothing is
registered. A type that the signature does not list is never cast to, nor is f64 ever cast, as in torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ._signature import NAMES, signature

_DEVICES = {"AutocastCPU": "cpu", "AutocastCUDA": "cuda"}
_ALL = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU) | torch._C.DispatchKeySet(
    torch._C.DispatchKey.AutocastCUDA
)
_libraries: dict[tuple[str, str], torch.library.Library] = {}


def register(ns: str, name: str) -> None:
    """Puts the rule in front of the operator; it is looked up anew in every call."""
    if (ns, name) in _libraries:
        _libraries.pop((ns, name))._destroy()
    library = _libraries[ns, name] = torch.library.Library(ns, "IMPL")
    for key, device in _DEVICES.items():
        library.impl(name, _kernel(ns, name, device), key)


def _kernel(ns: str, name: str, device: str) -> Callable[..., Any]:
    def kernel(*args: Any, **keywords: Any) -> Any:
        sig = signature(ns, name)
        values = sig.complete(args, keywords)
        wanted = {"f32": torch.float32, "follow": torch.get_autocast_dtype(device)}.get(
            sig.autocast
        )
        if wanted is not None:
            inputs = [
                _cast(p.types, p.variable, v, wanted, device) for p, v in zip(sig.inputs, values)
            ]
            values = (*inputs, *values[len(inputs) :])
        positional, keywords = sig.split(values)
        with torch._C._ExcludeDispatchKeyGuard(_ALL):
            return sig.overload(*positional, **keywords)

    return kernel


def _cast(types: list[str], variable: int, value: Any, wanted: torch.dtype, device: str) -> Any:
    casts = (
        isinstance(value, torch.Tensor)
        and variable >= 0
        and NAMES.get(wanted) in types
        and value.is_floating_point()
        and value.dtype is not torch.float64
        and value.device.type == device
    )
    return value.to(wanted) if casts else value
