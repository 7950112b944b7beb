"""The latencies of each variant: warm-up, then hot calls on every clock, then cold ones if asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from npulens.collectors.bench import figures, text
from npulens.collectors.bench.options import Shares
from npulens.collectors.bench.session import Session
from npulens.collectors.harness import cache
from npulens.collectors.harness.latency import Load, Series, clocks, measure, one
from npulens.collectors.harness.quantiles import rank
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
        try:
            measure(session.backend, load, clock, session.watch, session.options.calls, each.series, series)
        finally:
            if series.ns:
                seen = [telemetry for _, telemetry in session.watch.seen[begun:]]
                session.result.keep(name, series)
                figure = {
                    **session.where(variant, dtype), "cache": kind, "series": name,
                    "numerics": session.ran[dtype][variant], **figures.of(series, session.options.calls),
                    "warm_up": _warm(session, name, warm), "throttled": throttled(seen), **how,
                }  # fmt: skip
                p50 = figure["quantiles"][0]["value"]
                session.say(text.latency(session.add("latency", {**figure, "model": model(case, p50)})))
        if kind == "hot" and clock == "host":
            ordered = sorted(series.ns)
            session.p50_ns[variant, dtype] = ordered[rank(0.5, len(ordered)) - 1]


def _warm(session: Session, name: str, warm: WarmUp) -> dict[str, Any]:
    """The warm-up, kept: its first calls hold what compiling and allocating cost."""
    kept = session.result.keep(f"{name} warm-up", Series("host", list(warm.samples), []))
    first = warm.samples[0] if warm.samples else None
    return {"series": kept, "samples": len(warm.samples), "settled": warm.settled, "first_ns": first}
