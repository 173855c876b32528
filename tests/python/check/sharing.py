def share(x):
    """Twice x, and how many there are."""
    return 2 * x, x.numel()
