"""Replays of simulated jobs against the truth: the same job, from the same seed, without what was planted.

The change is written down from what is known to be planted, so what is measured is the replay alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npulens import ingest
from npulens.analysis.finding import Change
from npulens.analysis.intervals import Intervals
from npulens.analysis.ranks.collectives import collectives
from npulens.analysis.ranks.waits import waits
from npulens.analysis.replay.whatif import saved_ns
from npulens.analysis.run import Run
from npulens.collectors.planting.plant import Options, plan, write
from npulens.collectors.simulator.job import CommOp, Span
from npulens.collectors.simulator.simulated import (
    AscendOptions,
    Cost,
    Job,
    SimConfig,
    simulate,
    write_db,
    write_kineto,
    write_text,
)
from npulens.ingest.store import runs

Make = Callable[[Job, Job, Run, tuple[int, ...]], Change]

FRAME = "torch/utils/data/dataloader.py(1327): _get"
LATE_NS = 2_000_000


def slower(what: str, name: str, factor: float, rank: int | None = None) -> Callable[[Cost, int], int]:
    def perturb(cost: Cost, ns: int) -> int:
        hit = cost.what == what and name in cost.name and rank in (None, cost.rank)
        return int(ns * factor) if hit else ns

    return perturb


def late_input(rank: int | None) -> Callable[[Cost, int], int]:
    return lambda cost, ns: ns + LATE_NS if cost.what == "dataloader" and rank in (None, cost.rank) else ns


def origin(job: Job, ranks: Sequence[int]) -> int:
    return min(job.ranks[rank].begin_ns for rank in ranks)


def stored(run: Run) -> dict[tuple[int, int, int], int]:
    """Span ids of device tasks by rank, start and length."""
    rows = run.con.execute(
        "SELECT rank, ts_ns, dur_ns, span_id FROM span WHERE kind IN ('kernel', 'memset', 'memcpy', 'comm_op')"
    ).fetchall()
    return {(rank, ts, ns): number for rank, ts, ns, number in rows}


def shorter_tasks(job: Job, clean: Job, run: Run, ranks: tuple[int, ...]) -> Change:
    """Every kernel and copy as long as it is in the other job."""
    known, first, found = stored(run), origin(job, ranks), {}
    for rank in ranks:
        for span in job.ranks[rank].of("kernel", "memset", "memcpy"):
            less = span.dur_ns - clean.ranks[rank].by_id[span.id].dur_ns
            if less > 0:
                found[known[rank, span.ts_ns - first, span.dur_ns]] = less
    return Change(tasks=np.array([*found], np.int64), task_ns=np.array([*found.values()], np.int64))


def shorter_transfers(job: Job, clean: Job, run: Run, ranks: tuple[int, ...]) -> Change:
    """Every collective as long from its last member's start as it is in the other job."""
    known, first, found = stored(run), origin(job, ranks), {}
    slow, fast = transfers(job), transfers(clean)
    for rank in ranks:
        for span in job.ranks[rank].of("comm_op"):
            less = slow[rank, span.id] - fast[rank, span.id]
            if less > 0:
                found[known[rank, span.ts_ns - first, span.dur_ns]] = less
    return Change(tasks=np.array([*found], np.int64), task_ns=np.array([*found.values()], np.int64))


def transfers(job: Job) -> dict[tuple[int, int], int]:
    latest: dict[tuple[str, str], int] = {}
    operators: list[tuple[int, Span, tuple[str, str]]] = []
    for record in job.ranks:
        for span in record.of("comm_op"):
            assert isinstance(span.detail, CommOp)
            key = (span.detail.group, span.name)
            latest[key] = max(latest.get(key, 0), span.ts_ns)
            operators.append((record.rank, span, key))
    return {(rank, span.id): span.end_ns - latest[key] for rank, span, key in operators}


def sooner_input(job: Job, clean: Job, run: Run, ranks: tuple[int, ...]) -> Change:
    """The frame that waits for the input is so much longer; the wait begins 3 us into it."""
    windows: dict[int, Any] = {}
    for rank in ranks:
        grown = [
            span.ts_ns - origin(job, ranks) + 3_000
            for span in job.ranks[rank].of("python")
            if span.name == FRAME and span.dur_ns - clean.ranks[rank].by_id[span.id].dur_ns == LATE_NS
        ]
        if grown:
            windows[rank] = Intervals.union_of(np.array(grown), np.array(grown) + LATE_NS)
    return Change(host=windows)


def launches(job: Job, clean: Job, run: Run, ranks: tuple[int, ...]) -> Change:
    """Calls that launch take longer, on the thread of the queue."""
    windows = {}
    for rank in ranks:
        edges = [
            (span.ts_ns - origin(job, ranks), span.dur_ns - clean.ranks[rank].by_id[span.id].dur_ns)
            for span in job.ranks[rank].of("runtime")
            if getattr(span.detail, "level", "") == "node" and span.dur_ns > clean.ranks[rank].by_id[span.id].dur_ns
        ]
        begin, ns = np.array(edges, np.int64).T
        windows[rank] = Intervals.union_of(begin, begin + ns)
    return Change(host=windows)


def sooner_peer(job: Job, clean: Job, run: Run, ranks: tuple[int, ...]) -> Change:
    """What is seen of a peer that was not captured: how much later than the others it came."""
    gain = run.get(waits).gain_ns
    late = gain > 0
    return Change(peers=run.get(collectives).span_id[late], peer_ns=gain[late])


SMALL = {"hidden": 512, "tokens": 1024, "layers": 3, "trained": 8}  # the host decides
WIDE = {"hidden": 2048, "tokens": 4096, "layers": 2}  # the device does
CASES: dict[str, tuple[dict[str, Any], Callable[[Cost, int], int], Make, str, tuple[int, ...]]] = {
    "kernels, text": (WIDE, slower("kernel", "Gelu", 4), shorter_tasks, "text", (0, 1)),
    "kernels of one rank, db": (WIDE, slower("kernel", "MatMul", 1.3, rank=0), shorter_tasks, "db", (0, 1)),
    "kernels, one rank of four": (WIDE | {"ranks": 4}, slower("kernel", "Gelu", 6), shorter_tasks, "text", (2,)),
    "kernels, host decides": (SMALL, slower("kernel", "MatMul", 6), shorter_tasks, "Level0", (0, 1)),
    "copies, kineto": (WIDE, slower("copy", "d2d", 20), shorter_tasks, "kineto", (0, 1)),
    "links": (WIDE | {"ranks": 4}, slower("link", "0-1", 3), shorter_transfers, "text", (0, 1, 2, 3)),
    "links, tensor parallel": (
        WIDE | {"ranks": 4, "tensor_parallel": 2}, slower("link", "", 2), shorter_transfers, "db", (0, 1, 2, 3)
    ),
    "input": (SMALL, late_input(None), sooner_input, "text", (0, 1)),
    "input of one rank, kineto": (WIDE, late_input(1), sooner_input, "kineto", (0, 1)),
    "input of one rank, clocks apart": (
        WIDE | {"clock_offsets_ns": (0, 77_777)}, late_input(0), sooner_input, "text", (0, 1)
    ),
    "queue decides": (SMALL, slower("runtime", "launch", 8), launches, "text", (0, 1)),
    "queue is hidden": (SMALL | {"ranks": 1}, slower("runtime", "launch", 2), launches, "text", (0,)),
    "peer, Level1": (WIDE, late_input(1), sooner_peer, "text", (0,)),
    "peer, Level0": (WIDE, late_input(1), sooner_peer, "Level0", (0,)),
}  # fmt: skip


def window(job: Job, rank: int) -> int:
    record = job.ranks[rank]
    work = [span.end_ns for span in record.of("kernel", "memset", "memcpy", "comm_op", "wait")]
    return max(record.steps[-1].end_ns, *work) - record.steps[0].ts_ns


@pytest.mark.parametrize("name", CASES)
def test_what_the_replay_saves_is_what_the_job_saves(name: str, tmp_path: Path) -> None:
    sizes, perturb, make, fmt, ranks = CASES[name]
    common = {"seed": 3, "ranks": 2, "steps": 3, "jitter": 0.03, "task_queue": fmt != "kineto"} | sizes
    job, clean = simulate(SimConfig(**common, perturb=perturb)), simulate(SimConfig(**common))
    home = tmp_path / "capture"
    home.mkdir()
    if fmt == "kineto":
        write_kineto(job, home, ranks=ranks)
    elif fmt == "db":
        write_db(job, home, ranks=ranks)
    else:
        write_text(job, home, AscendOptions("Level0" if fmt == "Level0" else "Level1"), ranks)
    (loaded,) = ingest.load(home, tmp_path / "store").runs
    assert loaded.run_id, loaded.error
    run = Run(runs.open_run(tmp_path / "store", loaded.run_id))
    before, after = (max(window(one, rank) for rank in ranks) for one in (job, clean))
    assert run.wall_ns == before
    saved = saved_ns(run, make(job, clean, run, ranks))
    # A twentieth of the gain, or a per mille of the job where next to nothing is gained.
    assert abs(saved - (before - after)) <= max(0.05 * (before - after), 0.001 * before)


@pytest.mark.parametrize(("seed", "fmt"), [(1, "text"), (2, "db"), (3, "kineto")])
def test_waiting_calls_in_the_middle_of_the_step(seed: int, fmt: str, tmp_path: Path) -> None:
    """Values read back inside the layers: the calls wait, their Python takes time, and each copies a few bytes."""
    case = plan(["sync_stall"], seed, Options(ranks=2, steps=3, level=1, format=fmt, missing_ranks=0, skew_ns=0))
    write(case, tmp_path)
    (loaded,) = ingest.load(tmp_path / "capture", tmp_path / "store").runs
    run = Run(runs.open_run(tmp_path / "store", str(loaded.run_id)))
    known, first = stored(run), origin(case.job, case.capture.ranks)
    windows, copies = {}, {}
    for rank in case.capture.ranks:
        device = {(span.ts_ns, span.dur_ns) for span in case.job.ranks[rank].of("kernel", "memcpy")}
        acts = {(act.ts_ns, act.dur_ns) for act in case.job.ranks[rank].acts if act.fault == "sync_stall"}
        copies |= {known[rank, ts - first, ns]: ns for ts, ns in acts & device}
        if host := sorted(acts - device):
            ts, ns = np.array(host, np.int64).T
            windows[rank] = Intervals.union_of(ts - first, ts - first + ns)
    calls = run.con.execute(
        "SELECT rank, ts_ns, dur_ns, span_id FROM span WHERE kind = 'runtime' AND name LIKE '%ynchronize%'"
    ).fetchall()
    syncs = [
        number for rank, ts, ns, number in calls
        if rank in windows and int(windows[rank].within(np.array([ts]), np.array([ts + ns]))[0]) == ns
    ]  # fmt: skip
    assert len(syncs) >= 3 * 3
    tasks, ns = np.array([*copies], np.int64), np.array([*copies.values()], np.int64)
    saved = saved_ns(run, Change(host=windows, tasks=tasks, task_ns=ns, syncs=np.array(syncs, np.int64)))
    assert saved / 3 == pytest.approx(case.truths[0].gain_ns, rel=0.05)
