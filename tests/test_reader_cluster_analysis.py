"""Cluster sums of msprof-analyze: made files, each worked out by hand, and a real analysis.db read with sqlite3."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import duckdb
import pytest

from npulens import ingest
from npulens.analysis import views
from npulens.analysis.look import rank_sums, ranks
from npulens.analysis.split import breakdown
from npulens.ingest.loading import capture
from npulens.ingest.readers.cluster import read_cluster_analysis
from npulens.ingest.store import runs

HEAD = (
    "Step,Type,Index,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble,"
    "Communication(Not Overlapped and Exclude Receive),Preparing\n"
)
STEPS = HEAD + (
    "50,rank,0,8903.431,98071.947,4036.153,102108.1,25258.144,132233.522,0,98071.947,18055.693\n"
    "50,rank,3,8873.7565,101963.203,4028.675,105991.878,25744.05,136581.0,0,101963.203,17902.5\n"
    '50,stage,"(0, 3)",8888.6,100017.6,4032.4,104050,25501.1,134407.3,0,100017.6,17979.1\n'
)
TEXT = "Ascend+msinsight/test/data/pytorch/text/level1/rank0_ascend_pt"
REAL = "Ascend+msinsight/test/data/pytorch/db/level1/rank0_ascend_pt/ASCEND_PROFILER_OUTPUT/analysis.db"
OPERATOR, PAIR = "hcom_allReduce__586_0_1@17", "allreduce-top1@17"


def write(directory: Path, **texts: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    endings = {"cluster_step_trace_time": "csv"}
    for name, text in texts.items():
        (directory / f"{name}.{endings.get(name, 'json')}").write_text(text)
    return directory


def output(directory: Path) -> Path:
    """An analysis of ranks 0 and 3."""
    times = {"Elapse Time(ms)": 88.750993, "Wait Time(ms)": 3.5}
    operators = {OPERATOR: {"0": {"Communication Time Info": times}, "3": {"Communication Time Info": {}}},
                 "Total Op Info": {"3": {"Communication Time Info": {"Elapse Time(ms)": 2}}}}  # fmt: skip
    pair = {"Transport Type": "HCCS", "Transit Size(MB)": 37.781504, "Transit Time(ms)": 2.234105,
            "Bandwidth(GB/s)": 16.9113, "Op Name": OPERATOR}  # fmt: skip
    return write(
        directory,
        cluster_step_trace_time=STEPS,
        cluster_communication=json.dumps({"(0, 3)": {"step50": operators}}),
        cluster_communication_matrix=json.dumps({"(0, 3)": {"step50": {PAIR: {"0-3": pair, "3-0": pair}}}}),
        communication_group=json.dumps({"p2p": [], "collective": [[0, 3]]}),
    )


@pytest.fixture
def loaded(tmp_path: Path) -> tuple[ingest.LoadedRun, duckdb.DuckDBPyConnection]:
    (run,) = ingest.load(output(tmp_path / "cluster_analysis_output"), tmp_path / "store").runs
    assert run.run_id, run.reason
    return run, runs.open_run(tmp_path / "store", run.run_id)


def test_one_analysis_is_a_partial_run_of_every_rank_it_names(
    loaded: tuple[ingest.LoadedRun, duckdb.DuckDBPyConnection],
) -> None:
    run, con = loaded
    assert (run.ranks, run.status, run.formats) == ((0, 3), "partial", ("cluster_analysis",))
    assert "load the rank directories" in str(run.reason)
    assert con.execute("SELECT DISTINCT first_ns, last_ns FROM rank").fetchall() == [(None, None)]
    covered = {(row["rank"], row["table"]): row for row in run.coverage}
    assert covered[0, "span"]["status"] == "absent" and covered[0, "span"]["collect_with"]
    assert covered[0, "profiler_step"]["dropped"] == 1, "the row of the stage is counted once"
    assert covered[3, "profiler_step"]["dropped"] == 0
    assert "taken as us" in covered[3, "profiler_step"]["reason"]


def test_times_are_microseconds_to_the_nanosecond(
    loaded: tuple[ingest.LoadedRun, duckdb.DuckDBPyConnection],
) -> None:
    found = loaded[1].execute(
        "SELECT rank, step, computing_ns, communication_not_overlapped_ns, free_ns, stage_ns, bubble_ns, preparing_ns, "
        "source FROM profiler_step ORDER BY rank"
    )
    name = "cluster_step_trace_time.csv"
    assert found.fetchall() == [
        (0, 50, 8_903_431, 98_071_947, 25_258_144, 132_233_522, 0, 18_055_693, name),
        (3, 50, 8_873_756, 101_963_203, 25_744_050, 136_581_000, 0, 17_902_500, name),  # 8873.7565 us: half to even
    ]


def test_breakdown_shows_the_profilers_split_and_nothing_of_ours(
    loaded: tuple[ingest.LoadedRun, duckdb.DuckDBPyConnection],
) -> None:
    rows = breakdown(loaded[1])
    assert [(row.rank, row.step, row.dur_ns, row.computing_ns, row.idle_ns) for row in rows] == [
        (0, None, None, None, None), (0, 50, None, None, None), (3, None, None, None, None), (3, 50, None, None, None)
    ]  # fmt: skip
    told = rows[1].profiler
    assert told is not None and rows[0].profiler is None
    assert (told.computing_ns, told.communication_ns, told.overlapped_ns, told.free_ns, told.free_definition) == (
        8_903_431, 102_108_100, 4_036_153, 25_258_144, None)  # fmt: skip


def test_the_ranks_page_has_a_step_as_long_as_its_parts(
    loaded: tuple[ingest.LoadedRun, duckdb.DuckDBPyConnection],
) -> None:
    con = loaded[1]
    views.install(con)
    assert rank_sums.only(con)
    grids = ranks.compared(con).grids
    assert set(grids) == {"dur", "computing", "exposed", "idle"}
    assert grids["dur"].ns.tolist() == [[8_903_431 + 98_071_947 + 25_258_144], [8_873_756 + 101_963_203 + 25_744_050]]


def test_communication_groups_and_pairs_go_to_their_rank(
    loaded: tuple[ingest.LoadedRun, duckdb.DuckDBPyConnection],
) -> None:
    con = loaded[1]
    assert con.execute("SELECT rank, name, category, count, total_ns FROM summary ORDER BY ALL").fetchall() == [
        (0, OPERATOR, "(0, 3)", 1, 88_750_993), (3, "Total Op Info", "(0, 3)", None, 2_000_000),
        (3, OPERATOR, "(0, 3)", 1, None),
    ]  # fmt: skip
    links = con.execute(
        "SELECT rank, src_rank, dst_rank, collective, bytes, transit_ns, bandwidth_bytes_per_s, group_name, step "
        "FROM comm_link ORDER BY rank"
    ).fetchall()
    assert links == [(rank, rank, 3 - rank, "allreduce-top1", 37_781_504, 2_234_105, 16_911_300_000.0, "(0, 3)",
                      "step50") for rank in (0, 3)]  # fmt: skip
    assert con.execute("SELECT rank, ranks, kind FROM parallel_group ORDER BY 1").fetchall() == [
        (0, [0, 3], None), (3, [0, 3], None)]  # fmt: skip


def test_a_database_says_the_same(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "cluster_analysis.db") as con:
        con.execute(
            'CREATE TABLE ClusterStepTraceTime (step, type, "index", computing, communication_not_overlapped, '
            "overlapped, communication, free, stage, bubble, preparing)"
        )
        con.executemany(
            "INSERT INTO ClusterStepTraceTime VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [("5", kind, index, 1.5, 2, 0, 2, 3.25, 6.75, 0, 0) for kind, index in (
                ("rank", "0"), ("rank", "8"), ("stage", "(0, 8)"))],
        )  # fmt: skip
    (run,) = ingest.load(tmp_path / "cluster_analysis.db", tmp_path / "store").runs
    assert run.ranks == (0, 8)
    found = runs.open_run(tmp_path / "store", str(run.run_id)).execute(
        "SELECT rank, step, computing_ns, free_ns, source FROM profiler_step ORDER BY rank"
    )
    assert found.fetchall() == [(rank, 5, 1500, 3250, "ClusterStepTraceTime") for rank in (0, 8)]


def test_a_real_analysis_alone(shared_traces: Path, tmp_path: Path) -> None:
    (tmp_path / "alone").mkdir()
    shutil.copy(shared_traces / REAL, tmp_path / "alone")
    (run,) = ingest.load(tmp_path / "alone", tmp_path / "store").runs
    con = runs.open_run(tmp_path / "store", str(run.run_id))
    with sqlite3.connect(f"file:{tmp_path / 'alone' / 'analysis.db'}?mode=ro", uri=True) as real:
        (computing, free) = real.execute("SELECT computing, free FROM StepTraceTime").fetchone()
        (operators,) = real.execute("SELECT count(*) FROM CommAnalyzerTime").fetchone()
        (pairs,) = real.execute("SELECT count(*) FROM CommAnalyzerMatrix").fetchone()
    assert (round(computing * 1000), round(free * 1000)) == (8_903_431, 25_258_144)
    found = con.execute("SELECT step, computing_ns, free_ns FROM profiler_step").fetchall()
    assert found == [(50, 8_903_431, 25_258_144)]
    counts = "SELECT (SELECT count(*) FROM summary), (SELECT count(*) FROM comm_link)"
    assert con.execute(counts).fetchall() == [(operators, pairs)]


def test_beside_rank_directories_it_is_passed_over_with_a_reason(shared_traces: Path, tmp_path: Path) -> None:
    shutil.copytree(shared_traces / TEXT, tmp_path / "job" / "rank0_ascend_pt")
    output(tmp_path / "job" / "cluster_analysis_output")
    found = capture.find([tmp_path / "job"])
    assert [source.root.name for source in found.sources] == ["rank0_ascend_pt"]
    why = "the rank directories it was made from say more"
    passed = [each for each in found.files if each.reason and why in each.reason]
    assert found.refused == () and len(passed) == 4 and {each.fate for each in passed} == {"beside"}


@pytest.mark.parametrize(
    "texts",
    [{"cluster_step_trace_time": "x\n"}, {"cluster_step_trace_time": HEAD}, {"cluster_communication": "[" * 9999},
     {"cluster_communication": "{}"}, {"cluster_step_trace_time": HEAD + "5,rank,0,inf,nan,-1,1e99,,,,,\n"},
     {"cluster_communication_matrix": '{"a": {"b": {"c": {"99999999-1": {}}}}}'}],
)  # fmt: skip
def test_nothing_readable_is_a_reason(texts: dict[str, str], tmp_path: Path) -> None:
    (run,) = ingest.load(write(tmp_path / "x", **texts), tmp_path / "store").runs
    assert run.run_id is None and run.error and run.error["kind"] in ("empty", "damaged")


def test_rows_before_the_damage_are_kept_and_the_rest_is_told(tmp_path: Path) -> None:
    text = STEPS + "51,rank,0," + "9" * 200_000 + "\n"
    (run,) = ingest.load(write(tmp_path / "x", cluster_step_trace_time=text), tmp_path / "store").runs
    assert run.ranks == (0, 3)
    told = next(row for row in run.coverage if row["table"] == "profiler_step" and row["rank"] == 3)
    assert (told["status"], told["rows"]) == ("partial", 1) and "damaged from line" in told["reason"]


def test_the_summary_fills_only_what_the_steps_lack(tmp_path: Path) -> None:
    made = write(tmp_path / "x", cluster_step_trace_time=STEPS)
    (made / "cluster_time_summary.csv").write_text(
        "rank,step,computation,communicationNotOverlapComputation,communicationOverlapComputation,communication,free\n"
        "0,50,1,2,3,4,5\n0,51,1.5,2,3,5,6\n"
    )
    (run,) = ingest.load(made, tmp_path / "store").runs
    found = runs.open_run(tmp_path / "store", str(run.run_id)).execute(
        "SELECT step, computing_ns, communication_not_overlapped_ns, overlapped_ns, free_ns, source FROM profiler_step "
        "WHERE rank = 0 ORDER BY step"
    )
    assert found.fetchall() == [
        (50, 8_903_431, 98_071_947, 4_036_153, 25_258_144, "cluster_step_trace_time.csv"),
        (51, 1500, 2000, 3000, 6000, "cluster_time_summary.csv"),
    ]


def test_groups_alone_are_not_claimed(tmp_path: Path) -> None:
    """Rank directories carry a file of this name."""
    made = write(tmp_path / "x", communication_group="{}")
    assert read_cluster_analysis.sniff(made / "communication_group.json") is None
