"""What the host was in while the device idled, to the nanosecond; early launches; calls that are slow once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from npulens.analysis.capability import unexplained
from npulens.analysis.engine import check
from npulens.analysis.idle.blame import Blame, blames
from npulens.analysis.idle.first_use import silences
from npulens.analysis.idle.inside import Path, heads
from npulens.analysis.run import Run
from tests.tablecase import connection


def span(number: int, kind: str, name: str, at: float, length: float, **more: Any) -> dict[str, Any]:
    return {"id": number, "kind": kind, "name": name, "at": at, "for": length, **more}


def late(spans: list[dict[str, Any]], cause: str = "host_late") -> Blame:
    (found,) = blames(Run(connection({"spans": spans})), cause)
    return found


def gap(*within: dict[str, Any]) -> list[dict[str, Any]]:
    """A step whose device idles from 100 to 1100 us; the kernel after that is launched at 1080 and needs 20."""
    return [
        span(1, "step_mark", "ProfilerStep#5", 0, 2000),
        span(2, "runtime", "cudaLaunchKernel", 0, 5), span(3, "kernel", "a", 0, 100, by=2), *within,
        span(8, "runtime", "cudaLaunchKernel", 1080, 5), span(9, "kernel", "b", 1100, 900, by=8),
    ]  # fmt: skip


def test_an_operator_has_only_the_time_in_which_the_host_was_in_it() -> None:
    """980 us are the host's. 300 are in mul, which lies over the middle; 450 in add; 200 in no operator, 30 before."""
    found = late(gap(
        span(4, "cpu_op", "aten::add", 50, 500), span(5, "cpu_op", "aten::mul", 580, 300),
    ))  # fmt: skip
    inside = found.inside
    assert inside is not None and (inside.code, inside.ns, inside.whole_ns) == ("aten::add", 450_000, 980_000)
    assert inside.others == (("aten::mul", 300_000),) and inside.between_ns == 230_000
    assert found.numbers["code_share"] == 450 / 980
    first = found.evidence[0]
    assert (first.ts_ns, first.dur_ns, first.note) == (100_000, 450_000, "aten::add")


def test_one_long_call_comes_before_many_short_ones() -> None:
    """Twenty calls of mul take 25 us each, 500 of 980; one of cat takes 200. The longer name is not the longer call."""
    calls = [span(20 + at, "cpu_op", "aten::mul", 110 + 25 * at, 25) for at in range(20)]
    inside = late(gap(*calls, span(5, "cpu_op", "aten::cat", 700, 200))).inside
    assert inside is not None and (inside.code, inside.ns, inside.single) == ("aten::cat", 200_000, True)
    assert inside.others == (("aten::mul", 500_000),)


def test_a_call_that_runs_many_others_is_named_with_all_of_its_time() -> None:
    """flatten takes 600 us, 480 of it in 24 views of 20; its own are 120. The views alone have no long call."""
    views = [span(20 + at, "cpu_op", "aten::view", 205 + 25 * at, 20) for at in range(24)]
    inside = late(gap(span(5, "cpu_op", "aten::flatten_dense_tensors", 200, 600), *views)).inside
    assert inside is not None and inside.code == "aten::flatten_dense_tensors"
    assert (inside.ns, inside.own_ns, inside.longest_ns) == (600_000, 120_000, 600_000)


def test_an_operator_within_another_is_named_where_it_has_half_of_it() -> None:
    inside = late(gap(
        span(4, "cpu_op", "aten::ones", 200, 600), span(5, "cpu_op", "aten::empty", 210, 500),
    )).inside  # fmt: skip
    assert inside is not None and (inside.code, inside.ns) == ("aten::empty", 500_000)


PIPE = "diffusers/pipelines/pipe.py"


def test_besides_are_lines_of_code_where_frames_were_recorded() -> None:
    """980 us: encode has 400, walk 300 in 30 frames of the framework, free 170, tail 40, less than a twentieth."""
    walks = [span(30 + at, "python", "torch/nn/modules/module.py(2868): named_modules", 521 + 10 * at, 8)
             for at in range(29)]  # fmt: skip
    found = late(gap(
        span(4, "python", f"{PIPE}(10): __call__", 1, 1900), span(5, "python", f"{PIPE}(20): encode", 110, 400),
        span(6, "python", "diffusers/hooks/hooks.py(5): walk", 520, 300), *walks,
        span(7, "python", f"{PIPE}(30): free", 830, 170), span(10, "python", f"{PIPE}(40): tail", 1010, 40),
    ))  # fmt: skip
    inside = found.inside
    assert inside is not None and (inside.code, inside.ns) == (f"{PIPE}(20): encode", 400_000)
    assert inside.others == (("diffusers/hooks/hooks.py(5): walk", 300_000), (f"{PIPE}(30): free", 170_000))
    assert inside.besides["others"] == ["diffusers/hooks/hooks.py(5): walk (30.6 %)", f"{PIPE}(30): free (17.3 %)"]


def test_a_package_that_wraps_the_named_code_is_not_told_besides() -> None:
    """The call has 970 of 980 us and is no more than half of the step; it holds encode, the title, and says nothing."""
    inside = late(gap(
        span(4, "python", f"{PIPE}(10): __call__", 105, 970), span(5, "python", "model.py(20): encode", 110, 500),
        span(6, "python", "diffusers/hooks/hooks.py(5): walk", 620, 300),
    )).inside  # fmt: skip
    assert inside is not None and inside.code == "model.py(20): encode"
    assert inside.others == (("diffusers/hooks/hooks.py(5): walk", 300_000),)


def test_of_a_line_and_one_that_it_calls_the_one_within_is_told_where_it_has_half() -> None:
    """forward has 400 us besides: two blocks have 150 each, and mul has 200 of these 300."""
    inside = late(gap(
        span(4, "python", "data.py(9): mask", 110, 500), span(5, "python", "model.py(3): forward", 620, 400),
        span(6, "python", "blocks.py(7): block", 630, 150), span(7, "cpu_op", "aten::mul", 640, 100),
        span(10, "python", "blocks.py(7): block", 790, 150), span(11, "cpu_op", "aten::mul", 800, 100),
    )).inside  # fmt: skip
    assert inside is not None and inside.code == "data.py(9): mask"
    assert inside.others == (("blocks.py(7): block, aten::mul", 300_000),)


def test_what_the_named_line_does_besides_its_operator_is_told_by_operators() -> None:
    """run has 960 us, sort 500 of it; mul has 200, and run itself 260, for which there is no other name."""
    inside = late(gap(
        span(4, "python", "model.py(3): run", 110, 960), span(5, "cpu_op", "aten::sort", 120, 500),
        span(6, "cpu_op", "aten::mul", 700, 200),
    )).inside  # fmt: skip
    assert inside is not None and inside.code == "model.py(3): run, aten::sort"
    assert inside.others == (("aten::mul", 200_000),) and inside.between_ns == 280_000


def test_a_line_with_half_of_all_that_only_wraps_others_is_not_told() -> None:
    """Train has 700: left has 300 of it, right 250, and 150 are its own. That is half of 980 and more, not of 1500."""
    train, left, right = (True, "train"), (True, "left"), (True, "right")
    spent = Counter[Path]({(train,): 150, (train, left): 300, (train, right): 250})
    assert heads(spent, set(), 49, 980) == {(train, left): "left", (train, right): "right"}
    assert set(heads(spent, set(), 49, 1500).values()) == {"train"}
    assert heads(spent, {"train"}, 49, 1500) == {(train, left): "left", (train, right): "right"}


def standing(*more: dict[str, Any], second: str = "aten::add", usual: float = 10) -> list[dict[str, Any]]:
    """The device idles from 100 to 2320 us, its next task is launched at 2300: the host owes 2200.

    mul and `second` take 1000 each, and `usual` at most before that.
    """
    return [
        span(1, "step_mark", "ProfilerStep#5", 0, 20_000),
        span(2, "runtime", "cudaLaunchKernel", 0, 5), span(3, "kernel", "a", 0, 100, by=2),
        span(4, "cpu_op", "aten::mul", 10, 9), span(5, "cpu_op", second, 20, usual),
        span(6, "cpu_op", "aten::mul", 200, 1000), span(7, "cpu_op", second, 1210, 1000), *more,
        span(8, "runtime", "cudaLaunchKernel", 2300, 5), span(9, "kernel", "b", 2320, 17_680, by=8),
    ]  # fmt: skip


def test_a_host_that_stands_still_in_several_operators_is_held_up_itself() -> None:
    (finding,) = check(connection({"spans": standing()}), ["host_late"]).findings
    numbers = finding.numbers
    assert (finding.text, numbers["stalls"], numbers["stall_ns"]) == ("stalls", 2, 2_000_000)
    assert (numbers["longest_ns"], numbers["other_ns"]) == (1_000_000, 10_000)
    assert numbers["stall_share"] == 2000 / 2200 and numbers["stalled"] == ["aten::mul", "aten::add"]
    assert "graph" not in finding.words["en"].advice and "others" not in numbers
    assert [(one.ts_ns, one.dur_ns, one.note) for one in finding.evidence[:2]] == [
        (200_000, 1_000_000, "aten::mul"), (1_210_000, 1_000_000, "aten::add"),
    ]  # fmt: skip


@pytest.mark.parametrize(("spans", "why"), [
    (standing(second="aten::mul"), "one operator alone"),
    (standing(usual=60), "another call takes 60 us, more than a twentieth of 1000"),
    ([one for one in standing() if one["id"] != 5], "the only call of add may be its warm-up"),
    (standing(span(10, "cpu_op", "aten::view", 1700, 20)), "a call within leaves rests of 490 and 490 us"),
    ([one for one in standing() if one["id"] not in (6, 7)] + [
        span(6, "cpu_op", "aten::mul", 200, 1400), span(7, "cpu_op", "aten::add", 1610, 600),
    ], "1400 of 2200 us are a single call"),
], ids=lambda one: one.split(" ")[0] if isinstance(one, str) else "")  # fmt: skip
def test_operators_that_are_slow_themselves_are_not_a_thread_held_up(spans: list[dict[str, Any]], why: str) -> None:
    (finding,) = check(connection({"spans": spans}), ["host_late"]).findings
    assert finding.text != "stalls", why


def test_a_host_stands_still_in_launches_as_well() -> None:
    """1000 of 2200 us lie in mul, 1000 in a launch of nothing that is recorded; another such launch takes 5."""
    spans = [one for one in standing() if one["id"] != 7] + [span(7, "runtime", "cudaLaunchKernel", 1210, 1000)]
    (finding,) = check(connection({"spans": spans}), ["host_late"]).findings
    assert (finding.text, finding.numbers["stalls"], finding.numbers["stall_ns"]) == ("stalls", 2, 2_000_000)
    assert finding.numbers["stalled"] == ["aten::mul", "cudaLaunchKernel"]
    spans = [one | {"name": one["name"].replace("cudaLaunchKernel", "cudaMalloc")} if one["id"] in (5, 7) else one
             for one in spans]  # fmt: skip
    assert all(one.text != "stalls" for one in check(connection({"spans": spans}), ["host_late"]).findings)


@pytest.mark.parametrize(("at", "length", "stands"), [(25, 80, True), (30, 20, False)])
def test_rests_are_compared_with_rests(at: int, length: int, stands: bool) -> None:
    """The first add takes 90 us from 20 on, more than a twentieth of 1000.

    With a call from 25 to 105 in it, it rests 5 on either side, less than mul's 9; with one from 30 to 50, 60.
    """
    spans = standing(span(10, "cpu_op", "aten::copy_", at, length), usual=90)
    (finding,) = check(connection({"spans": spans}), ["host_late"]).findings
    assert (finding.text == "stalls") is stands
    if stands:
        assert finding.numbers["other_ns"] == 9_000


@pytest.mark.parametrize(("rest", "text"), [(2_000, "between"), (300, "apart")])
def test_launching_is_slow_all_along_only_where_the_gaps_are_short(rest: int, text: str) -> None:
    """Fifteen times the same, a kernel of 100 us: set_ ends, the host is in nothing for `rest`, then to launches.

    No gap has a tenth of them all. But each of 2,000 us holds the device up by itself.
    """
    spans, number, every = [span(1, "step_mark", "ProfilerStep#5", 0, 15 * (rest + 160) + 100)], 10, rest + 160
    for at in range(0, 15 * every, every):
        spans += [
            span(number, "cpu_op", "aten::set_", at + 10, 10),
            span(number + 1, "cpu_op", "aten::to", at + 20 + rest, 30),
            span(number + 2, "runtime", "cudaLaunchKernel", at + 30 + rest, 5),
            span(number + 3, "kernel", "k", at + 50 + rest, 100, by=number + 2),
        ]  # fmt: skip
        number += 10
    (finding,) = check(connection({"spans": spans}), ["host_late"]).findings
    assert (finding.text, finding.numbers["code"]) == (text, "aten::set_ -> aten::to")


@pytest.mark.parametrize(("early", "outcome"), [(True, "clean"), (False, "not_measured")])
def test_a_gap_whose_task_was_launched_before_it_is_not_the_hosts(early: bool, outcome: str) -> None:
    """Idle from 100 to 1100 us; the next task was launched at 50, or nothing says when. load has 890 of 940, or 900."""
    con = connection({"spans": [
        span(1, "step_mark", "ProfilerStep#5", 0, 2000),
        span(2, "runtime", "cudaLaunchKernel", 0, 5), span(3, "kernel", "a", 0, 100, by=2),
        span(4, "runtime", "cudaLaunchKernel", 50, 5),
        span(5, "kernel", "b", 1100, 900, **({"by": 4} if early else {})),
        span(6, "cpu_op", "aten::copy_", 200, 800), span(7, "annotation", "## load ##", 150, 900),
    ]})  # fmt: skip
    ((left, unknown, whole),) = Run(con).get(unexplained).values()
    assert whole == 1_000_000 and left == (0 if early else 1_000_000)
    assert unknown == (940_000 if early else 1_000_000)  # three usual launches of 20 us after the gap began
    (said,) = check(con, ["host_late"]).outcomes
    assert said.outcome == outcome
    (finding,) = check(con, ["idle_unexplained"]).findings
    words = finding.words["en"]
    assert ("the next task had already been launched" in words.advice) is early
    assert "with_stack" not in words.advice and "aten::copy_" in words.title
    assert f"For {'94.7' if early else '90.0'} % of it the host was in ## load ##." in words.advice


def test_a_call_whose_others_are_quick_may_be_slow_only_once() -> None:
    """900 of 980 us are in one call of mm; another takes 20."""
    spans = gap(span(4, "cpu_op", "aten::mm", 150, 900), span(5, "cpu_op", "aten::mm", 1200, 20))
    (finding,) = check(connection({"spans": spans}), ["host_late"]).findings
    assert (finding.text, finding.confidence) == ("once", "medium")
    assert "Its other calls here (1) take 20.0 µs at most." in finding.words["en"].advice


@pytest.mark.parametrize(("again", "count"), [(False, 1), (True, 0)])
def test_a_rest_before_the_driver_first_launches_a_kernel_may_be_a_fuser(again: bool, count: int) -> None:
    """The operator is silent for 20 ms, then the driver launches a kernel: for the first time, or once more."""
    spans = [
        span(1, "runtime", "cudaLaunchKernel", 0, 5), span(2, "kernel", "a", 20, 30, by=1),
        span(4, "cpu_op", "mine", 100, 20_100), span(5, "cpu_op", "fused", 20_100, 50),
        span(6, "runtime", "cuLaunchKernel", 20_110, 10), span(7, "kernel", "fused_add", 20_130, 100, by=6),
    ]  # fmt: skip
    if again:
        spans += [span(8, "runtime", "cuLaunchKernel", 60, 5), span(9, "kernel", "fused_add", 75, 20, by=8)]
    con = connection({"spans": spans, "tables": {"step": []}})
    found = Run(con).get(silences)
    assert [(one.begin, one.end, one.operator) for one in found] == [(100_000, 20_100_000, 4)] * count
    (said,) = check(con, ["first_use"]).outcomes
    assert (said.outcome == "not_measured") is not again
    (finding,) = check(con, ["host_late"]).findings
    assert finding.confidence == ("high" if again else "low")


def drained(*more: dict[str, Any]) -> list[tuple[int, int, str]]:
    """Start, length and note of what is shown of a step in which the host waits from 100 to 305, and of more calls."""
    findings = check(connection({"rank": {0: {"backend": "cuda"}}, "spans": [
        span(1, "step_mark", "ProfilerStep#5", 0, 1000),
        span(2, "runtime", "cudaLaunchKernel", 0, 5), span(3, "kernel", "a", 20, 280, by=2),
        span(4, "runtime", "cudaStreamSynchronize", 100, 205),
        span(5, "runtime", "cudaLaunchKernel", 310, 5), span(6, "kernel", "b", 330, 10, by=5), *more,
        span(7, "runtime", "cudaLaunchKernel", 500, 5), span(8, "kernel", "c", 520, 480, by=7),
    ]})).findings  # fmt: skip
    (found,) = (one for one in findings if one.detector == "sync_stall")
    return [(one.ts_ns // 1000, one.dur_ns // 1000, one.note) for one in found.evidence]


def test_a_call_that_lies_before_the_gap_it_made_is_shown_where_it_is() -> None:
    """The device idles from 340 to 520: the host launches c late, because it waited until 305. The call ends before."""
    shown = drained()
    assert shown[:2] == [(100, 205, "cudaStreamSynchronize"), (340, 180, "c")]
    assert (340, 160, "cudaStreamSynchronize") not in shown


def test_the_longest_wait_is_shown_beside_the_last_one() -> None:
    """A wait of 5 us at 350, on an empty device, comes last before c. The lead was lost in the one of 205."""
    shown = drained(span(9, "runtime", "cudaStreamSynchronize", 341, 5))
    assert (100, 205, "cudaStreamSynchronize") in shown[:4]
