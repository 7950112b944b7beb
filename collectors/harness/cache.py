"""Cold and hot: the same step with its data in the cache, and without.

A step that is called again and again finds its inputs where it left them. In a job it seldom does. Cold calls take
turns over copies of the case that together exceed the cache twice. A buffer of twice the cache is written in between,
outside of what is timed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from npulens.collectors.backends.backend import Backend
from npulens.collectors.harness.latency import Load
from npulens.collectors.workloads.workload import Case

#: How often the cache is exceeded: a processor's caches are shared and not strictly least-recently-used.
TIMES, TIMES_CPU = 2, 4
#: Taken for the cache where a device does not tell its size.
UNKNOWN_BYTES = 256 << 20
MOST_COPIES = 16


def hot(case: Case) -> Load:
    """The same inputs every time."""
    return Load((case.step,))


def cold(backend: Backend, make: Callable[[int], Case]) -> tuple[Load, dict[str, Any]]:
    """Inputs that are in no cache; ``make`` builds the case of a seed. Second, how it was done."""
    times = TIMES_CPU if backend.name == "cpu" else TIMES
    known = backend.cache_bytes()
    wanted = times * (known or UNKNOWN_BYTES // times)
    first = make(0)
    copies = min(MOST_COPIES, 1 + wanted // max(1, first.bytes or wanted))
    cases = [first, *(make(seed) for seed in range(1, copies))]
    told = {"cache_bytes": known, "flushed_bytes": wanted, "copies": copies}
    return Load(tuple(case.step for case in cases), _flush(backend.device, wanted)), told


def _flush(device: str, size: int) -> Callable[[], None]:
    import torch

    buffer = torch.empty(size, dtype=torch.uint8, device=device)

    def flush() -> None:
        buffer.fill_(1)

    return flush
