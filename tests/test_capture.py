"""What an upload holds: claimed, passed over, or refused by its name."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from npulens.ingest.loading import capture, refuse
from tests.test_store import kineto


def kinds(path: Path) -> list[str]:
    return [error.kind for error in capture.find([path]).refused]


#: The beginnings of Chrome traces that XLA's profiler and rocmProfileData's rpd2tracing.py write.
XLA = (
    b'{"displayTimeUnit": "ns", "traceEvents": '
    b'[{"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "%s"}}, {}]}'
)
ROCM = (
    b'[ {}\n,{"name": "process_name", "ph": "M", "pid":"2","args":{"name":"GPU2"}}\n'
    b',{"name":"thread_name","ph":"M","pid":"7","tid":"7","args":{"name":"Hip 7"}}\n'
    b',{"pid":"2","tid":"0","name":"k","ts":"8306017670485","dur":"9","ph":"X","args":{"desc":"KernelExecution"}}\n]'
)

ROCPROF = (
    b'{ "traceEvents":[{}\n,{"args":{"name":"0 CPU HIP API"},"ph":"M","pid":2,"name":"process_name","sort_index":0}\n'
    b',{"args":{"name":"1 GPU0"},"ph":"M","pid":6,"name":"process_name"}\n'
    b',{"ts":"5","dur":"9","ph":"X","name":"k","pid":"6","tid":"0","args":{"BeginNs":"5000","EndNs":"14000"}}]}'
)


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.zip", b"PK\x03\x04rest", "zip_archive"),
        ("a.pickle", b"\x80\x04\x95rest", "pickle"),
        ("a.json", b'{"nodes": []}', "unknown_json"),
        ("a.json", "[{}]".encode("utf-16"), "utf16"),
        ("a.db", b"SQLite format 3\0" + bytes(100), "bad_sqlite"),
        ("a.nsys-rep", b"whatever", "nsight_systems"),
        ("a.xplane.pb", b"\x0a\x0b", "xplane"),
        ("host.trace.json", XLA % b"/device:GPU:0", "xla_trace"),
        ("perfetto_trace.json", XLA % b"/host:CPU", "xla_trace"),
        ("a.json", XLA % b"/devices", "unknown_json"),
        ("a.json", XLA % b"/job:localhost/replica:0/task:0/device:GPU:0 Compute", "tf_timeline"),
        ("a.json", XLA % b"/job:worker/replica:0/task:0/gpu:0 Tensors", "tf_timeline"),
        ("a.json", b'[\n{"ph": "i", "name": "CYCLE_START", "ts": 1410488741507, "s": "g"},\n', "horovod_timeline"),
        ("a.json", b'[\n{"ph": "B", "name": "NEGOTIATE_ALLREDUCE", "ts": 5, "pid": 1},\n', "horovod_timeline"),
        ("result.json", b'{"traceEvents": [{"ts": 5.1, "ph": "X", "cat": "fee", "dur": 1},', "viztracer"),
        ("result.json", b'{"viztracer_metadata": {"version": "0.15.6"}, "traceEvents": [', "viztracer"),
        ("result.json", ROCM, "rocm_profile_data"),
        ("rpd.json", b'{"traceEvents": ' + ROCM + b"}", "rocm_profile_data"),
        ("a.txt", b"hello", "unknown_format"),
        ("t.pt.trace.json", b'{"schema": "1.0.2-chakra.0.0.4", "pid": 1, "time": "x", "nodes": [', "chakra"),
        ("a.et", b"\x08\x12schema", "chakra"),
        (
            "chrome_tracing.json",
            b'{"traceEvents": [{"name": "CPU Usage", "ph": "C", "cat": "Metrics"}]}',
            "service_drawing",
        ),
        ("a.json", b'{"rocprofiler-sdk-tool": [{"metadata": {', "rocprofiler"),
        ("PipeUtilization.csv", b"block_id,sub_block_id,aic_time(us)\n0,cube0,1.2\n", "part_of_opprof"),
        ("results.json", ROCPROF, "rocprofiler"),
        ("7_kernel_trace.csv", b'"Kind","Agent_Id","Queue_Id","Kernel_Id"\n"KERNEL_DISPATCH",1,1,42\n', "rocprofiler"),
        ("7_hip_api_trace.csv", b'"Domain","Function","Process_Id"\n"HIP_RUNTIME_API","hipMalloc",7\n', "rocprofiler"),
        ("a.json", b'{"status": 0, "info": "", "data": {"x": 1}}', "old_ascend"),
        ("a.json", b'{"status": 0, "data": ["0"]}', "old_ascend"),
        ("a.json", b'{"status":1,"info":"Parse op statistic data failed!"}', "old_ascend"),
        ("a.json", b'{"status": "ready", "data": {"x": 1}}', "unknown_json"),
        ("a.json", b'{"segments": [], "device_traces": [[]]}', "memory_snapshot"),
        ("a.json", b'[{"name": "aten::mm", "ts": 1.5, "tid": 0, "pid": "CUDA functions"}]', "autograd_profiler"),
        ("a.json", b"\n <!DOCTYPE html><title>403</title>", "html"),
        ("a.json", b"<?xml version='1.0'?><Error><Code>AccessDenied</Code>", "xml"),
        ("a.json", b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 2\n", "git_lfs"),
        ("events.out.tfevents.1.host", b"x" * 30, "tensorboard"),
        ("a.bin", b"\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22\t\0\0\xc0*\x02\xd8AA\x1a\rbrain.Event:2", "tensorboard"),
        ("a", b"7z\xbc\xaf\x27\x1c\0\x04", "foreign_archive"),
        ("a.zip", b"Rar!\x1a\x07\x01\0", "foreign_archive"),
        ("a.cpio", b"070701000000", "foreign_archive"),
        ("a.z01", b"PK\x07\x08PK\x03\x04", "multi_volume"),
        ("job.tar.gz.aa", b"\x01\x02\x03", "multi_volume"),
        ("core.123", b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x04\0", "core_dump"),
        ("prog", b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\0", "program"),
        ("a.pftrace", b"\x0a\x10abc", "perfetto"),
        ("a.ncu-rep", b"NVR\0", "nsight_compute"),
        ("kernels.csv", b"kernel_name,count\n", "report"),
        ("a.png", b"\x89PNG\r\n", "picture"),
        ("a.parquet", b"PAR1", "arrays"),
        ("trace_copy.json", bytes(5000), "zeros"),
        ("a.json", b"", "empty"),
    ],
)
def test_a_file_nobody_reads_is_refused_by_its_name(name: str, content: bytes, kind: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    assert kinds(tmp_path / name) == [kind]


@pytest.mark.parametrize(
    ("tables", "kind"),
    [
        (("CUPTI_ACTIVITY_KIND_KERNEL", "StringIds"), "nsight_systems"),
        (("rocpd_api", "rocpd_op", "rocpd_copyapi"), "rocm_profile_data"),
        (("rocpd_info_node_1f", "rocpd_kernel_dispatch_1f", "rocpd_string_1f"), "rocprofiler"),
        (("a", "b"), "unknown_database"),
    ],
)
def test_a_database_is_named_by_its_tables(tables: tuple[str, ...], kind: str, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "x.sqlite")) as database:
        for table in tables:
            database.execute(f"CREATE TABLE {table}(x)")
    assert kinds(tmp_path / "x.sqlite") == [kind]


def test_what_looks_like_a_capture_is_named_before_sources(tmp_path: Path) -> None:
    """Of 30 sources and two tables of rocprof, 20 files are named one by one."""
    for number in range(30):
        (tmp_path / f"a{number:02}.cpp").write_text("int main() {}")
    (tmp_path / "results.json").write_bytes(ROCPROF)
    with closing(sqlite3.connect(tmp_path / "results.db")) as database:
        for table in ("HIP", "KERN", "OPS", "COPY"):
            database.execute(f"CREATE TABLE {table}(x)")
    assert kinds(tmp_path)[:3] == ["rocprofiler", "rocprofiler", "unknown_format"]


def test_every_refusal_says_what_it_is_in_a_sentence() -> None:
    for sign in refuse.SIGNS:
        assert 20 < len(sign.text) < 300 and not sign.text.endswith("."), sign
        assert sign.magic or sign.inside or sign.name, sign


def test_raw_directories_say_how_to_parse_them(tmp_path: Path) -> None:
    (tmp_path / "PROF_000001_20260101000000000_ABC" / "host" / "data").mkdir(parents=True)
    (tmp_path / "host_1_20260101000000000_ascend_pt" / "FRAMEWORK").mkdir(parents=True)
    found = capture.find([tmp_path]).refused
    assert {error.kind for error in found} == {"raw_msprof", "raw_torch_npu"}
    assert any("msprof --export=on" in error.message for error in found)
    assert any("analyse(" in error.message for error in found)


def test_notes_beside_a_capture_are_passed_over_in_silence(tmp_path: Path) -> None:
    kineto(tmp_path / "job" / "trace.json")
    (tmp_path / "job" / "manifest.json").write_text(json.dumps({"what": "a sample"}))
    (tmp_path / "job" / "README.md").write_text("notes")
    (tmp_path / "job" / "kernels.csv").write_text("a,b")
    found = capture.find([tmp_path])
    assert [source.files[0].name for source in found.sources] == ["trace.json"]
    assert found.refused == ()


def test_an_empty_directory_and_a_missing_path(tmp_path: Path) -> None:
    assert kinds(tmp_path) == ["empty"]
    assert kinds(tmp_path / "nowhere") == ["not_found"]


def test_links_are_not_followed(tmp_path: Path) -> None:
    kineto(tmp_path / "outside" / "trace.json")
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "link").symlink_to(tmp_path / "outside")
    assert capture.find([tmp_path / "job"]).sources == ()
