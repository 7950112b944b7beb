"""One finding for one thing: a late rank and its cause, a slow step and the idle time in it."""

from __future__ import annotations

from dataclasses import replace

from npulens.analysis.engine import said_once, umbrella
from npulens.analysis.finding import Change, Evidence, Finding, Words


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
