"""Tickets: what somebody without a session may bring, by curl or by a link, and what of it is used up."""

from __future__ import annotations

import secrets
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from npulens.app.intake import signed_tokens
from npulens.app.intake.drop_folders import FOLDER, MAX_BYTES, MAX_FILES
from npulens.app.intake.signed_tokens import Count, Refused

MAX_HOURS = 24 * 31
TOKEN_HEADER = "X-Npulens-Upload"  # a header of our own: no other site's page can send it


@dataclass(frozen=True)
class Ticket:
    """What somebody without a session may bring: so many captures, files and bytes in all, until a moment."""

    id: str
    captures: int
    files: int
    bytes: int
    until: float


def mint(store: Path, captures: int, files: int, size: int, hours: float) -> tuple[str, Ticket]:
    """A ticket and its token. Nothing is written but the store's secret: the token carries what it allows."""
    if not (0 < captures <= files <= MAX_FILES and 0 < size <= MAX_BYTES and 0 < hours <= MAX_HOURS):
        raise Refused("bad_ticket")
    given = Ticket(secrets.token_urlsafe(9), captures, files, size, round(time.time() + hours * 3600, 3))
    return signed_tokens.signer(store, "ticket").dumps(list(asdict(given).values())), given


def ticket(store: Path, token: str) -> Ticket:
    """The ticket a token stands for, or Refused."""
    said = signed_tokens.loads(store, "ticket", token)
    if not isinstance(said, list) or len(said) != 5:
        raise Refused("bad_token", 403)
    given = Ticket(*said)
    if time.time() > given.until:
        raise Refused("ticket_over", 403)
    return given


def left(store: Path, given: Ticket) -> tuple[int, int, int]:
    """Captures, files and bytes that may still come."""
    used = signed_tokens.read(_used(store, given)) or Count()
    return given.captures - used.captures, given.files - used.files, given.bytes - used.bytes


def spend(store: Path, given: Ticket, files: int, size: int) -> None:
    """Counts one capture against a ticket before it travels, so that two at once cannot pass it."""
    (store / FOLDER).mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _used(store, given).exists():
        signed_tokens.write(_used(store, given), {"count": asdict(Count(until=given.until))}, new=True)
    with signed_tokens.counting(_used(store, given)) as count:
        if count.captures + 1 > given.captures:
            raise Refused("ticket_used", 403)
        if count.files + files > given.files or count.bytes + size > given.bytes:
            raise Refused("more_than_granted", 413)
        count.captures, count.files, count.bytes = count.captures + 1, count.files + files, count.bytes + size


def give_back(store: Path, given: Ticket, files: int, size: int) -> None:
    """Takes a capture off the count that did not arrive."""
    with suppress(Refused), signed_tokens.counting(_used(store, given)) as count:
        count.captures, count.files, count.bytes = count.captures - 1, count.files - files, count.bytes - size


def _used(store: Path, given: Ticket) -> Path:
    return store / FOLDER / f"{given.id}.used"


def curl(address: str, token: str, file: str = "CAPTURE") -> str:
    """The command that sends a capture to a dashboard; curl appends the file's name to the address."""
    return f"curl -T {file} -H '{TOKEN_HEADER}: {token}' {address.rstrip('/')}/api/upload/capture/"


def link(address: str, token: str) -> str:
    """The address of the page on which somebody can only drop a capture."""
    return f"{address.rstrip('/')}/?drop={token}"
