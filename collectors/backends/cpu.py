"""The processor that torch runs on: nothing is queued, so a call has ended when it returns."""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from npulens.collectors.backends.backend import Memory, Telemetry
from npulens.collectors.telemetry.processor import Processor, our_cores


class Cpu:
    """Marks are readings of the monotonic clock."""

    name = device = "cpu"

    def __init__(self) -> None:
        self._processor = Processor()

    def synchronize(self) -> None:
        """There is nothing to wait for."""

    def marks(self, count: int) -> list[list[int]]:
        return [[0] for _ in range(count)]

    def mark(self, mark: list[int]) -> None:
        mark[0] = time.perf_counter_ns()

    def wait(self, mark: list[int]) -> None:
        """A mark that was made is in the past."""

    def between_ns(self, first: list[int], last: list[int]) -> int:
        return last[0] - first[0]

    def stream(self) -> AbstractContextManager[None]:
        return nullcontext()

    def cache_bytes(self) -> int | None:
        return self._processor.cache_bytes()

    def memory(self) -> Memory | None:
        return None

    def forget_peak(self) -> None:
        """There is no account to forget."""

    def properties(self) -> Mapping[str, Any]:
        import torch

        return {
            "name": self._processor.name() or platform.machine(),
            "cores": len(our_cores()),
            "threads": torch.get_num_threads(),
            "instructions": torch.backends.cpu.get_cpu_capability(),
            "matmul_precision": torch.get_float32_matmul_precision(),
            "short_products": torch.get_float32_matmul_precision() != "highest",
            "mkldnn": torch.backends.mkldnn.is_available(),
        }

    def telemetry(self) -> Telemetry:
        return self._processor.telemetry()


def make() -> Cpu:
    """The processor; always there."""
    return Cpu()
