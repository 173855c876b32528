"""One call in words: everything that is needed to make it again.

As text it is one line that a shell takes in quotes:

    scale_bias_relu T:f16 N=2x3 C=17 scale=0.5 x~transposed bias~absent values=nan seed=7

A dim that stands for any number of leading ones is `2x3`, or `()` for none. A scalar that is left
out takes its default.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any
from urllib.parse import quote, unquote

Size = int | tuple[int, ...]
MOST_SIZES = 32  # of leading dims


@dataclass(frozen=True)
class Case:
    op: str
    types: dict[str, str] = field(default_factory=dict)
    dims: dict[str, Size] = field(default_factory=dict)
    scalars: dict[str, Any] = field(default_factory=dict)
    layouts: dict[str, str] = field(default_factory=dict)
    absent: tuple[str, ...] = ()  # optional inputs that are not given
    unwanted: tuple[str, ...] = ()  # optional outputs that are not wanted
    values: str = "normal"
    seed: int = 0

    def but(self, **changes: Any) -> Case:
        return replace(self, **changes)

    def with_dim(self, name: str, size: Size) -> Case:
        return replace(self, dims={**self.dims, name: size})

    def length(self, name: str) -> int:
        """Of a dim, or of all that a name stands for."""
        size = self.dims[name]
        return size if isinstance(size, int) else math.prod(size)

    @property
    def numel(self) -> int:
        """Elements if every dim were in one tensor: a measure of size, never too small."""
        n = 1
        for size in self.dims.values():
            for s in size if isinstance(size, tuple) else (size,):
                n *= max(s, 1)
        return n

    @property
    def is_empty(self) -> bool:
        return any(0 in (s if isinstance(s, tuple) else (s,)) for s in self.dims.values())

    def text(self) -> str:
        words = [self.op]
        words += [f"{name}:{kind}" for name, kind in self.types.items()]
        words += [dims_text(self.dims)] if self.dims else []
        words += [f"{name}={_scalar_text(value)}" for name, value in self.scalars.items()]
        words += [f"{name}~{layout}" for name, layout in self.layouts.items()]
        words += [f"{name}~absent" for name in self.absent]
        words += [f"{name}~unwanted" for name in self.unwanted]
        if self.values != "normal":
            words.append(f"values={self.values}")
        if self.seed or "seed" in self.scalars or "seed" in self.dims:
            words.append(f"seed={self.seed}")
        return " ".join(words)

    def pack(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @staticmethod
    def unpack(packed: dict[str, Any]) -> Case:
        dims = {n: tuple(s) if isinstance(s, list) else s for n, s in packed["dims"].items()}
        lists = {k: tuple(packed[k]) for k in ("absent", "unwanted")}
        return Case(**{**packed, **lists, "dims": dims})


def dims_text(dims: dict[str, Size]) -> str:
    return " ".join(f"{name}={_size_text(size)}" for name, size in dims.items())


def _size_text(size: Size) -> str:
    if isinstance(size, int):
        return str(size)
    return "x".join(map(str, size)) if size else "()"


def _scalar_text(value: Any) -> str:
    """Of a str, what is no letter or the like as %20: a case is cut at blanks."""
    if isinstance(value, str):
        return quote(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


class CaseError(ValueError):
    """A text that is no case."""


def parse(text: str, dims: dict[str, bool], scalars: dict[str, str], names: set[str]) -> Case:
    """The case of a text. dims: whether each is a leading one; scalars: the kind of each; names:
    of the tensors. All of the operator whose name the text begins with."""
    head, *words = text.split()
    parts: dict[str, Any] = {k: {} for k in ("types", "dims", "scalars", "layouts")}
    parts |= {"absent": (), "unwanted": ()}
    seen: set[tuple[str, str]] = set()
    for place, word in enumerate(words, 1):
        mark = next((c for c in word if c in ":=~"), "")
        name, _, value = word.partition(mark) if mark else (word, "", "")
        if (name, mark) in seen and not word.startswith("seed="):
            raise CaseError(f"{word}: {name} was given before")
        seen.add((name, mark))
        if mark == ":":
            parts["types"][name] = value
        elif mark == "~" and name in names:
            if value in ("absent", "unwanted"):
                parts[value] = (*parts[value], name)
            else:
                parts["layouts"][name] = value
        elif word.startswith("seed=") and (place == len(words) or name not in (*dims, *scalars)):
            parts[name] = _read_scalar(word, value, "int")
        elif mark == "=" and name in dims:
            parts["dims"][name] = _read_size(word, value, dims[name])
        elif mark == "=" and name in scalars:
            parts["scalars"][name] = _read_scalar(word, value, scalars[name])
        elif mark == "=" and name == "values":
            parts[name] = value
        else:
            raise CaseError(f"{word} is no part of a case of {head}")
    missing = [name for name in dims if name not in parts["dims"]]
    if missing:
        raise CaseError(f"the size of {missing[0]} is missing: {missing[0]}=1")
    return Case(head, **parts)


def _read_size(word: str, value: str, leading: bool) -> Size:
    try:
        sizes = () if value == "()" else tuple(int(s) for s in value.split("x"))
    except ValueError:
        raise CaseError(f"{word}: expected a size") from None
    if any(not 0 <= s < 2**62 for s in sizes) or len(sizes) > MOST_SIZES:
        raise CaseError(f"{word}: no tensor has such a size")
    if leading:
        return sizes
    if len(sizes) != 1:
        raise CaseError(f"{word}: expected one size")
    return sizes[0]


def _read_scalar(word: str, value: str, kind: str) -> Any:
    try:
        if kind == "bool":
            return {"true": True, "false": False}[value]
        found = {"int": int, "float": float}.get(kind, unquote)(value)
        if kind == "int" and not -(2**63) <= found < 2**63:
            raise ValueError(value)
        return found
    except (KeyError, ValueError):
        raise CaseError(f"{word}: expected {kind}") from None
