"""Recorded time before the first device task and after the last: it is told, and nothing there is called clean."""

from __future__ import annotations

from typing import Any

import pytest

from npulens.analysis.engine import check
from npulens.analysis.quality import quality
from npulens.analysis.run import Run
from npulens.app.text import wording
from tests.tablecase import connection

LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def of(*lines: tuple[str, str, int, int]) -> dict[str, Any]:
    """A rank without steps: kind, name, begin and length of its spans; a kernel is launched by the span before it."""
    made = [{"id": number, "kind": kind, "name": name, "at": at, "for": length}
            for number, (kind, name, at, length) in enumerate(lines, 1)]  # fmt: skip
    for before, one in zip(made, made[1:], strict=False):
        if one["kind"] == "kernel":
            one["by"] = before["id"]
    return {"spans": made}


def outcomes(case: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {one.detector: (one.outcome, one.reason) for one in check(connection(case)).outcomes}


def test_a_loader_that_runs_before_the_device_has_anything_to_do_is_not_clean() -> None:
    """600 of 1,000 us lie before the first task, 500 of them in the loader; the device then works without a gap."""
    case = of(
        ("annotation", LOADER, 50, 500), ("runtime", "cudaLaunchKernel", 590, 5), ("kernel", "gemm", 600, 400),
        ("host_other", "PyTorch Profiler (0)", 0, 1_000), ("cpu_op", "aten::mm", 580, 20),
    )  # fmt: skip
    found = outcomes(case)
    assert found["dataloader"] == (
        "not_measured", "its calls took 500 µs before the first device task, and no figure holds that time"
    )
    assert found["first_use"] == (
        "not_measured",
        "600 µs of 1.00 ms recorded lie before the first device task, and what was first used there is in no figure",
    )
    assert found["sync_stall"][0] == "clean"  # nothing waits for a device that has nothing to do


def test_of_calls_that_end_with_the_recording_that_is_told_as_well() -> None:
    """The device works from 100 to 500; memory is given back from 600 to 900 of 1,000."""
    case = of(
        ("runtime", "cudaLaunchKernel", 90, 5), ("kernel", "gemm", 100, 400), ("runtime", "cudaFree", 600, 300),
        ("host_other", "PyTorch Profiler (0)", 0, 1_000), ("cpu_op", "aten::mm", 80, 20),
    )  # fmt: skip
    assert outcomes(case)["memory_alloc"] == (
        "not_measured", "its calls took 300 µs before the first device task or after the last, and no figure holds "
        "that time",
    )  # fmt: skip


def test_where_the_device_works_from_the_start_first_use_is_clean() -> None:
    """40 of 1,000 us lie before the first task."""
    case = of(
        ("annotation", LOADER, 0, 5), ("runtime", "cudaLaunchKernel", 30, 5), ("kernel", "gemm", 40, 960),
        ("cpu_op", "aten::mm", 25, 15),
    )  # fmt: skip
    found = outcomes(case)
    assert found["first_use"][0] == "clean" and found["dataloader"][0] == "clean"


@pytest.mark.parametrize("before", [700, 300])
def test_most_of_the_recorded_time_belongs_beside_the_answer(before: int) -> None:
    """Of 1,000 us 700 or 300 lie before the first task."""
    case = of(
        ("runtime", "cudaLaunchKernel", before - 10, 5), ("kernel", "gemm", before, 1_000 - before),
        ("host_other", "PyTorch Profiler (0)", 0, 1_000),
    )  # fmt: skip
    told = wording.of_a_part(check(connection(case)), "en")
    assert [text for text in told if "lie before the first device task" in text] == (
        ["Rank 0: 700 µs of 1.00 ms recorded lie before the first device task, and no figure here holds them. The "
         "longest call there is cudaLaunchKernel (5.00 µs). For 695 µs of it no call was recorded at all."]
        if before == 700 else []
    )  # fmt: skip


def test_of_the_host_alone_the_time_without_any_call_is_told() -> None:
    """Calls from 880 to 1,000 of 1,000 us; the profiler's own mark is no call."""
    case = of(
        ("cpu_op", "aten::mm", 880, 100), ("cpu_op", "aten::add", 985, 15),
        ("host_other", "PyTorch Profiler (0)", 0, 1_000),
    ) | {"absent": ["kernel"], "rank": {0: {"backend": "cuda"}}}  # fmt: skip
    (told,) = [one for one in quality(Run(connection(case))).doubts if one.name == "outside"]
    assert told.beside and told.text == (
        "rank 0: 880 µs of 1.00 ms recorded lie before the first recorded call or after the last, and no figure here "
        "holds them",
        "rank 0：采集的 1.00 ms 中有 880 µs 位于首个采集到的调用之前或最后一个之后，这里的数字都不包含这段时间",
    )
    case["spans"].append({"id": 9, "kind": "cpu_op", "name": "aten::mul", "at": 100, "for": 10})
    assert not [one for one in quality(Run(connection(case))).doubts if one.name == "outside"]


def test_calls_of_another_clock_are_no_recorded_time() -> None:
    """A call at 1,000,000 s, which is 11 days after the device's work."""
    case = of(
        ("cpu_op", "aten::mm", 0, 20), ("runtime", "cudaLaunchKernel", 10, 5), ("kernel", "gemm", 40, 960),
        ("cpu_op", "aten::add", 1_000_000_000_000, 10),
    )  # fmt: skip
    (told,) = [text for text in wording.of_a_part(check(connection(case)), "en") if "clock" in text]
    assert told == (
        "Rank 0: some calls lie 11 days away from the device's work, so they are of another clock, or the file is "
        "damaged. No figure here holds them."
    )
