"""One process has a batch three times as large as the other; the fix shares it out evenly."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.loop.jobs.steps import FIXED, model, run, train

if __name__ == "__main__":
    dist.init_process_group("gloo")
    net = DistributedDataParallel(model())
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    rows = 256 if FIXED else (128, 384)[dist.get_rank()]
    run(lambda _: train(net, optimizer, torch.randn(rows, 512)))
    dist.destroy_process_group()
