"""What stands in the address of a question about the timeline, the tokens beside it, and the bytes of a tile."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from urllib.parse import parse_qsl

from npulens.app.text.wording import plain
from npulens.app.timeline import request_values, wire
from npulens.ingest.store import notes
from tests.fuzz import change


def seeds() -> list[bytes]:
    return [
        b"from=0&to=1000&px=800&tracks=1,2,3&ids=7,8&lod=auto",
        b"from=-5&to=9007199254740991&px=1&ids=&tracks=",
        b"from=1e5&to=%31%32&px=&q=%E8%AE%A1&ids=1,,2",
        wire.encoded({"n_spans": 1, "n_cells": 0}, [wire.Column("s_ts", "f64", [1.5]), wire.Column("c_n", "u16", [])]),
    ]


def mutate(data: bytes, draw: Random) -> bytes:
    return change.anything(data, draw)


def check(data: bytes, scratch: Path) -> None:
    query = dict(parse_qsl(data.decode("latin-1"), keep_blank_values=True, max_num_fields=None))
    for question in _questions(query):
        try:
            said = question()
        except request_values.Refused as refused:
            assert refused.key.isidentifier() and 400 <= refused.status < 500
        else:
            json.dumps(said)
    text = data.decode("utf-8", "surrogateescape")
    for shown in (wire.shown(text), plain(text), notes.line(text)):
        assert "\n" not in shown and "\u202e" not in shown and "\x1b" not in shown and "\0" not in shown
    assert len(wire.shown(text)) <= wire.LONGEST_NAME
    notes.line(text).encode("utf-8")
    _tile(data)


def _questions(query: dict[str, str]) -> list[Callable[[], object]]:
    def within() -> object:
        begin, end = request_values.window(query)
        assert begin < end and abs(begin) <= request_values.FAR and abs(end) <= request_values.FAR
        return begin, end

    def pixels() -> object:
        found = request_values.whole(query, "px", 1, 4096)
        assert 1 <= found <= 4096
        return found

    def several() -> object:
        found = request_values.ids(query, "ids")
        assert found is None or (len(found) <= request_values.MOST_IDS and len(set(found)) == len(found))
        return found

    def word() -> object:
        return request_values.choice(query, "lod", ("auto",))

    def number() -> object:
        return request_values.number(query.get("q", ""), "q")

    return [within, pixels, several, word, number]


def _tile(data: bytes) -> None:
    """Names of any text travel and come back."""
    name = data.decode("utf-8", "replace")[:200]
    said = {"n_spans": 2, "n_cells": 0, "names": [name]}
    header, columns = wire.decoded(wire.encoded(said, [wire.Column("s_a", "f64", [1, 2])]))
    assert header["names"] == [name] and columns["s_a"].tolist() == [1.0, 2.0]
