"""Levels and generations, Kineto, long traces and the bundled samples: more files of a simulated job."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from npulens.collectors.simulator.job import Task
from npulens.collectors.simulator.simulated import (
    AscendOptions,
    write_both,
    write_db,
    write_kineto,
    write_kineto_file,
    write_text,
    write_trace_view,
)
from tests.simjob import (
    KINETO,
    database,
    expected_links,
    expected_spans,
    expected_transfers,
    job,
    ns,
    processes,
    rows,
)

ROOT = Path(__file__).resolve().parent.parent


def test_level0_leaves_out_what_it_does_not_record(tmp_path: Path) -> None:
    home = write_both(job(), tmp_path, AscendOptions("Level0"), ranks=[0])[0]
    output = home / "ASCEND_PROFILER_OUTPUT"
    for name in ("communication.json", "op_statistic.csv", "api_statistic.csv"):
        assert not (output / name).exists()
    kernels = rows(output / "kernel_details.csv")
    assert len(kernels[0]) == 9 and {row["Accelerator Core"] for row in kernels} == {"N/A", "COMMUNICATION"}
    trace = json.loads((output / "trace_view.json").read_text())
    process = processes(trace)
    assert "CANN" not in process.values()
    unnamed = {e["name"].rstrip("0123456789") for e in trace if e["pid"] not in process}
    assert unnamed == {"HostToDevice"}, "arrows start in a process that has no name"
    con = database(home, 0)
    assert not con.execute("SELECT 1 FROM sqlite_master WHERE name = 'TASK_PMU_INFO'").fetchall()
    assert con.execute("SELECT DISTINCT s(opType), s(inputShapes) FROM COMPUTE_TASK_INFO").fetchall() == [
        ("N/A", "N/A")
    ]


def test_level2_adds_runtime_calls_and_transfers(tmp_path: Path) -> None:
    record = job().ranks[0]
    home = write_both(job(), tmp_path, AscendOptions("Level2"), ranks=[0])[0]
    trace = json.loads((home / "ASCEND_PROFILER_OUTPUT/trace_view.json").read_text())
    assert any(e["name"] == "Runtime@KernelLaunchWithHandle" for e in trace)
    names = {"host to device": "h2d", "device to host": "d2h", "device to device": "d2d"}
    copies = [e for e in trace if e["name"] == "MEMCPY_ASYNC"]
    found = sorted((ns(e["ts"]), names[e["args"]["operation"]], e["args"]["size(B)"]) for e in copies)
    stored = database(home, 0).execute(
        "SELECT t.startNs, e.name, m.size FROM MEMCPY_INFO m JOIN TASK t USING (globalTaskId)"
        " JOIN ENUM_MEMCPY_OPERATION e ON e.id = m.memcpyOperation"
    )
    assert found == expected_transfers(record) == sorted((ts, names[name], size) for ts, name, size in stored)


def test_the_older_generation(tmp_path: Path) -> None:
    home = write_both(job(), tmp_path, AscendOptions("Level1", "2025-01"), ranks=[0])[0]
    trace = json.loads((home / "ASCEND_PROFILER_OUTPUT/trace_view.json").read_text())
    assert "HCCL" in processes(trace).values()
    assert {e["args"]["labels"] for e in trace if e["name"] == "process_labels"} == {"CPU", "NPU"}
    kernels = rows(home / "ASCEND_PROFILER_OUTPUT/kernel_details.csv")
    assert len(kernels[0]) == 46 and "Block Dim" in kernels[0] and "Device_id" not in kernels[0]
    con = database(home, 0)
    columns = {row[1] for row in con.execute("PRAGMA table_info(COMPUTE_TASK_INFO)")}
    assert "blockDim" in columns and "blockNum" not in columns
    assert "deviceId" not in {row[1] for row in con.execute("PRAGMA table_info(COMMUNICATION_OP)")}
    assert json.loads((home / "profiler_info_0.json").read_text()).keys() == {
        "config",
        "start_info",
        "end_info",
        "rank_id",
    }


def test_kineto_keeps_every_nanosecond_and_arrow(tmp_path: Path) -> None:
    whole = job(task_queue=False)
    record = whole.ranks[1]
    path = write_kineto(whole, tmp_path, "cuda", gz=True, ranks=[1])[0]
    content = json.loads(gzip.decompress(path.read_bytes()), parse_float=str)
    zero, events = content["baseTimeNanoseconds"], content["traceEvents"]
    assert (content["schemaVersion"], content["distributedInfo"]["rank"]) == (1, 1)
    kinds = {"user_annotation": "annotation", "python_function": "python", "cuda_runtime": "runtime"}
    kinds |= {"gpu_memcpy": "memcpy", "gpu_memset": "memset"}
    found = Counter()
    for event in events:
        if event["ph"] == "X" and event["cat"] not in ("Trace", "gpu_user_annotation"):
            kind = kinds.get(event["cat"], event["cat"])
            kind = "step_mark" if event["name"].startswith("ProfilerStep#") else kind
            kind = "comm_op" if kind == "kernel" and "Collective name" in event["args"] else kind
            found[kind, zero + ns(event["ts"]), ns(event["dur"])] += 1
    assert found == Counter((row.kind, row.ts_ns, row.dur_ns) for row in expected_spans(record, KINETO))
    ends: dict[tuple[str, Any], dict[str, int]] = {}
    for event in events:
        if event["ph"] in "sf":
            ends.setdefault((event["cat"], event["id"]), {})[event["ph"]] = zero + ns(event["ts"])
    arrows = {(name, marks["s"], marks["f"]) for (name, _), marks in ends.items()}
    undrawn = {span.ts_ns for span in record.spans if isinstance(span.detail, Task)}
    wanted = {("ac2g", s, t) for _, s, t in expected_links(record, "host_to_device") if t not in undrawn}
    assert arrows == wanted | expected_links(record, "fwdbwd")
    externals = {e["args"]["External id"] for e in events if e.get("cat") in ("cpu_op", "user_annotation")}
    tasks = [e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    assert tasks and all(e["args"]["External id"] in externals for e in tasks)


@pytest.mark.parametrize("device", ["rocm", "npu"])
def test_kineto_of_other_devices_is_valid(tmp_path: Path, device: str) -> None:
    path = write_kineto(job(ranks=2), tmp_path, device, ranks=[0])[0]
    events = json.loads(path.read_text())["traceEvents"]
    runtime = {"rocm": ("cuda_runtime", "hipLaunchKernel"), "npu": ("privateuse1_runtime", "Node@launch")}[device]
    assert any((e.get("cat"), e["name"]) == runtime for e in events)
    assert any(e.get("args", {}).get("Collective name") == "allreduce" for e in events if e.get("cat") == "kernel")


@pytest.mark.parametrize(("write", "name"), [(write_trace_view, "a.json"), (write_kineto_file, "a.json.gz")])
def test_long_traces_have_the_events_asked_for(tmp_path: Path, write: Any, name: str) -> None:
    path = tmp_path / name
    assert write(path, 30_000, 1) == 30_000
    raw = gzip.decompress(path.read_bytes()) if name.endswith("gz") else path.read_bytes()
    content = json.loads(raw)
    events = content if isinstance(content, list) else content["traceEvents"]
    assert len(events) == 30_000
    marks = [e["name"] for e in events if e["name"].startswith("ProfilerStep#") and "gpu" not in e["cat"]]
    assert len(marks) == len(set(marks)) > 6, "steps go on from lap to lap"
    starts = Counter((e["cat"], e["id"]) for e in events if e["ph"] == "s")
    assert set(starts.values()) == {1}, "ids of one lap do not return in another"
    again = tmp_path / f"again-{name}"
    write(again, 30_000, 1)
    assert again.read_bytes() == path.read_bytes()


def test_writing_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_text(job(), tmp_path / name, ranks=[1])
        write_db(job(), tmp_path / name / "db", ranks=[1])
    files = [path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file()]
    assert len(files) == 18
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes(), file


def test_the_bundled_samples_are_what_the_command_makes(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "npulens.collectors.samples", str(tmp_path)], check=True, cwd=ROOT)
    made = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file())
    bundled = ROOT / "sample_traces"
    kept = [path.relative_to(bundled) for home in tmp_path.iterdir() for path in (bundled / home.name).rglob("*")]
    assert made == sorted(path for path in kept if (bundled / path).is_file())
    assert sum((tmp_path / path).stat().st_size for path in made) < 4_000_000
    for path in made:
        assert (tmp_path / path).read_bytes() == (bundled / path).read_bytes(), path
    for home in tmp_path.iterdir():
        manifest = json.loads((home / "manifest.json").read_text())
        assert (manifest["evidence"], manifest["licence"]) == ("simulated", "Apache-2.0")
