"""The small JSON files of the Ascend profilers: read whole, damaged or not, and their values taken with care."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import msgspec

from npulens.ingest.messages import Message

#: The small JSON files are small.
_MAX_BYTES = 64 << 20


def read(path: Path) -> tuple[Mapping[str, object], Message | None]:
    """A JSON object of a file, and why it could not be read."""
    try:
        if not path.is_file():  # reading a pipe would never end
            return {}, Message("is_no_file", {"file": path.name})
        if path.stat().st_size > _MAX_BYTES:
            return {}, Message("is_larger_than_mb", {"file": path.name, "n": _MAX_BYTES >> 20})
        found = msgspec.json.decode(path.read_bytes())
    except (msgspec.MsgspecError, RecursionError, ValueError, OSError) as error:
        return {}, Message("file_cannot_be_read", {"file": path.name, "error": error})
    if not isinstance(found, dict):
        return {}, Message("holds_no_json_object", {"file": path.name})
    return found, None


def mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def whole(value: object) -> int | None:
    """A whole number that fits 64 bits, written as a number or as text."""
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,19}", value.strip()):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if -(2**63) <= value < 2**63 else None


def number(value: object) -> float | None:
    if isinstance(value, str) and re.fullmatch(r"\d{1,12}(\.\d{1,12})?", value.strip()):
        value = float(Decimal(value))
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
