"""What scaled means."""


def scaled(x, scale=1.0):
    return x * scale
