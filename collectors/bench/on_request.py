"""The parts of a benchmark that only an option turns on: throughput, batch curve, concurrency, a sweep of shapes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from npulens.collectors.bench import text
from npulens.collectors.bench.checks import FAILURES, check
from npulens.collectors.bench.session import Session
from npulens.collectors.harness import batch_curve
from npulens.collectors.harness.batch_curve import Point
from npulens.collectors.harness.cache import hot
from npulens.collectors.harness.interference import KINDS, Asked, together
from npulens.collectors.harness.latency import measure, one
from npulens.collectors.harness.quantiles import rank
from npulens.collectors.harness.throughput import throughput
from npulens.collectors.harness.warmup import warm_up
from npulens.collectors.workloads.workload import NotHere

Shape = Mapping[str, int]


def sweep(shapes: Mapping[str, Shape]) -> dict[str, dict[str, int]]:
    """Every shape by name, then all ones and odd sizes."""
    small = shapes["small"]
    extremes = {
        "ones": {name: 1 for name in small},
        "odd": {name: size if size % 2 or size == 1 else size + 1 for name, size in small.items()},
    }
    return {**{name: dict(sizes) for name, sizes in shapes.items()}, **extremes}


def empty(small: Shape, batch: str | None) -> dict[str, int]:
    """A shape without an element: a workload has to refuse it or return nothing, never fail oddly."""
    which = batch or next(iter(small))
    return {**small, which: 0}


def run(session: Session) -> None:
    """In the order of the options."""
    options, each = session.options, session.shares().besides
    if options.throughput:
        _throughput(session, each)
    if options.batch_curve:
        _batch_curve(session, 4 * each)
    if options.concurrency is not None:
        _together(session, each, options.concurrency)
    if options.sweep:
        _sweep(session, 4 * each)


def _throughput(session: Session, seconds: float) -> None:
    session.say(text.THROUGHPUT)
    for variant, dtype in session.timed():
        session.doing = f"the throughput of {variant} in {dtype}"
        load = hot(session.subject.build(variant, dtype))
        one(session.backend, load)
        found = throughput(session.backend, load, seconds, session.options.in_flight)
        figure = {
            **session.where(variant, dtype), "completed": found.completed, "seconds": found.seconds,
            "in_flight": found.in_flight, "per_second": found.per_second,
        }  # fmt: skip
        session.say(text.throughput(session.add("throughput", figure)))


def _best(session: Session) -> tuple[str, str]:
    """Whom the curve and the interference are measured of: the fastest variant that is right, in the first type."""
    dtype = session.subject.timed[0]
    right = [variant for variant, ok in session.ran.get(dtype, {}).items() if ok] or list(session.ran[dtype])
    return min(right, key=lambda variant: session.p50_ns.get((variant, dtype), 1 << 62)), dtype


def _batch_curve(session: Session, seconds: float) -> None:
    name = session.subject.work.BATCH
    if name is None:
        session.say(f"\n{session.subject.name} has no batch: no batch curve")
        return
    variant, dtype = _best(session)
    session.doing = f"the batch curve of {variant} in {dtype}"
    session.say(text.batch_head(variant, dtype))
    points, stopped, until = list[Point](), "largest", time.monotonic() + seconds
    free = batch_curve.free_bytes if session.backend.name == "cpu" else lambda: None
    try:
        for point in batch_curve.curve(lambda batch: _point(session, variant, dtype, name, batch, seconds / 12), free):
            points.append(point)
            session.say(text.batch(point))
            if time.monotonic() + 12 * point.p50_ns / 1e9 > until:
                stopped = "time"
                break
    except FAILURES as error:
        if not batch_curve.out_of_memory(error):
            raise
        stopped = "memory"
    session.say(text.batch_said(session.add("batch", _curve(session, variant, dtype, name, points, stopped))))


def _curve(
    session: Session, variant: str, dtype: str, name: str, points: list[Point], stopped: str
) -> dict[str, Any]:
    slo_ns = None if session.options.slo_ms is None else round(session.options.slo_ms * 1e6)
    chosen = {
        "sweet_spot": batch_curve.sweet_spot(points), "knee": batch_curve.knee(points),
        "within": None if slo_ns is None else batch_curve.within(points, slo_ns),
    }  # fmt: skip
    return {
        **session.where(variant, dtype), "batch_name": name, "points": [point.as_dict() for point in points],
        "stopped": stopped, "slo_ns": slo_ns, **{key: point and point.batch for key, point in chosen.items()},
    }  # fmt: skip


def _point(session: Session, variant: str, dtype: str, name: str, batch: int, seconds: float) -> Point:
    """One batch: a short warm-up, calls waited for one by one, then as many as a bounded queue completes."""
    backend, sizes = session.backend, {**session.subject.shape, name: batch}
    backend.forget_peak()
    case = session.subject.build(variant, dtype, sizes)
    load = hot(case)
    warm_up(lambda: one(backend, load), 5, seconds / 4)
    ordered = sorted(measure(backend, load, "host", session.watch, session.options.calls, seconds / 2).ns)
    rate = throughput(backend, load, seconds / 4, session.options.in_flight).per_second
    p50, p99 = (ordered[rank(level, len(ordered)) - 1] for level in (0.5, 0.99))
    memory = backend.memory()
    return Point(batch, batch * rate, p50, p99, len(ordered), memory.peak if memory else None, case.bytes)


def _together(session: Session, seconds: float, workers: int) -> None:
    variant, dtype = _best(session)
    session.say(text.TOGETHER)
    asked = Asked(session.backend.name, session.subject.name, variant, session.subject.shape, dtype)
    for kind in KINDS:
        if kind == "streams" and session.backend.name in ("cpu", "mps"):
            continue  # no queues of its own to fill
        session.doing = f"{workers} {kind} of {variant} in {dtype}"
        found = together(asked, session.backend, kind, workers, seconds / 2)
        session.say(text.together(session.add("together", {**session.where(variant, dtype), **found.as_dict()})))


def _sweep(session: Session, seconds: float) -> None:
    """Every shape and the extremes: right or refused, and how long; nothing is ever assumed of a shape."""
    session.say(text.SWEEP)
    every = session.subject.work.SHAPES
    if session.backend.name == "cpu":  # the shapes of a device take a processor minutes a call
        session.say(f"  on a processor small and the extremes; --shape measures one of {', '.join(every)}")
        every = {"small": every["small"]}
    swept = sweep(every)
    dtype = session.subject.timed[0]
    each = seconds / (len(swept) * len(session.ran[dtype]))
    for name, sizes in swept.items():
        session.doing = f"the shape {name}"
        truth = _truth(session, sizes)
        for variant in session.ran[dtype]:
            figure = {"variant": variant, "dtype": dtype, "shape": name, "sizes": sizes,
                      **_one_of_sweep(session, variant, dtype, sizes, truth, each)}  # fmt: skip
            session.say(text.sweep(session.add("sweep", figure)))
    sizes = empty(session.subject.work.SHAPES["small"], session.subject.work.BATCH)
    said = _truth(session, sizes)
    refused = said if isinstance(said, str) else None
    session.add("sweep", {"variant": "reference", "dtype": dtype, "shape": "empty", "sizes": sizes, "refused": refused})


def _truth(session: Session, sizes: dict[str, int]) -> Any:
    """The truth at a shape, or in words why the workload refuses it."""
    try:
        return session.subject.truth(sizes)
    except (NotHere, *FAILURES) as error:
        return text.first_line(error)


def _one_of_sweep(
    session: Session, variant: str, dtype: str, sizes: dict[str, int], truth: Any, seconds: float
) -> dict[str, Any]:
    if isinstance(truth, str):
        return {"refused": truth, "ok": None, "why": None, "p50": None, "samples": 0}
    found = check(session, variant, dtype, truth, sizes)
    if found["ok"] is None:
        return {"refused": found["why"], **found, "p50": None, "samples": 0}
    load = hot(session.subject.build(variant, dtype, sizes))
    series = measure(session.backend, load, "host", session.watch, session.options.calls, seconds)
    ordered = sorted(series.ns)
    return {"refused": None, **found, "p50": ordered[rank(0.5, len(ordered)) - 1], "samples": len(ordered)}
