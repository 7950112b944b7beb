"""Checked by the file itself: the profiler's own sums beside those of what was read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from npulens import ingest
from npulens.ingest.messages import render
from npulens.ingest.store import runs
from tests.text_export import OVERLAP, ROOT, comm_lanes, comm_op, named, processes, span, task, write

STEP = "Device_id,Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free\n0,,{0},100,100,{1},0\n"
STATISTIC = "Device_id,OP Type,Core Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),Ratio(%)\n"


def capture(directory: Path, computing_us: float = 500, communication_us: float = 200, **files: str) -> Path:
    """Two kernels of 300 us that overlap for 100 us, so 500 us of computing; an operator of 200 us."""
    events = [
        *processes(), *comm_lanes(), comm_op("hcom_allReduce__123_0_1", 400_000, 200_000),
        task("MatMul1", 0, 300_000, "AI_CORE"), task("MatMul2", 200_000, 300_000, "AI_CORE", stream=3),
    ]  # fmt: skip
    step = STEP.format(computing_us, communication_us)
    return write(directory / ROOT, events, step_trace_time_csv=step, **files)


def loaded(path: Path, where: Path) -> ingest.LoadedRun:
    run = ingest.load(path, where).runs[0]
    assert run.run_id is not None, run.reason
    return run


def test_sums_that_agree_are_kept_and_nothing_is_said(tmp_path: Path) -> None:
    listed = STATISTIC + "0,MatMul,AI_CORE,2,600,300,300,300,100\n"
    run = loaded(capture(tmp_path, op_statistic_csv=listed), tmp_path / "s")
    assert run.warnings == ()
    con = runs.open_run(tmp_path / "s", run.run_id or "")
    assert con.execute("SELECT source, quantity, file_ns, ours_ns, rule FROM checked ORDER BY ALL").fetchall() == [
        ("op_statistic.csv", "kernels", 600_000, 600_000, "kernels"),
        ("step_trace_time.csv", "communication", 200_000, 200_000, "operators"),
        ("step_trace_time.csv", "computing", 500_000, 500_000, "kernels"),
    ]


@pytest.mark.parametrize(("computing_us", "warns"), [(505.2, False), (495, False), (510.6, True), (475, True)])
def test_more_than_a_hundredth_off_is_said(tmp_path: Path, computing_us: float, warns: bool) -> None:
    """And by more than 10 us, which is more than roundings of stamps make."""
    run = loaded(capture(tmp_path, computing_us), tmp_path / "s")
    text = (
        f"rank 2: step_trace_time.csv says {computing_us / 1000:.3f} ms of computing, the kernels read here make 0.500 "
        "ms; no rule in use reproduces the file"
    )
    assert run.warnings == ((text,) if warns else ())
    row = next(row for row in run.coverage if row["table"] == "profiler_step")
    assert (row["status"], row["reason"] is not None) == (("partial", True) if warns else ("recorded", False))
    if warns:
        chinese = render(row["reason"], "zh")
        assert chinese.startswith("step_trace_time.csv 中的计算时间为") and chinese.endswith("现有规则均不能复现该文件")


def test_the_lanes_of_the_profiler_are_compared(tmp_path: Path) -> None:
    directory = capture(tmp_path)
    events = [
        *processes(), task("MatMul1", 0, 300_000, "AI_CORE"), named(OVERLAP, "Computing", 0, "thread_name"),
        span(OVERLAP, 0, "Computing", 0, 400_000),
    ]  # fmt: skip
    write(directory, events)
    (directory / "ASCEND_PROFILER_OUTPUT" / "step_trace_time.csv").unlink()
    assert [text.partition(", the")[0] for text in loaded(directory, tmp_path / "s").warnings] == [
        "rank 2: Overlap Analysis says 0.400 ms of computing"
    ]


def test_the_rule_that_reproduces_a_file_is_named(tmp_path: Path) -> None:
    """A statistic that counts the operator with the kernels: 300 + 300 + 200 us."""
    rows = "0,MatMul,AI_CORE,2,600,300,300,300,75\n0,hcom_allReduce_,MIX_AIV,1,200,200,200,200,25\n"
    run = loaded(capture(tmp_path, op_statistic_csv=STATISTIC + rows), tmp_path / "s")
    assert run.warnings == (
        "rank 2: op_statistic.csv lists kernels of 0.800 ms together, those read here make 0.600 ms; "
        "the file counts communication operators as well",
    )


def test_nothing_is_compared_with_what_was_not_read(tmp_path: Path) -> None:
    """Without a trace there are no kernels; that they are missing is told by coverage."""
    directory = write(tmp_path / ROOT, None, step_trace_time_csv=STEP.format(500, 200))
    assert loaded(directory, tmp_path / "s").warnings == ()


@pytest.mark.shared
def test_real_captures_agree_with_their_own_sums(shared_traces: Path, tmp_path: Path) -> None:
    """910A: text to the nanosecond; its databases count the union of tasks. Five hundredths off are told."""
    traces = shared_traces.parent / "traces_2/Ascend+msinsight@c1e639ee-910A/test/data/pytorch"
    if not traces.is_dir():
        pytest.skip("the second set of shared captures is not here")
    text = traces / "text" / "level1" / "rank0_ascend_pt"
    assert loaded(text, tmp_path / "s").warnings == ()
    (told,) = loaded(traces / "db" / "level1" / "rank1_ascend_pt", tmp_path / "s").warnings
    assert "18.903 ms of communication" in told and told.endswith("the file counts the union of their tasks")
    changed = tmp_path / "changed" / text.name
    shutil.copytree(text, changed)
    file = changed / "ASCEND_PROFILER_OUTPUT" / "step_trace_time.csv"
    file.chmod(0o644)
    file.write_text(file.read_text().replace("9847.663999999999", str(9847.664 * 1.05)))
    (told,) = loaded(changed, tmp_path / "s").warnings
    assert "says 10.340 ms of computing (step 50), the kernels read here make 9.848 ms; no rule" in told
