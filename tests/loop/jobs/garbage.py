"""Objects that refer to each other, in a process with many others: collections scan them all. The fix freezes those."""

import gc
from typing import Any

import torch

from tests.loop.jobs.steps import FIXED, model, run, train

KEPT = [{"index": i, "list": [i]} for i in range(200_000)]  # tables that the job keeps


class Record:
    me: Any


def step(number: int) -> None:
    for _ in range(400):
        record = Record()
        record.me = record
    train(net, optimizer, torch.randn(128, 512))
    gc.collect()


if __name__ == "__main__":
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    if FIXED:
        gc.freeze()
    run(step)
