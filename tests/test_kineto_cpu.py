"""The CPU as a device: which operators of a trace are its work, found again by a stack in Python, event by event."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from npulens import ingest
from npulens.ingest.store import runs as stores
from tests.kineto_files import HTA_CPU, REAL_CPU, TRACES, Event, Loaded, Maker, length, ns, outermost, task, x

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = sorted(path for name in ("cpu_*",) for path in (ROOT / "sample_traces").glob(f"{name}/*.json.gz"))
ON_CPU: Event = {"deviceProperties": []}


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Maker]:
    maker = Maker(tmp_path)
    yield maker
    maker.close()


def works(loaded: Loaded) -> list[str]:
    """The device's work, in the order of time."""
    return [row[1] for row in loaded.rows("span", "ts_ns, name", "kind IN ('kernel', 'comm_op')")]


# --- real files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [*SAMPLES, *REAL_CPU], ids=lambda path: path.parent.name[-24:])
def test_the_work_of_a_real_job_is_what_no_other_operator_encloses(path: Path, tmp_path: Path) -> None:
    if not path.is_file():
        pytest.skip("the real captures (../shared) are not here")
    root = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)
    base = root["baseTimeNanoseconds"]
    expected = sorted((ns(e["ts"]) + base, ns(e["dur"]), e["name"]) for e in outermost(root["traceEvents"]))
    assert len(expected) > 5
    loaded = Loaded(path, tmp_path / "draft")
    found = loaded.rows("span", "ts_ns, dur_ns, name", "kind IN ('kernel', 'comm_op')")
    assert found == expected
    # Every operator is its own launch, and has its shapes.
    kernels = loaded.rows("kernel", "span_id, op_span_id")
    assert kernels and dict(kernels) == {
        dst: src for src, dst in loaded.rows("link", "src_span_id, dst_span_id", "route = 'itself'")
    }
    twins = {row[0]: row[1:] for row in loaded.rows("span", "span_id, ts_ns, dur_ns, name")}
    assert all(twins[kernel] == twins[operator] for kernel, operator in kernels)
    assert loaded.draft.facts["backend"] == "cpu"


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.parent.name)
def test_a_step_on_a_cpu_idles_where_no_operator_runs(path: Path, tmp_path: Path) -> None:
    """The split of every step, against unions made in Python."""
    root = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)
    (run,) = ingest.load(path.parent, tmp_path).runs
    con = stores.open_run(tmp_path, str(run.run_id))
    work = [(ns(e["ts"]), ns(e["ts"]) + ns(e["dur"])) for e in outermost(root["traceEvents"])]
    marks = sorted(ns(e["ts"]) for e in root["traceEvents"] if e["name"].startswith("ProfilerStep#"))
    rows = con.execute(
        "SELECT ts_ns, ts_ns + dur_ns, computing_ns, idle_ns FROM device_time WHERE step IS NOT NULL ORDER BY ts_ns"
    ).fetchall()
    assert len(rows) == len(marks)
    shift = marks[0] - rows[0][0]  # the store counts from the first event
    work = [(begin - shift, end - shift) for begin, end in work]
    for begin, end, computing, idle in rows:
        inside = [(max(a, begin), min(b, end)) for a, b in work if min(b, end) > max(a, begin)]
        assert (computing, idle) == (length(inside), end - begin - length(inside))


@pytest.mark.shared
def test_collectives_of_a_real_job_on_300_cpus(tmp_path: Path) -> None:
    """rank-34 names ten groups, so nothing tells which one a collective was of; its own shape tells what it moved."""
    path = TRACES / HTA_CPU
    if not path.is_file():
        pytest.skip("the real captures (../shared) are not here")
    loaded = Loaded(path, tmp_path / "draft")
    events = [e for e in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"] if "gloo" in str(e.get("name"))]
    elements = sorted(e["args"]["Input Dims"][0][0] for e in events)
    assert len(elements) == 10 and {tuple(e["args"]["Input type"]) for e in events} == {("float",)}
    found = loaded.rows("comm", "count, bytes, collective, dtype, group_name")
    assert found == [(n, 4 * n, "allreduce", "float", None) for n in elements]


# --- made up ---------------------------------------------------------------------------------------------------------


def test_what_is_work_and_what_is_not(made: Maker) -> None:
    events = [
        x("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 10),
        x("cpu_op", "aten::stack", 2, 3),  # the loader's
        x("cpu_op", "aten::linear", 20, 10), x("cpu_op", "aten::addmm", 21, 8),  # within linear
        x("cpu_op", "aten::view", 31, 1), x("cpu_op", "aten::empty", 32, 1), x("cpu_op", "aten::item", 33, 1),
        x("cpu_op", "aten::to", 40, 9), x("cpu_op", "aten::_to_copy", 41, 7), x("cpu_op", "aten::copy_", 43, 4),
        x("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", 50, 20),
        x("cpu_op", "AddmmBackward0", 51, 18), x("cpu_op", "aten::mm", 52, 5), x("cpu_op", "aten::mm", 60, 5),
        x("cpu_op", "torch::autograd::AccumulateGrad", 71, 5), x("cpu_op", "aten::detach", 72, 1),
        x("user_annotation", "Optimizer.step#SGD.step", 80, 9), x("cpu_op", "aten::add_", 81, 2),
        x("cpu_op", "fbgemm::lookup", 90, 2), x("cpu_op", "detach", 93, 1), x("cpu_op", "aten::relu", 95, 0),
        x("cpu_op", "entire_frame_compile", 100, 50), x("cpu_op", "aten::mul", 110, 5),  # the compiler's
        x("cpu_op", "pass.post_grad_passes.move_constructors_to_cuda", 120, 5),
        x("python_function", "torch/cuda/__init__.py(50): is_available", 121, 1),
        x("cpu_op", "CompiledFunction", 160, 9), x("user_annotation", "## Call CompiledFxGraph abc ##", 161, 7),
        x("cpu_op", "aten::bmm", 162, 3),
        x("cpu_op", "aten::exp", 20, 10, tid=2),  # another thread
    ]  # fmt: skip
    loaded = made(events, ON_CPU)
    assert sorted(works(loaded)) == sorted([
        "aten::linear", "aten::copy_", "aten::mm", "aten::mm", "aten::add_", "fbgemm::lookup",
        "## Call CompiledFxGraph abc ##", "aten::exp",
    ])  # fmt: skip
    assert sorted(e["name"] for e in outermost(events)) == sorted(works(loaded))
    streams = dict(loaded.rows("track", "track, tid", "kind = 'stream'"))
    assert sorted(streams.values()) == ["1", "2"]
    assert {streams[row[0]] for row in loaded.rows("span", "track", "name = 'aten::exp' AND kind = 'kernel'")} == {"2"}
    # The host keeps every one of its events.
    assert len(loaded.rows("span", "span_id", "kind NOT IN ('kernel', 'comm_op')")) == len(events)


ELSEWHERE = [
    (x("cuda_runtime", "cudaLaunchKernel", 50, 1), ON_CPU),
    (x("cpu_op", "aten::cudnn_convolution", 50, 1), ON_CPU),
    (x("cpu_op", "npu::npu_dtype_cast", 50, 1), ON_CPU),
    (x("cpu_op", "aten::_mps_convolution", 50, 1), ON_CPU), (x("cpu_op", "aten::linear_backward", 50, 1), ON_CPU),
    (x("user_annotation", "nccl:all_reduce", 50, 1), ON_CPU),
    (x("user_annotation", "hccl:all_reduce", 50, 1), ON_CPU),
    (x("cpu_op", "aten::_pin_memory", 50, 1), ON_CPU),
    ({"ph": "i", "name": "[memory]", "cat": "cpu_instant_event", "pid": 1, "tid": 1, "ts": 50, "s": "t",
      "args": {"Device Type": 1, "Device Id": 0, "Addr": 5, "Bytes": 512}}, ON_CPU),
    (x("cpu_op", "aten::mm", 50, 20, {"Input Dims": [[4096, 4096], [4096, 4096]]}), ON_CPU),  # 6,900 TFLOP/s
    (x("cpu_op", "aten::addmm", 50, 20, {"Input Dims": [[9], [4096, 4096], [4096, 4096]]}), ON_CPU),
    (x("cpu_op", "aten::bmm", 50, 20, {"Input Dims": [[8, 2048, 2048], [8, 2048, 2048]]}), ON_CPU),
    (x("cpu_op", "aten::add", 50, 1), {"deviceProperties": [{"id": 0, "name": "NVIDIA H100"}]}),
    (x("cpu_op", "aten::add", 50, 1), {}),
]  # fmt: skip


@pytest.mark.parametrize(("event", "header"), ELSEWHERE, ids=[str(i) for i in range(len(ELSEWHERE))])
def test_a_job_with_another_device_has_none_of_the_cpus_work(event: Event, header: Event, made: Maker) -> None:
    loaded = made([x("cpu_op", "aten::mm", 10, 5), event], header)
    assert works(loaded) == [] and loaded.draft.covers["kernel"].absent is not None


@pytest.mark.parametrize(
    ("length", "name", "found"),
    [(60, "aten::mkldnn_convolution", ["aten::conv2d", "aten::mm"]), (40, "aten::mkldnn_convolution", []),
     (60, "aten::_convolution", [])],
)  # fmt: skip
def test_a_release_that_lists_no_devices_needs_operators_of_a_cpu(
    length: float, name: str, found: list[str], made: Maker
) -> None:
    """Of 100 us, 60 or 40 are in a library that only CPUs have."""
    events = [x("cpu_op", "aten::conv2d", 0, 70), x("cpu_op", name, 5, length), x("cpu_op", "aten::mm", 90, 10)]
    assert works(made(events, {})) == found
    beside = made(events, {"deviceProperties": [{"id": 0, "name": "NVIDIA H100"}]}, "listed.json")
    assert works(beside) == found and beside.draft.facts.get("device_name") is None  # the job did not use it
    assert works(made([*events, x("cpu_op", "aten::cudnn_convolution", 80, 1)], {}, "cuda.json")) == []


def allocated(at: float, device: int = 0, size: int = 400) -> Event:
    args = {"Device Type": device, "Device Id": -1, "Addr": 4096, "Bytes": size, "Total Allocated": 400}
    where = {"cat": "cpu_instant_event", "pid": 1, "tid": 1}
    return {"ph": "i", "s": "t", "name": "[memory]", "ts": at, "args": args, **where}


@pytest.mark.parametrize(
    ("memory", "listed", "found"),
    [
        ([allocated(5)], True, ["aten::addmm", "aten::relu"]),
        ([allocated(65)], True, []),  # within 30 of 90 us
        ([allocated(5, size=-400)], True, []),  # given back
        ([allocated(5), allocated(65, device=1)], True, []),  # a block of the GPU
        ([allocated(95)], True, []),  # within none
        ([], True, []),
        ([allocated(5)], False, []),  # an old release: some other device may tell nobody of its memory
    ],
)
def test_where_a_gpu_is_listed_and_results_lie_on_the_host_the_cpu_worked(
    memory: list[Event], listed: bool, found: list[str], made: Maker
) -> None:
    """addmm takes 60 of the operators' 90 us, with copy_ in it; no call of the runtime was recorded."""
    header: Event = {"deviceProperties": [{"id": 0, "name": "Tesla V100", "numSms": 80}]} if listed else {}
    operators = [("aten::addmm", 0, 60), ("aten::copy_", 3, 20), ("aten::relu", 62, 30)]
    loaded = made([*(x("cpu_op", *operator) for operator in operators), *memory], header)
    assert works(loaded) == found
    if found:
        assert (loaded.draft.facts["backend"], loaded.draft.facts.get("device_name")) == ("cpu", None)
        assert json.loads(str(loaded.draft.facts["settings"]))["unused_devices"] == ["Tesla V100"]


BY_GLOO: Event = {
    "deviceProperties": [{"id": 0, "name": "Tesla P100"}], "distributedInfo": {"backend": "gloo", "rank": 0,
    "world_size": 2},
}  # fmt: skip
BY_NCCL: Event = {**BY_GLOO, "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2}}


@pytest.mark.parametrize(
    ("header", "length", "name", "beside", "found"),
    [
        (BY_GLOO, 60, "gloo:send", "aten::add_", ["gloo:send", "aten::add_"]),
        (BY_GLOO, 40, "gloo:send", "aten::add_", []),  # most of the time is something else
        (BY_GLOO, 60, "gloo:all_reduce", "aten::add_", []),  # of tensors on a GPU too
        (BY_GLOO, 60, "gloo:send", "aten::_to_copy", []),  # a tensor that may come from a GPU
        (BY_GLOO, 60, "gloo:send", "aten::cudnn_convolution", []),
        (BY_NCCL, 60, "gloo:send", "aten::add_", []),  # of a job that computes elsewhere
    ],
)
def test_sends_of_gloo_that_fill_a_file_are_those_of_a_cpu(
    header: Event, length: float, name: str, beside: str, found: list[str], made: Maker
) -> None:
    """Of 100 us; a receive within the send counts once: 40 and 35 of it are no 75."""
    inside = [x("cpu_op", "gloo:recv", 1, length - 5)] if name == "gloo:send" else []
    assert works(made([x("cpu_op", name, 0, length), *inside, x("cpu_op", beside, 90, 10)], header)) == found


def test_a_send_without_a_call_is_its_own_launch(made: Maker) -> None:
    sent = [x("cpu_op", "gloo:send", 0, 60), x("cpu_op", "aten::add_", 90, 10)]
    loaded = made(sent, BY_GLOO)
    names = dict(loaded.rows("span", "span_id, name"))
    pairs = loaded.rows("link", "src_span_id, dst_span_id", "route = 'itself'")
    assert sorted((names[a], names[b]) for a, b in pairs) == [("aten::add_", "aten::add_"), ("gloo:send", "gloo:send")]
    called = made([x("cpu_op", "c10d::send", 0, 61), *sent], BY_GLOO, "called.json")
    assert len(called.rows("link", "src_span_id", "route = 'itself'")) == 1  # add_ alone


def test_a_fast_product_is_one_of_a_cpu(made: Maker) -> None:
    """137 GFLOP in a second; shapes that are none say nothing."""
    fast: Event = {"Input Dims": [[4096, 4096], [4096, 4096]]}
    odd: Event = {"Input Dims": "no list", "Input type": 7}
    events = [x("cpu_op", "aten::mm", 10, 1_000_000, fast), x("cpu_op", "aten::mm", 2_000_000, 5, odd)]
    assert works(made(events, ON_CPU)) == ["aten::mm", "aten::mm"]


@pytest.mark.parametrize(
    ("calls", "work"),
    [
        (["cudaGetDeviceCount", "cudaStreamIsCapturing", "cudaDeviceSynchronize"], ["aten::addmm"]),
        (["cudaGetDeviceCount", "cudaLaunchKernel"], []),
        (["cudaMemcpyAsync"], []),
    ],
)
def test_a_driver_that_is_only_asked_launches_nothing(calls: list[str], work: list[str], made: Maker) -> None:
    """CUDA was recorded and launched nothing, beside a GPU that is listed: the operators ran on the CPU."""
    header: Event = {"deviceProperties": [{"id": 0, "name": "NVIDIA A100-PCIE-40GB", "numSms": 108}]}
    asked = [x("cuda_runtime", name, 1 + at, 0.5) for at, name in enumerate(calls)]
    loaded = made([*asked, x("cpu_op", "aten::addmm", 10, 50)], header)
    assert works(loaded) == work
    if work:
        assert (loaded.draft.facts["backend"], loaded.draft.facts.get("device_name")) == ("cpu", None)


def test_with_work_of_a_device_the_cpu_is_none(made: Maker) -> None:
    loaded = made([x("cpu_op", "aten::mm", 10, 5), task("gemm", 20, 5)], ON_CPU)
    assert works(loaded) == ["gemm"]


@pytest.mark.parametrize(
    ("names", "told"), [(("MI300X", "MI300X"), "MI300X"), (("MI300X", "MI210"), None)], ids=["alike", "two models"]
)
def test_a_device_that_is_not_listed_is_one_of_those_that_are_alike(
    names: tuple[str, str], told: str | None, made: Maker
) -> None:
    """Work ran on device 6, and a container shows two devices as 0 and 1."""
    header: Event = {"deviceProperties": [
        {"id": at, "name": f"AMD Instinct {name}", "numSms": 304} for at, name in enumerate(names)
    ]}  # fmt: skip
    work = [{**task("gemm", at, 5), "args": {"device": 6, "stream": 7}} for at in (20, 30)]
    name = made([x("cpu_op", "aten::mm", 10, 5), *work], header).draft.facts.get("device_name")
    assert name == (None if told is None else f"AMD Instinct {told}")


def called(*pairs: tuple[float, float], shapes: Any = ((4, 2), (3,))) -> list[Event]:
    """All-reduces: when each was called and when Gloo began it."""
    args = {"Input Dims": [list(shape) for shape in shapes], "Input type": ["float", "float"]}
    return [event for at, began in pairs for event in (
        x("cpu_op", "c10d::allreduce_", at, 1), x("user_annotation", "gloo:all_reduce", began, 9, args, tid=7),
    )]  # fmt: skip


def test_gloos_collectives_belong_to_their_calls_in_order(made: Maker) -> None:
    job = {"backend": "gloo", "rank": 0, "world_size": 2, "pg_config": [{"pg_name": "0", "ranks": [0, 1]}]}
    loaded = made(called((10, 15), (12, 30)), {**ON_CPU, "distributedInfo": job})
    names = dict(loaded.rows("span", "span_id, ts_ns"))
    pairs = [(names[a], names[b]) for a, b in loaded.rows("link", "src_span_id, dst_span_id", "route = 'order'")]
    assert sorted(pairs) == [(10_000, 15_000), (12_000, 30_000)]
    told = loaded.rows("comm", "collective, group_name, count, dtype, bytes")
    assert told == [("allreduce", "0", 11, "float", 44)] * 2


def test_gloo_communicates_where_an_old_profiler_calls_it_an_operator(made: Maker) -> None:
    """torch 1.11: a task of its own thread, in the category of operators."""
    loaded = made([x("cpu_op", "aten::mm", 0, 50), x("cpu_op", "gloo:all_reduce", 60, 9, tid=7)], ON_CPU)
    assert loaded.rows("comm", "collective") == [("allreduce",)]
    told = loaded.rows("span", "name, kind", "kind IN ('kernel', 'comm_op')")
    assert sorted(told) == [("aten::mm", "kernel"), ("gloo:all_reduce", "comm_op")]


def test_a_send_and_a_receive_name_their_peer(made: Maker) -> None:
    """They run on the calling thread and begin before their call has returned."""
    moved = {"Input Dims": [[4, 2]], "Input type": ["float"]}
    job = {"backend": "gloo", "rank": 1, "world_size": 3, "pg_config": [{"pg_name": "0", "ranks": [0, 1, 2]}]}
    loaded = made([
        x("cpu_op", "c10d::send", 10, 5, {"Concrete Inputs": ["", "", "2", "0"]}),
        x("user_annotation", "gloo:send", 14, 3, moved),
        x("cpu_op", "c10d::recv_", 20, 5, {"Concrete Inputs": ["", "", "0", "0"]}),
        x("user_annotation", "gloo:recv", 24, 9, moved),
    ], {**ON_CPU, "distributedInfo": job})  # fmt: skip
    told = loaded.rows("comm", "collective, src_rank, dst_rank, bytes")
    assert sorted(told) == [("receive", 0, None, 32), ("send", None, 2, 32)]


def test_collectives_that_do_not_fit_their_calls_have_none(made: Maker) -> None:
    """One began before the first call that the file holds: it was called before the recording."""
    loaded = made(called((20, 15), (22, 30)), ON_CPU)
    assert loaded.rows("link", "route", "route = 'order'") == []
    assert len(loaded.rows("comm", "span_id")) == 2


def test_collectives_alone_do_not_tell_what_a_cpu_computed(made: Maker) -> None:
    """Operators ran on the CPU as well and are not in the file: beside what the collectives ran is not known."""
    loaded = made(called((10, 15), (12, 30)), ON_CPU)
    why, setting = loaded.draft.covers["kernel"].absent, loaded.draft.covers["kernel"].collect_with
    assert "no operator that computes" in str(why) and str(setting).endswith("ProfilerActivity.CPU, ...])")
