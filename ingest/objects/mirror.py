"""A store in object storage, and the directory here that stands for it: heads of its runs, copies of what was read.

PREFIX/runs/<run_id>.json         a run is there if this is: what is listed of it, its files with sizes and hashes
PREFIX/data/<run_id>/<word>/...   the files, put there before; each try has a word of its own
PREFIX/deleted/<run_id>.json      the same of a deleted run, until it is collected
PREFIX/labels/<run_id>.json       what it is called
PREFIX/kept/<run_id>/<file>.<hash>  small tables that were computed of it, for whoever asks next

HERE/<run_id>/                    as in any store; of a run that was not asked for only its head
HERE/.bucket.d/<run_id>.json      what the bucket said of it last; <run_id>.used: who reads it, and when one did last

A load that ends early leaves files that nothing names; a later load removes them after a day. Copies are checked
against their hashes when a process first reads them. The ones that were not read for longest make room for others.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from npulens.ingest.errors import IngestError
from npulens.ingest.loading.quota import amount, parse_bytes
from npulens.ingest.messages import Message, dumped, loaded
from npulens.ingest.objects.bucket import Bucket, Stored
from npulens.ingest.store.place import BUCKET
from npulens.ingest.store.seal import SEAL, STORED, hash_of, sign

_RUNS, _DELETED, _LABELS, _DATA, _KEPT = "runs", "deleted", "labels", "data", "kept"
_MANIFEST = "manifest.json"
_HEAD = re.compile(r"\w+/([0-9a-f]{8,64})\.json")
_PLACE, _FILE = re.compile(rf"{_DATA}/[0-9a-f]+/[0-9a-f]+"), re.compile(r"\w+\.(?:parquet|json)")
#: What the bucket holds is listed again after so many seconds.
_FRESH_S = 2.0
#: Files that nothing names are left by a load that ended early, or belong to one that still puts them there.
_ABANDONED_S = 24 * 3600
_AT_ONCE = 4
#: What copies of runs may take here, unless NPULENS_CACHE_SIZE says otherwise.
CACHE_SIZE = "50G"


@dataclass(frozen=True)
class Head:
    """What the bucket says of a run."""

    run: dict[str, Any]  # what `npulens runs` lists
    place: str  # the folder of its files
    files: dict[str, tuple[int, str]]  # name -> bytes, BLAKE3

    @staticmethod
    def read(content: bytes | str) -> Head | None:
        """None for what no version of ours wrote: names that lead elsewhere above all."""
        try:
            found = loaded(content)
            files = {str(name): (int(size), str(digest)) for name, (size, digest) in found["files"].items()}
            place = str(found["place"])
            fit = isinstance(found["run"], dict) and _PLACE.fullmatch(place) and all(map(_FILE.fullmatch, files))
            return Head(found["run"], place, files) if fit else None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None

    def written(self) -> bytes:
        return dumped({"run": self.run, "place": self.place, "files": self.files}).encode()

    @property
    def bytes(self) -> int:
        return sum(size for size, _ in self.files.values())


@dataclass
class _Seen:
    """What this process knows of a bucket."""

    at: float = float("-inf")  # when it was listed
    checked: set[Path] = field(default_factory=set)  # copies whose hashes were looked at
    held: dict[str, int] = field(default_factory=dict)  # runs that this process reads: a lock until it ends


@cache
def _seen(directory: Path) -> _Seen:
    return _Seen()


class Mirror:
    """A store in a bucket, and its directory here."""

    def __init__(self, here: Path, address: str) -> None:
        self._here, self._folder = here, here / f"{BUCKET}.d"
        self._bucket = Bucket(address)
        self._seen = _seen(here.resolve())
        self._folder.mkdir(exist_ok=True)

    # What is there.

    def refresh(self, now: bool = False) -> dict[str, str]:
        """List the bucket, and let the directory here hold the same runs; labels that are new here."""
        if not now and time.monotonic() - self._seen.at < _FRESH_S:
            return {}
        with self._alone():
            listed = {kind: self._heads(kind) for kind in (_RUNS, _DELETED, _LABELS)}
            self._settle(self._here, listed[_RUNS])
            (self._here / ".trash").mkdir(exist_ok=True)
            self._settle(self._here / ".trash", listed[_DELETED])
            self._seen.at = time.monotonic()
        return self._new_labels(listed[_LABELS])

    def _heads(self, kind: str) -> dict[str, Stored]:
        every = ((_HEAD.fullmatch(one.name), one) for one in self._bucket.names(kind))
        return {name[1]: one for name, one in every if name is not None}

    def _settle(self, folder: Path, listed: Mapping[str, Stored]) -> None:
        """Runs of a folder here that are not listed go; of one that is, its head is here."""
        for entry in list(folder.iterdir()):
            if entry.is_dir() and not entry.name.startswith(".") and entry.name not in listed:
                _remove(entry)
        kept = self._folder / ("tags" if folder == self._here else "tags_deleted")
        tags = _tags(kept)
        new = [one for run_id, one in listed.items() if tags.get(run_id) != one.tag or not (folder / run_id).is_dir()]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for one, content in zip(new, pool.map(self._content, new), strict=True):
                if content is not None:
                    self._keep_head(folder, _id(one), Head.read(content))
        if new or len(tags) != len(listed):
            _write(kept, json.dumps({run_id: one.tag for run_id, one in listed.items()}).encode())

    def _content(self, one: Stored) -> bytes | None:
        with suppress(FileNotFoundError):  # gone since it was listed
            return self._bucket.get(one.name)
        return None

    def _keep_head(self, folder: Path, run_id: str, head: Head | None) -> None:
        """Let a directory stand for a run; None: its head cannot be read, and the run is listed as damaged."""
        directory, told = folder / run_id, self._folder / f"{run_id}.json"
        older = self._told(run_id)
        if head is None or (older is not None and older.place != head.place):
            _remove(directory)
        told.unlink(missing_ok=True) if head is None else _write(told, head.written())
        if not (directory / _MANIFEST).is_file():
            directory.mkdir(exist_ok=True)
            _write(directory / _MANIFEST, dumped(head.run if head else {}).encode())

    def _told(self, run_id: str) -> Head | None:
        """What the bucket said of a run last."""
        told = self._folder / f"{run_id}.json"
        return Head.read(told.read_text("utf-8")) if told.is_file() else None

    def _new_labels(self, listed: Mapping[str, Stored]) -> dict[str, str]:
        kept = self._folder / "tags_labels"
        tags = _tags(kept)
        new = [one for run_id, one in listed.items() if tags.get(run_id) != one.tag]
        contents = {_id(one): content for one in new if (content := self._content(one)) is not None}
        if new:
            _write(kept, json.dumps({run_id: one.tag for run_id, one in listed.items()}).encode())
        return {run_id: label for run_id, content in contents.items() if (label := _label(content)) is not None}

    def label(self, run_id: str, label: str) -> None:
        """Say there what a run is called."""
        self._bucket.put(f"{_LABELS}/{run_id}.json", json.dumps({"label": label}).encode())

    # Runs that come and go.

    def publish(self, staged: Path, run_id: str) -> bool:
        """Put a run there: its files, then its head. False if it is there already; an error leaves nothing."""
        place = f"{_DATA}/{run_id}/{secrets.token_hex(8)}"
        files = sorted(path for path in staged.iterdir() if path.is_file())
        try:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                told = dict(pool.map(lambda path: self._put(path, place), files))
            head = Head(_listed(loaded((staged / _MANIFEST).read_text("utf-8"))), place, told)
            with self._alone():
                new = self._bucket.create(f"{_RUNS}/{run_id}.json", head.written())
                if new:
                    _write(self._folder / f"{run_id}.json", head.written())
        except IngestError:
            with suppress(IngestError):  # else a later load removes them
                self._bucket.delete(f"{place}/{path.name}" for path in files)
            raise
        if not new:
            self._bucket.delete(f"{place}/{path.name}" for path in files)
        self._seen.at = float("-inf")
        return new

    def _put(self, path: Path, place: str) -> tuple[str, tuple[int, str]]:
        self._bucket.put(f"{place}/{path.name}", path)
        return path.name, (path.stat().st_size, hash_of(path))

    def discard(self, run_id: str) -> None:
        """Delete a run; FileNotFoundError if it is not there."""
        self._move(run_id, _RUNS, _DELETED)

    def bring_back(self, run_id: str) -> None:
        """Have a deleted run back; FileNotFoundError if it was collected."""
        self._move(run_id, _DELETED, _RUNS)

    def _move(self, run_id: str, source: str, target: str) -> None:
        """First it lies in both places, then in one: what ends between leaves it where it was, too."""
        with self._alone():
            content = self._bucket.get(f"{source}/{run_id}.json")
            self._bucket.put(f"{target}/{run_id}.json", content)
            self._bucket.delete([f"{source}/{run_id}.json"])
            self._seen.at = float("-inf")

    def collect(self, after_s: float) -> None:
        """Remove for good what was deleted so many seconds ago, and once a day what loads left that ended early."""
        now = datetime.now(UTC)
        for run_id, one in self._heads(_DELETED).items():
            if (now - one.modified).total_seconds() > after_s:
                head = Head.read(self._content(one) or b"")
                if head is not None and run_id not in self._heads(_RUNS):
                    self._bucket.delete(f"{head.place}/{name}" for name in head.files)
                    self._bucket.delete(each.name for each in self._bucket.names(f"{_KEPT}/{run_id}"))
                    self._bucket.delete([f"{_LABELS}/{run_id}.json"])
                self._bucket.delete([one.name])
        swept = self._folder / "swept"
        if not swept.is_file() or time.time() - swept.stat().st_mtime > _ABANDONED_S:
            self._sweep(now)
            swept.touch()

    def _sweep(self, now: datetime) -> None:
        old = [one for one in self._bucket.names(_DATA) if (now - one.modified).total_seconds() > _ABANDONED_S]
        if old:  # listed before what is named: a run that is put there meanwhile is named by then, or its files are new
            heads = [
                Head.read(self._content(one) or b"") for kind in (_RUNS, _DELETED) for one in self._heads(kind).values()
            ]
            named = {head.place for head in heads if head is not None}
            self._bucket.delete(one.name for one in old if one.name.rpartition("/")[0] not in named)

    # Copies.

    def fetch(self, run_id: str, names: Iterable[str] | None = None) -> None:
        """Make sure that these files of a run are here, whole and as they were put there."""
        head, directory = self._told(run_id), self._here / run_id
        if head is None or not directory.is_dir():
            return
        wanted = [name for name in names or head.files if name in head.files]
        most = parse_bytes(os.environ.get("NPULENS_CACHE_SIZE") or CACHE_SIZE)
        if head.bytes > most:
            size = Message("run_is_larger_than_its_cache", {"size": amount(head.bytes), "most": amount(most)})
            raise IngestError("too_large", size, f"{self._bucket.address}/{run_id}")
        self._hold(run_id)
        lacking = [name for name in wanted if not self._is_here(directory / name, *head.files[name])]
        if lacking:
            self._make_room(run_id, most - sum(head.files[name][0] for name in lacking))
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                list(pool.map(lambda name: self._get(head, name, directory / name), lacking))

    def _is_here(self, path: Path, size: int, digest: str) -> bool:
        try:
            if path.stat().st_size != size:
                return False
        except FileNotFoundError:
            return False
        if path not in self._seen.checked:
            if hash_of(path) != digest:
                return False
            self._seen.checked.add(path)
        return True

    def _get(self, head: Head, name: str, target: Path) -> None:
        size, digest = head.files[name]
        aside = target.with_name(f".{name}.{secrets.token_hex(4)}")
        where = f"{self._bucket.address}/{head.place}/{name}"
        try:
            if self._bucket.save(f"{head.place}/{name}", aside) != digest:
                raise IngestError("damaged_run", Message("object_is_damaged_in_storage"), where)
            os.replace(aside, target)
        except FileNotFoundError as error:
            raise IngestError("damaged_run", Message("file_of_run_is_missing_in_storage"), where) from error
        finally:
            aside.unlink(missing_ok=True)
        self._seen.checked.add(target)

    def take(self, run_id: str, places: Iterable[Path]) -> None:
        """Bring what was computed of a run, of these files those that are not here and lie there unharmed."""
        lacking = {path.name: path for path in places if not path.is_file()}
        for one in self._bucket.names(f"{_KEPT}/{run_id}") if lacking else ():
            name, _, digest = one.name.rpartition("/")[2].rpartition(".")
            if (target := lacking.get(name)) is not None:
                target.parent.mkdir(parents=True, exist_ok=True)
                aside = target.with_name(f"{target.name}.{secrets.token_hex(4)}.part")
                with suppress(FileNotFoundError):
                    if self._bucket.save(one.name, aside) == digest:
                        sign(aside, target)
                        os.replace(aside, target)
                aside.unlink(missing_ok=True)

    def give(self, run_id: str, places: Iterable[Path]) -> None:
        """Put there what was computed of a run. Without it others compute it again, so an error is none."""
        with suppress(IngestError):
            for path in places:
                self._bucket.put(f"{_KEPT}/{run_id}/{path.name}.{hash_of(path)}", path)

    def _hold(self, run_id: str) -> None:
        """Say that this process reads a run, until it ends: others then leave its copy where it is."""
        used = self._folder / f"{run_id}.used"
        if run_id not in self._seen.held:
            lock = self._seen.held[run_id] = os.open(used, os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(lock, fcntl.LOCK_SH)
        os.utime(used)

    def _make_room(self, run_id: str, most: int) -> None:
        """Remove copies that nobody reads, those that were not read for longest first, until so many bytes are left."""
        copies = {each.parent: 0 for each in self._here.glob(f"*/{_MANIFEST}") if not each.parent.name.startswith(".")}
        for copy in copies:
            copies[copy] = sum(path.stat().st_size for path in copy.glob("*.parquet"))
        left = most - sum(copies.values())
        for copy in sorted(copies, key=self._read_at):
            if left >= 0:
                return
            if copies[copy] and copy.name != run_id and self._forgotten(copy):
                left += copies[copy]

    def _read_at(self, copy: Path) -> float:
        used = self._folder / f"{copy.name}.used"
        return used.stat().st_mtime if used.is_file() else 0.0

    def _forgotten(self, copy: Path) -> bool:
        """Remove the tables of a copy, unless somebody reads them."""
        with (self._folder / f"{copy.name}.used").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            for path in copy.glob("*.parquet"):
                path.unlink(missing_ok=True)
        return True

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One process here at a time lists the bucket or changes what is listed."""
        with (self._folder / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _id(one: Stored) -> str:
    return one.name.rpartition("/")[2].removesuffix(".json")


def _label(content: bytes) -> str | None:
    try:
        return str(json.loads(content)["label"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _tags(kept: Path) -> dict[str, str | None]:
    """The tags that objects had when they were read last, by run."""
    try:
        found: dict[str, str | None] = json.loads(kept.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    return found


def _listed(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What is listed of a run: its manifest without what every rank says; its files have their hashes here already."""
    left_out = ("coverage", "pieces", "warnings", SEAL, STORED)
    return {name: value for name, value in manifest.items() if name not in left_out}


def _write(target: Path, content: bytes) -> None:
    aside = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    aside.write_bytes(content)
    os.replace(aside, target)


def _remove(entry: Path) -> None:
    """Under another name first: half of it must not look like a run."""
    aside = entry.with_name(f".{entry.name}.{secrets.token_hex(4)}")
    with suppress(FileNotFoundError):
        entry.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)
