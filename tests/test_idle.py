"""Gaps of the device cut into causes: cases worked out by hand, names of real profilers, and every real capture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npulens.analysis.idle.blame import blames, said, similar_ranks
from npulens.analysis.idle.culprit import codes
from npulens.analysis.idle.host_names import special
from npulens.analysis.idle.pieces import CODES, idle
from npulens.analysis.run import Run
from npulens.analysis.split import breakdown
from npulens.ingest.store import runs
from tests import real_captures
from tests.tablecase import connection

STEP = {"id": 1, "kind": "step_mark", "name": "ProfilerStep#1", "at": 0, "for": 1000}


def span(number: int, kind: str, name: str, at: float, length: float, **more: Any) -> dict[str, Any]:
    return {"id": number, "kind": kind, "name": name, "at": at, "for": length, **more}


def pieces(spans: list[dict[str, Any]], **case: Any) -> list[tuple[str, float, float, int]]:
    """(cause, from, to in us, culprit) of every piece, touching ones of one cause and culprit joined."""
    found = Run(connection({"spans": spans, **case})).get(idle)
    joined: list[tuple[str, float, float, int]] = []
    for cause, start, end, host in zip(found.cause, found.start / 1000, found.end / 1000, found.host, strict=True):
        one = (CODES[cause], float(start), float(end), int(host))
        if joined and joined[-1][0] == one[0] and joined[-1][2] == one[1] and joined[-1][3] == one[3]:
            one = (one[0], joined.pop()[1], one[2], one[3])
        joined.append(one)
    return joined


def test_a_gap_is_cut_by_what_the_host_did() -> None:
    """From 100 the host collects garbage in the data loader, loads, allocates, compiles, works and launches at 400."""
    assert pieces([
        STEP,
        span(2, "runtime", "Node@launch", 0, 5), span(3, "kernel", "a", 0, 100, by=2),
        span(4, "cpu_op", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 90, 110),
        span(5, "gc", "GC", 120, 30, track="collector"),
        span(6, "runtime", "AscendCL@aclrtMalloc", 210, 40),
        span(7, "runtime", "AscendCL@aclopCompileAndExecute", 250, 100),
        span(8, "runtime", "AscendCL@aclrtFree", 300, 10),
        span(9, "cpu_op", "aten::mul", 350, 60),
        span(10, "runtime", "Node@launch", 400, 5), span(11, "kernel", "b", 420, 580, by=10),
    ]) == [
        ("dataloader", 100, 120, 4), ("gc", 120, 150, 5), ("dataloader", 150, 200, 4), ("host_late", 200, 210, 1),
        ("memory_alloc", 210, 250, 6), ("compile", 250, 350, 7), ("host_late", 350, 400, 9),
        ("launch_overhead", 400, 420, 10),
    ]  # fmt: skip


@pytest.mark.parametrize(("launched", "cause"), [(415, "host_late"), (50, "unknown")])
def test_the_launch_after_one_that_is_unknown_tells_whether_the_host_was_ahead(launched: float, cause: str) -> None:
    """A copy of unknown launch ends the gap from 100 to 400; the next kernel was launched at 415, or long before."""
    found = pieces([
        STEP,
        span(2, "runtime", "Node@launch", 0, 5), span(3, "kernel", "a", 0, 100, by=2),
        span(4, "cpu_op", "aten::mul", 120, 280),
        span(5, "memcpy", "MEMCPY_ASYNC", 400, 10),
        span(6, "runtime", "Node@launch", launched, 5), span(7, "kernel", "b", 430, 570, by=6),
    ])  # fmt: skip
    assert [one for one, begin, end, _ in found if begin <= 300 < end] == [cause]


def test_the_queue_thread_is_late_for_what_was_enqueued_long_before() -> None:
    """Enqueued at 50; the queue's thread compiles until 300, does nothing for 10, and launches at 312."""
    spans = [
        STEP, span(2, "runtime", "Node@launch", 0, 5), span(3, "kernel", "a", 0, 100, by=2),
        span(4, "enqueue", "Enqueue", 50, 1), span(5, "runtime", "AscendCL@aclrtSynchronizeDevice", 60, 200),
        span(6, "dequeue", "Dequeue@x", 60, 240, track="queue"),
        span(7, "runtime", "AscendCL@opCompile", 70, 220, track="queue"),
        span(8, "dequeue", "Dequeue@mm", 310, 10, track="queue", by=4, route="task_queue"),
        span(9, "runtime", "Node@launch", 312, 5, track="queue"), span(10, "kernel", "b", 330, 670, by=9),
    ]  # fmt: skip
    assert pieces(spans) == [
        ("compile", 100, 290, 7), ("host_late", 290, 312, -1), ("launch_overhead", 312, 330, 9),
    ]  # fmt: skip
    found_by = Run(connection({"spans": spans})).get(idle)
    assert found_by.queued.tolist() == [True, True, False]


def test_the_end_of_the_step_belongs_to_the_host() -> None:
    assert pieces([
        STEP, span(2, "runtime", "Node@launch", 0, 5), span(3, "kernel", "a", 0, 600, by=2),
        span(4, "runtime", "cudaDeviceSynchronize", 10, 640), span(5, "python", "main.py(7): log", 660, 340),
    ]) == [("sync_stall", 600, 650, 4), ("host_late", 650, 1000, 5)]  # fmt: skip


def test_what_follows_a_read_in_the_step_is_the_calls_while_the_lead_it_cost_lasts() -> None:
    """Without the first read the host would come to its next launch 90 earlier: so much of the gap is the read's, and
    the other 40 that it needs are its own. The second is the step's last read, which is normal."""
    found = pieces([
        STEP, span(2, "runtime", "Node@launch", 0, 5), span(3, "kernel", "a", 0, 100, by=2),
        span(4, "runtime", "aclrtSynchronizeStream", 10, 90), span(5, "runtime", "Node@launch", 230, 5),
        span(6, "kernel", "b", 250, 50, by=5), span(7, "runtime", "aclrtSynchronizeStream", 240, 60),
        span(8, "runtime", "Node@launch", 360, 5), span(9, "kernel", "c", 380, 620, by=8),
    ])  # fmt: skip
    assert found == [
        ("sync_stall", 100, 190, 4), ("host_late", 190, 230, 1), ("launch_overhead", 230, 250, 5),
        ("host_late", 300, 360, 1), ("launch_overhead", 360, 380, 8),
    ]  # fmt: skip


def test_between_steps_a_read_costs_no_more_than_its_own_way_back() -> None:
    """The loss is read at the end of step 1; the 500 us of Python that follow are the host's."""
    found = pieces([
        STEP, span(2, "runtime", "Node@launch", 0, 5), span(3, "kernel", "a", 0, 900, by=2),
        span(4, "runtime", "aclrtSynchronizeStream", 10, 900),
        span(5, "step_mark", "ProfilerStep#2", 1000, 1000), span(6, "python", "data.py(3): mask", 1001, 400),
        span(7, "runtime", "Node@launch", 1410, 5), span(8, "kernel", "b", 1430, 570, by=7),
    ])  # fmt: skip
    assert [piece[:3] for piece in found] == [
        ("sync_stall", 900, 910), ("host_late", 910, 1410), ("launch_overhead", 1410, 1430),
    ]  # fmt: skip


def loop(turns: int, reads: tuple[int, ...] = (), after: int = 0) -> list[dict[str, Any]]:
    """Turns of ten kernels of 100, each launched 10 after the one before. At the end the loss is read, which waits for
    all; the host then works for `after` until its next launch. After the kernels `reads` it waits for the device too
    and goes on 50 later."""
    spans: list[dict[str, Any]] = []
    host = busy = 0
    for _ in range(turns):
        for number in range(10):
            launch = len(spans) + 1
            begin = max(busy, host + 10)
            spans += [span(launch, "runtime", "Node@launch", host, 5),
                      span(launch + 1, "kernel", f"k{number}", begin, 100, by=launch)]  # fmt: skip
            host, busy = host + 10, begin + 100
            if number in reads or number == 9:
                spans.append(span(len(spans) + 1, "runtime", "aclrtSynchronizeStream", host, busy - host))
                host = busy + (after if number == 9 else 50)
    return spans


def blamed(spans: list[dict[str, Any]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for cause, start, end, _ in pieces(spans, tables={"step": []}):
        found[cause] = found.get(cause, 0) + end - start
    return found


def test_in_a_loop_without_marks_what_follows_the_read_of_a_turn_is_the_hosts() -> None:
    assert blamed(loop(4, after=500)) == {"host_late": 3 * 500, "launch_overhead": 3 * 10}


def test_in_a_loop_without_marks_reads_within_a_turn_are_stalls() -> None:
    """Eight reads in each turn keep the host for one kernel each, the last of the turn for two."""
    found = blamed(loop(4, reads=(0, 1, 2, 3, 4, 5, 6, 7), after=20))
    assert found["sync_stall"] >= 4 * 7 * 40 and 3 * 20 <= found["host_late"] <= 4 * 60


def test_one_layer_of_many_is_no_turn() -> None:
    """Six equal layers, each read at its end, between other work: each kernel before and behind them runs twice."""
    spans = loop(8, after=50)
    kernels = [one for one in spans if one["kind"] == "kernel"]
    for number in range(10):
        kernels[number]["name"], kernels[70 + number]["name"] = f"head{number // 2}", f"tail{number // 2}"
    assert blamed(spans) == {"sync_stall": 7 * 50, "launch_overhead": 7 * 10}


def test_clocks_that_differ_make_no_negative_pieces() -> None:
    """The kernel seems to start 7 before its launch: all of the gap is the host's."""
    assert pieces([
        STEP, span(2, "runtime", "Node@launch", 0, 5), span(3, "kernel", "a", 0, 100, by=2),
        span(4, "cpu_op", "aten::mm", 90, 130), span(5, "runtime", "Node@launch", 207, 5),
        span(6, "kernel", "b", 200, 800, by=5),
    ]) == [("host_late", 100, 200, 4)]  # fmt: skip


def test_a_task_without_a_launch_is_unknown_but_for_what_is_certain() -> None:
    assert pieces([
        STEP, span(2, "runtime", "Node@launch", 0, 5), span(3, "kernel", "a", 0, 100, by=2),
        span(4, "gc", "GC", 150, 20), span(5, "kernel", "b", 200, 800),
    ]) == [("unknown", 100, 150, -1), ("gc", 150, 170, 4), ("unknown", 170, 200, -1)]  # fmt: skip


def test_no_host_at_all_is_unknown() -> None:
    assert pieces([span(1, "kernel", "a", 0, 100), span(2, "kernel", "b", 200, 100)]) == [("unknown", 100, 200, -1)]


def test_a_wait_for_another_stream_is_a_dependency() -> None:
    """Launched at 50 behind a wait on its own stream until 160; 10 more are within what a launch takes."""
    assert pieces([
        STEP, span(2, "runtime", "Node@launch", 0, 5), span(3, "kernel", "a", 0, 100, by=2),
        span(4, "wait", "EVENT_WAIT", 90, 70, track="s1"), span(5, "runtime", "Node@launch", 50, 5),
        span(6, "wait", "EVENT_WAIT", 165, 3, track="s2"),
        span(7, "kernel", "b", 170, 830, by=5, track="s1"),
    ]) == [("dependency", 100, 160, -1), ("launch_overhead", 160, 170, 5)]  # fmt: skip


def test_a_launch_that_takes_far_too_long_is_unknown_after_three_usual_ones() -> None:
    """Usual is 20 us where a capture shows too few launches to tell; the call's own 5 us are the host's."""
    assert pieces([
        STEP, span(2, "runtime", "Node@launch", 0, 5), span(3, "kernel", "a", 0, 100, by=2),
        span(4, "runtime", "Node@launch", 100, 5), span(5, "kernel", "b", 500, 500, by=4),
    ]) == [("host_late", 100, 105, 4), ("launch_overhead", 105, 165, 4), ("unknown", 165, 500, -1)]  # fmt: skip


@pytest.mark.parametrize(("setting", "cause"), [("true", "profiler_overhead"), ("false", "unknown")])
def test_counters_of_the_cache_hold_the_device_after_each_kernel(setting: str, cause: str) -> None:
    """Eight kernels launched together, 90 us apart: with l2_cache=True the profiler reads its counters in between."""
    spans = [STEP]
    for number in range(8):
        spans += [span(10 + 2 * number, "runtime", "Node@launch", number, 0.5),
                  span(11 + 2 * number, "kernel", "k", 10 + 120 * number, 30, by=10 + 2 * number)]  # fmt: skip
    found = pieces(spans, rank={0: {"settings": f'{{"experimental_config": {{"_l2_cache": {setting}}}}}'}})
    took = sum(end - start for name, start, end, _ in found if name == cause)
    assert took == (7 * 90 if setting == "true" else 7 * 30)


def test_in_runs_of_short_kernels_an_ordinary_launch_is_overhead_and_more_is_the_hosts() -> None:
    """Ten kernels of 2 us launched every 40 us, each 10 us on its way, the sixth 200 us late."""
    spans = [STEP]
    for number in range(10):
        at = 40 * number + (200 if number >= 5 else 0)
        spans += [span(10 + 2 * number, "runtime", "Node@launch", at, 4),
                  span(11 + 2 * number, "kernel", "k", at + 10, 2, by=10 + 2 * number)]  # fmt: skip
    found = [piece[:3] for piece in pieces(spans, tables={"step": []})]
    assert found[4] == ("host_late", 172, 360)
    assert {piece[0] for at, piece in enumerate(found) if at != 4} == {"launch_overhead"}
    assert sum(end - start for cause, start, end in found if cause == "launch_overhead") == 8 * 38 + 50


NAMES = {
    "sync_stall": (
        "AscendCL@aclrtSynchronizeStreamWithTimeout", "AscendCL@aclrtSynchronizeDevice", "AscendCL@aclrtMemcpy",
        "aclrtSynchronizeEvent", "Runtime@StreamSynchronize", "Runtime@DeviceSynchronize", "Runtime@MemCopySync",
        "cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cudaMemcpy", "cuCtxSynchronize",
        "hipStreamSynchronize", "hipDeviceSynchronize", "hipMemcpyWithStream", "cuMemcpyDtoH_v2",
    ),
    "memory_alloc": (
        "AscendCL@aclrtMallocAlign32", "AscendCL@aclrtFree", "aclrtMapMem", "cudaMalloc", "cudaFree", "cudaHostAlloc",
        "hipMalloc", "hipFree", "cuMemCreate", "cuMemSetAccess", "Runtime@DevMalloc",
    ),
    "compile": ("AscendCL@aclopCompileAndExecute", "AscendCL@opCompile", "cuModuleLoadData", "hipModuleLoadData"),
    "profiler_overhead": ("Activity Buffer Request", "aclprofStart"),
    "": (
        "AscendCL@aclrtMemcpyAsync", "cudaMemcpyAsync", "cudaLaunchKernel", "Node@launch", "AscendCL@aclnnMul",
        "cudaStreamWaitEvent", "cudaEventQuery", "cudaEventRecord", "AscendCL@aclDestroyTensorDesc", "hcom_allReduce_",
        "PyTorch Profiler (0)", "aten::empty", "cudaFuncSetAttribute",
    ),
}  # fmt: skip


def test_names_of_real_profilers() -> None:
    every = [(cause, name) for cause, names in NAMES.items() for name in names]
    spans = [span(number, "runtime", name, number, 1) for number, (_, name) in enumerate(every, 1)]
    found = Run(connection({"spans": spans})).get(special)[0]
    told = dict(zip(found.ids.tolist(), found.causes.tolist(), strict=True))
    assert [(told.get(number, ""), name) for number, (_, name) in enumerate(every, 1)] == every


def test_the_code_is_the_users_own_frame() -> None:
    spans = [
        span(1, "python", "main.py(287): main", 0, 100), span(2, "python", "/opt/app/model.py(88): forward", 10, 80),
        span(3, "python", "torch/nn/modules/linear.py(125): forward", 20, 60),
        span(4, "cpu_op", "aten::linear", 30, 40),
        span(5, "cpu_op", "aten::mm", 200, 10, stack={"frames": "torch/a.py(1): f\n/w/train.py(9): step\nx.py(1): m"}),
        span(6, "cpu_op", "aten::add", 300, 10),
    ]  # fmt: skip
    run = Run(connection({"spans": spans}))
    found = codes(run, 0, np.array([50_000, 15_000, 205_000, 305_000, 250_000]))
    assert [str(code) for code in found] == [
        "model.py(88): forward, aten::linear", "model.py(88): forward", "train.py(9): step, aten::mm", "aten::add",
        "aten::mm -> aten::add",
    ]  # fmt: skip


@pytest.mark.parametrize(("steps", "gaps", "scattered"), [(1, 30, True), (1, 5, False), (20, 1, False), (20, 30, True)])
def test_many_gaps_in_a_step_are_no_single_call(steps: int, gaps: int, scattered: bool) -> None:
    """Gaps of about 15 us between the launches of forward: of thirty in a step each has 3 % of the time, one all."""
    spans, number, forward = [], 0, 50 * (gaps + 1)
    for step in range(steps):
        at = 2 * step * forward
        spans += [span(10_000 + step, "step_mark", f"ProfilerStep#{step}", at, 2 * forward),
                  span(20_000 + step, "python", "model.py(8): forward", at + 1, forward)]  # fmt: skip
        for place in range(gaps + 1):
            spans += [
                span(number, "runtime", "cudaLaunchKernel", at + 2, 4),
                span(number + 1, "kernel", "k", at + 8, 30 if place < gaps else forward + 35, by=number),
                span(number + 2, "cpu_op", "aten::mm", at + 20, 25),
            ]
            number, at = number + 3, at + 50
    (found,) = blames(Run(connection({"spans": spans, "rank": {0: {"backend": "cuda"}}})), "host_late")
    assert (found.numbers["code"], found.scattered) == ("model.py(8): forward", scattered)


def test_between_two_launches_there_is_no_code_to_name() -> None:
    spans = [span(1, "runtime", "hipLaunchKernel", 0, 5), span(2, "runtime", "hipExtModuleLaunchKernel", 100, 5),
             span(3, "runtime", "hipGetDevicePropertiesR0600", 200, 5),
             span(4, "kernel", "k", 10, 5, by=1)]  # fmt: skip
    found = codes(Run(connection({"spans": spans})), 0, np.array([50_000, 150_000]))
    assert list(map(str, found)) == ["", "hipExtModuleLaunchKernel -> hipGetDevicePropertiesR0600"]


def test_ranks_that_show_a_cause_alike_are_one_group() -> None:
    assert list(similar_ranks({0: 10, 1: 9, 2: 100, 3: 0, 5: 51})) == [(2, 5), (0, 1), (3,)]
    assert list(similar_ranks({})) == []
    assert said((0, 1, 2, 3, 7, 9, 10)) == "0-3, 7, 9-10"


@pytest.mark.parametrize(("others", "mine", "code", "first"), [(12, 46, None, 90), (5, 80, "main", 80)])
def test_code_that_holds_much_of_the_time_is_named_and_shown_first(
    others: int, mine: int, code: str | None, first: int
) -> None:
    """Gaps of 90 us, each in another operator, and two in main: 8 % of all of it, or 26 %."""
    gaps = [*((f"op{number}", 90) for number in range(others)), ("main", mine), ("main", mine)]
    spans, at = [], 0
    for number, (op, length) in enumerate(gaps):
        spans += [span(2 * number, "kernel", "k", at, 100), span(2 * number + 1, "cpu_op", op, at + 99, length + 2)]
        at += 100 + length
    spans.append(span(2 * len(gaps), "kernel", "k", at, 100))
    (found,) = blames(Run(connection({"spans": spans})), "unknown")
    assert (found.numbers["code"], found.evidence[0].dur_ns) == (code, first * 1000)


def _captures() -> list[Path]:
    root = Path(__file__).resolve().parents[2] / "shared" / "traces"
    levels = root.glob("Ascend+msinsight/test/data/pytorch/*/level*")
    return sorted([*levels, *root.rglob("*.json.gz")])


@pytest.mark.parametrize("capture", _captures(), ids=lambda path: f"{path.parent.name}/{path.name}"[-40:])
def test_causes_sum_to_the_idle_time_of_real_captures(capture: Path) -> None:
    store, report = real_captures.loaded(capture)
    for loaded in report.runs:
        con = runs.open_run(store, str(loaded.run_id))
        run = Run(con)
        found = run.get(idle)
        rows = breakdown(con)
        for rank in found.ranks:
            steps = [row for row in rows if row.rank == rank and row.step is not None]
            whole = [row for row in rows if row.rank == rank and row.step is None]
            mine = found.rank == rank
            for row in steps or whole:
                assert row.start_ns is not None
                assert row.dur_ns is not None
                begin, end = row.start_ns, row.start_ns + row.dur_ns
                cut = np.minimum(found.end[mine], end) - np.maximum(found.start[mine], begin)
                assert int(np.clip(cut, 0, None).sum()) == row.idle_ns
