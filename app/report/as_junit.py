"""JUnit for CI: a run is a suite, a detector a test case. Found fails, not measured is skipped, failed is an error."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from npulens.analysis.engine import Check, Outcome
from npulens.app.report.subject import Subject
from npulens.app.text import wording
from npulens.app.text.i18n import say

#: Characters that no XML 1.0 file may hold, escaped or not.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_KINDS = {"found": "failures", "not_measured": "skipped", "failed": "errors"}


def write(subjects: Sequence[Subject], langs: tuple[str, ...]) -> str:
    """The suites, in the first language asked for: a test report has room for one."""
    root = Element("testsuites", name="npulens")
    for subject in subjects:
        _suite(root, subject, langs[0])
    for key in ("tests", *_KINDS.values()):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _suite(root: Element, subject: Subject, lang: str) -> None:
    check = subject.check
    counts = {kind: sum(o.outcome == outcome for o in check.outcomes) for outcome, kind in _KINDS.items()}
    suite = SubElement(root, "testsuite", name=xml(subject.name), tests=str(len(check.outcomes)), time="0")
    for kind, count in counts.items():
        suite.set(kind, str(count))
    properties = SubElement(suite, "properties")
    for name, value in (("run_id", check.run_id), ("step_ns", check.step_ns), ("quality", check.quality.score)):
        SubElement(properties, "property", name=name, value=str(value))
    for outcome in check.outcomes:
        case = SubElement(suite, "testcase", classname=f"npulens.{subject.info.run_id}", name=xml(outcome.detector),
                          time="0")  # fmt: skip
        _outcome(case, check, outcome, lang)


def _outcome(case: Element, check: Check, outcome: Outcome, lang: str) -> None:
    if outcome.outcome == "found":
        first = next((f for f in check.findings if f.detector == outcome.detector), None)
        kind = first.cause if first else outcome.outcome
        failure = SubElement(case, "failure", type=xml(kind), message=xml(wording.reason(outcome, lang)))
        failure.text = xml(_details(check, outcome.detector, lang))
    elif outcome.outcome == "not_measured":
        SubElement(case, "skipped", message=xml(wording.unmeasured(outcome, lang)))
    elif outcome.outcome == "failed":
        SubElement(case, "error", type="failed", message=xml(wording.reason(outcome, lang)))
    else:
        SubElement(case, "system-out").text = xml(wording.reason(outcome, lang))


def _details(check: Check, detector: str, lang: str) -> str:
    lines = []
    for finding in check.findings:
        if finding.detector != detector:
            continue
        words, share = finding.words[lang], wording.share(finding.saving_share)
        lines.append(f"{wording.saved(finding, lang)} ({share}): {wording.plain(words.title)}")
        lines.append(say(lang, "findings.advice_is", {"advice": wording.plain(words.advice)}))
        lines += [f"- {wording.moment(evidence, lang)}" for evidence in finding.evidence]
    return "\n".join(lines)


def xml(text: str) -> str:
    """Text without what no XML may hold."""
    return _FORBIDDEN.sub("\ufffd", text)
