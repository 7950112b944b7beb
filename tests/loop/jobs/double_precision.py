"""The network computes in float64 by mistake; the fix is float32."""

import torch

from tests.loop.jobs.steps import FIXED, model, run, train

if __name__ == "__main__":
    dtype = torch.float32 if FIXED else torch.float64
    net = model().to(dtype)
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    run(lambda _: train(net, optimizer, torch.randn(256, 512, dtype=dtype)))
