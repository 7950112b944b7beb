"""Clock offsets: simulated skews come back within the uncertainty that is stated, and nothing is claimed without."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npulens import ingest
from npulens.analysis.ranks.clock import Clock, clock
from npulens.analysis.ranks.collectives import collectives, matched
from npulens.analysis.ranks.waits import waits
from npulens.analysis.run import Run
from npulens.collectors.simulator.simulated import (
    AscendOptions,
    Job,
    SimConfig,
    simulate,
    write_db,
    write_kineto,
    write_text,
)
from npulens.ingest.store.connection import open_run
from tests.simtables import communication, meeting
from tests.tablecase import connection

TEN_MINUTES = 600 * 10**9


def skew(draw: random.Random) -> int:
    """1 us to 10 minutes, every magnitude as often."""
    return draw.choice((-1, 1)) * int(10 ** draw.uniform(3, np.log10(TEN_MINUTES)))


def held(run: Run, true: tuple[int, ...]) -> list[bool]:
    """Per rank whether the offset to the reference is within its uncertainty."""
    found = run.get(clock)
    assert found.reference is not None
    others = [rank for rank in run.ranks if rank != found.reference]
    told = [found.uncertainty_ns(rank) for rank in others]
    return [
        unsure is not None and abs(found.offset_ns(rank) - (true[found.reference] - true[rank])) <= unsure
        for rank, unsure in zip(others, told, strict=True)
    ]


@pytest.fixture(scope="module")
def jobs() -> list[Job]:
    """Few collectives and many, two to four ranks, with and without a rank that comes late."""
    draw = random.Random(20)
    found = []
    for number in range(12):
        ranks = draw.choice((2, 2, 3, 4))
        late = draw.randrange(ranks) if number % 2 else None
        config = SimConfig(
            seed=draw.randrange(1 << 30), ranks=ranks, steps=draw.choice((1, 2, 3)), layers=draw.choice((1, 2)),
            tensor_parallel=2 if ranks == 4 and draw.random() < 0.5 else 1, jitter=draw.choice((0.02, 0.05)),
            frames=False, memory=False, perturb=None if late is None else slow(late),
        )  # fmt: skip
        found.append(simulate(config))
    return found


def slow(late: int) -> Callable[[Any, int], int]:
    return lambda cost, ns: ns + 20_000_000 if cost.rank == late and cost.what == "dataloader" else ns


@pytest.mark.parametrize("detail", ["peers", "tasks", "none"])
def test_skews_come_back_within_the_stated_uncertainty(jobs: list[Job], detail: str) -> None:
    draw = random.Random(detail)
    right: list[bool] = []
    for job in jobs:
        for _ in range(4):
            true = tuple(skew(draw) for _ in job.ranks)
            moved = replace(job, ranks=tuple(shifted(record, ns) for record, ns in zip(job.ranks, true, strict=True)))
            some = range(len(true)) if draw.random() < 0.7 else sorted(draw.sample(range(len(true)), 2))
            right += held(communication(moved, list(some), detail), true)
    assert len(right) > 50 and sum(right) >= 0.95 * len(right), f"{sum(right)} of {len(right)}"


def shifted(record: Any, ns: int) -> Any:
    """The rank with its clock ahead by so much."""
    spans = tuple(span._replace(ts_ns=span.ts_ns + ns) for span in record.spans)
    steps = tuple(step._replace(ts_ns=step.ts_ns + ns) for step in record.steps)
    return replace(record, spans=spans, steps=steps, begin_ns=record.begin_ns + ns, end_ns=record.end_ns + ns)


@pytest.mark.parametrize(("fmt", "level"), [("text", 0), ("text", 2), ("db", 1), ("kineto", 1)])
def test_through_files(fmt: str, level: int, tmp_path: Path) -> None:
    true = (0, TEN_MINUTES, -1_000)
    job = simulate(SimConfig(seed=3, ranks=3, steps=2, layers=1, clock_offsets_ns=true, task_queue=fmt != "kineto"))
    where = tmp_path / "capture"
    where.mkdir()
    if fmt == "kineto":
        write_kineto(job, where, "cuda", gz=True, ranks=(0, 1, 2))
    else:
        (write_text if fmt == "text" else write_db)(job, where, AscendOptions(f"Level{level}"), (0, 1, 2))
    loaded = ingest.load([where], tmp_path / "store").runs
    assert len(loaded) == 1 and loaded[0].run_id
    run = Run(open_run(tmp_path / "store", loaded[0].run_id))
    assert all(held(run, true)) and len(held(run, true)) == 2
    unsure = max(run.get(clock).uncertainty_ns(rank) or 0 for rank in run.ranks)
    assert unsure < (5_000 if fmt != "kineto" and level else 500_000)


def test_real_devices_of_one_host_differ(shared_traces: Path, tmp_path: Path) -> None:
    """By hand from text/level2: rank 0's waits end 80,325 ns after rank 1's records begin at the least, and at the
    most 77,705 ns before the other way round: the offset lies between."""
    capture = shared_traces / "Ascend+msinsight/test/data/pytorch/text/level2"
    (loaded,) = ingest.load([capture], tmp_path).runs
    assert loaded.run_id
    found = Run(open_run(tmp_path, loaded.run_id)).get(clock)
    assert (found.reference, found.offset_ns(1), found.uncertainty_ns(1)) == (0, 79_015, 1_310)


def test_ends_are_the_estimate_and_causality_its_bound() -> None:
    """Rank 1's stamps are 1000 us behind. Its collectives of 5 us cannot have ended before it came: -+5."""
    found = meeting([(100, 5), (300, 5)], [(-900, 5), (-700, 5)]).get(clock)
    assert (found.offset_ns(1), found.uncertainty_ns(1)) == (1_000_000, 5_000)


def test_one_rank_is_its_own_reference() -> None:
    found = meeting([(100, 5)]).get(clock)
    assert (found.reference, found.offset_ns(0), found.uncertainty_ns(0)) == (0, 0, 0)


def test_nothing_in_common_cannot_be_told() -> None:
    run = meeting([(100, 5)], [])
    found = run.get(clock)
    assert found.uncertainty_ns(1) is None and found.between_ns(0, 1) is None and found.offset_ns(1) == 0


def test_other_counts_are_not_matched_by_order() -> None:
    """Rank 1 recorded one collective less: nobody knows which."""
    run = meeting([(100, 5), (300, 5), (500, 5)], [(100, 5), (300, 5)])
    assert run.get(clock).uncertainty_ns(1) is None
    assert sorted(run.get(collectives).instance.tolist()) == [-1, -1, 0, 1, 2]


def test_a_clock_that_drifts_is_said_to_be_unsure() -> None:
    """Offsets of 0 and of 400 us: the truth of neither is excluded by what is stated."""
    found = meeting([(100, 5), (10_000, 5)], [(100, 5), (10_400, 5)]).get(clock)
    unsure = found.uncertainty_ns(1)
    assert unsure is not None and abs(found.offset_ns(1)) <= unsure and abs(found.offset_ns(1) + 400_000) <= unsure


def test_sends_and_receives_alone_hold_two_clocks_together() -> None:
    """Rank 1's clock is 5,000 ahead; the two sides of each exchange end together, and none before the other began."""
    spans = []
    for rank, ahead, starts in ((0, 0, (0, 400, 900)), (1, 5_000, (60, 380, 980))):
        for n, (at, end) in enumerate(zip(starts, (100, 440, 1_000), strict=True)):
            number = 100 * rank + n + 1
            comm = {"op_span_id": number, "collective": "batchsendrecv", "group_name": "pp", "dst_rank": 1 - rank}
            spans.append({"id": number, "rank": rank, "kind": "comm_op", "name": "hcom_batchSendRecv__1", "track": "pp",
                          "at": at + ahead, "for": end - at, "comm": comm})  # fmt: skip
    found = Run(connection({"spans": spans})).get(clock)
    assert found.offset_ns(1) == -5_000_000 and (found.uncertainty_ns(1) or 0) <= 20_000


def test_an_empty_run() -> None:
    run = Run(connection({}))
    assert run.get(clock).reference == 0 and len(run.get(waits).how) == 0


def test_a_thousand_ranks_meet_at_the_first() -> None:
    draw = random.Random(4)
    true = [draw.randrange(10**9) for _ in range(1_000)]
    found = meeting(*([(ns, 50), (ns + 10**6, 50)] for ns in true)).get(clock)
    assert len(found.offsets) == 1_000
    for rank in (1, 17, 999):
        unsure = found.uncertainty_ns(rank)
        assert unsure is not None and abs(found.offset_ns(rank) - (true[0] - true[rank]) * 1_000) <= unsure < 10**6


def test_uncertainties_add_up_along_a_path() -> None:
    """Ranks 0 and 2 share nothing but rank 1."""
    run = meeting([(0, 4)], [(0, 4)], [])
    pairs = run.get(clock).pairs
    assert set(pairs) == {(0, 1)}
    made = Clock(0, run.get(clock).offsets, pairs)
    assert made.between_ns(0, 1) == 4_000 and made.between_ns(1, 1) == 0


def test_steps_tell_collectives_of_one_name_apart() -> None:
    """Rank 0 recorded steps 1 and 2, rank 1 steps 2 and 3: the first of one is not the first of the other."""
    rank, step = np.array([0, 0, 0, 0, 1, 1, 1, 1]), np.array([1, 1, 2, 2, 2, 2, 3, 3])
    same = np.zeros(8, np.int64)
    found = matched(rank, same, step, same, same, True)
    assert found[2] == found[4] and found[3] == found[5] and len(set(found.tolist())) == 6
