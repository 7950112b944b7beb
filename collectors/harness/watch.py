"""What else happened while calls were timed: the device's clock, garbage collections, other processes.

The device is looked at between calls, once a second at most, never within a timed window. A garbage collection is told
by Python itself. That another process took the core is told by the kernel. It counts how often it took the core away
from this one.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from npulens.collectors.backends.backend import Backend, Telemetry

EVERY_S = 1.0
#: Looking may take this share of the time: npu-smi needs seconds for an answer.
LOOKING = 0.1
#: A device that works runs at its rated clock or says why not; this much below is throttled.
CLOCK_SHARE = 0.97
BUSY_SHARE = 0.5


@dataclass
class DeviceWatch:
    """Looks at a device now and then; ``seen`` holds (ns since 1970, what it said)."""

    backend: Backend
    seen: list[tuple[int, Telemetry]] = field(default_factory=list)
    _next: float = 0.0

    def look(self) -> None:
        """Looks if it is time."""
        if time.monotonic() >= self._next:
            begun = time.monotonic()
            self.seen.append((time.time_ns(), self.backend.telemetry()))
            took = time.monotonic() - begun
            self._next = begun + max(EVERY_S, took / LOOKING)

    def told(self) -> list[dict[str, Any]]:
        return [{"at_ns": at, **asdict(telemetry)} for at, telemetry in self.seen]


def throttled(seen: Sequence[Telemetry]) -> str | None:
    """Why the device ran below its clock, in one line; None where it did not, or does not tell."""
    for each in seen:
        if each.throttled_by:
            return f"the device says it is throttled: {', '.join(each.throttled_by)}"
    slow = [
        each for each in seen
        if each.clock_mhz and each.rated_mhz and each.clock_mhz < CLOCK_SHARE * each.rated_mhz
        and each.busy_share is not None and each.busy_share > BUSY_SHARE
    ]  # fmt: skip
    if not slow:
        return None
    lowest = min(slow, key=lambda each: (each.clock_mhz or 0) / (each.rated_mhz or 1))
    return f"{lowest.clock_mhz:.0f} of {lowest.rated_mhz:.0f} MHz at work, in {len(slow)} of {len(seen)} looks"


@contextmanager
def collections() -> Iterator[list[tuple[int, int]]]:
    """Garbage collections meanwhile: (begin, end) on perf_counter_ns."""
    found: list[tuple[int, int]] = []
    begun = [0]

    def told(phase: str, _: object) -> None:
        if phase == "start":
            begun[0] = time.perf_counter_ns()
        else:
            found.append((begun[0], time.perf_counter_ns()))

    gc.callbacks.append(told)
    try:
        yield found
    finally:
        gc.callbacks.remove(told)


def evicted() -> int | None:
    """How often the kernel took a core away from this process for another; None where it does not say."""
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
