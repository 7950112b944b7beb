"""One benchmark from beginning to end: what is right, how long it takes, what is faster, and what else was asked.

Each part adds its figures to the result, which is saved before the next one begins. Whatever ends it early, an
interrupt or a failure, the result says so and holds what was measured until then.
"""

from __future__ import annotations

import signal
import time

from npulens.collectors.bench import besides, checks, pairs, text, times
from npulens.collectors.bench.result import Reason
from npulens.collectors.bench.session import Session


def run(session: Session) -> tuple[str, Reason | None]:
    """Every part in its order; how it ended, and why where it did not end well."""
    begun = time.monotonic()
    before = signal.signal(signal.SIGTERM, _interrupt)
    status: str = "complete"
    reason: Reason | None = None
    try:
        checks.run(session)
        if not any(session.ran.values()):
            status, reason = "failed", Reason("runs_nothing")
        else:
            for part in (times.run, pairs.run, besides.run):
                part(session)
    except KeyboardInterrupt:
        status, reason = "partial", Reason("interrupted", {
            "what": session.doing, "n": f"{time.monotonic() - begun:.0f}",
        })  # fmt: skip
    except (RuntimeError, MemoryError) as error:
        status, reason = "partial", Reason("failed", {"what": session.doing, "error": text.first_line(error)})
    finally:
        signal.signal(signal.SIGTERM, before)
    session.result.save(status, reason, session.watch.told())
    return status, reason


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
