"""MindSpore's derived files: the real directory worked out with csv and json; small made ones, one question each."""

from __future__ import annotations

import csv
import json
import re
import shutil
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from npulens import ingest
from npulens.ingest.errors import IngestError
from npulens.ingest.loading import capture
from npulens.ingest.readers.mindspore import read_mindspore
from npulens.ingest.store import runs
from npulens.ingest.tables.draft import Draft

RESOURCE = "mindspore-ai+mindinsight/tests/utils/resource"
REAL = f"{RESOURCE}/run_1/normal_run/profiler"
LOST = "operators and communication of steps whose operators the files do not hold as a whole"
Loader = Callable[[Path], tuple[ingest.LoadedRun, duckdb.DuckDBPyConnection]]


@pytest.fixture
def loaded(store_dir: Path) -> Loader:
    def load(path: Path) -> tuple[ingest.LoadedRun, duckdb.DuckDBPyConnection]:
        (run,) = ingest.load(path, store_dir).runs
        assert run.run_id, run.reason
        return run, runs.open_run(store_dir, run.run_id)

    return load


def rows(con: duckdb.DuckDBPyConnection, query: str) -> list[tuple[Any, ...]]:
    return con.execute(query).fetchall()


# --- the real directory ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real(shared_traces: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[ingest.LoadedRun, Any, Path]:
    place = tmp_path_factory.mktemp("mindspore")
    (run,) = ingest.load(shared_traces / REAL, place).runs
    return run, runs.open_run(place, str(run.run_id)), shared_traces / REAL


def calls(directory: Path) -> list[tuple[int, int, int, str]]:
    """Start, duration, stream and full name of every operator, by the text file alone."""
    with (directory / "output_timeline_data_1.txt").open(newline="") as file:
        table = list(csv.reader(file, skipinitialspace=True))[1:]
    ms = 10**6
    return sorted((int(Decimal(at) * ms), int(Decimal(dur) * ms), int(stream), name) for name, stream, at, dur in table)


def steps(directory: Path) -> list[dict[str, str]]:
    with (directory / "step_trace_raw_1_detail_time.csv").open(newline="") as file:
        return [row for row in csv.DictReader(file) if row["step_num"] != "-"]


def test_real_files_are_one_rank_named_by_their_number(real: tuple[ingest.LoadedRun, Any, Path]) -> None:
    run, con, directory = real
    assert (run.ranks, run.formats, run.status) == ((1,), ("mindspore",), "partial")
    assert rows(con, "SELECT rank_source, backend FROM rank") == [("file name", "npu")]
    claim = read_mindspore.sniff(directory / "flops_1.txt")
    assert claim is not None and sorted(claim.files) == sorted(directory.iterdir()), "every file is part of the run"


def test_real_operators_are_those_of_the_text_to_the_nanosecond(real: tuple[ingest.LoadedRun, Any, Path]) -> None:
    """The timeline's floats count from min_cycle_counter, the text is the device's own clock; they name the same."""
    _, con, directory = real
    end = int(steps(directory)[13]["end_point"]) * 10  # the last step that has all its operators
    wanted = [row for row in calls(directory) if row[0] < end]
    found = rows(
        con,
        """SELECT ts_ns + origin_ns, dur_ns, stream, json_extract_string(args, '$.fullname') FROM span
        JOIN kernel USING (span_id) JOIN arg USING (span_id), run ORDER BY ALL""",
    )
    assert found == wanted and len(found) == 2786
    assert rows(con, "SELECT origin_ns, clock FROM run") == [(43806841592 * 10, "monotonic")]


def test_real_shapes_are_those_of_the_timeline(real: tuple[ingest.LoadedRun, Any, Path]) -> None:
    _, con, directory = real
    first = json.loads((directory / "timeline_display_1.json").read_text())[1]
    assert (first["name"], first["args"]["input_0"]["shape"]) == ("Mul-op29", "1")
    found = rows(con, "SELECT op_type, input_shapes, input_dtypes, output_formats, stream FROM kernel JOIN span "
                      "USING (span_id) WHERE name = 'Mul-op29' ORDER BY ts_ns LIMIT 1")  # fmt: skip
    assert found == [("Mul", "1;", "NUMBER_TYPE_FLOAT32;NUMBER_TYPE_FLOAT32", "DefaultFormat", 519)]


def test_real_steps_that_lack_operators_are_counters_and_no_steps(real: tuple[ingest.LoadedRun, Any, Path]) -> None:
    """Operators end in step 15 of 322; a step without them would look idle."""
    run, con, directory = real
    every = steps(directory)
    last = max(row[0] for row in calls(directory))
    whole = [row for row in every if int(row["end_point"]) * 10 <= last]
    assert [row["step_num"] for row in whole] == [str(number) for number in range(1, 15)]
    wanted = [(int(r["step_num"]), int(r["start_point"]) * 10, int(r["total"]) * 10) for r in whole]
    assert rows(con, "SELECT step, ts_ns + origin_ns, dur_ns FROM step, run ORDER BY step") == wanted
    totals = rows(con, "SELECT ts_ns + origin_ns, value FROM sample, run WHERE series = 'total (ns)' ORDER BY ts_ns")
    assert totals == [(int(r["start_point"]) * 10, float(int(r["total"]) * 10)) for r in every]
    streams = sum(name.endswith("_0") for name in every[0])
    dropped = {row["table"]: row["dropped"] for row in run.coverage if row["dropped"]}
    assert dropped == {"step": 308, "span": 31 + 308 * streams} and streams == 11


def test_real_communication_is_that_of_the_step_trace(real: tuple[ingest.LoadedRun, Any, Path]) -> None:
    _, con, directory = real
    names = [name for name in steps(directory)[0] if re.fullmatch(r"stream_\d+_parallel_0", name)]
    wanted = sorted(
        (int(row[f"{name}_start_point"]) * 10, int(row[name]) * 10, name, int(name.split("_")[1]))
        for row in steps(directory)[:14] for name in names
    )  # fmt: skip
    query = "SELECT ts_ns + origin_ns, dur_ns, name, stream FROM span JOIN comm USING (span_id), run ORDER BY ALL"
    assert rows(con, query) == wanted


def test_real_sums_keep_every_row(real: tuple[ingest.LoadedRun, Any, Path]) -> None:
    _, con, directory = real
    counts = dict(rows(con, "SELECT source, count(*) FROM summary GROUP BY 1"))
    lines = {name: len((directory / name).read_text().splitlines()) for name in (
        "aicore_intermediate_1_type.csv", "aicore_intermediate_1_detail.csv", "flops_1.txt",
        "output_op_compute_time_1.txt", "minddata_pipeline_raw_1.csv")}  # fmt: skip
    assert counts["aicore_intermediate_type"] == lines["aicore_intermediate_1_type.csv"] - 1
    assert counts["aicore_intermediate_detail"] == lines["aicore_intermediate_1_detail.csv"] - 1
    assert counts["flops"] == lines["flops_1.txt"] - 1
    assert counts["op_compute_time"] == lines["output_op_compute_time_1.txt"] - 3  # title, header and rule
    assert (counts["minddata_pipeline"], counts["pipeline_profiling"]) == (4, 5)
    matmul = rows(con, "SELECT count, total_ns FROM summary WHERE source LIKE '%_type' AND name = 'MatMul'")
    assert matmul == [(25, 2_807_820)]
    mul = "SELECT DISTINCT args->>'avg_execution_time', args->>'op_type' FROM summary WHERE name = 'GatherV2-op55'"
    assert rows(con, mul) == [("42.2202", "GatherV2")]


def test_real_raw_slices_are_refused_by_name(shared_traces: Path) -> None:
    found = capture.find([shared_traces / RESOURCE / "JOB3"])
    assert not found.sources
    assert [error.kind for error in found.refused] == ["raw_mindspore"]
    assert "Profiler.analyse()" in found.refused[0].message and "7 files" in found.refused[0].message
    alone = next((shared_traces / RESOURCE / "JOB3").glob("hwts*"))
    assert [error.kind for error in capture.find([alone]).refused] == ["raw_mindspore"]


def test_real_files_one_by_one_are_a_run_or_a_reason(shared_traces: Path, tmp_path: Path) -> None:
    for number, path in enumerate(sorted((shared_traces / REAL).iterdir())):
        alone = tmp_path / str(number)
        alone.mkdir()
        shutil.copy(path, alone)
        found = capture.find([alone])
        (source,) = found.sources
        assert not found.refused and source.files == (alone / path.name,)
        draft = Draft(tmp_path / f"draft{number}", 1)
        if path.name.startswith(("min_cycle", "step_trace_point")):
            with pytest.raises(IngestError, match="load the whole profiler directory"):
                read_mindspore.read(source.claims[0], draft)
        else:
            read_mindspore.read(source.claims[0], draft)
            assert draft.selects, path.name
        draft.close()


# --- made ------------------------------------------------------------------------------------------------------------


def op(name: str, ts: float, dur: float, tid: int = 5, pid: int = 0, **more: object) -> dict[str, Any]:
    args = {"type": name.split("-")[0], "fullname": f"Default/{name}", **more}
    return {"name": name, "ph": "X", "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def make(directory: Path, events: list[Any] | None, points: list[tuple[int, int]] = (), rank: int = 3) -> Path:  # type: ignore[assignment]
    """A timeline whose zero is tick 1000, and steps given by their ticks."""
    directory.mkdir(exist_ok=True)
    if events is not None:
        (directory / f"timeline_display_{rank}.json").write_text(json.dumps(events))
        (directory / f"min_cycle_counter_{rank}.txt").write_text("1000.0")
    if points:
        lines = ["step_num,start_point,end_point,total,fp_point,bp_point,iteration_interval,fp_and_bp,tail"]
        lines += [f"{i},{a},{b},{b - a},{a},{b},0,{b - a},0" for i, (a, b) in enumerate(points, 1)]
        (directory / f"step_trace_raw_{rank}_detail_time.csv").write_text("\n".join([*lines, ""]))
    return directory


def test_a_step_whose_operators_are_all_there_stays_though_it_ends_after_them(loaded: Loader, tmp_path: Path) -> None:
    """Ticks of 10 ns: steps of 1000 ns from tick 1000; operators in all three."""
    events = [op("MatMul-op1", ts, 0.5) for ts in (0.1, 1.1, 2.1)]
    run, con = loaded(make(tmp_path / "a", events, [(1000, 1100), (1100, 1200), (1200, 1300)]))
    query = "SELECT step, ts_ns, dur_ns FROM step ORDER BY 1"
    assert rows(con, query) == [(1, 0, 1000), (2, 1000, 1000), (3, 2000, 1000)]
    assert run.status == "complete" and not any(row["dropped"] for row in run.coverage)
    assert rows(con, "SELECT ts_ns, dur_ns, step FROM span WHERE kind = 'kernel' ORDER BY 1") == [
        (100, 500, 1), (1100, 500, 2), (2100, 500, 3)]  # fmt: skip


def test_steps_before_the_first_operator_are_left_out_too(loaded: Loader, tmp_path: Path) -> None:
    """Operators begin in step 2, which is therefore cut; step 3 is whole."""
    events = [op("MatMul-op1", ts, 0.5) for ts in (1.6, 2.1)]
    run, con = loaded(make(tmp_path / "a", events, [(1000, 1100), (1100, 1200), (1200, 1300)]))
    assert rows(con, "SELECT step FROM step") == [(3,)]
    assert {row["table"]: row["dropped"] for row in run.coverage if row["dropped"]} == {"step": 2, "span": 1}


def test_kinds_by_lane_and_type(loaded: Loader, tmp_path: Path) -> None:
    events = [
        op("MatMul-op1", 0, 1), op("StreamRecv-op2", 1, 1), op("StreamSend-op3", 2, 1), op("X-op4", 3, 1, pid=9000),
        op("stream_7_parallel_0", 4, 1, tid=7, pid=10000), op("free_time", 5, 1, tid=8002), op("1", 0, 6, tid=100000),
        op("ReduceSum", 0, 1, tid=3, pid=11000),
        {"name": "process_name", "ph": "M", "pid": 44, "args": {"name": "Communication Op"}},
        op("allReduce-op8", 6, 1, tid=9, pid=44),
    ]  # fmt: skip
    _, con = loaded(make(tmp_path / "a", events))
    assert dict(rows(con, "SELECT name, kind FROM span")) == {
        "MatMul-op1": "kernel", "StreamRecv-op2": "wait", "StreamSend-op3": "device_other", "X-op4": "kernel",
        "stream_7_parallel_0": "comm_op", "free_time": "profiler_split", "1": "device_annotation",
        "ReduceSum": "host_other", "allReduce-op8": "comm_op",
    }  # fmt: skip
    assert rows(con, "SELECT core FROM kernel JOIN span USING (span_id) WHERE name = 'X-op4'") == [("AI_CPU",)]
    assert rows(con, "SELECT name, collective FROM comm JOIN span USING (span_id) ORDER BY name") == [
        ("allReduce-op8", "allreduce"), ("stream_7_parallel_0", None)]  # fmt: skip


def test_the_text_completes_a_capped_timeline(loaded: Loader, tmp_path: Path) -> None:
    made = make(tmp_path / "a", [op("MatMul-op1", 0.0, 2.0)])
    head = "op_name, stream_id, start_time(ms), duration(ms)\n"
    text = "Default/MatMul-op1,5,0.01,0.002\nDefault/Add-op2,5,0.02,0.001\n"
    (made / "output_timeline_data_3.txt").write_text(head + text)
    _, con = loaded(made)
    query = "SELECT name, ts_ns + origin_ns, dur_ns FROM span, run ORDER BY ts_ns"
    assert rows(con, query) == [("MatMul-op1", 10_000, 2000), ("Add-op2", 20_000, 1000)]


def test_framework_fills_what_the_timeline_lacks(loaded: Loader, tmp_path: Path) -> None:
    made = make(tmp_path / "a", [op("MatMul-op1", 0, 1), op("Add-op2", 1, 1)])
    head = "task_id,stream_id,block_dim,full_kernel_name,kernel_type\n"
    (made / "framework_raw_3.csv").write_text(
        head + "7,5,24,Default/MatMul-op1,MatMul\n8,5,1,Default/Add-op2,Add\n9,5,2,Default/Add-op2,Add\n"
    )
    _, con = loaded(made)
    query = "SELECT name, block_num, task_id FROM kernel JOIN span USING (span_id) ORDER BY name"
    assert rows(con, query) == [("Add-op2", None, None), ("MatMul-op1", 24, 7)], "named twice is told by nobody"


@pytest.mark.parametrize("file", ["aicore_intermediate_3_detail.csv", "renamed.csv"])
def test_operators_of_old_versions_are_sums_by_their_type(file: str, loaded: Loader, tmp_path: Path) -> None:
    """Two products of 0.25 and 0.5 ms and an addition of 0.25 ms, the mean of one execution each."""
    from npulens.analysis.quality import quality
    from npulens.analysis.run import Run

    (tmp_path / "a").mkdir()
    (tmp_path / "a" / file).write_text(
        "full_op_name,execution_time\nDefault/net/MatMul-op1,0.25\nDefault/MatMul-op12,0.5\nDefault/Add-op2,0.25\n"
    )
    _, con = loaded(tmp_path / "a")
    assert rows(con, "SELECT name, count, total_ns FROM summary ORDER BY name") == [
        ("Default/Add-op2", None, 250_000), ("Default/MatMul-op12", None, 500_000),
        ("Default/net/MatMul-op1", None, 250_000)]  # fmt: skip
    assert [one.text[0] for one in quality(Run(con)).doubts if one.name == "sums"] == [
        "only the profiler's sums were recorded. Of 1.00 ms in aicore_intermediate_detail, one execution of each: "
        "MatMul 750 µs (75.0 %), Add 250 µs (25.0 %)"
    ]


def test_the_mean_of_an_execution_counts_as_often_as_it_ran(loaded: Loader, tmp_path: Path) -> None:
    """4 times 0.25 ms; the same by type is said once."""
    from npulens.analysis.quality import quality
    from npulens.analysis.run import Run

    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "aicore_intermediate_3_detail.csv").write_text(
        "full_kernel_name,execution_time,execution_frequency\nDefault/MatMul-op1,0.25,4\n"
    )
    (tmp_path / "a" / "aicore_intermediate_3_type.csv").write_text(
        "kernel_type,total_time,execution_frequency,percent\nMatMul,1.0,4,100\n"
    )
    _, con = loaded(tmp_path / "a")
    assert rows(con, "SELECT source, count, total_ns FROM summary ORDER BY source") == [
        ("aicore_intermediate_detail", 4, 1_000_000), ("aicore_intermediate_type", 4, 1_000_000)]  # fmt: skip
    assert [one.text[0] for one in quality(Run(con)).doubts if one.name == "sums"] == [
        "only the profiler's sums were recorded. Of 1.00 ms in aicore_intermediate_type: MatMul 1.00 ms (100 %)"
    ]


def test_steps_alone_say_nothing_of_computing(loaded: Loader, tmp_path: Path) -> None:
    from npulens.analysis.split import breakdown

    run, con = loaded(make(tmp_path / "a", None, [(1000, 1100), (1100, 1250)]))
    assert [(row.step, row.dur_ns, row.computing_ns, row.idle_ns) for row in breakdown(con)] == [
        (None, 2500, None, None), (1, 1000, None, None), (2, 1500, None, None)]  # fmt: skip
    assert run.status == "partial"


def step_trace(
    directory: Path, rank: int, points: list[tuple[int, int]], said: dict[str, list[tuple[int, int]]]
) -> Path:
    """Steps by their ticks, and of each operator of communication its ticks in every step."""
    directory.mkdir(exist_ok=True)
    head = "step_num,start_point,end_point,total,fp_point,bp_point,iteration_interval,fp_and_bp,tail"
    lines = [",".join([head, *(f"{name},{name}_start_point,{name}_end_point" for name in said)])]
    for i, (a, b) in enumerate(points):
        cells = (f"{end - begin},{begin},{end}" for begin, end in (ticks[i] for ticks in said.values()))
        lines.append(",".join([f"{i + 1},{a},{b},{b - a},{a},{b},0,{b - a},0", *cells]))
    (directory / f"step_trace_raw_{rank}_detail_time.csv").write_text("\n".join([*lines, ""]))
    return directory


def test_what_communication_does_is_in_its_name(loaded: Loader, tmp_path: Path) -> None:
    """A tick is 10 ns; the step begins at tick 1000, which is the run's zero."""
    said = {
        "stream_11_0_Receive-op20": [(1010, 1040)], "stream_12_0_Send-op21": [(1050, 1055)],
        "stream_36_1_AllReduce-op7": [(1060, 1070)], "stream_7_parallel_0": [(1080, 1090)],
    }  # fmt: skip
    _, con = loaded(step_trace(tmp_path / "a", 3, [(1000, 1100)], said))
    query = "SELECT name, collective, s.stream, group_name, ts_ns, dur_ns FROM span JOIN comm s USING (span_id) " \
            "ORDER BY ts_ns"  # fmt: skip
    assert rows(con, query) == [
        ("stream_11_0_Receive-op20", "receive", 11, None, 100, 300),
        ("stream_12_0_Send-op21", "send", 12, None, 500, 50),
        ("stream_36_1_AllReduce-op7", "allreduce", 36, None, 600, 100),
        ("stream_7_parallel_0", None, 7, None, 800, 100),
    ]


def test_hundreds_of_collectives_are_read_at_once(tmp_path: Path) -> None:
    """320 operators in 3 steps of 10,000 ticks, one every 30 ticks. As many SELECTs would take half a minute."""
    steps_, every = [(i * 10_000, (i + 1) * 10_000) for i in range(3)], range(320)
    said = {f"stream_{n % 40}_{n}_AllReduce-op{n}": [(a + 30 * n, a + 30 * n + 20) for a, _ in steps_] for n in every}
    claim = read_mindspore.sniff(step_trace(tmp_path / "a", 3, steps_, said) / "step_trace_raw_3_detail_time.csv")
    assert claim is not None
    draft = Draft(tmp_path / "draft", 1)
    began = time.process_time()
    read_mindspore.read(claim, draft)
    took = time.process_time() - began
    found = draft.con.execute("SELECT row, name, stream, ts, dur FROM gathers ORDER BY row, ts").fetchall()
    draft.close()
    assert found == [
        (i, f"stream_{n % 40}_{n}_AllReduce-op{n}", n % 40, (i * 10_000 + 30 * n) * 10, 200)
        for i in range(3) for n in every
    ]  # fmt: skip
    assert took < 6, "s of CPU"


def test_receives_of_two_stages_make_no_rank_late(loaded: Loader, tmp_path: Path) -> None:
    """Rank 3 began its first receive 21,200,000 ticks (212 ms) before rank 2, and both end together in every step."""
    from npulens.analysis.engine import check
    from npulens.analysis.ranks.collectives import collectives
    from npulens.analysis.run import Run

    begin, length = 100_000_000, 18_000_000
    for rank, early in ((2, 0), (3, 21_200_000)):
        points = [(begin + i * length - (0 if i else early), begin + (i + 1) * length) for i in range(5)]
        said = {
            f"stream_11_{n}_Receive-op{20 + n}": [
                (points[i][0] + n * 1_000_000, begin + i * length + n * 1_000_000 + 900_000) for i in range(5)
            ]
            for n in range(2)
        }
        step_trace(tmp_path / "a", rank, points, said)
    _, con = loaded(tmp_path / "a")
    assert set(Run(con).get(collectives).instance.tolist()) == {-1}
    said_of = {one.detector: one.outcome for one in check(con).outcomes}
    assert {name: said_of[name] for name in ("late_rank", "pipeline_bubble", "comm_exposed")} == dict.fromkeys(
        ("late_rank", "pipeline_bubble", "comm_exposed"), "not_measured"
    )


def test_steps_are_not_laid_beside_a_timeline_whose_zero_is_unknown(loaded: Loader, tmp_path: Path) -> None:
    made = make(tmp_path / "a", [op("MatMul-op1", 0, 1)], [(1000, 1100)])
    (made / "min_cycle_counter_3.txt").unlink()
    run, con = loaded(made)
    assert rows(con, "SELECT count(*) FROM step") == [(0,)]
    assert "min_cycle_counter" in next(row["reason"] for row in run.coverage if row["table"] == "step")


def test_several_devices_in_one_directory_are_several_ranks(store_dir: Path, tmp_path: Path) -> None:
    for rank in (0, 5):
        make(tmp_path / "a", [op("MatMul-op1", 0, 1)], rank=rank)
    (run,) = ingest.load(tmp_path / "a", store_dir).runs
    assert run.ranks == (0, 5)


@pytest.mark.parametrize("damage", ["[{", '[{"ph":"X","name":"a","ts":1,"dur":"x","tid":1,"pid":1}]', "{}", "\x00"])
def test_damage_is_a_reason_and_no_traceback(damage: str, store_dir: Path, tmp_path: Path) -> None:
    made = make(tmp_path / "a", [])
    (made / "timeline_display_3.json").write_text(damage)
    (made / "step_trace_raw_3_detail_time.csv").write_text('step_num,start_point\n1,"\n2,99999999999999999999,5,6\n')
    (made / "flops_3.txt").write_bytes(b"\xff\xfe\x00,")
    (made / "pipeline_profiling_3.json").write_text('{"op_info": [1, {"op_type": []}], "x": NaN}')
    for run in ingest.load(made, store_dir).runs:
        assert run.status in ("partial", "refused") and run.reason and "internal" not in run.reason
