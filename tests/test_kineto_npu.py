"""Ascend in Kineto traces (torch_npu through MSPTI): synthetic files, for no real one was at hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from npulens import ingest
from npulens.analysis.split import breakdown
from npulens.ingest.store import runs
from tests.kineto_files import Event, Maker, x


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Maker]:
    maker = Maker(tmp_path)
    yield maker
    maker.close()


def task(name: str, ts: float, dur: float, args: Event | None = None, cat: str = "kernel", tid: int = 2) -> Event:
    return x(cat, name, ts, dur, {"device": 0, "stream": tid, **(args or {})}, tid=tid, pid=0)


def job(cat: str = "kernel", collective: str = "collective_comm", runtime: str = "privateuse1_runtime") -> list[Event]:
    """A step of one kernel, one collective beside it, one copy; all launched."""
    return [
        x("user_annotation", "ProfilerStep#7", 0, 100),
        x("cpu_op", "aten::mm", 1, 5, {"External id": 1}),
        x(runtime, "aclnnMatmul", 2, 2, {"correlation": 11}), x(runtime, "HcclAllReduce", 5, 1, {"correlation": 12}),
        x(runtime, "aclrtMemcpyAsync", 7, 1, {"correlation": 13}),
        task("MatMulV2", 10, 30, {"correlation": 11}, cat),
        task("hcom_allReduce__586_0_1", 20, 40, {"correlation": 12}, collective, tid=3),
        task("Memcpy HtoD", 70, 10, {"correlation": 13, "bytes": 4096}, "gpu_memcpy"),
    ]  # fmt: skip


@pytest.mark.parametrize(("cat", "collective", "runtime"), [
    ("kernel", "collective_comm", "privateuse1_runtime"), ("kernel", "kernel", "runtime"),
    ("privateuse1_kernel", "hccl", "acl_runtime"), ("npu_kernel", "npu_communication", "npu_runtime"),
])  # fmt: skip
def test_a_job_whatever_its_categories(cat: str, collective: str, runtime: str, made: Maker) -> None:
    loaded = made(job(cat, collective, runtime))
    assert loaded.draft.facts["backend"] == "npu"
    assert [name for (name,) in loaded.rows("span", "kind", "span_id >= 5")] == ["comm_op", "kernel", "memcpy"]
    assert loaded.rows("comm", "span_id, collective, stream") == [(6, "allreduce", 3)]
    assert loaded.rows("link", "src_span_id, dst_span_id") == [(2, 5), (3, 6), (4, 7)]
    assert loaded.draft.covers["link"].expected == 3
    settings = [loaded.draft.covers[table].collect_with or "" for table in ("comm", "pmu")]
    assert "profiler_level=Level1" in settings[0] and "aic_metrics" in settings[1], "torch.profiler cannot record these"


def test_msptis_own_names_of_arguments(made: Maker) -> None:
    """Stream, device and correlation as MSPTI's records call them; sizes from count and type."""
    loaded = made([
        x("privateuse1_runtime", "aclnnAdd", 1, 1, {"correlationId": 4}),
        x("kernel", "Add_9f", 3, 1, {"deviceId": 6, "streamId": 21, "correlationId": 4, "type": "KERNEL_AIVEC"},
          tid=21, pid=6),
        x("hccl", "HcclAllGather", 5, 2, {"deviceId": 6, "streamId": 22, "commName": "10.0.0.1%eth0_60000_0",
                                          "count": 100, "dataType": "fp32", "algType": "MESH-RING"}, tid=22, pid=6),
    ])  # fmt: skip
    assert loaded.rows("kernel", "span_id, stream, task_type, core") == [(1, 21, "KERNEL_AIVEC", "AI_VECTOR_CORE")]
    assert loaded.rows("link", "src_span_id, dst_span_id") == [(0, 1)]
    assert loaded.rows("comm", 'collective, group_name, "count", dtype, bytes, algorithm, stream') == [
        ("allgather", "10.0.0.1%eth0_60000_0", 100, "fp32", 400, "MESH-RING", 22)]  # fmt: skip
    assert loaded.draft.covers["comm"].absent is None
    assert loaded.draft.facts["device_id"] == 6
    assert loaded.rows("track", "stream", "kind = 'stream'") == [(21,), (22,)]


@pytest.mark.parametrize(("name", "kind"), [
    ("EVENT_WAIT_SQE", "wait"), ("Notify Wait", "wait"), ("NOTIFY_WAIT_SQE", "wait"),
    ("EVENT_RECORD_SQE", "device_other"), ("PLACE_HOLDER_SQE", "device_other"), ("AddN", "kernel"),
    ("HcclBroadcast", "comm_op"),
])  # fmt: skip
def test_waits_and_marks_are_no_work(name: str, kind: str, made: Maker) -> None:
    assert made([task(name, 1, 1)]).one("span", "kind") == kind


@pytest.mark.parametrize("header", [{"deviceProperties": [{"id": 0, "name": "Ascend910B3"}]}, {}])
def test_an_npu_is_told_by_its_name_or_its_label(header: Event, made: Maker) -> None:
    label = {"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "ts": 0, "args": {"labels": "NPU 0"}}
    loaded = made([task("Add", 1, 1), *([] if header else [label])], header)
    assert loaded.draft.facts["backend"] == "npu"
    assert loaded.draft.facts.get("device_name") == ("Ascend910B3" if header else None)


def test_a_gpu_stays_a_gpu(made: Maker) -> None:
    loaded = made([x("cuda_runtime", "cudaLaunchKernel", 1, 1), task("ncclDevKernel_AllReduce", 2, 1)])
    assert loaded.draft.facts["backend"] == "cuda"


def test_memory_of_a_private_device_is_the_npus(made: Maker) -> None:
    memory = {"ph": "i", "s": "t", "name": "[memory]", "pid": 1, "tid": 1, "ts": 5, "cat": "cpu_instant_event",
              "args": {"Bytes": 64, "Addr": 9, "Device Type": 20, "Device Id": 0, "Total Allocated": 64}}  # fmt: skip
    assert made([memory, task("Add", 1, 1)]).one("memory_event", "device") == "npu:0"


def test_the_split_of_a_native_trace(tmp_path: Path) -> None:
    """Step 0..100 us: computing 10..40, collective 20..60, copy 70..80: idle 10 + 10 + 20."""
    path = tmp_path / "rank0.pt.trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": job()}))
    (run,) = ingest.load(path, tmp_path / "store").runs
    step = breakdown(runs.open_run(tmp_path / "store", str(run.run_id)))[1]
    assert (step.step, step.dur_ns, step.computing_ns, step.communication_not_overlapped_ns, step.copy_ns,
            step.idle_ns, step.residual_ns) == (7, 100_000, 30_000, 20_000, 10_000, 40_000, 0)  # fmt: skip
