"""Modules on top of the operators: what a model is put together from.

model = torch.nn.Sequential(torch.nn.Linear(512, 256), wick.nn.ScaleBiasReLU(256), torch.nn.Linear(256, 10))
"""

from __future__ import annotations

import torch

from . import ops

__all__ = ["ScaleBiasReLU"]


class ScaleBiasReLU(torch.nn.Module):
    """y = relu(x * scale + bias), in one pass over x: wick.ops.scale_bias_relu with a bias that is trained.

    features   the size of x's last dimension
    scale      a number that is not trained and not part of the state dict
    device, dtype   of the bias, as in torch.nn.Linear

    The bias starts at zero. x has any number of dimensions in front, and the bias's element type
    and device.

        >>> layer = wick.nn.ScaleBiasReLU(3, scale=2.0)
        >>> layer(torch.tensor([[-1.0, 0.0, 1.0]]))
        tensor([[0., 0., 2.]], grad_fn=...)
    """

    def __init__(
        self,
        features: int,
        scale: float = 1.0,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.features = features
        self.scale = scale
        self.bias = torch.nn.Parameter(torch.empty(features, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        torch.nn.init.zeros_(self.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return ops.scale_bias_relu(x, self.bias, self.scale)

    def extra_repr(self) -> str:
        return f"features={self.features}, scale={self.scale}"
