"""Every fourth step evaluates a large batch in between; the fix evaluates after the training."""

import torch

from tests.loop.jobs.steps import FIXED, model, run, train


def step(number: int) -> None:
    train(net, optimizer, torch.randn(256, 512))
    if number % 4 == 3 and not FIXED:
        with torch.no_grad():
            net(held_out)


if __name__ == "__main__":
    net = model()
    held_out = torch.randn(4096, 512)
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    run(step)
