"""What sections means, of rows that do not fall."""

from itertools import pairwise

import torch


def sections(x, at):
    places = at.tolist()
    if places[0] < 0 or places[-1] > len(x) or bool((at.diff() < 0).any()):
        raise ValueError("sections must not fall, nor leave x")
    width = x.shape[1]
    means = [x[a:b].mean(0) if b > a else x.new_zeros(width) for a, b in pairwise(places)]
    return torch.stack(means) if means else x.new_zeros(0, width)
