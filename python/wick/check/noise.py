"""How far apart right answers may be: the reference computed with rounding errors.

Every operation of the reference is carried out in float64, and its result is then moved at random by
as much as one rounding in the accumulator's precision could move it, unless it is one that nobody
rounds; a sum by as much as its length times that, taken of the magnitudes that are summed. What such runs differ by is what an operator that
computes the same may differ by. Where the answer hangs on a tie, or cancels, they differ by much, and
an operator may too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten

# Sums: what is added are products or single elements, so that of the magnitudes gives their size.
_SUMS = {
    aten.sum.default,
    aten.sum.dim_IntList,
    aten.mean.default,
    aten.mean.dim,
    aten.cumsum.default,
    aten.mm.default,
    aten.bmm.default,
    aten.addmm.default,
    aten.baddbmm.default,
    aten.mv.default,
    aten.addmv.default,
    aten.dot.default,
    aten.convolution.default,
    aten.index_add.default,
    aten.scatter_add.default,
}
_MEANS = {aten.mean.default, aten.mean.dim}
# Of torch's core operations these are not one rounding but many: taken apart as well.
_COMPOSITE = {
    aten.gelu.default,
    aten.elu.default,
    aten._softmax.default,
    aten._log_softmax.default,
    aten.native_layer_norm.default,
    aten.native_layer_norm_backward.default,
    aten.native_group_norm.default,
    aten.native_group_norm_backward.default,
}
_PUTS = {aten.index_put, aten.index_put_, aten._index_put_impl_}  # sums, if they accumulate
# What is chosen is one of the elements, whoever chooses: `x == x.amax()` is to hold for one at least.
_CHOICES = {
    *(aten.amax, aten.amin, aten.max, aten.min, aten.maximum, aten.minimum),
    *(aten.where, aten.clamp, aten.clamp_min, aten.clamp_max, aten.relu, aten.abs, aten.neg),
    *(aten.clone, aten.cat, aten.index, aten.index_select, aten.gather, aten.masked_fill),
    *(aten.full, aten.full_like, aten.zeros, aten.zeros_like, aten.ones, aten.ones_like),
    *(aten.new_full, aten.new_zeros, aten.new_ones, aten.fill, aten.arange, aten.scalar_tensor),
}
# Functions with steps, whose results are whole numbers: what is made of these is not rounded either.
_STEPS = {
    *(aten.round, aten.floor, aten.ceil, aten.trunc, aten.sign, aten.sgn),
    *(aten.gt, aten.ge, aten.lt, aten.le, aten.eq, aten.ne),
}
_WHOLE = {aten.add, aten.sub, aten.rsub, aten.mul}
MOST_WHOLE = 2.0**20
# Which of equals comes first is not said.
_UNSTABLE = {aten.sort, aten.topk, aten.kthvalue, aten.mode, aten.median, aten.nanmedian}

# Products that torch takes in double, whatever the type: others may leave the range on their way.
_PRODUCTS = {aten.prod, aten.cumprod}
NARROW = 1e-10  # a rounding of more is one of f32
LARGEST, SMALLEST = 127.0, -126.0  # exponents of it

SOME = 1000  # elements that tell of most tensors that they are not whole numbers


class Noise(TorchDispatchMode):
    """In it, operations on float64 are rounded at random. level: one rounding, relative. drift: always
    up, as happens where the same is added again and again. strict: what a float holds is not rounded;
    for inputs of which so much is whole that ties are ties, by whatever formula."""

    def __init__(self, level: float, seed: int, drift: bool = False, strict: bool = False) -> None:
        super().__init__()
        self.level, self.drift, self.strict = level, drift, strict
        self.stepped = self.unstable = False  # what has been called, of _STEPS and _UNSTABLE
        self.generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in (aten.var.correction, aten.var_mean.correction):
            with self:
                return _variance(func, *args, **kwargs)
        if func.overloadpacket in _PRODUCTS and self.drift and self.level > NARROW:
            result = func(*args, **kwargs)
            return torch.where(_may_leave(func, *args[:3]), math.nan, self._disturb(result))
        if func not in _SUMS and (func in _COMPOSITE or torch.Tag.core not in func.tags):
            parts = _decompositions().get(func)
            if parts is not None:
                with self:
                    result = parts(*args, **kwargs)
                if result is not NotImplemented:
                    return result
        if func.overloadpacket in _PUTS and len(args) > 3 and args[3] and _is_float(args[0]):
            size = _put_size(*args[:3])
            result = func(*args, **kwargs)
            moved = self._disturb(result, size)
            return result.copy_(moved) if func._schema.is_mutable else moved
        result = func(*args, **kwargs)
        if func.overloadpacket in _UNSTABLE and not kwargs.get("stable"):
            self.unstable = True
        self.stepped = self.stepped or func.overloadpacket in _STEPS
        if func.is_view or func.overloadpacket in _CHOICES or func.overloadpacket in _STEPS:
            return result
        if func.overloadpacket in _WHOLE and self.stepped:
            return torch.where(_is_whole_and_small(result), result, self._disturb(result))
        if func in _SUMS:
            return self._disturb(result, self._sum_size(func, args, kwargs, result))
        if func._schema.is_mutable:
            for value in _tensors(result):
                value.copy_(self._disturb(value))
            return result
        if isinstance(result, (tuple, list)):
            return type(result)(self._disturb(value) for value in result)
        return self._disturb(result)

    def _disturb(self, value: Any, size: torch.Tensor | None = None) -> Any:
        """size: of a sum, its length times what is added up, in magnitudes."""
        if not isinstance(value, torch.Tensor) or value.dtype != torch.float64:
            return value
        if self.strict:
            return torch.where(value.float() == value, value, self._moved(value, size))
        return self._moved(value, size)

    def _moved(self, value: torch.Tensor, size: torch.Tensor | None) -> torch.Tensor:
        low = self.level if self.drift else -self.level
        if size is None:  # a product, so that zeros keep their sign, and infinities what they are
            return self._between(1 + low, 1 + self.level, value.shape).mul_(value)
        moved = self._between(low, self.level, value.shape).mul_(size).add_(value)
        return torch.where(value.isfinite(), moved, value)

    def _between(self, low: float, high: float, shape: torch.Size) -> torch.Tensor:
        return torch.empty(shape, dtype=torch.float64).uniform_(low, high, generator=self.generator)

    def disturb_input(self, value: torch.Tensor) -> torch.Tensor:
        """An input moved by less than the operator can tell; what hangs on a tie falls either way."""
        return self._disturb(value)

    def _sum_size(self, func: Any, args: Any, kwargs: Any, result: torch.Tensor) -> Any:
        """Length of the sums times the magnitudes that are added up."""
        if not isinstance(result, torch.Tensor) or result.dtype != torch.float64:
            return None
        absolute = [a.abs() if _is_float(a) else a for a in args]
        size = func(*absolute, **kwargs).abs()
        length = _sum_length(func, args, result)
        if func not in _MEANS and self._is_exact(args, size, length):
            return size  # rounded once at the end, if at all
        return size * length

    def _is_exact(self, args: Sequence[Any], size: torch.Tensor, length: int) -> bool:
        """Whole numbers, and few enough: added up exactly, in whatever order."""
        floats = [a for a in args if _is_float(a)]
        for a in floats:
            if not self._is_whole(a.flatten()[:SOME]) or (
                a.numel() > SOME and not self._is_whole(a)
            ):
                return False
        most = math.prod(float(a.abs().max()) if a.numel() else 0.0 for a in floats)
        total = float(size.max()) if size.numel() else 0.0
        return min(total, 8 * math.sqrt(length) * most) < 0.25 / self.level

    def _is_whole(self, a: torch.Tensor) -> bool:
        return bool(((a - a.round()).abs() <= 16 * self.level * a.abs()).all())


def _is_whole_and_small(value: torch.Tensor) -> torch.Tensor:
    return (value == value.round()) & (value.abs() < MOST_WHOLE)


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _tensors(value: Any) -> list[torch.Tensor]:
    values = value if isinstance(value, (tuple, list)) else [value]
    return [v for v in values if isinstance(v, torch.Tensor)]


def _sum_length(func: Any, args: Sequence[Any], result: torch.Tensor) -> int:
    if func in (aten.sum.default, aten.sum.dim_IntList, aten.mean.default, aten.mean.dim):
        return max(1, args[0].numel() // max(1, result.numel()))
    if func is aten.cumsum.default:
        return max(1, args[0].shape[args[1]] if args[0].dim() else 1)
    if func is aten.convolution.default:
        return max(1, args[1][0].numel())
    if func in (aten.index_add.default, aten.scatter_add.default):
        return max(1, args[3].shape[args[1]] if args[3].dim() else 1)
    added = func in (aten.addmm.default, aten.baddbmm.default, aten.addmv.default)
    return max(1, args[1 if added else 0].shape[-1]) + added


def _put_size(into: torch.Tensor, indices: Any, values: torch.Tensor) -> torch.Tensor:
    """The most that is added to one element, in number, times the magnitudes."""
    size = aten.index_put(into.abs(), indices, values.abs(), True)
    counts = aten.index_put(torch.zeros_like(into), indices, torch.ones_like(values), True)
    return size * counts.max() if counts.numel() else size


def _may_leave(func: Any, x: torch.Tensor, dim: Any = None, keep: bool = False) -> torch.Tensor:
    """Whether factors, in whatever order, have a product on their way that is no f32."""
    exponents = x.abs().log2().nan_to_num(0.0, 0.0, 0.0)

    def add(part: torch.Tensor) -> torch.Tensor:
        if func.overloadpacket is aten.cumprod:
            return part.cumsum(dim)
        return part.sum() if dim is None else part.sum(dim, keepdim=keep)

    return (add(exponents.clamp(min=0)) > LARGEST) | (add(exponents.clamp(max=0)) < SMALLEST)


def _variance(func: Any, x: torch.Tensor, dim: Any = None, **kwargs: Any) -> Any:
    """By its definition, each step of which is rounded."""
    keep = kwargs.get("keepdim", False)
    dims = list(range(x.dim())) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    n = math.prod(x.shape[d] for d in dims)
    mean = x.mean(dims, keepdim=True)
    centred = x - mean
    correction = kwargs.get("correction")
    below = max(0, n - (1 if correction is None else correction))
    variance = (centred * centred).sum(dims, keepdim=keep) / below
    if func is aten.var.correction:
        return variance
    return variance, mean if keep else mean.reshape(variance.shape)


def _decompositions() -> Any:
    """Imported when first needed: it takes a second."""
    from torch._decomp import decomposition_table

    return decomposition_table


def warm_up() -> None:
    """Everything that the first use imports, which takes seconds: once, before processes are forked."""
    with torch.no_grad(), Noise(0.0, 0):
        torch.nn.functional.silu(torch.zeros(1, dtype=torch.float64))
