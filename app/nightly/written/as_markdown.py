"""Markdown for a chat and for the summary of a CI step: the headline, what moved, what failed."""

from __future__ import annotations

from collections.abc import Iterator

from npulens.app.nightly.night import Night, Row
from npulens.app.nightly.written import figures, night_text
from npulens.app.report.as_markdown import text
from npulens.app.text.i18n import say

#: Rows of a message; the rest is in the report.
_MOST = 10


def write(night: Night, langs: tuple[str, ...]) -> str:
    """The night, in each language asked for."""
    return "\n".join("\n".join(_whole(night, lang)) for lang in langs)


def message(night: Night, lang: str) -> tuple[str, str]:
    """Title and body of a message."""
    title = f"{say(lang, 'nightly.title', night_text.named(night))}: {night_text.headline(night, lang)}"
    return title, "\n".join([f"{text(night_text.counts(night, lang))}\n", *_body(night, lang)])


def _whole(night: Night, lang: str) -> Iterator[str]:
    yield f"## {text(say(lang, 'nightly.title', night_text.named(night)))}\n"
    yield f"**{text(night_text.headline(night, lang))}**\n"
    yield f"{text(night_text.counts(night, lang))}\n"
    yield from _body(night, lang)


def _body(night: Night, lang: str) -> Iterator[str]:
    moved = night_text.moved(night)
    if moved:
        heads = ("verdict", "task", "metric", "change", "interval", "tonight", "before", "since")
        yield "| " + " | ".join(text(say(lang, f"nightly.col_{head}")) for head in heads) + " |"
        yield "|:--|:--|:--|--:|:--|--:|--:|:--|"
        for row in moved[:_MOST]:
            yield "| " + " | ".join(text(cell) for cell in _cells(row, lang)) + " |"
        yield ""
        if len(moved) > _MOST:
            yield text(say(lang, "nightly.more", {"n": len(moved) - _MOST})) + "\n"
        for row in moved[:_MOST]:
            yield from _why(row, lang)
    wrong = [*night_text.failures(night, lang), *night_text.notices(night, lang)]
    yield from (f"- {text(sentence)}" for sentence in wrong)
    if wrong:
        yield ""
    if link := night_text.link(night, "Nights", {"night": night.label, "name": night.name}):
        yield f"[{text(say(lang, 'nightly.open_night'))}]({link})\n"


def _cells(row: Row, lang: str) -> tuple[str, ...]:
    return (
        night_text.tagged(row, lang), row.task, figures.metric(lang, row.metric),
        figures.change(row.ratio), figures.interval(row), figures.number(row.value, row.unit),
        figures.number(row.level, row.unit), row.since or "",
    )  # fmt: skip


def _why(row: Row, lang: str) -> Iterator[str]:
    for sentence in night_text.why(row, lang):
        yield f"- {text(f'{row.task}, {figures.metric(lang, row.metric)}: {sentence}')}"
    if row.confirm:
        yield f"  {text(say(lang, 'nightly.confirm'))} `{row.confirm.replace('`', '')}`"
