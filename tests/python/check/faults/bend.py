"""What bend means."""


def bend(x, mode=1, by=1.0):
    if mode not in (0, 1):
        raise ValueError("mode is neither 0 nor 1")
    return by * (x * x if mode else x.abs())
