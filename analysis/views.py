"""The views of analysis/sql: what happened, as SQL that anyone can ask.

One file holds one view of the same name. Comments say what it shows and what it needs. One CREATE OR REPLACE VIEW
follows, with a comment for every column. docs/views.md is made from these comments. Making the views computes nothing;
only asking one does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import duckdb

SQL = Path(__file__).parent / "sql"
_FILE = re.compile(
    r"(?P<head>(?:--.*\n)+)CREATE OR REPLACE VIEW (?P<name>\w+) \(\n(?P<columns>(?: .*\n)+)\) AS\n[\s\S]+;\s*"
)
_COLUMN = re.compile(r"    (?P<name>\w+),? +-- (?P<means>.+)")


@dataclass(frozen=True)
class Column:
    name: str
    means: str


@dataclass(frozen=True)
class View:
    """One file of analysis/sql."""

    name: str
    comment: str
    needs: tuple[str, ...]  # the views it is built on
    columns: tuple[Column, ...]
    sql: str


def parsed(name: str, text: str) -> View:
    """A file's view; what is not written in the one way they are all written is an error that says where."""
    found = _FILE.fullmatch(text)
    if not found or found["name"] != name:
        raise ValueError(f"{name}.sql: a comment, then CREATE OR REPLACE VIEW {name} with a list of columns")
    columns = []
    for line in found["columns"].splitlines():
        if not (column := _COLUMN.fullmatch(line)):
            raise ValueError(f"{name}.sql: a column and its comment, not {line.strip()!r}")
        columns.append(Column(column["name"], column["means"]))
    head = [line[2:].strip() for line in found["head"].splitlines()]
    needs = [line.removeprefix("Needs:") for line in head if line.startswith("Needs:")]
    comment = " ".join(line for line in head if not line.startswith("Needs:"))
    return View(name, comment, tuple(re.findall(r"\w+", " ".join(needs))), tuple(columns), text)


def there(con: duckdb.DuckDBPyConnection) -> set[str]:
    """What a connection can be asked: tables and views by name."""
    rows = con.execute(
        "SELECT view_name FROM duckdb_views() WHERE NOT internal UNION ALL SELECT table_name FROM duckdb_tables()"
    ).fetchall()
    return {name for (name,) in rows}


@cache
def views() -> tuple[View, ...]:
    """Every view, each after those it needs."""
    known = {path.stem: parsed(path.stem, path.read_text("utf-8")) for path in sorted(SQL.glob("*.sql"))}
    order = TopologicalSorter({name: view.needs for name, view in known.items()}).static_order()
    return tuple(known[name] for name in order)


def install(con: duckdb.DuckDBPyConnection, only: Iterable[str] | None = None) -> None:
    """Make every view on a connection that has the run's tables; doing it again does nothing.

    `only`: these, and what they are built on. Making one costs as much as asking a small table.
    """
    there = {name for (name,) in con.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()}
    wanted = None if only is None else set(only)
    for view in reversed(views()):
        if wanted is not None and view.name in wanted:
            wanted |= set(view.needs)
    for view in views():
        if view.name not in there and (wanted is None or view.name in wanted):
            con.execute(view.sql)


#: What a check asks most, and a run with how many spans counts as small.
_ASKED_MOST = ("span", "kernel", "comm", "link", "rank", "coverage", "step", "track")
_SMALL = 100_000


def hold_small(con: duckdb.DuckDBPyConnection) -> None:
    """Copies the tables that are asked most into the connection's memory, if the run is small.

    A statement over files opens each of them again, which takes longer than reading a small one.
    """
    ((spans,),) = con.execute("SELECT coalesce(sum(rows), 0) FROM coverage WHERE table_name = 'span'").fetchall()
    for table in _ASKED_MOST if spans <= _SMALL else ():
        con.execute(f"CREATE TEMP TABLE {table} AS FROM main.{table}")


def statements() -> tuple[str, ...]:
    """What makes the views and says in the database itself what they and their columns mean."""
    return tuple(each for view in views() for each in (view.sql, *_comments(view)))


def _comments(view: View) -> Iterator[str]:
    yield f"COMMENT ON VIEW {view.name} IS {_literal(view.comment)}"
    for column in view.columns:
        yield f"COMMENT ON COLUMN {view.name}.{column.name} IS {_literal(column.means)}"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
