"""The back pages of the HTML report: every threshold with its source, and what the words mean."""

from __future__ import annotations

from dataclasses import fields

from npulens.app.report.subject import Subject
from npulens.app.report.tongue import Tongue, text

_TERMS = ("step", "saving", "share", "severity", "evidence", "masked", "clean", "unmeasured")


def thresholds(subject: Subject, tongue: Tongue) -> str:
    """Each detector's limits: value, unit, where the number comes from, and whether npulens.toml changed it."""
    rows = []
    for detector in subject.detectors:
        changed = subject.limits.get(detector.name, {})
        for limit in fields(detector.limits):
            value = f"{limit.default:g}"
            if limit.name in changed:
                values = {"value": f"{changed[limit.name]:g}", "default": value}
                value = tongue.say("report.overridden", values)
            rows.append(
                f"<tr><td>{text(detector.name)}</td><td><code>{text(limit.name)}</code></td>"
                f'<td class="n">{value}</td><td>{text(limit.metadata.get("unit", ""))}</td>'
                f"<td>{text(limit.metadata.get('source', ''))}</td></tr>"
            )
    head = (
        f"<tr><th>{tongue.say('findings.detector')}</th><th>{tongue.say('report.col_limit')}</th>"
        f"<th class=n>{tongue.say('findings.col_value')}</th><th>{tongue.say('report.col_unit')}</th>"
        f"<th>{tongue.say('report.col_source')}</th></tr>"
    )
    note = tongue.say("report.thresholds_note")
    return (
        f"<h2>{tongue.say('report.thresholds')}</h2><details><summary>{note}</summary>"
        f'<div class="wide"><table>{head}{"".join(rows)}</table></div></details>'
    )


def definitions(tongue: Tongue) -> str:
    """What the words of the report mean."""
    terms = "".join(
        f"<dt><b>{tongue.say(f'report.{term}')}</b></dt><dd>{tongue.say(f'report.{term}_means')}</dd>"
        for term in _TERMS
    )
    return f"<h2>{tongue.say('report.definitions')}</h2><dl>{terms}</dl>"
