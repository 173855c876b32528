"""The reference of keep: its gradient has 0 times NaN in it, as autograd's of every mask."""

import torch


def keep(x: torch.Tensor, mask: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.where(mask[:, None], x * w, 0.0)
