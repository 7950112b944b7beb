"""The second process does work of its own before each step; the fix does it elsewhere."""

import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.loop.jobs.steps import FIXED, model, run, train


def step(_: int) -> None:
    if dist.get_rank() == 1 and not FIXED:
        time.sleep(0.02)
    train(net, optimizer, torch.randn(128, 512))


if __name__ == "__main__":
    dist.init_process_group("gloo")
    net = DistributedDataParallel(model())
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    run(step)
    dist.destroy_process_group()
