"""AdamW with a loop over parameters and operators; the fix is the fused one."""

import torch

from tests.loop.jobs.steps import FIXED, model, run, train

if __name__ == "__main__":
    net = model()
    optimizer = torch.optim.AdamW(net.parameters(), fused=FIXED, foreach=False)
    run(lambda _: train(net, optimizer, torch.randn(32, 512)))
