"""What a call returns, from its arguments' sizes alone: the fake implementation that torch.compile, torch.export and
FakeTensorMode use. Sizes may be symbols, and stay symbols.

    x: T[B, S, N], hidden: T[B, 1, N] -> y: T[B, S+1, N]        [s0, s1, 8], [s0, 1, 8] => [s0, s1 + 1, 8]

The checks are those of a real call and made by the same code, in C: with the sizes that symbols stand for at the moment.
That they hold for other sizes too becomes a guard of the graph.

Imported when the first fake tensor arrives.
"""

from __future__ import annotations

from math import prod
from typing import Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException

from . import _wick
from ._signature import DTYPES, NAMES, Param, Signature, Size, signature


class _PlainNumber(DataDependentOutputException):
    """What torch.compile breaks a graph at, and without it the words of an error."""

    def __init__(self, func: Any, operator: str, output: str) -> None:
        super().__init__(func)
        self.operator, self.output = operator, output

    def __str__(self) -> str:
        return (
            f"{self.operator}: returns a plain number ({self.output}), which only a real call can tell: call it outside "
            "of what is traced or compiled as a whole"
        )


def implementation(mode: Any, func: Any, *args: Any, **keywords: Any) -> Any:
    """The fake implementation of every operator, as FakeTensorMode calls it."""
    sig = signature(*func._schema.name.split("::"))
    for p in sig.outputs:
        if p.kind != "tensor":
            raise _PlainNumber(func, sig.name, p.name)
    with mode:
        results = outputs(sig, sig.complete(args, keywords))
    return results[0] if len(results) == 1 else tuple(results) or None


def outputs(sig: Signature, values: tuple[Any, ...]) -> list[torch.Tensor | None]:
    """New tensors like those that a call would return; None for what is not wanted."""
    inputs, wanted = sig.split(values)
    found, device_of = _infer(sig, inputs)
    device = "cpu" if device_of < 0 else inputs[device_of].device
    return [
        torch.empty(shape, dtype=DTYPES[dtype], device=device)
        if wanted.get(f"want_{p.name}", True)
        else None
        for p, (dtype, shape) in zip(sig.outputs, found)
    ]


def shapes(sig: Signature, inputs: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Those of all outputs."""
    return [shape for _, shape in _infer(sig, inputs)[0]]


Found = list[tuple[str, Any]]  # element type and shape of every output


def _infer(sig: Signature, inputs: tuple[Any, ...]) -> tuple[Found, int]:
    """What the outputs are, and the input on whose device they are."""
    found, device_of = _check(sig, inputs)
    if any(shape is None for _, shape in found):
        dims = _solve(sig, inputs)
        found = [(dtype, dims.sizes_of(p)) for p, (dtype, _) in zip(sig.outputs, found)]
    return found, device_of


# ---- checks ----


def _check(sig: Signature, inputs: tuple[Any, ...]) -> tuple[Found, int]:
    """The same, but for the shapes, which are None where a size is a symbol."""
    numbers = [_number(p, v) for p, v in zip(sig.inputs, inputs)]
    if all(v is not _UNKNOWN for v in numbers):
        found, device_of = _wick.infer(sig.ns, sig.name, tuple(numbers), True)
        if not any(_is_symbolic(v) for v in inputs):
            return found, device_of
    else:  # a size that depends on data: nothing is known of it
        known = tuple(_number(p, v, unknown=0) for p, v in zip(sig.inputs, inputs))
        found, device_of = _wick.infer(sig.ns, sig.name, known, False)
    return [(dtype, None) for dtype, _ in found], device_of


_UNKNOWN: Any = object()


def _number(p: Param, value: Any, unknown: Any = _UNKNOWN) -> Any:
    """An input as _wick.infer takes it. Symbols are what they stand for now; `unknown` for those that nobody knows."""
    if value is None:
        return None
    if p.kind == "tensor":
        sizes = _number_of_all(value.shape, unknown)
        index = -1 if value.device.index is None else value.device.index
        return (
            sizes
            if sizes is _UNKNOWN
            else (_type_word(value.dtype), value.device.type, index, sizes)
        )
    if p.kind == "shape":
        return _number_of_all(value, unknown)
    if p.kind == "int":
        return _hint(value, unknown)
    return 1.0 if isinstance(value, torch.SymFloat) else value


def _number_of_all(sizes: Any, unknown: Any) -> Any:
    numbers = tuple(_hint(s, unknown) for s in sizes)
    return _UNKNOWN if any(n is _UNKNOWN for n in numbers) else numbers


def _hint(size: Any, unknown: Any) -> Any:
    if not isinstance(size, torch.SymInt):
        return size
    return int(size.node.hint) if size.node.has_hint() else unknown


def _type_word(dtype: torch.dtype) -> str:
    if dtype in NAMES:
        return NAMES[dtype]
    word = str(dtype).removeprefix("torch.")
    if dtype.is_complex:
        return f"{word} (complex numbers are not supported)"
    return "of a type that Wick does not know"


def _is_symbolic(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return any(isinstance(s, torch.SymInt) for s in value.shape)
    if isinstance(value, (list, tuple)):
        return any(isinstance(s, torch.SymInt) for s in value)
    return isinstance(value, torch.SymInt)


# ---- symbols ----


class _Dims:
    """The value of every dim of a call: numbers and symbols."""

    def __init__(self) -> None:
        self.value: dict[int, Any] = {}
        self.leading: dict[int, tuple[Any, ...]] = {}  # of each *N: its dims

    def evaluate(self, size: Size) -> Any:
        return sum(c * prod(self.value.get(d, 0) for d in names) for c, names in size)

    def sizes_of(self, p: Param) -> tuple[Any, ...]:
        return (*self.leading.get(p.leading, ()), *(self.evaluate(s) for s in p.sizes))

    def unknown_of(self, size: Size) -> int | None:
        """The one name of the size that has no value yet."""
        unknown = [d for _, names in size for d in names if d not in self.value]
        return unknown[0] if len(set(unknown)) == 1 and len(unknown) == len(set(unknown)) else None


def _solve(sig: Signature, inputs: tuple[Any, ...]) -> _Dims:
    """As wick_signature_bind (src/signature/solve.c): what stands alone, what has to be solved, what must agree."""
    dims = _Dims()
    shaped = [
        (p, _sizes(p, v)) for p, v in zip(sig.inputs, inputs) if p.kind in ("tensor", "shape")
    ]
    shaped = [(p, sizes) for p, sizes in shaped if sizes is not None]
    for p, v in zip(sig.inputs, inputs):
        if p.gives_dim >= 0:
            torch._check(
                v >= 0, lambda p=p: f"{sig.name}: {p.name} is a size, expected no negative"
            )
            dims.value[p.gives_dim] = v
    for p, sizes in shaped:
        _bind_alone(sig, p, sizes, dims)
    while _solve_one(shaped, dims):
        pass
    for p, sizes in shaped:
        for i, (is_, wanted) in enumerate(zip(sizes, dims.sizes_of(p), strict=True)):
            torch._check(
                is_ == wanted,
                lambda p=p, i=i: f"{sig.name}: {p.name}.shape[{i}] is not what the signature says",
            )
    return dims


def _sizes(p: Param, value: Any) -> tuple[Any, ...] | None:
    if value is None:
        return None
    return tuple(value.shape if p.kind == "tensor" else value)


def _bind_alone(sig: Signature, p: Param, sizes: tuple[Any, ...], dims: _Dims) -> None:
    n = len(sizes) - len(p.sizes)
    if n < 0 or (n > 0 and p.leading < 0):
        raise RuntimeError(
            f"{sig.name}: {p.name} has {len(sizes)} dimensions, expected {len(p.sizes)}"
            f"{' or more' if p.leading >= 0 else ''}"
        )
    if p.leading >= 0:
        there = dims.leading.setdefault(p.leading, sizes[:n])
        if len(there) != n:
            raise RuntimeError(
                f"{sig.name}: {p.name} has {n} leading dimensions, expected {len(there)}"
            )
    for size, is_ in zip(p.sizes, sizes[n:]):
        if len(size) == 1 and size[0][0] == 1 and len(size[0][1]) == 1:
            dims.value.setdefault(size[0][1][0], is_)


def _solve_one(shaped: list[tuple[Param, tuple[Any, ...]]], dims: _Dims) -> bool:
    """is = factor * name + rest, for a name that is not known yet."""
    for p, sizes in shaped:
        for size, is_ in zip(reversed(p.sizes), reversed(sizes)):
            name = dims.unknown_of(size)
            if name is None:
                continue
            factor = rest = 0
            for coefficient, names in size:
                known = coefficient * prod(dims.value[d] for d in names if d != name)
                factor, rest = (factor + known, rest) if name in names else (factor, rest + known)
            if factor != 0:
                dims.value[name] = (is_ - rest) // factor
                return True
    return False
