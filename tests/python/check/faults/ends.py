"""What ends and ends_put_ mean."""


def ends(x, index):
    return x[index]


def ends_put_(x, index, row):
    x[index] = row
