"""Tensors that know whether they are on the stand-in's GPU, and must not be mixed with others.

Their storages carry a mark. `x.device` says it, what is computed from them has it too, and as on a GPU
an operation on tensors of both sides is refused, and so is numpy, and a guarded call on the CPU.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

GPU = torch.device("cuda", 0)
MIXED = "expected all tensors to be on the same device"
# Which take tensors of both sides.
FREE = {"copy_", "_to_copy", "index", "index_put", "index_put_", "_index_put_impl_"}

_device = torch._C.TensorBase.device
_to, _numpy = torch.Tensor.to, torch.Tensor.numpy
_unwatched = 0


def is_there(x: torch.Tensor) -> bool:
    try:
        return getattr(x.untyped_storage(), "on_gpu", False)
    except (NotImplementedError, RuntimeError):  # has no storage
        return False


def put(x: torch.Tensor) -> torch.Tensor:
    x.untyped_storage().on_gpu = True
    return x


def watch(_: Any) -> None:
    torch.Tensor.device = property(lambda x: GPU if is_there(x) else _device.__get__(x))
    torch.Tensor.is_cuda = property(is_there)
    torch.Tensor.to, torch.Tensor.cpu, torch.Tensor.numpy = _leave, _fetch, _as_numpy
    _Watching().__enter__()
    _watch_guarded_calls()


@contextlib.contextmanager
def _nobody_looks() -> Iterator[None]:
    global _unwatched
    _unwatched += 1
    try:
        yield
    finally:
        _unwatched -= 1


def _copied(x: torch.Tensor) -> torch.Tensor:
    with _nobody_looks():
        y = _to(x.detach(), "cpu", copy=True)
    if is_there(y):
        del y.untyped_storage().on_gpu
    return y


class _Fetched(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return _copied(x)

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> torch.Tensor:
        return put(dy.clone())


def _fetch(x: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
    """x.cpu()"""
    if not is_there(x):
        return x
    return _Fetched.apply(x) if x.requires_grad and torch.is_grad_enabled() else _copied(x)


def _leave(x: torch.Tensor, *args: Any, **keywords: Any) -> torch.Tensor:
    """x.to(...), but for what goes to the GPU."""
    device = next((a for a in args[:1] if isinstance(a, (str, torch.device))), None)
    if is_there(x) and str(keywords.get("device", device)) == "cpu":
        return _fetch(x)
    return _to(x, *args, **keywords)


def _as_numpy(x: torch.Tensor, *args: Any, **keywords: Any) -> Any:
    if is_there(x):
        raise TypeError("can't convert cuda:0 device type tensor to numpy")
    return _numpy(x, *args, **keywords)


class _Watching(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if _unwatched:
            return func(*args, **kwargs)
        given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        there = [x for x in given if is_there(x)]
        here = [x for x in given if not is_there(x) and x.dim() > 0 and x.device.type == "cpu"]
        name = func.overloadpacket.__name__
        if there and here and name not in FREE:
            raise RuntimeError(f"{func}: {MIXED}")
        result = func(*args, **kwargs)
        moves = name == "copy_" or (name.startswith("index") and not is_there(given[0]))
        if there and not moves:
            for x in tree_leaves(result):
                if isinstance(x, torch.Tensor) and x.device.type == "cpu":
                    put(x)
        return result


def _watch_guarded_calls() -> None:
    from wick.check import guarded

    real: Callable[..., Any] = guarded._argument

    @functools.wraps(real)
    def argument(value: Any, *about: Any) -> Any:
        if isinstance(value, torch.Tensor) and is_there(value):
            raise RuntimeError(f"a guarded call on the CPU: {MIXED}")
        return real(value, *about)

    guarded._argument = argument
