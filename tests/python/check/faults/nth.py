def nth(x, k=0, signs="+-"):
    if not 0 <= k < x.shape[-1]:
        raise ValueError("k is no column")
    return x[..., k] * (-1) ** signs.count("-"), x.amax(-1)
