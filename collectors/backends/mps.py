"""An Apple GPU, for timing only: it has one queue, no account of peaks, and nothing that tells its clock."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from npulens.collectors.backends.backend import Memory, Telemetry


class Mps:
    """Marks are Metal events."""

    name = device = "mps"

    def __init__(self, module: Any, event: Any) -> None:
        self.module, self.event = module, event

    def synchronize(self) -> None:
        self.module.synchronize()

    def marks(self, count: int) -> list[Any]:
        return [self.event(enable_timing=True) for _ in range(count)]

    def mark(self, mark: Any) -> None:
        mark.record()

    def wait(self, mark: Any) -> None:
        mark.synchronize()

    def between_ns(self, first: Any, last: Any) -> int:
        return round(float(first.elapsed_time(last)) * 1_000_000)

    def stream(self) -> AbstractContextManager[None]:
        return nullcontext()

    def cache_bytes(self) -> int | None:
        return None

    def memory(self) -> Memory | None:
        return None

    def forget_peak(self) -> None:
        """There is no account to forget."""

    def properties(self) -> Mapping[str, Any]:
        return {"name": f"Apple GPU of {platform.processor() or platform.machine()}"}

    def telemetry(self) -> Telemetry:
        return Telemetry()


def make() -> Mps:
    """The GPU of this machine."""
    import torch
    from torch.mps.event import Event

    return Mps(torch.mps, Event)
