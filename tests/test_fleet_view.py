"""The fleet view: what was planted into made fleets is named, and a simulated job's waits are those of its spans."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from npulens import ingest
from npulens.analysis.fleet.fleet import fleet
from npulens.analysis.fleet.summary import CELLS, SUMMARY
from npulens.app.cli import main
from npulens.app.run_fleet import fleet_of
from npulens.ingest.store import kept
from tests.fleet import made
from tests.fleet.made import Planted

PLANTED = Planted(late=83, late_ns=5_000_000, host=3, host_ns=2_000_000, link=(40, 41), slower=2.0)
RANKS, STEPS, TP, DP = 160, 2, 6, 5


@pytest.fixture(scope="module")
def found() -> dict[str, pd.DataFrame]:
    return made.tables(RANKS, STEPS, TP, DP, PLANTED)


def test_a_late_rank_is_named_with_how_much_later_it_came(found: dict[str, pd.DataFrame]) -> None:
    told = fleet(made.opened(found))
    assert (told.ranks, told.hosts, told.steps, told.matched_share) == (RANKS, RANKS // made.HOST, STEPS, 1.0)
    first = told.waited_for[0]
    assert (first.rank, first.host, first.last_times) == (83, "node0010", DP * STEPS)
    # Its group's others come at 0, but for the one on host 3, which comes 2 ms late: 3 ms before it.
    assert abs(first.waited_for_ns - DP * 3_000_000) <= DP * made.SCATTER_NS
    # 18 of its 20 members wait 5 ms each time, and the one of host 3 waits 3 ms.
    assert abs(first.lost_ns - DP * (18 * 5_000_000 + 3_000_000)) <= DP * 20 * made.SCATTER_NS
    assert first.computing_more_ns == 5_000_000 and first.idle_more_ns == 0
    waits = {row.rank: row.waits_ns for row in fleet(made.opened(found), top=RANKS).waiting}
    assert abs(waits[3] - DP * 5_000_000) <= DP * made.SCATTER_NS, "of the late rank's group"
    assert abs(waits[4] - DP * 2_000_000) <= DP * made.SCATTER_NS, "of a group that waits for host 3 only"
    assert 24 not in waits or waits[24] == 0, "a rank of host 3 whose group waits for it"


def test_a_host_whose_ranks_are_late_together_is_named(found: dict[str, pd.DataFrame]) -> None:
    told = fleet(made.opened(found))
    by_host = {row.host: row for row in told.by_host}
    assert by_host["node0010"].waited_for_ns and abs(by_host["node0010"].waited_for_ns - DP * 3_000_000) < 50_000
    assert by_host["node0003"].waited_for_ns and abs(by_host["node0003"].waited_for_ns - DP * 2_000_000) < 50_000
    assert by_host["node0003"].ranks == 8
    assert all(not row.waited_for_ns for name, row in by_host.items() if name not in ("node0003", "node0010"))


def test_a_group_says_for_whom_it_waits_and_a_slow_link_is_named(found: dict[str, pd.DataFrame]) -> None:
    told = fleet(made.opened(found), top=30)
    group = {row.group: row for row in told.by_group}
    assert (group["dp3"].last, group["dp3"].kind, group["dp3"].captured, group["dp3"].size) == (83, "dp", 20, 20)
    assert (group["dp1"].last, group["dp1"].collectives) == (25, DP)
    assert group["tp0"].last is None and group["tp0"].waits_ns == 0
    assert told.groups_in_part == 0
    link = told.links[0]
    assert (link.rank, link.peer, link.slow, link.host) == (40, 41, True, "node0005")
    assert abs(link.times - 2) < 0.1 and abs(link.usual_bytes_per_s - 25e9) < 1e9
    assert told.links_slow == 1 and told.links_compared == RANKS * 8


def test_ranks_whose_sequence_differs_are_left_out_and_said(found: dict[str, pd.DataFrame]) -> None:
    teams = found["fleet_team"].copy()
    odd = (teams["rank"] == 83) & (teams["team"] == "dp3")
    teams.loc[odd, "sequence"] = np.uint64(8)
    told = fleet(made.opened(found | {"fleet_team": teams}))
    assert told.matched_share is not None and told.matched_share < 1
    assert all(row.rank != 83 for row in told.waited_for)


def test_a_group_of_one_name_is_two_where_its_members_differ() -> None:
    small = made.tables(16, 1, 2, 2, Planted(3, 5_000_000, 9, 0, (0, 1), 1.0))
    teams = small["fleet_team"]
    teams["team"] = teams["kind"]  # numbered anew on every host
    told = fleet(made.opened(small), top=20)
    assert sorted(row.group for row in told.by_group) == ["dp"] * 8 + ["tp"] * 2
    assert [row.rank for row in told.waited_for] == [3]


def test_nothing_recorded_is_not_nothing_waited() -> None:
    small = made.tables(16, 1, 2, 2, Planted(3, 5_000_000, 9, 0, (0, 1), 1.0))
    told = fleet(made.opened({name: frame if name == "fleet_rank" else frame[:0] for name, frame in small.items()}))
    assert (told.ranks, told.matched_share, told.waiting, told.by_group, told.links) == (16, None, (), (), ())
    alone = small["fleet_team"][small["fleet_team"]["rank"] == 0]
    assert fleet(made.opened(small | {"fleet_team": alone})).matched_share == 0


def waits_by_hand(con: duckdb.DuckDBPyConnection) -> dict[int, int]:
    """Per rank what its collectives are longer than the shortest of their place in the group and step, as a union."""
    rows = con.execute(
        "SELECT s.rank, c.group_name, s.step, s.ts_ns, s.dur_ns FROM span s JOIN comm c USING (span_id) "
        "WHERE s.kind = 'comm_op' AND s.step IS NOT NULL ORDER BY s.rank, s.ts_ns"
    ).fetchall()
    places: dict[tuple[str, int, int], list[tuple[int, int, int]]] = defaultdict(list)
    seen: dict[tuple[int, str, int], int] = defaultdict(int)
    for rank, group, step, ts, dur in rows:
        place = seen[rank, group, step]
        seen[rank, group, step] += 1
        places[group, step, place].append((rank, ts, dur))
    waited: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for several in places.values():
        least = min(dur for _, _, dur in several)
        for rank, ts, dur in several:
            if dur - least > 12_000:
                waited[rank].append((ts, ts + dur - least))
    total: dict[int, int] = {}
    for rank, spans in waited.items():
        reach = covered = 0
        for begin, end in sorted(spans):
            covered += max(0, end - max(begin, reach))
            reach = max(reach, end)
        total[rank] = covered
    return total


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A job of eight ranks of which number 3 has more to do, in a store."""
    folder = tmp_path_factory.mktemp("fleet")
    asked = [
        "simulate",
        "imbalance",
        "--seed",
        "4",
        "--ranks",
        "8",
        "--missing-ranks",
        "0",
        "--steps",
        "2",
        "--format",
        "db",
    ]
    assert CliRunner().invoke(main, [*asked, "-o", str(folder / "job")]).exit_code == 0
    report = ingest.load(folder / "job" / "capture", folder / "store", label="job")
    return folder / "store", str(report.runs[0].run_id)


def test_a_simulated_job_waits_as_its_spans_say(simulated: tuple[Path, str]) -> None:
    store, run_id = simulated
    told = fleet_of(store, run_id, 10)
    truth = json.loads((store.parent / "job" / "truth.json").read_text())
    assert told.waited_for[0].rank == truth["faults"][0]["rank"] == 3
    assert (told.waited_for[0].computing_more_ns or 0) > 10_000_000
    with duckdb.connect() as con:
        for table in ("span", "comm"):
            con.execute(f"CREATE VIEW {table} AS FROM '{store / run_id / table}.parquet'")
        by_hand = waits_by_hand(con)
    assert {row.rank: row.waits_ns for row in told.waiting if row.waits_ns} == {
        rank: round(total / told.steps) for rank, total in by_hand.items()
    }


def test_a_summary_is_computed_once_and_the_run_is_not_asked_again(simulated: tuple[Path, str], tmp_path: Path) -> None:
    store, run_id = simulated
    first = fleet_of(store, run_id, 10)
    moved = store / run_id / "span.parquet"
    aside = moved.rename(tmp_path / "span.parquet")
    try:
        assert fleet_of(store, run_id, 10) == first
    finally:
        aside.rename(moved)


def test_a_summary_has_at_most_3_kb_a_rank_and_step(tmp_path: Path) -> None:
    """A thousand collectives of eight groups in each step, of lengths that do not repeat."""
    draw = np.random.default_rng(3)
    con = duckdb.connect()
    steps, ranks, many = 2, 4, 1_000
    rows = [
        (rank, f"group{i % 8}", step, step * 10**10 + int(at), int(draw.integers(10**5, 10**8)))
        for rank in range(ranks)
        for step in range(steps)
        for i, at in enumerate(np.sort(draw.integers(0, 10**10, many)))
    ]
    frame = pd.DataFrame(rows, columns=["rank", "team", "step", "ts_ns", "dur_ns"]).assign(
        span_id=range(len(rows)), collective="allreduce", bytes=1 << 20
    )
    con.register("operator", frame)
    con.execute("CREATE TABLE parallel_group (group_name VARCHAR, rank INTEGER, kind VARCHAR, ranks INTEGER[])")
    text = SUMMARY["fleet_team"]
    begin = text.index("FROM (") + len("FROM (")
    text = text[:begin] + "FROM operator" + text[text.index(") o WHERE") :]
    con.execute(f"COPY ({text}) TO '{tmp_path / 'team.parquet'}' (FORMAT parquet, COMPRESSION lz4_raw)")
    assert (tmp_path / "team.parquet").stat().st_size <= 3_000 * ranks * steps
    sums = con.execute(f"SELECT rank, sum(list_sum(durs)), max(len(durs)) FROM ({text}) GROUP BY rank").fetchall()
    assert {row[0]: row[1] for row in sums} == frame.groupby("rank")["dur_ns"].sum().to_dict(), "nothing is lost"
    assert {row[2] for row in sums} == {CELLS // 8}


def test_the_command_says_it_in_both_languages(simulated: tuple[Path, str]) -> None:
    store, _ = simulated
    said = {}
    for lang in ("en", "zh"):
        done = CliRunner().invoke(main, ["fleet", "job", "--store", str(store), "--lang", lang])
        assert done.exit_code == 0, done.output
        said[lang] = done.output
    assert "Waited for" in said["en"] and "被等待的 rank" in said["zh"]
    assert not any(ord(char) > 0x2E7F for char in said["en"])
    done = CliRunner().invoke(main, ["fleet", "job", "--store", str(store), "--json", "--top", "3"])
    told: dict[str, Any] = json.loads(done.output)
    assert told["run_id"] == simulated[1] and told["waited_for"][0]["rank"] == 3 and len(told["waiting"]) == 3
    assert CliRunner().invoke(main, ["fleet", "nobody", "--store", str(store)]).exit_code == 2


def test_answers_that_are_opened_alone_can_be_asked(simulated: tuple[Path, str]) -> None:
    store, run_id = simulated
    fleet_of(store, run_id, 1)
    there = {path.name.split(".")[1]: path for path in (store / kept.FOLDER).glob(f"{run_id}.fleet_*.parquet")}
    assert set(there) == set(SUMMARY)
    with kept.opened(there) as con:
        assert con.execute("SELECT count(DISTINCT rank) FROM fleet_rank").fetchall() == [(8,)]
