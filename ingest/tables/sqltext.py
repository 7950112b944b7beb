"""Names and texts as SQL writes them."""

from __future__ import annotations

from collections.abc import Mapping


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def whens(values: Mapping[str, str] | Mapping[int, str] | Mapping[str, int]) -> str:
    """What a CASE gives for each of several values."""
    return " ".join(
        f"WHEN {one if isinstance(one, int) else literal(one)} THEN {it if isinstance(it, int) else literal(it)}"
        for one, it in values.items()
    )
