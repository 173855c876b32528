"""The same training on two processes (DistributedDataParallel, gloo): python examples/training/ddp.py

Each process sees half of the data, DDP averages the gradients, and the parameters come out as those
that one process finds on all of it. Nothing in the operator knows that it is not alone.
"""

import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from train import make_data, make_model, train

PROCESSES, STEPS = 2, 30


def work(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    store = dist.FileStore(f"{folder}/store", PROCESSES)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=PROCESSES)
    x, y = (t.chunk(PROCESSES)[rank] for t in make_data())
    model = DistributedDataParallel(make_model())
    losses = train(model, x, y, STEPS)
    print(
        f"process {rank}: loss {losses[0]:.4f} -> {losses[-1]:.4f} on {len(x)} points", flush=True
    )
    if rank == 0:
        torch.save(model.module.state_dict(), f"{folder}/parameters.pt")
    dist.destroy_process_group()


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(work, (folder,), nprocs=PROCESSES)
        together = torch.load(Path(folder) / "parameters.pt")
    alone = make_model()
    losses = train(alone, *make_data(), STEPS)
    print(f"one process: loss {losses[0]:.4f} -> {losses[-1]:.4f} on all points")
    furthest = max((together[k] - v).abs().max().item() for k, v in alone.state_dict().items())
    print(f"the parameters differ by at most {furthest:.1e}")
    return 0 if furthest < 1e-4 else 1


if __name__ == "__main__":
    sys.exit(main())
