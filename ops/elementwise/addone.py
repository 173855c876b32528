"""The reference of addone: what it means, in plain PyTorch."""

from __future__ import annotations

import torch


def addone(x: torch.Tensor) -> torch.Tensor:
    return x + 1
