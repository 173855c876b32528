"""What step_ means."""


def step_(p, m, g=None, lr=0.1, beta=0.9, nesterov=False):
    m.mul_(beta)
    if g is not None:
        m.add_(g)
    move = beta * m + (0 if g is None else g) if nesterov else m
    p.sub_(lr * move)
