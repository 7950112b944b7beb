"""The score itself, on findings and truths written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.scoring import Rate, hits, score, scored


def fault(cause: str = "gc", rank: int | None = 0, gain: int = 100, **more: Any) -> dict[str, Any]:
    windows = [{"rank": 0, "ts_ns": 1000, "dur_ns": 500}]
    return {"cause": cause, "also": [], "rank": rank, "windows": windows, "gain_ns": gain, **more}


def finding(cause: str = "gc", rank: int = 0, ts: int = 1200, saving: int = 110, share: float = 0.1) -> dict[str, Any]:
    evidence = [{"rank": rank, "ts_ns": ts, "dur_ns": 10, "span_id": None, "note": ""}]
    return {
        "detector": cause, "cause": cause, "saving_ns": saving, "saving_share": share, "numbers": {},
        "evidence": evidence,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("said", "planted", "agree"),
    [
        (finding(), fault(), True),
        (finding(cause="compile"), fault(), False),
        (finding(cause="compile"), fault(also=["compile"]), True),
        (finding(ts=2000), fault(), False),
        (finding(ts=1500), fault(), True),  # they touch
        (finding(rank=1), fault(), False),
        (finding(rank=1), fault(rank=None), True),  # the fault names no rank, and has no window on this one
    ],
)
def test_hits(said: dict[str, Any], planted: dict[str, Any], agree: bool) -> None:
    assert hits(said, planted) is agree


def test_score_by_hand() -> None:
    first = scored("a", {"step_ns": 1000, "faults": [fault(gain=100), fault("compile", gain=40)]},
                   [finding(saving=120), finding("aicpu", saving=30), finding("unfused", share=0.009)])  # fmt: skip
    clean = scored("b", {"step_ns": 1000, "faults": []}, [])
    loud = scored("c", {"step_ns": 1000, "faults": []}, [finding()])
    total = score([first, clean, loud])
    assert (total.recall, total.precision, total.top1) == (Rate(1, 2), Rate(1, 3), Rate(1, 1))
    assert (total.quiet, total.below, total.saving_error) == (Rate(1, 2), Rate(0, 1), pytest.approx(0.2))
    assert score([first], "compile").recall == Rate(0, 1)


def test_a_fault_that_costs_nothing_is_not_asked_for() -> None:
    """Ours to find is what a fix gives back; a finding about it is not wrong either."""
    hidden = scored("a", {"step_ns": 100_000, "faults": [fault(gain=999)]}, [finding()])
    assert not hidden.clean
    assert score([hidden]).recall == Rate(0, 0) and score([hidden]).precision == Rate(1, 1)


def test_wilson_interval_of_a_textbook() -> None:
    """10 of 20: Newcombe (1998) gives the Wilson score interval 0.299 to 0.701."""
    low, high = Rate(10, 20).interval() or (0.0, 0.0)
    assert (round(low, 3), round(high, 3)) == (0.299, 0.701)
    low, high = Rate(0, 10).interval() or (1.0, 1.0)
    assert low == pytest.approx(0.0, abs=1e-9) and round(high, 3) == 0.278
    assert Rate(0, 0).interval() is None and Rate(0, 0).share is None
