"""Exports with a part missing, damaged or of another capture: what is there is loaded, what was lost is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from npulens.ingest.errors import IngestError
from npulens.ingest.loading import capture
from npulens.ingest.readers.ascend import read_torch_npu_db
from tests.text_export import BASE_US, KERNEL, L1, ROOT, at, load, processes, span, task, write
from tests.torch_npu_db_files import NOW, Maker
from tests.torch_npu_db_files import load as load_db

TRACE = [*processes(), task("MatMul1", 1000, 2001, "KERNEL_AICORE")]
HOUR_US = 3600 * 10**6


def later(text: str) -> str:
    """The same file an hour later."""
    return text.replace(str(BASE_US)[:7], str(BASE_US + HOUR_US)[:7])


def test_kernels_of_another_capture_are_not_mixed_in(tmp_path: Path) -> None:
    assert str(BASE_US)[:7] != str(BASE_US + HOUR_US)[:7]
    got = load(write(tmp_path / ROOT, TRACE, kernel_details_csv=f"{L1}\n{later(KERNEL)}\n"), tmp_path)
    assert got.all("SELECT kind, name, ts_ns FROM span") == [("kernel", "MatMul1", 0)]
    assert got.all("SELECT op_type FROM kernel") == [(None,)]
    assert got.part.reasons == [
        "kernel_details.csv is of another time than the trace, so of another capture or clock, and is not read"
    ]
    assert got.cover("kernel")["dropped"] == 1


def test_memory_of_another_capture_is_not_mixed_in(tmp_path: Path) -> None:
    rows = "Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Device Type\n"
    good, bad = f"{rows}PTA,{at(5)}\t,1,2,NPU:0\n", f"{rows}PTA,{later(at(5))}\t,1,2,NPU:0\n"
    got = load(write(tmp_path / "a" / ROOT, TRACE, memory_record_csv=good), tmp_path / "a")
    assert got.one("SELECT count(*) FROM memory_sample") == 1 and got.part.reasons == []
    got = load(write(tmp_path / "b" / ROOT, TRACE, memory_record_csv=bad), tmp_path / "b")
    assert got.one("SELECT count(*) FROM memory_sample") == 0
    assert got.cover("memory_sample")["dropped"] == 1 and "another capture" in got.part.reasons[0]
    assert got.part.end_ns - got.part.origin_ns == 2001


def test_files_of_no_bytes_are_refused_with_what_to_do(tmp_path: Path) -> None:
    root = write(tmp_path / ROOT, None, trace_view_json="", kernel_details_csv="")
    with pytest.raises(IngestError, match="its files hold no bytes; its raw data is not here"):
        load(root, tmp_path)
    (root / "FRAMEWORK").mkdir()
    with pytest.raises(IngestError, match=r"analyse\('rank2_ascend_pt'\)"):
        load(root, tmp_path / "again")


def test_an_empty_trace_beside_kernels_is_partial(tmp_path: Path) -> None:
    root = write(tmp_path / ROOT, None, trace_view_json="", kernel_details_csv=f"{L1}\n{KERNEL}\n")
    got = load(root, tmp_path)
    assert got.all("SELECT kind, name FROM span") == [("kernel", "MatMul1")]
    assert any("trace_view.json" in reason for reason in got.part.reasons)


def test_an_empty_table_beside_a_trace_is_said(tmp_path: Path) -> None:
    got = load(write(tmp_path / ROOT, TRACE, kernel_details_csv="", memory_record_csv=""), tmp_path)
    assert got.all("SELECT kind, name FROM span") == [("kernel", "MatMul1")]
    assert got.cover("kernel")["status"] == "partial"
    assert "kernel_details.csv is empty" in got.cover("kernel")["reason"]
    assert "memory_record.csv is empty" in got.cover("memory_sample")["reason"]


def test_an_empty_slice_costs_its_table_that_slice(tmp_path: Path) -> None:
    (tmp_path / "op_statistic_slice_0_20250109035001.csv").write_text("OP Type,Count,Total Time(us)\nAdd,2,3.5\n")
    (tmp_path / "op_statistic_slice_1_20250109035001.csv").write_text("")
    (tmp_path / "op_statistic_slice_2_20250109035001.csv").write_text("OP Type,Core Type,Count\nMul,AI_CORE,1\n")
    got = load(tmp_path, tmp_path / "out")
    assert got.all("SELECT name, category, count, total_ns FROM summary ORDER BY 1") == [
        ("Add", None, 2, 3500), ("Mul", "AI_CORE", 1, None),
    ]  # fmt: skip
    assert "op_statistic_slice_1_20250109035001.csv is empty" in got.cover("summary")["reason"]


def test_a_trace_that_ends_in_the_middle_keeps_what_came_before(tmp_path: Path) -> None:
    text = json.dumps([*TRACE, task("Lost", 9000, 5, "KERNEL_AICORE")])
    got = load(write(tmp_path / ROOT, None, trace_view_json=text[:-60]), tmp_path)
    assert got.all("SELECT name FROM span") == [("MatMul1",)]
    assert len(got.part.reasons) == 1 and "trace_view.json" in got.part.reasons[0]


def test_a_trace_without_metadata_is_told_by_what_its_events_carry(tmp_path: Path) -> None:
    events = [event for event in TRACE if event["ph"] != "M"] + [span(100, 1, "aten::mm", 0, 50, cat="cpu_op")]
    got = load(write(tmp_path / ROOT, events), tmp_path)
    assert sorted(got.all("SELECT kind, name FROM span")) == [("cpu_op", "aten::mm"), ("kernel", "MatMul1")]
    assert "names no process" in got.cover("track")["reason"]


# --- MindSpore


def test_a_mindspore_export_is_read_like_one_of_torch_npu(tmp_path: Path) -> None:
    """Its lanes are called MindSpore and Scope Layer, and its time may start at nought."""
    events = [
        {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}
        for pid, name in ((1, "MindSpore"), (2, "Scope Layer"), (300, "Ascend Hardware"))
    ] + [
        {"ph": "M", "name": "process_labels", "pid": 2, "tid": 0, "args": {"labels": "NPU"}},
        {"ph": "X", "name": "ProfilerStep#3", "pid": 1, "tid": 9, "ts": "0.0", "dur": 90.5, "cat": "cpu_op"},
        {"ph": "X", "name": "MatMul", "pid": 1, "tid": 9, "ts": "1.0", "dur": 2, "cat": "cpu_op"},
        {"ph": "X", "name": "Default/net", "pid": 2, "tid": 0, "ts": "5.001", "dur": 4},
        {"ph": "X", "name": "MatMul-op1", "pid": 300, "tid": 2, "ts": "5.001", "dur": 4.002,
         "args": {"Task Type": "AI_CORE", "Physic Stream Id": 2, "Task Id": 7}},
    ]  # fmt: skip
    directory = tmp_path / "rank_6" / "profiler" / "data" / "node_77_20250109034804123_ascend_ms"
    write(directory, events, static_op_mem_csv="Op Name,Size(KB)\nMatMul,12\n")
    (source,) = capture.find([tmp_path]).sources
    assert (source.root, source.facts.rank, source.facts.rank_source) == (directory, 6, "directory name")
    got = load(directory, tmp_path)
    assert got.all("SELECT process, t.kind, s.kind, s.name, ts_ns, dur_ns FROM span s JOIN track t USING (track) "
                   "ORDER BY ts_ns, s.kind DESC") == [
        ("MindSpore", "host_thread", "step_mark", "ProfilerStep#3", 0, 90_500),
        ("MindSpore", "host_thread", "cpu_op", "MatMul", 1000, 2000),
        ("Ascend Hardware", "stream", "kernel", "MatMul-op1", 5001, 4002),
        ("Scope Layer", "other", "device_annotation", "Default/net", 5001, 4000),
    ]  # fmt: skip
    assert got.part.facts["clock"] == "monotonic"
    assert got.all("SELECT step, source FROM step") == [(3, "ProfilerStep")]
    assert got.all("SELECT source, name FROM summary") == [("static_op_mem", "MatMul")]


def test_a_mindspore_database_is_found(tmp_path: Path) -> None:
    output = tmp_path / "rank-3_77_20250109034804123_ascend_ms" / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    made = Maker(output / "ascend_mindspore_profiler_3.db")
    made.task(1, "KERNEL_AICORE", 10, 20)
    made.con.close()
    (source,) = capture.find([tmp_path]).sources
    assert source.facts.rank == 3
    assert load_db(output.parent, tmp_path, read_torch_npu_db).one("SELECT dur_ns FROM span") == 10


# --- databases


def test_a_database_whose_tables_were_dropped_says_so(tmp_path: Path) -> None:
    made = Maker(tmp_path / "ascend_pytorch_profiler_0.db")
    made.con.execute("DROP TABLE STRING_IDS")
    made.con.execute("CREATE TABLE a(id INTEGER PRIMARY KEY AUTOINCREMENT)")
    made.con.execute("DROP TABLE a")
    made.con.close()
    with pytest.raises(IngestError, match="holds no"):
        load_db(tmp_path / "ascend_pytorch_profiler_0.db", tmp_path)


def test_operators_of_communication_that_are_lost_are_said(tmp_path: Path) -> None:
    made = Maker(tmp_path / "ascend_pytorch_profiler_0.db")
    made.task(1, "SDMA_SQE", 10, 20)
    made.table("COMMUNICATION_OP(opName, startNs, endNs, connectionId, groupName, opId)")
    made.table("COMMUNICATION_TASK_INFO(name, globalTaskId, taskType, planeId, groupName)",
               ("Memcpy", 1, "Memcpy", 0, "g"))  # fmt: skip
    made.con.close()
    got = load_db(tmp_path / "ascend_pytorch_profiler_0.db", tmp_path)
    assert got.all("SELECT kind, ts_ns FROM span") == [("comm_task", 0)]
    assert "COMMUNICATION_OP is empty beside 1 tasks" in got.cover("comm")["reason"]
    assert got.part.origin_ns == NOW + 10


def test_files_named_one_by_one_are_one_capture(tmp_path: Path) -> None:
    output = write(tmp_path / "x", TRACE, kernel_details_csv=f"{L1}\n{KERNEL}\n") / "ASCEND_PROFILER_OUTPUT"
    (source,) = capture.find([output / "trace_view.json", output / "kernel_details.csv"]).sources
    assert [path.name for path in source.files] == ["kernel_details.csv", "trace_view.json"]
