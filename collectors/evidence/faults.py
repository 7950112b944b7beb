"""Jobs with a fault that is known to the nanosecond or the byte, because it was planted there."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from npulens.collectors.backends.backend import Backend
from npulens.collectors.evidence.capture import record
from npulens.collectors.evidence.drawn import SETTINGS
from npulens.collectors.settings import Settings

#: What the recording calls a sleep of the host that we made.
SLEEP = "npulens planted sleep"
_ROWS, _WIDTH = 256, 512


def loader_sleeps(home: Path, backend: Backend, plan: Mapping[str, Any], settings: Settings = SETTINGS) -> None:
    """Data that comes late: the loader sleeps before it hands out a batch."""
    import torch
    from torch.utils.data import DataLoader, Dataset

    wanted: list[int] = plan["loader_ns"]
    slept: list[int] = []

    class Slow(Dataset):  # type: ignore[misc]
        """One batch a step."""

        def __len__(self) -> int:
            return len(wanted)

        def __getitem__(self, index: int) -> Any:
            slept.append(_sleep(wanted[index]))
            return torch.full((_WIDTH,), index / len(wanted))

    weight = _weight(backend)
    batches = iter(DataLoader(Slow(), batch_size=1))

    def step(number: int) -> None:
        batch = next(batches).to(backend.device)
        _work(batch.expand(_ROWS, _WIDTH), weight)

    about = {"planted": "loader", "wanted_ns": wanted[-settings.active :], "slept_ns": slept}
    _recorded(home, backend, settings, step, about, slept)


def host_late(home: Path, backend: Backend, plan: Mapping[str, Any], settings: Settings = SETTINGS) -> None:
    """A host that is late: it sleeps between two launches."""
    import torch

    wanted: list[int] = plan["late_ns"]
    slept: list[int] = []
    weight, rows = _weight(backend), torch.ones(_ROWS, _WIDTH, device=backend.device)

    def step(number: int) -> None:
        held = _work(rows, weight)
        with torch.profiler.record_function(SLEEP):
            slept.append(_sleep(wanted[number]))
        _work(held, weight)

    about = {"planted": "late", "wanted_ns": wanted[-settings.active :], "slept_ns": slept}
    _recorded(home, backend, settings, step, about, slept)


def copies(home: Path, backend: Backend, plan: Mapping[str, Any], settings: Settings = SETTINGS) -> None:
    """Copies of a known number of bytes: to the device, or on a CPU from memory to memory."""
    import torch

    wanted = plan["copied_bytes"]
    held = [[torch.ones(size // 4) for size in sizes] for sizes in wanted]
    weight, rows = _weight(backend), torch.ones(_ROWS, _WIDTH, device=backend.device)

    def step(number: int) -> None:
        for each in held[number]:
            moved = each.clone() if backend.device == "cpu" else each.to(backend.device)
            del moved
        _work(rows, weight)

    about = {"planted": "copies", "wanted_bytes": wanted[-settings.active :]}
    record(home, backend, settings, step, about)


def _recorded(
    home: Path, backend: Backend, settings: Settings, step: Any, about: dict[str, Any], slept: list[int]
) -> None:
    """Only the sleeps of recorded steps are told."""

    def counted(number: int) -> None:
        step(number)
        del slept[: -settings.active]

    record(home, backend, settings, counted, about)


def _sleep(ns: int) -> int:
    """Sleeps; how long it really took, by the monotonic clock."""
    begun = time.monotonic_ns()
    time.sleep(ns / 1e9)
    return time.monotonic_ns() - begun


def _weight(backend: Backend) -> Any:
    import torch

    torch.manual_seed(0)
    return torch.randn(_WIDTH, _WIDTH, device=backend.device) * _WIDTH**-0.5


def _work(rows: Any, weight: Any) -> Any:
    held = rows
    for _ in range(4):
        held = (held @ weight).relu()
    return held


FAULTS = {"loader_sleeps": loader_sleeps, "host_late": host_late, "copies": copies}
