"""kernel_details under every set of columns a version wrote, and every damage of any file."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from npulens.ingest.readers.ascend import read_torch_npu_text
from npulens.ingest.readers.ascend.cells import read_csv
from npulens.ingest.tables.draft import Draft
from tests.text_export import (
    HCCL,
    HOST,
    KERNEL,
    L1,
    OP,
    ROOT,
    SHAPES,
    TENSORS,
    Event,
    at,
    load,
    named,
    processes,
    span,
    task,
    write,
)  # fmt: skip


def trace() -> list[Event]:
    return [*processes(), task("MatMul1", 1000, 2001, "KERNEL_AICORE")]


FULL = {
    "op_type": "MatMulV2", "core": "AI_CORE", "block_num": 24, "mix_block_num": 0, "op_state": "dynamic", "hf32": "NO",
    "input_shapes": "32,3;4", "input_dtypes": "FLOAT;INT32", "output_shapes": "32", "wait_ns": 500, "stream": 2,
    "task_id": 1, "model_id": None, "context_id": None,
}  # fmt: skip
BARE = dict.fromkeys(FULL) | {"core": "AI_CORE", "wait_ns": 500, "stream": 2, "task_id": 1}
HEADERS: dict[str, tuple[str, str, dict[str, Any], dict[str, float]]] = {
    "8 columns of Level0": (
        "Step Id,Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),Block Dim",
        f"5,MatMul1,N/A,N/A,{at(1000)}\t,2.001,0.5,0", BARE, {},
    ),
    "Level1": (L1, KERNEL, FULL, {"aic_mac_ratio": 0.25}),
    "Block Num and a device": (
        "Device_id," + L1.replace("Block Dim", "Block Num"), f"6,{KERNEL}", FULL, {"aic_mac_ratio": 0.25},
    ),
    "910A": (
        "Step Id,Model ID,Task ID,Stream ID,Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),"
        f"Block Dim,{TENSORS},total_time(us),total_cycles,vec_ratio,mac_ratio,memory_bound",
        f"5,4294967295,1,2,MatMul1,MatMulV2,AI_CORE,{at(1000)},2.001,0.5,24,{SHAPES},1.5,90,0.5,N/A,inf",
        FULL | {"mix_block_num": None, "op_state": None, "hf32": None},
        {"total_time(us)": 1.5, "total_cycles": 90.0, "vec_ratio": 0.5},
    ),
    "msprof": (
        f"Model ID,Task ID,Stream ID,Infer ID,Op Name,OP Type,OP State,Task Type,Task Start Time(us),Task Duration(us),"
        f"Task Wait Time(us),Block Num,Mix Block Num,HF32 Eligible,{TENSORS},Context ID,aic_mac_ratio",
        f"4294967295,1,2,3,MatMul1,MatMulV2,dynamic,AI_CORE,{at(1000)},2.001,0.5,24,0,NO,{SHAPES},N/A,0.25",
        FULL, {"aic_mac_ratio": 0.25},
    ),
    "another order and blanks": (
        " Duration(us) , Name,start time(US),Stream ID,Task ID", f"2.001,MatMul1,\"{at(1000)}\t\",2,1",
        BARE | {"wait_ns": None}, {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("version", HEADERS)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("alone", [False, True])
def test_columns_of_every_version(tmp_path: Path, version: str, newline: str, alone: bool) -> None:
    header, row, expected, metrics = HEADERS[version]
    name = "op_summary_20250109_csv" if version == "msprof" else "kernel_details_csv"
    files = {name: f"\ufeff{header}{newline}{row}{newline}"}
    got = load(write(tmp_path / ROOT, None if alone else trace(), **files), tmp_path)
    assert got.all("SELECT kind, name, ts_ns, dur_ns FROM span") == [("kernel", "MatMul1", 0, 2001)]
    found = dict(zip(expected, got.all(f"SELECT {', '.join(expected)} FROM kernel")[0], strict=True))
    if alone and "Level0" in version:
        expected = expected | {"stream": None, "task_id": None}
    assert found == expected | ({"core": expected["op_type"] and expected["core"]} if alone else {})
    assert dict(got.all("SELECT metric, value FROM pmu")) == metrics
    assert got.part.facts.get("device_id") == (6 if "device" in version else None)
    stream = "Stream ?" if alone and "Level0" in version else "Stream 2"
    assert got.all("SELECT name FROM track") == [(stream,)]


@pytest.mark.parametrize("core", ["HCCL", "COMMUNICATION", "N/A"])
@pytest.mark.parametrize("shown", [True, False])
def test_communication_rows_are_the_operators(tmp_path: Path, core: str, shown: bool) -> None:
    """On the communication lane the start may be rounded otherwise; it is one operator all the same."""
    lane = [named(HCCL, "Group 210 Communication", 0, "thread_name"), span(HCCL, 0, "hcom_send__210_0_1", 9001, 7000)]
    files = {"kernel_details_csv": f"{L1}\n{KERNEL}\n{OP.format(core)}\n"}
    got = load(write(tmp_path / ROOT, trace() + lane * shown, **files), tmp_path)
    assert sorted(got.all("SELECT kind, name, dur_ns FROM span")) == [
        ("comm_op", "hcom_send__210_0_1", 7000), ("kernel", "MatMul1", 2001),
    ]  # fmt: skip
    assert got.all("SELECT collective, group_name, op_span_id = span_id FROM comm") == [("send", "210", True)]
    assert got.all("SELECT name FROM track WHERE kind = 'comm_group'") == [("Group 210 Communication",)]


def test_a_packed_trace_is_read_where_it_lies(tmp_path: Path) -> None:
    home = write(tmp_path / ROOT, trace(), kernel_details_csv=f"{L1}\n{KERNEL}\n")
    asked = "SELECT name, kind, ts_ns, dur_ns FROM span ORDER BY ALL"
    whole = load(home, tmp_path / "whole")
    plain = home / "ASCEND_PROFILER_OUTPUT" / "trace_view.json"
    packed = plain.with_name("trace_view.json.gz")
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    both = load(home, tmp_path / "both")
    plain.unlink()
    alone = load(home, tmp_path / "alone")
    assert whole.all(asked) == both.all(asked) == alone.all(asked) != []
    assert alone.part.rows == whole.part.rows
    claim = read_torch_npu_text.sniff(home)
    assert claim is not None and packed in claim.files and read_torch_npu_text.sniff(packed) is None


def test_a_stamp_that_one_file_rounds_still_meets_its_task(tmp_path: Path) -> None:
    row = KERNEL.replace(at(1000), at(1000)[:-2])
    events = [*processes(), task("MatMul1", 1040, 2001, "KERNEL_AICORE")]
    got = load(write(tmp_path / ROOT, events, kernel_details_csv=f"{L1}\n{row}\n"), tmp_path)
    assert got.all("SELECT op_type FROM kernel JOIN span USING (span_id)") == [("MatMulV2",)]


@pytest.mark.parametrize("start", ["1.73641E+15", "1.73640888300000E+15"])
def test_stamps_that_a_spreadsheet_rounded_are_refused_and_sums_kept(tmp_path: Path, start: str) -> None:
    """Two kernels of 2001 ns: nobody knows when, so they are a sum and no spans."""
    row = KERNEL.replace(at(1000), start)
    got = load(write(tmp_path / ROOT, kernel_details_csv=f"{L1}\n{row}\n{row}\n"), tmp_path)
    assert got.one("SELECT count(*) FROM span") == 0
    assert got.all("SELECT source, name, category, count, total_ns, min_ns FROM summary") == [
        ("kernel_details", "MatMulV2", "AI_CORE", 2, 4002, 2001)
    ]
    assert got.cover("kernel")["dropped"] == 2
    assert any("rounded, probably by a spreadsheet" in str(reason) for reason in got.part.reasons)


def test_kernels_of_one_file_only_are_kept(tmp_path: Path) -> None:
    other = KERNEL.replace(at(1000), at(50_000)).replace("MatMul1", "Lost1").replace(",1,2,", ",7,6,")
    events = [*trace(), task("Seen1", 9000, 5, "AI_CORE", 2, 8)]
    got = load(write(tmp_path / ROOT, events, kernel_details_csv=f"{L1}\n{KERNEL}\n{other}\n"), tmp_path)
    placed = "kernel JOIN span s USING (span_id) JOIN track t USING (track)"
    found = got.all(f"SELECT s.name, t.name, op_type FROM {placed} ORDER BY 1")
    assert found == [("Lost1", "Stream 6", "MatMulV2"), ("MatMul1", "Stream 2", "MatMulV2"),
        ("Seen1", "Stream 2", None)]
    assert "1 tasks come from kernel_details alone" in got.cover("span")["reason"]
    assert "1 kernels of the trace are not in kernel_details" in got.cover("kernel")["reason"]


def test_steps_without_marks_are_those_of_kernel_details(tmp_path: Path) -> None:
    rows = [KERNEL, KERNEL.replace(at(1000), at(5000)), "6" + KERNEL.replace(at(1000), at(9000))[1:]]
    got = load(write(tmp_path / ROOT, kernel_details_csv="\n".join([L1, *rows, ""])), tmp_path)
    assert got.all("SELECT step, ts_ns, device_ts_ns, device_dur_ns, source FROM step ORDER BY step") == [
        (5, 0, 0, 6001, "kernel_details"), (6, 8000, 8000, 2001, "kernel_details"),
    ]  # fmt: skip


ENGINE = [
    (["execute_context_1(8_64)_generation_0(0)", "execute_context_0(0)_generation_4(4)"], ["prefill", "decode"]),
    (["execute_context_2(9)_generation_3(3)", "execute_7_context_0(sq4sk4)_generation_1(1)"], ["mixed", "decode"]),
    (["execute_model", "execute_model"], [None, None]),
]


@pytest.mark.parametrize("cat", ["cpu_op", "user_annotation"])
@pytest.mark.parametrize("names, phases", ENGINE)
def test_annotations_of_a_serving_engine_are_steps(
    names: list[str], phases: list[str | None], cat: str, tmp_path: Path
) -> None:
    """What lies within another of them, on another thread or is a Python function's name is none."""
    marks = [span(HOST, 1, name, begin, 800, cat=cat) for name, begin in zip(names, (1000, 3000), strict=True)]
    inner, other = span(HOST, 1, names[0], 1100, 50, cat=cat), span(HOST, 2, names[1], 5000, 60, cat=cat)
    python = span(HOST, 1, "execute_model", 900, 5000, cat="python_function")
    got = load(write(tmp_path / ROOT, [*processes(), *marks, inner, other, python]), tmp_path)
    columns = "step, ts_ns - (SELECT min(ts_ns) FROM span), dur_ns, host_dur_ns, phase, source"
    assert got.all(f"SELECT {columns} FROM step") == [
        (0, 100, 2000, 800, phases[0], "engine annotation"), (1, 2100, 800, 800, phases[1], "engine annotation"),
    ]  # fmt: skip
    assert got.one("SELECT count(*) FROM span WHERE kind = 'step_mark'") == 4


def test_steps_of_the_profiler_come_before_those_of_an_engine(tmp_path: Path) -> None:
    marks = [span(HOST, 1, name, 1000, 800, cat="cpu_op") for name in ("ProfilerStep#4", ENGINE[0][0][0])]
    got = load(write(tmp_path / ROOT, [*processes(), *marks]), tmp_path)
    assert got.all("SELECT step, phase, source FROM step") == [(4, None, "ProfilerStep")]


# --- damage


DAMAGE = {
    "ragged": (f"{L1}\n{KERNEL},more\n5,1,2\n{KERNEL}\n", 2, True),
    "cut off": (f"{L1}\n{KERNEL}\n5,4294967295,1,2,MatM", 1, True),
    "an open quote": (f'{L1}\n{KERNEL}\n5,"1,2\n{KERNEL}\n', 1, True),
    "no UTF-8": (f"{L1}\n{KERNEL}\n".encode().replace(b"MatMulV2", b"Mat\xff\xfeV2"), 1, False),
    "NUL": (f"{L1}\n{KERNEL}\n".encode().replace(b"MatMulV2", b"Mat\0V2"), 1, False),
    "numbers that are none": (f"{L1}\n{KERNEL}\n{KERNEL.replace('2.001', 'inf')}\n{KERNEL.replace('2.001', '-1')}\n",
    1, True),
    "stamps of no time": (f"{L1}\n{KERNEL}\n{KERNEL.replace(at(1000), '9' * 30)}\n{KERNEL.replace(at(1000), '')}\n",
    1, True),
    "header only": (f"{L1}\n", 0, False),
    "header without end": (L1, 0, False),
    "blank lines": (f"{L1}\n\n{KERNEL}\n\n", 1, False),
    "a cell of 5 MB": (f"{L1}\n{KERNEL.replace('MatMulV2', 'x' * (5 << 20))}\n{KERNEL}\n", 2, False),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_rows_cost_themselves_alone(tmp_path: Path, damage: str) -> None:
    content, kernels, partial = DAMAGE[damage]
    root = write(tmp_path / ROOT, kernel_details_csv=content, operator_memory_csv="Name,Size(KB)\na,1\n")
    got = load(root, tmp_path)
    assert got.one("SELECT count(*) FROM kernel") == kernels
    assert (got.cover("kernel")["status"] == "partial") == partial
    assert got.one("SELECT sum(bytes) FROM memory_event") == 1024
    if damage == "ragged":
        assert "2 rows of kernel_details.csv" in got.cover("kernel")["reason"]
        assert got.cover("kernel")["dropped"] == 1


@pytest.mark.parametrize("name", ["memory_record", "operator_memory", "step_trace_time", "op_statistic", "l2_cache"])
@pytest.mark.parametrize("content", ["", "\n", "nonsense", "a,b\n1,2\n", '"', "\0\0\0", ",,,\n,,,\n"])
def test_any_content_of_any_file_is_survived(tmp_path: Path, name: str, content: str) -> None:
    got = load(write(tmp_path / ROOT, trace(), **{f"{name}_csv": content}), tmp_path)
    assert got.one("SELECT count(*) FROM kernel") == 1


@pytest.mark.parametrize("name", ["communication", "communication_matrix"])
@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{", b'{"step1": 5}', b'{"step1": {"p2p": [1]}}', b'{"step1": {"collective": {"a@1": {"0-1": 7}}}}',
     b'{"step1": {"collective": {"hcom_send__210_0_1@5": {"Communication Time Info": [], "0-1": {}}}}}',
     b'{"step1": {"collective": {"a@1": {"Communication Time Info": {"Wait Time(ms)": 1e400}, "0-1": {"x": 1e400}}}}}',
     b'{"a":' * 5000, b"\xff"],
)  # fmt: skip
def test_any_analysis_is_survived(tmp_path: Path, name: str, content: bytes) -> None:
    got = load(write(tmp_path / ROOT, trace(), **{f"{name}_json": content}), tmp_path)
    assert got.one("SELECT count(*) FROM kernel") == 1
    cover = got.cover("comm" if name == "communication" else "comm_link")
    assert cover["status"] == "partial" or cover["dropped"] or cover["reason"] or cover["rows"] or content == b"[]"




def test_a_wide_table_is_read_to_its_last_column(tmp_path: Path) -> None:
    """A step of MindSpore has three columns for each of its collectives, over a thousand in all."""
    (tmp_path / "wide.csv").write_text(",".join(f"c{n}" for n in range(1_200)) + "\n" + ",".join(["7"] * 1_200) + "\n")
    draft = Draft(tmp_path / "draft", 0)
    found = read_csv(tmp_path / "wide.csv", draft, "wide")
    assert found is not None and len(found.columns) == 1_200
    assert draft.con.execute("SELECT c1199 FROM wide").fetchall() == [("7",)]
    (tmp_path / "wider.csv").write_text(",".join(f"c{n}" for n in range(8_003)) + "\n" + ",".join(["7"] * 8_003) + "\n")
    more = read_csv(tmp_path / "wider.csv", draft, "wider")
    assert more is not None and len(more.columns) == 8_000
    assert "3 columns of wider.csv are not read" in [str(note) for note in draft.covers["span"].notes]
