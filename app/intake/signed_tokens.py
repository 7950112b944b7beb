"""Signed tokens, and counts of what arrived under them, shared by all servers over a store.

The secret and the counts lie in the store and not in a process. So two servers agree and a restart loses nothing. A
token is signed with a secret of the store (one file, mode 0600) and is worthless without it. A count is one small JSON
file under a lock.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from itsdangerous import BadSignature, URLSafeSerializer

_SECRET = ".secret"


class Refused(Exception):
    """A request that is not served; ``key`` names the sentence in app/text/words/upload.py."""

    def __init__(self, key: str, status: int = 400) -> None:
        super().__init__(key)
        self.key, self.status = key, status


@dataclass
class Count:
    """What has arrived under a grant or ticket."""

    captures: int = 0
    files: int = 0
    bytes: int = 0
    closed: bool = False
    until: float = 0.0


def read(file: Path) -> Count | None:
    """A count as it stands; None where there is none."""
    with suppress(OSError, ValueError, KeyError):
        return Count(**json.loads(file.read_text("utf-8"))["count"])
    return None


@contextmanager
def counting(file: Path) -> Iterator[Count]:
    """The count of a file, held by this process alone; what the caller changes is kept unless it raises."""
    with file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            said = json.loads(file.read_text("utf-8"))
        except (OSError, ValueError) as error:
            file.with_suffix(".lock").unlink(missing_ok=True)
            raise Refused("bad_token", 403) from error
        count = Count(**said["count"])
        yield count
        if file.exists():
            write(file, {**said, "count": asdict(count)})


def write(file: Path, content: dict[str, Any], new: bool = False) -> None:
    """The file, whole or not at all; with ``new`` the first writer wins."""
    aside = file.with_name(f"{uuid.uuid4().hex}.new")
    aside.write_text(json.dumps(content), "utf-8")
    if new:
        with suppress(FileExistsError):
            os.link(aside, file)
        aside.unlink()
    else:
        os.replace(aside, file)


def secret(store: Path) -> bytes:
    """The store's secret, made by whoever needs it first; everyone else reads the same."""
    store.mkdir(parents=True, exist_ok=True)
    file = store / _SECRET
    if not file.exists():
        aside = store / f"{_SECRET}.{uuid.uuid4().hex}"
        handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as out:
            out.write(secrets.token_bytes(32))
        with suppress(FileExistsError):
            os.link(aside, file)
        aside.unlink()
    return file.read_bytes()


def signer(store: Path, kind: str) -> URLSafeSerializer:
    """What signs and checks tokens of one kind."""
    return URLSafeSerializer(secret(store), salt=f"npulens-{kind}")


def loads(store: Path, kind: str, token: str) -> object:
    """What a token says, or Refused when this store never signed it."""
    try:
        return signer(store, kind).loads(token)
    except BadSignature as error:
        raise Refused("bad_token", 403) from error


def revoke(store: Path) -> None:
    """Makes every token of this store worthless."""
    (store / _SECRET).unlink(missing_ok=True)
