"""Nothing is called fine of a device whose work was not recorded, or not all of it."""

from __future__ import annotations

from typing import Any

import pytest

from npulens.analysis.detectors import idle_unexplained
from npulens.analysis.engine import Check, check
from npulens.analysis.views import install
from npulens.app.text.wording import answer
from tests.tablecase import connection

HOST = [{"id": 1, "kind": "runtime", "name": "AscendCL@aclrtMalloc", "at": 0, "for": 500}]
KERNELS = [{"id": at, "kind": "kernel", "name": "a", "at": 4_000 * at, "for": 100, "kernel": {"op_type": "A"}}
           for at in (2, 3)]  # fmt: skip
NO_DEVICE = ["kernel", "pmu", "link"]  # the reader looked for copies and collectives, and there were none


def said(spans: list[dict[str, Any]], *absent: str) -> Check:
    con = connection({"spans": spans, "absent": list(absent)})
    install(con)
    return check(con)


def outcomes(found: Check) -> dict[str, str]:
    return {one.detector: one.outcome for one in found.outcomes}


def test_a_capture_of_the_host_alone_says_nothing_of_the_device() -> None:
    found = said(HOST, *NO_DEVICE)
    assert set(outcomes(found).values()) == {"not_measured"}
    assert answer(found, "en").startswith("No device activity was recorded")


def test_a_capture_of_sums_alone_is_no_capture_of_a_host() -> None:
    found = said([], *NO_DEVICE, "host_op")
    assert set(outcomes(found).values()) == {"not_measured"}
    assert answer(found, "en").startswith("Nothing could be judged")


def test_a_job_without_collectives_has_none_that_are_slow() -> None:
    assert outcomes(said(KERNELS))["late_rank"] == "clean"


@pytest.mark.parametrize(("absent", "outcome"), [((), "found"), (("transfer",), "not_measured")])
def test_a_gap_is_idle_only_where_copies_were_recorded(absent: tuple[str, ...], outcome: str) -> None:
    found = said(KERNELS, *absent)
    assert outcomes(found)["idle_unexplained"] == outcome
    assert all(one.reason for one in found.outcomes if one.outcome == "not_measured")
    doubts = [one for one in found.quality.doubts if one.name == "untold"]
    assert len(doubts) == (outcome == "not_measured")
    assert all("rank 0: none of the recorded work ran for 3.90 ms of 4.10 ms (95.1 %)" in one.text[0] for one in doubts)


def test_what_was_not_recorded_shows_nothing_either(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody recorded launches, and no setting does: the host "shows nothing there" would be no word about the job."""
    monkeypatch.setattr(idle_unexplained, "explains", lambda run: None)
    (finding,) = [one for one in said(KERNELS).findings if one.detector == "idle_unexplained"]
    assert finding.numbers["untold_share"] is not None
    assert "they show nothing there" not in finding.words["en"].advice


def _doubt(spans: list[dict[str, Any]]) -> str:
    (text,) = (one.text[0] for one in said(spans, "transfer", "link").quality.doubts if one.name == "untold")
    return text


def test_one_gap_that_has_most_of_the_time_is_named_by_the_kernel_that_ends_it() -> None:
    """60 us of 600,000 us are kernels. 499,990 us lie before the first "mine", as its Task Wait Time says."""
    spans: list[dict[str, Any]] = [
        {"id": 1, "kind": "kernel", "name": "fill", "at": 0, "for": 10, "kernel": {"op_type": "Fill"}},
        *({"id": 2 + n, "kind": "kernel", "name": "mine", "at": at, "for": 10,
           "kernel": {"op_type": "Mine", "wait_ns": w}}
          for n, (at, w) in enumerate(((500_000, 499_990_000), (520_000, 19_990_000), (540_000, 19_990_000)))),
        {"id": 6, "kind": "kernel", "name": "fill", "at": 599_980, "for": 20, "kernel": {"op_type": "Fill"}},
    ]  # fmt: skip
    text = _doubt(spans)
    assert "none of the recorded work ran for all but 60.0 µs of 600 ms. " in text
    assert text.endswith(
        ". One gap has 500 ms of it, before the first of 3 mine, and its Task Wait Time says so as well. It first ran "
        "after that. Whether it was compiled or loaded meanwhile, no recorded call of the host tells"
    )
    del spans[1]["kernel"]["wait_ns"]
    spans[0]["name"] = "mine"
    assert _doubt(spans).endswith(". One gap has 500 ms of it, before a mine")


def test_many_gaps_alike_are_not_named() -> None:
    """Four kernels 100 us apart: no gap has half of the time in which nothing ran."""
    spans = [
        {"id": 1 + n, "kind": "kernel", "name": "k", "at": 110 * n, "for": 10, "kernel": {"op_type": "K"}}
        for n in range(4)
    ]
    assert _doubt(spans).endswith("cannot be told")
