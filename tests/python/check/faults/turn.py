"""What turn means."""


def turn(x):
    return x.transpose(-1, -2)
