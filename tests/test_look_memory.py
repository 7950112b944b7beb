"""Memory in numbers: worked out by hand, thinned without losing a peak, and by brute force on a real capture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
import tablecase

from npulens import ingest
from npulens.analysis import views
from npulens.analysis.look import memory as look
from npulens.ingest.store import runs

TWO_RANKS = "Ascend+msinsight/test/data/pytorch/db/level1"


def _con(tables: dict[str, list[dict[str, Any]]]) -> duckdb.DuckDBPyConnection:
    made = tablecase.connection({"rank": {0: {}}, "tables": tables})
    views.install(made)
    return made


def _sample(at: float, allocated: int | None, reserved: int | None, pool: str = "PTA") -> dict[str, Any]:
    return {"component": pool, "at": at, "allocated_bytes": allocated, "reserved_bytes": reserved}


STEPS = [{"step": n, "ts_ns": n * 100_000, "dur_ns": 100_000, "source": "ProfilerStep"} for n in range(3)]


@pytest.fixture
def con() -> duckdb.DuckDBPyConnection:
    return _con({
        "step": STEPS,
        "memory_sample": [
            _sample(10, 100, 500), _sample(50, 300, 500), _sample(90, 110, 500), _sample(150, 400, 450),
            _sample(190, 120, 600), _sample(250, 200, 600), _sample(290, 130, 600), _sample(20, None, 0, "CAMERA"),
            _sample(20, None, 900, "APP"),
        ],
        "memory_event": [
            {"at": 40, "for": 30, "name": "aten::mm", "bytes": 64},
            {"at": 120, "for": 60, "name": "aten::mm", "bytes": 70},
            {"at": 130, "name": "aten::add", "bytes": 200}, {"at": 140, "for": 10, "name": "gone", "bytes": 5},
            {"ts_ns": None, "name": "before", "bytes": 40}, {"at": 160, "for": 5, "name": "later", "bytes": 9},
        ],
    })  # fmt: skip


def test_pools_that_stay_empty_are_left_out(con: duckdb.DuckDBPyConnection) -> None:
    assert [(pool.name, pool.allocated, pool.reserved) for pool in look.pools(con)] == [
        ("PTA", 400, 600), ("APP", None, 900),
    ]  # fmt: skip


def test_the_peak_and_what_is_unused(con: duckdb.DuckDBPyConnection) -> None:
    peak = look.peak(con, 0, "PTA")
    assert peak == look.Peak(150_000, 400, 450, 480, 190_000)
    assert look.peak(con, 0, "no such pool") is None


def test_alive_is_allocated_before_and_not_released(con: duckdb.DuckDBPyConnection) -> None:
    rows = look.holders(con, 0, 150_000)
    assert rows.values.tolist() == [["aten::add", 1, 200], ["aten::mm", 1, 70]]


def test_growth_is_the_level_at_the_end_of_each_step(con: duckdb.DuckDBPyConnection) -> None:
    rows = look.growth(con, 0, "PTA")
    assert rows["end_bytes"].tolist() == [110, 120, 130]
    assert rows["peak_bytes"].tolist() == [300, 400, 200]
    assert look.trend(rows) == look.Trend(110, 130, 2, 10.0)
    assert look.trend(rows.head(1)) is None


def test_the_largest_blocks_come_first(con: duckdb.DuckDBPyConnection) -> None:
    assert look.largest(con, 0, 2)["bytes"].tolist() == [200, 70]


def test_releases_on_their_own_make_a_curve_but_no_composition() -> None:
    con = _con({"memory_event": [
        {"at": 10, "bytes": 100, "device": "cuda:0"}, {"at": 20, "bytes": 50, "device": "cuda:0"},
        {"at": 30, "bytes": -100, "device": "cuda:0"}, {"at": 15, "bytes": 7000, "device": "cpu"},
    ]})  # fmt: skip
    (pool,) = look.pools(con)
    assert (pool.name, pool.relative, pool.allocated, pool.samples) == (look.EVENTS, True, 150, 3)
    assert look.curve(con, 0, look.EVENTS)["allocated_bytes"].tolist() == [100, 150, 50]
    assert look.holders(con, 0, 25_000).empty


def test_totals_beside_events_are_taken_as_they_are() -> None:
    con = _con({"memory_event": [
        {"at": 10, "for": 20, "bytes": 100, "allocated_bytes": 1100, "reserved_bytes": 2000,
         "release_allocated_bytes": 1000, "release_reserved_bytes": 2000},
    ]})  # fmt: skip
    (pool,) = look.pools(con)
    assert (pool.relative, pool.allocated, pool.reserved) == (False, 1100, 2000)
    assert look.curve(con, 0, look.EVENTS)["allocated_bytes"].tolist() == [1100, 1000]


def test_a_thinned_curve_keeps_every_extreme_and_what_stands_between_bursts() -> None:
    con = _con({})
    con.execute(
        "INSERT INTO memory_sample (rank, component, ts_ns, allocated_bytes, reserved_bytes) "
        "SELECT 0, 'PTA', burst * 1000000 + i, "
        "CASE WHEN i = 99 THEN 1000 ELSE 1000 + hash(burst * 100 + i) % 90000 END, 100000 "
        "FROM range(200) b(burst), range(100) t(i)"
    )
    every = con.execute("SELECT * FROM memory_sample ORDER BY ts_ns").df()
    rows = look.curve(con, 0, "PTA")
    assert len(rows) <= 1500
    assert rows["allocated_bytes"].max() == every["allocated_bytes"].max()
    assert rows["allocated_bytes"].min() == every["allocated_bytes"].min()
    width = (int(every["ts_ns"].max()) + 1) / 250
    assert len({int(at // width) for at in every["ts_ns"]}) == len({int(at // width) for at in rows["ts_ns"]})
    drawn = rows[rows["ts_ns"].diff(-1).abs() > 900_000]  # the last before a pause: what the line holds meanwhile
    assert len(drawn) > 100
    assert (drawn["allocated_bytes"] == 1000).all()


def test_nothing_recorded_is_no_pool() -> None:
    assert look.pools(_con({})) == ()


def test_a_real_peak_agrees_with_brute_force(shared_traces: Path, tmp_path: Path) -> None:
    run = ingest.load(shared_traces / TWO_RANKS, tmp_path).runs[0]
    folder = tmp_path / str(run.run_id)
    samples, events = (pd.read_parquet(folder / f"memory_{name}.parquet") for name in ("sample", "event"))
    con = runs.open_run(tmp_path, str(run.run_id))
    views.install(con)
    for rank in (0, 1):
        mine = samples[(samples["rank"] == rank) & (samples["component"] == "PTA")]
        peak = look.peak(con, rank, "PTA")
        assert peak is not None
        assert peak.allocated == mine["allocated_bytes"].max()
        assert peak.most_unused == (mine["reserved_bytes"] - mine["allocated_bytes"]).max()
        alive: dict[str, int] = {}
        for row in events[events["rank"] == rank].itertuples():
            released = pd.notna(row.dur_ns) and row.ts_ns + row.dur_ns <= peak.ts_ns
            if pd.notna(row.ts_ns) and row.ts_ns <= peak.ts_ns and not released and row.bytes > 0:
                alive[row.name] = alive.get(row.name, 0) + int(row.bytes)
        held = look.holders(con, rank, peak.ts_ns)
        assert dict(zip(held["name"], held["bytes"], strict=True)) == alive
    con.close()
