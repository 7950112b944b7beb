"""Counters in numbers: worked out by hand, thinned without losing an extreme, and by brute force on a real capture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
import tablecase

from npulens import ingest
from npulens.analysis import views
from npulens.analysis.look import counters as look
from npulens.app.pages.counters import charts as chart
from npulens.ingest.store import runs

TWO_RANKS = "Ascend+msinsight/test/data/pytorch/text/level2"


def _con(samples: list[dict[str, Any]]) -> duckdb.DuckDBPyConnection:
    made = tablecase.connection({
        "spans": [{"id": 1, "kind": "kernel", "name": "k", "at": 0, "for": 50, "kernel": {"op_type": "k"}}],
        "tables": {"sample": samples},
    })  # fmt: skip
    views.install(made)
    return made


def _sample(counter: str, at: float, value: float, series: str = "MB/s") -> dict[str, Any]:
    return {"counter": counter, "series": series, "at": at, "value": value}


def test_the_mean_weighs_a_sample_by_the_time_until_the_next() -> None:
    con = _con([_sample("HBM 0/Read", 0, 10), _sample("HBM 0/Read", 90, 100), _sample("HBM 0/Read", 100, 7)])
    (row,) = look.series(con).to_dict("records")
    assert (row["low"], row["high"], row["samples"]) == (7, 100, 3)
    assert row["mean"] == pytest.approx((10 * 90 + 100 * 10) / 100)


def test_one_sample_is_its_own_mean() -> None:
    (row,) = look.series(_con([_sample("AI Core Freq", 5, 1800, "MHz")])).to_dict("records")
    assert (row["mean"], row["low"], row["high"]) == (1800, 1800, 1800)


def test_counters_that_differ_in_numbers_are_one_family() -> None:
    con = _con([_sample("HBM 0/Read", 0, 1), _sample("HBM 13/Read", 0, 1), _sample("HBM 0/Write", 0, 1)])
    assert sorted(look.series(con)["family"]) == ["HBM #/Read", "HBM #/Read", "HBM #/Write"]


def test_only_the_asked_series_between_two_moments_are_drawn() -> None:
    con = _con([_sample("a", at, at) for at in range(10)] + [_sample("b", 3, 1), _sample("a", 3, 9, "other")])
    rows = look.points(con, 0, (("a", "MB/s"),), 2_000, 5_000)
    assert rows["value"].tolist() == [2, 3, 4, 5]
    assert set(rows["series"]) == {"MB/s"}


def test_a_thinned_curve_keeps_every_extreme() -> None:
    con = _con([])
    con.execute("INSERT INTO sample SELECT 0, 'c', 's', i * 10, hash(i) % 100000 FROM range(50000) t(i)")
    every = con.execute("SELECT ts_ns, value FROM sample ORDER BY ts_ns").df()
    rows = look.points(con, 0, (("c", "s"),), 0, 500_000)
    assert len(rows) <= 1500
    assert (rows["value"].max(), rows["value"].min()) == (every["value"].max(), every["value"].min())
    width = 500_001 / 375
    slices = every.groupby((every["ts_ns"] // width).astype(int))["value"].agg(["min", "max"])
    drawn = rows.groupby((rows["ts_ns"] // width).astype(int))["value"].agg(["min", "max"])
    assert (slices == drawn).to_numpy().mean() > 0.99  # floats put a sample at an edge on the other side


def test_a_clock_is_told_only_where_it_was_sampled() -> None:
    assert look.clocks(_con([_sample("HBM", 0, 1)])) == ()
    (told,) = look.clocks(_con([_sample("AI Core Freq", 0, 1800, "MHz")]))
    assert (told.rank, told.kernels, told.lost_ns) == (0, 0, 0)


def test_the_work_behind_is_the_share_of_each_slice() -> None:
    busy = look.busy(_con([_sample("c", 0, 1)]), 0, 0, 100_000)
    assert sum(busy.computing) / len(busy.computing) == pytest.approx(0.5, abs=0.01)


def test_panels_draw_each_line_with_its_own_hue_and_dash() -> None:
    rows = pd.DataFrame({"counter": ["<b>x", "y"], "series": ["s", "s"], "ts_ns": [0, 5], "value": [1.0, 2.0]})
    panel = chart.Panel("<script>t", (("<b>x", "s"), ("y", "s")))
    picture = chart.figure([panel], rows, None, (0, 10), lambda key, _: key, "#000000")
    assert len(picture.data) == 2
    assert picture.data[0].line.color != picture.data[1].line.color
    assert picture.data[0].line.dash != picture.data[1].line.dash
    assert "<script" not in picture.to_json() and "<b>x" not in picture.to_json()


def test_a_real_capture_agrees_with_brute_force(shared_traces: Path, tmp_path: Path) -> None:
    run = ingest.load(shared_traces / TWO_RANKS, tmp_path).runs[0]
    samples = pd.read_parquet(tmp_path / str(run.run_id) / "sample.parquet")
    con = runs.open_run(tmp_path, str(run.run_id))
    views.install(con)
    rows = look.series(con).set_index(["rank", "counter", "series"])
    groups = samples.groupby(["rank", "counter", "series"])
    assert len(rows) == groups.ngroups
    for name, some in groups:
        row = rows.loc[name]
        assert (row["low"], row["high"], row["samples"]) == (some["value"].min(), some["value"].max(), len(some))
        ordered = some.sort_values("ts_ns", kind="stable")
        held = ordered["ts_ns"].diff().shift(-1)
        total = held.sum()
        if ordered["ts_ns"].is_unique and total > 0:
            mean = (ordered["value"] * held).sum() / total
            assert row["mean"] == pytest.approx(mean, rel=1e-9, abs=1e-12)
    con.close()
