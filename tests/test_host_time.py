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


def test_the_data_loader_is_told_beside_the_operators(tmp_path: Path) -> None:
    """It has 5 to 45 and 50 to 80 of 100 us, `mm` in it 10: the loader's time counts once, with what it calls."""
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    check = checked(tmp_path / "a.pt.trace.json", [
        x("cpu_op", "aten::conv2d", 0, 5), x("user_annotation", loader, 5, 40), x("cpu_op", "aten::mm", 10, 10),
        x("user_annotation", loader, 50, 30), x("cpu_op", "aten::mm", 90, 10),
    ])  # fmt: skip
    assert check.host is not None and check.host.loads_ns == 70_000
    assert check.as_dict()["host"]["data_loader_ns"] == 70_000
    assert "The data loader held the host for 70.0 µs of the time (70.0 %)" in wording.answer(check, "en")
    assert "其中主机有 70.0 µs（70.0 %）停在数据加载中" in wording.answer(check, "zh")
    (tmp_path / "none").mkdir()
    assert "data loader" not in wording.answer(checked(tmp_path / "none" / "a.pt.trace.json", NESTED), "en")


#: 1,000 us with CUDA's calls and without its work. Eight draws of 90 us end at 990; a copy and a launch are calls.
DRAWS = [x("cpu_op", "aten::normal_", 100 * at, 90) for at in range(8)]
COPIED = [x("cpu_op", "aten::to", 800, 100), x("cuda_runtime", "cudaMemcpyAsync", 810, 80)]
LAUNCHED = [x("cpu_op", "aten::mm", 900, 100), x("cuda_runtime", "cudaLaunchKernel", 920, 10)]


def test_numbers_drawn_without_a_launch_are_work_of_the_host(tmp_path: Path) -> None:
    """8 x 90 us of 720 + 100 + 100; `to` has 20 and `mm` 90 of their own."""
    check = checked(tmp_path / "a.pt.trace.json", [*DRAWS, *COPIED, *LAUNCHED])
    assert check.host is not None and check.host.own_ns == 920_000
    assert [(one.name, one.own_ns) for one in check.host.most] == [
        ("aten::normal_", 720_000), ("aten::mm", 90_000), ("cudaMemcpyAsync", 80_000),
    ]  # fmt: skip
    told = check.as_dict()["host"]
    assert told["without_calls"] == ["aten::normal_"]
    assert told["drawn"] == {"name": "aten::normal_", "calls": 8, "own_ns": 720_000, "alone": True}
    said = wording.answer(check, "en")
    assert "aten::normal_ 78.3 % (calls: 8, no launch in them), aten::mm 9.8 % (calls: 1)," in said
    assert "Random numbers are drawn on the host, not on the device: 720 µs of that (78.3 %, aten::normal_)." in said
    assert "随机数在主机而不是设备上生成：占其中 720 µs（78.3 %，aten::normal_）" in wording.answer(check, "zh")


def test_without_any_call_nothing_says_where_numbers_were_drawn(tmp_path: Path) -> None:
    """The host's time of it is known all the same: 720 of 820 us."""
    check = checked(tmp_path / "a.pt.trace.json", [*DRAWS, COPIED[0]])
    assert check.as_dict()["host"]["drawn"] == {
        "name": "aten::normal_", "calls": 8, "own_ns": 720_000, "alone": False,
    }  # fmt: skip
    said = wording.answer(check, "en")
    assert "Drawing random numbers (aten::normal_) took the host 720 µs of that (87.8 %)." in said
    assert "not on the device" not in said and "no launch" not in said


@pytest.mark.parametrize(
    "events",
    [
        [*DRAWS[:7], *COPIED, *LAUNCHED],  # seven, of no step
        [*DRAWS[:1], *[x("cpu_op", "aten::normal_", 100 + 10 * at, 9) for at in range(8)], *COPIED, *LAUNCHED],  # early
        [*DRAWS, *[x("cuda_runtime", "cudaLaunchKernel", 100 * at + 5, 9) for at in range(8)]],  # the device draws
    ],
    ids=["few", "only at first", "launched"],
)
def test_weights_and_numbers_of_a_device_are_not_told(tmp_path: Path, events: list[Event]) -> None:
    assert checked(tmp_path / "a.pt.trace.json", events).as_dict()["host"]["drawn"] is None


def test_one_draw_in_each_of_two_steps_goes_on(tmp_path: Path) -> None:
    marks = [x("user_annotation", f"ProfilerStep#{at}", 500 * at, 500) for at in range(2)]
    for draws, told in ((DRAWS[1:2] + DRAWS[6:7], 180_000), (DRAWS[1:3], None)):
        check = checked(tmp_path / f"{told}.pt.trace.json", [*marks, *draws, *COPIED, *LAUNCHED])
        drawn = check.as_dict()["host"]["drawn"]
        assert (drawn and drawn["own_ns"]) == told


@pytest.mark.parametrize(("overhead", "told"), [(False, "were not asked for"), (True, "lost all of it")])
def test_work_that_was_launched_and_is_not_there_was_lost_or_not_asked_for(
    tmp_path: Path, overhead: bool, told: str
) -> None:
    """The host's own activities hold CUDA's calls too; only the device's have the overhead of the tracer."""
    cost = [x("overhead", "Instrumentation", 905, 5, tid=0)] if overhead else []
    check = checked(tmp_path / "a.pt.trace.json", [*LAUNCHED, *cost])
    said = wording.answer(check, "en")
    assert "Device work was launched (cudaLaunchKernel was recorded)" in said and told in said
    assert "Recorded together with" not in said
    assert "主机下发了设备任务（采到 cudaLaunchKernel）" in wording.answer(check, "zh")
    assert check.as_dict()["host"]["device_asked"] is overhead


def test_without_a_launch_the_device_may_be_recorded_with_the_host(tmp_path: Path) -> None:
    said = wording.answer(checked(tmp_path / "a.pt.trace.json", NESTED), "en")
    assert "Recorded together with its NPU or GPU, the job can be judged." in said


def test_a_send_that_is_under_way_keeps_all_of_its_time(tmp_path: Path) -> None:
    """It takes 60 us, a receive 40 of them, and what adds up 5 more of them: none of them calls another."""
    check = checked(tmp_path / "a.pt.trace.json", [
        x("cpu_op", "gloo:send", 0, 60), x("cpu_op", "gloo:recv", 10, 40), x("cpu_op", "aten::add_", 52, 5),
        x("cpu_op", "aten::sum", 60, 40),
    ])  # fmt: skip
    assert check.host is not None
    assert [(one.name, one.own_ns) for one in check.host.most] == [
        ("gloo:send", 60_000), ("aten::sum", 40_000), ("gloo:recv", 40_000),
    ]  # fmt: skip
    assert (check.host.ran_ns, check.host.own_ns) == (100_000, 145_000)


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
    loader = x("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 71, 9)
    # 80 us of own time now: the bars add up to 100 %.
    events = [*NESTED, x("cpu_op", "aten::<b>bold", 80, 10), loader]
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
    assert any("data loader held the host for 9.00 µs of the time (9.0 %)" in one.value for one in page.text)
    assert [float(width) for width in re.findall(r"width: ([\d.]+)%", drawn)] == [31.25, 25.0, 18.75, 25.0]
    assert "<b>aten::mkldnn_convolution</b>" in drawn and "<b>bold" not in drawn
