"""The weights are saved after every step; the fix saves them once, at the end."""

import os
import tempfile

import torch

from tests.loop.jobs.steps import FIXED, model, run, train


def step(_: int) -> None:
    train(net, optimizer, torch.randn(256, 512))
    if not FIXED:
        torch.save(net.state_dict(), place)


if __name__ == "__main__":
    place = os.path.join(tempfile.mkdtemp(), "weights.pt")
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    run(step)
    torch.save(net.state_dict(), place)
