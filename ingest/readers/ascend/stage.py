"""Steps between raw tables and contract tables: a SELECT kept as a file, and the texts behind string codes."""

from __future__ import annotations

from npulens.ingest.tables.draft import Draft

#: The profiler ends frames with a semicolon and a line break.
FRAME_END = r";?\r?\n"


def frames(text: str) -> str:
    """SQL: a call stack with one frame a line."""
    return f"regexp_replace({text}, '{FRAME_END}', chr(10), 'g')"


def one_line(text: str) -> str:
    """SQL: shapes without the line breaks that the profiler puts behind each semicolon."""
    return f"replace(replace({text}, chr(13), ''), chr(10), '')"


def count(draft: Draft, query: str) -> int:
    """The number a query answers with."""
    return int(draft.con.execute(query).fetchall()[0][0] or 0)
