"""Text in HTML, in one language or in both at once: the page's switch shows one of them, without a script."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from typing import TypeVar

from npulens.app.text import i18n
from npulens.app.text.wording import plain

Value = TypeVar("Value")
_NOTHING: Mapping[str, object] = {}


@dataclass(frozen=True)
class HtmlText:
    """The languages a page is written in. Whatever comes in as text goes out escaped."""

    langs: tuple[str, ...]

    def of(self, make: Callable[[str], str]) -> str:
        """A text made for each language; once, where both are the same."""
        made = {lang: escape(plain(make(lang)), quote=True) for lang in self.langs}
        if len(set(made.values())) == 1:
            return next(iter(made.values()))
        return "".join(f'<span class="{lang}" lang="{lang}">{text}</span>' for lang, text in made.items())

    def about(self, value: Value, make: Callable[[Value, str], str]) -> str:
        """A text about one thing of several: made at once, so a loop's next one does not come into it."""
        return self.of(lambda lang: make(value, lang))

    def say(self, key: str, values: Mapping[str, object] = _NOTHING) -> str:
        """A text of app/text/words or of a page's words."""
        return self.of(lambda lang: i18n.say(lang, key, values))

    def drawn(self, make: Callable[[str], str], attributes: str) -> str:
        """The same as text of a drawing; the attributes are ours."""
        made = {lang: escape(plain(make(lang)), quote=True) for lang in self.langs}
        if len(set(made.values())) == 1:
            return f"<text {attributes}>{next(iter(made.values()))}</text>"
        return "".join(f'<text class="{lang}" lang="{lang}" {attributes}>{text}</text>' for lang, text in made.items())


def text(value: object) -> str:
    """Any text as HTML."""
    return escape(plain(str(value)), quote=True)
