"""The latencies of each variant: warm-up, then hot calls on every clock, then cold ones if asked for."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from npulens.collectors.bench import text
from npulens.collectors.bench.options import Shares
from npulens.collectors.bench.session import Session
from npulens.collectors.doctor.roofs import against
from npulens.collectors.harness import cache
from npulens.collectors.harness.latency import Load, Series, clocks, measure, one
from npulens.collectors.harness.quantiles import quantiles, rank
from npulens.collectors.harness.steady import Steadiness, steadiness
from npulens.collectors.harness.warmup import WarmUp, warm_up
from npulens.collectors.harness.watch import throttled
from npulens.collectors.workloads.workload import Case


def model(case: Case, ns: float | None) -> dict[str, Any]:
    """Operations and bytes of a step, their ratio, and the rates at ``ns`` a step; None where it is not counted."""
    flops, moved = case.flops, case.bytes
    return {
        "flops": flops, "bytes": moved, "kernels": case.kernels,
        "flops_per_byte": flops / moved if flops is not None and moved else None,
        "flops_per_s": flops * 1e9 / ns if flops is not None and ns else None,
        "bytes_per_s": moved * 1e9 / ns if moved is not None and ns else None,
    }  # fmt: skip


def run(session: Session) -> None:
    """Every variant whose times are taken."""
    session.say(text.LATENCY)
    session.say(text.roofs(session.roofs))
    each = session.shares()
    for variant, dtype in session.timed():
        case = session.subject.build(variant, dtype)
        _series(session, each, variant, dtype, case, "hot", cache.hot(case), {})
        if session.options.cold:
            load, how = cache.cold(session.backend, _copies(session, variant, dtype, case))
            _series(session, each, variant, dtype, case, "cold", load, how)


def _copies(session: Session, variant: str, dtype: str, case: Case) -> Callable[[int], Case]:
    """The case of a seed; the first is there already."""
    return lambda seed: case if seed == 0 else session.subject.build(variant, dtype, None, session.subject.seed + seed)


def _series(
    session: Session, each: Shares, variant: str, dtype: str, case: Case, kind: str, load: Load, how: dict[str, Any]
) -> None:
    session.doing = f"the {kind} calls of {variant} in {dtype}"
    warm = warm_up(lambda: one(session.backend, load), session.options.warm_up_calls, each.warm_up)
    for clock in clocks(session.backend):
        name = f"{variant} {dtype} {kind} {clock}"
        series, begun = Series(clock), len(session.watch.seen)
        how = {**how, "cache": kind, "numerics": session.ran[dtype][variant]}
        try:
            measure(session.backend, load, clock, session.watch, session.options.calls, each.series, series)
        finally:
            if series.ns:
                how["throttled"] = throttled([telemetry for _, telemetry in session.watch.seen[begun:]])
                warmed = _warm(session, name, warm)
                _tell(session, variant, dtype, case, name, series, {**how, "warm_up": warmed})
        if kind == "hot" and clock == "host":
            ordered = sorted(series.ns)
            session.p50_ns[variant, dtype] = ordered[rank(0.5, len(ordered)) - 1]


def _tell(
    session: Session, variant: str, dtype: str, case: Case, name: str, series: Series, how: dict[str, Any]
) -> None:
    """One series, kept and told. Rates are of what passes on the wall or on the device, not of time on a core."""
    session.result.keep(name, series)
    figure = {**session.where(variant, dtype), "series": name, **figures_of(series, session.options.calls), **how}
    p50 = None if series.clock == "cpu" else figure["quantiles"][0]["value"]
    if session.roofs is not None:
        figure["roof"] = against(session.roofs, figure["dtype"], case.flops, case.bytes, p50)
    session.say(text.latency(session.add("latency", {**figure, "model": model(case, p50)})))


def _warm(session: Session, name: str, warm: WarmUp) -> dict[str, Any]:
    """The warm-up, kept: its first calls hold what compiling and allocating cost."""
    kept = session.result.keep(f"{name} warm-up", Series("host", list(warm.samples), []))
    first = warm.samples[0] if warm.samples else None
    return {"series": kept, "samples": len(warm.samples), "settled": warm.settled, "first_ns": first}


# What is said of a series: its percentiles, its spread, what lies far off, whether it was steady.
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


def figures_of(series: Series, calls_wanted: int) -> dict[str, Any]:
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
