"""How right the detectors are: what they said of a capture against what was planted in it.

A finding hits a fault when three things hold. Its cause is the fault's or one that legitimately shows with it. One of
its windows meets one of the fault's. The ranks agree where both name one. Findings below 1 % of the step are not
scored, and neither are faults that cost less. Two faults that run side by side can hide each other; then removing one
alone gives nothing back. recall = faults hit / faults; precision = findings that hit / findings; top1 = cases whose
first finding hits the largest fault. The saving's error is |saving - gain| / gain. The saving is that of all findings
of the fault's own cause together, because one fault may be fixed in several places. Without such a finding it is the
largest that hits. Savings are compared over the whole capture, since a capture need not mark its steps. Idle that a
finding says nobody can explain is right where the capture lost the reason. It has no saving.

False clean: a fault costs more than the limit of its cause's detector, and that detector ended with `clean`. It does
not count if a finding that hits the fault gives its cost under another name, within a fifth. What every capture of a
dialect holds (`present` in the truth) is no wrong finding and not the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from statistics import median
from typing import Any

from npulens.analysis.discovery import detectors
from npulens.analysis.settings import DEFAULT

#: Findings and faults of less than this share of the step are not scored.
SCORED_SHARE = 0.01
#: Half-width of the normal distribution's middle 95 %.
Z95 = 1.959964
#: A saving this near to a fault's cost tells it.
TOLD = 0.2
#: A finding without a saving: it says that there is idle time and that its reason was not recorded.
UNEXPLAINED = "idle_unexplained"


@dataclass(frozen=True)
class Planted:
    """One fault of a case and what was said of it."""

    case: str
    cause: str
    gain_ns: int
    step_ns: int
    hit: bool
    named: bool  # hit by a finding of the fault's own cause
    first: bool  # the first finding hits it
    largest: bool  # no other fault of the case cost more
    saving_ns: int | None  # of the finding that stands for it
    outcome: str | None = None  # how the detector of this cause ended; None without such a detector
    limit: float = 0.0  # the least share of the step that it calls found

    @property
    def false_clean(self) -> bool:
        told = self.saving_ns is not None and abs(self.saving_ns - self.gain_ns) <= TOLD * self.gain_ns
        return self.outcome == "clean" and self.gain_ns > self.limit * self.step_ns and not told


@dataclass(frozen=True)
class ScoredFinding:
    """A finding of a case at or above 1 % of the step, and whether it hits a planted fault."""

    case: str
    detector: str
    cause: str
    saving_share: float
    hits: bool


@dataclass(frozen=True)
class Case:
    """One capture, scored."""

    name: str
    clean: bool  # nothing was planted
    planted: tuple[Planted, ...]
    said: tuple[ScoredFinding, ...]
    dialect: str = "plain"


def scored(name: str, truth: Mapping[str, Any], check: Mapping[str, Any]) -> Case:
    """A case: `truth` as in truth.json, `check` as `npulens check --json` prints it."""
    faults = truth["faults"]
    counted = [
        f for f in check["findings"]
        if (f["saving_share"] >= SCORED_SHARE or f["cause"] == UNEXPLAINED)
        and (f["cause"] not in truth.get("present", ()) or any(hits(f, fault) for fault in faults))
    ]  # fmt: skip
    largest = max((fault["gain_ns"] for fault in faults), default=0)
    planted = tuple(
        _planted(name, fault, counted, largest, truth, check)
        for fault in faults
        if fault["gain_ns"] >= SCORED_SHARE * truth["step_ns"]
    )
    said = tuple(
        ScoredFinding(name, f["detector"], f["cause"], f["saving_share"], any(hits(f, fault) for fault in faults))
        for f in counted
    )
    return Case(name, not faults, planted, said, truth.get("dialect", "plain"))


def hits(finding: Mapping[str, Any], fault: Mapping[str, Any]) -> bool:
    """Whether the finding is about the fault."""
    if finding["cause"] not in (fault["cause"], *fault.get("also", ())):
        return False
    ranks = {window["rank"] for window in finding["evidence"]} | {finding["numbers"].get("rank")}
    ranks |= {finding["numbers"].get("peer")}
    if fault.get("rank") is not None and not ranks & {fault["rank"], *(w["rank"] for w in fault["windows"])}:
        return False
    own = {window["rank"] for window in fault["windows"]}
    return any(
        _meet(seen, window)
        for seen in finding["evidence"]
        for window in fault["windows"]
        if seen["rank"] == window["rank"] or seen["rank"] not in own
    )


def _meet(one: Mapping[str, int], other: Mapping[str, int]) -> bool:
    start = max(one["ts_ns"], other["ts_ns"])
    return start <= min(one["ts_ns"] + one["dur_ns"], other["ts_ns"] + other["dur_ns"])


def _planted(
    name: str,
    fault: Mapping[str, Any],
    findings: Sequence[Mapping[str, Any]],
    largest: int,
    truth: Mapping[str, Any],
    check: Mapping[str, Any],
) -> Planted:
    hit = [finding for finding in findings if hits(finding, fault)]
    named = [finding for finding in hit if finding["cause"] == fault["cause"]]
    priced = named or [finding for finding in hit if finding["cause"] != UNEXPLAINED][:1]
    steps = check.get("steps", 1)
    saving = sum(finding["saving_ns"] for finding in priced) * steps // truth.get("steps", steps) if priced else None
    first = bool(findings) and hits(findings[0], fault)
    outcomes = {outcome["detector"]: outcome["outcome"] for outcome in check.get("outcomes", ())}
    limits = {detector.name: detector.limits().min_share for detector in detectors(DEFAULT)}
    return Planted(
        name, fault["cause"], fault["gain_ns"], truth["step_ns"], bool(hit), bool(named), first,
        fault["gain_ns"] == largest, saving, outcomes.get(fault["cause"]), limits.get(fault["cause"], 0.0),
    )  # fmt: skip


@dataclass(frozen=True)
class Rate:
    """A share with its Wilson interval at 95 %."""

    good: int
    of: int

    @property
    def share(self) -> float | None:
        return self.good / self.of if self.of else None

    def interval(self) -> tuple[float, float] | None:
        if not self.of:
            return None
        p, n, z2 = self.good / self.of, self.of, Z95 * Z95
        middle, half = p + z2 / (2 * n), Z95 * sqrt(p * (1 - p) / n + z2 / (4 * n * n))
        return (middle - half) / (1 + z2 / n), (middle + half) / (1 + z2 / n)


@dataclass(frozen=True)
class Score:
    """Many cases together."""

    cases: int
    recall: Rate
    precision: Rate
    top1: Rate
    quiet: Rate  # clean cases without a scored finding
    errors: tuple[float, ...]  # |saving - gain| / gain of the faults that were hit
    below: Rate  # savings below the gain: a ceiling should rarely be
    false_clean: Rate  # faults that the detector of their cause calls clean

    @property
    def saving_error(self) -> float | None:
        return median(self.errors) if self.errors else None

    @property
    def saving_error_p90(self) -> float | None:
        """Nine of ten errors are no larger."""
        return sorted(self.errors)[ceil(0.9 * len(self.errors)) - 1] if self.errors else None


def score(cases: Iterable[Case], cause: str | None = None) -> Score:
    """The score of all cases, or of one cause: its faults, and the findings that blame it."""
    cases = list(cases)
    planted = [fault for case in cases for fault in case.planted if cause in (None, fault.cause)]
    said = [finding for case in cases for finding in case.said if cause in (None, finding.cause)]
    largest = [fault for fault in planted if fault.largest]
    clean = [case for case in cases if case.clean]
    priced = [fault for fault in planted if fault.saving_ns is not None and fault.gain_ns > 0]
    errors = tuple(abs((fault.saving_ns or 0) - fault.gain_ns) / fault.gain_ns for fault in priced)
    return Score(
        len({fault.case for fault in planted} if cause else cases),
        Rate(sum(fault.hit for fault in planted), len(planted)),
        Rate(sum(finding.hits for finding in said), len(said)),
        Rate(sum(fault.first for fault in largest), len(largest)),
        Rate(sum(not case.said for case in clean), len(clean)),
        errors,
        Rate(sum((fault.saving_ns or 0) < fault.gain_ns for fault in priced), len(priced)),
        Rate(sum(fault.false_clean for fault in planted), len(planted)),
    )
