"""The tutorial's wrapper.py: python -c "from wrapper import *; print(cuda.addone(1))" """

from pathlib import Path

import wick

HERE = Path(__file__).parent

cuda = wick.load(name="testkernels", sources=[HERE / "addone.c", HERE / "ragged.c"])

if __name__ == "__main__":
    import torch

    print(cuda.addone(1))
    print(wick.ops.addone(torch.tensor([1.0])))
    print(cuda.ragged_inverse(torch.tensor([2, 0, 3], dtype=torch.int32), 5))
