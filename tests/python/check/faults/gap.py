"""What gap means: as wide as it must be, and wrapped to the type of y by whoever compares."""


def gap(a, b):
    less = a < b
    many = int(less.sum())
    return (a - b).abs(), less, many, many / len(a) if len(a) else 0.0
