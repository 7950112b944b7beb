"""A bucket: put, get, list and delete, tried again within limits, and what failed in one sentence.

Addresses and keys come from the environment, under the names that AWS's own tools use: AWS_ENDPOINT_URL,
AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from blake3 import blake3

from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message, one_line

#: A request is tried so often, and for so many seconds. NPULENS_STORAGE_PATIENCE gives other seconds.
TRIES, PATIENCE_S = 8, 60.0
#: Storage that says nothing for so long is asked again; no single request takes longer than the second.
_SILENT_S, _REQUEST_S = 15.0, 600.0
_CONNECT_S = 5.0
#: What is put at once, of larger files piece by piece; what is got at once.
_PIECE = 8 << 20
_STATUS = re.compile(r"status code:? (\d{3})")


@dataclass(frozen=True)
class Stored:
    """An object as a list has it."""

    name: str
    bytes: int
    modified: datetime
    tag: str | None  # changes with its content


class Bucket:
    """What lies below an address such as s3://bucket/prefix."""

    def __init__(self, address: str) -> None:
        self.address = address

    @cached_property
    def _library(self) -> Any:
        try:
            import obstore
        except ImportError as error:
            raise IngestError("storage", Message("object_storage_needs_a_package"), self.address) from error
        return obstore

    @cached_property
    def _store(self) -> Any:
        from_url = self._library.store.from_url
        patience = patience_s()
        plain = os.environ.get("AWS_ENDPOINT_URL", os.environ.get("AWS_ENDPOINT", "")).startswith("http://")
        with self._told(""):
            return from_url(
                self.address,
                client_options={
                    "allow_http": plain, "connect_timeout": timedelta(seconds=min(_CONNECT_S, patience)),
                    "read_timeout": timedelta(seconds=min(_SILENT_S, patience)),
                    "timeout": timedelta(seconds=_REQUEST_S),
                },
                retry_config={
                    "max_retries": TRIES - 1, "retry_timeout": timedelta(seconds=patience),
                    "backoff": {
                        "init_backoff": timedelta(seconds=0.1), "max_backoff": timedelta(seconds=8), "base": 2,
                    },
                },
            )  # fmt: skip

    def put(self, name: str, content: bytes | Path) -> None:
        """Write an object, whole or not at all."""
        with self._told(name):
            self._library.put(self._store, name, content, chunk_size=_PIECE, max_concurrency=2)

    def create(self, name: str, content: bytes) -> bool:
        """Write an object unless it is there; whether it was written.

        Storage that knows no such condition writes it anyway. Where the answer was lost, what lies there tells.
        """
        exists = self._library.exceptions.AlreadyExistsError, self._library.exceptions.PreconditionError
        try:
            with self._told(name, *exists):
                self._library.put(self._store, name, content, mode="create")
        except exists:
            return self.get(name) == content
        except IngestError:
            if self._lies_there(name, content):
                return True
            raise
        return True

    def _lies_there(self, name: str, content: bytes) -> bool:
        try:
            return self.get(name) == content
        except (IngestError, FileNotFoundError):
            return False

    def get(self, name: str) -> bytes:
        """An object's content; FileNotFoundError if there is none."""
        missing = FileNotFoundError(name)
        with self._told(name, missing=missing):
            return bytes(self._library.get(self._store, name).bytes())

    def save(self, name: str, target: Path) -> str:
        """Write an object's content to a file; its BLAKE3. FileNotFoundError if there is none."""
        digest = blake3()
        with target.open("wb") as file, self._told(name, missing=FileNotFoundError(name)):
            for piece in self._library.get(self._store, name).stream(_PIECE):
                digest.update(piece)
                file.write(piece)
        return digest.hexdigest()

    def names(self, below: str) -> Iterator[Stored]:
        """The objects below a folder, their names from the address."""
        with self._told(below):
            for several in self._library.list(self._store, below):
                for one in several:
                    yield Stored(one["path"], one["size"], one["last_modified"], one["e_tag"])

    def delete(self, names: Iterable[str]) -> None:
        """Remove objects; one that is not there is no error."""
        several = list(names)
        if several:
            with self._told(several[0], missing=None):
                self._library.delete(self._store, several)

    @contextmanager
    def _told(self, name: str, *let: type[Exception], missing: Exception | None = None) -> Iterator[None]:
        """What the library raises, as one of ours; ``missing``: what is raised where there is no such object."""
        known = self._library.exceptions
        refused = known.PermissionDeniedError, known.UnauthenticatedError, PermissionError
        try:
            yield
        except let:
            raise
        except (known.BaseError, FileNotFoundError, PermissionError) as error:
            if "NoSuchBucket" in str(error):
                raise IngestError("storage", Message("there_is_no_such_bucket"), self.address) from error
            if not isinstance(error, known.NotFoundError | FileNotFoundError):
                raise IngestError("storage", _said(error, refused), self._path(name)) from error
            if missing is not None:
                raise missing from error

    def _path(self, name: str) -> str:
        return f"{self.address}/{name}" if name else self.address


def patience_s() -> float:
    """How long a request is tried again."""
    asked = os.environ.get("NPULENS_STORAGE_PATIENCE", "")
    try:
        return max(0.1, float(asked)) if asked else PATIENCE_S
    except ValueError as error:
        raise IngestError("bad_limit", Message("storage_patience_is_no_number", {"text": asked})) from error


def _said(error: Exception, refused: tuple[type[Exception], ...]) -> Message:
    """The sentence for a request that failed for good."""
    text = str(error)
    if isinstance(error, refused):
        return Message("storage_refuses_the_keys")
    if status := _STATUS.search(text):
        return Message("storage_answers_with_status", {"status": status[1], "n": f"{patience_s():g}"})
    if re.search(r"timed? ?out|TimedOut", text, re.IGNORECASE):
        return Message("storage_is_too_slow", {"n": f"{patience_s():g}"})
    return Message("storage_cannot_be_asked", {"error": one_line(text, 200)})
