"""Statistics of all weights are written as text in every step; the fix writes the loss alone."""

import json
import os

import torch

from tests.loop.jobs.steps import FIXED, model, run, train


def step(number: int) -> None:
    train(net, optimizer, torch.randn(256, 512))
    kept = {} if FIXED else {name: value.flatten()[:20_000].tolist() for name, value in net.state_dict().items()}
    log.write(json.dumps({"step": number, **kept}) + "\n")


if __name__ == "__main__":
    log = open(os.devnull, "w")  # noqa: SIM115
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    run(step)
