"""Every gradient is reduced on its own after the backward pass; the fix overlaps buckets of them with it."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.loop.jobs.steps import FIXED, model, run


def step(_: int) -> None:
    net(torch.randn(64, 256)).square().mean().backward()
    if not FIXED:
        for parameter in net.parameters():
            dist.all_reduce(parameter.grad)
    optimizer.step()
    optimizer.zero_grad()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    plain = model(256, 12)
    net = DistributedDataParallel(plain) if FIXED else plain
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    run(step)
    dist.destroy_process_group()
