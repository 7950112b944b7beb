"""Texts and numbers as DuckDB writes them in JSON."""

from __future__ import annotations

import json
import re
from decimal import Decimal

from npulens.ingest.tables.arrays import Unusual

_ESCAPE = re.compile(r"\\u00[01][0-9a-f]")


def as_json(text: str) -> str:
    """A text in quotes."""
    return _ESCAPE.sub(lambda found: found[0][:2] + found[0][2:].upper(), json.dumps(text, ensure_ascii=False))


def double(number: float) -> str:
    """A finite number, never with an exponent."""
    if number and not 1e-6 <= abs(number) < 1e21:
        raise Unusual
    text = format(Decimal(repr(number)), "f")
    return text if "." in text else f"{text}.0"
