"""Jobs without work of a device: which operators have the time of the host, by hand and to the nanosecond."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from npulens import ingest
from npulens.analysis.engine import Check
from npulens.app import run_check
from npulens.app.text import wording
from tests.kineto_files import Event, task, x

DASHBOARD = Path(__file__).resolve().parent.parent / "app" / "dashboard.py"


def checked(path: Path, events: list[Event], devices: tuple[str, ...] = ("a GPU that nothing ran on",)) -> Check:
    listed = [{"id": number, "name": name} for number, name in enumerate(devices)]
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": listed, "traceEvents": events}))
    (run,) = ingest.load(path, path.parent / "store").runs
    assert run.run_id, run.reason
    return run_check.judge(path.parent / "store", run.run_id)


#: 100 us. `conv` of 40 has 30 in `mkldnn`, of which 5 are a copy; `mm` takes 20 on another thread at the same time.
NESTED = [
    x("cpu_op", "aten::conv2d", 0, 40), x("cpu_op", "aten::mkldnn_convolution", 5, 30),
    x("cpu_op", "aten::copy_", 10, 5), x("cpu_op", "aten::copy_", 60, 10),
    x("cpu_op", "aten::mm", 20, 20, tid=2), x("user_annotation", "between", 90, 10),
]  # fmt: skip


def test_own_times_add_up_to_the_time_that_operators_ran(tmp_path: Path) -> None:
    """mkldnn 30 - 5, mm 20, copy_ 5 + 10, conv2d 40 - 30: 70 us of two threads in 50 us, of 100 recorded."""
    found = checked(tmp_path / "a.pt.trace.json", NESTED).host
    assert found is not None
    assert (found.whole_ns, found.ran_ns, found.own_ns) == (100_000, 50_000, 70_000)
    assert [(one.name, one.own_ns, one.calls, one.code) for one in found.most] == [
        ("aten::mkldnn_convolution", 25_000, 1, None), ("aten::mm", 20_000, 1, None), ("aten::copy_", 15_000, 2, None),
    ]  # fmt: skip
    assert (found.others, found.others_ns) == (1, 10_000)


def test_the_answer_names_them(tmp_path: Path) -> None:
    check = checked(tmp_path / "a.pt.trace.json", NESTED)
    assert wording.answer(check, "en").endswith(
        "Operators ran on the host for 50.0 µs of the 100 µs from the first recorded call to the last (50.0 %). Of "
        "70.0 µs of their own time, without the operators they call: aten::mkldnn_convolution 35.7 % (calls: 1), "
        "aten::mm 28.6 % (calls: 1), aten::copy_ 21.4 % (calls: 2), other operators (1) 14.3 %."
    )
    assert "aten::copy_ 21.4 %（2 次调用）、其他 1 种算子 14.3 %。" in wording.answer(check, "zh")
    assert check.as_dict()["host"]["operators"][0] == {
        "name": "aten::mkldnn_convolution", "own_ns": 25_000, "calls": 1, "code": None,
    }  # fmt: skip


def test_calls_of_the_runtime_library_are_told_where_the_device_was_not_recorded(tmp_path: Path) -> None:
    """cudaFree has 50 of 100 us outside of operators, mm 20 of which 5 are a launch: 50 + 15 + 5 of 70."""
    check = checked(tmp_path / "a.pt.trace.json", [
        x("cuda_runtime", "cudaFree", 0, 50), x("cpu_op", "aten::mm", 60, 20),
        x("cuda_runtime", "cudaLaunchKernel", 65, 5),
        x("user_annotation", "between", 90, 10),
    ])  # fmt: skip
    assert check.host is not None and check.host.called
    assert [(one.name, one.own_ns) for one in check.host.most] == [
        ("cudaFree", 50_000), ("aten::mm", 15_000), ("cudaLaunchKernel", 5_000),
    ]  # fmt: skip
    assert (check.host.ran_ns, check.host.own_ns) == (70_000, 70_000)
    assert "Operators and calls of the runtime library ran for 70.0 µs of the 100 µs" in wording.answer(check, "en")


def test_only_what_lies_in_steps_counts_and_the_line_of_code_is_told(tmp_path: Path) -> None:
    """Two steps of 50 us. One call ends before them, one has 5 of its 15 us in them, one all its 10."""
    events = [
        x("user_annotation", "ProfilerStep#1", 100, 50), x("user_annotation", "ProfilerStep#2", 150, 50),
        x("cpu_op", "aten::mul", 0, 20), x("cpu_op", "aten::mul", 90, 15), x("cpu_op", "aten::mul", 160, 10),
        x("python_function", "model.py(7): forward", 106, 40, {"Python id": 1}), x("cpu_op", "aten::add", 110, 30),
    ]  # fmt: skip
    check = checked(tmp_path / "a.pt.trace.json", events)
    assert check.host is not None
    assert (check.host.whole_ns, check.host.ran_ns) == (100_000, 45_000)
    assert [(one.name, one.own_ns, one.calls, one.code) for one in check.host.most] == [
        ("aten::add", 30_000, 1, "model.py(7): forward"), ("aten::mul", 15_000, 2, None),
    ]  # fmt: skip
    assert "the steps' 100 µs (45.0 %)" in wording.answer(check, "en")
    assert "aten::add 66.7 % (calls: 1, the longest from model.py(7): forward)" in wording.answer(check, "en")


def test_a_job_whose_device_is_the_cpu_is_told_as_well(tmp_path: Path) -> None:
    check = checked(tmp_path / "a.pt.trace.json", NESTED, devices=())
    assert any(one.outcome == "clean" for one in check.outcomes)  # its operators are tasks of a device
    assert check.host is not None and check.host.most[0].name == "aten::mkldnn_convolution"


@pytest.mark.parametrize("kind", ["kernel", "gpu_memcpy"])
def test_where_a_device_worked_nothing_is_said(tmp_path: Path, kind: str) -> None:
    assert checked(tmp_path / "a.pt.trace.json", [*NESTED, task("work", 50, 10, cat=kind)]).host is None


def test_the_workspace_draws_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name from the capture is text, never markup; the bars are shares of all of it."""
    events = [*NESTED, x("cpu_op", "aten::<b>bold", 80, 10)]  # 80 us of own time now: the bars add up to 100 %
    run = checked(tmp_path / "a.pt.trace.json", events).run_id
    monkeypatch.setenv("NPULENS_STORE", str(tmp_path / "store"))
    page = AppTest.from_file(str(DASHBOARD), default_timeout=60)
    page.query_params["run"] = run
    page.run()
    assert not page.exception
    for _ in range(100):
        (drawn,) = [one.proto.body for one in page.get("html") if 'class="own"' in one.proto.body] or [""]
        if drawn:
            break
        time.sleep(0.2)
        page.run()
    assert any(one.value == "Host operators, by own time" for one in page.text)
    assert [float(width) for width in re.findall(r"width: ([\d.]+)%", drawn)] == [31.25, 25.0, 18.75, 25.0]
    assert "<b>aten::mkldnn_convolution</b>" in drawn and "<b>bold" not in drawn
