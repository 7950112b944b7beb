"""What was measured, night after night: one number a metric and a run, with the conditions it was measured under.

STORE/history.sqlite outlives the captures that its numbers come from: a deleted run leaves its points. Every process
over a store reads and writes it (WAL, short transactions). It is a file of its own, so that one that is damaged takes
neither labels nor notes with it.

An identity says what may be compared at all. That is the same workload, configured the same, on the same shapes, the
same hardware and the same class of host. Everything else that may explain a change is a covariate of a point.
"""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Literal

from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message, joined, spoken, stored
from npulens.ingest.store import wal
from npulens.ingest.store.notes import line

NAME = "history.sqlite"
#: Version of the tables below, kept in the file's own header.
VERSION = 3
#: Longer names and texts are cut: they come from captures and manifests of anybody.
MOST_TEXT, MOST_ANNOTATION = 200, 2_000
#: The log-ratio of two equal sides of one night is kept beside its metric, under the metric's name with this end.
AA = "~aa"

_TABLES = (
    "CREATE TABLE IF NOT EXISTS identity(key TEXT PRIMARY KEY, workload TEXT NOT NULL, configuration TEXT NOT NULL, "
    "shapes TEXT NOT NULL, hardware TEXT NOT NULL, host TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS conditions(id INTEGER PRIMARY KEY, said TEXT NOT NULL UNIQUE)",
    "CREATE TABLE IF NOT EXISTS point(identity TEXT NOT NULL, metric TEXT NOT NULL, source TEXT NOT NULL, "
    "at_ns INTEGER NOT NULL, value REAL NOT NULL, unit TEXT NOT NULL, better TEXT NOT NULL, night TEXT, run_id TEXT, "
    "usable INTEGER NOT NULL, reason TEXT, conditions INTEGER NOT NULL, PRIMARY KEY(identity, metric, source)) "
    "WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS reason(text TEXT PRIMARY KEY, said TEXT NOT NULL) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS point_run ON point(run_id)",
    "CREATE TABLE IF NOT EXISTS annotation(id INTEGER PRIMARY KEY, identity TEXT NOT NULL, metric TEXT, "
    "at_ns INTEGER NOT NULL, text TEXT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS annotation_of ON annotation(identity)",
    "CREATE TABLE IF NOT EXISTS followed(run_id TEXT PRIMARY KEY) WITHOUT ROWID",
)


def _short(text: str) -> str:
    return line(text)[:MOST_TEXT].strip()


@dataclass(frozen=True)
class Identity:
    """What may be compared with each other; an empty text is "not known"."""

    workload: str
    configuration: str = ""
    shapes: str = ""
    hardware: str = ""
    host: str = ""

    @property
    def key(self) -> str:
        """The same for equal identities, today and tomorrow."""
        return hashlib.sha256(json.dumps(self.texts).encode()).hexdigest()[:16]

    @property
    def texts(self) -> list[str]:
        """Its texts as they are kept, on one line and of a readable length."""
        return [_short(text) for text in asdict(self).values()]


@dataclass(frozen=True)
class Point:
    """One number of one run or benchmark."""

    identity: str
    metric: str
    unit: str
    better: Literal["lower", "higher"]
    value: float
    at_ns: int  # since 1970
    night: str | None = None
    run_id: str | None = None
    usable: bool = True  # False: shown, and never part of a baseline
    covariates: Mapping[str, str] = field(default_factory=dict)
    reason: str | None = None  # why it is not usable: a message, or what somebody said

    @property
    def source(self) -> str:
        """What the number came from; the same source measured again replaces it."""
        return self.run_id or f"{self.night or ''}@{self.at_ns}"


@dataclass(frozen=True)
class Annotation:
    """What somebody said about a moment of a series, or of all series of an identity (metric None)."""

    id: int
    identity: str
    metric: str | None
    at_ns: int
    text: str


@contextmanager
def opened(store: Path, proved: bool = True) -> Iterator[sqlite3.Connection]:
    """The history of a store, in one transaction. ``proved``: what is read of it has to be what was written."""
    path = store / NAME
    try:
        store.parent.mkdir(parents=True, exist_ok=True)
        store.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise IngestError("store", Message("cannot_make_store", {"error": error.strerror}), str(store)) from error
    try:
        with wal.transaction(path, _TABLES, VERSION, proved) as con:
            con.execute("PRAGMA synchronous=NORMAL")
            yield con
    except sqlite3.Error as error:
        text = Message("cannot_read_or_write_history", {"error": error})
        if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
            text = joined([text, Message("move_the_history_away")])
        raise IngestError("history", text, str(path)) from error


def add(store: Path, identity: Identity, points: Iterable[Point]) -> int:
    """Keep points under an identity; a source that is measured again replaces what it said. How many were kept."""
    checked = [_checked(point, identity.key) for point in points]
    with opened(store, proved=False) as con:
        con.execute("BEGIN IMMEDIATE")
        _write(con, identity, checked)
    return len(checked)


def replace_run(store: Path, run_id: str, identity: Identity, points: Iterable[Point]) -> None:
    """Everything that the history says of a run, in place of what it said; the run counts as followed."""
    checked = [_checked(point, identity.key) for point in points]
    with opened(store, proved=False) as con:
        con.execute("BEGIN IMMEDIATE")
        con.execute("DELETE FROM point WHERE run_id = ?", [run_id])
        if checked:
            _write(con, identity, checked)
        con.execute("INSERT OR IGNORE INTO followed VALUES (?)", [run_id])


def _write(con: sqlite3.Connection, identity: Identity, points: list[Point]) -> None:
    con.execute("INSERT OR IGNORE INTO identity VALUES (?, ?, ?, ?, ?, ?)", [identity.key, *identity.texts])
    held: dict[str, int] = {}
    for point in points:
        if isinstance(point.reason, Message):
            values = [_short(point.reason), stored(point.reason)]
            con.execute("INSERT OR REPLACE INTO reason VALUES (?, ?)", values)
        said = json.dumps(dict(sorted(point.covariates.items())), ensure_ascii=False)
        if said not in held:
            con.execute("INSERT OR IGNORE INTO conditions(said) VALUES (?)", [said])
            held[said] = con.execute("SELECT id FROM conditions WHERE said = ?", [said]).fetchone()[0]
        con.execute(
            "INSERT OR REPLACE INTO point VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [identity.key, point.metric, point.source, point.at_ns, point.value, point.unit, point.better,
             point.night, point.run_id, point.usable, point.reason and _short(point.reason), held[said]],
        )  # fmt: skip


def _checked(point: Point, key: str) -> Point:
    """A point that can be kept, its texts on one line and of a readable length; refused if it is no measurement."""
    name = line(point.metric)
    if point.identity not in ("", key):
        raise IngestError(
            "history_point", Message("point_belongs_to_identity", {"name": name, "one": point.identity, "other": key})
        )
    if isinstance(point.value, bool) or not math.isfinite(point.value) or not name:
        raise IngestError("history_point", Message("is_not_a_measurement", {"name": name or "?", "value": point.value}))
    if point.better not in ("lower", "higher") or not -(1 << 63) <= point.at_ns < 1 << 63:
        raise IngestError(
            "history_point", Message("point_cannot_be_kept", {"name": name, "better": point.better, "at": point.at_ns})
        )
    covariates = {_short(name): _short(value) for name, value in point.covariates.items()}
    return Point(
        key, _short(name), _short(point.unit), point.better, float(point.value), point.at_ns,
        None if point.night is None else _short(point.night), point.run_id, point.usable, covariates, point.reason,
    )  # fmt: skip


def identities(store: Path) -> list[Identity]:
    """Everything that has a history, by name."""
    if not (store / NAME).is_file():
        return []
    with opened(store) as con:
        rows = con.execute(f"SELECT {', '.join(each.name for each in fields(Identity))} FROM identity").fetchall()
    return sorted((Identity(*row) for row in rows), key=lambda each: tuple(asdict(each).values()))


def keyed(store: Path) -> dict[str, Identity]:
    """The same by key."""
    return {each.key: each for each in identities(store)}


def metrics(store: Path, identity_key: str) -> list[str]:
    """What was measured under an identity; comparisons of equal sides (`equal_sides`) are not in it."""
    if not (store / NAME).is_file():
        return []
    with opened(store) as con:
        rows = con.execute("SELECT DISTINCT metric FROM point WHERE identity = ? ORDER BY metric", [identity_key])
        return [name for (name,) in rows if not name.endswith(AA)]


def series(store: Path, identity_key: str, metric: str) -> list[Point]:
    """Every point of one metric, the oldest first."""
    return everything(store, identity_key, metric).get((identity_key, metric), [])


def identity_of(store: Path, run_id: str) -> str | None:
    """Under which identity a run was followed; None where the history does not know it."""
    if not (store / NAME).is_file():
        return None
    with opened(store) as con:
        row = con.execute("SELECT identity FROM point WHERE run_id = ? LIMIT 1", [run_id]).fetchone()
    return None if row is None else str(row[0])


def identity_by_run(store: Path) -> dict[str, Identity]:
    """Under which identity each run was followed."""
    if not (store / NAME).is_file():
        return {}
    known = keyed(store)
    with opened(store) as con:
        rows = con.execute("SELECT DISTINCT run_id, identity FROM point WHERE run_id IS NOT NULL").fetchall()
    return {run_id: known[key] for run_id, key in rows if key in known}


def equal_sides(store: Path, identity_key: str, metric: str) -> list[float]:
    """The log-ratios of base against base that the nights measured for a metric: its noise, by experiment."""
    return [point.value for point in series(store, identity_key, metric + AA) if point.usable]


def everything(
    store: Path, identity_key: str | None = None, metric: str | None = None
) -> dict[tuple[str, str], list[Point]]:
    """Every series, or those of an identity, or one, by identity and metric; the oldest point first."""
    if not (store / NAME).is_file():
        return {}
    asked = [(name, value) for name, value in (("identity", identity_key), ("metric", metric)) if value is not None]
    where = "WHERE " + " AND ".join(f"{name} = ?" for name, _ in asked) if asked else ""
    found: dict[tuple[str, str], list[Point]] = {}
    with opened(store) as con:
        said = {number: json.loads(text) for number, text in con.execute("SELECT id, said FROM conditions")}
        rows = con.execute(
            "SELECT identity, metric, unit, better, value, at_ns, night, run_id, usable, conditions, reason "
            f"FROM point {where} ORDER BY identity, metric, at_ns, source",
            [value for _, value in asked],
        )
        reasons = _reasons(con)
        for key, name, unit, better, value, at_ns, night, run_id, usable, conditions, reason in rows:
            found.setdefault((key, name), []).append(Point(
                key, name, unit, better, value, at_ns, night, run_id, bool(usable), said[conditions],
                reasons.get(reason, reason),
            ))  # fmt: skip
    return found


def _reasons(con: sqlite3.Connection) -> dict[str, str]:
    """The messages behind texts of reasons, which are cut; a file of an earlier release, only read, has none."""
    if not con.execute("SELECT 1 FROM sqlite_master WHERE name = 'reason'").fetchone():
        return {}
    found: dict[str, str] = {}
    for text, said in con.execute("SELECT text, said FROM reason"):
        whole = spoken(said)
        if whole is not None and _short(whole) == text:
            found[text] = whole
    return found


def set_usable(store: Path, identity_key: str, source: str, usable: bool, reason: str | None = None) -> None:
    """Take every point of one source out of the baselines, or put it back."""
    with opened(store, proved=False) as con:
        con.execute(
            "UPDATE point SET usable = ?, reason = ? WHERE identity = ? AND source = ?",
            [usable, None if usable or reason is None else _short(reason), identity_key, source],
        )


def annotate(
    store: Path, identity_key: str, metric: str | None, at_ns: int, text: str, number: int | None = None
) -> None:
    """Say something about a moment; with the number of an annotation, replace it; an empty text removes it."""
    text = line(text)[:MOST_ANNOTATION]
    with opened(store, proved=False) as con:
        con.execute("BEGIN IMMEDIATE")
        if number is not None:
            con.execute("DELETE FROM annotation WHERE id = ?", [number])
        if text:
            con.execute("INSERT INTO annotation VALUES (?, ?, ?, ?, ?)", [number, identity_key, metric, at_ns, text])


def annotated(store: Path, identity_key: str) -> list[Annotation]:
    """What was said about an identity, the oldest moment first."""
    if not (store / NAME).is_file():
        return []
    with opened(store) as con:
        rows = con.execute(
            "SELECT id, identity, metric, at_ns, text FROM annotation WHERE identity = ? ORDER BY at_ns, id",
            [identity_key],
        ).fetchall()
    return [Annotation(*row) for row in rows]


def followed(store: Path) -> set[str]:
    """The runs whose numbers are in the history."""
    if not (store / NAME).is_file():
        return set()
    with opened(store) as con:
        return {run_id for (run_id,) in con.execute("SELECT run_id FROM followed")}


def having(store: Path, metric: str) -> set[str]:
    """The runs of which a metric is kept."""
    if not (store / NAME).is_file():
        return set()
    with opened(store) as con:
        rows = con.execute("SELECT DISTINCT run_id FROM point WHERE metric = ? AND run_id IS NOT NULL", [metric])
        return {run_id for (run_id,) in rows}


def stamp(store: Path) -> int:
    """Changes whenever the history does, as far as a clock of nanoseconds can tell."""
    found = [path.stat().st_mtime_ns for path in (store / NAME, store / f"{NAME}-wal") if path.is_file()]
    return max(found, default=0)
