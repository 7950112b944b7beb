"""The instructions of a training script: what a host can be told to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Tensors(NamedTuple):
    """The tensors of one side of a kernel, as the profiler prints them: joined by ';'."""

    shapes: str
    dtypes: str
    formats: str


class CommCall(NamedTuple):
    """What a collective was called with, as seen on the host."""

    group: str
    collective: str
    dtype: str
    elements: int


@dataclass(frozen=True)
class KernelSpec:
    name: str
    op_type: str
    core: str  # AI_CORE, AI_VECTOR_CORE, MIX_AIC, MIX_AIV, DSA_SQE, AI_CPU
    base_ns: int
    inputs: Tensors
    outputs: Tensors
    hf32: str = "NO"
    blocks: int = 0  # cores it is split over; 0: all of its kind
    busy: tuple[tuple[str, float], ...] = ()  # pipes that are not busy for as long as in a healthy kernel


@dataclass(frozen=True)
class Item:
    """One thing to do. ``place`` is its number in the step as written; what a fault adds has none."""

    place: int = field(default=-1, kw_only=True, compare=False)


@dataclass(frozen=True)
class Open(Item):
    """A frame or an operator begins."""

    what: str  # 'python', 'cpu_op', 'annotation', 'step_mark'
    name: str
    base_ns: int  # host time from here to the next thing inside it
    shapes: tuple[str, ...] | None = None
    dtypes: tuple[str, ...] | None = None
    stack: tuple[str, ...] = ()
    key: str = ""  # names the forward operator that a backward operator belongs to
    backward: bool = False
    call: CommCall | None = None
    module: int | None = None


@dataclass(frozen=True)
class Close(Item):
    base_ns: int


@dataclass(frozen=True)
class Work(Item):
    """The host is busy for a while."""

    what: str
    name: str
    base_ns: int


@dataclass(frozen=True)
class Launch(Item):
    """The current operator hands kernels to the device."""

    api: str
    kernels: tuple[KernelSpec, ...]
    stack: tuple[str, ...]
    stream: str = "compute"
    compile_ns: int = 0  # the operator is compiled first


@dataclass(frozen=True)
class Replay(Item):
    """One call hands the kernels of these launches to the device: a graph that was captured before."""

    launches: tuple[tuple[Launch, str], ...]  # each with the fault that changed it


@dataclass(frozen=True)
class CopyData(Item):
    direction: str
    bytes: int
    stack: tuple[str, ...]
    blocking: bool = False


@dataclass(frozen=True)
class Signal(Item):
    """One stream waits for what another has been given so far; 'tp' and 'dp' name communication streams."""

    source: str
    target: str
    stack: tuple[str, ...]


@dataclass(frozen=True)
class Collect(Item):
    """Every rank of this rank's group of that kind takes part in an all-reduce."""

    kind: str
    count: int
    item_bytes: int
    dtype: str
    stack: tuple[str, ...]

    @property
    def collective(self) -> str:
        return "allReduce"


@dataclass(frozen=True)
class Exchange(Item):
    """Two neighbours in a pipeline send each other so many elements; 0 where nothing goes that way."""

    kind: str
    send: int
    receive: int
    item_bytes: int
    dtype: str
    stack: tuple[str, ...]

    @property
    def collective(self) -> str:
        return "batchSendRecv" if self.send and self.receive else "send" if self.send else "receive"

    @property
    def count(self) -> int:
        return max(self.send, self.receive)


@dataclass(frozen=True)
class Switch(Item):
    """Another host thread carries on."""

    thread: str  # 'main' or 'backward'


@dataclass(frozen=True)
class Sync(Item):
    """The host waits until the device is done."""

    stack: tuple[str, ...]


@dataclass(frozen=True)
class Call(Item):
    """The host's thread sits in a call of CANN."""

    api: str
    base_ns: int


@dataclass(frozen=True)
class Garbage(Item):
    """Python collects garbage; recorded where the profiler was told to, from its threshold on."""

    base_ns: int


@dataclass(frozen=True)
class Allocate(Item):
    slot: str
    name: str
    bytes: int


@dataclass(frozen=True)
class Release(Item):
    slot: str
