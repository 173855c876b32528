"""What soft means."""

import torch


def soft(x):
    return torch.softmax(x, -1), torch.logsumexp(x, -1)
