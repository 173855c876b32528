"""Without installing anything: builds what changed, finds the rest in the cache. python load_jit.py"""

from pathlib import Path

import torch

import wick

custom_ops = wick.load(
    name="custom_ops",
    sources=sorted(Path(__file__).parent.glob("ops/*.c")),
    extra_cflags=["-O3"],
    verbose=__name__ == "__main__",
)

if __name__ == "__main__":
    x, bias = torch.randn(32, 64), torch.randn(64)
    output = custom_ops.fused_op_forward(x, bias, 2.0)
    print("JIT compilation successful!", custom_ops.names)
