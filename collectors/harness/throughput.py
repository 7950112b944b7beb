"""Steps per second with a bounded queue: at most so many are under way, and only completed ones count.

Without a bound, the host fills the queue faster than the device empties it. Counting launches for five seconds would
then measure the host, and the device's backlog would be finished after the clock stopped.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import Any

from npulens.collectors.backends.backend import Backend
from npulens.collectors.harness.latency import Load
from npulens.collectors.harness.unprofiled import refuse_profiled

IN_FLIGHT = 8


@dataclass(frozen=True)
class Throughput:
    """Steps that were issued and completed within the window."""

    completed: int
    seconds: float
    in_flight: int  # at most

    @property
    def per_second(self) -> float:
        return self.completed / self.seconds if self.seconds > 0 else 0.0


def throughput(backend: Backend, load: Load, seconds: float, in_flight: int = IN_FLIGHT) -> Throughput:
    """Issues for so long; the window ends with the last completion that fell into it."""
    refuse_profiled()
    marks = backend.marks(in_flight + 1)
    free, under_way = deque(marks), deque[Any]()
    backend.synchronize()
    begun = last = time.perf_counter()
    completed = 0
    while last - begun < seconds:
        if len(under_way) >= in_flight:
            oldest = under_way.popleft()
            backend.wait(oldest)
            free.append(oldest)
            completed += 1
            last = time.perf_counter()
            continue
        load.next()()
        mark = free.popleft()
        backend.mark(mark)
        under_way.append(mark)
    backend.synchronize()
    return Throughput(completed, last - begun, in_flight)
