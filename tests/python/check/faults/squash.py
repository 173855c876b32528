"""What squash means."""


def squash(x, bias=None, scale=1.0):
    return (scale * x if bias is None else scale * x + bias).sigmoid()
