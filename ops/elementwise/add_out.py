"""The reference of add_out: what it means, in plain PyTorch."""

from __future__ import annotations

import torch


def add_out(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """What `out` becomes."""
    return a + b


def add_out_baseline_torch(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    return torch.add(a, b, out=out)
