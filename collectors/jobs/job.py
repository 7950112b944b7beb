"""What a job of this folder is: a script of its own, with causes that can be planted and the fix of each.

    python -m npulens.collectors.jobs.recommender                     the job as it should be
    python -m npulens.collectors.jobs.recommender --plant parses      with what is wrong
    python -m npulens.collectors.jobs.recommender --plant parses --fixed

``npulens collect -- python -m ...`` records each unchanged. A file here holds a docstring, ``PLANTS`` and ``main``. The
last line that a job prints is JSON: how long its steps took, and what came out, which a fix must not change.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from npulens.collectors import jobs

WARM = 3


@dataclass(frozen=True)
class Plant:
    """One cause that can be planted."""

    what: str
    fix: str
    shows: tuple[str, ...]  # detectors that name it rightly; none where no detector can
    rewrites: tuple[str, ...] = ()  # of the laboratory, that take it away without a change to the job
    active: int = 8  # steps that a recording needs
    ranks: int = 1  # processes of the job; several are started by torchrun


@dataclass(frozen=True)
class Asked:
    """What the command line says."""

    job: str
    plant: str | None
    fixed: bool
    steps: int
    seed: int
    device: str

    def wrong(self, plant: str) -> bool:
        """Whether that cause is there."""
        return self.plant == plant and not self.fixed


def names() -> list[str]:
    """Every job; a name that begins with an underscore, and this file, are none."""
    found = (module.name for module in pkgutil.iter_modules(jobs.__path__))
    return sorted(name for name in found if not name.startswith("_") and name != "job")


def plants(name: str) -> Mapping[str, Plant]:
    """What can be planted into a job."""
    if name not in names():
        raise ValueError(f"there is no job {name!r}; there are: {', '.join(names())}")
    found: Mapping[str, Plant] = importlib.import_module(f"{jobs.__name__}.{name}").PLANTS
    return found


def parser(name: str, text: str | None, known: Mapping[str, Plant], steps: int) -> argparse.ArgumentParser:
    """The options that every job has."""
    made = argparse.ArgumentParser(
        prog=f"python -m {jobs.__name__}.{name}", description=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(f"{plant}: {about.what}; the fix: {about.fix}" for plant, about in known.items()),
    )  # fmt: skip
    made.add_argument("--plant", choices=list(known), help="what is wrong with it; nothing unless said")
    made.add_argument("--fixed", action="store_true", help="with the fix of what is planted")
    made.add_argument("--steps", type=_count, default=steps)
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--device", default="cpu", help="cpu, cuda:0, npu:0")
    return made


def asked(name: str, given: argparse.Namespace) -> Asked:
    """The answers, and torch told of them: one thread, the same numbers every time."""
    import torch

    if given.fixed and given.plant is None:
        raise SystemExit("--fixed goes with --plant: say what is to be fixed")
    if given.device.startswith("npu"):
        importlib.import_module("torch_npu")
    try:
        torch.empty(1, device=given.device)
    except (RuntimeError, AssertionError) as error:
        raise SystemExit(f"{given.device} cannot be used: {str(error).splitlines()[0]}") from error
    torch.set_num_threads(1)
    torch.manual_seed(given.seed)
    return Asked(name, given.plant, given.fixed, given.steps, given.seed, given.device)


def run(told: Asked, step: Callable[[int], float]) -> tuple[list[int], float]:
    """Makes the steps: how long each took in ns, and what the last one gave."""
    took, found = list[int](), 0.0
    for number in range(told.steps):
        begun = time.perf_counter_ns()
        found = step(number)
        took.append(time.perf_counter_ns() - begun)
    return took, found


def say(told: Asked, took: Sequence[int], result: float, more: Mapping[str, Any] | None = None) -> None:
    """The last line of a job."""
    counted = took[WARM:] or took
    answer = {"job": told.job, "plant": told.plant, "fixed": told.fixed, "steps": len(took),
              "step_ns": round(statistics.fmean(counted)), "result": result, **(more or {})}  # fmt: skip
    print(json.dumps(answer), flush=True)


def _count(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError("one step at least, a million at most")
    return int(text)
