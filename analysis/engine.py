"""Runs the detectors over a run and ranks what they find.

One file of analysis/detectors is one judgement; a user's own come from a folder or from installed
packages (entry points of the group `npulens.detectors`). Each ends in exactly one of four
outcomes, and all are always said: found, clean (with what it measured), not_measured (with what
would record it), failed (with the error).

A saving is never the detector's word: the engine replays the run with the change that a fix would
make (analysis/whatif.py). In ns of the mean step. The list as a whole never promises more than
the step: from the largest down, each finding is given at most what the others have left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import duckdb

from analysis import whatif
from analysis.capability import capabilities
from analysis.discovery import Detector, detectors
from analysis.finding import Candidate, Change, Confidence, Evidence, NotMeasured, Value, Words
from analysis.limits import Limits, overridden
from analysis.quality import Quality, quality
from analysis.run import Run
from analysis.say import filled, number
from analysis.settings import DEFAULT, Settings
from analysis.views import install

#: From which share of the step on a finding is called so.
SEVERITIES = ((0.10, "high"), (0.03, "medium"), (0.0, "low"))


@dataclass(frozen=True)
class Finding:
    """A candidate that was measured and is worth reading about."""

    detector: str
    cause: str
    severity: str
    words: dict[str, Words]  # by language, with their numbers filled in
    saving_ns: int  # of the mean step, a ceiling
    saving_share: float
    confidence: Confidence
    numbers: dict[str, Value]
    evidence: tuple[Evidence, ...]
    change: Change

    def as_dict(self, lang: str = "en") -> dict[str, Any]:
        """The keys that `npulens check --json` promises."""
        words = self.words[lang]
        return {
            "detector": self.detector, "cause": self.cause, "severity": self.severity,
            "title": words.title, "advice": words.advice, "saving_ns": self.saving_ns,
            "saving_share": self.saving_share, "confidence": self.confidence, "numbers": self.numbers,
            "evidence": [vars(evidence) for evidence in self.evidence],
        }  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """How one detector ended."""

    detector: str
    outcome: str  # 'found', 'clean', 'not_measured' or 'failed'
    reason: str
    reason_zh: str
    collect_with: str | None = None

    def as_dict(self, lang: str = "en") -> dict[str, Any]:
        reason = self.reason_zh if lang == "zh" else self.reason
        return {
            "detector": self.detector, "outcome": self.outcome, "reason": reason, "collect_with": self.collect_with,
        }  # fmt: skip


@dataclass(frozen=True)
class Check:
    """Everything `npulens check` says of a run."""

    run_id: str
    step_ns: int
    steps: int
    quality: Quality
    findings: tuple[Finding, ...]
    together_ns: int  # what all of them give back at once, replayed together
    outcomes: tuple[Outcome, ...]

    def as_dict(self, lang: str = "en") -> dict[str, Any]:
        return {
            "run_id": self.run_id, "step_ns": self.step_ns, "steps": self.steps, "together_ns": self.together_ns,
            "quality": self.quality.as_dict(lang),
            "findings": [finding.as_dict(lang) for finding in self.findings],
            "outcomes": [outcome.as_dict(lang) for outcome in self.outcomes],
        }  # fmt: skip


def check(
    con: duckdb.DuckDBPyConnection, only: Iterable[str] | None = None, settings: Settings = DEFAULT
) -> Check:
    """Judge a run. `only`: names of detectors; `settings`: limits and own detectors of npulens.toml."""
    install(con)
    run = Run(con)
    found: list[Finding] = []
    outcomes: list[Outcome] = []
    for detector in chosen(detectors(settings), only):
        findings, outcome = judged(run, detector, settings)
        found += findings
        outcomes.append(outcome)
    ranked = tuple(_capped(run, sorted(found, key=lambda finding: (-finding.saving_ns, finding.detector))))
    together = Change()
    for finding in ranked:
        together = together | finding.change
    saved = min(whatif.saved_ns(run, together), run.wall_ns) // run.step_count if ranked else 0
    return Check(run.run_id, run.step_ns, run.step_count, quality(run, ranked), ranked, saved, tuple(outcomes))


def chosen(known: tuple[Detector, ...], only: Iterable[str] | None) -> tuple[Detector, ...]:
    """The detectors asked for; all of them unless some are named."""
    if only is None:
        return known
    names = set(only)
    if unknown := names - {detector.name for detector in known}:
        raise ValueError(
            f"there is no detector {', '.join(sorted(unknown))}; there are {', '.join(d.name for d in known)}"
        )
    return tuple(detector for detector in known if detector.name in names)


def judged(run: Run, detector: Detector, settings: Settings) -> tuple[list[Finding], Outcome]:
    """One detector's findings and how it ended. Its failure is its outcome; the others still run."""
    for need in detector.needs:
        has = run.get(capabilities)[need]
        if has.status == "absent":
            en, zh = has.capability.means
            return [], Outcome(
                detector.name, "not_measured", f"{en}: {has.why}", f"{zh}：{has.why_zh}", has.collect_with
            )  # fmt: skip
    try:
        limits = overridden(detector.limits(), settings.limits_of(detector.name), "npulens.toml")
        candidates = list(detector.detect(run.con, run, limits))
        measured = sorted((_measured(run, detector, c) for c in candidates), key=lambda finding: -finding.saving_ns)
    except NotMeasured as missing:
        return [], Outcome(detector.name, "not_measured", missing.why, missing.why_zh, missing.collect_with)
    except Exception as error:  # a defect of one detector must not take the others' answers away
        why = f"{type(error).__name__}: {error}"
        return [], Outcome(detector.name, "failed", why, why)
    findings = [finding for finding in measured if finding.saving_share >= limits.min_share and finding.saving_ns > 0]
    if findings:
        best = findings[0]
        return findings, Outcome(detector.name, "found", best.words["en"].title, best.words["zh"].title)
    return [], _clean(detector, measured, limits)


def _clean(detector: Detector, measured: list[Finding], limits: Limits) -> Outcome:
    """Clean is said with what was measured."""
    if not measured:
        return Outcome(detector.name, "clean", "nothing of the kind was seen", "未发现此类现象")
    best, least = measured[0], number("_share", limits.min_share)
    share, saving = number("_share", best.saving_share), number("_ns", best.saving_ns)
    return Outcome(
        detector.name, "clean",
        f"at most {saving} of the step ({share}), below the limit of {least}",
        f"至多 {saving}（占步长 {share}），低于门限 {least}",
    )  # fmt: skip


def _measured(run: Run, detector: Detector, candidate: Candidate) -> Finding:
    """The candidate with its saving and its words."""
    total = whatif.saved_ns(run, candidate.change)
    if candidate.ceiling_ns is not None:
        total = min(total, candidate.ceiling_ns)
    saving = max(0, min(total, run.wall_ns)) // run.step_count
    share = saving / run.step_ns if run.step_ns else 0.0
    numbers = {**candidate.numbers, "saving_ns": saving, "saving_share": share, "step_ns": run.step_ns}
    return Finding(
        detector.name, candidate.cause, _severity(share),
        {lang: filled(texts[candidate.text], numbers, run.stepped) for lang, texts in detector.text.items()},
        saving, share, candidate.confidence, numbers, candidate.evidence, candidate.change,
    )  # fmt: skip


def _severity(share: float) -> str:
    return next(name for least, name in SEVERITIES if share >= least)


def _capped(run: Run, ranked: list[Finding]) -> Iterator[Finding]:
    """Largest first, none more than the others have left of the step."""
    left = run.step_ns
    for finding in ranked:
        saving = min(finding.saving_ns, left)
        left -= saving
        if saving == finding.saving_ns:
            yield finding
        elif saving:
            share = saving / run.step_ns
            yield replace(finding, saving_ns=saving, saving_share=share, severity=_severity(share))
