"""What is asked for many ranks at once is what each of them says alone."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from npulens.analysis import run as run_module
from npulens.analysis import views
from npulens.analysis.engine import check
from npulens.analysis.finding import Change, together
from npulens.analysis.idle.culprit import GENERATED, OWN, whose
from npulens.analysis.idle.origin import origin
from npulens.analysis.idle.pieces import CODES, idle
from npulens.analysis.intervals import Intervals, origins
from npulens.analysis.replay.host_edges import HostEdges
from npulens.analysis.replay.whatif import replay
from npulens.analysis.run import Run
from npulens.analysis.split import activities
from tests.bench.same_findings import differences
from tests.random_runs import empty_connection, fill

SEEDS = range(3, 300, 60)


def said(seed: int, small: bool = False) -> str:
    """Everything that a check says of a random run."""
    con = empty_connection()
    fill(con, seed)
    if small:
        views.hold_small(con)
    found = check(con)
    assert [outcome for outcome in found.outcomes if outcome.outcome == "failed"] == [], seed
    return json.dumps([found.as_dict("en"), found.as_dict("zh")])


def test_ranks_one_by_one_or_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    together_ = [said(seed) for seed in SEEDS]
    monkeypatch.setattr(run_module, "AT_ONCE", 0)  # every rank is asked for alone
    assert [said(seed) for seed in SEEDS] == together_
    monkeypatch.undo()
    assert [said(seed, small=True) for seed in SEEDS] == together_


def test_times_of_hosts_are_changed_one_by_one_or_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    con = empty_connection()
    changed = 0
    for seed in (*SEEDS, *range(1, 80, 3)):
        fill(con, seed)
        run = Run(con)
        draw = random.Random(seed)
        host = {}
        for rank in run.ranks:
            starts = np.array([draw.randrange(60_000) for _ in range(4)], np.int64)
            host[rank] = Intervals.union_of(starts, starts + draw.randrange(1, 20_000))
        with monkeypatch.context() as patched:
            together_ = replay(run, Change(host=host))
            patched.setattr(HostEdges, "together", lambda self, ranks: [[rank] for rank in ranks])
            alone = replay(run, Change(host=host))
        assert (together_ is None) == (alone is None), seed
        if together_ is not None and alone is not None:
            changed += len(run.ranks) > 1
            for name in ("time", "lag", "rest"):
                assert (getattr(together_, name) == getattr(alone, name)).all(), (seed, name)
    assert changed > 5


def test_no_clock_reaches_the_next_one_on_an_axis() -> None:
    draw = random.Random(3)
    for _ in range(100):
        count = draw.randrange(1, 6)
        moments = [np.array([draw.randrange(-(10**9), 10**12) for _ in range(5)], np.int64) for _ in range(count)]
        shift = origins(count, moments)
        assert shift is not None
        laid = [some + by for some, by in zip(moments, shift.tolist(), strict=True)]
        assert all(one.max() < other.min() for one, other in pairwise(laid))
    assert origins(3, [np.array([-(2**60), 2**60])]) is None


def test_neighbours_are_asked_together_up_to_a_number_of_events() -> None:
    blocks = run_module._blocks({0: 400_000, 1: 600_000, 2: 1, 5: 2_000_000, 6: 0})
    assert blocks == {0: (0, 1), 1: (0, 1), 2: (2, 2), 5: (5, 5), 6: (6, 6)}


def test_the_rows_of_a_rank_are_its_own() -> None:
    con = empty_connection()
    for seed in SEEDS:
        fill(con, seed)
        run = Run(con)
        sql = "SELECT rank, span_id, ts_ns FROM span WHERE rank BETWEEN ? AND ? AND kind = ?"
        for rank in (*run.ranks, *run.ranks[::-1]):
            rows = con.execute("SELECT span_id FROM span WHERE rank = ? AND kind = 'kernel'", [rank]).fetchall()
            found = run.of_rank(sql, rank, "kernel")
            assert found["span_id"].tolist() == [span for (span,) in rows], (seed, rank)
            assert "rank" not in found


def test_what_devices_did_rank_by_rank() -> None:
    con = empty_connection()
    kinds = {"computing": ("kernel", "memset"), "communication": ("comm_op",), "copy": ("memcpy",)}
    for seed in SEEDS:
        fill(con, seed, 1)
        run = Run(con)
        for rank, did in activities(con, run.ranks[0], run.ranks[-1]).items():
            for name, wanted in kinds.items():
                rows = con.execute(
                    "SELECT kind, ts_ns, dur_ns, span_id IN (SELECT span_id FROM comm WHERE op_span_id = span_id) "
                    "FROM span WHERE rank = ?", [rank],
                ).fetchall()  # fmt: skip
                covered = {
                    at for kind, ts, dur, both in rows for at in range(ts, ts + dur)
                    if kind in wanted or (name == "communication" and kind == "kernel" and both)
                }  # fmt: skip
                part = getattr(did, name)
                assert covered == (set() if part is None else _moments(part)), (seed, rank, name)


def test_idle_time_by_rank() -> None:
    con = empty_connection()
    for seed in SEEDS:
        fill(con, seed)
        found = Run(con).get(idle)
        for cause in CODES if len(found.rank) else ():
            if cause not in ("gc", "host_late", "unknown", "launch_overhead"):
                continue
            each = {rank: 0 for rank in found.ranks}
            for rank, begin, end, code in zip(found.rank, found.start, found.end, found.cause, strict=True):
                each[int(rank)] += int(end - begin) * (code == CODES.index(cause))
            assert found.totals(found.pick(cause)) == each, (seed, cause)
            assert found.by_rank(cause) == {rank: ns for rank, ns in each.items() if ns}


def test_all_fixes_at_once() -> None:
    draw = random.Random(5)
    for _ in range(50):
        changes = [_change(draw) for _ in range(draw.randrange(2, 6))]
        whole = together(changes)
        for ids, ns in (("tasks", "task_ns"), ("delays", "delay_ns"), ("peers", "peer_ns")):
            most: dict[int, int] = {}
            for one in changes:
                for span, amount in zip(getattr(one, ids).tolist(), getattr(one, ns).tolist(), strict=True):
                    most[span] = max(most.get(span, 0), amount)
            assert dict(zip(getattr(whole, ids).tolist(), getattr(whole, ns).tolist(), strict=True)) == most
        assert whole.syncs.tolist() == sorted({span for one in changes for span in one.syncs.tolist()})
        for name in ("host", "cut"):
            held: dict[int, set[int]] = {}
            for one in changes:
                for rank, windows in getattr(one, name).items():
                    held.setdefault(rank, set()).update(_moments(windows))
            assert {rank: _moments(windows) for rank, windows in getattr(whole, name).items()} == held
    assert together([]).tasks.tolist() == []


def _change(draw: random.Random) -> Change:
    def some() -> tuple[Any, Any]:
        ids = draw.sample(range(12), draw.randrange(5))
        return np.array(ids, np.int64), np.array([draw.randrange(1, 50) for _ in ids], np.int64)

    def windows() -> dict[int, Intervals]:
        starts = np.array([draw.randrange(40) for _ in range(3)], np.int64)
        return {draw.randrange(3): Intervals.union_of(starts, starts + draw.randrange(1, 9))}

    return Change(windows(), *some(), *some(), some()[0], *some(), windows())


def _moments(windows: Intervals) -> set[int]:
    return {at for a, b in zip(windows.starts.tolist(), windows.ends.tolist(), strict=True) for at in range(a, b)}


def test_where_a_task_comes_from_follows_the_rows() -> None:
    """The operator is the first one on the way from the launching call through its parents.

    Without an operator and a frame it is the outermost call of the runtime around the launch.
    """
    con = empty_connection()
    asked = 0
    for seed in (*SEEDS, *range(1, 80, 10)):
        fill(con, seed)
        run = Run(con)
        rows = con.execute("SELECT span_id, kind, name, parent_id FROM span").fetchall()
        spans = {row[0]: row[1:] for row in rows}
        for task, source in con.execute(
            "SELECT dst_span_id, any_value(src_span_id) FROM link WHERE route <> 'fwdbwd' GROUP BY 1 "
            "HAVING count(DISTINCT src_span_id) = 1 ORDER BY 1 LIMIT 20"
        ).fetchall():
            at, operator, around, code = source, None, None, False
            while at in spans:
                kind, name, parent = spans[at]
                operator = operator or (name if kind == "cpu_op" else None)
                around = name.split("@")[-1] if kind == "runtime" and at != source else around
                code = code or (kind == "python" and whose(name) != GENERATED)
                if kind == "python" and whose(name) == OWN:
                    break
                at = parent
            assert origin(run, task).op == (operator or (None if code else around)), (seed, task)
            asked += 1
    assert asked > 50


def test_only_the_views_that_are_asked_for() -> None:
    con = empty_connection()
    views.install(con, ["collective"])  # built on comm_task and launch
    made = "SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY 1"
    assert con.execute(made).fetchall() == [("collective",), ("comm_task",), ("launch",)]
    views.install(con)
    assert len(con.execute(made).fetchall()) == len(views.views())


def test_differences_are_told_by_their_place() -> None:
    one = {"findings": [{"saving_ns": 5, "ranks": "0"}], "score": 80}
    other = {"findings": [{"saving_ns": 6, "ranks": "0"}], "score": 80, "more": None}
    assert list(differences(one, other)) == [".findings[0].saving_ns: 5 != 6"]
    assert list(differences(one, one)) == []
    assert list(differences([1], [1, 2], "x")) == ["x: [1] != [1, 2]"]
