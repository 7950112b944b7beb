"""What a simulated job is asked to be: its size, its shapes, its noise, and the faults planted in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from npulens.collectors.simulator.items import Item

RATED_MHZ = 1800


class Cost(NamedTuple):
    """One duration the model is about to spend: what a fault may change."""

    rank: int
    step: int
    what: str  # 'python', 'host', 'dataloader', 'launch', 'kernel', 'copy', 'link', 'runtime'
    name: str  # frame, operator, kernel type, direction, 'src-dst'
    thread: str  # 'main', 'backward', 'queue' or 'device'
    place: int = -1  # of the item in the step as it was written; -1 for what a fault added


class Perturb(Protocol):
    """Changes one duration; draws no random numbers, so that all others stay as they were."""

    def __call__(self, cost: Cost, ns: int, /) -> int: ...


class Edit(Protocol):
    """Changes what one rank does in one step; asked once for each, in any order, so it keeps nothing in mind."""

    def __call__(self, rank: int, step: int, items: Sequence[Item], /) -> Sequence[Item]: ...


class Acting(Protocol):
    """What the clockwork wants to know of a fault."""

    @property
    def cause(self) -> str: ...
    @property
    def perturb(self) -> Perturb | None: ...
    @property
    def edit(self) -> Edit | None: ...


def _later(default: object) -> Any:
    """A field that the manifests of older samples do not have."""
    return field(default=default, metadata={"later": True})


@dataclass(frozen=True)
class SimConfig:
    seed: int = 0
    ranks: int = 2
    steps: int = 3
    layers: int = 4
    tensor_parallel: int = 1
    hidden: int = 2048
    tokens: int = 4096
    bucket_layers: int = 1  # layers whose gradients travel in one all-reduce
    first_step: int = 10
    task_queue: bool = True  # TASK_QUEUE_ENABLE: a thread of its own launches
    frames: bool = True  # with_stack: python functions and call stacks
    shapes: bool = True  # record_shapes
    memory: bool = True  # profile_memory
    jitter: float = 0.04  # durations vary by up to this share
    negative_latency_rate: float = 0.01  # launches whose kernel seems to start before them: clocks differ
    clock_offsets_ns: tuple[int, ...] = ()  # per rank; 0 where left out
    devices: tuple[int, ...] = ()  # per rank; the rank itself where left out
    start_ns: int = 1_767_600_000_000_000_000
    host: str = "sim-node-0"
    perturb: Perturb | None = None
    fused: bool = _later(False)  # the script calls torch_npu's fused operators
    llama: bool = _later(False)  # RMS norm, rotary embedding and SwiGLU for layer norm, dropout and GELU; needs fused
    spread: float = _later(0.0)  # sigma of the logarithm of host times: real ones vary much more than kernels
    host_scale: float = _later(1.0)  # a slower host
    gap_ns: int = _later(20)  # between two kernels of a full queue
    clocks: tuple[tuple[int, int, int, int], ...] = _later(())  # (rank, first step, last step, MHz) below the rating
    keyed: bool = _later(False)  # noise named by place: edits shift nobody else's
    faults: tuple[Acting, ...] = _later(())
    trained: int = _later(1)  # one of so many parameters has a gradient
    loader_ns: int = _later(180_000)  # the host's part of the next batch
    gc_threshold_ms: float | None = _later(None)  # garbage collections that are recorded
    pipeline: int = _later(1)  # stages that pass micro batches on; layers are split among them
    micro_batches: int = _later(1)  # of a step, per pipeline
    coupled: bool = _later(True)  # stages wait for what others pass on; False: everything they need is there
    held_bytes: int = _later(900 << 20)  # of device memory, before the first step
    reserved_bytes: int = _later(0)  # by the allocator at that time; less than is held: as much as that
    environment: tuple[tuple[str, str], ...] = _later(())  # variables that differ from those of a usual job
    stage_layers: tuple[int, ...] = _later(())  # by stage; as many on each where left out
    experts: bool = _later(False)  # the two large products of a layer are those of its experts, grouped
    rdma: bool = _later(False)  # every rank on a host of its own: collectives cross the network
    l2_cache: bool = _later(True)  # the profiler reads the counters of the L2 cache after each kernel
    dialect: str = _later("plain")  # the kind of capture that is written: a name of _dialect.py
    graphs: bool = _later(False)  # the script's kernels are nodes of graphs that are replayed
    paired: bool = _later(False)  # two ranks send and receive what an all-reduce would carry
    ragged: bool = _later(False)  # the profiler starts within a step, on every other rank one collective later
    first_use_ns: int = _later(0)  # the first launch of the first step loads a library

    def __post_init__(self) -> None:
        if min(self.ranks, self.steps, self.layers, self.tensor_parallel, self.bucket_layers) < 1:
            raise ValueError("ranks, steps, layers, tensor_parallel and bucket_layers must be at least 1")
        if self.ranks % self.tensor_parallel:
            raise ValueError(f"{self.ranks} ranks do not divide into groups of {self.tensor_parallel}")
        if self.pipeline > 1:
            if self.ranks % self.pipeline or self.layers % self.pipeline or self.tensor_parallel > 1:
                raise ValueError(f"{self.ranks} ranks and {self.layers} layers make no pipeline of {self.pipeline}")
            if self.stage_layers and (len(self.stage_layers) != self.pipeline or sum(self.stage_layers) != self.layers):
                raise ValueError(f"{self.stage_layers} does not split {self.layers} layers over {self.pipeline} stages")
            if self.micro_batches < 1 or self.tokens * self.pipeline % self.micro_batches:
                raise ValueError(f"{self.tokens * self.pipeline} tokens do not divide into {self.micro_batches}")

    def stage(self, rank: int) -> int:
        """Which stage of its pipeline a rank is; data parallel ranks of a stage are neighbours."""
        return rank * self.pipeline // self.ranks

    def offset(self, rank: int) -> int:
        return self.clock_offsets_ns[rank] if rank < len(self.clock_offsets_ns) else 0

    def mhz(self, rank: int, step: int) -> int:
        """The clock of the AI cores of a rank; where several are named, the lowest counts."""
        low = [mhz for one, first, last, mhz in self.clocks if one == rank and first <= step <= last]
        return min([RATED_MHZ, *low])

    def device(self, rank: int) -> int:
        return self.devices[rank] if rank < len(self.devices) else rank
