"""Markdown short enough for a chat: the answer, the ranking, what to do, what could not be seen."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from npulens.analysis.engine import Check
from npulens.app.report.subject import Subject
from npulens.app.text import wording
from npulens.app.text.i18n import say

_MARKS = re.compile(r"([\\`*_{}\[\]<>()#+|~!&$-])")
#: What a renderer turns into links, notifications or pictures by itself; an invisible space within keeps it text.
_ACTIVE = re.compile(r"@|://|\bwww\.|\bmailto:|\bxmpp:|:(?=[\w+\\-]+:)|:(?=[a-z-]+\\\[)", re.IGNORECASE)


def write(subjects: Sequence[Subject], langs: tuple[str, ...]) -> str:
    """Every run, in each language asked for."""
    return "\n".join("\n".join(_run(subject, lang)) for lang in langs for subject in subjects)


def _run(subject: Subject, lang: str) -> Iterator[str]:
    check = subject.check
    yield f"## {text(subject.name)}\n"
    yield f"**{text(wording.answer(check, lang))}**\n"
    for line in (*wording.kernels(check, lang), wording.quality(check, lang)):
        yield f"{text(line)}\n"
    yield from _findings(check, lang)
    yield f"{text(wording.outcomes(check, lang))}\n"
    yield from _unseen(check, lang)
    yield f"{text(wording.collect(check, lang))}\n"
    yield f"```{check.quality.collect.language}\n{check.quality.collect.code(lang).rstrip()}\n```\n"


def _findings(check: Check, lang: str) -> Iterator[str]:
    if not check.findings:
        return
    columns = (say(lang, "report.col_saving"), say(lang, "findings.col_share"), say(lang, "report.col_finding"))
    yield f"| # | {' | '.join(text(column) for column in columns)} |"
    yield "|--:|--:|--:|:--|"
    for place, finding in enumerate(check.findings, 1):
        cells = (wording.saved(finding, lang), wording.share(finding.saving_share), finding.words[lang].title)
        yield f"| {place} | {' | '.join(text(cell) for cell in cells)} |"
    yield ""
    if said := wording.together(check, lang):
        yield f"{text(said)}\n"
    for place, finding in enumerate(check.findings, 1):
        yield f"{place}. {text(finding.words[lang].advice)}"
        if between := wording.interval(finding, lang):
            yield f"   {text(between)}"
        if finding.evidence:
            yield f"   {text(wording.first_moment(finding, lang))}"
    yield ""


def _unseen(check: Check, lang: str) -> Iterator[str]:
    for outcome, title in (("masked", "masked"), ("not_measured", "not_measured"), ("failed", "broken")):
        ended = [found for found in check.outcomes if found.outcome == outcome]
        if not ended:
            continue
        told = wording.unmeasured if outcome == "not_measured" else wording.reason
        yield f"**{text(say(lang, f'findings.{title}'))}**\n"
        yield from (f"- {text(found.detector)}: {text(told(found, lang))}" for found in ended)
        yield ""
    if unseen := wording.not_looked_for(check, lang):
        yield f"{text(unseen)}\n"


def text(value: str) -> str:
    """Text that no renderer takes for markup, a link or a mention."""
    marked = _MARKS.sub(r"\\\1", wording.plain(value))
    return _ACTIVE.sub(lambda found: found[0][0] + "\u200b" + found[0][1:], marked)
