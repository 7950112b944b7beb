"""A process that works on several devices: its figures are of all as one, and that is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from npulens import ingest
from npulens.analysis.engine import Check, check
from npulens.analysis.run import Run
from npulens.analysis.split import activities
from npulens.app.text import wording
from npulens.app.text.snippets import snippet
from npulens.ingest.store.connection import open_run

OF_IDLE = ("compile", "first_use", "idle_unexplained", "memory_alloc", "profiler_overhead", "sync_stall")


def run_of(tmp_path: Path, second: int) -> Run:
    """20 turns of 1,000 us: device 0 works for 400 from 20 on, device 1 for ``second`` from 520 on."""
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_labels", "pid": device, "tid": 0, "ts": 0, "args": {"labels": f"GPU {device}"}}
        for device in (0, 1)
    ]
    for number in range(40):
        turn, device = divmod(number, 2)
        at, of_call = 1_000 + 1_000 * turn + 500 * device, {"External id": number + 1, "correlation": number + 1}
        host = {"ph": "X", "pid": 77, "tid": 77, "args": of_call}
        events += [
            {**host, "cat": "cpu_op", "name": "aten::mm", "ts": at, "dur": 40},
            {**host, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at + 5, "dur": 10},
            {"ph": "X", "cat": "kernel", "name": "gemm", "ts": at + 20, "dur": second if device else 400, "pid": device,
             "tid": 7, "args": {**of_call, "device": device, "stream": 7}},
        ]  # fmt: skip
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": events}))
    (loaded,) = ingest.load([path], tmp_path / "store").runs
    assert loaded.run_id is not None
    return Run(open_run(tmp_path / "store", loaded.run_id))


def test_a_device_that_idles_behind_another_is_told(tmp_path: Path) -> None:
    """From 1,020 to 20,920 each works 20 x 400 of 19,900; both together 16,000. One hides 8,000 of 11,900."""
    run = run_of(tmp_path, 400)
    assert activities(run.con, 0, 0)[0].work().total() == 16_000_000
    found = check(run.con)
    assert (
        "Rank 0 worked on 2 devices, and figures here are of all of them as one, which idles only while none works. Of "
        "19.9 ms GPU 0 idles 11.9 ms (59.8 %), GPU 1 idles 11.9 ms (59.8 %)."
    ) in wording.of_a_part(found, "en")
    assert any("rank 0 使用了 2 个设备" in text for text in wording.of_a_part(found, "zh"))
    ended = {one.detector: one for one in found.outcomes}
    for name in OF_IDLE:
        assert (ended[name].outcome, ended[name].reason) == (
            "not_measured", "GPU 0 idles for 8.00 ms while another device of rank 0 works; why was not looked for",
        ), name  # fmt: skip
    # Neither of these is a matter of what was recorded; gc's is.
    assert wording.unmeasured(ended["sync_stall"], "en").endswith("why was not looked for")
    assert wording.unmeasured(ended["random_numbers"], "en").endswith("is judged by host_late")
    assert "To record it: " in wording.unmeasured(ended["gc"], "en")


@pytest.mark.parametrize("second", [10])
def test_a_device_that_hardly_works_is_not_worth_a_word(tmp_path: Path, second: int) -> None:
    """2.5 % of what the other one does."""
    found = check(run_of(tmp_path, second).con)
    assert not any("worked on" in text for text in wording.of_a_part(found, "en"))
    assert {one.detector: one.outcome for one in found.outcomes}["memory_alloc"] == "clean"


def test_a_gpu_that_a_job_on_the_cpu_left_unused_is_told(tmp_path: Path) -> None:
    """The results of addmm lie on the host, and a GPU is listed."""
    args = {"Device Type": 0, "Device Id": -1, "Addr": 4096, "Bytes": 400, "Total Allocated": 400}
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::addmm", "ts": 100, "dur": 900, "pid": 1, "tid": 1, "args": {}},
        {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "ts": 105, "pid": 1, "tid": 1,
         "args": args},
    ]  # fmt: skip
    path, card = tmp_path / "trace.json", {"id": 0, "name": "Tesla V100-SXM2-16GB", "numSms": 80}
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [card], "traceEvents": events}))
    (loaded,) = ingest.load([path], tmp_path / "store").runs
    assert loaded.run_id is not None
    found = check(open_run(tmp_path / "store", loaded.run_id))
    assert (
        "Rank 0: Tesla V100-SXM2-16GB was there, and nothing recorded ran on it: all of the work was the CPU's."
        in wording.of_a_part(found, "en")
    )
    assert any("没有用它" in text for text in wording.of_a_part(found, "zh"))


# --- devices that take turns

STEP = 1000


def checked(place: Path, stretches: tuple[tuple[int, int, int], ...]) -> Check:
    """Two steps of 1,000 us; `stretches` of each: device, begin and end of back-to-back kernels of 10 us."""
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": device, "tid": 0, "args": {"name": "python"}} for device in (0, 1)
    ]
    events += [
        {"ph": "M", "name": "process_labels", "pid": device, "tid": 0, "args": {"labels": f"GPU {device}"}}
        for device in (0, 1)
    ]
    number = 0
    for step in (0, 1):
        first = step * STEP
        events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step + 1}", "pid": 9, "tid": 9,
                       "ts": first, "dur": STEP, "args": {}})  # fmt: skip
        for device, begin, end in stretches:
            for at in range(first + begin, first + end, 10):
                number += 1
                args = {"correlation": number, "device": device, "stream": 7, "External id": number}
                launched = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9}
                events.append({"ph": "X", **launched, "ts": max(first, at - 60), "dur": 2, "args": args})
                events.append({"ph": "X", "cat": "kernel", "name": "gemm", "pid": device, "tid": 7, "ts": at, "dur": 10,
                               "args": args})  # fmt: skip
    path = place / "t.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    (run,) = ingest.load(path, place / "store").runs
    assert run.run_id, run.reason
    return check(open_run(place / "store", run.run_id))


def test_devices_that_take_turns_are_a_finding(tmp_path: Path) -> None:
    """Device 0 computes from 100 to 500, device 1 from 500 to 1000: at once, 500 of these 900 would do."""
    found = checked(tmp_path, ((0, 100, 500), (1, 500, 1000)))
    (one,) = [each for each in found.findings if each.detector == "pipeline_bubble"]
    assert one.saving_ns == 400_000 and one.numbers["bubble_share"] == 0.4
    assert one.numbers["devices"] == ["GPU 0 400 µs", "GPU 1 500 µs"]
    assert "Rank 0's 2 devices take turns: for 400 µs of each step (40.0 %)" in one.words["en"].title
    assert {(each.rank, each.ts_ns % 1_000_000, each.dur_ns) for each in one.evidence} == {(0, 100_000, 400_000)}
    shown = snippet(one)
    assert shown is not None and "device_map" in shown.before  # and no schedule of a pipeline
    (said,) = [text for text in wording.of_a_part(found, "en") if "devices" in text]
    assert "GPU 0 idles 1.20 ms (60.0 %), GPU 1 idles 1.00 ms (50.0 %)" in said


def test_work_before_the_first_step_is_of_no_step(tmp_path: Path) -> None:
    """Device 1 also works for 300 before each step that was marked; of the first of these, no step holds anything."""
    found = checked(tmp_path, ((0, 100, 500), (1, 500, 700), (1, -300, 0)))
    (one,) = [each for each in found.findings if each.detector == "pipeline_bubble"]
    # 200 and 200 + 300 in the steps: the 300 before step 1 are left out.
    assert one.numbers["devices"] == ["GPU 0 400 µs", "GPU 1 350 µs"]


def test_devices_that_work_at_once_are_no_finding(tmp_path: Path) -> None:
    found = checked(tmp_path, ((0, 100, 990), (1, 100, 1000)))
    assert not [each for each in found.findings if each.detector == "pipeline_bubble"]
    assert [one.name for one in found.quality.doubts if one.name == "devices"] == ["devices"]


def test_a_process_with_one_device_says_nothing_of_it(tmp_path: Path) -> None:
    found = checked(tmp_path, ((1, 100, 1000),))
    assert not [one for one in found.quality.doubts if one.name == "devices"]
