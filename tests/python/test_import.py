"""`import wick`, whatever torch is doing at the time: modes, transforms and default devices are not learnt from."""

from __future__ import annotations

import pytest
from support import run_python

ANYHOW = """
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

class Watching(TorchDispatchMode):
    seen = []
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))

def under(context):
    with context:
        import wick
"""

AFTERWARDS = """
import wick
from wick import _calls

print(_calls.mode, len(_calls.learnt))
x = torch.tensor([-1.0, 2.0])
print(wick.ops.relu(x).tolist(), torch.ops.wick.relu(x).tolist())
with Watching():
    wick.ops.relu(x), torch.ops.wick.relu(x)
print([name for name in Watching.seen if "relu" in name])
with FakeTensorMode() as mode:
    fake = mode.from_tensor(x)
    print(type(wick.ops.relu(fake)).__name__)
print(torch.func.grad(lambda v: wick.ops.relu(v).sum())(x).tolist())
"""

EXPECTED = """\
internals 4
[0.0, 2.0] [0.0, 2.0]
['wick.relu.default', 'wick.relu.default']
FakeTensor
[0.0, 1.0]
"""


@pytest.mark.parametrize(
    "how",
    [
        "under(Watching())",
        "under(FakeTensorMode())",
        "under(torch.device('meta'))",
        "torch.set_default_device('meta'); import wick; torch.set_default_device('cpu')",
        "torch.func.grad(lambda v: (under(torch.no_grad()), v.sum())[1])(torch.ones(3))",
    ],
)
def test_what_torch_does_at_the_time_makes_no_difference(how: str) -> None:
    assert run_python(f"{ANYHOW}\n{how}\n{AFTERWARDS}") == EXPECTED
