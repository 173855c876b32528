"""The reference of drop."""

import torch


def drop(x: torch.Tensor, seed: int = 1) -> torch.Tensor:
    place = torch.arange(x.numel()).reshape(x.shape)
    hashed = (place + seed) * (0x9E3779B97F4A7C15 - 2**64)
    hashed = hashed ^ ((hashed >> 31) & (2**33 - 1))
    hashed = hashed * (0xBF58476D1CE4E5B9 - 2**64)
    return torch.where((hashed >> 40) & 1 == 1, 2 * x, 0.0)
