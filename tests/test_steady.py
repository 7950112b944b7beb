"""What happens once is nobody else's: neither its idle time, nor the step that other findings are a share of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from npulens import ingest
from npulens.analysis.engine import Check, check
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
