"""Traces written by hand: every form in which versions write events, and what directories are claimed."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from npulens.ingest.readers.ascend import read_torch_npu_text
from tests.text_export import (
    BASE_US,
    HARDWARE,
    HOST,
    KERNEL,
    L1,
    OVERLAP,
    ROOT,
    Event,
    at,
    comm_lanes,
    comm_op,
    comm_task,
    flow,
    load,
    named,
    processes,
    span,
    task,
    write,
)  # fmt: skip

BASE_NS = BASE_US * 1000


def kernel_events() -> list[Event]:
    return [*processes(), task("MatMul1", 1000, 2001, "KERNEL_AICORE")]


@pytest.mark.parametrize("form", ["strings", "numbers", "object", "metadata last", "gzip"])
def test_forms_of_a_trace(tmp_path: Path, form: str) -> None:
    events = kernel_events()
    text = json.dumps(events)
    if form == "numbers":
        text = text.replace(f'"{at(1000)}"', at(1000))
    elif form == "object":
        text = json.dumps({"schemaVersion": 1, "traceEvents": events})
    elif form == "metadata last":
        text = json.dumps(events[::-1])
    content = text.encode()
    if form == "gzip":
        content = gzip.compress(content)
    got = load(write(tmp_path / ROOT, trace_view_json=content), tmp_path)
    assert got.all("SELECT kind, name, ts_ns, dur_ns FROM span") == [("kernel", "MatMul1", 0, 2001)]
    assert got.origin == BASE_NS + 1000
    assert got.all("SELECT core, task_type, stream, task_id, model_id, context_id FROM kernel") == [
        ("AI_CORE", "KERNEL_AICORE", 2, 1, None, None)
    ]
    assert got.part.facts["clock"] == "unix" and got.part.reasons == []


def test_stamps_from_zero_are_no_wall_clock(tmp_path: Path) -> None:
    events = [named(HARDWARE, "Ascend Hardware"), {**task("MatMul1", 0, 20, "AI_CORE"), "ts": 0.0}]
    assert load(write(tmp_path / ROOT, events), tmp_path).part.facts["clock"] == "monotonic"


@pytest.mark.parametrize(("label", "device"), [("NPU", None), ("NPU 0", 0), ("NPU 13", 13)])
def test_the_label_tells_the_device(tmp_path: Path, label: str, device: int | None) -> None:
    told = {"ph": "M", "name": "process_labels", "pid": HARDWARE, "tid": 0, "args": {"labels": label}}
    got = load(write(tmp_path / ROOT, [*kernel_events(), told]), tmp_path)
    assert got.part.facts.get("device_id") == device


def test_the_last_name_of_a_thread_counts(tmp_path: Path) -> None:
    names = [named(HARDWARE, f"Stream {number}", 2, "thread_name") for number in (8, 9)]
    got = load(write(tmp_path / ROOT, [names[0], *kernel_events(), names[1]]), tmp_path)
    assert got.all("SELECT name, stream, kind FROM track") == [("Stream 9", 9, "stream")]


def test_lanes_without_a_process_name_are_told_by_what_they_carry(tmp_path: Path) -> None:
    events = [
        named(7, "Thread 31", 31, "thread_name"), span(7, 31, "AscendCL@aclrtMalloc", 0, 10, {"connection_id": 3}),
        span(8, 2, "MatMul1", 20, 5, {"Task Type": "AI_CORE", "Task Id": 1}),
        span(9, 4, "aten::add", 30, 5, cat="cpu_op"),
    ]  # fmt: skip
    got = load(write(tmp_path / ROOT, events), tmp_path)
    assert got.all("SELECT s.kind, t.name, t.process FROM span s JOIN track t USING (track) ORDER BY ts_ns") == [
        ("runtime", "Thread 31", None), ("kernel", "Stream 2", None), ("cpu_op", "Thread 4", None),
    ]  # fmt: skip
    assert "pid 7, 8, 9" in got.cover("track")["reason"]


def test_lanes_of_every_process(tmp_path: Path) -> None:
    events = [
        *processes(), *comm_lanes(), named(600, "Python GC"), named(700, "Fusion Task"), named(800, "Scope Layer"),
        {"ph": "M", "name": "process_labels", "pid": 700, "tid": 0, "args": {"labels": "NPU 0"}},
        span(HOST, 1, "torch/nn.py(3): forward", 1, 9, cat="python_function"),
        span(HOST, 1, "Enqueue", 2, 1, cat="enqueue"),
        span(HOST, 2, "Dequeue@aclnnAdd", 3, 1, cat="dequeue"), span(HOST, 1, "ProfilerStep#3", 4, 1, cat="cpu_op"),
        span(HOST, 1, "mine", 5, 1, cat="user_annotation"), span(600, 1, "GC", 6, 1), span(700, 1, "block", 7, 1),
        span(800, 1, "Default", 8, 1), span(OVERLAP, 0, "Computing", 9, 1), comm_op("hcom_send__210_0_1", 10, 5),
        comm_task("Memcpy", 11, 1, 0),
    ]  # fmt: skip
    got = load(write(tmp_path / ROOT, events), tmp_path)
    assert [row[0] for row in got.all("SELECT kind FROM span ORDER BY ts_ns")] == [
        "python", "enqueue", "dequeue", "step_mark", "annotation", "gc", "device_other", "host_other", "profiler_split",
        "comm_op", "comm_task",
    ]  # fmt: skip
    kinds = dict(got.all("SELECT process, any_value(kind) FROM track WHERE process <> 'Communication' GROUP BY 1"))
    assert kinds == {
        "Python": "host_thread", "Python GC": "host_thread", "Fusion Task": "other", "Scope Layer": "host_thread",
        "Overlap Analysis": "profiler",
    }  # fmt: skip


def test_events_that_cannot_be_spans_are_counted(tmp_path: Path) -> None:
    events = [
        *kernel_events(), {**task("a", 0, 0, "X"), "dur": -1},
        {"ph": "X", "name": "b", "pid": HOST, "tid": 1, "ts": "x"},
        {"ph": "X", "name": "c", "pid": HOST, "tid": 1, "ts": at(3)}, {**span(HOST, 1, "d", 4, 0), "ts": "9" * 16},
        {"ph": "B", "name": "e", "pid": HOST, "tid": 1, "ts": at(5)}, {**span(HOST, 1, "f", 6, 0), "dur": 9e15},
        {"ph": "i", "name": "g", "pid": HOST, "tid": 1, "ts": at(7)}, 5, None,
        {**span(HOST, 1, "h", 8, 0), "ts": at(8)[:-4]},
    ]  # fmt: skip
    got = load(write(tmp_path / ROOT, events), tmp_path)
    assert {row[0] for row in got.all("SELECT name FROM span")} == {"MatMul1", "g", "h"}
    cover = got.cover("span")
    assert cover["dropped"] == 8 and cover["status"] == "partial"
    for reason in ("negative duration", "no duration", "century", "phase 'B'", "wrong type: ts", "not an object"):
        assert reason in cover["reason"]


@pytest.mark.parametrize("cut", [1, 30, 200])
def test_a_cut_trace_keeps_what_is_whole(tmp_path: Path, cut: int) -> None:
    events = [*kernel_events(), *(span(HOST, 1, f"op{n}", n, 1, cat="cpu_op") for n in range(10))]
    got = load(write(tmp_path / ROOT, trace_view_json=json.dumps(events)[:-cut]), tmp_path)
    kept = got.one("SELECT count(*) FROM span")
    assert kept == 11 if cut == 1 else 5 < kept < 11
    assert got.cover("span")["status"] == "partial"
    assert any("trace_view.json" in reason for reason in got.part.reasons)


@pytest.mark.parametrize("content",
    [b"", b"{}", b"[", b"null", b"hello", b"\xff\xfe[", b'{"status": 1, "data": {}}', b"[]"])
def test_a_trace_that_is_none_leaves_the_rest(tmp_path: Path, content: bytes) -> None:
    root = write(tmp_path / ROOT, trace_view_json=content, kernel_details_csv=f"{L1}\n{KERNEL}\n")
    got = load(root, tmp_path)
    assert got.all("SELECT kind, name, dur_ns FROM span") == [("kernel", "MatMul1", 2001)]
    assert bool(got.part.reasons) == (content != b"[]")


def test_slices_are_one_trace(tmp_path: Path) -> None:
    one = [*processes(), named(HARDWARE, "Stream 2", 2, "thread_name"), task("MatMul1", 1000, 5, "AI_CORE")]
    two = [task("Add2", 2000, 5, "AI_VECTOR_CORE"), flow("s", "HostToDevice", "8", HARDWARE, 2, 2000)]
    root = tmp_path / "PROF_000001_20250818142704322_ABC"
    (root / "mindstudio_profiler_output").mkdir(parents=True)
    for number, events in enumerate((one, two)):
        path = root / "mindstudio_profiler_output" / f"msprof_slice_{number}_20250818142704.json"
        path.write_text(json.dumps(events))
    got = load(root, tmp_path)
    assert got.all("SELECT s.name, t.name FROM span s JOIN track t USING (track) ORDER BY ts_ns") == [
        ("MatMul1", "Stream 2"), ("Add2", "Stream 2"),
    ]  # fmt: skip


def test_counters_of_any_key(tmp_path: Path) -> None:
    def counter(name: str, **args: Any) -> Event:
        return {"ph": "C", "name": name, "pid": 900, "tid": 0, "ts": at(5), "args": args}

    events = [
        *kernel_events(), counter("AI Core Freq", MHz=1800), counter("HBM 0/Read", **{"Read(MB/s)": 1.5}),
        counter("write_band_width", value=3, acc_id=2), counter("Odd", **{"a b": 2, "c": "4.5", "d": "x", "e": None}),
        counter("Nan", MHz="nan"),
    ]  # fmt: skip
    got = load(write(tmp_path / ROOT, events), tmp_path)
    assert sorted(got.all("SELECT counter, series, value FROM sample WHERE ts_ns = 0")) == [
        ("AI Core Freq", "MHz", 1800.0), ("Acc PMU 2/write_bandwidth", "value", 3.0), ("HBM 0/Read", "Read(MB/s)", 1.5),
        ("Odd", "a b", 2.0), ("Odd", "c", 4.5),
    ]  # fmt: skip




def test_what_is_claimed(tmp_path: Path) -> None:
    root = write(tmp_path / ROOT, kernel_events(), profiler_info_2_json="{}", logs_txt="x")
    output = root / "ASCEND_PROFILER_OUTPUT"
    for path in (root, output):
        claim = read_torch_npu_text.sniff(path)
        assert claim is not None and claim.root == root and claim.facts.rank == 2
        assert claim.files == (output / "trace_view.json", root / "profiler_info_2.json")
    assert read_torch_npu_text.sniff(tmp_path) is None
    assert read_torch_npu_text.sniff(output / "logs.txt") is None
    lone = tmp_path / "lone"
    lone.mkdir()
    (lone / "kernel_details.csv").write_text(f"{L1}\n{KERNEL}\n")
    for path in (lone, lone / "kernel_details.csv"):
        claim = read_torch_npu_text.sniff(path)
        assert claim is not None and claim.root == lone and claim.files == (lone / "kernel_details.csv",)
    (tmp_path / "db_only_ascend_pt").mkdir()
    (tmp_path / "db_only_ascend_pt" / "profiler_info_0.json").write_text("{}")
    assert read_torch_npu_text.sniff(tmp_path / "db_only_ascend_pt") is None
