"""The reference of relu: what it means, in plain PyTorch."""

from __future__ import annotations

import torch


def relu(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x)
