"""What gap means: as wide as it must be, and wrapped to the type of y by whoever compares."""


def gap(a, b):
    less = a < b
    return (a - b).abs(), less, int(less.sum())
