"""Runs the script on all ranks side by side and gathers what each recorded."""

from __future__ import annotations

from collections.abc import Iterator

from collectors.backends._collective import all_reduce
from collectors.backends._job import Group, Job, MemoryState, RankRecord, Sample, SimConfig, Span
from collectors.backends._model import build_step
from collectors.backends._rank_sim import Pending, RankSim
from collectors.backends._script import (
    OUTER,
    Allocate,
    Close,
    Collect,
    CopyData,
    Instruction,
    Launch,
    Open,
    Release,
    Signal,
    Switch,
    Sync,
    Work,
)

SAMPLE_NS = 5_000_000
MIB = 1 << 20
MODULES = (("SLOG", 0), ("HCCL", 404 * MIB), ("RUNTIME", 66 * MIB), ("APP", 0), ("AICPU", 2 * MIB), ("GE", 0))


def simulate(config: SimConfig) -> Job:
    """Runs the job; ranks go through the same script side by side, because collectives tie them together."""
    groups = tuple(_groups(config))
    sims = [_start(config, rank, groups) for rank in range(config.ranks)]
    counts = {group.name: 0 for group in groups}
    script = build_step(config)
    for step in range(config.first_step, config.first_step + config.steps):
        for sim in sims:
            sim.step = step
            sim.now += sim.cost("python", "train", 9_000)
        for item in script:
            if isinstance(item, Collect):
                _collect(item, sims, groups, counts)
            else:
                for sim in sims:
                    _run(sim, item)
    for sim in sims:
        sim.sync()
        for _ in OUTER if config.frames else ():
            sim.close(Close(1_000))
    return Job(config, groups, tuple(_finish(sim) for sim in sims))


def _groups(config: SimConfig) -> Iterator[Group]:
    """Tensor-parallel neighbours first, data parallel across them; a group of one does not communicate."""
    tp, ranks = config.tensor_parallel, config.ranks
    stamp = config.start_ns // 1_000_000 - 60_000
    members = [("tp", tuple(range(first, first + tp)), 5) for first in range(0, ranks, tp)]
    members += [("dp", tuple(range(first, ranks, tp)), 4) for first in range(tp)]
    for index, (kind, numbers, stream) in enumerate(members):
        if len(numbers) > 1:
            yield Group(f"10.20.0.{numbers[0] + 1}%eth0_6{index:04d}_{kind}_{stamp}", kind, numbers, stream)


def _start(config: SimConfig, rank: int, groups: tuple[Group, ...]) -> RankSim:
    mine = {group.kind: group for group in groups if rank in group.ranks}
    sim = RankSim(config, rank, mine, config.start_ns)
    sim.now += sim.cost("host", "start", 1_500_000)
    sim.mark("PROFILING_ENABLE")
    sim.now += 200_000
    for name in OUTER if config.frames else ():
        sim.open(Open("python", name, 2_000))
    return sim


def _run(sim: RankSim, item: Instruction) -> None:
    """One instruction on one rank."""
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


def _memory(sim: RankSim, item: Allocate | Release) -> None:
    if not sim.config.memory:
        return
    if isinstance(item, Allocate):
        sim.memory.allocate(item.slot, item.name, item.bytes, sim.now)
    else:
        sim.memory.release(item.slot, sim.now)


def _collect(item: Collect, sims: list[RankSim], groups: tuple[Group, ...], counts: dict[str, int]) -> None:
    pending: dict[int, Pending] = {sim.rank: sim.collect(item) for sim in sims}
    for group in groups:
        if group.kind == item.kind:
            all_reduce(group, item, pending, sims, counts[group.name])
            counts[group.name] += 1


def _finish(sim: RankSim) -> RankRecord:
    """Sorts what was recorded and says of every span in which step it started."""
    sim.now += 300_000
    sim.mark("PROFILING_DISABLE")
    offset, config = sim.offset, sim.config
    sim.rows.sort(key=lambda row: (row[4], -row[5], row[0]))
    marks = [(mark.ts_ns, mark.step) for mark in sim.steps]
    work = (row for row in sim.rows if not row[1].startswith("thread") and row[2] != "device_other")
    device_end = max(row[4] + row[5] for row in work)
    last = max(sim.steps[-1].end_ns, device_end)
    spans, step, following = [], None, 0
    for number, track, kind, name, start, ns, detail in sim.rows:
        while following < len(marks) and marks[following][0] <= start:
            step = marks[following][1]
            following += 1
        spans.append(Span(number, track, kind, name, start, ns, step if start <= last else None, detail))
    begin, end = config.start_ns + offset, sim.now + offset + 500_000
    samples = tuple(_samples(sim, begin, end))
    return RankRecord(
        rank=sim.rank,
        device=config.device(sim.rank),
        pid=sim.pid,
        host=config.host,
        main_tid=sim.tids["main"],
        backward_tid=sim.tids["backward"],
        queue_tid=sim.tids["queue"],
        begin_ns=begin,
        end_ns=end,
        tracks=sim.tracks,
        spans=tuple(spans),
        links=tuple(sim.links),
        steps=tuple(sim.steps),
        samples=samples,
        memory=tuple(sim.memory.blocks),
        memory_states=tuple(sorted([*sim.memory.states, *_app_states(samples)], key=lambda state: state.ts_ns)),
        module_states=tuple(_module_states(begin, end)),
        by_id={span.id: span for span in spans},
    )


def _samples(sim: RankSim, begin: int, end: int) -> Iterator[Sample]:
    """Counters at a fixed rate; whole units, so that every format can say them exactly."""
    for ts in (begin, end):
        yield Sample("AI Core Freq", "MHz", ts, 1800)
    for ts in range(begin + 70_000, end, SAMPLE_NS):
        used = (sim.memory.states[-1].totals[1] if sim.memory.states else 900 * MIB) // 1024
        for owner, extra in (("APP", 0), ("Device", 242_000)):
            yield Sample(f"{owner}/DDR", "KB", ts, 0)
            yield Sample(f"{owner}/HBM", "KB", ts, used + extra)
            yield Sample(f"{owner}/Memory", "KB", ts, used + extra)
        for hbm in range(2):
            yield Sample(f"HBM {hbm}/Read", "Read(MB/s)", ts + 80_000, 200_000 + int(150_000 * sim.random()))
            yield Sample(f"HBM {hbm}/Write", "Write(MB/s)", ts + 80_000, 100_000 + int(90_000 * sim.random()))
        yield Sample("LLC 0 Read/Throughput", "Throughput(MB/s)", ts + 90_000, 9_000 + int(7_000 * sim.random()))
        yield Sample("LLC 0 Read/Hit Rate", "Hit Rate(%)", ts + 90_000, (60 + int(30 * sim.random())) / 100)


def _app_states(samples: tuple[Sample, ...]) -> Iterator[MemoryState]:
    """What the process holds on the device, as memory_record repeats it."""
    for sample in samples:
        if sample.counter == "APP/HBM":
            yield MemoryState("APP", sample.ts_ns, (None, sample.value * 1024, None))


def _module_states(begin: int, end: int) -> Iterator[MemoryState]:
    for ts in range(begin + 110_000, end, SAMPLE_NS):
        for name, reserved in MODULES:
            yield MemoryState(name, ts, (None, reserved, None))
