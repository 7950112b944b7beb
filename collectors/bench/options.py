"""What a benchmark is asked to measure, and how long it may take."""

from __future__ import annotations

from dataclasses import dataclass

from npulens.collectors.harness.latency import CALLS, SECONDS
from npulens.collectors.harness.throughput import IN_FLIGHT
from npulens.collectors.harness.versus import PAIRS
from npulens.collectors.harness.warmup import MIN_CALLS


@dataclass(frozen=True)
class Options:
    """As the command line says it; an empty tuple means all of them."""

    workload: str
    variants: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()  # empty: numerics of all, times of the first
    shape: str | None = None
    backend: str | None = None
    seed: int = 0
    pairs: int = PAIRS
    time_budget: float = 120.0
    calls: int = CALLS
    warm_up_calls: int = MIN_CALLS
    cold: bool = False
    throughput: bool = False
    in_flight: int = IN_FLIGHT
    batch_curve: bool = False
    slo_ms: float | None = None
    concurrency: int | None = None
    sweep: bool = False

    def quick(self) -> Options:
        """Seconds instead of minutes: enough to see that it works, seldom enough to tell two variants apart."""
        from dataclasses import replace

        return replace(self, pairs=min(self.pairs, 8), time_budget=min(self.time_budget, 8.0), calls=200,
                       warm_up_calls=10)  # fmt: skip


@dataclass(frozen=True)
class Shares:
    """Seconds of one series, of one warm-up, of one comparison and of one part that is asked for besides."""

    series: float
    warm_up: float
    comparison: float
    besides: float


def shares(options: Options, series: int, comparisons: int, besides: int) -> Shares:
    """The time budget in equal parts: a part that needs less leaves the rest unused."""
    each = options.time_budget / max(1, series + comparisons + besides)
    return Shares(min(SECONDS, 0.8 * each), 0.2 * each, each, each)
