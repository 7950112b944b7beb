"""One all-reduce over a full mesh of links, simulated for all its ranks together.

Each rank copies its own part, tells every peer that it is ready (Notify_Record) and waits for each of them
(Notify_Wait). Then it reduces the peers' parts, tells and waits again, and copies the reduced parts. So a wait ends
when its peer's record arrives and never before, and nobody leaves before the last has come.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from npulens.collectors.simulator.host_sim import TICK
from npulens.collectors.simulator.items import Collect, Exchange
from npulens.collectors.simulator.job import NONE_ID, CommOp, CommTask, Group, Track
from npulens.collectors.simulator.rank_sim import Pending, RankSim

LINK_BYTES_PER_NS = 28
ON_CHIP_BYTES_PER_NS = 560
FLIGHT = 260  # a notification crosses a link
NO_NOTIFY = 2**64 - 1
PER_TASK = 270  # between two tasks that a stream starts one after the other


class CollectiveTask(NamedTuple):
    plane: int
    task_type: str
    start: int
    end: int
    peer: int  # index in the group; -1 for none
    bytes: int


@dataclass
class Side:
    """One rank's part of the collective while it unfolds."""

    sim: RankSim
    pending: Pending
    now: int
    tasks: list[CollectiveTask]

    def add(self, plane: int, task_type: str, start: int, ns: int, peer: int, size: int = 0) -> int:
        self.tasks.append(CollectiveTask(plane, task_type, start, start + ns, peer, size))
        return start + ns


def all_reduce(group: Group, pending: dict[int, Pending], sims: list[RankSim], index: int) -> None:
    """Unfolds one collective of ``group`` and records it on every member."""
    sides = [Side(sims[rank], pending[rank], pending[rank].arrival, []) for rank in group.ranks]
    noise, item = noise_of(group, sides[0], index), sides[0].pending.item
    part = max(item.count * item.item_bytes // len(sides), 4)
    for number, side in enumerate(sides):
        side.now = side.add(0, "Reduce_Inline", side.now, 600, -1, 4) + 1_200
        side.now = side.add(0, "Memcpy", side.now, part // ON_CHIP_BYTES_PER_NS + 900, number, part) + 700
    meet(sides, ready=None)
    for task_type in ("Reduce_Inline", "Memcpy"):
        meet(sides, _transfer(sides, task_type, part, noise))
        if task_type == "Reduce_Inline":
            for number, side in enumerate(sides):
                side.now = side.add(0, "Memcpy", side.now, part // ON_CHIP_BYTES_PER_NS + 900, number, part) + 700
            meet(sides, ready=None)
    for side in sides:
        side.now = side.add(0, "Reduce_Inline", side.now, 600, -1, 4)
        record(side, group, index)


def noise_of(group: Group, first: Side, index: int) -> Callable[[], float]:
    """The noise of one collective, named by its place where there is one: others may come and go."""
    place = first.pending.item.place
    which = f"{first.sim.step}.{place}" if place >= 0 else f"{index}"
    return random.Random(f"{first.sim.config.seed}/{group.name}/{which}").random


def _peers(sides: list[Side], number: int) -> list[tuple[int, int]]:
    """(plane, peer) of one rank: plane k reaches the k-th next rank."""
    return [(plane, (number + plane) % len(sides)) for plane in range(1, len(sides))]


def meet(sides: list[Side], ready: dict[tuple[int, int], int] | None) -> None:
    """Everyone tells everyone and waits for everyone. ``ready``: when each (rank, peer) plane is free to tell."""
    told: dict[tuple[int, int], int] = {}
    for number, side in enumerate(sides):
        for plane, peer in _peers(sides, number):
            start = side.now + PER_TASK * plane if ready is None else ready[number, peer] + 600
            told[number, peer] = side.add(plane, "Notify_Record", start, 700, peer)
    for number, side in enumerate(sides):
        ends = [side.now]
        for plane, peer in _peers(sides, number):
            start = told[number, peer] + 480
            end = max(start + TICK, told[peer, number] + FLIGHT)
            ends.append(side.add(plane, "Notify_Wait", start, end - start, peer))
        side.now = max(ends) + 400


def _transfer(sides: list[Side], task_type: str, part: int, noise: Callable[[], float]) -> dict[tuple[int, int], int]:
    """Every rank reads its part from every peer, all links at once."""
    done: dict[tuple[int, int], int] = {}
    for number, side in enumerate(sides):
        for plane, peer in _peers(sides, number):
            ns = int(part / LINK_BYTES_PER_NS * (1.0 + 0.03 * noise())) + 900
            source = sides[peer].sim.rank
            name = f"{source}-{side.sim.rank}"
            place = side.pending.item.place
            ns = side.sim.cost("link", name, ns, "device", place) if len(sides) > 1 else ns
            done[number, peer] = side.add(plane, task_type, side.now + PER_TASK * plane, ns, peer, part)
        side.now = max([side.now, *(done[number, peer] for _, peer in _peers(sides, number))])
    return done


def record(side: Side, group: Group, index: int) -> None:
    """Writes the unfolded operator and its tasks into the rank's record."""
    sim, pending, item = side.sim, side.pending, side.pending.item
    stream = sim.streams[item.kind]
    task, local = sim.next_task(stream), group.ranks.index(sim.rank)
    name = f"hcom_{item.collective}__{group.hash % 1000:03d}_{index}_1"
    sim.tracks.setdefault(f"group {group.name}", Track(f"group {group.name}", "comm_group", 0, group.name))
    detail = CommOp(
        group.name,
        pending.connection,
        item.collective.lower(),
        item.dtype,
        item.count,
        item.count * item.item_bytes,
        "MESH-RING" if item.collective == "allReduce" else "NA",
        len(group.ranks),
        pending.arrival + sim.offset,
        stream.number,
        task,
    )
    operator = sim.record(f"group {group.name}", "comm_op", name, pending.arrival, side.now, detail)
    sim.link((("host_to_device", pending.launch), ("torch_to_npu", pending.operator)), operator)
    stream.free = side.now
    for context, row in enumerate(side.tasks):
        key = f"plane {group.name} {row.plane}"
        sim.tracks.setdefault(key, Track(key, "comm_plane", row.plane + 1, group.name, row.plane))
        notify = NO_NOTIFY if row.task_type == "Memcpy" else 0
        if row.task_type.startswith("Notify"):
            notify = row.peer << 32 | (60 + 8 * row.plane) if row.task_type == "Notify_Record" else 60 + 8 * row.plane
        task_detail = CommTask(
            operator,
            group.name,
            row.plane,
            row.task_type,
            local,
            row.peer if row.peer >= 0 else NONE_ID,
            row.bytes,
            _data_type(row, item),
            "LOCAL" if row.task_type == "Notify_Wait" else "RDMA" if sim.config.rdma and row.plane else "SDMA",
            "INVALID_TYPE" if not row.bytes else "ON_CHIP" if row.plane == 0 else "ROCE" if sim.config.rdma else "HCCS",
            notify,
            stream.number,
            task,
            context,
            pending.connection,
        )
        sim.record(key, "comm_task", row.task_type, row.start, row.end, task_detail)


def _data_type(row: CollectiveTask, item: Collect | Exchange) -> str:
    if row.task_type != "Reduce_Inline":
        return "INVALID_TYPE"
    return "INT32" if row.peer < 0 else item.dtype
