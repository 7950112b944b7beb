"""A real job whose loader starts its workers with each epoch, unless it keeps them: slow_epochs.py TRACE [keep]"""

from __future__ import annotations

import sys

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 4


def main(trace: str, keep: bool) -> None:
    torch.set_num_threads(1)
    data = TensorDataset(torch.randn(64, 256), torch.randint(0, 10, (64,)))
    loader = DataLoader(data, batch_size=16, num_workers=2, persistent_workers=keep)
    model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def epoch() -> None:
        for inputs, labels in loader:
            for _ in range(5):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(inputs), labels).backward()
                optimizer.step()

    epoch()
    with profile(activities=[ProfilerActivity.CPU], with_stack=True, record_shapes=True) as recorded:
        for _ in range(EPOCHS):
            epoch()
    recorded.export_chrome_trace(trace)


if __name__ == "__main__":
    main(sys.argv[1], "keep" in sys.argv[2:])
