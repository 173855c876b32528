"""What taps means."""

import torch


def taps(x, w, pad=0, dil=1):
    rows, length = x.shape
    many = length + 2 * pad - dil * len(w) + dil
    if pad < 0 or dil < 1 or len(w) < 1 or many < 0:
        raise ValueError("not a filter")
    y = torch.zeros(rows, many, dtype=x.dtype)
    for k in range(len(w)):
        first, last = max(0, pad - k * dil), min(many, length + pad - k * dil)
        if first < last:  # what lies outside is left out: 0 times infinity is not NaN
            y[:, first:last] += x[:, first + k * dil - pad : last + k * dil - pad] * w[k]
    return y
