"""A training loop as somebody would have it: what ``npulens collect -- python -m tests.npu.train`` records.

It computes on the CPU, because the device it has cannot; where launches would be, it notes the moment. What msprof.py
makes of these moments is known beforehand, so they are noted by the steps that the recording will give them.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch
import torch_npu  # noqa: F401
from torch.autograd.profiler import record_function

from tests.npu.layer import LAUNCHES
from tests.npu.msprof import PLAN

LATER_S = 0.002  # the device is done with a step before its next one begins
#: The second step of the optimiser tells the rhythm, and there the recording begins: what follows is its step 0.
BEGINS = 1


def launch(name: str) -> int:
    """An operator of the host, and a moment inside it."""
    with record_function(f"launch {name}"):
        time.sleep(0.0001)
        moment = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        time.sleep(0.0001)
    return moment


def main(directory: Path, recorded: range, steps: int) -> None:
    """``recorded``: the numbers of the recorded steps."""
    torch.npu.current_device()  # as a job does that uses its device
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    launched: list[tuple[int, int]] = []
    for number in range(steps):
        loss = model(torch.ones(8, 16)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        moments = [(number - BEGINS, launch(name)) for name, *_ in LAUNCHES]
        time.sleep(LATER_S)
        launched += [each for each in moments if each[0] in recorded]
        (directory / PLAN).write_text(json.dumps(launched))
    print(f"loss {loss.item():.6f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), range(int(sys.argv[2]), int(sys.argv[3])), int(sys.argv[4]))
