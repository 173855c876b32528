"""The same training on two processes (DistributedDataParallel, gloo): python examples/training/ddp.py

Each process sees half of the data, DDP averages the gradients, and the parameters come out as those
that one process finds on all of it. Nothing in the operator knows that it is not alone. In float64:
Adam divides by the gradients' size, and so makes much of the last bits in which sums of two halves
differ from sums of all.
"""

import os
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
    torch.set_default_dtype(torch.float64)
    store = dist.FileStore(f"{folder}/store", PROCESSES)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=PROCESSES)
    x, y = (t.chunk(PROCESSES)[rank] for t in make_data())
    model = DistributedDataParallel(make_model())
    losses = train(model, x, y, STEPS)
    said = f"process {rank}: loss {losses[0]:.4f} -> {losses[-1]:.4f} on {len(x)} points\n"
    print(said, end="", flush=True)  # whole lines: the other process prints too
    if rank == 0:
        torch.save(model.module.state_dict(), f"{folder}/parameters.pt")
    dist.barrier()
    dist.destroy_process_group()
    os._exit(0)  # torch's threads, were they still there, would abort a process that ends by itself


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(work, (folder,), nprocs=PROCESSES)
        together = torch.load(Path(folder) / "parameters.pt")
    torch.set_default_dtype(torch.float64)
    alone = make_model()
    losses = train(alone, *make_data(), STEPS)
    print(f"one process: loss {losses[0]:.4f} -> {losses[-1]:.4f} on all points")
    furthest = max((together[k] - v).abs().max().item() for k, v in alone.state_dict().items())
    print(f"the parameters differ by at most {furthest:.1e}")
    return 0 if furthest < 1e-9 else 1


if __name__ == "__main__":
    sys.exit(main())
