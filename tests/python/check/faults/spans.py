"""What spans means, of as many as there are."""

import torch


def spans(x, n, w=None, per="all"):
    if per not in ("all", "one"):
        raise ValueError("per is neither all nor one")
    if bool(((n < 0) | (n > x.shape[1])).any()):
        raise ValueError("so many are not there")
    counts = torch.arange(x.shape[1]) < n[:, None]
    total = torch.where(counts, x if w is None else x * w, 0.0).sum(1)
    return total if per == "all" else total / n.clamp(min=1)
