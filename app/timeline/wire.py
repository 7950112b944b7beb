"""A tile as bytes: "NPT1", the header's length, a JSON header, then the columns, each on a multiple of eight.

Little endian. The header names every column, its offset from the header's end and its type. So a browser makes typed
arrays over the answer without copying it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from npulens.app.text.wording import plain

MAGIC = b"NPT1"
_TYPES = {"f64": "<f8", "f32": "<f4", "i32": "<i4", "u32": "<u4", "u16": "<u2", "u8": "u1"}
#: A name longer than this is cut on the wire and ends in "…"; the details of a span have all of it.
LONGEST_NAME = 256


@dataclass(frozen=True)
class Column:
    """A column of the wire: name, type as in the header, values."""

    name: str
    type: str
    values: Any


def shown(text: str, longest: int = LONGEST_NAME) -> str:
    """A name as the screen can show it: one line, nothing that turns text around, not longer than a screen."""
    cut = text if len(text) <= longest else text[: longest - 1] + "…"
    return _clean(cut) if len(cut) <= LONGEST_NAME else _clean.__wrapped__(cut)


@lru_cache(maxsize=16_384)
def _clean(text: str) -> str:
    """The same few names are on every tile."""
    return plain(text).encode("utf-8", "replace").decode()


def encoded(header: dict[str, object], columns: Sequence[Column]) -> bytes:
    """The tile's bytes."""
    bodies, places, offset = [], {}, 0
    for column in columns:
        body = np.ascontiguousarray(column.values).astype(_TYPES[column.type]).tobytes()
        body += b"\0" * (-len(body) % 8)
        places[column.name] = [offset, column.type]
        bodies.append(body)
        offset += len(body)
    said = json.dumps({**header, "columns": places}, ensure_ascii=False, separators=(",", ":")).encode()
    said += b" " * (-len(said) % 8)
    return b"".join((MAGIC, struct.pack("<I", len(said)), said, *bodies))


def decoded(data: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and columns of a tile's bytes, for whoever reads one in Python."""
    if data[:4] != MAGIC:
        raise ValueError("not a tile")
    length = struct.unpack("<I", data[4:8])[0]
    header = json.loads(data[8 : 8 + length])
    sizes = {name: header["n_spans" if name.startswith("s_") else "n_cells"] for name in header["columns"]}
    return header, {
        name: np.frombuffer(data, _TYPES[kind], sizes[name], 8 + length + offset)
        for name, (offset, kind) in header["columns"].items()
    }
