"""What people say about runs and findings: labels, notes, tags and states, in one small SQLite file.

Runs never change; this does. Every process over a store reads and writes it (WAL, short transactions). Nothing of it
is derived from a capture but the name a new run starts with.
"""

from __future__ import annotations

import sqlite3
import time
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message
from npulens.ingest.store import wal

#: How long a text may be. A note is a page, not a report; a tag is a word.
MOST_LABEL, MOST_NOTE, MOST_TAG, MOST_TAGS = 200, 10_000, 40, 20

#: Version of the tables below, kept in the file's own header.
VERSION = 1
_TABLES = (
    "CREATE TABLE IF NOT EXISTS label(run_id TEXT PRIMARY KEY, label TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS note(run_id TEXT PRIMARY KEY, note TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS tag(run_id TEXT NOT NULL, tag TEXT NOT NULL, PRIMARY KEY(run_id, tag))",
    "CREATE TABLE IF NOT EXISTS remark(workload TEXT NOT NULL, finding TEXT NOT NULL, state TEXT NOT NULL, "
    "owner TEXT NOT NULL, note TEXT NOT NULL, PRIMARY KEY(workload, finding))",
    "CREATE TABLE IF NOT EXISTS watched(path TEXT PRIMARY KEY, seen TEXT NOT NULL, outcome TEXT NOT NULL, at REAL)",
)


@dataclass(frozen=True)
class About:
    """Note and tags of one run."""

    note: str = ""
    tags: tuple[str, ...] = ()


#: What may become of a finding.
STATES = ("open", "done", "ignored")


@dataclass(frozen=True)
class Remark:
    """What somebody says about a finding. It belongs to the workload, so the next run of it has it too."""

    state: str = "open"
    owner: str = ""
    note: str = ""


def _clean(text: str) -> str:
    """Text without what acts on a terminal, turns the text around or cannot be stored; lines stay lines."""
    kept = (char for char in text.replace("\r\n", "\n").replace("\t", " ") if char not in "\u2028\u2029")
    return "".join(
        char for char in kept if char in "\n\u200c\u200d" or unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Co")
    )


def line(text: str) -> str:
    """The same on one line."""
    return " ".join(_clean(text).split())


@contextmanager
def state(store: Path) -> Iterator[sqlite3.Connection]:
    """The state of a store, in one transaction."""
    try:
        store.parent.mkdir(parents=True, exist_ok=True)
        store.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise IngestError("store", Message("cannot_make_store", {"error": error.strerror}), str(store)) from error
    try:
        with wal.transaction(store / "state.sqlite", _TABLES, VERSION) as con:
            yield con
    except sqlite3.Error as error:
        raise IngestError("store", Message("cannot_read_or_write_labels", {"error": error}), str(store)) from error


def labels(store: Path) -> dict[str, str]:
    """The name of every run that has one."""
    if not (store / "state.sqlite").is_file():
        return {}
    with state(store) as con:
        return dict(con.execute("SELECT run_id, label FROM label").fetchall())


def set_label(store: Path, run_id: str, label: str) -> None:
    """Call a run by a name, or by none; a name belongs to one run, the last that got it."""
    label = line(label)
    with state(store) as con:
        con.execute("DELETE FROM label WHERE label = ? OR run_id = ?", [label, run_id])
        if label:
            con.execute("INSERT INTO label VALUES (?, ?)", [run_id, label])


def rename(store: Path, run_id: str, label: str) -> None:
    """`set_label` for a person's hand: a name that another run has is refused, not taken from it."""
    label = line(label)
    if len(label) > MOST_LABEL:
        raise IngestError(
            "label_long", Message("label_may_have_characters_this", {"most": MOST_LABEL, "n": len(label)})
        )
    with state(store) as con:
        con.execute("BEGIN IMMEDIATE")
        held = con.execute("SELECT run_id FROM label WHERE label = ? AND run_id <> ?", [label, run_id]).fetchone()
        if label and held:
            raise IngestError(
                "label_taken", Message("run_is_called_already_give", {"run": held[0], "label": f"{label!r}"})
            )
        con.execute("DELETE FROM label WHERE run_id = ?", [run_id])
        if label:
            con.execute("INSERT INTO label VALUES (?, ?)", [run_id, label])


def name_new(store: Path, run_ids: Iterable[str], name: str) -> None:
    """Name runs that have no name after what they came from: name, name (2), name (3)."""
    name = line(name)[:MOST_LABEL]
    with state(store) as con:
        con.execute("BEGIN IMMEDIATE")
        held: dict[str, str] = dict(con.execute("SELECT run_id, label FROM label").fetchall())
        for run_id in run_ids:
            if run_id in held or not name:
                continue
            free = chain([name], (f"{name} ({i})" for i in count(2)))
            held[run_id] = next(label for label in free if label not in held.values())
            con.execute("INSERT INTO label VALUES (?, ?)", [run_id, held[run_id]])


def about(store: Path) -> Mapping[str, About]:
    """Note and tags of every run that has some."""
    if not (store / "state.sqlite").is_file():
        return {}
    with state(store) as con:
        noted = dict(con.execute("SELECT run_id, note FROM note").fetchall())
        tagged = con.execute("SELECT run_id, tag FROM tag ORDER BY tag").fetchall()
    tags: dict[str, list[str]] = {}
    for run_id, tag in tagged:
        tags.setdefault(run_id, []).append(tag)
    return {run_id: About(noted.get(run_id, ""), tuple(tags.get(run_id, ()))) for run_id in {*noted, *tags}}


def set_note(store: Path, run_id: str, note: str) -> None:
    """Replace the note of a run; an empty one removes it."""
    note = _clean(note).strip()
    if len(note) > MOST_NOTE:
        raise IngestError(
            "note_long", Message("note_may_have_characters_this", {"most": f"{MOST_NOTE:,}", "n": f"{len(note):,}"})
        )
    with state(store) as con:
        con.execute("DELETE FROM note WHERE run_id = ?", [run_id])
        if note:
            con.execute("INSERT INTO note VALUES (?, ?)", [run_id, note])


def set_tags(store: Path, run_id: str, tags: Iterable[str]) -> None:
    """Replace the tags of a run."""
    wanted = {line(tag) for tag in tags} - {""}
    if len(wanted) > MOST_TAGS or any(len(tag) > MOST_TAG for tag in wanted):
        raise IngestError("tag_long", Message("run_may_have_tags_characters", {"n": MOST_TAGS, "most": MOST_TAG}))
    with state(store) as con:
        con.execute("DELETE FROM tag WHERE run_id = ?", [run_id])
        con.executemany("INSERT INTO tag VALUES (?, ?)", [(run_id, tag) for tag in sorted(wanted)])


def remarks(store: Path, workload: str) -> Mapping[str, Remark]:
    """What is said about the findings of a workload, by finding."""
    if not (store / "state.sqlite").is_file():
        return {}
    with state(store) as con:
        rows = con.execute("SELECT finding, state, owner, note FROM remark WHERE workload = ?", [workload]).fetchall()
    return {finding: Remark(*said) for finding, *said in rows}


def set_remark(store: Path, workload: str, finding: str, said: Remark) -> None:
    """Replace what is said about a finding; the words of one that is open, without owner or note, are dropped."""
    if said.state not in STATES:
        raise ValueError(f"a finding is {', '.join(STATES)}, not {said.state!r}")
    note, owner = _clean(said.note).strip(), line(said.owner)[:MOST_LABEL]
    if len(note) > MOST_NOTE:
        raise IngestError(
            "note_long", Message("note_may_have_characters_this", {"most": f"{MOST_NOTE:,}", "n": f"{len(note):,}"})
        )
    with state(store) as con:
        con.execute("DELETE FROM remark WHERE workload = ? AND finding = ?", [workload, finding])
        if Remark(said.state, owner, note) != Remark():
            con.execute("INSERT INTO remark VALUES (?, ?, ?, ?, ?)", [workload, finding, said.state, owner, note])


def forget(store: Path, run_ids: Collection[str]) -> None:
    """Drop what is said about runs that are gone for good."""
    if run_ids and (store / "state.sqlite").is_file():
        with state(store) as con:
            for table in ("label", "note", "tag"):
                con.executemany(f"DELETE FROM {table} WHERE run_id = ?", [(run_id,) for run_id in run_ids])


def watched(store: Path, path: str) -> tuple[str, str] | None:
    """What a watched folder's entry looked like when it was last tried, and what came of it."""
    if not (store / "state.sqlite").is_file():
        return None
    with state(store) as con:
        row = con.execute("SELECT seen, outcome FROM watched WHERE path = ?", [path]).fetchone()
    return None if row is None else (str(row[0]), str(row[1]))


def remember_watched(store: Path, path: str, seen: str, outcome: str) -> None:
    """Keep what came of an entry, so that a restart does not try it again."""
    with state(store) as con:
        con.execute("INSERT OR REPLACE INTO watched VALUES (?, ?, ?, ?)", [path, seen, outcome, time.time()])
