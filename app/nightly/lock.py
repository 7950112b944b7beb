"""One night at a time. The system holds the lock and lets go of it when its process dies, however it dies."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from npulens.ingest.errors import IngestError
from npulens.ingest.messages import verbatim


@contextmanager
def held(place: Path, label: str, since: str) -> Iterator[None]:
    """Holds the nights of one configuration; raises with who holds them if somebody does."""
    place.mkdir(parents=True, exist_ok=True)
    with (place / ".lock").open("a+", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.seek(0)
            raise IngestError("night_running", verbatim(_who(lock.read())), str(place)) from error
        lock.seek(0)
        lock.truncate()
        json.dump({"pid": os.getpid(), "host": socket.gethostname(), "night": label, "since": since}, lock)
        lock.flush()
        yield
        lock.truncate(0)


def _who(text: str) -> str:
    try:
        holder = json.loads(text)
        return (
            f"night {holder['night']} is running already: process {holder['pid']} on {holder['host']}, "
            f"since {holder['since']}; this one did not begin"
        )
    except (ValueError, KeyError, TypeError):
        return "another night is running already; this one did not begin"
