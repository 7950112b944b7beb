"""CSV files of the Ascend tools, of any version, as raw tables of text, and SQL that reads their cells exactly.

Cells keep their text until SQL turns them into whole nanoseconds and bytes through DECIMAL: a stamp never
passes through a float. Columns are found by name, in any order, under every name a version gave them.
"""

from __future__ import annotations

import codecs
import csv
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message
from npulens.ingest.tables.draft import Draft, Spool
from npulens.ingest.tables.sqltext import literal, quoted

#: Bytes parsed at once; also the longest row the fast path can hold.
_BLOCK = 4 << 20
#: Rows the slow path holds before it writes them.
_ROWS = 10_000
#: Columns and bytes of a header that are read. A step of MindSpore has three columns for each of its collectives.
_MAX_COLUMNS, _MAX_HEADER = 8_000, 1 << 20
#: Cells that say nothing.
_NOTHING = ("", "N/A")

UNITS = {"B": 1, "Byte": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}

_MACROS = (
    "CREATE MACRO said(cell) AS nullif(trim(cell, E' \\t\\r\\n'), '')",
    "CREATE MACRO exact(cell) AS try_cast(cell AS DECIMAL(38, 15))",
    "CREATE MACRO scaled(cell, factor) AS "
    "try_cast(round_even(TRY(exact(cell) * CAST(factor AS DECIMAL(15, 0))), 0) AS BIGINT)",
    "CREATE MACRO whole(cell) AS nullif(try_cast(cell AS BIGINT), 4294967295)",
    "CREATE MACRO finite(number) AS CASE WHEN isfinite(number) THEN number END",
    "CREATE MACRO approx(cell) AS finite(try_cast(cell AS DOUBLE))",
)


def macros(draft: Draft) -> None:
    """Teach a draft to read cells: said (text or NULL), scaled (exact whole number), whole, approx."""
    for macro in _MACROS:
        draft.make(macro)


@dataclass
class Csv:
    """A file read into the view ``name``: its columns are the cells, ``row`` is the number of the row."""

    path: Path
    name: str
    columns: tuple[str, ...]
    rows: int = 0
    padded: int = 0  # rows with fewer or more cells than the header, kept
    damage: Message | None = None
    _known: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for column in self.columns:
            self._known.setdefault(_key(column), column)

    def has(self, *names: str) -> bool:
        return any(_key(name) in self._known for name in names)

    def column(self, *names: str) -> str | None:
        """The column under the first of these names; None if the file has none of them."""
        return next((found for name in names if (found := self._known.get(_key(name)))), None)

    def cell(self, *names: str) -> str:
        """The same as SQL; NULL if the file has none of them."""
        found = self.column(*names)
        return "NULL::VARCHAR" if found is None else quoted(found)

    def said(self, *names: str) -> str:
        """Its text, NULL where it is blank or N/A."""
        return f"said({self.cell(*names)})"

    def whole(self, *names: str) -> str:
        """Its whole number, NULL where it is the tools' word for none."""
        return f"whole({self.cell(*names)})"

    def ns(self, *names: str) -> str:
        """Its microseconds as exact nanoseconds."""
        return f"scaled({self.cell(*names)}, 1000)"

    def bytes(self, name: str) -> str:
        """Its size as exact bytes; the unit is in the header and changes between versions."""
        for unit, factor in UNITS.items():
            if self.has(f"{name}({unit})"):
                return f"scaled({self.cell(f'{name}({unit})')}, {factor})"
        return "NULL::BIGINT"

    def others(self, *names: str) -> tuple[str, ...]:
        """The columns that are none of these."""
        taken = {_key(name) for name in names}
        return tuple(column for column in self.columns if _key(column) not in taken)

    def rest(self, columns: Sequence[str]) -> str:
        """These columns of a row as one JSON object, verbatim; NULL if there is none."""
        if not columns:
            return "NULL::VARCHAR"
        return "json_object(" + ", ".join(f"{literal(name)}, {self.cell(name)}" for name in columns) + ")::VARCHAR"


def read_csv(path: Path, draft: Draft, name: str) -> Csv | None:
    """Read a file into the view ``name``; None if it does not even hold a header."""
    try:
        header, left = _header(path)
        if not header:
            return None
        if left:
            draft.note("span", Message("columns_are_not_read", {"file": path.name, "n": left}))
        found = Csv(path, name, header)
        try:
            with draft.spool(name, _schema(header)) as spool:
                _fast(found, _as_utf8(path, draft), spool)
        except pa.ArrowInvalid:
            found = Csv(path, name, header)
            with draft.spool(name, _schema(header)) as spool:
                _slow(found, spool)
        draft.advance(path.stat().st_size)
    except OSError as error:
        raise IngestError(
            "unreadable", Message("file_cannot_be_read", {"file": path.name, "error": error.strerror}), str(path)
        ) from error
    return found


def _key(name: str) -> str:
    return re.sub(r"\s+", " ", name).strip().lower()


def _schema(header: Sequence[str]) -> pa.Schema:
    return pa.schema([("row", pa.int64()), *((column, pa.string()) for column in header)])


def _header(path: Path) -> tuple[tuple[str, ...], int]:
    """Column names, trimmed, and how many more there are.

    A name met twice, in whatever case, gets a number so that no cell hides another. A NUL is a space: the store ends
    a name at it.
    """
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        line = file.readline(_MAX_HEADER)
    cells = [re.sub(r"[\s\0]+", " ", cell).strip() for cell in next(csv.reader([line]), [])]
    names: dict[str, str] = {"row": ""}
    for at, cell in enumerate(cells[:_MAX_COLUMNS]):
        wanted = cell or f"column {at + 1}"
        while _key(wanted) in names:
            wanted += f" #{at + 1}"
        names[_key(wanted)] = wanted
    del names["row"]
    return (tuple(names.values()) if any(cells) else ()), max(0, len(cells) - _MAX_COLUMNS)


def _as_utf8(path: Path, draft: Draft) -> Path:
    """The file, or a copy in which what is not UTF-8 shows U+FFFD: the fast path skips odd rows it cannot decode."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with path.open("rb") as file:
            for block in iter(lambda: file.read(_BLOCK), b""):
                decoder.decode(block)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        with path.open(encoding="utf-8", errors="replace", newline="") as old:
            copy = draft.dir / "utf8.csv"
            with copy.open("w", encoding="utf-8", newline="") as new:
                shutil.copyfileobj(old, new, _BLOCK)
        return copy
    return path


def _fast(found: Csv, path: Path, spool: Spool) -> None:
    """Parse in C++; rows of another width come back as text and are fitted at the end."""
    odd: list[str] = []

    def keep(row: pacsv.InvalidRow) -> str:
        odd.append(row.text)
        return "skip"

    complete = _end(path, 1) in (b"\n", b"\r")
    for batch in _open(found, path, keep):
        rows = pa.array(np.arange(found.rows, found.rows + batch.num_rows))
        cells = [column.cast(pa.string()) for column in batch.columns]
        spool.write(pa.RecordBatch.from_arrays([rows, *cells], schema=_schema(found.columns)))
        found.rows += batch.num_rows
    if odd and not complete and _end(path, len(odd[-1].encode())) == odd[-1].encode():
        odd.pop()
        found.damage = Message("is_cut_off_in_its", {"file": found.path.name})
    elif _quotes(path) % 2:
        found.damage = Message("opens_quote_that_it_never", {"file": found.path.name})
    fitted = [_fit(next(csv.reader([text]), []), found) for text in odd if text.strip()]
    _write(fitted, found, spool)


def _open(found: Csv, path: Path, keep: object) -> Iterator[pa.RecordBatch]:
    try:
        with path.open("rb") as file:  # Arrow takes no path whose bytes are not UTF-8
            yield from pacsv.open_csv(
                file,
                read_options=pacsv.ReadOptions(
                    use_threads=False, block_size=_BLOCK, column_names=list(found.columns), skip_rows=1
                ),
                parse_options=pacsv.ParseOptions(newlines_in_values=True, invalid_row_handler=keep),
                convert_options=pacsv.ConvertOptions(
                    column_types={column: pa.binary() for column in found.columns},
                    null_values=list(_NOTHING),
                    strings_can_be_null=True,
                ),
            )
    except pa.ArrowInvalid:
        if _rows_follow(path):
            raise


def _slow(found: Csv, spool: Spool) -> None:
    """Parse a damaged file row by row and keep what can be kept."""
    rows: list[list[str]] = []
    with found.path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        reader = csv.reader(file)
        try:
            for number, cells in enumerate(reader):
                if number and cells:
                    rows.append(_fit(cells, found))
                if len(rows) >= _ROWS:
                    _write(rows, found, spool)
                    rows = []
            found.damage = Message("is_damaged_its_rows_were", {"file": found.path.name})
        except csv.Error as error:
            found.damage = Message(
                "is_damaged_from_row_on", {"file": found.path.name, "row": found.rows + len(rows) + 1, "error": error}
            )
    _write(rows, found, spool)


def _fit(cells: Sequence[str], found: Csv) -> list[str]:
    """A row as wide as the header: what is missing is blank, what is too much is lost."""
    width = len(found.columns)
    found.padded += len(cells) != width
    return [*cells[:width], *[""] * (width - len(cells))]


def _write(rows: Sequence[Sequence[str]], found: Csv, spool: Spool) -> None:
    if not rows:
        return
    numbers = pa.array(range(found.rows, found.rows + len(rows)), pa.int64())
    cells = ([None if row[at] in _NOTHING else row[at] for row in rows] for at in range(len(found.columns)))
    columns = [pa.array(column, pa.string()) for column in cells]
    spool.write(pa.RecordBatch.from_arrays([numbers, *columns], schema=_schema(found.columns)))
    found.rows += len(rows)


def _end(path: Path, size: int) -> bytes:
    """The last bytes of a file."""
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, 2) - size))
        return file.read(size)


def _rows_follow(path: Path) -> bool:
    """Whether there is anything behind the header."""
    with path.open("rb") as file:
        file.readline()
        return bool(file.read(_BLOCK).strip())


def _quotes(path: Path) -> int:
    with path.open("rb") as file:
        return sum(block.count(b'"') for block in iter(lambda: file.read(_BLOCK), b""))
