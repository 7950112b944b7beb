"""Samples are unpacked in the training process whenever they are read; the fix unpacks each once."""

import zlib

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from tests.loop.jobs.steps import FIXED, model, run, train

PACKED = [zlib.compress(np.random.default_rng(i).normal(size=512).astype(np.float32).tobytes() * 40) for i in range(64)]


class Packed(Dataset[torch.Tensor]):
    def __init__(self) -> None:
        self.kept = [self.unpacked(index) for index in range(64)] if FIXED else []

    def __len__(self) -> int:
        return 4096

    def unpacked(self, index: int) -> torch.Tensor:
        return torch.from_numpy(np.frombuffer(zlib.decompress(PACKED[index]), np.float32)[:512].copy())

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.kept[index % 64] if FIXED else self.unpacked(index % 64)


if __name__ == "__main__":
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    batches = iter(DataLoader(Packed(), batch_size=64))
    run(lambda _: train(net, optimizer, next(batches)))
