"""Run in a process of its own with the real torch_npu: a small training loop, recorded as ``npulens collect`` does.

    python -m tests.npu.job DIRECTORY SETTINGS

It computes on the CPU, because the device it has cannot; where launches would be, it notes the moment.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch
import torch_npu  # noqa: F401

from npulens.collectors.recorder import Recorder
from npulens.collectors.settings import Settings
from tests.npu.layer import LAUNCHES
from tests.npu.msprof import PLAN
from tests.npu.train import LATER_S, launch


def main(directory: Path, settings: Settings) -> None:
    torch.npu.current_device()  # the profiler wants a device that is initialised
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    recorder = Recorder(directory, settings, "npu")
    recorder.start()
    launched: list[tuple[int, int]] = []
    for step in range(settings.steps):
        model(torch.ones(8, 16)).square().mean().backward()
        optimizer.step()
        moments = [(step, launch(name)) for name, *_ in LAUNCHES]
        time.sleep(LATER_S)
        if step >= settings.wait + settings.warmup:
            launched += moments
            (directory / PLAN).write_text(json.dumps(launched))
        recorder.step()
    print("\n" + json.dumps({"state": recorder.state, "reason": recorder.reason}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Settings.from_json(sys.argv[2]))
