"""One rank's way through its script: step by step, item by item, until it has to wait for another rank.

A fault may edit the items of any rank and step. So that the rest of the job stays as it was, each item then draws its
noise from numbers of its own. They are named by its place in the step as it was written. What a fault adds or takes
away shifts nobody else's. Whatever an added item does is remembered as an act of its fault.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

from npulens.collectors.simulator.config import SimConfig
from npulens.collectors.simulator.items import (
    Allocate,
    Call,
    Close,
    Collect,
    CopyData,
    Exchange,
    Garbage,
    Item,
    Launch,
    Open,
    Release,
    Replay,
    Signal,
    Switch,
    Sync,
    Work,
)
from npulens.collectors.simulator.rank_sim import Pending, RankSim

_WRAPPERS = ("cpu_op", "python", "annotation")


def graphed(items: Sequence[tuple[Item, str]]) -> list[tuple[Item, str]]:
    """The items of a step, each with its fault, with the launches gathered into graphs."""
    empty = _empty([item for item, _ in items])
    found: list[tuple[Item, str]] = []
    held: list[tuple[Launch, str]] = []
    for index, (item, fault) in enumerate(items):
        if isinstance(item, Launch) and _captured(item):
            held.append((item, fault))
        elif index not in empty and not _inside(item):
            found += _replay(held)
            held = []
            found.append((replace(item, key="", backward=False) if isinstance(item, Open) else item, fault))
    return [*found, *_replay(held)]


def _replay(held: list[tuple[Launch, str]]) -> Iterator[tuple[Replay, str]]:
    if held:
        yield Replay(tuple(held), place=held[0][0].place), ""


def _captured(launch: Launch) -> bool:
    """Whether a graph holds the launch: the script's own are, if nothing has to be compiled."""
    return launch.place >= 0 and not launch.compile_ns


def _inside(item: Item) -> bool:
    """What a graph does by itself: its memory, the order of its own streams, and the Python of its modules."""
    if item.place < 0:
        return False
    if isinstance(item, Work):
        return item.what == "python"
    return isinstance(item, Allocate | Release) or (isinstance(item, Signal) and item.source == "random")


def _empty(items: Sequence[Item]) -> set[int]:
    """Where the script's own frames and operators open and close that hold nothing but launches."""
    found: set[int] = set()
    opened: list[list[int]] = []  # of each open one: where it opened, and whether something else is inside
    for index, item in enumerate(items):
        if isinstance(item, Open):
            own = item.place >= 0 and item.what in _WRAPPERS and item.call is None
            opened.append([index, not own])
        elif isinstance(item, Close):
            start, kept = opened.pop()
            if not kept:
                found |= {start, index}
            elif opened:
                opened[-1][1] = True
        elif opened and not (_inside(item) or (isinstance(item, Launch) and _captured(item))):
            opened[-1][1] = True
    return found


def course(sim: RankSim, script: Sequence[Item]) -> Iterator[Pending]:
    """Runs all steps of one rank; stops where its peers must be there, and goes on when they have been."""
    config = sim.config
    for step in range(config.first_step - config.ragged, config.first_step + config.steps):
        sim.step = step
        draw_from(sim, "begin")
        sim.now += sim.cost("python", "train", 9_000)
        added = 0
        for item, fault in edited(config, sim.rank, step, script):
            added += item.place < 0
            draw_from(sim, f"{item.place}" if item.place >= 0 else f"{fault}/{added}")
            sim.fault, sim.place, begun = fault, item.place, sim.now
            if isinstance(item, Collect | Exchange):
                yield sim.collect(item)
            elif isinstance(item, Replay):
                sim.replay(item, lambda place: draw_from(sim, f"{place}"))
            else:
                run(sim, item)
            if fault:
                sim.acted(fault, begun, sim.now)
        sim.fault, sim.place = "", -1
    draw_from(sim, "end")


def numbered(config: SimConfig, items: Sequence[Item]) -> tuple[Item, ...]:
    """Items that know their place, where a fault may want to move them."""
    if not (config.keyed or config.faults):
        return tuple(items)
    return tuple(replace(item, place=place) for place, item in enumerate(items))


def edited(config: SimConfig, rank: int, step: int, items: Sequence[Item]) -> list[tuple[Item, str]]:
    """The step of one rank with all edits, each item with the faults that changed it or put it there."""
    owners = {id(item): "" for item in items}
    versions = [items]  # kept, so that no item's id is given to another
    for fault in config.faults:
        if fault.edit is not None:
            before = {item.place: owners[id(item)] for item in versions[-1] if item.place >= 0}
            versions.append(fault.edit(rank, step, versions[-1]))
            for item in versions[-1]:  # what two faults changed is an act of both
                owners.setdefault(id(item), "+".join(filter(None, [before.get(item.place), fault.cause])))
    owned = [(_paired(item) if config.paired else item, owners[id(item)]) for item in versions[-1]]
    return graphed(owned) if config.graphs else owned


def _paired(item: Item) -> Item:
    """An all-reduce of two ranks as what each sends the other."""
    if isinstance(item, Collect):
        return Exchange(item.kind, item.count, item.count, item.item_bytes, item.dtype, item.stack, place=item.place)
    if isinstance(item, Open) and item.call is not None:
        return replace(item, call=item.call._replace(collective="batchsendrecv"))
    if isinstance(item, Open) and item.name == "c10d::allreduce_":
        return replace(item, name="c10d::batch_isend_irecv")
    return item


def draw_from(sim: RankSim, what: str) -> None:
    """From here on noise comes from the numbers named so; without faults it comes from one series for the rank."""
    if sim.config.keyed or sim.config.faults:
        sim.random = random.Random(f"{sim.config.seed}/{sim.rank}/{sim.step}/{what}").random


def run(sim: RankSim, item: Item) -> None:
    """One instruction that needs nobody else."""
    if isinstance(item, Open):
        sim.open(item)
    elif isinstance(item, Close):
        sim.close(item)
    elif isinstance(item, Launch):
        sim.launch(item)
    elif isinstance(item, Allocate | Release):
        _memory(sim, item)
    elif isinstance(item, Work):
        sim.work(item)
    elif isinstance(item, CopyData):
        sim.copy(item)
    elif isinstance(item, Signal):
        sim.signal(item)
    elif isinstance(item, Switch):
        sim.switch(item)
    elif isinstance(item, Sync):
        sim.sync()
    elif isinstance(item, Call):
        sim.call(item)
    elif isinstance(item, Garbage):
        sim.garbage(item)


def _memory(sim: RankSim, item: Allocate | Release) -> None:
    if not sim.config.memory:
        return
    if isinstance(item, Allocate):
        sim.memory.allocate(item.slot, item.name, item.bytes, sim.now)
    else:
        sim.memory.release(item.slot, sim.now)
