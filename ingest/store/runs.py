"""The store: one directory per run, Parquet inside, committed by one rename.

STORE/<run_id>/<table>.parquet   immutable once there
STORE/<run_id>/manifest.json     what `runs` lists, and the files the id was made from
STORE/.staging/                  loads under way; what a killed load left is collected by the next
STORE/.uploads/<id>.json         what became of an upload, so that loading it again costs a hash
STORE/.trash/                    deleted runs, until the next collection (below)
STORE/.timeline/                 level-of-detail files (ingest/store/lod.py), built again when missing
STORE/.kept/                     what pages keep of large runs (ingest/store/kept.py), computed again when missing
STORE/.raw/                      the captures that runs were made from (ingest/store/raw.py)
STORE/state.sqlite               labels, notes, tags (ingest/store/notes.py); the only thing here that changes
STORE/.bucket                    where a store is a bucket: its address (ingest/objects/mirror.py)
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
import shutil
import time
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npulens.ingest import objects
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message
from npulens.ingest.messages import listed as first_of
from npulens.ingest.store import kept, lod, notes, raw, seal
from npulens.ingest.store.connection import (
    DAMAGED,
    TRASH,
    CoverageRow,
    coverage,
    damage,
    manifest_of,
    open_run,
)
from npulens.ingest.store.place import default_dir
from npulens.ingest.tables import schema

if TYPE_CHECKING:
    from npulens.ingest.objects.mirror import Mirror

__all__ = ["CoverageRow", "RunInfo", "coverage", "default_dir", "open_run", "resolve", "runs", "set_label"]

#: A deleted run can be had back this long.
UNDO_S = 24 * 3600
#: Lists look at the sizes of files again after so many seconds.
_LOOK_AGAIN_S = 60
#: Of so many runs what lists know is held.
_MOST_SEEN = 4_096
#: What a run's directory is called; nothing else beside the runs is.
_RUN_ID = re.compile(r"[0-9a-f]{24}")


@dataclass(frozen=True)
class RunInfo:
    """A run as `npulens runs` lists it."""

    run_id: str
    label: str | None
    loaded_at: str
    status: str
    reason: str | None
    formats: tuple[str, ...]
    ranks: tuple[int, ...]
    world_size: int | None
    missing_ranks: tuple[int, ...] | None
    origin_ns: int
    dur_ns: int | None
    steps: int
    events: int
    bytes: int
    schema_version: int
    redacted: bool = False  # people, machines and places were taken out before it was stored
    evidence: str | None = None  # what a description beside the capture says that it is: 'simulated', 'cpu', 'npu' ...
    job: str | None = None  # what such a description calls the job, and its model

    @property
    def baseline(self) -> bool:
        """Whether other runs may be measured against it: one that lost events would make them look slower or faster.

        Every history and every comparison that chooses a run by itself asks this; a person may still choose any.
        """
        return self.status == "complete" and self.events > 0


def open_store(store: Path) -> Path:
    """Make sure the store is there. A new one is its maker's alone; what lies in it is as open as its directory."""
    try:
        store.parent.mkdir(parents=True, exist_ok=True)
        store.mkdir(mode=0o700, exist_ok=True)
        for name in (".staging", ".uploads", ".trash"):
            (store / name).mkdir(mode=mode_of(store), exist_ok=True)
    except OSError as error:
        raise IngestError("store", Message("cannot_make_store", {"error": error.strerror}), str(store)) from error
    return store


def runs(store: Path) -> list[RunInfo]:
    """Every committed run, newest first."""
    found, there = [], set[Path]()
    if (bucket := objects.of(store)) is not None:
        _refresh(store, bucket)
    labels = notes.labels(store)
    for entry in store.iterdir() if store.is_dir() else ():
        if entry.name.startswith(".") or not entry.is_dir():
            continue
        there.add(entry)
        with suppress(FileNotFoundError):  # deleted while we look
            found.append(_row(entry, labels))
    _forget_gone([entry for entry in list(_seen) if entry.parent == store and entry not in there])
    return sorted(found, key=lambda run: (run.loaded_at, run.run_id), reverse=True)


def _forget_gone(gone: Collection[Path]) -> None:
    """What is known of runs that are gone, whoever deleted them."""
    for directory in gone:
        _seen.pop(directory, None)
    if gone:
        seal.forget_gone()


def _refresh(store: Path, bucket: Mirror, now: bool = False) -> None:
    """Let the directory of a bucket hold what the bucket does."""
    for run_id, label in bucket.refresh(now).items():
        notes.set_label(store, run_id, label)


def set_label(store: Path, run_id: str, label: str) -> None:
    """Call a run by a name, or by none; a name belongs to one run, the last that got it."""
    notes.set_label(store, run_id, label)
    if (bucket := objects.of(store)) is not None:
        bucket.label(run_id, notes.line(label))


def name_new(store: Path, run_id: str, name: str) -> None:
    """Name a run that has no name after what it came from."""
    if run_id in notes.labels(store):
        return
    notes.name_new(store, [run_id], name)
    if (bucket := objects.of(store)) is not None:
        bucket.label(run_id, notes.labels(store).get(run_id, ""))


def _row(entry: Path, labels: dict[str, str]) -> RunInfo:
    try:
        state = (entry / seal.MANIFEST).stat().st_mtime_ns, entry.stat().st_mtime_ns
        seen = _look(entry, state)
        if seen.wrong or seen.row["run_id"] != entry.name:
            another = Message("run_lies_under_another_name", {"run": seen.row["run_id"]})
            return _damaged(entry, labels, seen.wrong or another)
        return _info(seen.row, labels)
    except PermissionError as error:
        if not is_id(entry.name):  # a directory of somebody else, such as lost+found
            raise FileNotFoundError(str(entry)) from error
        return _damaged(entry, labels, Message("run_may_not_be_read"))
    except (IngestError, KeyError, TypeError):
        return _damaged(entry, labels, DAMAGED)


@dataclass(frozen=True)
class _Seen:
    """What the list of runs knows of a run, as its directory was at that moment."""

    state: tuple[int, int]
    at: int
    row: dict[str, Any]  # what is wanted of a manifest: that of a thousand ranks is 10 MB
    stored: dict[str, Any]  # the sums of its files
    wrong: Message | None  # with the files, by their sizes


#: By directory; of a run that changes or is looked at again, the last. Threads share it, as in seal.py.
_seen: dict[Path, _Seen] = {}


def _look(directory: Path, state: tuple[int, int]) -> _Seen:
    """Reads a manifest again where it changed, and the sizes of files now and then: lists are drawn often."""
    at, known = int(time.monotonic() // _LOOK_AGAIN_S), _seen.get(directory)
    if known is not None and known.state == state and known.at == at:
        return known
    if known is not None and known.state == state:
        row, stored = known.row, known.stored
    else:
        said = manifest_of(directory)
        row = {name: said[name] for name in RunInfo.__dataclass_fields__ if name in said}
        stored = said.get(seal.STORED, {})
    found = _Seen(state, at, row, stored, _at_first_sight(directory, stored))
    _seen[directory] = found
    if len(_seen) > _MOST_SEEN:
        _seen.pop(list(_seen)[0], None)
    return found


def _at_first_sight(directory: Path, stored: dict[str, Any]) -> Message | None:
    """What is wrong with the files of a run by their sizes."""
    if objects.of(directory.parent) is not None:  # of a run in a bucket a part may be here
        return None
    lacking = seal.short(directory, {seal.STORED: stored})
    return Message("files_of_run_are_damaged", {"files": first_of(lacking, 3)}) if lacking else None


def _info(row: dict[str, Any], labels: dict[str, str]) -> RunInfo:
    missing = row["missing_ranks"]
    return RunInfo(
        run_id=row["run_id"], label=labels.get(row["run_id"]), loaded_at=row["loaded_at"], status=row["status"],
        reason=row["reason"], formats=tuple(row["formats"]), ranks=tuple(row["ranks"]), world_size=row["world_size"],
        missing_ranks=None if missing is None else tuple(missing), origin_ns=row["origin_ns"], dur_ns=row["dur_ns"],
        steps=row["steps"], events=row["events"], bytes=row["bytes"], schema_version=row["schema_version"],
        redacted=row.get("redacted") is True, evidence=row.get("evidence"), job=row.get("job"),
    )  # fmt: skip


def _damaged(entry: Path, labels: dict[str, str], why: Message) -> RunInfo:
    """A run that cannot be read: one row that says so, as old as its directory."""
    at = datetime.fromtimestamp(entry.stat().st_mtime, UTC).isoformat(timespec="seconds")
    return RunInfo(
        run_id=entry.name, label=labels.get(entry.name), loaded_at=at, status="damaged", reason=why, formats=(),
        ranks=(), world_size=None, missing_ranks=None, origin_ns=0, dur_ns=None, steps=0, events=0, bytes=0,
        schema_version=0,
    )  # fmt: skip


def resolve(store: Path, name: str) -> RunInfo:
    """A run by id, unique prefix of an id, or label."""
    known = runs(store)
    matches = [r for r in known if r.run_id == name] or [r for r in known if r.label and r.label == notes.line(name)]
    matches = matches[:1] or [r for r in known if name and r.run_id.startswith(name)]
    if not matches and name and os.path.exists(name):
        raise IngestError("unknown_run", Message("path_is_not_loaded", {"name": name}), name)
    if not matches:
        raise IngestError("unknown_run", Message("no_run_is_called_npulens", {"name": f"{name!r}"}))
    if len(matches) > 1:
        raise IngestError(
            "ambiguous_run", Message("begins_run_ids_give_more", {"name": f"{name!r}", "n": len(matches)})
        )
    return matches[0]


def manifest(store: Path, run_id: str) -> dict[str, Any]:
    """Everything the manifest of a run says."""
    objects.fetch(store, run_id, [seal.MANIFEST])
    for place in (store, store / FOLDER):  # a run that is deleted while it is read still answers
        with suppress(FileNotFoundError):
            return manifest_of(place / run_id)
    raise IngestError("unknown_run", Message("there_is_no_such_run"), str(store / run_id))


@contextmanager
def staging(store: Path) -> Iterator[Path]:
    """A directory to work in, gone afterwards whatever happens; its lock tells the living from the dead."""
    open_store(store)
    path = store / ".staging" / uuid.uuid4().hex
    guard = path.with_suffix(".lock")
    with _hold(guard):
        path.mkdir()
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)
            guard.unlink()


@contextmanager
def _hold(guard: Path) -> Iterator[None]:
    """Hold a lock file that `collect` may remove between its making and its locking: then make it again."""
    while True:
        with guard.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if guard.exists() and os.stat(guard).st_ino == os.fstat(lock.fileno()).st_ino:
                yield
                return


@contextmanager
def upload_lock(store: Path, upload_id: str) -> Iterator[None]:
    """Only one process at a time works on one upload; the others wait and find it done."""
    open_store(store)
    with _hold(store / ".uploads" / f"{upload_id}.lock"):
        yield


def collect(store: Path) -> int:
    """Remove what killed loads left and what was deleted long ago; directories removed."""
    removed = 0
    if (bucket := objects.of(store)) is not None:
        bucket.collect(UNDO_S)
        _refresh(store, bucket, now=True)
    for guard in (store / ".staging").glob("*.lock"):
        with suppress(BlockingIOError, FileNotFoundError), guard.open("r+") as lock:  # blocked: a living load
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(guard.with_suffix(""), ignore_errors=True)
            guard.unlink()
            removed += 1
    gone = empty(store, UNDO_S)
    _remove_uploads(store, set(gone))
    notes.forget(store, [name for name in gone if not (store / name).exists()])
    return removed + len(gone)


def _remove_uploads(store: Path, gone: Collection[str]) -> None:
    """Locks that nobody holds, what a load left that was killed while it wrote, and what became of deleted runs."""
    uploads = store / ".uploads"
    for upload in {path.stem for path in uploads.iterdir() if path.suffix != ".json"}:
        guard = uploads / f"{upload}.lock"
        with suppress(BlockingIOError, FileNotFoundError), guard.open("a") as lock:  # blocked: somebody works on it
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for left in uploads.glob(f"{upload}.*"):
                if left.suffix != ".json":
                    left.unlink(missing_ok=True)
    for told in uploads.glob("*.json") if gone else ():
        with suppress(FileNotFoundError):  # another collection was faster
            if recall_upload(store, told.stem, proof=False) is None:
                told.unlink()


def is_id(name: str) -> bool:
    """Whether a directory is called as runs are."""
    return _RUN_ID.fullmatch(name) is not None


def commit(store: Path, staged: Path, run_id: str, instead: bool = False) -> str:
    """Make a staged run visible: sums and fsync of every file, then one rename. 'new' or 'exists'.

    A run that is damaged or of an older version is replaced in one step, and ``instead`` any other.
    """
    seal.close(staged, manifest_of(staged))
    os.chmod(staged, mode_of(store))
    for entry in sorted(staged.iterdir()):
        os.chmod(entry, mode_of(store) & 0o666)
        _fsync(entry)
    _fsync(staged)
    target = store / run_id
    bucket = objects.of(store)
    if _must_go(store, run_id) or (instead and target.exists()):
        if bucket is None and _exchange(staged, target):
            _fsync(store)
            _forget(store, run_id)
            return "new"
        with suppress(FileNotFoundError):  # somebody else did it
            discard(store, run_id)
    known = bucket is not None and not bucket.publish(staged, run_id)
    try:
        os.rename(staged, target)
    except OSError:
        if not target.exists():
            raise
        return "exists"
    _fsync(store)
    return "exists" if known else "new"


def _must_go(store: Path, run_id: str) -> bool:
    """Whether the run that is there is damaged or of an older version; a newer one is refused."""
    try:
        there = manifest_of(store / run_id)
    except FileNotFoundError:
        return False
    except IngestError:
        return True
    if there["schema_version"] > schema.version():
        found = {"found": there["schema_version"], "known": schema.version()}
        raise IngestError("newer_run", Message("run_is_newer_than_program", found), str(store / run_id))
    older = int(there["schema_version"]) < schema.version()
    return older or (objects.of(store) is None and damage(store / run_id, there) is not None)


#: Of renameat2: both names change places; paths are taken as open() takes them.
_RENAME_EXCHANGE, _AT_FDCWD = 2, -100


def _exchange(one: Path, other: Path) -> bool:
    """Let two directories change places in one step; False where the system cannot."""
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    return bool(call(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0)


def mode_of(store: Path) -> int:
    """What others may do with what lies in a store: as much as the store's own directory lets them."""
    return store.stat().st_mode & 0o777


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remember_upload(store: Path, upload_id: str, entries: list[dict[str, Any]]) -> None:
    """Write what became of an upload, in one rename."""
    target = store / ".uploads" / f"{upload_id}.json"
    aside = target.with_suffix(f".{uuid.uuid4().hex}")
    aside.write_text(seal.sealed({"entries": entries}), "utf-8")
    _fsync(aside)
    os.replace(aside, target)


def recall_upload(store: Path, upload_id: str, proof: bool = True) -> list[dict[str, Any]] | None:
    """What became of an upload, if every run it made is still here, whole and in this schema version.

    ``proof``: whole is what has been compared with its hashes.
    """
    try:
        found = seal.opened((store / ".uploads" / f"{upload_id}.json").read_bytes())
    except (FileNotFoundError, seal.Broken):  # damaged, or written before there were seals
        return None
    entries: list[dict[str, Any]] = found["entries"]
    return entries if all(e["run_id"] is None or _is_whole(store, e["run_id"], proof) for e in entries) else None


def _is_whole(store: Path, run_id: str, proof: bool) -> bool:
    """Whether a run of this version is there, as it was stored."""
    try:
        there = manifest_of(store / run_id)
    except (FileNotFoundError, IngestError):
        return False
    if there["schema_version"] != schema.version():
        return False
    return not proof or objects.of(store) is not None or damage(store / run_id, there) is None


def remove(store: Path, run_id: str) -> None:
    """Delete a run; `restore` has it back until the next collection."""
    try:
        discard(store, run_id)
    except FileNotFoundError as error:  # somebody else was faster
        raise IngestError("unknown_run", Message("run_is_not_in_store", {"run": run_id})) from error


@dataclass(frozen=True)
class Deleted:
    """A run that can be had back, and until when (seconds since 1970) at least."""

    run: RunInfo
    until: float


def deleted(store: Path) -> list[Deleted]:
    """What `restore` can bring back, the last deleted first."""
    found = []
    if (bucket := objects.of(store)) is not None:
        _refresh(store, bucket)
    labels = notes.labels(store)
    for entry in listed(store):
        with suppress(FileNotFoundError):  # collected while we look
            found.append(Deleted(_row(entry, labels), entry.stat().st_mtime + UNDO_S))
    return sorted(found, key=lambda each: each.until, reverse=True)


def restore(store: Path, run_id: str) -> str:
    """Have a deleted run back, by the beginning of its id or its label; its id."""
    if (bucket := objects.of(store)) is not None:
        _refresh(store, bucket)
    names = [entry.name for entry in listed(store)]
    matches = [name for name in names if name.startswith(run_id)] if run_id else []
    matches = matches or [each.run.run_id for each in deleted(store) if each.run.label == run_id]
    if len(matches) != 1:
        raise IngestError("unknown_run", Message("no_deleted_run_is_called", {"name": f"{run_id!r}"}))
    try:
        bring_back(store, matches[0])
    except OSError as error:
        raise IngestError("unknown_run", Message("run_was_collected_meanwhile", {"run": matches[0]})) from error
    return matches[0]


# Where deleted runs lie until they are collected: whole, or under a name that nobody takes for a run.
#
# STORE/.trash/<run_id>          a deleted run, as it was
# STORE/.trash/.<run_id>.<word>  one that is being removed, or whose remover was killed
FOLDER = TRASH


def discard(store: Path, run_id: str) -> None:
    """Put a run there; FileNotFoundError if it is not in the store. Its time begins before it lies there."""
    target = store / FOLDER / run_id
    if (bucket := objects.of(store)) is not None:
        bucket.discard(run_id)
    with _alone(store):
        os.utime(store / run_id)
        _remove(target)  # the same run, deleted before and loaded again
        os.rename(store / run_id, target)


def bring_back(store: Path, run_id: str) -> None:
    """Take a run out of it. One that was loaded again meanwhile has the same bytes: then this copy goes."""
    if (bucket := objects.of(store)) is not None:
        bucket.bring_back(run_id)
    with _alone(store):
        try:
            os.rename(store / FOLDER / run_id, store / run_id)
        except OSError:
            if not (store / run_id).exists():
                raise
            _remove(store / FOLDER / run_id)


def listed(store: Path) -> list[Path]:
    """Deleted runs that can be had back."""
    trash = store / FOLDER
    return [entry for entry in trash.iterdir() if not entry.name.startswith(".")] if trash.is_dir() else []


def empty(store: Path, after_s: float) -> list[str]:
    """Remove what has lain there for longer; the ids of the runs."""
    gone = []
    with _alone(store):
        for entry in (store / FOLDER).glob(".*"):  # whoever was removing it is dead
            shutil.rmtree(entry, ignore_errors=True)
        for entry in listed(store):
            if time.time() - entry.stat().st_mtime > after_s:
                _remove(entry)
                gone.append(entry.name)
                if not (store / entry.name).exists():
                    _forget(store, entry.name)
                    raw.drop(store, entry.name)
    return gone


def _forget(store: Path, run_id: str) -> None:
    """Remove what was computed of a run."""
    for folder in (lod.FOLDER, kept.FOLDER):
        for entry in (lod.home(store) / folder).glob(f"{run_id}.*"):
            if entry.is_dir():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)


@contextmanager
def _alone(store: Path) -> Iterator[None]:
    """One process at a time moves runs in and out; a lock on the folder itself dies with its holder."""
    (store / FOLDER).mkdir(exist_ok=True)
    handle = os.open(store / FOLDER, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _remove(entry: Path) -> None:
    """Remove a run, under another name first: what a kill leaves of it must not be brought back."""
    aside = entry.with_name(f".{entry.name}.{uuid.uuid4().hex}")
    with suppress(FileNotFoundError):
        os.rename(entry, aside)
        shutil.rmtree(aside, ignore_errors=True)
