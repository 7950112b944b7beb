"""One finding for one thing: a late rank and its cause, a slow step and the idle time in it."""

from __future__ import annotations

from analysis.because import said_once
from analysis.engine import Finding
from analysis.finding import Change, Evidence, Words


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
