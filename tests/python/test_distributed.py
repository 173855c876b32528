"""Two ranks over gloo: DDP, FSDP and DTensor with Wick's operators, against one process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()),
    reason="torch has no gloo",
)

HEAD = """
import os, sys, warnings
warnings.simplefilter("ignore")
import torch, torch.distributed as dist
import wick

rank, world = int(sys.argv[1]), 2
dist.init_process_group("gloo", rank=rank, world_size=world, init_method="file://" + sys.argv[2])
torch.manual_seed(1)

class Model(torch.nn.Module):
    def __init__(self, ops):
        super().__init__()
        self.first, self.last = torch.nn.Linear(6, 16, bias=False), torch.nn.Linear(16, 3)
        self.bias = torch.nn.Parameter(torch.randn(16))
        self.scale = torch.nn.Parameter(torch.tensor(1.1))
        self.ops = ops

    def forward(self, x):
        h = self.ops.scale_bias_relu(self.first(x), self.bias, 0.9)
        h = self.ops.scale_bias_relu_learned(h, self.bias, self.scale)
        return self.last(self.ops.mul(h, self.ops.addone(h)))
"""

TAIL = """
dist.barrier()
dist.destroy_process_group()
print("done", flush=True)
os._exit(0)  # torch's own threads, were they still there, would abort a process that ends by itself
"""


def run_ranks(tmp_path: Path, code: str) -> None:
    """The code on two ranks; both must get to the end."""
    store = tmp_path / "store"
    words = [sys.executable, "-c", HEAD + code + TAIL]
    ranks = [
        subprocess.Popen(
            [*words, str(rank), str(store)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        said = [rank.communicate(timeout=200) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    for rank, (out, err) in zip(ranks, said):
        assert rank.returncode == 0 and out == "done\n", out + err


TRAIN = """
from torch.nn.parallel import DistributedDataParallel
x, target = torch.randn(12, 6), torch.randn(12, 3)
for ops in (wick.ops, torch.ops.wick):
    torch.manual_seed(2)
    whole = Model(ops)
    torch.manual_seed(2)
    part = DistributedDataParallel(Model(ops))
    mine = slice(6 * rank, 6 * rank + 6)
    for model, inputs in ((whole, slice(None)), (part, mine)):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        for _ in range(10):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x[inputs]), target[inputs])
            loss.backward()
            optimizer.step()
    for (name, a), b in zip(whole.named_parameters(), part.parameters()):
        torch.testing.assert_close(a, b, msg=lambda m: f"{name}: {m}")
        everywhere = [torch.empty_like(b) for _ in range(world)]
        dist.all_gather(everywhere, b.detach())
        assert torch.equal(everywhere[0], everywhere[1])
"""


def test_ddp_trains_as_one_process_does(tmp_path: Path) -> None:
    run_ranks(tmp_path, TRAIN)


SHARD = """
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import init_device_mesh
x, target = torch.randn(12, 6), torch.randn(12, 3)
mesh = init_device_mesh("cpu", (world,))
torch.manual_seed(2)
whole = Model(wick.ops)
torch.manual_seed(2)
part = Model(wick.ops)
for layer in (part.first, part.last):
    fully_shard(layer, mesh=mesh)
part.scale = torch.nn.Parameter(part.scale.detach()[None])  # FSDP shards no 0-d parameter
part.forward = lambda x, forward=Model.forward: forward(Squeezed(part), x)

class Squeezed:
    def __init__(self, model): self.model = model
    def __getattr__(self, name):
        value = getattr(self.model, name)
        return value[0] if name == "scale" else value

fully_shard(part, mesh=mesh)
mine = slice(6 * rank, 6 * rank + 6)
for model, inputs in ((whole, slice(None)), (part, mine)):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(5):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x[inputs]), target[inputs]).backward()
        optimizer.step()
for (name, a), b in zip(whole.named_parameters(), part.parameters()):
    torch.testing.assert_close(a.detach().view(-1), b.full_tensor().detach().view(-1), msg=lambda m: f"{name}: {m}")
"""


def test_fsdp_trains_as_one_process_does(tmp_path: Path) -> None:
    run_ranks(tmp_path, SHARD)


TENSORS = """
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor, init_device_mesh
from torch.distributed.tensor.debug import CommDebugMode
mesh = init_device_mesh("cpu", (world,))

def shard(x, placement, grad=True):
    return distribute_tensor(x, mesh, [placement]).requires_grad_(grad)

for ops in (wick.ops, torch.ops.wick):
    # inputs, their placements, that of the result, those of the gradients, and whether anything is sent
    x, b, s = torch.randn(4, 6, 8), torch.randn(8), torch.randn(())
    for name, args, places, result, gradients, silent in (
        ("scale_bias_relu", (x, b, 0.5), (Shard(0), Replicate()), Shard(0), (Shard(0), Partial()), True),
        ("scale_bias_relu", (x, b, 0.5), (Shard(1), Replicate()), Shard(1), (Shard(1), Partial()), True),
        ("scale_bias_relu", (x, b, 0.5), (Shard(2), Shard(0)), Shard(2), (Shard(2), Shard(0)), True),
        ("scale_bias_relu", (x, b, 0.5), (Replicate(), Replicate()), Replicate(), (Replicate(), Replicate()), True),
        ("scale_bias_relu_learned", (x, b, s), (Shard(0), Replicate(), Replicate()), Shard(0),
         (Shard(0), Partial(), Partial()), True),
        ("mul", (x, x), (Shard(2), Shard(2)), Shard(2), (Shard(2), Shard(2)), True),
        ("muladd", (x, x, 2.0), (Shard(1), Shard(1)), Shard(1), (Shard(1), Shard(1)), True),
        ("relu", (x,), (Shard(0),), Shard(0), (Shard(0),), True),
        ("reduce_sum", (x,), (Shard(0),), Replicate(), None, False),
        ("reduce_sum_dim", (x,), (Shard(0),), Shard(0), None, True),
        ("reduce_sum_dim", (x,), (Shard(2),), Shard(1), None, True),
        ("reduce_sum_dim", (x,), (Shard(1),), Replicate(), None, False),
    ):
        op = getattr(ops, name)
        plain = [a.clone().requires_grad_() if isinstance(a, torch.Tensor) else a for a in args]
        right = op(*plain)
        dy = torch.randn_like(right)
        right.backward(dy)
        sharded = [shard(a, p) for a, p in zip(args, places)] + list(args[len(places):])
        with CommDebugMode() as sent:
            y = op(*sharded)
        assert y.placements == (result,), (name, y.placements)
        assert (sent.get_total_counts() == 0) == silent, (name, sent.get_total_counts())
        torch.testing.assert_close(y.full_tensor(), right)
        dy = shard(dy, result, grad=False)
        with CommDebugMode() as sent:
            y.backward(dy)
        for i in range(len(places)):
            if gradients is not None:
                assert sharded[i].grad.placements == (gradients[i],), (name, i, sharded[i].grad.placements)
            torch.testing.assert_close(sharded[i].grad.full_tensor(), plain[i].grad)
        assert gradients is None or sent.get_total_counts() == 0, (name, sent.get_total_counts())

    # only one gradient is wanted
    a, c = shard(x, Shard(0)), shard(x, Shard(0), grad=False)
    ops.mul(a, c).sum().backward()
    torch.testing.assert_close(a.grad.full_tensor(), x)

    # uneven
    odd = torch.randn(5, 8)
    torch.testing.assert_close(ops.scale_bias_relu(shard(odd, Shard(0)), shard(b, Replicate())).full_tensor(),
                               torch.relu(odd + b))

    # in place
    out = shard(torch.zeros(4, 6, 8), Shard(1), grad=False)
    ops.add_out(shard(x, Shard(1), grad=False), shard(x, Shard(0), grad=False), out)
    assert out.placements == (Shard(1),)
    torch.testing.assert_close(out.full_tensor(), x + x)
    with torch.inference_mode():
        torch.testing.assert_close(ops.relu(shard(x, Shard(0), grad=False)).full_tensor(), x.relu())

text = '''
#include <wick/op.h>
WICK_OP(bump, "x!: f32[N, C] -> () batch N");
WICK_IMPL wick_status bump_cpu(wick_ctx *ctx, float *x, int64_t N, int64_t C)
{ (void)ctx; for (int64_t i = 0; i < N * C; i++) x[i] += 1; return WICK_OK; }
WICK_OP(tile, "x: f32[N, C], k: int, want?: f32[N] -> y: f32[N, k], z?: f32[N] batch N");
WICK_IMPL wick_status tile_cpu(wick_ctx *ctx, const float *x, int64_t k, const float *want, float *y, float *z,
                               int64_t N, int64_t C)
{ (void)ctx; for (int64_t i = 0; i < N * k; i++) y[i] = x[i / k * C] + (want ? want[i / k] : 0);
  for (int64_t i = 0; z && i < N; i++) z[i] = x[i * C]; return WICK_OK; }
'''
m = wick.load(source=text, name="sharded.c")
v = torch.randn(4, 6)
t = shard(v, Shard(0), grad=False)
m.bump(t)
torch.testing.assert_close(t.full_tensor(), v + 1)
try:
    m.bump(shard(v, Shard(1), grad=False))
except RuntimeError as error:
    assert "bump: x is written in place, but is placed as" in str(error), error
else:
    raise AssertionError("a copy was written")
for k in (2, 3):
    y, z = m.tile(shard(v, Shard(0), grad=False), k)
    assert y.placements == z.placements == (Shard(0),) and y.shape == (4, k)
    torch.testing.assert_close(y.full_tensor(), v[:, :1].expand(4, k))
    y, z = m.tile(shard(v, Shard(0), grad=False), k, shard(v[:, 0], Shard(0), grad=False), want_z=False)
    assert z is None
    torch.testing.assert_close(y.full_tensor(), 2 * v[:, :1].expand(4, k))
"""


def test_a_sharded_call_equals_the_unsharded_one(tmp_path: Path) -> None:
    run_ranks(tmp_path, TENSORS)


TWO_DIMS = """
# a mesh of 2 x 1: one sharding per dim of the mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh
mesh = init_device_mesh("cpu", (2, 1))
x, b = torch.randn(4, 6, 8), torch.randn(8)
xd = distribute_tensor(x, mesh, [Shard(0), Shard(2)]).requires_grad_()
bd = distribute_tensor(b, mesh, [Replicate(), Shard(0)]).requires_grad_()
xp, bp = x.clone().requires_grad_(), b.clone().requires_grad_()
y, right = wick.ops.scale_bias_relu(xd, bd), wick.ops.scale_bias_relu(xp, bp)
assert y.placements == (Shard(0), Shard(2))
torch.testing.assert_close(y.full_tensor(), right)
(y * y).sum().backward()
(right * right).sum().backward()
torch.testing.assert_close(xd.grad.full_tensor(), xp.grad)
torch.testing.assert_close(bd.grad.full_tensor(), bp.grad)
"""


def test_a_mesh_of_two_dims(tmp_path: Path) -> None:
    run_ranks(tmp_path, TWO_DIMS)
