"""How throughput and latency grow with the batch: 1, 2, 4 ... until memory or time is out.

There are three answers. The sweet spot is the smallest batch that gives nearly all the throughput there is. The knee is
where a larger batch costs more latency than it gives throughput. The third is the best batch within a latency
objective.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

#: The sweet spot gives this share of the highest throughput.
ENOUGH = 0.95
LARGEST = 1 << 20
#: What torch says where memory is out and it has no type of its own for it.
_OUT = ("out of memory", "can't allocate memory", "not enough memory", "alloc_cpu", "memory allocation failed")


#: A step needs about so many times the bytes that it must move: temporaries, workspaces, what the allocator keeps.
_ROOM = 3


@dataclass(frozen=True)
class Point:
    """One batch."""

    batch: int
    per_second: float  # items, not steps
    p50_ns: int
    p99_ns: int
    samples: int
    peak_bytes: int | None
    moved_bytes: int | None  # the least that a step must move

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def out_of_memory(error: BaseException) -> bool:
    """Whether an error of torch says that memory is out."""
    said = str(error).lower()
    return isinstance(error, MemoryError) or any(each in said for each in _OUT)


def curve(measure: Callable[[int], Point], free: Callable[[], int | None]) -> Iterator[Point]:
    """The points, doubling.

    What ``measure`` raises is passed on. Before a processor's memory would be full it raises MemoryError itself. There
    the system ends whoever takes too much instead of refusing.
    """
    batch = 1
    while batch <= LARGEST:
        point = measure(batch)
        yield point
        batch *= 2
        left = free()
        if left is not None and 2 * _ROOM * (point.moved_bytes or 0) > left:
            raise MemoryError(f"batch {batch} would need more than the {left >> 20} MiB that are free")


def free_bytes(root: Path = Path("/")) -> int | None:
    """Memory that this process may still take without harm to others: half of what the system calls available."""
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    found = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    return None if found is None else int(found) * 1024 // 2


def sweet_spot(points: Sequence[Point]) -> Point | None:
    """The smallest batch with nearly the highest throughput."""
    most = max((point.per_second for point in points), default=0.0)
    return next((point for point in points if point.per_second >= ENOUGH * most), None)


def knee(points: Sequence[Point]) -> Point | None:
    """The last batch whose doubling raised throughput by a larger share than latency; None for a single point."""
    found = None
    for before, after in zip(points, points[1:]):
        if after.per_second / before.per_second <= after.p50_ns / before.p50_ns:
            return found or before
        found = after
    return found


def within(points: Sequence[Point], slo_ns: int) -> Point | None:
    """The batch with the highest throughput whose P99 keeps the objective; None where none does."""
    kept = [point for point in points if point.p99_ns <= slo_ns]
    return max(kept, key=lambda point: point.per_second, default=None)
