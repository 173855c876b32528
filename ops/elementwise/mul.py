"""The reference of mul: what it means, in plain PyTorch."""

from __future__ import annotations

import torch


def mul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a * b
