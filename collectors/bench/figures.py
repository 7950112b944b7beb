"""What is said of a series: its percentiles, its spread, what lies far off, whether it was steady."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from npulens.collectors.harness.latency import Series
from npulens.collectors.harness.quantiles import quantiles, rank
from npulens.collectors.harness.steady import Steadiness, steadiness

#: Tukey's fence: so many interquartile ranges beyond the quartiles (Exploratory Data Analysis, 1977).
REACH = 1.5
KEPT = 100  # how many are listed; all are counted


@dataclass(frozen=True)
class Outliers:
    """What lies beyond Tukey's fences."""

    low_fence: float
    high_fence: float
    count: int
    share: float
    at: tuple[int, ...]  # positions in the series, the farthest first
    values: tuple[int, ...]


def outliers(samples: Sequence[int]) -> Outliers:
    """Every sample beyond the fences; an even series has fences at its quartiles and may have none."""
    if not samples:
        return Outliers(0.0, 0.0, 0, 0.0, (), ())
    ordered = sorted(samples)
    first, third = (ordered[rank(level, len(ordered)) - 1] for level in (0.25, 0.75))
    low, high = first - REACH * (third - first), third + REACH * (third - first)
    middle = ordered[rank(0.5, len(ordered)) - 1]
    beyond = [i for i, sample in enumerate(samples) if not low <= sample <= high]
    beyond.sort(key=lambda i: (-abs(samples[i] - middle), i))
    listed = beyond[:KEPT]
    return Outliers(
        low, high, len(beyond), len(beyond) / len(samples), tuple(listed), tuple(samples[i] for i in listed)
    )


def of(series: Series, calls_wanted: int) -> dict[str, Any]:
    """Figures of the samples that count: all of them but a cold start. None is left out for being slow."""
    state = steadiness(series.ns)
    counted = series.ns[state.kept_from :]
    return {
        "clock": series.clock, "samples": len(counted), "wanted": calls_wanted,
        "steadiness": _steadiness(state), "counts": state.counts,
        "quantiles": [{**asdict(each), "needed": each.needed} for each in quantiles(counted)],
        **_spread(counted),
        "outliers": _outliers(series, counted, state.kept_from),
    }  # fmt: skip


def _steadiness(state: Steadiness) -> dict[str, Any]:
    return {"state": state.state, "kept_from": state.kept_from, "changed_at": state.changed_at, "change": state.change}


def _spread(samples: Sequence[int]) -> dict[str, Any]:
    if not samples:
        return {"min": None, "max": None, "mean": None, "deviation": None, "mad": None}
    middle = statistics.median(samples)
    return {
        "min": min(samples), "max": max(samples), "mean": statistics.fmean(samples),
        "deviation": statistics.stdev(samples) if len(samples) > 1 else None,
        "mad": statistics.median(abs(sample - middle) for sample in samples),
    }  # fmt: skip


def _outliers(series: Series, counted: Sequence[int], kept_from: int) -> dict[str, Any]:
    """How many, and of the farthest when they were and what else happened then."""
    found = outliers(counted)
    listed = [
        {"at": at + kept_from, "ns": ns, "events": series.events.get(at + kept_from, [])}
        for at, ns in zip(found.at, found.values)
    ]
    told = sum(bool(each["events"]) for each in listed)
    return {
        "count": found.count, "share": found.share, "low_fence": found.low_fence, "high_fence": found.high_fence,
        "listed": listed, "with_events": told,
    }  # fmt: skip
