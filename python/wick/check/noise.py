"""How far apart right answers may be: the reference computed with rounding errors.

Every operation of the reference is carried out in float64, and its result is then moved at random by
as much as one rounding in the accumulator's precision could move it, unless it is one that nobody
rounds; a sum by as much as its length times that, taken of the magnitudes that are summed (sums.py).
What such runs differ by is what an operator that computes the same may differ by. Where the answer
hangs on a tie, or cancels, they differ by much, and an operator may too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from . import sums

aten, prims = torch.ops.aten, torch.ops.prims

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
    aten._native_batch_norm_legit.default,
    aten._native_batch_norm_legit.no_stats,
    aten._native_batch_norm_legit_no_training.default,
    aten._adaptive_avg_pool2d.default,
    aten.embedding_dense_backward.default,
    aten.col2im.default,
}
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
_TRANSFORMS = {aten._fft_r2c, aten._fft_c2c, aten._fft_c2r}
MADE_OF_OTHERS = torch._C.DispatchKey.CompositeImplicitAutograd
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
        if func.overloadpacket in _VARIANCES:
            with self:
                return _VARIANCES[func.overloadpacket](*_moments(func, *args, **kwargs))
        if func.overloadpacket in _PRODUCTS and self.drift and self.level > NARROW:
            result = func(*args, **kwargs)
            return torch.where(_may_leave(func, *args[:3]), math.nan, self._disturb(result))
        if func.overloadpacket in _TRANSFORMS:
            return self._transformed(func, args, kwargs)
        if not sums.is_one(func) and (func in _COMPOSITE or torch.Tag.core not in func.tags):
            parts = _parts(func)
            if parts is not None:
                with self:
                    result = parts(*args, **kwargs)
                if result is not NotImplemented:
                    return result
        added = sums.measure(func, args, kwargs)  # before: it may write to what it adds to
        result = func(*args, **kwargs)
        if func.overloadpacket in _UNSTABLE and not kwargs.get("stable"):
            self.unstable = True
        self.stepped = self.stepped or func.overloadpacket in _STEPS
        if func.is_view or func.overloadpacket in _CHOICES or func.overloadpacket in _STEPS:
            return result
        if func.overloadpacket in _WHOLE and self.stepped:
            return torch.where(_is_whole_and_small(result), result, self._disturb(result))
        sizes = [self._size(a, args) for a in added]
        values = list(result) if isinstance(result, (tuple, list)) else [result]
        moved = [
            self._disturb(v, size)
            for v, size in itertools.zip_longest(values, sizes[: len(values)])
        ]
        if func._schema.is_mutable:
            for value, to in zip(values, moved):
                if isinstance(value, torch.Tensor):
                    value.copy_(to)
            return result
        return type(result)(moved) if isinstance(result, (tuple, list)) else moved[0]

    def _transformed(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """By Fourier: each result is a sum of all, the largest of which is that of the magnitudes."""
        x, dims, *_ = args
        result = func(*args, **kwargs)
        largest = func(x.abs().to(x.dtype), *args[1:], **kwargs).abs().amax(dims, keepdim=True)
        size = largest * math.prod(result.shape[d] for d in dims)
        parts = [self._moved(torch.zeros_like(size) + 0 * result.abs(), size) for _ in range(2)]
        return result + (torch.complex(*parts) if result.is_complex() else parts[0])

    def _size(self, added: sums.Sum | None, args: Sequence[Any]) -> torch.Tensor | None:
        """What one rounding, relative, moves it by."""
        if added is None:
            return None
        if added.is_plain and self._is_exact(args, added.size, added.length):
            return added.size  # rounded once at the end, if at all
        return added.size * added.length

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
        return torch.where(moved.isfinite(), moved, value)

    def _between(self, low: float, high: float, shape: torch.Size) -> torch.Tensor:
        return torch.empty(shape, dtype=torch.float64).uniform_(low, high, generator=self.generator)

    def disturb_input(self, value: torch.Tensor) -> torch.Tensor:
        """An input moved by less than the operator can tell; what hangs on a tie falls either way."""
        return self._disturb(value)

    def _is_exact(self, args: Sequence[Any], size: torch.Tensor, length: int) -> bool:
        """Whole numbers, and few enough: added up exactly, in whatever order."""
        floats = [a for a in args if sums.is_float(a)]
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


def _may_leave(func: Any, x: torch.Tensor, dim: Any = None, keep: bool = False) -> torch.Tensor:
    """Whether factors, in whatever order, have a product on their way that is no f32."""
    exponents = x.abs().log2().nan_to_num(0.0, 0.0, 0.0)

    def add(part: torch.Tensor) -> torch.Tensor:
        if func.overloadpacket is aten.cumprod:
            return part.cumsum(dim)
        return part.sum() if dim is None else part.sum(dim, keepdim=keep)

    return (add(exponents.clamp(min=0)) > LARGEST) | (add(exponents.clamp(max=0)) < SMALLEST)


def _moments(
    func: Any,
    x: torch.Tensor,
    dim: Any = None,
    unbiased: Any = True,
    keepdim: bool = False,
    correction: Any = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Variance and mean by their definition, each step of which is rounded. The arguments are those of one of
    var.default (x, unbiased), var.dim, var.correction and prims.var (x, dims, correction)."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if func.overloadpacket is prims.var:
        correction = unbiased
    if correction is None:
        correction = 1 if unbiased else 0
    dims = list(range(x.dim())) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    n = math.prod(x.shape[d] for d in dims)
    mean = x.mean(dims, keepdim=True)
    centred = x - mean
    variance = (centred * centred).sum(dims, keepdim=keepdim) / max(0, n - correction)
    return variance, mean if keepdim else mean.reshape(variance.shape)


# By what torch calls them: what they return, of variance and mean.
_VARIANCES: dict[Any, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    aten.var: lambda variance, _: variance,
    aten.std: lambda variance, _: variance.sqrt(),
    aten.var_mean: lambda variance, mean: (variance, mean),
    aten.std_mean: lambda variance, mean: (variance.sqrt(), mean),
    prims.var: lambda variance, _: variance,
}


def _parts(func: Any) -> Callable[..., Any] | None:
    """What it is made of, where torch knows."""
    found = _decompositions().get(func)
    if found is None and func.has_kernel_for_dispatch_key(MADE_OF_OTHERS):
        return func.decompose
    return found


def _decompositions() -> Any:
    """Imported when first needed: it takes a second."""
    from torch._decomp import decomposition_table

    return decomposition_table


def warm_up() -> None:
    """Everything that the first use imports, which takes seconds: once, before processes are forked."""
    with torch.no_grad(), Noise(0.0, 0):
        torch.nn.functional.silu(torch.zeros(1, dtype=torch.float64))
