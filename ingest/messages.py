"""What is said of a capture: the name of a text and its values. Its texts, English and Chinese, lie in ingest/words.

Reading knows no languages. A message is stored as its name and values, and whoever shows it chooses the language.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Union

from npulens.ingest import words

Value = Union[str, int, float, None, "Message", tuple[Union["Message", str], ...]]
#: What may be said: a message, or words that are not ours - a name, what another library complains of.
Text = Union["Message", str]
_NOTHING: Mapping[str, Value] = {}


@dataclass(frozen=True)
class Message:
    """A name and its values, which may be messages themselves. As text it is English."""

    key: str
    values: tuple[tuple[str, Value], ...] = ()

    @staticmethod
    def of(key: str, values: Mapping[str, Value] = _NOTHING) -> Message:
        """A message of the catalogue."""
        return Message(key, tuple(values.items()))

    def __str__(self) -> str:
        return text(self, "en")

    def as_data(self) -> dict[str, Any]:
        """What JSON can hold."""
        return {"key": self.key, "values": {name: _data(value) for name, value in self.values}}


def data_of(said: Text) -> Any:
    """What JSON can hold: a message as an object, other words as they are."""
    return said.as_data() if isinstance(said, Message) else said


def of_data(data: Any) -> Text:
    """The same back again."""
    if isinstance(data, str):
        return data
    return Message(str(data["key"]), tuple((name, _value(value)) for name, value in data["values"].items()))


def text(said: Text, lang: str = "en") -> str:
    """The message in a language, its values with it."""
    if isinstance(said, str):
        return said
    pair = catalogue()[said.key]
    return pair[1 if lang == "zh" else 0].format_map({name: _spoken(value, lang) for name, value in said.values})


def joined(said: Iterable[Text], lang: str = "en") -> str:
    """Several messages as one text."""
    return ("；" if lang == "zh" else "; ").join(text(one, lang) for one in said)


@cache
def catalogue() -> dict[str, tuple[str, str]]:
    """Every text of ingest/words by part and name."""
    found: dict[str, tuple[str, str]] = {}
    for module in pkgutil.iter_modules(words.__path__):
        pairs: dict[str, tuple[str, str]] = importlib.import_module(f"{words.__name__}.{module.name}").TEXT
        found.update({f"{module.name}.{key}": pair for key, pair in pairs.items()})
    return found


def _spoken(value: Value, lang: str) -> str:
    if isinstance(value, Message):
        return text(value, lang)
    if isinstance(value, tuple):
        return joined(value, lang)
    return "" if value is None else str(value)


def _data(value: Value) -> Any:
    if isinstance(value, Message):
        return value.as_data()
    return [data_of(one) for one in value] if isinstance(value, tuple) else value


def _value(data: Any) -> Value:
    if isinstance(data, dict):
        return of_data(data)
    return tuple(of_data(one) for one in data) if isinstance(data, list) else data
