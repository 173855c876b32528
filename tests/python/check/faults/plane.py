"""What plane means."""


def plane(x, total):
    return 2 * total, 2 * x
