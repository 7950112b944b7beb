"""The launch of each task in one pass against the views and facts that say it one by one, and what is kept of a run."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

from npulens import ingest
from npulens.analysis import views
from npulens.analysis.idle.launch_costs import ORDINARY_NS, launch_costs
from npulens.analysis.intervals import Intervals
from npulens.analysis.kept import KEPT, LAUNCHED, PACE, ROOFS
from npulens.analysis.look import communication, efficiency, kernel_detail, kernels, ranks
from npulens.analysis.look import launch as look
from npulens.analysis.look import path as critical
from npulens.analysis.modules.measure import of_run as of_modules
from npulens.analysis.ranks.clock import clock
from npulens.analysis.ranks.lateness import late_peers
from npulens.analysis.run import Run
from npulens.analysis.selection import within
from npulens.app import run_open
from npulens.ingest.store import kept, lod, runs

Con = duckdb.DuckDBPyConnection
ROOT = Path(__file__).resolve().parent.parent
#: What the columns mean, one by one, from the tables and views.
SAID = """
    SELECT l.span_id, l.rank, l.step, l.track, l.kind, l.name, coalesce(k.op_type, l.name), l.ts_ns, l.dur_ns,
        l.launch_id, l.launch_kind, l.launch_ns, l.latency_ns, l.negative, call.name, call.dur_ns,
        (SELECT min(route) FROM link WHERE src_span_id = l.launch_id AND dst_span_id = l.span_id), h.free_ns, h.lead_ns,
        CASE WHEN h.lead_ns < 0 THEN coalesce((
            SELECT arg_max(op.name, (op.ts_ns, op.span_id)) FROM link a JOIN span c ON c.span_id = a.src_span_id
            JOIN span op ON op.kind = 'cpu_op'
                AND op.span_id = CASE WHEN c.kind = 'cpu_op' THEN c.span_id ELSE c.parent_id END
            WHERE a.dst_span_id = l.span_id AND a.route NOT IN ('fwdbwd', 'task_queue')
        ), call.name) END
    FROM launch l LEFT JOIN host_lead h USING (span_id) LEFT JOIN span call ON call.span_id = l.launch_id
    LEFT JOIN kernel k ON k.span_id = l.span_id ORDER BY l.rank, l.ts_ns, l.span_id
"""


@pytest.fixture(scope="module", params=["torch_npu_text", "kineto", "late_rank", "cpu_train_step"])
def stored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    store = tmp_path_factory.mktemp("store")
    ingest.load(ROOT / "sample_traces" / request.param, store)
    return store, runs.runs(store)[0].run_id


@pytest.fixture
def plain(stored: tuple[Path, str]) -> Iterator[Con]:
    con = runs.open_run(*stored)
    views.install(con)
    yield con
    con.close()


def test_it_is_what_views_and_tables_say(plain: Con) -> None:
    expected = plain.execute(SAID).fetchall()
    assert plain.execute(LAUNCHED).fetchall() == expected
    assert expected


def test_the_pace_is_that_of_detectors(plain: Con) -> None:
    found = plain.execute(PACE).fetchone()
    assert (found[0] if found else ORDINARY_NS) == Run(plain).get(launch_costs).ordinary_ns


def test_late_launches_cost_what_sets_of_time_say(plain: Con) -> None:
    found, run = look.late(plain), Run(plain)
    rows = plain.execute("SELECT rank, operator, call, free_ns, launch_ns FROM launched WHERE lead_ns < 0").fetchall()

    def idle(chosen: list[tuple[int, str, str, int, int]]) -> int:
        total = 0
        for rank in {row[0] for row in chosen}:
            mine = [row for row in chosen if row[0] == rank]
            edges = (np.array([row[at] for row in mine], np.int64) for at in (3, 4))
            total += (Intervals.union_of(*edges) - run.activity(rank).work()).total()
        return total

    assert (found.tasks, found.idle_ns) == (len(rows), idle(rows))
    expected = {
        (op, call): (len(mine), idle(mine))
        for op, call in {row[1:3] for row in rows}
        for mine in [[row for row in rows if row[1:3] == (op, call)]]
    }
    told = {(row.op, row.call): (row.count, row.idle_ns) for row in found.calls.itertuples(index=False)}
    assert told == {key: value for key, value in expected.items() if value[1] > 0}


def test_the_mean_of_a_queue_is_that_of_every_moment(plain: Con) -> None:
    for (rank,) in plain.execute("SELECT DISTINCT rank FROM launch WHERE launch_id IS NOT NULL").fetchall()[:2]:
        curve = look.queue(plain, rank)
        moments = plain.execute("SELECT ts_ns, depth FROM queue_depth WHERE rank = ? ORDER BY ts_ns", [rank]).fetchall()
        assert (curve.begin_ns, curve.end_ns, curve.points) == (moments[0][0], moments[-1][0], len(moments))
        held = [(at, until, depth) for (at, depth), (until, _) in zip(moments, moments[1:], strict=False)]
        for row in curve.slices.iloc[:: max(1, len(curve.slices) // 40)].itertuples(index=False):
            begin, end = row.ts_ns, row.ts_ns + curve.width_ns
            parts = [
                (min(until, end) - max(at, begin), depth) for at, until, depth in held if at < end and until > begin
            ]
            length = sum(part for part, _ in parts)
            mean = sum(part * depth for part, depth in parts) / length if length else None
            assert mean is None if np.isnan(row.middle) else row.middle == pytest.approx(mean, rel=1e-12)
            seen = [depth for _, depth in parts] + [depth for at, depth in moments if begin <= at < end]
            assert (row.least, row.most) == (min(seen), max(seen))


def answers(con: Con) -> list[object]:
    """Everything the page of launches measures, as plain rows."""
    found = look.launches(con)
    curves = [curve for rank in found.headline.ranks for curve in (look.queue(con, rank), look.lead(con, rank))]
    frames = [
        found.latency.rows, found.latency.quantiles, found.late.calls, found.short, found.syncs,
        *(curve.slices for curve in curves),
    ]  # fmt: skip
    return [found.headline, found.late.tasks, found.late.idle_ns, *(frame.to_csv() for frame in frames)]


def test_what_is_kept_answers_as_the_tables_do(stored: tuple[Path, str], plain: Con) -> None:
    store, run_id = stored
    assert not run_open.keep(store, run_id)  # a small run keeps nothing
    made = run_open.keep(store, run_id, least=0)
    assert set(made) == set(KEPT) and all(path.is_file() for path in made.values())
    con = run_open.opened(store, run_id)
    assert answers(con) == answers(plain)
    for name in ("launch", "host_lead", "queue_depth"):
        asked = f"SELECT * FROM {name} ORDER BY ALL"
        assert con.execute(asked).fetchall() == plain.execute(asked).fetchall()
    with pytest.raises(duckdb.Error):  # the connection is as locked as ever
        con.execute(f"SELECT * FROM read_text('{store / run_id / 'manifest.json'}')")
    con.close()


def of_ranks(con: Con) -> list[object]:
    """What pages ask of ranks, and where the kernels of the longest type come from, as plain rows."""
    found = ranks.compared(con)
    longest = kernels.table(con, "type", kernels.Filter()).groups["key"].head(1).tolist()
    sources = [kernel_detail.source(con, "type", int(key), kernels.Filter()) for key in longest]
    return [
        communication.kinds(con), communication.peers(con), found.stands, found.missed, found.reference, found.clocks,
        found.staged, ranks.pipeline(con, None, 60),
        *((one.ops.to_csv(), one.linked, one.count, one.stacks, one.stacked, one.longest) for one in sources),
    ]  # fmt: skip


def test_what_is_kept_of_ranks_is_what_their_tables_say(stored: tuple[Path, str], plain: Con) -> None:
    store, run_id = stored
    run_open.keep(store, run_id, least=0)
    con = run_open.opened(store, run_id)
    there = {name for (name,) in con.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()}
    assert there.issuperset({"comm_kind", "late_peer", "rank_stand", "comm_state", "kernel_source"})
    told = of_ranks(con)
    assert told == of_ranks(plain)
    late = Run(plain).get(late_peers)
    assert [(one.rank, one.wait_ns, one.gain_ns) for one in communication.peers(con)] == [
        (one.rank, one.wait_ns, one.gain_ns) for one in late
    ]
    time = Run(plain).get(clock)
    assert {one.rank: one.uncertainty_ns for one in ranks.compared(con).clocks} == {
        rank: time.uncertainty_ns(rank) for rank in Run(plain).ranks
    }
    con.close()


def test_the_path_that_is_kept_is_the_one_that_is_followed(stored: tuple[Path, str], plain: Con) -> None:
    store, run_id = stored
    run_open.keep(store, run_id, least=0)
    con = run_open.opened(store, run_id)
    assert "critical_path" in views.there(con) - views.there(plain)
    found = critical.path(con)
    assert found == critical.path(plain) == critical.of_run(Run(plain))
    assert sum(part.ns for part in found.parts) == found.wall_ns
    con.close()


def test_efficiency_that_is_kept_is_what_is_measured(stored: tuple[Path, str], plain: Con) -> None:
    store, run_id = stored
    run_open.keep(store, run_id, least=0)
    con = run_open.opened(store, run_id)
    assert set(ROOFS) <= views.there(con) - views.there(plain)
    assert efficiency.whole(Run(con)) == efficiency.whole(Run(plain))
    assert {"module_sum"} <= views.there(con) - views.there(plain)
    assert of_modules(Run(con)) == of_modules(Run(plain))
    beside, told = efficiency.efficiency(Run(con)), efficiency.efficiency(Run(plain))
    pd.testing.assert_frame_equal(beside.operators, told.operators)
    assert len(told.operators) and replace(beside, operators=None) == replace(told, operators=None)
    found, measured = efficiency.rates(con), efficiency.rates(plain)
    every = fields(efficiency.Rates)
    assert all(np.array_equal(*(getattr(one, each.name) for one in (found, measured)), equal_nan=each.name in (
        "roof_ns", "flops")) for each in every)  # fmt: skip
    assert all(getattr(found, each.name).dtype == getattr(measured, each.name).dtype for each in every)
    chosen = kernels.members(con, "type", kernels.Filter())
    assert efficiency.of_kernels(found, chosen).equals(efficiency.of_kernels(measured, chosen))
    con.close()


@pytest.mark.parametrize(
    "measure",
    [efficiency.whole, lambda run: critical.path(run.con), lambda run: efficiency.efficiency(run).chosen, of_modules],
)
def test_of_a_selection_no_answer_about_the_whole_is_told(
    stored: tuple[Path, str], measure: Callable[[Run], object]
) -> None:
    """What is kept of the run is there to see on every connection; the first step alone answers for itself."""
    store, run_id = stored
    run_open.keep(store, run_id, least=0)
    found = []
    for con in (run_open.opened(store, run_id), runs.open_run(store, run_id)):  # with what is kept, and without
        step = (con.execute("SELECT min(step) FROM step").fetchall() or [(None,)])[0][0]
        if step is None:
            pytest.skip("the capture has no steps")
        views.install(con)
        within.narrow(con, within.Part(steps=(step, step)))
        found.append(measure(Run(con).hold()))
        con.close()
    assert found[0] == found[1]


def test_what_is_kept_is_made_once_and_swept(stored: tuple[Path, str], tmp_path: Path) -> None:
    store, run_id = tmp_path / "store", stored[1]
    shutil.copytree(stored[0], store)
    made = run_open.keep(store, run_id, least=0)
    before = {path: path.stat().st_mtime_ns for path in made.values()}
    assert {path: path.stat().st_mtime_ns for path in run_open.keep(store, run_id, least=0).values()} == before
    folder = store / kept.FOLDER
    old, gone = folder / f"{run_id}.launched.0123456789ab.parquet", folder / "0123.launched.0123456789ab.parquet"
    for path in (old, gone):
        path.write_bytes(b"x")
    made["launch_pace"].unlink()
    assert set(run_open.keep(store, run_id, least=0).values()) == set(made.values())
    assert not old.exists() and not gone.exists() and made["launch_pace"].is_file()


def test_a_damaged_file_is_passed_over_and_made_anew(stored: tuple[Path, str], tmp_path: Path) -> None:
    store, run_id = tmp_path / "store", stored[1]
    shutil.copytree(stored[0], store)
    damaged = run_open.keep(store, run_id, least=0)["launched"]
    whole = damaged.read_bytes()
    damaged.write_bytes(b"PAR1 is not enough")
    con = run_open.opened(store, run_id)
    assert look.headline(con).tasks > 0
    con.close()
    assert "launched" not in kept.there(store, run_id, run_open._answers(("launched",)))
    run_open.keep(store, run_id, least=0)
    assert damaged.stat().st_size == len(whole)
    (store / run_id / "manifest.json").unlink()
    assert run_open.keep(store, run_id, least=0) == {}


def test_of_a_run_that_is_deleted_for_good_nothing_is_left(stored: tuple[Path, str], tmp_path: Path) -> None:
    store, run_id = tmp_path / "store", stored[1]
    shutil.copytree(stored[0], store)
    run_open.keep(store, run_id, least=0)
    lod.open_lod(store, run_id).close()
    runs.discard(store, run_id)
    assert runs.empty(store, 3600.0) == [] and list(store.rglob(f"{run_id}.*"))  # it can be had back
    assert runs.empty(store, -1.0) == [run_id]
    assert not list(store.rglob(f"*{run_id}*"))
