"""Pieces of trace JSON: rendered event by event, because a capture of a million events must not sit in memory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice
from typing import TextIO

_CHUNK = 4_000


@lru_cache(maxsize=65_536)
def quoted(text: str) -> str:
    return json.dumps(text)


@lru_cache(maxsize=4_096)
def joined(parts: tuple[str, ...]) -> str:
    """How torch_npu packs a list into one string."""
    return json.dumps(";\r\n".join(parts))


def us(ns: int) -> str:
    """A stamp in us with all its ns."""
    return f"{ns // 1000}.{ns % 1000:03d}"


def write_joined(file: TextIO, events: Iterable[str], separator: str) -> int:
    """Streams events with a separator between them; says how many there were."""
    source: Iterator[str] = iter(events)
    count, first = 0, ""
    while chunk := list(islice(source, _CHUNK)):
        file.write(first + separator.join(chunk))
        first = separator
        count += len(chunk)
    return count
