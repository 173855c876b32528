"""custom_ops: the extension of chapter 5, in plain C.

import custom_ops
y = custom_ops.fused_op_forward(x, bias, 2.0)     # also custom_ops.fused_op, torch.ops.custom_ops.fused_op
"""

from wick.package import load_operators

__all__ = load_operators(globals())
