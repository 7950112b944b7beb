"""What the page of copies measures: by hand, and against the split and the view."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pytest

from npulens import ingest
from npulens.analysis import split, views
from npulens.analysis.look import copies as look
from npulens.ingest.store import runs
from tests.tablecase import connection

Con = duckdb.DuckDBPyConnection


def case(spans: list[dict[str, Any]], **more: Any) -> Con:
    con = connection({"spans": spans, **more})
    views.install(con)
    return con


def copy(number: int, at: float, length: float, **more: Any) -> dict[str, Any]:
    place = {name: more.pop(name) for name in ("rank", "track", "by", "name") if name in more}
    return {"id": number, "kind": "memcpy", "name": "copy", "at": at, "for": length, **place,
            "transfer": {"direction": "h2d", **more}}  # fmt: skip


def kernel(number: int, at: float, length: float, kind: str = "kernel", **more: Any) -> dict[str, Any]:
    return {"id": number, "kind": kind, "name": kind, "at": at, "for": length, "track": "s9", **more}


def test_what_is_exposed_is_what_neither_computes_nor_communicates_beside() -> None:
    con = case([
        copy(1, 0, 10, bytes=1000, blocking=True), copy(2, 5, 10, bytes=3000, blocking=False, track="s1"),
        kernel(3, 8, 4), kernel(4, 30, 10, "comm_op"), copy(5, 32, 4, direction="d2h", bytes=8),
    ])  # fmt: skip
    found = look.copies(con)
    down, up = found.ways
    assert (down.direction, down.count, down.busy_ns, down.exposed_ns) == ("d2h", 1, 4_000, 0)
    # 0-15 without 8-12.
    assert (up.direction, up.count, up.bytes, up.busy_ns, up.exposed_ns) == ("h2d", 2, 4000, 15_000, 11_000)
    assert up.bytes_per_s == pytest.approx(4000 / 15e-6) and up.best_bytes_per_s == pytest.approx(3000 / 10e-6)
    assert (up.blocking, down.blocking) == (1, None)
    assert found.worst[["span_id", "exposed_ns"]].values.tolist() == [[1, 8_000], [2, 6_000]]
    assert (found.count, found.exposed_count) == (3, 2)
    assert found.totals[0].exposed_ns == 11_000


def test_sizes_that_were_not_recorded_are_not_zero() -> None:
    found = look.copies(case([copy(1, 0, 10), copy(2, 20, 10, bytes=5), kernel(3, 50, 1)]))
    assert found.ways[0].bytes is None and found.ways[0].bytes_per_s is None
    assert found.ways[0].best_bytes_per_s == pytest.approx(5 / 10e-6)
    assert found.worst["bytes"].isna().tolist() == [True, False]


def test_a_direction_that_was_not_recorded_is_its_own() -> None:
    con = case([copy(1, 0, 10, direction=None, name="Memcpy (Pageable)"), kernel(2, 20, 1)])
    (way,) = look.copies(con).ways
    assert (way.direction, way.pageable) == ("", 1)


def test_without_kernels_exposure_is_not_known() -> None:
    found = look.copies(case([copy(1, 0, 10)], absent=["kernel"]))
    assert found.ways[0].exposed_ns is None
    assert found.totals[0].exposed_ns is None


def test_the_link_is_a_fact_of_the_device() -> None:
    con = case([copy(1, 0, 10, bytes=160_000), copy(2, 20, 10, direction="d2d"), kernel(3, 50, 1)],
               rank={0: {"backend": "cuda", "device_name": "NVIDIA A100-SXM4-80GB"}})  # fmt: skip
    inner, up = look.copies(con).ways
    assert (up.link, up.link_bytes_per_s) == ("pcie", 32e9)
    assert (inner.link, inner.link_bytes_per_s) == ("memory", 2.039e12)
    assert look.copies(case([copy(1, 0, 10)])).ways[0].link is None


def test_a_cloud_of_many_is_put_into_cells_and_loses_nothing() -> None:
    dice = random.Random(1)
    few = [copy(n, 10 * n, dice.randint(1, 9), bytes=dice.randint(1, 10**6)) for n in range(1, 30)]
    cloud = look.cloud(case([*few, copy(99, 900, 5)]))
    assert (cloud.cells, cloud.count, cloud.without) == (False, 29, 1)
    con = case(few)
    con.execute(
        "INSERT INTO span SELECT 1000 + i, 0, 0, 'memcpy', 'c', 1000 * i, 1 + i % 900, NULL, NULL, 0 "
        "FROM range(3000) r(i)"
    )
    con.execute("INSERT INTO transfer SELECT 1000 + i, 0, 'd2h', 1 + i * i, NULL, NULL FROM range(3000) r(i)")
    many = look.cloud(con)
    assert many.cells and many.count == 3029 == int(many.points["count"].sum())
    assert len(many.points) < 500
    assert int(many.points["dur_ns"].sum()) == con.execute("SELECT sum(dur_ns) FROM span").fetchall()[0][0]


@pytest.mark.shared
@pytest.mark.parametrize("level", ["text/level2", "db/level0"])
def test_on_real_captures_it_agrees_with_the_split_and_the_view(
    level: str, shared_traces: Path, store_dir: Path
) -> None:
    ingest.load(shared_traces / "Ascend+msinsight/test/data/pytorch" / level, store_dir)
    con = runs.open_run(store_dir, runs.runs(store_dir)[0].run_id)
    views.install(con)
    found = look.copies(con)
    rows = {row.rank: row for row in split.breakdown(con) if row.step is None}
    for total in found.totals:
        assert (total.copy_ns, total.exposed_ns) == (rows[total.rank].copy_ns, rows[total.rank].copy_not_overlapped_ns)
    groups = look.groups(con)
    assert int(groups["count"].sum()) == found.count == 48
    # No two copies of these captures run at once, so their unions add up.
    assert int(found.worst["exposed_ns"].sum()) == sum(total.exposed_ns or 0 for total in found.totals)
    assert int(groups["exposed_ns"].sum()) == sum(one.exposed_ns or 0 for one in found.ways)
    con.close()
