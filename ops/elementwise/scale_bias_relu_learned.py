"""The reference of scale_bias_relu_learned: what it means, in plain PyTorch."""

from __future__ import annotations

import torch


def scale_bias_relu_learned(
    x: torch.Tensor, bias: torch.Tensor, scale: torch.Tensor
) -> torch.Tensor:
    return torch.relu(x * scale + bias).to(x.dtype)
