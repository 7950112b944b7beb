"""One process that drives several devices: its figures say so, and devices that take turns are a finding."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from npulens import ingest
from npulens.analysis.engine import Check, check
from npulens.analysis.views import install
from npulens.app.text.wording import of_a_part
from npulens.ingest.store import runs

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
    con = runs.open_run(place / "store", run.run_id)
    install(con)
    return check(con)


def test_devices_that_take_turns_are_a_finding(tmp_path: Path) -> None:
    """Device 0 computes from 100 to 500, device 1 from 500 to 1000: at once, 500 of these 900 would do."""
    found = checked(tmp_path, ((0, 100, 500), (1, 500, 1000)))
    (one,) = [each for each in found.findings if each.detector == "pipeline_bubble"]
    assert one.saving_ns == 400_000 and one.numbers["bubble_share"] == 0.4
    assert one.numbers["devices"] == ["GPU 0 400 µs", "GPU 1 500 µs"]
    assert "Rank 0's 2 devices take turns: for 400 µs of each step (40.0 %)" in one.words["en"].title
    assert {(each.rank, each.ts_ns % 1_000_000, each.dur_ns) for each in one.evidence} == {(0, 100_000, 400_000)}
    (said,) = of_a_part(found, "en")
    assert "rank 0 drives 2 devices" in said.lower() and "GPU 0 40.0 %, GPU 1 50.0 %" in said


def test_devices_that_work_at_once_are_no_finding(tmp_path: Path) -> None:
    found = checked(tmp_path, ((0, 100, 990), (1, 100, 1000)))
    assert not [each for each in found.findings if each.detector == "pipeline_bubble"]
    assert [one.name for one in found.quality.doubts if one.name == "several"] == ["several"]


def test_a_process_with_one_device_says_nothing_of_it(tmp_path: Path) -> None:
    found = checked(tmp_path, ((1, 100, 1000),))
    assert not [one for one in found.quality.doubts if one.name == "several"]
