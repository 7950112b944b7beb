"""A whole store as one file, and a store made of it.

The file is a tar of what a store holds, but for what is computed again, under way, or secret. Its last member names
every other with size and BLAKE3. It is written aside and renamed once. A run that is deleted meanwhile is in it whole
or not at all; databases are copied in one transaction. A store is restored where there is none, in one step.
"""

from __future__ import annotations

import io
import json
import os
import secrets
import shutil
import sqlite3
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from blake3 import blake3

from npulens.ingest import objects
from npulens.ingest.errors import IngestError, no_room
from npulens.ingest.messages import Message
from npulens.ingest.store import kept, lod, seal
from npulens.ingest.store.connection import TRASH

#: The last member of the file.
LIST = "npulens-backup.json"
VERSION = 1
#: Under way, deleted, computed again, or a key that others must not have. Signed tokens are new after a restore.
_LEFT_OUT = {".staging", ".incoming", TRASH, kept.FOLDER, lod.FOLDER, ".secret", ".bucket.d"}
_PIECE = 1 << 20


@dataclass(frozen=True)
class Backup:
    """What was written or restored."""

    runs: int
    files: int
    bytes: int


def backup(store: Path, target: Path) -> Backup:
    """Write a store to a file."""
    if objects.of(store) is not None:
        raise IngestError("backup", Message("bucket_is_backed_up_there"), str(store))
    if not store.is_dir():
        raise IngestError("store", Message("there_is_no_store"), str(store))
    if target.exists():
        raise IngestError("exists", Message("there_is_such_file_already"), str(target))
    aside = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with os.fdopen(os.open(aside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as out:
            done = _written(store, out)
            out.flush()
            os.fsync(out.fileno())
        os.link(aside, target)  # never over another
    except OSError as error:
        raise _told(error, target) from error
    finally:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
    return done


def _written(store: Path, out: io.BufferedWriter) -> Backup:
    listed: dict[str, list[int | str]] = {}
    runs = 0
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for entry in sorted(store.iterdir()):
            if entry.name in _LEFT_OUT or entry.is_symlink():
                continue
            if entry.suffix == ".sqlite":
                _database(tar, entry, listed)
            elif entry.is_dir() and not entry.name.startswith("."):
                runs += _run(tar, entry, listed)
            elif not entry.name.endswith(("-wal", "-shm")):
                for path in _files(entry):
                    with suppress(FileNotFoundError), path.open("rb") as file:
                        _add(tar, path.relative_to(store).as_posix(), file, listed)
        said = seal.sealed({"version": VERSION, "runs": runs, "files": listed}).encode()
        head = tarfile.TarInfo(LIST)
        head.size, head.mode = len(said), 0o600
        tar.addfile(head, io.BytesIO(said))
    return Backup(runs, len(listed), sum(int(size) for size, _ in listed.values()))


def _files(entry: Path) -> Iterator[Path]:
    if entry.is_file():
        yield entry
    for folder, _, names in os.walk(entry):
        yield from (Path(folder) / name for name in sorted(names) if not name.endswith((".part", ".lock")))


def _run(tar: tarfile.TarFile, entry: Path, listed: dict[str, list[int | str]]) -> int:
    """A run by its open directory: one that is deleted meanwhile is still there. 1 if it is one."""
    try:
        handle = os.open(entry, os.O_RDONLY | os.O_DIRECTORY)
    except (FileNotFoundError, PermissionError):  # deleted, or a directory of somebody else
        return 0
    try:
        names = sorted(os.listdir(handle))
        if seal.MANIFEST not in names:
            return 0
        for name in names:
            with os.fdopen(os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=handle), "rb") as file:
                _add(tar, f"{entry.name}/{name}", file, listed)
    finally:
        os.close(handle)
    return 1


def _database(tar: tarfile.TarFile, path: Path, listed: dict[str, list[int | str]]) -> None:
    """A database as it is at one moment, whoever writes to it meanwhile."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        try:
            with closing(sqlite3.connect(path)) as con, closing(sqlite3.connect(copy)) as out:
                con.backup(out)
        except sqlite3.Error as error:
            raise IngestError("store", Message("database_is_damaged", {"error": error}), str(path)) from error
        with copy.open("rb") as file:
            _add(tar, path.name, file, listed)


def _add(tar: tarfile.TarFile, name: str, file: io.BufferedReader, listed: dict[str, list[int | str]]) -> None:
    head, reader = tarfile.TarInfo(name), _Hashed(file)
    head.size, head.mode = os.fstat(file.fileno()).st_size, 0o600
    head.mtime = int(os.fstat(file.fileno()).st_mtime)
    tar.addfile(head, reader)
    listed[name] = [head.size, reader.digest.hexdigest()]


class _Hashed(io.RawIOBase):
    """A file whose hash is taken while somebody reads it."""

    def __init__(self, file: io.BufferedReader) -> None:
        self._file, self.digest = file, blake3()

    def read(self, size: int = -1) -> bytes:
        piece = self._file.read(size)
        self.digest.update(piece)
        return piece


def restore(source: Path, store: Path) -> Backup:
    """Make a store of a file; nothing appears unless all of it is what was written."""
    if store.exists() and (not store.is_dir() or any(store.iterdir())):
        raise IngestError("exists", Message("restore_needs_an_empty_place"), str(store))
    aside = store.parent / f".{store.name}.{secrets.token_hex(4)}.part"
    try:
        store.parent.mkdir(parents=True, exist_ok=True)
        aside.mkdir(mode=0o700)
        done = _unpacked(source, aside)
        if store.exists():
            store.rmdir()
        os.rename(aside, store)
    except (tarfile.TarError, EOFError, seal.Broken, json.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise IngestError("backup", Message("backup_is_damaged"), str(source)) from error
    except OSError as error:
        raise _told(error, source if error.filename == str(source) else store) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return done


def _unpacked(source: Path, target: Path) -> Backup:
    found: dict[str, list[int | str]] = {}
    said = None
    with tarfile.open(source, "r:") as tar:
        for member in tar:
            name, file = PurePosixPath(member.name), tar.extractfile(member)
            if file is None or not member.isreg() or name.is_absolute() or ".." in name.parts or said is not None:
                raise ValueError(member.name)
            if member.name == LIST:
                said = seal.opened(file.read())
                continue
            place = target / name
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            digest = blake3()
            with os.fdopen(os.open(place, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as out:
                while piece := file.read(_PIECE):
                    digest.update(piece)
                    out.write(piece)
            os.utime(place, (member.mtime, member.mtime))
            found[member.name] = [place.stat().st_size, digest.hexdigest()]
    if said is None or said["version"] != VERSION or said["files"] != found:
        raise ValueError(LIST)
    for each in found:
        with (target / each).open("rb") as written:
            os.fsync(written.fileno())
    return Backup(int(said["runs"]), len(found), sum(int(size) for size, _ in found.values()))


def _told(error: OSError, path: Path) -> IngestError:
    full = no_room(error)
    message = full.message if full else Message("system_refused", {"error": error.strerror or error})
    return IngestError("backup", message, str(path))
