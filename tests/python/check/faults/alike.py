"""The reference of alike."""


def alike(x):
    return (x[..., 1:] == x[..., :-1]).sum(-1)
