"""What CUDA and NPU devices have in common in torch: events, streams and an account of memory, by the same names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from npulens.collectors.backends.backend import Memory


class Queued:
    """A device that works through a queue; ``torch.cuda`` or ``torch.npu`` is its module."""

    def __init__(self, name: str, module: Any) -> None:
        self.name = name
        self.module = module
        self.device = f"{name}:{module.current_device()}"

    def synchronize(self) -> None:
        self.module.synchronize()

    def marks(self, count: int) -> list[Any]:
        return [self.module.Event(enable_timing=True) for _ in range(count)]

    def mark(self, mark: Any) -> None:
        mark.record()

    def wait(self, mark: Any) -> None:
        mark.synchronize()

    def between_ns(self, first: Any, last: Any) -> int:
        """The device's own clock, which torch hands on in milliseconds."""
        return round(float(first.elapsed_time(last)) * 1_000_000)

    @contextmanager
    def stream(self) -> Iterator[None]:
        with self.module.stream(self.module.Stream()):
            yield

    def cache_bytes(self) -> int | None:
        """Older releases do not tell it."""
        return getattr(self.module.get_device_properties(self.module.current_device()), "L2_cache_size", None) or None

    def memory(self) -> Memory | None:
        total = self.module.mem_get_info()[1]
        return Memory(self.module.memory_allocated(), self.module.max_memory_allocated(), total)

    def forget_peak(self) -> None:
        self.module.reset_peak_memory_stats()
