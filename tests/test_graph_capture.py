"""Graphs that are recorded: windows, what is around them, and that the host's work in them is no lost device time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from npulens import ingest
from npulens.analysis.idle.first_use import Capture, captures
from npulens.analysis.idle.pieces import idle
from npulens.analysis.run import Run
from npulens.analysis.views import install
from npulens.ingest.store import runs
from tests.kineto_files import TRACES, Event, task, x

SECOND = TRACES.parent / "traces_2"
CAPTURED = SECOND / "AMD-AGI+TraceLens/tests/traces/inference/sglang_decode/capture_traces/bs_32_rank0.json.gz"
WITHIN = SECOND / "pytorch+ao@hist-41da88f0/tutorials/quantize_vit/bfloat16.json.gz"


def run_of(path: Path, place: Path) -> Run:
    (run,) = ingest.load(path, place).runs
    assert run.run_id, run.reason
    con = runs.open_run(place, run.run_id)
    install(con)
    return Run(con)


def made(events: list[Event], place: Path) -> Run:
    (place / "t.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return run_of(place / "t.json", place / "store")


def call(name: str, ts: float, dur: float, number: int = 0, tid: int = 1) -> Event:
    return x("cuda_runtime", name, ts, dur, {"correlation": number} if number else {}, tid=tid)


def window(each: Capture) -> tuple[int, int]:
    return each.begin_ns, each.end_ns


RECORDED = [
    x("cpu_op", "Torch-Compiled Region", 100, 800), x("cpu_op", "CompiledFunction", 110, 700),
    call("cudaStreamBeginCapture", 200, 5), *(call("cudaLaunchKernel", 210 + 10 * n, 5) for n in range(20)),
    call("cudaStreamEndCapture", 420, 5), call("cudaDriverGetVersion", 426, 1),
    call("cudaGraphInstantiateWithFlags", 430, 100), call("cudaGraphDestroy", 540, 10), call("cudaFree", 560, 10),
    call("cudaGraphLaunch", 600, 5, 9), *(task(f"k{n}", 620 + 3 * n, 2, {"correlation": 9}) for n in range(20)),
]  # fmt: skip


def test_a_recorded_graph_ends_with_the_last_call_that_makes_it_ready(tmp_path: Path) -> None:
    run = made([call("cudaLaunchKernel", 0, 5, 1), task("first", 10, 5, {"correlation": 1}), *RECORDED], tmp_path)
    (one,) = run.get(captures).found
    assert window(one) == (200_000, 550_000)
    assert (one.calls, one.instantiate_ns, one.around) == (20, 100_000, "Torch-Compiled Region")
    assert (one.around_begin_ns, one.around_end_ns) == (100_000, 900_000)
    assert not run.get(captures).most


def test_the_host_loses_no_device_time_while_it_records(tmp_path: Path) -> None:
    """The gap is 605 us: 350 of them record, what is around them stays the host's."""
    run = made([call("cudaLaunchKernel", 0, 5, 1), task("first", 10, 5, {"correlation": 1}), *RECORDED], tmp_path)
    found = run.get(idle)
    length, recording = found.end - found.start, found.pick("first_use")
    assert length[recording].sum() == 350_000
    assert (found.start[recording][0], found.end[recording][-1]) == (200_000, 550_000)
    assert length[found.pick("host_late")].sum() < 605_000 - 350_000
    assert length.sum() == 605_000 + 19_000


def test_captures_of_two_threads_and_one_without_its_end(tmp_path: Path) -> None:
    run = made([
        call("hipStreamBeginCapture", 10, 1, tid=1), call("hipStreamBeginCapture", 12, 1, tid=2),
        call("hipStreamEndCapture", 30, 1, tid=2), call("hipStreamEndCapture", 50, 1, tid=1),
        call("hipStreamBeginCapture", 60, 1, tid=1), call("hipModuleLaunchKernel", 70, 5, tid=1),
    ], tmp_path)  # fmt: skip
    found = run.get(captures)
    base = min(each.begin_ns for each in found.found)
    assert [tuple(at - base for at in window(each)) for each in found.found] == [
        (0, 41_000),
        (2_000, 21_000),
        (50_000, 65_000),
    ]
    assert found.most == {0}


def test_a_job_without_graphs_records_none(tmp_path: Path) -> None:
    assert (
        made([call("cudaLaunchKernel", 0, 5, 1), task("k", 10, 5, {"correlation": 1})], tmp_path).get(captures).found
        == ()
    )


@pytest.mark.shared
@pytest.mark.skipif(not CAPTURED.is_file(), reason="no shared captures")
def test_a_trace_of_a_capture_is_most_of_its_run(tmp_path: Path) -> None:
    """sglang, one graph of batch 32: begin at 1,705.269 us, end 32,314.2, instantiated and destroyed until 34,098.5."""
    run = run_of(CAPTURED, tmp_path)
    (one,) = run.get(captures).found
    assert run.get(captures).most == {0}
    assert (one.end_ns - one.begin_ns, one.instantiate_ns) == pytest.approx((32_393_219, 1_562_855), abs=1)
    assert one.around == "capture_32_DECODE" and one.calls > 500
    found = run.get(idle)
    length = found.end - found.start
    assert length[found.pick("first_use")].sum() > 0.9 * length.sum()
    (reason,) = run.con.execute("SELECT reason FROM coverage WHERE table_name = 'kernel'").fetchall()[0]
    assert "records a graph 1 times" in reason


@pytest.mark.shared
@pytest.mark.skipif(not WITHIN.is_file(), reason="no shared captures")
def test_graphs_recorded_within_a_job(tmp_path: Path) -> None:
    """Three of five regions, of 219.0, 210.4 and 210.0 ms, record one each."""
    run = run_of(WITHIN, tmp_path)
    found = run.get(captures)
    assert not found.most and len(found.found) == 3
    assert [each.instantiate_ns for each in found.found] == [2_353_000, 1_085_000, 1_004_000]
    assert [each.around for each in found.found] == ["Torch-Compiled Region"] * 3
    around = [each.around_end_ns - each.around_begin_ns for each in found.found]
    assert around == [218_747_000, 210_124_000, 209_708_000]
