"""What is recorded: one description for every backend, passed on as JSON to the processes of a job."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace

LEVELS = ("Level_none", "Level0", "Level1", "Level2")
EXPORTS = ("text", "db")
#: Groups of AI core counters. A device counts one of them at a time: for more of them the job runs more often.
METRICS = (
    "PipeUtilization", "ArithmeticUtilization", "Memory", "MemoryL0", "MemoryUB", "ResourceConflictRatio", "L2Cache",
    "MemoryAccess", "AiCoreNone",
)  # fmt: skip
#: What of the host torch_npu samples beside the device. NUMA came with CANN 9.1.0.
HOST_SYSTEM = ("CPU", "MEM", "DISK", "NETWORK", "OSRT", "NUMA")


@dataclass(frozen=True)
class Settings:
    """Which steps and what of them. Fields that a backend's profiler has no word for are left to those that do."""

    wait: int = 1  # steps before anything happens: the first one compiles and allocates
    warmup: int = 1  # steps with the profiler on and its records thrown away
    active: int = 3  # steps that are recorded
    shapes: bool = True
    stacks: bool = False
    memory: bool = False
    modules: bool = False
    flops: bool = False
    training: bool = False  # loss, gradients and scale of every step of the job, written as it trains
    defer: bool = False  # nothing is analysed in a step: an NPU's data stays raw, other traces come at the job's end
    max_disk: int | None = None  # bytes that all processes together may write
    keep_free: int | None = None  # bytes of the disk that stay free; None: limits.py decides, 0: not looked at
    # From here on torch_npu only.
    level: str = "Level1"
    metrics: str = "PipeUtilization"  # one group of AI core counters a run
    l2_cache: bool = False
    mstx: bool = False
    mstx_only: tuple[str, ...] = ()  # domains of marks to keep; none: all
    mstx_without: tuple[str, ...] = ()
    op_attr: bool = False
    gc_threshold_ms: float | None = None
    host_system: tuple[str, ...] = ()
    system_io: bool = False
    interconnection: bool = False
    simplify: bool = True
    export: tuple[str, ...] = ("text",)
    asynchronous: bool = False
    native: bool = False  # torch's own profiler with the NPU as an activity, from torch_npu 2.12.0.post3 on

    def __post_init__(self) -> None:
        if self.active < 1 or self.wait < 0 or self.warmup < 0:
            raise ValueError("a recording has at least one active step, and no negative ones before it")
        if (self.max_disk is not None and self.max_disk < 1) or (self.keep_free or 0) < 0:
            raise ValueError("a recording may write some bytes, and what stays free is not negative")
        if self.level not in LEVELS:
            raise ValueError(f"{self.level} is no level of torch_npu; there are {', '.join(LEVELS)}")
        if self.metrics not in METRICS:
            raise ValueError(f"{self.metrics} is no group of AI core counters; there are {', '.join(METRICS)}")
        if set(self.host_system) - set(HOST_SYSTEM):
            raise ValueError(
                f"of the host torch_npu samples {', '.join(HOST_SYSTEM)}, not {', '.join(self.host_system)}"
            )
        if self.mstx_only and self.mstx_without:
            raise ValueError("torch_npu keeps some domains of marks or leaves some out, not both")
        if not self.export or set(self.export) - set(EXPORTS):
            raise ValueError(f"the profiler exports {' and '.join(EXPORTS)}, not {', '.join(self.export) or 'nothing'}")

    @property
    def steps(self) -> int:
        """Steps that a job has to make until the recording is done."""
        return self.wait + self.warmup + self.active

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Settings:
        """The settings of another process; what it does not say stays as it is."""
        known = {field.name for field in fields(Settings)}
        told = {key: value for key, value in json.loads(text).items() if key in known}
        lists = {key: tuple(value) for key, value in told.items() if isinstance(value, list)}
        return replace(Settings(), **{**told, **lists})
