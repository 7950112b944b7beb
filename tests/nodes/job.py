"""A job of two ranks as people write it: it asks its launcher for the rank, and computes gradients together.

python job.py [PORT]     without a port: as torchrun has set it up
"""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist

STEPS = 9


def told(*names: str) -> int:
    """The first of these variables that is set."""
    return int(next(os.environ[name] for name in names if name in os.environ))


def train(rank: int | None, world: int | None, port: str | None) -> str:
    """Trains, and says what became of it."""
    torch.manual_seed(7)
    torch.set_num_threads(1)
    if port is None:
        dist.init_process_group("gloo")
    else:
        dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank or 0, world_size=world or 1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(STEPS):
        loss = model(torch.randn(4, 16)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    said = f"rank {dist.get_rank()} of {dist.get_world_size()}: loss {loss.item():.6f}"
    dist.barrier()
    dist.destroy_process_group()
    return said


if __name__ == "__main__":
    if len(sys.argv) > 1:
        rank = told("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
        print(train(rank, told("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"), sys.argv[1]), flush=True)
    else:
        print(train(None, None, None), flush=True)
