"""Many short recordings of a rank that shares one core with another: how many collectives had no end when they stopped.

python ended.py RANK PORT RECORDINGS
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from npulens.collectors.profilers import torch_profiler
from npulens.collectors.settings import Settings

_STEPS = 2
_SETTINGS = Settings(wait=0, warmup=1, active=_STEPS, defer=True, stacks=False, memory=False)


def main() -> None:
    rank, port, recordings = (int(word) for word in sys.argv[1:])
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    stopped = list[int]()
    stop = torch.profiler.profile.stop_trace

    def noted(profile: Any) -> None:
        stopped.append(time.time_ns())
        stop(profile)

    torch.profiler.profile.stop_trace = noted  # type: ignore[method-assign]
    found = without = 0
    for _ in range(recordings):
        made = torch_profiler.make("cpu", _SETTINGS, Path("never"), lambda: None)
        made.start()
        for _ in range(_STEPS + 1):
            optimizer.zero_grad()
            model(torch.randn(4, 16)).pow(2).mean().backward()
            optimizer.step()
            made.step()
        events = made.kept.profiler.kineto_results.events()
        ends = [each.start_ns() + each.duration_ns() for each in events if each.name() == "gloo:all_reduce"]
        found += len(ends)
        without += sum(end >= stopped[-1] for end in ends)
        made.stop()
    print(found, without, flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
