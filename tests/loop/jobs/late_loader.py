"""The data of the second process lies on a slow disk; the fix puts it where the first one's is."""

import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

from tests.loop.jobs.steps import FIXED, model, run, train


class Disk(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 8192

    def __getitem__(self, index: int) -> torch.Tensor:
        if dist.get_rank() == 1 and not FIXED:
            time.sleep(0.0003)
        return torch.full((512,), index / 8192)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    net = DistributedDataParallel(model())
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    batches = iter(DataLoader(Disk(), batch_size=128))
    run(lambda _: train(net, optimizer, next(batches)))
    dist.destroy_process_group()
