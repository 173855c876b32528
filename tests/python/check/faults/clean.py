"""What clean means."""

import torch


def clean(x, instead=0.0):
    lost = x.isnan()
    kept = x[~lost]
    most = kept.max() if kept.numel() else torch.tensor(-torch.inf, dtype=x.dtype)
    return torch.where(lost, instead, x), lost.sum(), most
