"""The score itself, on findings and truths written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from npulens.analysis.scoring import Rate, hits, score, scored


def check(*findings: dict[str, Any], **outcomes: str) -> dict[str, Any]:
    """What `check --json` says, by hand."""
    ended = [{"detector": name, "outcome": outcome} for name, outcome in outcomes.items()]
    return {"steps": 1, "findings": list(findings), "outcomes": ended}


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
    truth = {"step_ns": 1000, "faults": [fault(gain=100), fault("compile", gain=40)]}
    said = check(finding(saving=120), finding("aicpu", saving=30), finding("unfused", share=0.009))
    first = scored("a", truth, said)
    clean = scored("b", {"step_ns": 1000, "faults": []}, check())
    loud = scored("c", {"step_ns": 1000, "faults": []}, check(finding()))
    total = score([first, clean, loud])
    assert (total.recall, total.precision, total.top1) == (Rate(1, 2), Rate(1, 3), Rate(1, 1))
    assert (total.quiet, total.below, total.saving_error) == (Rate(1, 2), Rate(0, 1), pytest.approx(0.2))
    assert score([first], "compile").recall == Rate(0, 1)


def test_a_fault_that_costs_nothing_is_not_asked_for() -> None:
    """Ours to find is what a fix gives back; a finding about it is not wrong either."""
    hidden = scored("a", {"step_ns": 100_000, "faults": [fault(gain=999)]}, check(finding()))
    assert not hidden.clean
    assert score([hidden]).recall == Rate(0, 0) and score([hidden]).precision == Rate(1, 1)


def test_wilson_interval_of_a_textbook() -> None:
    """10 of 20: Newcombe (1998) gives the Wilson score interval 0.299 to 0.701."""
    low, high = Rate(10, 20).interval() or (0.0, 0.0)
    assert (round(low, 3), round(high, 3)) == (0.299, 0.701)
    low, high = Rate(0, 10).interval() or (1.0, 1.0)
    assert low == pytest.approx(0.0, abs=1e-9) and round(high, 3) == 0.278
    assert Rate(0, 0).interval() is None and Rate(0, 0).share is None


def test_a_cause_called_clean_is_counted_where_it_costs_more_than_the_limit() -> None:
    """gc has a limit of 1 %: 20 of 1,000 ns lie above it, 9 of 1,000 below."""
    truth = {"step_ns": 1000, "faults": [fault(gain=20), fault("compile", gain=20)], "dialect": "910a"}
    case = scored("a", truth, check(gc="clean", compile="masked"))
    assert case.dialect == "910a" and score([case]).false_clean == Rate(1, 2)
    assert score([case], "gc").false_clean == Rate(1, 1) and score([case], "compile").false_clean == Rate(0, 1)
    below = scored("b", {"step_ns": 1000, "faults": [fault(gain=9)]}, check(gc="clean"))
    assert score([below]).false_clean == Rate(0, 0)
    found = scored("c", {"step_ns": 1000, "faults": [fault(gain=20)]}, check(finding(), gc="found"))
    assert score([found]).false_clean == Rate(0, 1)


def test_idle_that_nobody_explains_is_right_where_the_capture_lost_the_reason() -> None:
    """It has no saving, so it is no error of one either."""
    said = finding("idle_unexplained", saving=0, share=0.0)
    right = scored("a", {"step_ns": 1000, "faults": [fault(also=["idle_unexplained"])]}, check(said))
    assert (score([right]).recall, score([right]).top1, score([right]).errors) == (Rate(1, 1), Rate(1, 1), ())
    wrong = scored("b", {"step_ns": 1000, "faults": [fault()]}, check(said))
    assert score([wrong]).recall == Rate(0, 1) and score([wrong]).precision == Rate(0, 1)
    assert score([scored("c", {"step_ns": 1000, "faults": []}, check(said))]).quiet == Rate(0, 1)


def test_savings_are_compared_over_the_capture() -> None:
    """Three steps of 100 ns each that no mark tells apart: the whole capture is one step of 300 ns."""
    truth = {"step_ns": 1000, "steps": 3, "faults": [fault(gain=100)]}
    case = scored("a", truth, check(finding(saving=330)))
    assert score([case]).errors == (pytest.approx(0.1),)


def test_what_every_capture_of_the_dialect_holds_is_no_wrong_finding() -> None:
    truth = {"step_ns": 1000, "faults": [], "present": ["first_use"]}
    assert score([scored("a", truth, check(finding("first_use")))]).quiet == Rate(1, 1)
    assert score([scored("a", truth, check(finding("gc")))]).quiet == Rate(0, 1)


def test_nine_of_ten_errors_are_no_larger() -> None:
    """Savings of 101, 102, ... 110 for a gain of 100: the ninth error is 0.09."""
    cases = [
        scored(f"{n}", {"step_ns": 1000, "faults": [fault(gain=100)]}, check(finding(saving=100 + n)))
        for n in range(1, 11)
    ]
    assert score(cases).saving_error_p90 == pytest.approx(0.09) and score([]).saving_error_p90 is None
