"""Runs the script on all ranks side by side and gathers what each recorded."""

from __future__ import annotations

from collections.abc import Iterator

from npulens.collectors.simulator.collective import (
    LINK_BYTES_PER_NS,
    PER_TASK,
    Side,
    all_reduce,
    meet,
    noise_of,
    record,
)
from npulens.collectors.simulator.config import RATED_MHZ, SimConfig
from npulens.collectors.simulator.course import course, numbered
from npulens.collectors.simulator.items import Close, Exchange, Open
from npulens.collectors.simulator.job import CommTask, Group, Job, MemoryState, RankRecord, Sample, Span
from npulens.collectors.simulator.pipeline import build
from npulens.collectors.simulator.rank_sim import Pending, RankSim
from npulens.collectors.simulator.script import OUTER


def exchange(group: Group, pending: dict[int, Pending], sims: list[RankSim], index: int) -> None:
    """Unfolds one exchange of the two ranks of ``group`` and records it on both."""
    sides = [Side(sims[rank], pending[rank], pending[rank].arrival, []) for rank in group.ranks]
    noise = noise_of(group, sides[0], index)
    meet(sides, ready=None)
    for number, side in enumerate(sides):
        peer = sides[1 - number]
        item, other = side.pending.item, peer.pending.item
        assert isinstance(item, Exchange) and isinstance(other, Exchange)
        if item.send != other.receive:
            raise RuntimeError(f"rank {side.sim.rank} sends {item.send}, its neighbour takes {other.receive}")
        if item.send:
            size = item.send * item.item_bytes
            ns = int(size / LINK_BYTES_PER_NS * (1.0 + 0.03 * noise())) + 900
            ns = side.sim.cost("link", f"{side.sim.rank}-{peer.sim.rank}", ns, "device")
            side.now = side.add(1, "Memcpy", side.now + PER_TASK, ns, 1 - number, size) + PER_TASK
    meet(sides, ready=None)
    for side in sides:
        record(side, group, index)


SAMPLE_NS = 5_000_000
MIB = 1 << 20
MODULES = (("SLOG", 0), ("HCCL", 404 * MIB), ("RUNTIME", 66 * MIB), ("APP", 0), ("AICPU", 2 * MIB), ("GE", 0))


def simulate(config: SimConfig) -> Job:
    """Runs the job: each rank goes its way until a collective, which happens when its whole group is there."""
    groups = tuple(_groups(config))
    sims = [_start(config, rank, groups) for rank in range(config.ranks)]
    scripts = [numbered(config, build(config, stage)) for stage in range(config.pipeline)]
    courses = [course(sim, scripts[config.stage(sim.rank)]) for sim in sims]
    counts = {group.name: 0 for group in groups}
    here: dict[int, Pending] = {}
    going = list(range(config.ranks))
    while going:
        for rank in going:
            stop = next(courses[rank], None)
            if stop is not None:
                here[rank] = stop
        going = []
        for group in groups:
            if all(rank in here and here[rank].item.kind == group.kind for rank in group.ranks):
                unfold = exchange if isinstance(here[group.ranks[0]].item, Exchange) else all_reduce
                unfold(group, {rank: here.pop(rank) for rank in group.ranks}, sims, counts[group.name])
                counts[group.name] += 1
                going += group.ranks
    if here:
        waiting = ", ".join(f"rank {rank} for its {stop.item.kind} group" for rank, stop in sorted(here.items()))
        raise RuntimeError(f"the job hangs: {waiting}")
    for sim in sims:
        sim.sync()
        for _ in OUTER if config.frames else ():
            sim.close(Close(1_000))
    return Job(config, groups, tuple(_finish(sim) for sim in sims))


def _groups(config: SimConfig) -> Iterator[Group]:
    """Tensor-parallel neighbours first, data parallel across them; a group of one does not communicate.

    In a pipeline the data parallel ranks of a stage are neighbours. Every pair of stages has a group of its own.
    """
    tp, ranks = config.tensor_parallel, config.ranks
    stamp = config.start_ns // 1_000_000 - 60_000
    members = [("tp", tuple(range(first, first + tp)), 5) for first in range(0, ranks, tp)]
    wide = ranks // config.pipeline
    members += [
        ("dp", tuple(range(stage * wide + first, (stage + 1) * wide, tp)), 4)
        for stage in range(config.pipeline)
        for first in range(tp)
    ]
    members += [
        (f"pp{stage}", (stage * wide + lane, (stage + 1) * wide + lane), 6 + stage)
        for stage in range(config.pipeline - 1)
        for lane in range(wide)
    ]
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


def _finish(sim: RankSim) -> RankRecord:
    """Sorts what was recorded and says of every span in which step it started."""
    sim.now += 300_000
    sim.mark("PROFILING_DISABLE")
    offset, config = sim.offset, sim.config
    sim.rows.sort(key=lambda row: (row[4], -row[5], row[0]))
    marks = [(mark.ts_ns, mark.step) for mark in sim.steps[config.ragged :]]
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
    links = sim.links
    if config.ragged:
        begin = _window(sim)
        spans = [kept for span in spans if (kept := _recorded(span, begin)) is not None]
        there = {span.id for span in spans}
        spans = [span for span in spans if not isinstance(span.detail, CommTask) or span.detail.op in there]
        spans.sort(key=lambda span: (span.ts_ns, -span.dur_ns, span.id))
        links = [link for link in links if link.src in there and link.dst in there]
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
        links=tuple(links),
        steps=tuple(sim.steps[config.ragged :]),
        samples=samples,
        memory=tuple(block for block in sim.memory.blocks if block.ts_ns >= begin),
        memory_states=tuple(
            sorted(
                [state for state in (*sim.memory.states, *_app_states(samples)) if state.ts_ns >= begin],
                key=lambda state: state.ts_ns,
            )
        ),
        module_states=tuple(_module_states(begin, end)),
        by_id={span.id: span for span in spans},
        acts=tuple(sorted(act for act in sim.acts if act.ts_ns >= begin)),
    )


def _window(sim: RankSim) -> int:
    """Where the profiler starts: at the last collective before the first step, on every other rank right behind it.

    So ranks start one collective apart, and what was launched before is on the device without its launch.
    """
    first = sim.steps[1].ts_ns
    before = [row[4] for row in sim.rows if row[2] == "comm_op" and row[4] < first]
    at = max(before, default=first - 1_000_000)
    return at + 1_000 if sim.rank % 2 else at - 1_000


def _recorded(span: Span, begin: int) -> Span | None:
    """What of a span is in the window: the frames that are open when it begins count from there."""
    if span.ts_ns >= begin:
        return span
    open_frame = span.kind == "python" and span.end_ns > begin
    return span._replace(ts_ns=begin, dur_ns=span.end_ns - begin) if open_frame else None


def _samples(sim: RankSim, begin: int, end: int) -> Iterator[Sample]:
    """Counters at a fixed rate; whole units, so that every format can say them exactly."""
    last = sim.clock[-1][1] if sim.clock else RATED_MHZ
    for ts, mhz in ((begin, RATED_MHZ), *sim.clock, (end, last)):
        yield Sample("AI Core Freq", "MHz", ts, mhz)
    for ts in range(begin + 70_000, end, SAMPLE_NS):
        used = (sim.memory.states[-1].totals[1] if sim.memory.states else sim.config.held_bytes) // 1024
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
            yield MemoryState("APP", sample.ts_ns, (None, int(sample.value) * 1024, None))


def _module_states(begin: int, end: int) -> Iterator[MemoryState]:
    for ts in range(begin + 110_000, end, SAMPLE_NS):
        for name, reserved in MODULES:
            yield MemoryState(name, ts, (None, reserved, None))
