"""Documentation out of what is packaged: schema.sql, the views' files, the detectors' docstrings. docs/ is not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

from npulens.analysis.views import views
from npulens.app.text.written import meaning
from npulens.ingest.tables import schema

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Column:
    """A documented column."""

    table: str
    name: str
    type: str
    means: str


@dataclass(frozen=True)
class Relation:
    """A documented table or view."""

    name: str
    kind: str  # 'table' or 'view'
    means: str
    columns: tuple[Column, ...]


@cache
def relations() -> tuple[Relation, ...]:
    """Every view by name, then every table in the order of the contract. Types of views are the database's word."""
    seen = tuple(
        Relation(view.name, "view", view.comment,
                 tuple(Column(view.name, column.name, "", column.means) for column in view.columns))
        for view in sorted(views(), key=lambda view: view.name)
    )  # fmt: skip
    held = tuple(
        Relation(table.name, "table", table.comment,
                 tuple(Column(table.name, column.name, column.type, column.comment) for column in table.columns))
        for table in schema.tables().values()
    )  # fmt: skip
    return seen + held


def columns(wanted: str, within: str | None, types: Mapping[tuple[str, str], str], lang: str = "en") -> list[Column]:
    """The columns whose name, meaning or relation holds every word of ``wanted``, in English or in the language."""
    words = wanted.lower().split()
    found = []
    for relation in relations():
        if within is not None and relation.name != within:
            continue
        for column in relation.columns:
            means = meaning(column.means, lang)
            said = (column.table, column.name, column.means, relation.means, means, meaning(relation.means, lang))
            text = " ".join(said).lower()
            if all(word in text for word in words):
                kind = column.type or types.get((column.table, column.name), "")
                found.append(Column(column.table, column.name, kind, means))
    return found


#: The title of the page that `python -m tests.score --write` writes; another file of that name is not ours.
_ACCURACY_HEAD = "# Accuracy\n\nWritten by `python -m tests.score --write`"


def version() -> str:
    """Of the installed distribution; a bare checkout has none."""
    try:
        return metadata.version("npulens")
    except metadata.PackageNotFoundError:
        return "(checkout)"


@dataclass(frozen=True)
class Accuracy:
    """How a detector's cause was found in captures with planted faults."""

    cases: str
    recall: str
    precision: str
    saving_error: str


def accuracy(cause: str, page: Path = ROOT / "docs" / "accuracy.md") -> Accuracy | None:
    """The row of a cause in the accuracy page; None where the page is not here, as in an installed package."""
    if not page.is_file():
        return None
    text = page.read_text("utf-8")
    rows = text.partition("## By cause")[2].splitlines() if text.startswith(_ACCURACY_HEAD) else []
    for line in rows:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 7 and cells[0] == f"`{cause}`":
            return Accuracy(cells[1], cells[2], cells[3], cells[5])
    return None
