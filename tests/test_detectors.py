"""Every detector in its cases: it fires, it stays quiet, it says what it cannot see.

tests/cases/<detector>.yaml is a list of cases: a table case (tests/tablecase.py) with `name`, `expect` (found, clean,
not_measured) and, where found, any of `cause`, `saving_us` (exact), `saving_within` ([least, most] in us), `most_us`
(the ceiling), `on_rank` (of the evidence), `at` (a moment in us that the evidence covers), `says` (a piece of the
English title), `advises` and `never_advises` (of the advice), `count` (findings), `limits` (overrides).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from npulens.analysis.discovery import Detector, detectors
from npulens.analysis.engine import Check, check
from npulens.analysis.finding import STEP
from npulens.analysis.limits import Limits, fields
from npulens.analysis.settings import DEFAULT, Settings
from tests.tablecase import connection

CASES = Path(__file__).parent / "cases"
DETECTORS = {detector.name: detector for detector in detectors(DEFAULT)}
HEADINGS = ("## What it measures", "## Why it costs", "## What to do", "## Limits of the method", "## References")


def cases(name: str) -> list[dict[str, Any]]:
    """The cases of a detector; none where it has no file, which tests/test_walls.py names."""
    path = CASES / f"{name}.yaml"
    if not path.exists():
        return []
    found = yaml.safe_load(path.read_text("utf-8"))
    assert isinstance(found, list)
    return found


ALL = [pytest.param(name, case, id=f"{name}: {case['name']}") for name in DETECTORS for case in cases(name)]


@pytest.mark.parametrize(("name", "case"), ALL)
def test_case(name: str, case: dict[str, Any]) -> None:
    settings = Settings(limits={name: case["limits"]}) if "limits" in case else DEFAULT
    said = check(connection(case), only=[name], settings=settings)
    (outcome,) = said.outcomes
    assert outcome.outcome == case["expect"], outcome.reason
    if outcome.outcome == "not_measured":
        assert outcome.collect_with
    if outcome.outcome == "found":
        _agrees(said, case)


def _agrees(said: Check, case: dict[str, Any]) -> None:
    first = said.findings[0]
    assert sum(finding.saving_ns for finding in said.findings if finding.measure == STEP) <= said.step_ns
    if "cause" in case:
        assert first.cause == case["cause"]
    if "saving_us" in case:
        assert first.saving_ns == round(case["saving_us"] * 1000)
    if "saving_within" in case:
        least, most = case["saving_within"]
        assert least * 1000 <= first.saving_ns <= most * 1000, first.saving_ns
    if "most_us" in case:
        assert first.saving_most_ns == round(case["most_us"] * 1000)
    if "on_rank" in case:
        assert {evidence.rank for evidence in first.evidence} == {case["on_rank"]}
    if "at" in case:
        moment = case["at"] * 1000
        assert any(e.ts_ns <= moment <= e.ts_ns + e.dur_ns for e in first.evidence), first.evidence
    if "says" in case:
        assert case["says"] in first.words["en"].title
    if "advises" in case:
        assert case["advises"] in first.words["en"].advice
    if "never_advises" in case:
        assert case["never_advises"] not in first.words["en"].advice
    if "count" in case:
        assert len(said.findings) == case["count"]


@pytest.mark.parametrize("name", DETECTORS)
def test_three_kinds_of_case(name: str) -> None:
    assert {case["expect"] for case in cases(name)} >= {"found", "clean", "not_measured"}


@pytest.mark.parametrize("detector", DETECTORS.values(), ids=DETECTORS)
def test_documentation_is_complete(detector: Detector) -> None:
    at = [detector.documentation["en"].find(heading) for heading in HEADINGS]
    assert -1 not in at and at == sorted(at), [h for h, where in zip(HEADINGS, at, strict=True) if where < 0]
    assert _has_unit_and_source(detector.limits)


def _has_unit_and_source(limits: type[Limits]) -> bool:
    return all(f.metadata.get("unit") and f.metadata.get("source") for f in fields(limits))


def test_no_case_without_its_detector() -> None:
    assert {path.stem for path in CASES.glob("*.yaml")} == set(DETECTORS)
