"""One SELECT by a stranger, in a child that can do no harm.

DuckDB's own limits are not hard (a single function call can allocate gigabytes), and COPY may write where reading is
allowed. So the text must be exactly one SELECT. It runs in a disposable child with operating-system limits and no file
it could write.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from npulens.ingest import objects
from npulens.ingest.errors import IngestError
from npulens.ingest.loading import sandbox
from npulens.ingest.messages import Message, lines
from npulens.ingest.store.connection import open_run, proved

#: Rows one answer may have; more is what export is for.
MAX_ROWS = 100_000
LIMITS = sandbox.Limits(memory_bytes=6 * sandbox.GIB, file_bytes=0, cpu_s=60, wall_s=90.0)


@dataclass(frozen=True)
class Answer:
    columns: list[str]
    rows: list[list[Any]]


def ask(store: Path, run_id: str, query: str, views: Iterable[str] = ()) -> Answer:
    """Run one SELECT over a run. ``views``: our own statements that make views for it to ask."""
    objects.fetch(store, run_id)
    proved(store, run_id)  # here: the child forgets what it has looked at

    def task(progress: Callable[[int], None]) -> dict[str, Any]:
        return _answer(store, run_id, query, views)

    for message in sandbox.run([(task, LIMITS)], at_once=1):
        if message.error is not None:
            raise message.error
        if message.result is not None:
            return Answer(message.result["columns"], message.result["rows"])
    raise IngestError("crashed", Message("query_ended_without_answer"))


def _answer(store: Path, run_id: str, query: str, views: Iterable[str]) -> dict[str, Any]:
    con = open_run(store, run_id)
    for view in views:
        con.execute(view)
    try:
        statements = con.extract_statements(query)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise IngestError("not_a_select", Message("only_one_select_is_run"))
        cursor = con.execute(statements[0])
        columns = [column[0] for column in cursor.description or []]
        rows = cursor.fetchmany(MAX_ROWS + 1)
    except duckdb.Error as error:
        raise IngestError("sql", lines(str(error).strip())) from error
    if len(rows) > MAX_ROWS:
        raise IngestError("too_many_rows", Message("more_than_rows_add_limit", {"n": f"{MAX_ROWS:,}"}))
    return {"columns": columns, "rows": [[_plain(cell) for cell in row] for row in rows]}


def _plain(value: Any) -> Any:
    """A value as JSON has it; exact decimals stay text."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else str(value)
    if isinstance(value, datetime.date | datetime.time | datetime.timedelta):
        return str(value)
    return str(value)
