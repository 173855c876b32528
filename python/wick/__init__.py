"""Wick: PyTorch operators in plain C.

    import wick
    op = wick.load("scale_bias_relu.c")      # one C file becomes a complete operator
    y = op.scale_bias_relu(x, bias, 2.0)     # also torch.ops.local.scale_bias_relu
    z = wick.ops.relu(y)                     # the operators that come with Wick

`wick.load` builds and loads, `wick.ops` holds the shipped operators and `wick.nn` modules made of them, `wick.operators()`
lists what is loaded, and `wick.BuildError` says what did not build, with file and line.
"""

from . import _calls as _calls  # attaches the C core to torch; everything else stands on it
from . import nn as nn
from . import ops as ops
from ._load import BuildWarning, Loaded, load, operators
from ._wick import BuildError, __version__

__all__ = ["BuildError", "BuildWarning", "Loaded", "__version__", "load", "nn", "operators", "ops"]
