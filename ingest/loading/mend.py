"""A whole store looked at: what is damaged, of another version or kept in vain, and what heals it.

A damaged run is made again from its raw capture. One of an earlier release is made again too, or carried over table by
table. Everything is done aside and becomes visible in one step; whoever is killed has changed nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from npulens import ingest
from npulens.ingest import objects
from npulens.ingest.errors import IngestError, no_room
from npulens.ingest.loading import older
from npulens.ingest.messages import Message
from npulens.ingest.store import kept, lod, proof, raw, runs, seal, wal
from npulens.ingest.store.connection import damage, manifest_of
from npulens.ingest.tables import schema

#: What a thing in the store is: as it was stored, changed since, of another version, without sums, or not ours to read.
STATES = ("whole", "damaged", "older", "newer", "unproved", "unreadable")


@dataclass(frozen=True)
class Found:
    """One thing in a store: a run, a deleted run, a raw file, what is remembered of an upload, a database."""

    what: str
    name: str
    state: str
    reason: Message | None = None
    healed: bool | None = None  # None: nothing was tried
    why_not: Message | None = None

    @property
    def is_bad(self) -> bool:
        return self.state in ("damaged", "unreadable") and not self.healed


def look(store: Path) -> Iterator[Found]:
    """Everything in a store, each file read to its end. What comes or goes meanwhile is no finding."""
    for what, place in (("run", store), ("deleted run", store / runs.FOLDER)):
        for entry in sorted(place.iterdir()) if place.is_dir() else ():
            if not entry.name.startswith(".") and entry.is_dir() and (found := _run(store, what, entry)):
                yield found
    for path in raw.damaged(store):
        yield Found("raw", path.name, "damaged", Message("raw_file_is_damaged", {"file": path.name}))
    for path in sorted((store / ".uploads").glob("*.json")):
        with suppress(FileNotFoundError):
            if not _opens(path):
                yield Found("upload", path.name, "damaged", Message("document_is_damaged"))
    for folder, pattern in ((kept.FOLDER, "*.parquet"), (lod.FOLDER, "*.duckdb")):
        for path in sorted((store / folder).glob(pattern)):
            seal.forget(path)
            if not seal.holds(path) and path.exists():
                yield Found("computed", f"{folder}/{path.name}", "damaged", Message("document_is_damaged"))
    for path in sorted(store.glob("*.sqlite")):
        if wrong := _database(path):
            yield Found("database", path.name, "damaged", wrong)


def _run(store: Path, what: str, entry: Path) -> Found | None:
    try:
        said = manifest_of(entry)
        if said.get("run_id") != entry.name:
            reason = Message("run_lies_under_another_name", {"run": said.get("run_id")})
            return Found(what, entry.name, "unreadable", reason)
        if objects.of(store) is None and (wrong := damage(entry, said, again=True)):
            return Found(what, entry.name, "damaged", wrong) if (entry / seal.MANIFEST).exists() else None
        if said["schema_version"] != schema.version():
            known = {"found": said["schema_version"], "known": schema.version()}
            is_old = said["schema_version"] < schema.version()
            key = "run_is_older_migrate" if is_old else "run_is_newer_than_program"
            return Found(what, entry.name, "older" if is_old else "newer", Message(key, known))
    except FileNotFoundError:
        return None
    except PermissionError:
        return Found(what, entry.name, "unreadable", Message("run_may_not_be_read")) if runs.is_id(entry.name) else None
    except IngestError as error:
        return Found(what, entry.name, "damaged", error.message)
    if objects.of(store) is None and not seal.is_sealed(said):
        return Found(what, entry.name, "unproved", Message("run_has_no_sums"))
    return Found(what, entry.name, "whole")


def _opens(path: Path) -> bool:
    """Whether a document is what was written. Those of earlier releases are lists without a seal, and unused."""
    try:
        if path.read_bytes().startswith(b"["):
            return True
        return "entries" in seal.opened(path.read_bytes())
    except seal.Broken:
        return False


def _database(path: Path) -> Message | None:
    try:
        with wal.readable(), closing(wal.connect(path)) as con:
            return proof.wrong(con)
    except sqlite3.Error as error:
        return Message("database_is_damaged", {"error": error})


def heal(store: Path, found: Found) -> Found:
    """What became of a finding after everything was tried."""
    try:
        why_not = _tried(store, found)
    except IngestError as error:
        why_not = error.message
    except (OSError, pa.ArrowException, duckdb.Error) as error:
        full = no_room(error)
        why_not = full.message if full else Message("system_refused", {"error": error})
    return Found(found.what, found.name, found.state, found.reason, why_not is None, why_not)


def _tried(store: Path, found: Found) -> Message | None:
    if found.what == "run" and found.state in ("damaged", "older", "unproved"):
        return remade(store, found.name, found.state)
    if found.what == "raw":
        (store / raw.FOLDER / found.name).unlink(missing_ok=True)
        return None
    if found.what == "upload":
        (store / ".uploads" / found.name).unlink(missing_ok=True)
        return None
    if found.what == "computed":
        (store / found.name).unlink(missing_ok=True)
        return None
    if found.what == "database" and _accepted(store / found.name):
        return None
    return Message("nothing_here_heals_it")


def _accepted(path: Path) -> bool:
    """Whether the rows of a database are taken as they are now."""
    try:
        with wal.readable(), closing(wal.connect(path)) as con:
            return proof.accepted(con)
    except sqlite3.Error:
        return False


def remade(store: Path, run_id: str, state: str) -> Message | None:
    """Make a run again from its raw capture, or from its tables where they are older; why not, if it cannot be."""
    told = raw.captures(store, run_id)
    with runs.staging(store) as scratch:
        if told and (again := _loaded_again(store, run_id, told, scratch)) is not None:
            _settled(store, run_id, again)
        elif state == "older":
            older.migrate(store / run_id, scratch / run_id)
            _settled(store, run_id, scratch / run_id)
        elif state == "unproved":
            _sealed(store, run_id, scratch / run_id)
        else:
            return Message("raw_gives_another_run") if told else Message("no_raw_capture_is_kept")
    return None


def _loaded_again(store: Path, run_id: str, told: list[raw.Capture], scratch: Path) -> Path | None:
    """A run made of its captures in a store of its own; None where they give another one."""
    aside, joined = scratch / "store", None
    for number, capture in enumerate(told):
        tops = raw.unpack(store, capture, scratch / f"raw{number}")
        last = number == len(told) - 1
        report = ingest.load(tops, aside, join=joined, raw=raw.OFF if last else raw.QUOTA)  # the next may read it again
        loaded = [run.run_id for run in report.runs if run.run_id is not None]
        if not loaded:
            return None
        joined = run_id if run_id in loaded else loaded[-1]
    return aside / run_id if (aside / run_id).is_dir() else None


def _settled(store: Path, run_id: str, staged: Path) -> None:
    """Put a run in the place of the one that is there; it keeps the time of its first load."""
    at = raw.loaded_at(store, run_id)
    with suppress(IngestError, OSError):  # of a damaged manifest nothing is taken
        at = str(manifest_of(store / run_id).get("loaded_at", at))
    if at is not None:
        seal.close(staged, manifest_of(staged) | {"loaded_at": at})
    runs.commit(store, staged, run_id)


def _sealed(store: Path, run_id: str, staged: Path) -> None:
    """Give a run of this version its sums, once all of it could be read."""
    staged.mkdir()
    for name in schema.tables():
        pq.read_table(store / run_id / f"{name}.parquet")
        (staged / f"{name}.parquet").write_bytes((store / run_id / f"{name}.parquet").read_bytes())
    seal.close(staged, manifest_of(store / run_id))
    runs.commit(store, staged, run_id, instead=True)


def migrate(store: Path, said: Callable[[Found], None]) -> list[Found]:
    """Bring every run of an earlier release to this version; newer ones stay as they are."""
    done = []
    for entry in sorted(store.iterdir()) if store.is_dir() else ():
        if not entry.name.startswith(".") and entry.is_dir():
            found = _run(store, "run", entry)
            if found is not None and found.state in ("older", "unproved", "newer"):
                done.append(found if found.state == "newer" else heal(store, found))
                said(done[-1])
    return done
