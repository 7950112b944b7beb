"""Flow events of a small trace as links: the same as ../links.py says in SQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from npulens.ingest.messages import Message
from npulens.ingest.readers.ascend.few import latest
from npulens.ingest.readers.ascend.text.few.device import KIND, Device
from npulens.ingest.readers.ascend.text.few.trace import Lanes, Trace
from npulens.ingest.readers.ascend.text.links import MEANT, ROUTES
from npulens.ingest.tables.arrays import NONE, Found, Texts, Unusual, at, coded, lookup, pairs
from npulens.ingest.tables.held import Bools
from npulens.ingest.tables.nest import Nest
from npulens.ingest.tables.steps import Ints


@dataclass(frozen=True)
class Arrows:
    """Ends of flows with the spans that they run between, as rows of events; NONE: no start is known."""

    src: Ints
    dst: Ints
    route: Texts


@dataclass(frozen=True)
class _Ends:
    """Flow events on lanes that have spans."""

    row: Ints
    lane: Ints
    ts: Ints
    route: Texts
    id: Ints
    starts: Bools

    def only(self, rows: Ints) -> _Ends:
        return _Ends(
            self.row[rows], self.lane[rows], self.ts[rows], self.route.take(rows), self.id[rows], self.starts[rows]
        )


def make(trace: Trace, lanes: Lanes, made: Device, found: Found) -> Arrows:
    """The arrows; what becomes of them is said."""
    ends = _ends(trace, lanes)
    span = _bound(trace, ends)
    bound = np.flatnonzero(span >= 0)
    found.dropped.append(("link", Message("ends_flows_at_no_span"), len(ends.row) - len(bound)))
    ends, span = ends.only(bound), span[bound]
    shown = dict(zip(made.row.tolist(), _plane_rows(trace, made).tolist(), strict=True))
    rows = trace.row[span]
    twice = np.array([shown.get(row, -1) for row in rows.tolist()], np.int64)
    rows = np.where(twice < 0, rows, twice)
    arrows = _paired(ends, rows)
    marks = trace.row[lanes.where("steps")]
    of_marks = np.isin(arrows.src, marks) & (arrows.src != NONE)
    if of_marks.any():
        found.notes.append(("link", Message("arrows_between_profiler_s_own", {"n": int(of_marks.sum())})))
    found.dropped.append(("link", Message("flows_that_end_and_never"), int((arrows.src == NONE).sum())))
    launched = made.shown & np.isin(made.kind, [KIND[name] for name in ("kernel", "memset", "memcpy")])
    found.expected["link"] = int(launched.sum()) + len(made.operators.row)
    return arrows


def give(arrows: Arrows, trace: Trace, lanes: Lanes, spans: Mapping[str, Ints], found: Found) -> None:
    """Links between spans that are there. ``spans``: their ids and begins."""
    marks = trace.row[lanes.where("steps")]
    src, dst = lookup(arrows.src, spans["span_id"]), lookup(arrows.dst, spans["span_id"])
    rows = np.flatnonzero(
        (arrows.src != NONE) & (arrows.src != arrows.dst) & ~np.isin(arrows.src, marks) & (src >= 0) & (dst >= 0)
    )
    found.give("link", {
        "src_span_id": arrows.src[rows], "dst_span_id": arrows.dst[rows], "route": arrows.route.take(rows),
        "latency_ns": at(spans["ts_ns"], dst[rows]) - at(spans["ts_ns"], src[rows]),
    })  # fmt: skip


def _plane_rows(trace: Trace, made: Device) -> Ints:
    """The task of a plane that each task is, as a row of events; -1: none."""
    return at(trace.row, at(made.plane, made.plane_of, -1), -1)


def _ends(trace: Trace, lanes: Lanes) -> _Ends:
    flow = trace.raws["flow"]
    lane, route = flow.ints("lane"), flow.ints("route")
    known = {row["lane"] for row in lanes.rows}
    home: dict[str, int] = {}
    for row in lanes.rows:
        if row["class"] == "host":
            home[row["tid"]] = min(home.get(row["tid"], row["lane"]), row["lane"])
    moved: dict[int, int] = {}
    for bare in np.unique(lane).tolist():
        tid = trace.text(bare & 0xFFFFFFFF)
        if bare not in known and tid is not None and tid in home:
            moved[bare] = home[tid]
    if moved:
        lane = np.array([moved.get(one, one) for one in lane.tolist()], np.int64)
    texts = trace.texts_of(route)
    named = texts.map(_routes)
    starts = np.asarray(flow.table["starts"].combine_chunks().to_numpy(zero_copy_only=False), bool)
    rows = np.flatnonzero(named.there)
    return _Ends(flow.ints("row"), lane, flow.ints("ts"), named, flow.ints("id"), starts).only(rows)


def _routes(known: pa.Array) -> pa.Array:
    texts = known.to_pylist()
    return pa.array([None if text is None else ROUTES.get(text, text.lower()) for text in texts], pa.string())


def _bound(trace: Trace, ends: _Ends) -> Ints:
    """The span of each flow event, as a place in the trace; -1: none.

    Of spans that start where it stands an operator or launch before a Python call, and then the innermost.
    """
    ours, theirs = coded((ends.lane, ends.ts), (trace.lane, trace.ts))
    one, other = pairs(ours, theirs)
    python = ~(trace.cat.where(_meant) | (trace.cat_code == -1))[other]
    order = np.lexsort((-trace.row[other], trace.dur[other], python, one))
    found = np.full(len(ends.row), -1, np.int64)
    firsts = np.unique(one[order], return_index=True)
    found[firsts[0]] = other[order][firsts[1]]
    loose = np.flatnonzero(found < 0)
    if len(loose):
        found[loose] = _around(trace, ends.lane[loose], ends.ts[loose], ends.row[loose])
    return found


def _meant(known: pa.Array) -> pa.Array:
    return pa.array([text in MEANT for text in known.to_pylist()])


def _around(trace: Trace, lane: Ints, ts: Ints, row: Ints) -> Ints:
    """The innermost span around each end; at the end of a span counts as within."""
    here = np.flatnonzero(np.isin(trace.lane, lane))
    track = np.concatenate((trace.lane[here], lane))
    start, length = np.concatenate((trace.ts[here], ts - 1)), np.concatenate((trace.dur[here], np.zeros(len(ts), int)))
    rows = np.concatenate((trace.row[here], row))
    asked = np.arange(len(rows)) >= len(here)
    order = np.lexsort((rows, -length, start, track))
    columns = (np.ascontiguousarray(column[order]) for column in (track, start, length, rows))
    _, parent = Nest().place(*columns)
    inside = asked[order] & (parent >= 0)
    around = dict(zip(rows[order][inside].tolist(), parent[inside].tolist(), strict=True))
    spans = np.array([around.get(one, NONE) for one in row.tolist()], np.int64)
    return lookup(spans, trace.row)


def _paired(ends: _Ends, rows: Ints) -> Arrows:
    """One start may have many ends. Where ids repeat, an end belongs to the latest start before it."""
    (keys,) = coded((ends.route, ends.id))
    begin, end = np.flatnonzero(ends.starts), np.flatnonzero(~ends.starts)
    order = begin[np.lexsort((ends.ts[begin], keys[begin]))]
    if ((np.diff(keys[order]) == 0) & (np.diff(ends.ts[order]) == 0)).any():
        raise Unusual
    known, firsts, many = np.unique(keys[order], return_index=True, return_counts=True)
    of = lookup(keys[end], known)
    src = at(rows[order], at(firsts, of, -1))
    repeated = (of >= 0) & (at(many, of) > 1)
    if repeated.any():
        last = latest(keys[end[repeated]], ends.ts[end[repeated]], keys[order], ends.ts[order])
        src[repeated] = np.where(last >= 0, at(rows[order], last), src[repeated])
    return Arrows(src, rows[end], ends.route.take(end))
