"""Raw captures: the files that a run was made from, kept so that it can be made again.

STORE/.raw/<blake3>.zst      the content of a file, compressed; what several captures have alike lies there once
STORE/.raw/<run_id>.json     sealed: the files that make the run, by name. Of a joined run, those of each load in turn

Files are kept as they came, archives whole. Nothing is kept of a redacted load or of a store in a bucket. Above the
quota the captures that were loaded longest ago go first; their runs stay. NPULENS_RAW says how much, or "off".
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, BinaryIO

from blake3 import blake3

from npulens.ingest.errors import IngestError
from npulens.ingest.loading.quota import parse_bytes
from npulens.ingest.messages import Message
from npulens.ingest.store import seal

FOLDER = ".raw"  # below the store
#: What the captures of a store may take, unless `npulens load --raw` or NPULENS_RAW says otherwise.
QUOTA = "50G"
OFF = "off"
#: Bytes that are compressed by themselves: at once is cheaper than a stream, and a larger piece is no smaller then.
_PIECE = 4 << 20
#: How much zstd tries: a quarter more bytes than by its own choice, for two thirds of the time.
_LEVEL = -3


@dataclass(frozen=True)
class Capture:
    """What one load was asked to read: files by their name, and which of their tops it was given."""

    tops: tuple[str, ...]
    files: Mapping[str, str]  # name -> BLAKE3

    @staticmethod
    def of(said: Mapping[str, Any]) -> Capture:
        return Capture(
            tuple(map(str, said["tops"])), {str(name): str(digest) for name, digest in said["files"].items()}
        )

    def as_dict(self) -> dict[str, Any]:
        return {"tops": list(self.tops), "files": dict(self.files)}


def most(asked: str | None) -> int:
    """How many bytes may be kept; 0: nothing is."""
    said = asked or os.environ.get("NPULENS_RAW") or QUOTA
    return 0 if said.lower() == OFF else parse_bytes(said)


@contextmanager
def keeping(
    store: Path, run_id: str, at: str, tops: Sequence[Path], files: Mapping[Path, str | None],
    joined: Sequence[Capture], limit: int,
) -> Iterator[None]:  # fmt: skip
    """Keep the files of a run before it becomes visible. A full disk costs the copy, never the load.

    ``at``: when it was loaded. Whoever makes it again says so, too. ``files``: each with its BLAKE3 where it is known.
    """
    if not limit:
        yield
        return
    try:
        (store / FOLDER).mkdir(mode=store.stat().st_mode & 0o777, exist_ok=True)
        lock = os.open(store / FOLDER, os.O_RDONLY)
    except OSError:
        yield
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_SH)  # nobody removes what nothing names yet
        with suppress(OSError, ValueError):
            _keep(store, run_id, loaded_at(store, run_id) or at, tops, files, joined)
        yield
    finally:
        os.close(lock)
    _trim(store, limit)


def _keep(
    store: Path, run_id: str, at: str, tops: Sequence[Path], files: Mapping[Path, str | None], joined: Sequence[Capture]
) -> None:
    base = Path(os.path.commonpath([top.parent for top in tops]))
    told = {str(path.relative_to(base)): _put(store, path, files[path]) for path in sorted(files)}
    fresh = Capture(tuple(str(top.relative_to(base)) for top in tops), told)
    captures = [each.as_dict() for each in (*joined, fresh)]
    _write(store, _record(store, run_id), seal.sealed({"loaded_at": at, "captures": captures}).encode())


def _record(store: Path, run_id: str) -> Path:
    return store / FOLDER / f"{run_id}.json"


def _blob(store: Path, digest: str) -> Path:
    return store / FOLDER / f"{digest}.zst"


def _put(store: Path, path: Path, known: str | None) -> str:
    """Keep the content of a file; its BLAKE3."""
    from pyarrow import Codec  # a list of runs needs none of it

    digest = known or seal.hash_once(path)
    if _blob(store, digest).is_file():
        return digest
    aside, codec, buffer = _aside(store), Codec("zstd", compression_level=_LEVEL), bytearray(_PIECE)
    try:
        with path.open("rb", buffering=0) as source, memoryview(buffer) as piece, _private(store, aside) as out:
            while size := source.readinto(piece):
                out.write(codec.compress(piece[:size]))
        with aside.open("rb") as written:
            os.fsync(written.fileno())
        if not seal.is_still(path, digest):  # somebody writes it: what lies here now has another name
            digest = _content(aside) or digest
        os.replace(aside, _blob(store, digest))
    finally:
        aside.unlink(missing_ok=True)
    return digest


def _private(store: Path, path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, store.stat().st_mode & 0o666), "wb")


def _aside(store: Path) -> Path:
    return store / FOLDER / f"{secrets.token_hex(8)}.part"


def _write(store: Path, target: Path, content: bytes) -> None:
    aside = _aside(store)
    with _private(store, aside) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, target)


def captures(store: Path, run_id: str) -> list[Capture]:
    """What makes a run, load by load; [] where it is not kept or its record is damaged."""
    return [Capture.of(each) for each in _told(store, run_id).get("captures", ())]


def loaded_at(store: Path, run_id: str) -> str | None:
    """When a run was loaded first, as far as its captures are kept."""
    at = _told(store, run_id).get("loaded_at")
    return None if at is None else str(at)


def _told(store: Path, run_id: str) -> dict[str, Any]:
    try:
        return seal.opened(_record(store, run_id).read_bytes())
    except (OSError, seal.Broken):
        return {}


def unpack(store: Path, capture: Capture, target: Path) -> list[Path]:
    """Lay the files of a capture out as they were; the tops to load. IngestError where one is not what was kept."""
    for name, digest in capture.files.items():
        place = target / PurePath(name)
        if not place.resolve().is_relative_to(target.resolve()):
            raise IngestError("damaged_raw", Message("raw_file_is_damaged", {"file": name}))
        place.parent.mkdir(parents=True, exist_ok=True)
        if _content(_blob(store, digest), place) != digest:
            raise IngestError("damaged_raw", Message("raw_file_is_damaged", {"file": name}))
    return [target / PurePath(top) for top in capture.tops]


def _content(blob: Path, place: Path | None = None) -> str | None:
    """The BLAKE3 of what a file holds, unpacked to ``place``; None where it cannot be unpacked."""
    import pyarrow as pa

    digest = blake3()
    try:
        with (
            pa.OSFile(str(blob)) as file, pa.CompressedInputStream(file, "zstd") as packed,
            (place or Path(os.devnull)).open("wb") as out,
        ):  # fmt: skip
            while piece := packed.read(_PIECE):
                digest.update(piece)
                out.write(piece)
    except (OSError, pa.ArrowException):
        return None
    return digest.hexdigest()


def names(store: Path) -> list[str]:
    """The runs of which something is kept."""
    return sorted(path.stem for path in (store / FOLDER).glob("*.json"))


def damaged(store: Path) -> list[Path]:
    """Files here that are not what was written: all are read."""
    folder = store / FOLDER
    wrong = [path for path in sorted(folder.glob("*.zst")) if _content(path) != path.stem]
    return wrong + [path for path in sorted(folder.glob("*.json")) if not captures(store, path.stem)]


def bytes_of(store: Path) -> int:
    """What is kept takes."""
    return sum(path.stat().st_size for path in (store / FOLDER).glob("*.zst"))


def drop(store: Path, run_id: str) -> None:
    """Remove what is kept of a run; files that no other run names go when nobody keeps."""
    _record(store, run_id).unlink(missing_ok=True)
    with _alone(store) as mine:
        if mine:
            _unnamed(store)


def _trim(store: Path, limit: int) -> None:
    """Remove the captures that were loaded longest ago until the others are within the limit."""
    if bytes_of(store) <= limit:
        return
    with _alone(store) as mine:
        records = sorted((store / FOLDER).glob("*.json"), key=lambda path: path.stat().st_mtime) if mine else []
        for record in records:
            record.unlink(missing_ok=True)
            _unnamed(store)
            if bytes_of(store) <= limit:
                return


def _unnamed(store: Path) -> None:
    named = {digest for run_id in names(store) for each in captures(store, run_id) for digest in each.files.values()}
    for path in (store / FOLDER).iterdir():
        if path.suffix == ".part" or (path.suffix == ".zst" and path.stem not in named):
            path.unlink(missing_ok=True)


@contextmanager
def _alone(store: Path) -> Iterator[bool]:
    """Whether nobody else keeps or removes here; then nobody does until this ends."""
    try:
        lock = os.open(store / FOLDER, os.O_RDONLY)
    except FileNotFoundError:
        yield False
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(lock)
