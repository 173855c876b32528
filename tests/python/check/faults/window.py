"""What window and crosswise mean."""

import torch


def window(x, k=4):
    if k < 1:
        raise ValueError("k is 1 at least")
    rows = [x[..., max(0, i - k + 1) : i + 1].mean(-1) for i in range(min(x.shape[-1], k))]
    if x.shape[-1] > k:
        rows.append(x[..., 1:].unfold(-1, k, 1).mean(-1))
        return torch.cat([torch.stack(rows[:-1], -1), rows[-1]], -1)
    return torch.stack(rows, -1) if rows else x.clone()


def crosswise(a, b):
    return a + b.T
