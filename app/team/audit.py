"""The audit: who did what in which project, what was refused, and by which request. Kept for a number of days."""

from __future__ import annotations

import time
from threading import Lock

from npulens.app.team.config import Team
from npulens.ingest.store import book
from npulens.ingest.store.book import Line

#: Refusals written in a minute. A flood fills no disk: what is more is counted by the metrics alone.
MOST_REFUSALS = 600
_lock = Lock()
_refusals: list[float] = []


def note(team: Team, line: Line) -> None:
    """Writes it down. Without a team there is nobody to tell apart, and nothing is written."""
    if team.sign_in is not None and (line.allowed or not _flooded()):
        book.write(team.home, line)


def _flooded() -> bool:
    with _lock:
        now = time.monotonic()
        _refusals[:] = [at for at in _refusals if now - at < 60]
        if len(_refusals) >= MOST_REFUSALS:
            return True
        _refusals.append(now)
        return False
