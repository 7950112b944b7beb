"""One finding for one thing: a late rank and its cause, a slow step and the idle time in it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest

from npulens.analysis.finding import Change, Evidence, Finding, Value, Words
from npulens.analysis.intervals import Intervals
from npulens.analysis.problems.because import _making_late, joined, said_once, umbrella, without_implied
from npulens.analysis.replay import whatif

if TYPE_CHECKING:
    from npulens.analysis.run import Run


def finding(cause: str, *windows: tuple[int, int, int]) -> Finding:
    """Of a cause, with windows of (rank, start, length)."""
    evidence = tuple(Evidence(rank, start, length) for rank, start, length in windows)
    words = {"en": Words("", ""), "zh": Words("", "")}
    return Finding(cause, cause, "high", words, 100, 100, 0.1, "low", {}, evidence, Change())


def test_a_slow_step_says_of_its_idle_time_that_nothing_explains_it() -> None:
    slow, idle = finding("step_jitter", (0, 100, 50), (0, 200, 50)), finding("idle_unexplained", (0, 110, 40))
    assert said_once([slow, idle]) == [slow]


def test_idle_time_elsewhere_is_said() -> None:
    slow = finding("step_jitter", (0, 100, 50))
    for idle in (finding("idle_unexplained", (1, 100, 50)), finding("idle_unexplained", (0, 130, 100))):
        assert said_once([slow, idle]) == [slow, idle]
    assert said_once([finding("idle_unexplained", (0, 110, 40))]) != []


@pytest.mark.parametrize(("also", "told"), [(False, [60]), (True, [40, 20])])
def test_a_cause_is_not_given_what_another_one_explains_of_a_lateness(
    also: bool, told: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rank comes 60 late: 30 by its host, 20 by kernels, and nothing says why by the other 10."""
    here = Intervals(np.array([0]), np.array([1]))

    def saved(_: object, change: Change) -> int:
        return 60 if len(change.delays) else 30 * (1 in change.host) + 20 * (len(change.tasks) > 0)

    monkeypatch.setattr(whatif, "saved_ns", saved)
    one = np.ones(1, np.int64)
    waits = {"en": Words("Rank 0 waits for rank 1", ""), "zh": Words("rank 0 在等 rank 1", "")}
    late = replace(
        finding("late_rank", (0, 0, 60)), saving_ns=60, numbers={"peer": 1}, change=Change(delays=one, delay_ns=one),
        words=waits,
    )  # fmt: skip
    host = replace(finding("host_late", (1, 0, 30)), saving_ns=30, change=Change(host={1: here}))
    kernels = replace(finding("aicpu", (1, 40, 20)), saving_ns=20, change=Change(tasks=one, task_ns=one))
    run = cast("Run", SimpleNamespace(ranks=(0, 1), step_count=1))
    found = joined(run, [late, host, kernels] if also else [late, host])
    assert [each.saving_ns for each in found] == told
    assert [each.cause for each in found] == ["host_late", "aicpu"][: len(told)]
    # Who waits for whom is still said, in both languages.
    assert {lang: said.advice for lang, said in found[0].words.items()} == {
        "en": "Because of it others wait: Rank 0 waits for rank 1.", "zh": "其他卡因此等待：rank 0 在等 rank 1。",
    }  # fmt: skip
    assert all(said.advice == "" for each in found[1:] for said in each.words.values())


@pytest.mark.parametrize(("cause", "copies", "told", "who"), [
    ("copy_exposed", 35, [35, 19], ["copy_exposed", "late_rank"]), ("copy_exposed", 45, [54], ["copy_exposed"]),
    ("copy_exposed", 26, [54], ["late_rank"]), ("expert_imbalance", 35, [35], ["expert_imbalance", "late_rank"]),
])  # fmt: skip
def test_a_device_that_works_longer_for_two_reasons_is_told_of_both(
    cause: str, copies: int, told: list[int], who: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rank comes 54 late, 35 of it by copies: it does not come 54 earlier where they are hidden."""

    def saved(_: object, change: Change) -> int:
        return 54 if len(change.delays) else copies * (len(change.tasks) > 0)

    monkeypatch.setattr(whatif, "saved_ns", saved)
    one = np.ones(1, np.int64)
    late = replace(
        finding("late_rank", (0, 0, 54)), saving_ns=54, saving_most_ns=60, saving_share=0.54, numbers={"peer": 1},
        change=Change(delays=one, delay_ns=one), text="busy",
        words={"en": Words("Rank 0 waits for rank 1", "Compare."), "zh": Words("rank 0 在等 rank 1", "请对比。")},
    )  # fmt: skip
    copy = replace(finding(cause, (1, 0, 30)), saving_ns=copies, change=Change(tasks=one, task_ns=one))
    found = joined(cast("Run", SimpleNamespace(ranks=(0, 1), step_count=1)), [late, copy])
    assert [one.saving_ns for one in found if one.cause in who] == told
    if len(told) == 2:
        assert (round(found[1].saving_share, 9), found[1].saving_most_ns) == (0.19, 19)
        assert found[0].words["en"].advice == ""
        assert found[1].words["en"].advice == (
            "Compare. Another finding of this rank gives back 35 ns of that; the saving told here is the rest."
        )
        assert found[1].words["zh"].advice == "请对比。其中 35 ns 已计入该卡的另一条结论，此处的收益只是其余部分。"


@pytest.mark.parametrize(("idle_share", "on_rank", "more", "stays"), [
    (0.0004, 0, 0, False), (0.0004, 0, 1, True), (0.02, 0, 0, True), (0.0004, 1, 0, True),
])  # fmt: skip
def test_synchronising_calls_of_an_allocation_are_no_finding_of_their_own(
    idle_share: float, on_rank: int, more: int, stays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a step of 100 the device waits 7 for allocations; without the calls in them it would wait 6 less."""
    here, one = Intervals(np.array([0]), np.array([1])), np.ones(1, np.int64)

    def saved(_: object, change: Change) -> int:
        return max(7 * (on_rank in change.host or 0 in change.host), 6 * len(change.syncs)) + more * len(change.syncs)

    monkeypatch.setattr(whatif, "saved_ns", saved)
    memory = replace(finding("memory_alloc", (0, 0, 7)), saving_ns=7, change=Change(host={0: here}))
    sync = replace(
        finding("sync_stall", (on_rank, 0, 1)), saving_ns=6, saving_share=0.06, numbers={"idle_share": idle_share},
        change=Change(syncs=one),
    )  # fmt: skip
    run = cast("Run", SimpleNamespace(ranks=(0, 1), step_count=1))
    assert without_implied(run, [memory, sync]) == ([memory, sync] if stays else [memory])


@pytest.mark.parametrize("more", [0, 1])
def test_allocations_of_memory_in_pieces_are_told_once(more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def saved(_: object, change: Change) -> int:
        return sum(int(times.ends.sum()) for times in change.host.values())

    monkeypatch.setattr(whatif, "saved_ns", saved)
    pieces, calls = Intervals(np.array([0]), np.array([8])), Intervals(np.array([0]), np.array([8 + more]))
    memory = replace(finding("memory_pressure", (0, 0, 8)), saving_ns=8, change=Change(host={0: pieces}))
    alloc = replace(finding("memory_alloc", (0, 0, 7)), saving_ns=7, saving_share=0.07, change=Change(host={0: calls}))
    run = cast("Run", SimpleNamespace(ranks=(0, 1), step_count=1))
    assert without_implied(run, [memory, alloc]) == [memory, alloc][: 1 + more]


@pytest.mark.parametrize(("ranks", "longest", "en", "zh"), [
    ("0", 3, "Ranks 1, 2 and 3 wait up to 9 for rank 0", "rank 1, 2, 3 最多有 9 在等 rank 0"),
    ("0-1", 3, "Ranks 2 and 3 wait up to 9 for rank 0", "rank 2, 3 最多有 9 在等 rank 0"),
    ("0, 2-3", 1, "Rank 1 waits 9 for rank 0", "rank 1 最多有 9 在等 rank 0"),
    ("Ranks 1 to 3", 3, "Ranks 1, 2 and 3 wait up to 9 for rank 0", "rank 1, 2, 3 最多有 9 在等 rank 0"),
    ("0, 3", 3, "Ranks 1, 2 and 3 wait up to 9 for rank 0", "rank 1, 2, 3 最多有 9 在等 rank 0"),
])  # fmt: skip
def test_ranks_of_the_same_finding_are_not_told_to_wait_because_of_it(
    ranks: str, longest: int, en: str, zh: str
) -> None:
    """But where the time that is told is theirs, as then it would be nobody's."""
    titles = {"en": "Ranks 1, 2 and 3 wait up to 9 for rank 0", "zh": "rank 1, 2, 3 最多有 9 在等 rank 0"}
    words = {lang: Words(title, "") for lang, title in titles.items()}
    numbers: dict[str, Value] = {"waiting": [1, 2, 3], "who": "Ranks 1, 2 and 3 wait up to", "longest": longest}
    late = replace(finding("late_rank"), words=words, numbers=numbers)
    told = _making_late(replace(finding("host_late"), numbers={"ranks": ranks}), late)
    assert told["en"].advice == f"Because of it others wait: {en}."
    assert told["zh"].advice == f"其他卡因此等待：{zh}。"


def test_what_exposed_transfers_are_due_to_is_taken_out_of_them_where_both_are_more_than_the_step() -> None:
    over, again, small = (
        replace(finding(cause), saving_ns=ns, saving_share=ns / 100)
        for cause, ns in (("comm_exposed", 56), ("retransmission", 45), ("small_packets", 4))
    )
    told = umbrella([over, again, small], 100)
    assert [(one.cause, one.saving_ns) for one in told] == [
        ("comm_exposed", 51), ("retransmission", 45), ("small_packets", 4)
    ]  # fmt: skip
    assert umbrella([over, again, small], 105) == [over, again, small]
    assert [one.saving_ns for one in umbrella([over, again], 50)] == [45, 11]  # not more than the causes explain
