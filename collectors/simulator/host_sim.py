"""The host of one rank: the threads that run the script, and the queue thread that launches for them.

All times inside are true time; the rank's clock offset is added where a span is recorded.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import NormalDist

from npulens.collectors.simulator.config import Cost, SimConfig
from npulens.collectors.simulator.items import Call, Close, CommCall, Garbage, Open, Switch, Work
from npulens.collectors.simulator.job import (
    Act,
    Collection,
    Detail,
    Group,
    HostOp,
    Link,
    MemoryBlock,
    MemoryState,
    PyFrame,
    Queued,
    Runtime,
    Step,
    Track,
)

MIB = 1 << 20
_SEGMENT = 20 * MIB  # reserved memory grows by whole segments and is kept


@dataclass
class Allocator:
    offset: int
    _allocated: int
    _reserved: int
    blocks: list[MemoryBlock] = field(default_factory=list)
    states: list[MemoryState] = field(default_factory=list)
    _live: dict[str, int] = field(default_factory=dict)  # slot -> index of its block

    def allocate(self, slot: str, name: str, size: int, now: int) -> None:
        size = -(-size // 512) * 512
        self._allocated += size
        while self._reserved < self._allocated:
            self._reserved += _SEGMENT
        self._live[slot] = len(self.blocks)
        self.blocks.append(MemoryBlock(name, size, now + self.offset, None, self._state(now), None))

    def release(self, slot: str, now: int) -> None:
        index = self._live.pop(slot)
        block = self.blocks[index]
        self._allocated -= block.bytes
        self.blocks[index] = block._replace(release_ns=now + self.offset, release_totals=self._state(now))

    def _state(self, now: int) -> tuple[int, int, int]:
        totals = (self._allocated, self._reserved, self._allocated)
        for component in ("PTA", "PTA+GE"):
            self.states.append(MemoryState(component, now + self.offset, totals))
        return totals


TICK = 20  # the shortest device task
HOST_COSTS = frozenset(("python", "host", "runtime", "launch"))
NORMAL = NormalDist()


@dataclass
class Stream:
    number: int
    free: int = 0
    task: int = 100


@dataclass
class HostSim:
    config: SimConfig
    rank: int
    groups: dict[str, Group]  # by kind
    now: int
    step: int = -1
    thread: str = "main"
    queue_free: int = 0
    rows: list[tuple[int, str, str, str, int, int, Detail]] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    tracks: dict[str, Track] = field(default_factory=dict)
    acts: list[Act] = field(default_factory=list)
    clock: list[tuple[int, int]] = field(default_factory=list)  # (when, MHz) the AI cores changed their clock
    fault: str = ""  # the causes, joined by "+", that changed the item that is running or put it here
    place: int = -1  # of that item in the step as it was written
    used: bool = False  # the script has launched something
    graph: int = 0  # graphs replayed so far
    _touched: list[tuple[str, str]] = field(default_factory=list)  # (fault, thread) of changes yet to be recorded
    _next_id: int = 0
    _connection: int = 900
    _correlation: int = 8000
    _sequence: int = 0
    _py_id: int = 0
    _frame: int = 0  # innermost Python function
    _open: list[tuple[int, Open, int, Detail, int]] = field(default_factory=list)
    _forward: dict[str, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = random.Random(f"{self.config.seed}/{self.rank}").random
        self.offset = self.config.offset(self.rank)
        self.pid = 200_000 + 1_733 * self.rank
        self.tids = {"main": self.pid, "backward": self.pid + 912, "queue": self.pid + 305}
        numbers = {"marks": 0, "compute": 2, "random": 3, **{kind: group.stream for kind, group in self.groups.items()}}
        self.streams = {name: Stream(number) for name, number in numbers.items()}
        held = self.config.held_bytes
        self.memory = Allocator(self.offset, held, max(held, self.config.reserved_bytes))
        self._jitter = self.config.jitter
        for tid in self.tids.values():
            self.tracks[f"thread {tid}"] = Track(f"thread {tid}", "host_thread", tid)
        for number in numbers.values():
            self.tracks[f"stream {number}"] = Track(f"stream {number}", "stream", number)

    def cost(self, what: str, name: str, base: int, thread: str = "", place: int | None = None) -> int:
        drawn = self.random()
        ns = int(base * (1.0 + self._jitter * (2.0 * drawn - 1.0)))
        if what in HOST_COSTS:
            ns = self._hosted(ns, drawn, 1.0 if thread == "device" else self.config.host_scale)
        if self.config.perturb is not None:
            ns = self.config.perturb(Cost(self.rank, self.step, what, name, thread or self.thread), ns)
        for fault in self.config.faults:
            if fault.perturb is not None:
                at = self.place if place is None else place
                cost = Cost(self.rank, self.step, what, name, thread or self.thread, at)
                changed = fault.perturb(cost, ns)
                if changed != ns:
                    self._touch(fault.cause, cost.thread, changed)
                ns = changed
        return ns if ns > TICK else TICK

    def _hosted(self, ns: int, drawn: float, scale: float) -> int:
        """A host's time: it varies by factors where the configuration says so."""
        if self.config.spread:
            scale *= math.exp(self.config.spread * NORMAL.inv_cdf(min(max(drawn, 1e-6), 1 - 1e-6)))
        return ns if scale == 1 else int(ns * scale)

    def _touch(self, fault: str, thread: str, ns: int) -> None:
        """The script's own threads spend the time at once; the queue and the device when their next span begins."""
        if thread == self.thread:
            self.acted(fault, self.now, self.now + ns)
        else:
            self._touched.append((fault, thread))

    def acted(self, fault: str, start: int, end: int) -> None:
        if end > start:
            self.acts.extend(Act(one, start + self.offset, end - start) for one in fault.split("+"))

    def _attribute(self, track: str, start: int, end: int) -> None:
        """A span of the queue or the device is an act of whoever changed its costs or put it there."""
        where = "queue" if track == self.track_of("queue") else "" if track.startswith("thread") else "device"
        if where == "device" and self.fault:
            self.acted(self.fault, start, end)
        for touched in [pair for pair in self._touched if pair[1] == where]:
            self._touched.remove(touched)
            self.acted(touched[0], start, end)

    def new_id(self) -> int:
        self._next_id += 1
        return self._next_id

    def new_connection(self) -> int:
        self._connection += 1
        return self._connection

    def record(self, track: str, kind: str, name: str, start: int, end: int, detail: Detail, number: int = 0) -> int:
        number = number or self.new_id()
        if self.fault or self._touched:
            self._attribute(track, start, end)
        self.rows.append((number, track, kind, name, start + self.offset, end - start, detail))
        return number

    def link(self, sources: Iterable[tuple[str, int]], target: int) -> None:
        self.links.extend(Link(source, target, route) for route, source in sources)

    def track_of(self, thread: str) -> str:
        return f"thread {self.tids[thread]}"

    def open(self, item: Open) -> None:
        number, start, detail = self.new_id(), self.now, self._detail(item)
        if item.key and isinstance(detail, HostOp):
            if item.backward:
                self.links.append(Link(self._forward.pop(item.key)[1], number, "fwdbwd"))
            else:
                self._forward[item.key] = (detail.sequence, number)
        if item.what == "step_mark":
            self.steps.append(Step(self.step, start + self.offset, 0))
        self._open.append((number, item, start, detail, self._frame))
        if isinstance(detail, PyFrame):
            self._frame = detail.py_id
        self.now += self.cost("python" if item.what == "python" else "host", item.name, item.base_ns)

    def _detail(self, item: Open) -> Detail:
        if item.what == "python":
            self._py_id += 1
            return PyFrame(self._py_id - 1, self._frame if self._py_id > 1 else 0, item.module)
        sequence, thread = -1, 0
        if item.key and item.backward:
            sequence, thread = self._forward[item.key][0], 1
        elif item.key:
            self._sequence += 1
            sequence = self._sequence
        call = item.call
        if call is not None:
            call = CommCall(self.groups[call.group].name, call.collective, call.dtype, call.elements)
        return HostOp(item.shapes, item.dtypes, item.stack, sequence, thread, call)

    def close(self, item: Close) -> None:
        number, opened, start, detail, frame = self._open.pop()
        self.now += self.cost("python" if opened.what == "python" else "host", opened.name, item.base_ns)
        self._frame = frame
        name = opened.name
        if opened.what == "step_mark":
            name = f"{name}{self.step}"
            self.steps[-1] = self.steps[-1]._replace(dur_ns=self.now - start)
        self.record(self.track_of(self.thread), opened.what, name, start, self.now, detail, number)

    def work(self, item: Work) -> None:
        self.now += self.cost(item.what, item.name, item.base_ns)

    def call(self, item: Call) -> None:
        """A call of CANN that takes its time, on the thread of the script."""
        start = self.now
        self.now += self.cost("runtime", item.api, item.base_ns)
        self.runtime(self.thread, "acl", "ACL_RTS", item.api, start, self.now - start)
        self.now += 300

    def garbage(self, item: Garbage) -> None:
        start, least = self.now, self.config.gc_threshold_ms
        self.now += self.cost("gc", "GC", item.base_ns)
        if least is not None and self.now - start >= least * 1_000_000:
            self.record(self.track_of(self.thread), "gc", "GC", start, self.now, Collection(self.thread))

    def pause(self, task: str, free: int, ready: int) -> int:
        """When a task starts that could at ``free`` and is there at ``ready``: then, unless a fault holds it up."""
        for fault in self.config.faults:
            ns = 0
            if fault.perturb is not None:
                ns = fault.perturb(Cost(self.rank, self.step, "pause", task, "device", self.place), 0)
            if free + ns > max(free, ready):
                self.acted(fault.cause, max(free, ready), free + ns)
            free += ns
        return max(free, ready)

    def switch(self, item: Switch) -> None:
        self.now += self.cost("host", "hand over", 15_000)
        self.thread = item.thread

    def leaf(self, name: str, stack: tuple[str, ...], body_ns: int) -> tuple[int, str, int]:
        """One operator that does nothing but hand work over: its span, and who calls CANN from when."""
        number, start = self.new_id(), self.now
        self.now += self.cost("host", name, 2_600)
        if not self.config.task_queue:
            return number, self.thread, self.now
        correlation = self._correlation = self._correlation + 1
        track, entered = self.track_of(self.thread), self.now
        self.now += self.cost("host", "Enqueue", 900)
        enqueue = self.record(track, "enqueue", "Enqueue", entered, self.now, Queued(correlation))
        begin = max(self.queue_free + 400, self.now + self.cost("launch", "queue", 2_200, "queue"))
        end = begin + 900 + body_ns
        dequeue = self.record(self.track_of("queue"), "dequeue", f"Dequeue@{name}", begin, end, Queued(correlation))
        self.links.append(Link(enqueue, dequeue, "task_queue"))
        self.queue_free = end
        self.now += self.cost("host", name, 500)
        self.record(track, "cpu_op", name, start, self.now, HostOp(None, None, stack, -1, 0, None), number)
        return number, "queue", begin + 500

    def leaf_end(self, name: str, stack: tuple[str, ...], number: int, start: int, end: int) -> None:
        """Without a task queue the operator lasts until its CANN calls are over."""
        if self.config.task_queue:
            return
        self.now = end + self.cost("host", name, 500)
        detail = HostOp(None, None, stack, -1, 0, None)
        self.record(self.track_of(self.thread), "cpu_op", name, start, self.now, detail, number)

    def runtime(self, thread: str, level: str, mode: str, item: str, start: int, ns: int) -> tuple[int, int]:
        connection = self.new_connection()
        detail = Runtime(level, mode, item, connection)
        return self.record(self.track_of(thread), "runtime", item, start, start + ns, detail), connection
