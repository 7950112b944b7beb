"""Which files are a cluster analysis, and which ranks it speaks of."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message
from npulens.ingest.readers.cluster import columns, documents
from npulens.ingest.readers.sqlite import Database, is_sqlite

STEPS, COMMUNICATION, MATRIX, GROUPS = "steps", "communication", "matrix", "groups"
SUMMARY, DATABASE, ANALYSIS = "summary", "database", "analysis"
#: How a file is called -> its role. The order is that of importance: the first one found stands for the analysis.
_ROLES = (
    (re.compile(r"^cluster_step_trace_time\.csv$"), STEPS),
    (re.compile(r"^cluster_analysis\.db$"), DATABASE),
    (re.compile(r"^cluster_time_summary\w*\.csv$"), SUMMARY),
    (re.compile(r"^cluster_communication\.json$"), COMMUNICATION),
    (re.compile(r"^cluster_communication_matrix\.json$"), MATRIX),
    (re.compile(r"^communication_group\.json$"), GROUPS),
    (re.compile(r"^analysis\.db$"), ANALYSIS),
)
#: Ranks that one analysis may speak of.
_MOST_RANKS = 8192


def role(name: str) -> str | None:
    """What a file of this name is; None if it is no part of a cluster analysis."""
    return next((found for pattern, found in _ROLES if pattern.match(name)), None)


def beside(path: Path) -> dict[str, Path]:
    """Role -> file of the analysis that ``path`` belongs to, the most important first."""
    if role(path.name) == ANALYSIS:  # of one rank, and not of the cluster beside it
        return {ANALYSIS: path}
    found: dict[str, Path] = {}
    for other in sorted(path.parent.iterdir()):
        told = role(other.name)
        if told and told != ANALYSIS and other.is_file() and not other.is_symlink():
            found.setdefault(told, other)
    return {told: found[told] for _, told in _ROLES if told in found}


def ranks(found: dict[str, Path]) -> tuple[int, ...]:
    """The ranks an analysis speaks of, read from the first of its files that names any."""
    for told, path in found.items():
        stat = path.stat()
        known = _ranks(told, path, stat.st_mtime_ns, stat.st_size)
        if len(known) > _MOST_RANKS:
            raise IngestError(
                "too_many_ranks", Message("cluster_analysis_more_than_ranks", {"n": _MOST_RANKS}), str(path)
            )
        if known:
            return known
    return ()


@lru_cache(maxsize=64)
def _ranks(told: str, path: Path, _changed_ns: int, _size: int) -> tuple[int, ...]:
    """Kept while the file stays as it is: a walk asks once for every file of the directory."""
    known: set[int] = set()
    try:
        for rank in _named(told, path):
            if rank is not None:
                known.add(rank)
            if len(known) > _MOST_RANKS:
                break
    except (IngestError, OSError):
        pass  # what comes before the damage counts; reading it says what is lost
    return tuple(sorted(known))


def _named(told: str, path: Path) -> Iterator[int | None]:
    """The rank that each row of a file names."""
    if told in (STEPS, SUMMARY):
        yield from (columns.rank_of(row) for row in rows(path))
    elif told == DATABASE and is_sqlite(path):
        with Database(path) as database:
            for _, table in columns.step_tables(database):
                yield from map(columns.rank_of, table)
    elif told == GROUPS:
        yield from (rank for group in documents.groups(path) for rank in group.ranks)
    elif told == COMMUNICATION:
        yield from (operator.rank for operator in documents.operators(path))


def rows(path: Path) -> Iterator[dict[str, str]]:
    """The rows of a CSV file by our names of its columns, as text. Raises IngestError where it is damaged."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        reader = csv.reader(file)
        try:
            header = [columns.ours(cell) for cell in next(reader, [])]
            for cells in reader:
                yield {name: cell for name, cell in zip(header, cells, strict=False) if name}
        except csv.Error as error:
            message = Message("is_damaged_from_line_on", {"file": path.name, "n": reader.line_num, "error": error})
            raise IngestError("damaged", message, str(path)) from error
