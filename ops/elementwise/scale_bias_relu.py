"""The reference of scale_bias_relu: what it means, in plain PyTorch."""

from __future__ import annotations

import torch


def scale_bias_relu(x: torch.Tensor, bias: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
    return torch.relu(x * scale + bias)
