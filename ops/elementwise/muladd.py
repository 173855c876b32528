"""The reference of muladd: what it means, in plain PyTorch."""

from __future__ import annotations

import torch


def muladd(a: torch.Tensor, b: torch.Tensor, c: float) -> torch.Tensor:
    return a * b + c
