"""Which of torch's operations are sums, how long they are, and what they add up.

A sum in whatever order is off by its length times one rounding of the magnitudes at most; so is a
logarithm that is carried from step to step. The same operation on magnitudes gives their size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

aten = torch.ops.aten


@dataclass
class Sum:
    """Of each element of a result. is_plain: of the elements or their products, and of nothing else, so
    that whole numbers are added up exactly."""

    size: torch.Tensor  # of the magnitudes
    length: float
    is_plain: bool = True


Sizes = list[Sum | None]  # of each result; no sum is None
Measure = Callable[[Any, Sequence[Any], Mapping[str, Any]], Sizes]


def is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def is_one(func: Any) -> bool:
    return func in _MEASURES


def measure(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sizes:
    """Of each of its results; nothing, where it is no sum of floats."""
    how = _MEASURES.get(func)
    if how is None or not any(is_float(a) and a.dtype == torch.float64 for a in args):
        return []
    return how(func, args, kwargs)


def _of_magnitudes(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    return func(*[a.abs() if is_float(a) else a for a in args], **kwargs)


def _along(x: torch.Tensor, dim: int) -> int:
    return max(1, x.shape[dim] if x.dim() else 1)


# ---- each kind ----


def _plain(length: Callable[[Sequence[Any], torch.Tensor], int], is_plain: bool = True) -> Measure:
    """One result; length: of the arguments and the magnitudes' sum."""

    def how(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sizes:
        size = _of_magnitudes(func, args, kwargs).abs()
        return [Sum(size, max(1, length(args, size)), is_plain)]

    return how


def _put(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sizes:
    """Length: the most that is added to one element."""
    into, indices, values, *rest = args
    if not (rest and rest[0]):
        return []
    size = aten.index_put(into.abs(), indices, values.abs(), True)
    counts = aten.index_put(torch.zeros_like(into), indices, torch.ones_like(values), True)
    return [Sum(size, float(counts.max()) if counts.numel() else 1.0, is_plain=False)]


def _scatter(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sizes:
    (_, dim, _, values, how, *_) = args
    if how not in ("sum", "mean"):
        return []
    return [Sum(_of_magnitudes(func, args, kwargs), _along(values, dim), is_plain=False)]


def _segments(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sizes:
    values, how, *_ = args
    if how not in ("sum", "mean"):
        return []
    return [Sum(_of_magnitudes(func, args, kwargs), max(1, values.shape[0]), is_plain=False)]


def _bags(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sizes:
    (bags, *_) = _of_magnitudes(func, args, kwargs)
    return [Sum(bags, max(1, args[1].numel()), is_plain=False)]


def _convolution_backward(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sizes:
    arriving, _, weight, *_ = args
    places = max(1, arriving.numel() // max(1, arriving.shape[1]))
    reach = max(1, weight.numel() // max(1, min(weight.shape[:2])))
    sizes = _of_magnitudes(func, args, kwargs)
    return [s if s is None else Sum(s, n) for s, n in zip(sizes, (reach, places, places))]


def _carried(length: Callable[[Sequence[Any]], int]) -> Measure:
    """A logarithm, to which something is added step by step."""

    def how(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sizes:
        results = func(*args, **kwargs)
        results = results if isinstance(results, tuple) else (results,)
        return [Sum(1 + r.abs(), length(args), is_plain=False) for r in results]

    return how


def _distance(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sizes:
    """A root of a sum, which is off by as much, relative, as the sum."""
    return [Sum(func(*args, **kwargs), max(1, args[0].shape[-1]), is_plain=False)]


def _share(args: Sequence[Any], size: torch.Tensor) -> int:
    return int(args[0].numel() // max(1, size.numel()))


_ALL = _plain(_share)
_MEAN = _plain(_share, is_plain=False)
_ROW = _plain(lambda args, _: args[0].shape[-1])
_ADDED_ROW = _plain(lambda args, _: args[1].shape[-1] + 1)
_INDEXED = _plain(lambda args, _: _along(args[3], args[1]))
_POOL = _plain(lambda args, _: math.prod(args[1]), is_plain=False)
_CTC = _carried(lambda args: args[0].shape[0])

_MEASURES: dict[Any, Measure] = {
    aten.sum.default: _ALL,
    aten.sum.dim_IntList: _ALL,
    torch.ops.prims.sum.default: _ALL,
    aten.mean.default: _MEAN,
    aten.mean.dim: _MEAN,
    aten.cumsum.default: _plain(lambda args, _: _along(args[0], args[1])),
    aten.mm.default: _ROW,
    aten.bmm.default: _ROW,
    aten.mv.default: _ROW,
    aten.dot.default: _ROW,
    aten.addmm.default: _ADDED_ROW,
    aten.baddbmm.default: _ADDED_ROW,
    aten.addmv.default: _ADDED_ROW,
    aten.convolution.default: _plain(lambda args, _: args[1][0].numel()),
    aten.convolution_backward.default: _convolution_backward,
    aten.index_add.default: _INDEXED,
    aten.scatter_add.default: _INDEXED,
    aten.scatter_reduce.two: _scatter,
    aten.index_put.default: _put,
    aten.index_put_.default: _put,
    aten._index_put_impl_.default: _put,
    aten.segment_reduce.default: _segments,
    aten.bincount.default: _plain(lambda args, _: args[0].numel()),
    aten._embedding_bag.default: _bags,
    aten._embedding_bag_forward_only.default: _bags,
    aten.avg_pool2d.default: _POOL,
    aten.avg_pool3d.default: _POOL,
    aten._cdist_forward.default: _distance,
    aten._pdist_forward.default: _distance,
    aten.logcumsumexp.default: _carried(lambda args: _along(args[0], args[1])),
    aten._ctc_loss.default: _CTC,
    aten._ctc_loss.Tensor: _CTC,
}
