"""What the parts of one benchmark share: what is asked, what is measured, and where the figures go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from npulens.collectors.backends.backend import Backend
from npulens.collectors.bench.options import Options, Shares, shares
from npulens.collectors.bench.result import Reason, Result
from npulens.collectors.bench.subject import BASELINE, Subject
from npulens.collectors.harness.latency import clocks
from npulens.collectors.harness.watch import DeviceWatch


@dataclass
class Session:
    """What the parts share. ``ran``: per type the variants that run here, and whether each is right."""

    options: Options
    subject: Subject
    backend: Backend
    result: Result
    watch: DeviceWatch
    roofs: Mapping[str, Any] | None = None  # of this machine, where they were measured before
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
        self.result.save("partial", Reason("cut_short", {"what": self.doing}), self.watch.told())
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
        return shares(options, series, len(timed), besides)
