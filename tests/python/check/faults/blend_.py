"""What blend_ means: it writes x, as the operator does."""


def blend_(x, y, a=0.5):
    x += a * (y - x)
