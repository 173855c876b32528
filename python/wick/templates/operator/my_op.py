"""The reference of my_op: what it means, in plain PyTorch. It takes the inputs by their names."""

from __future__ import annotations

import torch


def my_op(x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
    if not scale > 0:  # as the operator refuses it
        raise ValueError("scale must be more than 0")
    return scale * x / (1 + x.abs())
