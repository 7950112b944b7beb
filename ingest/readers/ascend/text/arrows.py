"""Flow events bound to spans and to each other by sorted numbers: what links.py says of it, without a join.

Where ids repeat, or there is more than memory should hold, links.py asks by statements.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from npulens.ingest.readers.ascend.text.ordered import Traced
from npulens.ingest.tables.draft import Draft, give_back
from npulens.ingest.tables.nest import Nest
from npulens.ingest.tables.runs import Block, joined
from npulens.ingest.tables.steps import Ints

#: Flow events, and spans of a lane, that are held at most.
_MOST = 600_000
_ENDS = "SELECT row, lane, ts, route::BIGINT AS route, id, starts FROM flow_end"
_ARROW = pa.schema([("src", pa.int64()), ("dst", pa.int64()), ("route", pa.int64())])
Bools = NDArray[np.bool_]


class _Ends(NamedTuple):
    """Ends of flows, column by column."""

    row: Ints
    lane: Ints
    ts: Ints
    route: Ints
    id: Ints
    starts: Bools


def arrows(draft: Draft, traced: Traced, ends: int, meant: list[int]) -> int | None:
    """Make ``arrow`` of ``flow_end``: how many ends are bound, None if it is not made.

    ``meant``: categories whose spans a flow means rather than others that start with them.
    """
    if ends > _MOST or (lanes := traced.lanes()) is None:
        return None
    table = draft.con.sql(_ENDS).to_arrow_table()
    flow = _Ends(*(np.asarray(column.to_numpy()) for column in table.columns))
    span = np.full(ends, -1, np.int64)
    others = traced.others(meant)
    for lane, mine in _by(flow.lane):
        if (number := lanes.number.get(lane)) is None:
            continue
        blocks = list(lanes.spans.track(number))
        if sum(len(block.ts) for block in blocks) > _MOST:
            return None
        if blocks:
            span[mine] = _bound(joined(blocks), flow, mine, others)
    found = np.flatnonzero(span >= 0)
    span = _kept(draft, span[found])
    rows = _paired(flow.route[found], flow.id[found], flow.starts[found], span)
    if rows is None:
        return None
    draft.table("arrow", pa.Table.from_arrays(rows, schema=_ARROW))
    del table, flow, span, rows
    give_back()
    return len(found)


def _by(keys: Ints) -> Iterator[tuple[int, Ints]]:
    """Where each key stands."""
    if not len(keys):
        return
    order = np.argsort(keys, kind="stable")
    distinct, begins = np.unique(keys[order], return_index=True)
    yield from zip(distinct.tolist(), np.split(order, begins[1:]), strict=True)


def _bound(spans: Block, flow: _Ends, mine: Ints, others: Bools) -> Ints:
    """The span of each end: one that starts there, an operator or launch if there is one, else the innermost around."""
    at, found = flow.ts[mine], np.full(len(mine), -1, np.int64)
    for which in (np.flatnonzero(~others[spans.look]), np.arange(len(spans.ts))):
        left = np.flatnonzero(found < 0)
        if not len(which) or not len(left):
            continue
        starts = spans.ts[which]
        place = np.searchsorted(starts, at[left], side="right") - 1  # of those that start together the innermost
        same = (place >= 0) & (starts[place] == at[left])
        found[left[same]] = spans.row[which[place[same]]]
    left = np.flatnonzero(found < 0)
    if len(left):
        found[left] = _around(spans, flow.row[mine[left]], at[left])
    return found


def _around(spans: Block, row: Ints, at: Ints) -> Ints:
    """The innermost span around each moment: they lie among the spans without a length, a nanosecond early."""
    rows, ts = np.concatenate((spans.row, row)), np.concatenate((spans.ts, at - 1))
    dur = np.concatenate((spans.dur, np.zeros(len(at), np.int64)))
    order = np.lexsort((rows, -dur, ts))
    columns = (np.ascontiguousarray(column[order]) for column in (np.zeros(len(rows), np.int64), ts, dur, rows))
    _, parent = Nest().place(*columns)
    within = np.empty(len(rows), np.int64)
    within[order] = parent
    return within[len(spans.row) :]


def _kept(draft: Draft, span: Ints) -> Ints:
    """Of tasks that are shown twice the one that is kept."""
    merged = draft.con.sql("SELECT hw, plane FROM merged ORDER BY hw").to_arrow_table()
    hw, plane = (np.asarray(column.to_numpy()) for column in merged.columns)
    if not len(hw):
        return span
    at = np.minimum(np.searchsorted(hw, span), len(hw) - 1)
    return np.where(hw[at] == span, plane[at], span)


def _paired(route: Ints, id_: Ints, starting: Bools, span: Ints) -> list[pa.Array] | None:
    """Start, end and route of each flow that ends; None where ids of starts repeat."""
    src, dst, routes = list[pa.Array](), list[Ints](), list[Ints]()
    for each, mine in _by(route):
        starts, ends = mine[starting[mine]], mine[~starting[mine]]
        starts = starts[np.argsort(id_[starts], kind="stable")]
        ids = id_[starts]
        if (ids[1:] == ids[:-1]).any():
            return None
        if len(ids):
            at = np.minimum(np.searchsorted(ids, id_[ends]), len(ids) - 1)
            src.append(pa.array(span[starts[at]], mask=ids[at] != id_[ends]))
        else:
            src.append(pa.nulls(len(ends), pa.int64()))
        dst.append(span[ends])
        routes.append(np.full(len(ends), each, np.int64))
    if not src:
        return [pa.array([], pa.int64())] * 3
    return [pa.concat_arrays(src), pa.array(np.concatenate(dst)), pa.array(np.concatenate(routes))]
