"""Chinese of texts whose English lies elsewhere, with what it tells of: a TOML file a kind, read when asked for.

What holds no words has no entry: names, values and addresses are the same in both.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

_PARTS = re.compile(r"; (?![^()]*\))")  # no semicolon within brackets


@cache
def chinese(kind: str) -> Mapping[str, str]:
    """The Chinese of a kind of texts by their English."""
    return tomllib.loads(Path(__file__).with_name(f"{kind}.toml").read_text("utf-8"))


def meaning(english: str, lang: str) -> str:
    """What a table, a view or a column means."""
    return chinese("meanings").get(english, english) if lang == "zh" else english


def source(english: str, lang: str) -> str:
    """Who says what is known of a device: part by part, addresses and titles as they are."""
    if lang != "zh":
        return english
    said, when = parts(english)
    return "；".join(map(_part, said)) + (f"（{when}）" if when else "")


def parts(english: str) -> tuple[list[str], str]:
    """What semicolons divide in a source, and the date behind it."""
    text, _, when = english.removesuffix(")").rpartition(" (")
    dated = re.fullmatch(r"\d{4}-\d\d-\d\d", when) is not None
    return _PARTS.split(text if dated else english), when if dated else ""


def _part(english: str) -> str:
    """The whole of it, or the longest beginning up to a comma that has Chinese."""
    known = chinese("sources")
    cuts = [len(english), *(found.start() for found in reversed(list(re.finditer(", ", english))))]
    cut = next((cut for cut in cuts if english[:cut] in known), 0)
    rest = english[cut:].removeprefix(", ")
    return "，".join(filter(None, (known.get(english[:cut], ""), rest)))
