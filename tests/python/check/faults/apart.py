"""What apart means."""

import torch


def apart(x, y, p="l2"):
    a = (x[:, None] - y[None]).abs()
    if p == "l1":
        return a.sum(-1)
    if p == "most":
        return a.amax(-1) if x.shape[1] else a.sum(-1)
    squares = (a * a).sum(-1)
    same = squares == 0  # the gradient there is 0
    return torch.where(same, 0.0, torch.where(same, 1.0, squares).sqrt())
