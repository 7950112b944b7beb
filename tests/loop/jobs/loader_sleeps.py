"""A data set on a slow disk, read by the training process itself; the fix reads in workers."""

import time

import torch
from torch.utils.data import DataLoader, Dataset

from tests.loop.jobs.steps import FIXED, model, run, train


class SlowDisk(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 4096

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.0005)
        return torch.full((512,), index / 4096)


if __name__ == "__main__":
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    workers = 3 if FIXED else 0
    batches = iter(DataLoader(SlowDisk(), batch_size=64, num_workers=workers, prefetch_factor=4 if FIXED else None))
    run(lambda _: train(net, optimizer, next(batches)))
