"""An operator in msprof op's simulator: directories made as its source says, figures worked out by hand."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from npulens import ingest
from npulens.analysis.split import breakdown
from npulens.ingest.loading import capture
from npulens.ingest.store import runs as store

Event = dict[str, Any]
VEC, CUBE = "core0.veccore0", "core0.cubecore0"
KERNEL = "/home/me/add, v2.cpp"


def one(name: str, core: str, pipe: str, ts: float, dur: float, **args: str) -> Event:
    """An instruction."""
    return {"args": {"code": "", "detail": "", "pc_addr": "0x1", **args}, "cname": "startup", "dur": dur, "name": name,
            "ph": "X", "pid": core, "tid": pipe, "ts": ts}  # fmt: skip


def flag(name: str, core: str, pipe: str, ts: float, until: float, number: int) -> list[Event]:
    """A flag: two events with one id."""
    begin = {"args": {"detail": "PIPE:MTE2"}, "id": f"{core}_{number}", "name": name, "pid": core, "tid": pipe}
    return [{**begin, "ph": "B", "ts": ts}, {**begin, "ph": "E", "ts": until}]


EVENTS: list[Event] = [
    {"name": "process_sort_index", "ph": "M", "pid": VEC, "tid": "NA", "args": {"sort_index": 2}},
    one("VADD", VEC, "VECTOR", 3.0, 1.5, code=f"{KERNEL}:2"),
    one("MOV_OUT_TO_UB", VEC, "MTE2", 1.0, 2.0009765625),
    one("MMAD", CUBE, "CUBE", 2.5, 0.0010000000474974513),
    *flag("WAIT_FLAG", VEC, "VECTOR", 1.0, 3.0, 7),
    {"name": "flow", "id": f"{VEC}_7", "ph": "s", "ts": 3.0, "pid": VEC, "tid": "MTE2", "cat": "MTE2ToVECTOR"},
    {"name": "flow", "id": f"{VEC}_7", "ph": "t", "ts": 3.0, "pid": VEC, "tid": "VECTOR", "cat": "MTE2ToVECTOR"},
    {"name": "GM_TO_UB", "ph": "C", "pid": "MTE Throughput", "tid": 0, "ts": 2, "args": {"throughput(MB/s)": 3906.25}},
]
LINES = f"code,call_count,cycles,running_time(us)\n{KERNEL}:2,8,3000,1.500000\n{KERNEL}:1,4,90,0.050000\n"
INSTRUCTIONS = (
    "instr,addr,pipe,call_count,cycles,running_time(us),detail\n"
    "VADD,303693832,VECTOR,8,3000,1.500000,XD:X29=0x107f80,IMM:0x10,\n"
)


def block(kind: int, content: bytes, path: str | None = None) -> bytes:
    """One block of visualize_data.bin: filled up to four bytes, which the header counts."""
    pad = -len(content) % 4
    head = struct.pack("<QBBBB", len(content) + pad, kind, pad, 0x5A, 0x5A)
    return head + (b"" if path is None else path.encode().ljust(4096, b"\0")) + content + b"\0" * pad


def binary(cores: Sequence[str] = (CUBE, VEC)) -> bytes:
    """Source, what is counted by line, a block that nobody reads, and the device."""
    line = {"Line": 2, "Cycles": [10, 3000], "Instructions Executed": [1, 8], "Address Range": [["0x1", "0x2"]],
            "Process Bytes": [-1, 4096], "L2Cache Hit Rate": "NA"}  # fmt: skip
    counted = {"Cores": list(cores), "Files": [{"Source": KERNEL, "Lines": [line]}]}
    return (
        block(0x1, b"void add() {\n    Add(z, x, y, 64);\n}\n", KERNEL)
        + block(0xE, b"\x01\x02\x03")
        + block(0x3, json.dumps(counted).encode())
        + block(0x5, b'{"name": "add", "soc": "Ascend910B3"}')
    )


def write(directory: Path, events: Sequence[Event] = EVENTS, lines: str | None = LINES) -> Path:
    """A directory as the simulator leaves it."""
    place = directory / "simulator"
    (place / VEC).mkdir(parents=True)
    (place / CUBE).mkdir()
    (directory / "dump").mkdir()
    (directory / "dump" / f"{VEC}.instr_log.dump").write_text("[info] [00001000] ...\n")
    if lines is not None:
        (place / VEC / f"{VEC}_code_exe_20240429111143146.csv").write_text(lines)
        (place / VEC / f"{VEC}_instr_exe_20240429111143146.csv").write_text(INSTRUCTIONS)
    (place / VEC / "trace.json").write_text('{"traceEvents": []}')
    head = {"displayTimeUnit": "ns", "profilingType": "op", "schemaVersion": 2}
    (place / "trace.json").write_text(json.dumps({**head, "traceEvents": list(events)}, separators=(",", ":")))
    (place / "visualize_data.bin").write_bytes(binary())
    return directory


def load(path: Path, place: Path) -> ingest.LoadedRun:
    (run,) = ingest.load(path, place).runs
    return run


def test_every_instruction_lies_on_its_pipe(tmp_path: Path) -> None:
    run = load(write(tmp_path / "OPPROF_20250101_ABC"), tmp_path / "store")
    assert (run.formats, run.status) == (("opprof_simulator",), "complete")
    con = store.open_run(tmp_path / "store", str(run.run_id))
    spans = """SELECT process, track.name, span.kind, span.name, ts_ns, dur_ns FROM span JOIN track USING (track)
        ORDER BY sort, ts_ns"""
    assert con.execute(spans).fetchall() == [
        (CUBE, "CUBE", "device_other", "MMAD", 1500, 1), (VEC, "MTE2", "device_other", "MOV_OUT_TO_UB", 0, 2001),
        (VEC, "VECTOR", "wait", "WAIT_FLAG", 0, 2000), (VEC, "VECTOR", "device_other", "VADD", 2000, 1500),
    ]  # fmt: skip
    assert con.execute("SELECT device_name, backend FROM rank").fetchall() == [("Ascend910B3", "npu")]
    assert con.execute("SELECT counter, series, ts_ns, value FROM sample").fetchall() == [
        ("MTE Throughput/GM_TO_UB", "MB/s", 1000, 3906.25)]  # fmt: skip
    args = con.execute("SELECT args FROM arg JOIN span USING (span_id) WHERE name = 'VADD'").fetchall()[0][0]
    assert json.loads(args)["code"] == f"{KERNEL}:2"
    reasons = {row["table"]: row["reason"] for row in run.coverage}
    assert "do not name the operator" in reasons["kernel"] and "arrows" in reasons["link"]
    (row,) = breakdown(con)
    assert row.computing_ns is None, "instructions are no kernels"


def test_lines_hold_what_they_took_and_their_source(tmp_path: Path) -> None:
    """A path may hold commas, and so may the detail of an instruction: neither is quoted."""
    run = load(write(tmp_path / "a"), tmp_path / "store")
    con = store.open_run(tmp_path / "store", str(run.run_id))
    rows = con.execute("SELECT source, name, category, count, total_ns, args FROM summary ORDER BY source, name")
    told = [(*row[:5], json.loads(row[5])) for row in rows.fetchall()]
    assert told == [
        ("OPPROF instruction", "VADD", VEC, 8, 1500,
         {"addr": "303693832", "pipe": "VECTOR", "cycles": "3000", "detail": "XD:X29=0x107f80,IMM:0x10,"}),
        ("OPPROF line", f"{KERNEL}:1", VEC, 4, 50, {"cycles": "90", "source": "void add() {"}),
        ("OPPROF line", f"{KERNEL}:2", VEC, 8, 1500, {"cycles": "3000", "source": "Add(z, x, y, 64);"}),
    ]  # fmt: skip


def test_without_csv_files_the_binary_says_what_lines_took(tmp_path: Path) -> None:
    run = load(write(tmp_path / "a", lines=None), tmp_path / "store")
    con = store.open_run(tmp_path / "store", str(run.run_id))
    rows = con.execute("SELECT name, category, count, args FROM summary ORDER BY category").fetchall()
    assert [(name, core, times) for name, core, times, _ in rows] == [
        (f"{KERNEL}:2", CUBE, 1), (f"{KERNEL}:2", VEC, 8)]  # fmt: skip
    assert [json.loads(args)["Process Bytes"] for *_, args in rows] == [-1, 4096]


def test_a_trace_on_its_own_is_read_and_not_taken_for_a_job_s(tmp_path: Path) -> None:
    made = write(tmp_path / "a") / "simulator" / "trace.json"
    alone = tmp_path / "b" / "mine.json"
    alone.parent.mkdir()
    alone.write_bytes(made.read_bytes())
    run = load(alone, tmp_path / "store")
    assert run.formats == ("opprof_simulator",)
    con = store.open_run(tmp_path / "store", str(run.run_id))
    assert con.execute("SELECT count(*) FROM span").fetchall() == [(4,)]


@pytest.mark.parametrize("cut", [5, 200, 4200])
def test_a_cut_binary_is_told_and_the_rest_is_kept(cut: int, tmp_path: Path) -> None:
    made = write(tmp_path / "a")
    (made / "simulator" / "visualize_data.bin").write_bytes(binary()[:cut])
    run = load(made, tmp_path / "store")
    assert run.run_id and "visualize_data.bin" in str({row["table"]: row["reason"] for row in run.coverage}["summary"])


def test_bad_events_and_rows_are_counted(tmp_path: Path) -> None:
    bad: list[Event] = [
        {"ph": "X", "name": "no time", "pid": VEC, "tid": "MTE2", "dur": 1},
        {"ph": "B", "name": "SET_FLAG", "pid": VEC, "tid": "MTE2", "ts": 5, "id": "open"},
        {"ph": "C", "name": "GM_TO_UB", "pid": "MTE Throughput", "tid": 0, "ts": 9,
         "args": {"throughput(MB/s)": "not a number"}},
    ]  # fmt: skip
    run = load(write(tmp_path / "a", [*EVENTS, *bad], LINES + "no cells\n,1,2,3\n"), tmp_path / "store")
    dropped = {row["table"]: row["dropped"] for row in run.coverage}
    assert (dropped["span"], dropped["sample"], dropped["summary"]) == (2, 1, 2)


def test_nothing_to_show_is_a_reason(tmp_path: Path) -> None:
    made = write(tmp_path / "a", [], "")
    for file in (made / "simulator" / VEC).glob("*.csv"):
        file.unlink()
    (made / "simulator" / "visualize_data.bin").unlink()
    run = load(made, tmp_path / "store")
    assert run.run_id is None and run.error and run.error["kind"] == "empty"


def test_directories_that_only_look_alike_are_nobody_s(tmp_path: Path) -> None:
    (tmp_path / "simulator" / "core0.veccore0").mkdir(parents=True)
    assert not capture.find([tmp_path]).sources
