"""What pick means."""


def pick(x, index):
    return x[index]
