"""An invented device layer, known to the nanosecond: what ran on the chip while a recorded job launched it.

The job notes when it launches (job.py); from these moments alone follows everything here. msprof.py writes it down in
CANN's formats, and what comes out of torch_npu's own analysis must be this again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

#: Launches of one step: what, its stream, and how long after the last of them it begins and how long it takes, in ns.
LAUNCHES = (
    ("MatMulV2", 2, 20_001, 301_234),
    ("LayerNormV4", 2, 340_567, 40_321),
    ("hcom_allReduce_", 7, 290_003, 200_777),  # begins before the normalisation, and ends after it
    ("Gelu", 2, 600_123, 12_345),
)
TYPES = {"MatMulV2": "AI_CORE", "LayerNormV4": "AI_VECTOR_CORE", "Gelu": "AI_VECTOR_CORE", "hcom_allReduce_": "HCCL"}


@dataclass(frozen=True)
class Task:
    """One task of the device."""

    step: int
    name: str
    stream: int
    launched: int  # on the host, ns since 1970
    start: int
    dur: int

    @property
    def end(self) -> int:
        return self.start + self.dur

    @property
    def computes(self) -> bool:
        return not self.name.startswith("hcom")


def tasks(launched: Sequence[tuple[int, int]], shift: int) -> list[Task]:
    """The layer of a job: (step, moment) of each launch, and what makes the moments ns since 1970."""
    found = []
    for at, (step, moment) in enumerate(launched):
        name, stream, after, dur = LAUNCHES[at % len(LAUNCHES)]
        spelled = f"{name}_{at}_0@1" if name.startswith("hcom") else f"{name}_{at}"
        # A step's tasks follow its last launch, so that they overlap as planned however slow the host is.
        last = launched[at - at % len(LAUNCHES) + len(LAUNCHES) - 1][1] + shift
        found.append(Task(step, spelled, stream, moment + shift, last + after, dur + at))
    return found


def kind(task: Task) -> str:
    return task.name.partition("_")[0] if task.computes else "hcom_allReduce_"


Interval = tuple[int, int]


def union(intervals: Sequence[Interval]) -> list[Interval]:
    """Sorted and merged."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def without(intervals: Sequence[Interval], others: Sequence[Interval]) -> list[Interval]:
    """What of the first, merged, is in none of the others."""
    left = []
    for start, end in union(intervals):
        for other_start, other_end in union(others):
            if other_start < end and start < other_end:
                if start < other_start:
                    left.append((start, other_start))
                start = max(start, other_end)
        if start < end:
            left.append((start, end))
    return left


def lanes(layer: Sequence[Task]) -> Iterator[tuple[str, list[Interval]]]:
    """The four of the profiler's overlap analysis."""
    computing = [(task.start, task.end) for task in layer if task.computes]
    talking = [(task.start, task.end) for task in layer if not task.computes]
    busy = union(computing + talking)
    yield "Computing", union(computing)
    yield "Communication", union(talking)
    yield "Communication(Not Overlapped)", without(talking, computing)
    yield "Free", [(before[1], after[0]) for before, after in zip(busy, busy[1:], strict=False)]
