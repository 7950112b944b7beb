"""Markdown for a chat and for the summary of a CI step: the headline, what moved, what failed."""

from __future__ import annotations

from collections.abc import Iterator

from npulens.app.nightly.events import Event, events
from npulens.app.nightly.night import Night
from npulens.app.nightly.written import night_text
from npulens.app.report.as_markdown import text
from npulens.app.text.i18n import say

#: Events of a message; the rest is in the report.
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
    found = events(night)
    if found:
        heads = ("verdict", "event", "metrics", "change", "since")
        yield "| " + " | ".join(text(say(lang, f"nightly.col_{head}")) for head in heads) + " |"
        yield "|:--|:--|--:|--:|:--|"
        for event in found[:_MOST]:
            yield "| " + " | ".join(text(cell) for cell in night_text.event_cells(event, lang)) + " |"
        yield ""
        if len(found) > _MOST:
            yield text(say(lang, "nightly.more", {"n": len(found) - _MOST})) + "\n"
        for event in found[:_MOST]:
            yield from _event(event, lang)
    wrong = [*night_text.failures(night, lang), *night_text.notices(night, lang)]
    yield from (f"- {text(sentence)}" for sentence in wrong)
    if wrong:
        yield ""
    if link := night_text.link(night, "Nights", {"night": night.label, "name": night.name}):
        yield f"[{text(say(lang, 'nightly.open_night'))}]({link})\n"


def _event(event: Event, lang: str) -> Iterator[str]:
    """The rows of an event, and what is known of those that stand for its tasks."""
    yield f"**{text(night_text.event_named(event, lang))}**\n"
    for sentence in (*night_text.event_lines(event, lang), *night_text.event_why(event, lang)):
        yield f"- {text(sentence)}"
    for words, command in night_text.event_commands(event, lang):
        yield f"- {text(words)} `{command.replace('`', '')}`"
    yield ""
