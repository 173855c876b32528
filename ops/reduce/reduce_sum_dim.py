"""The reference of reduce_sum_dim: what it means, in plain PyTorch."""

from __future__ import annotations

import torch


def reduce_sum_dim(x: torch.Tensor) -> torch.Tensor:
    return x.sum(1)
