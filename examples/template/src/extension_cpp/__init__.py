"""extension_cpp: the template's package, in plain C.

    from extension_cpp import convrnn_forward, my_kernel

In an editable install the operators are built from ops/ at import, as far as they changed.
"""

from wick.package import load_operators

__all__ = load_operators(globals())
