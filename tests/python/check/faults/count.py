"""What count means."""


def count(x, limit=0.0):
    return int((x > limit).sum())
