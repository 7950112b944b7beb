"""What a simulated job is: the records that the model fills, the writers write and the tests compare with.

Every time is a whole number of nanoseconds since 1970 on the clock of its rank. A ``Span`` is listed once, in the
vocabulary of ``ingest/tables/schema.sql``; how each file format spells it is the business of its writer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from npulens.collectors.simulator.config import SimConfig
from npulens.collectors.simulator.items import CommCall, Tensors

NONE_ID = 4294967295  # what CANN writes for "no such id"
UNKNOWN = -1  # connection of a device task whose launch nobody knows


class HostOp(NamedTuple):
    shapes: tuple[str, ...] | None  # one per input, '' for what is no tensor
    dtypes: tuple[str, ...] | None
    stack: tuple[str, ...]  # innermost first; empty where the profiler records none (backward thread)
    sequence: int  # autograd sequence number, -1 without
    fwd_thread: int
    call: CommCall | None


class PyFrame(NamedTuple):
    py_id: int
    parent: int  # a root is its own parent
    module: int | None


class Collection(NamedTuple):
    """Python's garbage collector at work."""

    thread: str


class Queued(NamedTuple):
    correlation: int


class Runtime(NamedTuple):
    level: str  # 'acl', 'node', 'hccl', 'runtime'
    mode: str
    item: str
    connection: int


class Kernel(NamedTuple):
    stream: int
    task: int
    connection: int
    op_type: str
    core: str
    block_num: int
    mix_block_num: int
    hf32: str
    inputs: Tensors
    outputs: Tensors
    pmu: tuple[tuple[str, float], ...]  # metric name and value as the database spells them; () where none
    l2_hit: float
    context: int
    graph: int = 0  # the replayed graph it is a node of; 0 where it was launched by itself
    place: int = -1  # of its launch in the step as it was written; -1 for what a fault added


class Copy(NamedTuple):
    stream: int
    task: int
    connection: int
    direction: str  # 'h2d', 'd2h', 'd2d'
    bytes: int
    blocking: bool


class Task(NamedTuple):
    """A device task that is no work: event wait and record, profiling marks."""

    stream: int
    task: int
    connection: int
    task_type: str


class CommOp(NamedTuple):
    group: str
    connection: int
    collective: str
    dtype: str
    elements: int
    bytes: int
    algorithm: str
    ranks: int
    arrival_ns: int  # when this rank was ready, its own clock
    stream: int
    task: int


class CommTask(NamedTuple):
    op: int  # span id of its operator
    group: str
    plane: int
    task_type: str  # Memcpy, Reduce_Inline, Notify_Record, Notify_Wait
    src: int  # rank within the group
    dst: int
    bytes: int
    dtype: str
    transport: str
    link: str
    notify: int
    stream: int
    task: int
    context: int
    connection: int


Detail = HostOp | PyFrame | Collection | Queued | Runtime | Kernel | Copy | Task | CommOp | CommTask


class Span(NamedTuple):
    id: int  # unique within the rank
    track: str  # key of RankRecord.tracks
    kind: str  # as span.kind of the contract
    name: str
    ts_ns: int
    dur_ns: int
    step: int | None  # the step in whose window it starts
    detail: Detail

    @property
    def end_ns(self) -> int:
        return self.ts_ns + self.dur_ns


class Link(NamedTuple):
    src: int
    dst: int
    route: str  # 'task_queue', 'host_to_device', 'torch_to_npu', 'fwdbwd'


class Track(NamedTuple):
    key: str
    kind: str  # 'host_thread', 'stream', 'comm_group', 'comm_plane'
    tid: int  # thread, stream, or 0
    group: str | None = None
    plane: int | None = None


class Step(NamedTuple):
    step: int
    ts_ns: int
    dur_ns: int  # of the host mark itself

    @property
    def end_ns(self) -> int:
        return self.ts_ns + self.dur_ns


class Sample(NamedTuple):
    counter: str
    series: str
    ts_ns: int
    value: float


class MemoryBlock(NamedTuple):
    name: str
    bytes: int
    ts_ns: int
    release_ns: int | None
    totals: tuple[int, int, int]  # allocated, reserved, active after the allocation
    release_totals: tuple[int, int, int] | None


class MemoryState(NamedTuple):
    component: str
    ts_ns: int
    totals: tuple[int | None, int, int | None]


class Act(NamedTuple):
    """A moment in which a planted fault changed what happened."""

    fault: str
    ts_ns: int
    dur_ns: int


@dataclass(frozen=True)
class Group:
    """Ranks that communicate with each other, under the name HCCL gives them."""

    name: str
    kind: str  # 'dp', 'tp'
    ranks: tuple[int, ...]
    stream: int

    @property
    def hash(self) -> int:
        """The number by which communication.json and operator names refer to the group."""
        high = low = 0
        for char in self.name:
            high = (high * 29 + ord(char)) & 0xFFFFFFFF
            low = (low * 131 + ord(char)) & 0xFFFFFFFF
        return high << 32 | low


@dataclass(frozen=True)
class RankRecord:
    """Everything that happened on one rank."""

    rank: int
    device: int
    pid: int
    host: str
    main_tid: int
    backward_tid: int
    queue_tid: int
    begin_ns: int  # the profiler's session
    end_ns: int
    tracks: Mapping[str, Track]
    spans: tuple[Span, ...]  # sorted by start, longest first
    links: tuple[Link, ...]
    steps: tuple[Step, ...]
    samples: tuple[Sample, ...]
    memory: tuple[MemoryBlock, ...]
    memory_states: tuple[MemoryState, ...]
    module_states: tuple[MemoryState, ...]  # what CANN's own modules reserve
    by_id: Mapping[int, Span] = field(repr=False)
    acts: tuple[Act, ...] = ()

    def of(self, *kinds: str) -> list[Span]:
        return [span for span in self.spans if span.kind in kinds]


@dataclass(frozen=True)
class Job:
    config: SimConfig
    groups: tuple[Group, ...]
    ranks: tuple[RankRecord, ...]

    def group(self, name: str) -> Group:
        return next(group for group in self.groups if group.name == name)

    def groups_of(self, rank: int) -> list[Group]:
        return [group for group in self.groups if rank in group.ranks]
