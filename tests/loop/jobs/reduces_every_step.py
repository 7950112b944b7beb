"""A large model whose gradients are reduced in each of four steps; the fix accumulates and reduces in one."""

from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.loop.jobs.steps import FIXED, model, run


def step(number: int) -> None:
    for part in range(4):
        with net.no_sync() if FIXED and part < 3 else nullcontext():
            net(torch.randn(8, 1024)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    net = DistributedDataParallel(model(1024))
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    run(step, steps=16)
    dist.destroy_process_group()
