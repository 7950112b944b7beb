"""A thousand runs of random rows: the causes of idle time sum to the gaps, and no saving exceeds the step.

Every piece is also checked on its own against the rows: within its gap, apart from all others, outside
of all work. Some of them in `make test`, half of those in full; all of them in `make torture`.
"""

from __future__ import annotations

import numpy as np
import pytest

from npulens.analysis.engine import check
from npulens.analysis.idle.host_names import HOST_KINDS
from npulens.analysis.idle.issue import WORK
from npulens.analysis.idle.pieces import CODES, Idle, idle
from npulens.analysis.run import Run
from npulens.analysis.split import breakdown
from tests.random_runs import empty_connection, fill

RUNS, SOME, FEW = 1_000, 40, 20


def test_causes_sum_to_the_gaps() -> None:
    _causes_sum(range(SOME))


@pytest.mark.torture
def test_causes_sum_to_the_gaps_in_all() -> None:
    _causes_sum(range(SOME, RUNS))


def test_no_saving_exceeds_the_step() -> None:
    _savings_fit(range(0, RUNS, RUNS // FEW))


@pytest.mark.torture
def test_no_saving_exceeds_the_step_in_all() -> None:
    _savings_fit(range(RUNS))


def _causes_sum(seeds: range) -> None:
    con = empty_connection()
    for seed in seeds:
        fill(con, seed)
        run = Run(con)
        _tiles(run, run.get(idle), seed)


def _tiles(run: Run, found: Idle, seed: int) -> None:
    rows = run.con.execute("SELECT span_id, rank, kind, ts_ns FROM span").fetchall()
    spans = {span: (rank, kind, ts) for span, rank, kind, ts in rows}
    splits = breakdown(run.con)
    assert (found.end > found.start).all(), seed
    assert ((found.cause >= 0) & (found.cause < len(CODES))).all(), seed
    for rank in run.ranks:
        mine = found.rank == rank
        starts, ends = found.start[mine], found.end[mine]
        assert (starts[1:] >= ends[:-1]).all(), seed
        steps = [row for row in splits if row.rank == rank and row.step is not None]
        whole = next(row for row in splits if row.rank == rank and row.step is None)
        if rank not in found.ranks:
            assert not len(starts), seed
            assert whole.idle_ns is None, seed
            continue
        for row in steps or [whole]:
            begin, end = row.start_ns, row.start_ns + row.dur_ns  # type: ignore[operator]
            inside = np.clip(np.minimum(ends, end) - np.maximum(starts, begin), 0, None)
            assert int(inside.sum()) == row.idle_ns, (seed, rank, row.step)
        assert int((ends - starts).sum()) == sum(row.idle_ns or 0 for row in steps or [whole]), (seed, rank)
        for host in set(found.host[mine].tolist()) - {-1}:
            assert spans[host][0] == rank, (seed, host)
            assert spans[host][1] in HOST_KINDS, (seed, host)
        for task, gap in zip(found.task[mine].tolist(), found.gap_start[mine].tolist(), strict=True):
            if task != -1:
                assert spans[task][1] in WORK, (seed, task)
                assert gap < spans[task][2], (seed, task)


def _savings_fit(seeds: range) -> None:
    con = empty_connection()
    for seed in seeds:
        fill(con, seed)
        said = check(con)
        failed = [outcome.reason for outcome in said.outcomes if outcome.outcome == "failed"]
        assert not failed, (seed, failed)
        assert all(0 < finding.saving_ns <= said.step_ns for finding in said.findings), seed
        assert sum(finding.saving_ns for finding in said.findings) <= said.step_ns, seed
        assert 0 <= said.together_ns <= said.step_ns, seed
