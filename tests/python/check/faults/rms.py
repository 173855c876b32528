"""What rms means."""


def rms(x, w, eps=1e-2):
    r = (x.square().mean(-1) + eps).rsqrt()
    return x * r[..., None] * w, r
