"""vmap: a batched call becomes one call where the signature has a `batch` dim for it, else one call per element.

    x: T[*N, C], bias: T[C] -> y: T[*N, C] batch N     vmap over x: one more dim in front
    x: T[N, C] -> y: T[N] batch N                      vmap over x: [B, N, C] is seen as [B*N, C]

Imported when the first batched tensor arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._functorch.pyfunctorch import retrieve_current_functorch_interpreter

from . import _fake
from ._signature import Dim, Param, Signature, signature

_functorch = torch._C._functorch
_BATCHED = torch._C.DispatchKeySet(torch._C.DispatchKey.FuncTorchBatched)
_OLD = torch._C._parse_dispatch_key("Batched")  # DispatchKey does not list it
_MOST_LEVELS = 64  # of the old vmap
_TOO_MANY = 2**31 - 1  # calls in a batch

Result = tuple[Any, int | None]  # a result, and where its batch dim is


def batched(ns: str, name: str, args: tuple[Any, ...]) -> Any:
    """A kernel for FuncTorchBatched and Batched: takes one level of batching off, calls, and puts it on again."""
    sig = signature(ns, name)
    if any(_is_old(v) for v in args):
        return _batched_by_autograd(sig, list(args))
    interpreter = retrieve_current_functorch_interpreter()
    level = interpreter.level()
    values, at = [], []
    for v in args:
        tensor = isinstance(v, torch.Tensor)
        value, dim = _functorch._unwrap_batched(v, level) if tensor else (v, None)
        values.append(value)
        at.append(dim)
    with torch._C._ExcludeDispatchKeyGuard(_BATCHED):
        if all(dim is None for dim in at):
            return _call(sig, values)
        found = _Batch(sig, values, at, interpreter.batch_size()).run()
    return _wrap(found, lambda r, at: _functorch._add_batch_dim(r, at, level))


def _batched_by_autograd(sig: Signature, args: list[Any]) -> Any:
    """The vmap of torch.autograd.grad(..., is_grads_batched=True), which is older than torch.func's and knows no
    interpreter. A tensor does not tell which levels it has: the innermost, which is to be taken off first, is tried for.
    """
    for level in _levels():
        sizes = [_size_at(v, level) for v in args]
        if any(size is not None for size in sizes):
            break
    else:
        raise RuntimeError(f"{sig.name}: tensors that are batched at no level of vmap")
    batch = next(size for size in sizes if size is not None)
    values = [
        v if size is None else torch._remove_batch_dim(v, level, size, 0)
        for v, size in zip(args, sizes)
    ]
    found = _Batch(sig, values, [None if size is None else 0 for size in sizes], batch).run()
    return _wrap(found, lambda r, at: torch._add_batch_dim(r, at, level))


def _is_old(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and torch._C._dispatch_keys(value).has(_OLD)


def _levels() -> Iterator[int]:
    """Where a batched tensor may have its innermost level. Threads count for themselves, and the thread that runs a
    backward on a GPU is not the one that vmap was called in: after the own count, all there can be."""
    count = torch._C._vmapmode_increment_nesting() - 1
    torch._C._vmapmode_decrement_nesting()
    yield count
    yield from range(_MOST_LEVELS, 0, -1)


def _size_at(value: Any, level: int) -> int | None:
    """How many a tensor is at this level; None for what is not batched there, and is then as many as is asked for."""
    if not _is_old(value):
        return None
    size = torch._remove_batch_dim(value, level, _TOO_MANY, 0).shape[0]
    return None if size == _TOO_MANY else size


def _wrap(found: list[Result], add: Callable[[torch.Tensor, int], torch.Tensor]) -> Any:
    results = [r if at is None else add(r, at) for r, at in found]
    return results[0] if len(results) == 1 else tuple(results) or None


def _call(sig: Signature, values: list[Any]) -> Any:
    positional, wanted = sig.split(tuple(values))
    return sig.overload(*positional, **wanted)


class _Batch:
    """One call: `size` calls at once, the values with their batch dims at `at`."""

    def __init__(self, sig: Signature, values: list[Any], at: list[int | None], size: int) -> None:
        self.sig, self.values, self.at, self.size = sig, values, at, size

    def run(self) -> list[Result]:
        for p, v, dim in zip(self.sig.inputs, self.values, self.at):
            if p.in_place and v is not None and dim is None:
                raise RuntimeError(
                    f"{self.sig.name}: {p.name} is written in place, but only other arguments are batched by vmap: "
                    "batch it too"
                )
        for p in self.sig.outputs:
            if p.kind != "tensor":
                raise RuntimeError(
                    f"{self.sig.name}: returns a plain number ({p.name}), which vmap cannot batch"
                )
        for i, dim in enumerate(self.sig.dims):
            if dim.batch and self._fits(i, dim):
                return self._at_once(i, dim)
        return self._one_by_one()

    # ---- along a dim of the signature ----

    def _fits(self, i: int, dim: Dim) -> bool:
        if dim.from_int >= 0:
            return False
        for p, bdim in zip(self.sig.inputs, self.at):
            if bdim is not None and not p.mentions(i):
                return False
            if p.in_place and not dim.leading:
                return False  # what is flattened may be a copy
        tensors = [p for p in self.sig.inputs if p.mentions(i)] + self.sig.outputs
        return all(p.stands_alone(i) for p in tensors)

    def _at_once(self, i: int, dim: Dim) -> list[Result]:
        values = list(self.values)
        for k, p in enumerate(self.sig.inputs):
            if not p.mentions(i) or values[k] is None:
                continue
            if p.kind == "shape":
                values[k] = self._widen_shape(p, i, list(values[k]))
            else:
                values[k] = self._widen(p, i, values[k], self.at[k])
        results = _call(self.sig, values)
        results = results if isinstance(results, tuple) else (results,) * len(self.sig.outputs)
        return [self._narrow(p, i, r) for p, r in zip(self.sig.outputs, results)]

    def _widen(self, p: Param, i: int, value: torch.Tensor, bdim: int | None) -> torch.Tensor:
        axis = p.axis_of(i)
        rank = value.dim() if bdim is None else value.dim() - 1
        front = 0 if axis is None else rank + axis
        if bdim is None:
            shape = (*value.shape[:front], self.size, *value.shape[front:])
            value = value.unsqueeze(front).expand(shape)
        else:
            value = value.movedim(bdim, front)
        return value if axis is None else value.flatten(front, front + 1)

    def _widen_shape(self, p: Param, i: int, sizes: list[int]) -> list[int]:
        axis = p.axis_of(i)
        if axis is None:
            return [self.size, *sizes]
        sizes[axis] = sizes[axis] * self.size
        return sizes

    def _narrow(self, p: Param, i: int, result: torch.Tensor | None) -> Result:
        axis = p.axis_of(i)
        if result is None:
            return None, None
        if axis is None:
            return result, 0
        at = result.dim() + axis
        inner = result.shape[at] // self.size if self.size else self._extent(i)
        return result.unflatten(at, (self.size, inner)), at

    def _extent(self, i: int) -> int:
        """The value of a named dim in one of the calls."""
        for p, v, bdim in zip(self.sig.inputs, self.values, self.at):
            axis = p.axis_of(i)
            if axis is not None and v is not None:
                return _one(v, bdim)[axis]
        raise AssertionError("a dim that no input has")

    # ---- without one ----

    def _one_by_one(self) -> list[Result]:
        if self.size == 0:
            return self._none_at_all()
        calls = []
        for b in range(self.size):
            values = [
                v if dim is None else v.select(dim, b) for v, dim in zip(self.values, self.at)
            ]
            results = _call(self.sig, values)
            calls.append(results if isinstance(results, tuple) else (results,))
        return [
            (None, None) if rs[0] is None else (torch.stack(rs), 0)
            for rs, _ in zip(zip(*calls), self.sig.outputs)
        ]

    def _none_at_all(self) -> list[Result]:
        shapes = [
            v if not isinstance(v, torch.Tensor) else v.new_empty(_one(v, dim))
            for v, dim in zip(self.values, self.at)
        ]
        outputs = _fake.outputs(self.sig, tuple(shapes))
        return [(None, None) if o is None else (o.new_empty((0, *o.shape)), 0) for o in outputs]


def _one(value: Any, bdim: int | None) -> list[int]:
    """The sizes that one of the calls sees."""
    shape = list(value.shape) if isinstance(value, torch.Tensor) else list(value)
    if bdim is not None:
        del shape[bdim]
    return shape
