"""What happens once is nobody else's: neither its idle time, nor the step that other findings are a share of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from npulens import ingest
from npulens.analysis.engine import Check, check
from npulens.analysis.finding import Finding
from npulens.analysis.run import Run
from npulens.analysis.say import Whole
from npulens.analysis.steady import of_run, of_step, shares_of, steady_ns
from npulens.app.text.wording import answer
from npulens.collectors.planting.plant import Options, plan, write
from npulens.collectors.simulator.dialect import FIRST_USE_NS
from npulens.ingest.store import runs
from tests.tablecase import connection


def judged(home: Path, scenario: str, form: str, level: int) -> tuple[Check, dict[str, Any]]:
    """What is said of a job that loads a library in its first step, and the truth."""
    options = Options(4, 3, level, form, missing_ranks=0, skew_ns=0, dialect="first_step")
    truth = write(plan([scenario], 6, options), home / "case")
    (run,) = ingest.load(home / "case" / "capture", home / "store").runs
    return check(runs.open_run(home / "store", str(run.run_id))), truth


@pytest.mark.parametrize(("form", "level"), [("db", 1), ("text", 0), ("kineto", 1)])
def test_what_each_step_holds_is_a_share_of_the_step_without_first_use(form: str, level: int, tmp_path: Path) -> None:
    said, truth = judged(tmp_path, "host_late", form, level)
    found = {finding.cause: finding for finding in said.findings}
    assert set(found) == {"first_use", "host_late"}, "nobody claims the load a second time"
    first, late, (fault,) = found["first_use"], found["host_late"], truth["faults"]
    assert said.steady_step_ns == pytest.approx(truth["step_ns"], rel=0.01)
    assert late.saving_share == pytest.approx(fault["gain_ns"] / truth["step_ns"], rel=0.05)
    assert late.saving_ns == pytest.approx(fault["gain_ns"], rel=0.05)
    assert late.numbers["idle_share"] == pytest.approx(late.saving_share, rel=0.1)
    assert first.saving_ns * said.steps == pytest.approx(FIRST_USE_NS, rel=0.01)
    assert first.saving_share == pytest.approx(first.saving_ns / said.step_ns), "of all that was recorded"
    assert sum(finding.saving_ns for finding in said.findings) <= said.step_ns


def test_a_first_use_is_given_back_once(tmp_path: Path) -> None:
    said, _ = judged(tmp_path, "host_late", "db", 1)
    assert said.findings[0].cause == "first_use"
    once = f"at most 600 ms, once ({100 * said.findings[0].saving_share:.1f} % of the recorded time)"
    assert once in answer(said, "en") and "600 ms，仅此一次" in answer(said, "zh")


def test_without_first_use_the_mean_step_is_the_whole_of_it() -> None:
    run = Run(connection({"spans": [
        {"id": 1, "kind": "step_mark", "name": "ProfilerStep#1", "at": 0, "for": 100},
        {"id": 2, "kind": "step_mark", "name": "ProfilerStep#2", "at": 100, "for": 100},
        {"id": 3, "kind": "runtime", "name": "cudaLaunchKernel", "at": 2, "for": 5},
        {"id": 4, "kind": "kernel", "name": "add", "at": 20, "for": 30, "by": 3},
    ]}))  # fmt: skip
    assert run.get(steady_ns) == run.wall_ns == 200_000
    assert of_run(run, 50_000) == of_step(run, 25_000) == 0.25


def test_what_is_allocated_during_first_use_is_not_given_back_twice() -> None:
    """The first conv2d allocates for 1000 of its 5050, which are first use. A later allocation idles the device too."""
    said = check(connection({"spans": [
        {"id": 1, "kind": "cpu_op", "name": "aten::conv2d", "at": 100, "for": 5050},
        {"id": 2, "kind": "runtime", "name": "cudaMalloc", "at": 200, "for": 1000},
        {"id": 3, "kind": "runtime", "name": "cudaLaunchKernel", "at": 5120, "for": 5},
        {"id": 4, "kind": "kernel", "name": "conv", "at": 5145, "for": 100, "by": 3},
        {"id": 5, "kind": "cpu_op", "name": "aten::add", "at": 10, "for": 10},
        {"id": 6, "kind": "runtime", "name": "cudaLaunchKernel", "at": 12, "for": 5},
        {"id": 7, "kind": "kernel", "name": "add", "at": 37, "for": 10, "by": 6},
        *({"id": 10 + n, "kind": "runtime", "name": "cudaMalloc", "at": 5250 + 2 * n, "for": 1} for n in range(8)),
        {"id": 20, "kind": "runtime", "name": "cudaMalloc", "at": 5300, "for": 300},
        {"id": 21, "kind": "cpu_op", "name": "aten::conv2d", "at": 5610, "for": 20},
        {"id": 22, "kind": "runtime", "name": "cudaLaunchKernel", "at": 5615, "for": 5},
        {"id": 23, "kind": "kernel", "name": "conv", "at": 5640, "for": 100, "by": 22},
        {"id": 24, "kind": "cpu_op", "name": "aten::conv2d", "at": 5650, "for": 20},
        {"id": 25, "kind": "runtime", "name": "cudaLaunchKernel", "at": 5655, "for": 5},
        {"id": 26, "kind": "kernel", "name": "conv", "at": 5740, "for": 100, "by": 25},
    ]}))  # fmt: skip
    saved = {finding.cause: finding.saving_ns for finding in said.findings}
    assert saved["first_use"] > 4_900_000 and saved["memory_alloc"] < 320_000


def loaded_first(*more: dict[str, Any]) -> list[dict[str, Any]]:
    """A kernel of 10 us; 5000 us in which its library is loaded; then 100 us of work, 40 of them a copy on its own."""
    return [
        {"id": 1, "kind": "cpu_op", "name": "aten::add", "at": 10, "for": 10},
        {"id": 2, "kind": "runtime", "name": "cudaLaunchKernel", "at": 12, "for": 5},
        {"id": 3, "kind": "kernel", "name": "add", "at": 37, "for": 10, "by": 2},
        {"id": 4, "kind": "cpu_op", "name": "aten::conv2d", "at": 50, "for": 5000},
        {"id": 5, "kind": "runtime", "name": "cudaLaunchKernel", "at": 60, "for": 4980},
        {"id": 6, "kind": "kernel", "name": "conv", "at": 5045, "for": 60, "by": 5},
        {"id": 7, "kind": "runtime", "name": "cudaMemcpyAsync", "at": 5052, "for": 5},
        {"id": 8, "kind": "memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "at": 5105, "for": 40, "by": 7},
        *({"id": 10 + 2 * n, "kind": "runtime", "name": "cudaLaunchKernel", "at": 5060 + 4 * n, "for": 3}
          for n in range(6)),
        *({"id": 11 + 2 * n, "kind": "kernel", "name": "add", "at": 5145 + 5 * n, "for": 5, "by": 10 + 2 * n}
          for n in range(6)),
        *more,
    ]  # fmt: skip


def test_without_steps_what_recurs_is_a_share_of_the_time_without_first_use() -> None:
    """Of 5138 us on the device 140 are work, 40 of them the copy. The load left out, the launch comes 13 us after the
    first kernel ends, and takes the usual 20."""
    run = Run(connection({"spans": loaded_first(), "rank": {0: {"backend": "cuda", "formats": ["kineto"]}}}))
    assert run.wall_ns == 5_138_000
    assert run.get(steady_ns) == 173_000
    assert run.get(shares_of) == Whole(stepped=False, outside=False, steady=True)
    said = check(run.con)
    copies = next(one for one in said.findings if one.cause == "copy_exposed")
    assert copies.saving_share == pytest.approx(40_000 / run.get(steady_ns), rel=0.01)
    assert "of the recorded time without start-up" in copies.words["en"].title
    assert "采集时段内（不含启动阶段）" in copies.words["zh"].title
    clean = [one.reason for one in said.outcomes if one.outcome == "clean" and one.reason.startswith("at most")]
    assert all("of the recorded time without start-up" in reason or ", once (" in reason for reason in clean)


def test_time_before_all_work_of_the_device_is_not_called_recorded() -> None:
    """The host was recorded 3000 us before; 3000 of 8175 is more than a twentieth."""
    spans = loaded_first()
    for span in spans:
        span["at"] += 3000
    spans.append({"id": 90, "kind": "cpu_op", "name": "aten::to", "at": 0, "for": 2900})
    said = check(connection({"spans": spans, "rank": {0: {"backend": "cuda", "formats": ["kineto"]}}}))
    first = said.findings[0]
    assert first.cause == "first_use" and " of the time with device work is first use" in first.words["en"].title
    assert "recorded time" not in answer(said, "en") and "采集时" not in answer(said, "zh")


#: Kernels, names of operators and times of the cases below are in microseconds; a launch takes 20 to the device.
def host(number: int, kind: str, name: str, at: float, length: float, **more: Any) -> dict[str, Any]:
    return {"id": number, "kind": kind, "name": name, "at": at, "for": length, **more}


def launched(number: int, name: str, at: float, length: float) -> list[dict[str, Any]]:
    return [
        host(number, "runtime", "cudaLaunchKernel", at, 5),
        host(number + 1, "kernel", name, at + 20, length, by=number),
    ]


def first_uses(spans: list[dict[str, Any]]) -> list[Finding]:
    said = check(connection({"rank": {0: {"backend": "cuda"}}, "spans": spans}))
    return [one for one in said.findings if one.detector == "first_use"]


def convolution(number: int, at: float, length: float, asks: int, shapes: str) -> list[dict[str, Any]]:
    """One that launches its kernel 20 us before its end; so many kernels are asked about from 50 us on."""
    return [
        host(number, "cpu_op", "aten::cudnn_convolution", at, length, host_op={"input_shapes": shapes}),
        *(host(number + 10 + n, "runtime", "cudaFuncGetAttributes", at + 50 + 20 * n, 2) for n in range(asks)),
        *launched(number + 1, "conv", at + length - 20, 10),
    ]


def planned(*shapes: str, asks: int = 30) -> list[dict[str, Any]]:
    """Four convolutions: two of 2000 us that ask about kernels, each followed by one of 40."""
    return [
        host(1, "cpu_op", "aten::add", 0, 10), *launched(2, "add", 2, 30),
        *convolution(100, 100, 2000, asks, shapes[0]), *convolution(200, 2120, 40, 0, shapes[1]),
        *convolution(300, 2200, 2000, asks, shapes[2]), *convolution(400, 4220, 40, 0, shapes[3]),
    ]  # fmt: skip


def test_a_convolution_that_asks_about_many_kernels_makes_a_plan() -> None:
    """Both long ones idle the device from their start until their launch, 20 before their end: 1980 + 1980."""
    (found,) = first_uses(planned("1", "1", "2", "2"))
    assert found.numbers["first_ns"] == 2 * 1_980_000
    assert "plans" in found.words["en"].advice and "once for each shape" in found.words["en"].advice


def test_without_shapes_those_that_ask_less_tell() -> None:
    (found,) = first_uses(planned("", "", "", ""))
    assert found.numbers["first_ns"] == 2 * 1_980_000


@pytest.mark.parametrize("spans", [
    pytest.param(planned("1", "1", "1", "1"), id="the shape had its plan"),
    pytest.param(planned("1", "1", "2", "2", asks=19), id="as an operator asks that launches a few kernels"),
])  # fmt: skip
def test_no_plan_is_made(spans: list[dict[str, Any]]) -> None:
    """Then two of four runs are slow, and the usual one takes 1020: none takes 20 times that."""
    assert first_uses(spans) == []


def looped(first: int) -> list[dict[str, Any]]:
    """Three steps of 5000 us; of the first the operator takes 4000, of later ones 40."""
    return [
        each for n, length in enumerate((4000, 40, 40)) for each in (
            host(100 * n + 1, "step_mark", f"ProfilerStep#{first + n}", 5000 * n, 5000),
            *launched(100 * n + 2, "add", 5000 * n, 30),
            host(100 * n + 6, "cpu_op", "aten::zero_", 5000 * n + 100, length),
            *launched(100 * n + 7, "fill", 5000 * n + 100 + length - 20, 4900 - length),
        )
    ]  # fmt: skip


def test_a_loop_that_ran_before_uses_nothing_for_the_first_time() -> None:
    """The job's first step is 0 or 1. Before step 2 the loop has run; nothing but the time of a first run says more."""
    (found,) = first_uses(looped(1))
    assert found.numbers["first_ns"] == 3_980_000 and found.confidence == "medium"
    assert "first recorded runs" in found.words["en"].title
    assert first_uses(looped(2)) == []


def rests(kernels: int, before_known_us: float) -> list[dict[str, Any]]:
    """Quick launches, twice of the first kernel, with a rest between; then one of 4000 us before a new kernel."""
    at = 100.0 + before_known_us
    spans = [*launched(2, "k0", 0, 30), *launched(4, "k0", at, 30)]
    for n in range(1, kernels):
        spans += launched(10 * n, f"k{n}", at + 30 * n, 25)
    at += 30 * kernels
    return [*spans, *launched(9_000, "new", at + 4000, 500)]


def test_silence_before_a_kernel_is_no_first_use_in_a_process_that_is_warm() -> None:
    """A rest of a twentieth before what has run is as good: 200 of 4000. So are 20 kernels that load nothing."""
    assert len(first_uses(rests(5, 0))) == 1
    assert first_uses(rests(5, 300)) == []
    assert first_uses(rests(25, 0)) == []
