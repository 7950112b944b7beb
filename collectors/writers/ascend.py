"""How CANN spells things, and how that changed: shared by the text and the database writer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from npulens.collectors.simulator.job import Copy, Kernel, RankRecord, Runtime, Span, Task

Level = Literal["Level0", "Level1", "Level2"]
Generation = Literal["current", "2025-01", "2024-09"]

MODULES = {0: "SLOG", 3: "HCCL", 4: "FMK", 7: "RUNTIME", 31: "PROFILING", 33: "APP", 36: "AICPU", 45: "GE"}
DIRECTIONS = {"h2d": "host to device", "d2h": "device to host", "d2d": "device to device"}
HARDWARE = {
    "Memcpy": "SDMA",
    "Reduce_Inline": "SDMA",
    "Notify_Record": "Write Value",
    "Notify_Wait": "Notify Wait",
}


@dataclass(frozen=True)
class AscendOptions:
    """What the profiler was told, and how old it is."""

    level: Level = "Level1"
    generation: Generation = "current"

    @property
    def old(self) -> bool:
        return self.generation != "current"

    @property
    def first(self) -> bool:
        """The one for 910A: a task has a name, but no type."""
        return self.generation == "2024-09"

    @property
    def api(self) -> bool:
        """CANN calls, communication tasks and statistics need Level1."""
        return self.level != "Level0"

    def shows(self, call: Runtime) -> bool:
        return self.api and (call.level != "runtime" or self.level == "Level2")

    @property
    def transfers(self) -> bool:
        """Sizes and directions of copies need Level2."""
        return self.level == "Level2"


#: What those tasks are called where their type is not told.
UNTYPED = {
    "Memcpy": "MEMCPY_ASYNC",
    "Reduce_Inline": "REDUCE_ASYNC_V2",
    "Notify_Record": "NOTIFY_RECORD",
    "Notify_Wait": "NOTIFY_WAIT",
}


def hardware_task_type(span: Span) -> str:
    """The type of a task on its stream."""
    detail = span.detail
    if isinstance(detail, Kernel):
        return "AI_CORE" if detail.core == "AI_VECTOR_CORE" else detail.core
    if isinstance(detail, Copy):
        return "SDMA_SQE" if detail.direction == "d2d" else "PCIE_DMA_SQE"
    if isinstance(detail, Task):
        return detail.task_type
    return HARDWARE[span.name]


def flow_sources(record: RankRecord, options: AscendOptions) -> dict[int, list[Span]]:
    """CANN call -> the device spans that an arrow leads to. Events have arrows only in newer versions."""
    flows: dict[int, list[Span]] = {}
    for link in record.links:
        if link.route == "host_to_device":
            target = record.by_id[link.dst]
            if not (options.old and isinstance(target.detail, Task)):
                flows.setdefault(link.src, []).append(target)
    return flows
