"""What is said of a capture: the name of a text and its values. The texts, English and Chinese, lie in ingest/words.

A message is its English text wherever text is wanted, and keeps name and values beside it. Tables and manifests store
both, so whoever shows a message chooses the language.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from npulens.ingest import words

#: What a text is filled with: other messages speak the language of the text around them, everything else is the same.
Values = Mapping[str, object]
JOINT = {"en": "; ", "zh": "；"}
_NOTHING: Values = {}
#: Words that are not ours: a name, what another library complains of. Several messages, one after another.
_VERBATIM, _LINES, _JOINED = "verbatim", "lines", "joined"
#: A message in JSON: an object with these two and nothing else.
_SAID, _VALUES = "said", "values"


def printable(text: str) -> str:
    """A name from a file as text of one line: line breaks, control characters and marks of direction as escapes."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def one_line(text: str, most: int = 400) -> str:
    """The same, and not longer than people read: names in files have up to megabytes."""
    return printable(text if len(text) <= most else text[:most] + " ...")


class Message(str):
    """One line of English (but for ``lines``), with the name and the values it was made of."""

    key: str
    values: Values

    def __new__(cls, key: str, values: Values = _NOTHING) -> Message:
        """A message of the catalogue."""
        kept = dict(values) if key == _LINES else {name: _kept(value) for name, value in values.items()}
        said = super().__new__(cls, _filled(key, kept, "en"))
        said.key, said.values = key, kept
        return said

    def __reduce__(self) -> tuple[type[Message], tuple[str, Values]]:
        return Message, (self.key, self.values)


def verbatim(text: object) -> Message:
    """Words that are not ours, said as they are."""
    return text if isinstance(text, Message) else Message(_VERBATIM, {"text": text})


def lines(text: str) -> Message:
    """Words that are not ours, of several lines that belong under each other."""
    return Message(_LINES, {"text": text})


def joined(said: Iterable[str]) -> Message:
    """Several messages as one."""
    several = [verbatim(one) for one in said]
    return several[0] if len(several) == 1 else Message(_JOINED, {"several": tuple(several)})


def listed(names: Sequence[str], most: int) -> Message:
    """The first of some names, and how many more there are."""
    first = ", ".join(names[:most])
    more = len(names) - most
    return Message("listed_and_more", {"files": first, "n": more}) if more > 0 else verbatim(first)


def of_file(path: Path, said: Message) -> Message:
    """What is said of a file, its name before it."""
    return Message("of", {"name": path.name, "said": said})


def at_level(level: str | None, key: str, values: Values = _NOTHING) -> Message:
    """What a profiler level did not record: the text of the key, or of ``key_at`` where the level is known."""
    return Message(f"{key}_at", {**values, "level": level}) if level else Message(key, values)


def dumped(data: object, indent: int | None = None) -> str:
    """As JSON, in which messages keep their names and values."""
    return json.dumps(as_data(data), indent=indent)


def loaded(text: str | bytes) -> Any:
    """What such JSON held."""
    return json.loads(text, object_hook=_folded)


def stored(said: object) -> str | None:
    """What a table keeps beside an English text: its messages as data."""
    return None if said is None else dumped(said)


def restored(english: str | None, data: str | None) -> str | None:
    """The message behind an English text of a table; the text alone where the data does not say the same."""
    found = spoken(data)
    return found if found == english else english


def spoken(data: str | None) -> Message | None:
    """The message that such data says; None where it says none."""
    try:
        found = None if data is None else loaded(data)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, Message) else None


def render(said: str | None, lang: str) -> str:
    """A message in a language; other words as they are."""
    return "" if said is None else _filled(said.key, said.values, lang) if isinstance(said, Message) else said


@cache
def catalogue() -> dict[str, tuple[str, str]]:
    """Every text of ingest/words by its name, English and Chinese."""
    found = {_VERBATIM: ("{text}", "{text}"), _LINES: ("{text}", "{text}"), _JOINED: ("{several}", "{several}")}
    for module in pkgutil.iter_modules(words.__path__):
        pairs: dict[str, tuple[str, str]] = importlib.import_module(f"{words.__name__}.{module.name}").TEXT
        found.update(pairs)
    return found


def _filled(key: str, values: Values, lang: str) -> str:
    return catalogue()[key][lang == "zh"].format_map({name: _spoken(value, lang) for name, value in values.items()})


def _spoken(value: object, lang: str) -> str:
    if isinstance(value, tuple):
        return JOINT[lang].join(render(one, lang) for one in value)
    return render(value, lang) if isinstance(value, str) else "" if value is None else str(value)


def _kept(value: object) -> object:
    """What JSON can hold and a line can show: numbers and messages as they are, of everything else the text."""
    if value is None or isinstance(value, Message | int | float):
        return value
    return tuple(map(_kept, value)) if isinstance(value, tuple | list) else one_line(str(value))


def as_data(data: object) -> object:
    """What plain JSON holds of it: messages as objects of name and values."""
    if isinstance(data, Message):
        return {_SAID: data.key, _VALUES: as_data(data.values)}
    if isinstance(data, Mapping):
        return {name: as_data(value) for name, value in data.items()}
    return [as_data(each) for each in data] if isinstance(data, list | tuple) else data


def _folded(found: dict[str, Any]) -> Any:
    if found.keys() != {_SAID, _VALUES}:
        return found
    try:
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in found[_VALUES].items()}
        return Message(found[_SAID], values)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{found[_SAID]!r} is no message of this version") from error
