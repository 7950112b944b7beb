"""Sequences of another length in every step: the compiler starts anew. The fix pads them to one length."""

import torch

from tests.loop.jobs.steps import FIXED, model, run

if __name__ == "__main__":
    torch._inductor.config.force_disable_caches = True  # every run is like the first
    torch._dynamo.config.cache_size_limit = torch._dynamo.config.recompile_limit = 64
    net = model(256, 1)
    compiled = torch.compile(lambda x: (net(x).tanh() * 2).sum(), dynamic=False)

    def step(number: int) -> None:
        with torch.no_grad():
            compiled(torch.randn(128 if FIXED else 100 + number, 256))

    run(step, steps=11)
