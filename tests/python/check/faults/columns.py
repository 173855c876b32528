"""What columns means."""


def columns(x):
    return x.sum(0)
