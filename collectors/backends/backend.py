"""What a measurement needs of a device, and nothing more. One file beside this one for each kind of device.

Only ``open`` imports torch, and only after ``probe.choose`` has said, in a process of its own, that the device is
there.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Memory:
    """Of this process on the device, in bytes."""

    allocated: int
    peak: int
    total: int | None


@dataclass(frozen=True)
class Telemetry:
    """The state of the device at one moment; what it does not tell is None."""

    clock_mhz: float | None = None
    rated_mhz: float | None = None
    busy_share: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    throttled_by: tuple[str, ...] | None = None


class Backend(Protocol):
    """One device that this process may use."""

    name: str  # npu, cuda, mps, cpu
    device: str  # as torch calls it: npu:0

    def synchronize(self) -> None:
        """Waits until the device has done everything."""

    def marks(self, count: int) -> list[Any]:
        """Marks made beforehand, so that making them is no part of what is timed."""

    def mark(self, mark: Any) -> None:
        """Lets the device say when it gets here; does not wait."""

    def wait(self, mark: Any) -> None:
        """Waits until the device has come to a mark, and no longer: what was issued after it may still run."""

    def between_ns(self, first: Any, last: Any) -> int:
        """From one mark to another; only after a synchronize."""

    def stream(self) -> AbstractContextManager[None]:
        """A queue of work of its own; what is issued inside goes there."""

    def cache_bytes(self) -> int | None:
        """The last cache before memory."""

    def memory(self) -> Memory | None:
        """None where the device has no account of its own."""

    def forget_peak(self) -> None:
        """The peak counts from here on."""

    def properties(self) -> Mapping[str, Any]:
        """What the device says of itself: name, cores, memory, modes of precision."""

    def telemetry(self) -> Telemetry:
        """Its state now. Takes milliseconds: never inside what is timed."""


def open_backend(name: str) -> Backend:
    """The backend of that name (``probe.BACKENDS``), in this process."""
    made: Backend = importlib.import_module(f"npulens.collectors.backends.{name}").make()
    return made
