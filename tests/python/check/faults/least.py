"""What least means."""

import torch


def least(a, b):
    return torch.minimum(a, b)
