"""my_package: PyTorch operators in plain C, made with Wick.

    import my_package
    y = my_package.leaky_bias(x, bias)     # also torch.ops.my_package.leaky_bias

In an editable install the operators are built from ops/ at import, as far as they changed.
"""

from wick.package import load_operators

__all__ = load_operators(globals())
