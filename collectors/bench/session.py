"""One benchmark from beginning to end: what is right, how long it takes, what is faster, and what else was asked.

Each part adds its figures to the result, which is saved before the next one begins. Whatever ends it early, an
interrupt or a failure, the result says so and holds what was measured until then.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from npulens.collectors.backends.backend import Backend
from npulens.collectors.bench import text
from npulens.collectors.bench.options import Options, Shares, shares
from npulens.collectors.bench.result import Result
from npulens.collectors.bench.subject import BASELINE, Subject
from npulens.collectors.harness.latency import clocks
from npulens.collectors.harness.watch import Watch


@dataclass
class Session:
    """What the parts share. ``ran``: per type the variants that run here, and whether each is right."""

    options: Options
    subject: Subject
    backend: Backend
    result: Result
    watch: Watch
    ran: dict[str, dict[str, bool]] = field(default_factory=dict)
    p50_ns: dict[tuple[str, str], int] = field(default_factory=dict)  # (variant, type) -> of its hot calls
    doing: str = "nothing yet"

    def say(self, line: str = "") -> None:
        print(line, flush=True)

    def where(self, variant: str, dtype: str) -> dict[str, str]:
        """What every figure says of its case."""
        return {"variant": variant, "dtype": dtype, "shape": self.subject.shape_name}

    def add(self, part: str, figure: Mapping[str, Any]) -> dict[str, Any]:
        """A figure, saved at once."""
        added = self.result.add(part, figure)
        self.result.save("partial", f"it was cut short during {self.doing}", self.watch.told())
        return added

    def timed(self) -> Iterator[tuple[str, str]]:
        """Variant and type of everything whose times are taken."""
        for dtype in self.subject.timed:
            for variant in self.ran.get(dtype, {}):
                yield variant, dtype

    def baseline(self, dtype: str) -> str | None:
        """Whom the others are measured against: a variant that is right."""
        right = [variant for variant, ok in self.ran.get(dtype, {}).items() if ok]
        return BASELINE if BASELINE in right else next(iter(right), None)

    def shares(self) -> Shares:
        """How long each part may take."""
        options, timed = self.options, list(self.timed())
        series = len(timed) * len(clocks(self.backend)) * (2 if options.cold else 1)
        besides = (options.throughput * len(timed) + 4 * options.batch_curve + 4 * options.sweep
                   + 4 * (options.concurrency is not None))  # fmt: skip
        return shares(options, series, len(timed) + 1, besides)


def run(session: Session) -> tuple[str, str | None]:
    """Every part in its order; how it ended, and why where it did not end well."""
    from npulens.collectors.bench import besides, checks, pairs, times

    begun = time.monotonic()
    before = signal.signal(signal.SIGTERM, _interrupt)
    status, reason = "complete", None
    try:
        checks.run(session)
        if not any(session.ran.values()):
            status, reason = "failed", "no variant runs here"
        else:
            for part in (times.run, pairs.run, besides.run):
                part(session)
    except KeyboardInterrupt:
        status, reason = "partial", f"interrupted during {session.doing}, after {time.monotonic() - begun:.0f} s"
    except (RuntimeError, MemoryError) as error:
        status, reason = "partial", f"{session.doing} failed: {text.first_line(error)}"
    finally:
        signal.signal(signal.SIGTERM, before)
    session.result.save(status, reason, session.watch.told())
    return status, reason


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
