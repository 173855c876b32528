"""A shipped operator as the parts of `wick check` see it, and what they ask of one."""

from __future__ import annotations

from typing import Any

import torch

from wick.check import draw
from wick.check.case import Case
from wick.check.forward import Forward
from wick.check.operator import Operator
from wick.check.reference import Reference

SCALE = Operator("wick", "scale_bias_relu")

CASE = Case(
    "scale_bias_relu",
    {"T": "f16"},
    {"N": (2, 3), "C": 17},
    {"scale": 0.5},
    {"x": "transposed"},
    values="nan",
    seed=7,
)


def drawn(profile: str, dtype: torch.dtype, n: int = 4000) -> torch.Tensor:
    return draw.values(profile, (n,), dtype, draw.generator(1, "x"))


def reference(function: Any) -> Reference:
    return Reference("ref.py", function, None)


def subject_of(operator: Operator, function: Any) -> Forward:
    return Forward(operator, reference(function), lambda phase: None)


def rows(table: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return table[at]
