"""Communication in numbers: worked out by hand on a small run, and by brute force on a real capture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
import tablecase

from npulens import ingest
from npulens.analysis import views
from npulens.analysis.look import communication as look
from npulens.ingest.store import runs

TWO_RANKS = "Ascend+msinsight/test/data/pytorch/text/level1"


def _op(span: int, rank: int, at: int, length: int, size: int) -> dict[str, Any]:
    return {
        "id": span, "rank": rank, "kind": "comm_op", "name": f"hcom_{span}", "at": at, "for": length, "track": "g",
        "comm": {"op_span_id": span, "collective": "allReduce", "group_name": "g", "bytes": size},
    }  # fmt: skip


def _task(span: int, rank: int, op: int, at: int, length: int, kind: str, peer: int, size: int = 0) -> dict[str, Any]:
    return {
        "id": span, "rank": rank, "kind": "comm_task", "name": kind, "at": at, "for": length, "track": "p0",
        "comm": {"op_span_id": op, "group_name": "g", "plane": 0, "task_type": kind, "src_rank": rank, "dst_rank": peer,
                 "src_local": rank, "dst_local": peer, "bytes": size, "transport": "SDMA"},
    }  # fmt: skip


#: Rank 0 computes 0-40 and 60-70 us, communicates 30-100: exposed 40-60 and 70-100. It waits for rank 1 from 30 to 70
#: and moves 1000 bytes from 70 to 90 and again, beside that, from 80 to 95: a union of 25 us. Rank 1 comes at 70.
CASE: Mapping[str, Any] = {
    "spans": [
        {"id": 1, "kind": "step_mark", "name": "ProfilerStep#1", "at": 0, "for": 100},
        {"id": 2, "kind": "kernel", "name": "a", "at": 0, "for": 40, "kernel": {"op_type": "a"}},
        {"id": 3, "kind": "kernel", "name": "b", "at": 60, "for": 10, "kernel": {"op_type": "b"}},
        _op(10, 0, 30, 70, 4000),
        _task(11, 0, 10, 30, 40, "Notify_Wait", 1),
        _task(12, 0, 10, 70, 20, "Memcpy", 1, 1000),
        _task(13, 0, 10, 80, 15, "Memcpy", 1, 1000),
        {"id": 21, "rank": 1, "kind": "step_mark", "name": "ProfilerStep#1", "at": 0, "for": 100},
        {"id": 22, "rank": 1, "kind": "kernel", "name": "a", "at": 0, "for": 70, "kernel": {"op_type": "a"}},
        _op(30, 1, 70, 30, 4000),
        _task(31, 1, 30, 70, 20, "Memcpy", 0, 1000),
    ],
    "tables": {
        "parallel_group": [{"group_name": "g", "rank": 0, "kind": "dp", "ranks": [0, 1, 2], "source": "metadata"}],
        "comm_link": [
            {"rank": 0, "scope": "collective", "collective": f"allreduce-{part}", "src_rank": 0, "dst_rank": 1,
             "transport": "HCCS", "bytes": 2000, "transit_ns": 25_000, "bandwidth_bytes_per_s": 8e7}
            for part in ("top1", "middle", "bottom2", "total")
        ],
    },
}  # fmt: skip


@pytest.fixture
def con() -> duckdb.DuckDBPyConnection:
    made = tablecase.connection(CASE)
    views.install(made)
    return made


def test_the_summary_is_a_mean_over_ranks(con: duckdb.DuckDBPyConnection) -> None:
    told = look.summary(con)
    assert told is not None
    assert (told.ranks, told.operators, told.whole_ns) == (2, 2, 100_000)
    assert told.busy_ns == (70_000 + 30_000) // 2
    assert told.exposed_ns == (20_000 + 30_000 + 30_000) // 2
    assert told.only_waiting_ns == 20_000 // 2  # rank 0 waits 40 to 60 with nothing computing; 60 to 70 computes


def test_a_kind_is_cut_into_unions(con: duckdb.DuckDBPyConnection) -> None:
    (kind,) = look.kinds(con)
    assert (kind.collective, kind.group, kind.ranks, kind.operators) == ("allreduce", "g", 2, 2)
    assert kind.bytes == 4000
    assert kind.busy_ns == 50_000
    assert kind.exposed_ns == 40_000
    assert kind.transfer_ns == (25_000 + 20_000) // 2
    assert kind.only_waiting_ns == 40_000 // 2
    assert kind.longest_ns == 70_000


def test_groups_name_members_and_what_of_them_is_here(con: duckdb.DuckDBPyConnection) -> None:
    (group,) = look.groups(con)
    assert (group.kind, group.members, group.captured) == ("dp", (0, 1, 2), (0, 1))


def test_links_from_tasks_use_the_union_of_time(con: duckdb.DuckDBPyConnection) -> None:
    rows = look.links(con, "tasks").set_index(["src", "dst"])
    assert rows.loc[(0, 1), "bytes"] == 2000
    assert rows.loc[(0, 1), "transit_ns"] == 25_000
    assert rows.loc[(0, 1), "bytes_per_s"] == pytest.approx(2000 / 25e-6)
    assert rows.loc[(1, 0), "transit_ns"] == 20_000


def test_the_profilers_matrix_counts_every_transfer_once(con: duckdb.DuckDBPyConnection) -> None:
    (row,) = look.links(con, "summary").to_dict("records")
    assert (row["src"], row["dst"], row["bytes"], row["transit_ns"]) == (0, 1, 2000, 25_000)


def test_the_last_to_come_is_named_with_its_moments(con: duckdb.DuckDBPyConnection) -> None:
    peer = look.peers(con)[0]
    assert (peer.rank, peer.captured, peer.waiting, peer.wait_ns) == (1, True, (0,), 40_000)
    assert (peer.moments[0].rank, peer.moments[0].ts_ns, peer.moments[0].dur_ns) == (0, 30_000, 40_000)
    (row,) = look.peer_waits(con).to_dict("records")
    assert (row["rank"], row["peer"], row["wait_ns"], row["captured"]) == (0, 1, 40_000, True)


def test_many_ranks_are_drawn_in_blocks() -> None:
    rows = pd.DataFrame(
        [{"src": src, "dst": dst, "transport": "SDMA", "bytes": 10, "transit_ns": 5, "bytes_per_s": 2e9}
         for src in range(100) for dst in range(100)]
    )  # fmt: skip
    blocks, each = look.in_blocks(rows, 32)
    assert each == 4
    assert len(blocks) == 25 * 25
    assert blocks["bytes"].sum() == rows["bytes"].sum()
    assert blocks["bytes_per_s"].unique().tolist() == [2e9]


def test_a_run_without_communication_has_no_summary() -> None:
    made = tablecase.connection({"spans": [{"id": 1, "kind": "kernel", "name": "a", "at": 0, "for": 5}]})
    views.install(made)
    assert look.summary(made) is None
    assert look.kinds(made) == ()
    assert look.links(made, "tasks").empty


def test_a_real_capture_agrees_with_brute_force(shared_traces: Path, tmp_path: Path) -> None:
    run = ingest.load(shared_traces / TWO_RANKS, tmp_path).runs[0]
    folder = tmp_path / str(run.run_id)
    comm, span = (pd.read_parquet(folder / f"{name}.parquet") for name in ("comm", "span"))
    tasks = span[span["kind"] == "comm_task"].merge(comm.drop(columns="rank"), on="span_id")
    moves = tasks[~tasks["task_type"].str.contains("wait|record|value|notify", case=False)]
    moves = moves[moves["src_rank"].notna() & moves["dst_rank"].notna()]
    con = runs.open_run(tmp_path, str(run.run_id))
    views.install(con)
    rows = look.links(con, "tasks")
    assert rows["bytes"].sum() == moves["bytes"].sum()
    for row in rows.itertuples():
        mine = moves[(moves["src_rank"] == row.src) & (moves["dst_rank"] == row.dst)]
        covered: set[int] = set()
        for begin, length in zip(mine["ts_ns"] // 20, mine["dur_ns"] // 20, strict=True):
            covered.update(range(int(begin), int(begin + length)))
        assert row.transit_ns == pytest.approx(20 * len(covered), abs=40 * (len(mine) + 1))
    told = look.summary(con)
    assert told is not None
    assert told.operators == int((span["kind"] == "comm_op").sum())
    con.close()
