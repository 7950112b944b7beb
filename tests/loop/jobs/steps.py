"""What every job shares: which of its two forms runs, and how long its steps take without a profiler."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import torch

#: The form with the fault, or with its fix.
FIXED = "--fixed" in sys.argv
_STEPS, _WARM = 24, 4


def run(step: Callable[[int], None], steps: int = _STEPS, warm: int = _WARM) -> None:
    """Makes the steps; prints what the later ones took on average, in ns, once for each process."""
    took = []
    for number in range(steps):
        begin = time.perf_counter_ns()
        step(number)
        took.append(time.perf_counter_ns() - begin)
    print(f"step_ns={statistics.fmean(took[warm:]):.0f}", flush=True)


def model(width: int = 512, layers: int = 2) -> torch.nn.Sequential:
    """A small perceptron, the same in every process."""
    torch.manual_seed(0)
    made: list[torch.nn.Module] = []
    for _ in range(layers):
        made += [torch.nn.Linear(width, 2 * width), torch.nn.GELU(), torch.nn.Linear(2 * width, width)]
    return torch.nn.Sequential(*made)


def train(
    net: torch.nn.Module, optimizer: torch.optim.Optimizer, batch: torch.Tensor
) -> None:  # fmt: skip
    """One step."""
    net(batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


torch.set_num_threads(1)
