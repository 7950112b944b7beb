"""What a comparison claims of two sides, and what it stays silent about where nothing recorded shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from npulens.analysis.regression.capture_drift import UNKNOWN
from npulens.analysis.regression.change import Change, Contribution, change
from npulens.analysis.regression.compared import Compared, apart, compared
from npulens.analysis.regression.matching import says
from npulens.analysis.regression.pieces import Measured, Outside, measure
from npulens.analysis.views import install
from npulens.app import run_compare
from npulens.app.run_compare import Asked, called, replayed
from tests.tablecase import connection

Row = Mapping[str, Any]
RUNS = ("b" * 24, "h" * 24)


def step(number: int, at: float, length: float, rank: int = 0) -> Row:
    return {"id": 1000 + 100 * rank + number, "kind": "step_mark", "name": f"ProfilerStep#{number}", "at": at,
            "for": length, "rank": rank}  # fmt: skip


def kernel(number: int, at: float, length: float, op: str, **told: object) -> Row:
    return {"id": number, "kind": "kernel", "name": op, "at": at, "for": length, "kernel": {"op_type": op, **told}}


def measured(spans: Sequence[Row], run_id: str = "case", whole: bool = False, ranks: tuple[int, ...] | None = None,
             backend: str = "cuda") -> Measured:  # fmt: skip
    of_ranks = {rank: {"backend": backend} for rank in {span.get("rank", 0) for span in spans}}
    con = connection({"spans": spans, "run": {"run_id": run_id}, "rank": of_ranks})
    install(con)
    return measure(con, ranks, None, whole)


def states(found: Change) -> dict[str, str]:
    return {one.what: one.state for one in found.contributions if one.kind == "kernel"}


def of(found: Change, what: str) -> Contribution:
    (one,) = (one for one in found.contributions if one.what == what)
    return one


# ---- Scripts of changed kernels


def test_element_types_are_no_shapes_where_only_types_tell_kernels_apart() -> None:
    """Head recorded shapes of half of its kernels, both sides types of all: shapes do not count."""
    shaped = {"input_shapes": "8,8;8,4", "input_dtypes": "FLOAT;FLOAT"}
    base = [step(1, 0, 100), kernel(1, 10, 30, "MatMul", **shaped), kernel(2, 50, 20, "Add", **shaped)]
    head = [step(1, 0, 100), kernel(1, 10, 35, "MatMul", **shaped),
            kernel(2, 50, 24, "Add", input_dtypes="FLOAT;FLOAT")]  # fmt: skip
    found = change([measured(base)], [measured(head, "other")])
    one = of(found, "MatMul")
    assert (one.shapes, one.dtypes, one.delta_ns) == ("", "FLOAT;FLOAT", 5_000)
    assert replayed(one, RUNS) == f"npulens replay {'h' * 12} MatMul --shapes '8,8;8,4' -o op.py"
    assert of(found, "Add").delta_ns == 4_000 and replayed(of(found, "Add"), RUNS) is None


def test_of_several_shapes_the_script_has_those_that_take_longest() -> None:
    """In head "4,4" takes 12 us in two launches, "8,8" 9 us in one, and Add has no shapes at all."""
    base = [step(1, 0, 100), kernel(1, 10, 5, "MatMul", input_shapes="4,4"), kernel(2, 50, 20, "Add")]
    head = [step(1, 0, 100), kernel(1, 10, 6, "MatMul", input_shapes="4,4"),
            kernel(3, 20, 6, "MatMul", input_shapes="4,4"), kernel(4, 30, 9, "MatMul", input_shapes="8,8"),
            kernel(2, 50, 20, "Add")]  # fmt: skip
    one = of(change([measured(base)], [measured(head, "other")]), "MatMul")
    assert one.shapes == "" and one.asked == "4,4"
    assert " --shapes 4,4 " in str(replayed(one, RUNS))


def test_no_script_is_offered_where_shapes_of_a_kernel_were_not_recorded() -> None:
    base = [step(1, 0, 100), kernel(1, 10, 30, "MatMul"), kernel(2, 50, 20, "Add")]
    head = [step(1, 0, 100), kernel(1, 10, 35, "MatMul"), kernel(2, 50, 24, "Add")]
    found = compared([measured(base)], [measured(head, "other")])
    assert [one.delta_ns for one in found.change.contributions if one.kind == "kernel"] == [5_000, 4_000]
    assert run_compare.scripts(found, RUNS, 12) == ()


def test_shapes_of_another_part_of_the_run_must_be_known_too() -> None:
    """The name alone would mean the launch of the other step, which has no shapes."""
    spans = [step(1, 0, 100), step(2, 100, 100), kernel(1, 10, 30, "MatMul"),
             kernel(2, 110, 35, "MatMul", input_shapes="8,8")]  # fmt: skip
    con = connection({"spans": spans})
    install(con)
    found = change([measure(con, None, (1,))], [measure(con, None, (2,))])
    assert of(found, "MatMul").delta_ns == 5_000 and replayed(of(found, "MatMul"), RUNS) is None


def test_a_tensor_without_sides_says_its_shape() -> None:
    texts = pd.Series(["", "[]", "[[]]", "[[],[]]", "[[2,3]]", "8,8"])
    assert says(texts).tolist() == [False, False, True, True, True, True]


# ---- Renamed, or other work


def pair(length: float, told: Mapping[str, object], before: Mapping[str, object]) -> dict[str, str]:
    """A kernel of 20 us, and another name at its place in head."""
    base = [step(1, 0, 1000), kernel(1, 10, 20, "old", **before), kernel(2, 900, 20, "Add")]
    head = [step(1, 0, 1000), kernel(1, 10, length, "new", **told), kernel(2, 900, 20, "Add")]
    return states(change([measured(base)], [measured(head, "other")]))


@pytest.mark.parametrize(("length", "before", "told", "same"), [
    (30, {}, {}, True),
    (79, {}, {}, True),
    (81, {}, {}, False),  # more than four times as long
    (4, {}, {}, False),
    (30, {"grid": "[100,50,1]", "block": "[256,1,1]"}, {"grid": "[200,50,1]", "block": "[256,1,1]"}, True),
    (30, {"grid": "[100,50,1]", "block": "[256,1,1]"}, {"grid": "[100,50,1]", "block": "[128,1,1]"}, True),
    (30, {"grid": "[100,50,1]", "block": "[256,1,1]"}, {"grid": "[800,50,1]", "block": "[256,1,1]"}, False),
    (30, {"grid": "[100,50,1]", "block": "[256,1,1]"}, {"grid": "[11,8,1]", "block": "[128,1,1]"}, False),
    (30, {"grid": "[100,50,1]", "block": "[256,1,1]"}, {}, True),  # head does not say
    (30, {"grid": "[]", "block": "[256,1,1]"}, {"grid": "[800,50,1]", "block": "[256,1,1]"}, True),
    (900, {"input_shapes": "8,8"}, {"input_shapes": "8,8"}, True),  # the same shapes: slower, however much
    (30, {"input_shapes": "8,8"}, {"input_shapes": "8,9"}, False),
])  # fmt: skip
def test_a_new_name_at_an_old_place_is_renamed_where_it_may_be_the_same_work(
    length: float, before: Mapping[str, object], told: Mapping[str, object], same: bool
) -> None:
    found = pair(min(length, 880), told, before)
    assert found == ({"new": "renamed", "Add": "same"} if same else {"new": "new", "old": "gone", "Add": "same"})


def test_the_only_kernel_of_an_operator_is_no_more_renamed_when_it_takes_far_longer() -> None:
    """No neighbour that both have: the operator alone tells, and it has no shapes."""
    def side(name: str, length: float, run_id: str) -> Measured:
        return measured([
            step(1, 0, 1000), {"id": 11, "kind": "cpu_op", "name": "aten::mm", "at": 2, "for": 15},
            {"id": 13, "kind": "runtime", "name": "cudaLaunchKernel", "at": 4, "for": 2},
            {"id": 14, "kind": "kernel", "name": name, "at": 30, "for": length, "by": 13, "kernel": {}},
        ], run_id)  # fmt: skip

    base = side("ampere", 20, "case")
    assert states(change([base], [side("cutlass", 60, "other")])) == {"cutlass": "renamed"}
    assert states(change([base], [side("cutlass", 140, "other")])) == {"cutlass": "new", "ampere": "gone"}


# ---- Copies


def copy(number: int, at: float, length: float, direction: str, name: str) -> Row:
    return {"id": number, "kind": "memcpy", "name": name, "at": at, "for": length, "track": direction,
            "transfer": {"direction": direction}}  # fmt: skip


def copies(at: float, length: float, memory: str, run_id: str) -> Measured:
    """18 us to the host from 10 us on, and so many us to the device from another moment on."""
    return measured([
        step(1, 0, 100), copy(1, 10, 18, "d2h", f"Memcpy DtoH (Device -> {memory})"),
        copy(2, at, length, "h2d", f"Memcpy HtoD ({memory} -> Device)"),
    ], run_id)  # fmt: skip


def test_copies_tell_other_memory_and_what_no_longer_hides_them() -> None:
    """To the device: 30 us of which 16 beside the other copy, then 31 us alone. To the host nothing changes in time."""
    found = change([copies(12, 30, "Pinned", "case")], [copies(30, 31, "Pageable", "other")])
    up, down = of(found, "h2d"), of(found, "d2h")
    assert (up.base_ns, up.head_ns, up.whole_ns) == (14_000, 31_000, (30_000, 31_000))
    assert (up.repinned, up.uncovered, down.repinned, down.uncovered) == ("pageable", True, "pageable", False)
    assert called(up, "en") == (
        "exposed copy · host to device · now pageable memory of the host, was pinned · takes 30.00 µs → 31.00 µs in "
        "all, of which hidden behind other work 16.00 µs → 0 ns"
    )
    assert called(up, "zh") == (
        "未掩盖拷贝 · 主机到设备 · 主机内存由锁页变为非锁页 · "
        "总时长 30.00 µs → 31.00 µs，其中被其他任务掩盖 16.00 µs → 0 ns"
    )
    assert called(down, "en") == "exposed copy · device to host · now pageable memory of the host, was pinned"
    back = change([copies(30, 31, "Pageable", "other")], [copies(12, 30, "Pinned", "case")])
    assert of(back, "h2d").repinned == "pinned" and of(back, "h2d").uncovered


def test_copies_that_only_take_longer_or_are_of_both_kinds_tell_nothing_more() -> None:
    longer = change([copies(30, 20, "Pinned", "case")], [copies(30, 31, "Pinned", "other")])
    assert called(of(longer, "h2d"), "en") == "exposed copy · host to device"
    both = measured([step(1, 0, 100), copy(1, 10, 18, "h2d", "Memcpy HtoD (Pinned -> Device)"),
                     copy(2, 40, 18, "h2d", "Memcpy HtoD (Pageable -> Device)")], "other")  # fmt: skip
    assert of(change([copies(30, 20, "Pinned", "case")], [both]), "h2d").repinned == ""


def test_launches_without_any_kernel_are_not_told_by_kernels() -> None:
    base, head = copies(12, 30, "Pinned", "case"), copies(30, 31, "Pinned", "other")
    gaps = [one for one in change([base], [head]).contributions if one.kind == "gap"]
    assert gaps and all(one.bare for one in gaps)
    launching = replace(gaps[0], what="launch_overhead")
    assert run_compare.what(launching, "en") == "launch_overhead: what launching a task usually takes"
    with_kernels = change([measured([step(1, 0, 100), kernel(1, 10, 30, "A")])], [head])
    assert not any(one.bare for one in with_kernels.contributions)
    assert "kernels are shorter" in run_compare.what(replace(launching, bare=False), "en")


# ---- What is compared at all


def started(start: float, length: float, after: float, run_id: str) -> Measured:
    """The host works so long before a kernel, and so long after it; no step is marked."""
    return measured([
        {"id": 1, "kind": "cpu_op", "name": "aten::embedding", "at": 0, "for": start},
        kernel(2, start, length, "MatMul"),
        {"id": 3, "kind": "cpu_op", "name": "aten::item", "at": start + length, "for": after},
    ], run_id, whole=True)  # fmt: skip


def said(found: Compared, lang: str = "en") -> list[str]:
    return [one.text for one in run_compare.left_out(found, lang)]


def test_whole_captures_say_what_they_leave_out_where_it_changed() -> None:
    """500 us before the first kernel become 300; 10 us after it become 12, which is little of 610."""
    base, head = started(500, 100, 10, "case"), started(300, 100, 12, "other")
    assert base.outside == Outside(500_000, 10_000, 610_000)
    assert head.outside is not None and head.outside.ns == 312_000
    found = compared([base], [head])
    assert found.change.delta_ns == 0
    assert said(found) == [
        "Not compared is what was recorded before the first device task: 500.0 µs → 300.0 µs, −200.0 µs. The "
        "recordings as they are take 610.0 µs → 412.0 µs."
    ]
    assert said(found, "zh") == [
        "首个设备任务之前的时间不参与对比：500.0 µs → 300.0 µs，−200.0 µs。整个采集的时长为 610.0 µs → 412.0 µs。"
    ]
    halves = (run_compare.Half("a", (base,), ()), run_compare.Half("b", (head,), ()))
    assert "left_out_before" in [one.about for one in run_compare.warnings(found, halves, "en")]


def test_little_and_steps_leave_out_nothing_that_is_said() -> None:
    """29 us of 610 are less than a twentieth. Where steps are compared, all that lies around them is left out."""
    found = compared([started(500, 100, 10, "case")], [started(471, 100, 10, "other")])
    assert said(found) == []
    stepped = measured([step(1, 500, 100), kernel(1, 500, 100, "A"), {
        "id": 9, "kind": "cpu_op", "name": "aten::zeros", "at": 0, "for": 400}])  # fmt: skip
    assert stepped.outside is None
    late = compared([started(50, 100, 10, "case")], [started(50, 100, 300, "other")])
    assert [text[:66] for text in said(late)] == ["Not compared is what was recorded after the last device task: 10.0"]


def reasons(found: Compared, lang: str = "en") -> list[str]:
    return list(run_compare.reasons(found, lang, Asked(0.005, 0.01, UNKNOWN)))


def test_captures_without_steps_are_not_said_to_have_one() -> None:
    told = reasons(compared([started(5, 100, 1, "case")], [started(5, 120, 1, "other")]))
    assert any(text.startswith("Two captures, each as a whole. With one capture a side,") for text in told)
    assert not any("single step" in text for text in told)


def two_ranks(begin: float, end: float) -> Compared:
    """A step of rank 0 from 0 to 200 us, and one of rank 1 between these moments."""
    spans = [step(1, 0, 200), {**kernel(1, 10, 190, "A"), "rank": 0},
             step(1, begin, end - begin, 1), {**kernel(2, begin, end - begin, "A"), "rank": 1}]  # fmt: skip
    tables = [{"rank": 0, "step": 1, "ts_ns": 0, "dur_ns": 200_000, "host_dur_ns": 200_000, "source": "ProfilerStep"},
              {"rank": 1, "step": 1, "ts_ns": round(begin * 1000), "dur_ns": round((end - begin) * 1000),
               "host_dur_ns": 0, "source": "ProfilerStep"}]  # fmt: skip
    con = connection({"spans": spans, "tables": {"step": tables}})
    install(con)
    return compared([measure(con, (0,))], [measure(con, (1,))])


def test_ranks_are_equally_long_only_where_they_are() -> None:
    """A rank that begins 75 us later and ends 1 us later than the other takes 126 us instead of 200."""
    uneven = two_ranks(75, 201)
    assert uneven.change.delta_ns == -74_000 and apart(uneven.base[0].side, uneven.head[0].side) == (75_000, 1_000)
    told = reasons(uneven)
    assert "Two ranks in one step." in told and (
        "They do not take equally long. By the recorded clock, rank 1 begins 75.00 µs later and ends 1.000 µs later "
        "than rank 0, in the mean of what is compared."
    ) in told  # fmt: skip
    assert not any("equally long;" in text for text in told)
    assert "两者用时不同：按采集的时钟，参与对比的部分中，rank 1 平均比 rank 0 开始晚 75.00 µs、结束早 20.00 µs。" in (
        reasons(two_ranks(75, 180), "zh")
    )
    assert any("both take about equally long;" in text for text in reasons(two_ranks(5, 201)))
