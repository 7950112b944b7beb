"""Grants: one drop of a visitor, exactly so many files and bytes, arriving in a folder of its own."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from npulens.app.intake import signed_tokens
from npulens.app.intake.signed_tokens import Count, Refused

MAX_BYTES = int(os.environ.get("NPULENS_MAX_UPLOAD_BYTES", 20 * 10**9))
MAX_FILES = 20_000
IDLE_S = 600  # a grant without traffic for this long is over
LONGEST_S = 24 * 3600  # and so is any grant older than this
FOLDER = ".incoming"  # below the store: the same disk, so its free space is the one that counts


@dataclass(frozen=True)
class Grant:
    """One drop: what it may send; what has arrived is counted in a file beside its folder."""

    id: str
    folder: Path
    files: int
    bytes: int
    by: str = ""  # who may send it, where people sign in

    @property
    def capture(self) -> Path:
        """What to load: the one thing that was dropped, or the folder holding several."""
        dropped = list(self.folder.iterdir())
        return dropped[0] if len(dropped) == 1 else self.folder

    @property
    def _file(self) -> Path:
        return self.folder.with_name(f"{self.id}.count")

    @property
    def arrived(self) -> tuple[int, int]:
        """Files and bytes that were counted in."""
        now = signed_tokens.read(self._file)
        return (now.files, now.bytes) if now else (0, 0)

    @property
    def closed(self) -> bool:
        """Whether nothing may come any more: all is here, or the grant was discarded."""
        now = signed_tokens.read(self._file)
        return now is None or now.closed

    @property
    def whole(self) -> bool:
        """Whether everything that was announced is here."""
        return self.arrived == (self.files, self.bytes)

    @property
    def idle(self) -> bool:
        try:
            return time.time() - self._file.stat().st_mtime > IDLE_S
        except FileNotFoundError:
            return True

    def touch(self) -> bool:
        """Says that traffic goes on; False when the grant was ended meanwhile."""
        try:
            os.utime(self._file)
        except FileNotFoundError:
            return False
        return True

    def reserve(self, size: int) -> None:
        """Counts a file in before its first byte is written, so that parallel files cannot pass the grant."""
        with signed_tokens.counting(self._file) as count:
            if count.closed:
                raise Refused("bad_token", 403)
            if count.files + 1 > self.files or count.bytes + size > self.bytes:
                raise Refused("more_than_granted", 413)
            count.files += 1
            count.bytes += size

    def release(self, size: int) -> None:
        """Counts a file out that did not arrive; it may be sent again."""
        with suppress(Refused), signed_tokens.counting(self._file) as count:
            count.files -= 1
            count.bytes -= size

    def close(self) -> None:
        """Ends the drop: nothing more comes under its token."""
        with signed_tokens.counting(self._file) as count:
            if count.closed:
                raise Refused("bad_token", 403)
            if (count.files, count.bytes) != (self.files, self.bytes):
                raise Refused("incomplete", 409)
            count.closed = True


def grant(store: Path, files: int, size: int, by: str = "") -> tuple[str, Grant]:
    """A token for one drop of ``files`` files and ``size`` bytes, or Refused saying why not."""
    sweep(store)
    if not 0 < files <= MAX_FILES:
        raise Refused("too_many_files" if files else "nothing")
    if not 0 <= size <= MAX_BYTES:
        raise Refused("too_large", 413)
    ident = secrets.token_urlsafe(12)
    given = Grant(ident, store / FOLDER / ident, files, size, by)
    given.folder.mkdir(mode=0o700, parents=True)
    if shutil.disk_usage(given.folder).free < 2 * size:
        shutil.rmtree(given.folder, ignore_errors=True)
        raise Refused("disk_full", 507)
    signed_tokens.write(given._file, {"files": files, "bytes": size, "by": by, "count": asdict(Count())})
    return signed_tokens.signer(store, "grant").dumps(ident), given


def admit(store: Path, token: str) -> Grant:
    """The open grant a token stands for."""
    ident = signed_tokens.loads(store, "grant", token)
    if not isinstance(ident, str):
        raise Refused("bad_token", 403)
    try:
        said = json.loads((store / FOLDER / f"{ident}.count").read_text("utf-8"))
        given = Grant(
            ident, store / FOLDER / ident, int(said["files"]), int(said["bytes"]), str(said.get("by", ""))
        )  # fmt: skip
    except (OSError, ValueError, KeyError) as error:
        raise Refused("bad_token", 403) from error
    if given.closed or given.idle:
        raise Refused("bad_token", 403)
    given.touch()
    return given


def discard(given: Grant) -> None:
    """Ends a grant and removes what it brought."""
    given._file.unlink(missing_ok=True)
    given._file.with_suffix(".lock").unlink(missing_ok=True)
    shutil.rmtree(given.folder, ignore_errors=True)


def sweep(store: Path) -> None:
    """Removes what abandoned uploads left: grants gone idle, tickets that are over, folders nobody counts."""
    now = time.time()
    root = store / FOLDER
    for entry in list(root.iterdir()) if root.is_dir() else ():
        with suppress(OSError, ValueError, KeyError):
            age = now - entry.stat().st_mtime
            if entry.suffix == ".count":
                closed = json.loads(entry.read_text("utf-8"))["count"]["closed"]
                if age > (LONGEST_S if closed else IDLE_S):
                    discard(Grant(entry.stem, entry.with_suffix(""), 0, 0))
            elif entry.suffix == ".used":
                if json.loads(entry.read_text("utf-8"))["count"]["until"] < now:
                    entry.unlink()
            elif age > LONGEST_S and not entry.with_name(f"{entry.name}.count").exists():
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
