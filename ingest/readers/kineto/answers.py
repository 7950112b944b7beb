"""Autograd's flows bound to operators by sorted numbers: what links._ANSWERS says of it, without a join."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from npulens.ingest.readers.kineto.spans import Spans
from npulens.ingest.tables.draft import Draft
from npulens.ingest.tables.held import Bools
from npulens.ingest.tables.runs import Block, joined, taken
from npulens.ingest.tables.steps import Ints

#: Ends of flows that are held at most.
_MOST = 600_000
_START, _END = ord("s"), ord("f")


class Answers(NamedTuple):
    """Forward and backward operators, and how many backward ones the flows tell of."""

    rows: pa.Table
    asked: int


def answers(draft: Draft, spans: Spans, flows: str) -> Answers | None:
    """Both operators of each flow; None where ids repeat, or there is more than memory should hold.

    ``flows`` gives ph, ts, id and track of the ends.
    """
    told, ordered = spans.told(draft), spans.by_track(draft)
    if told is None or ordered is None:
        return None
    table = draft.con.sql(f"SELECT ph, ts, id, track FROM ({flows})").to_arrow_table()
    if len(table) > _MOST:
        return None
    ph, ts, id_, track = (np.asarray(column.to_numpy()) for column in table.columns)
    operator = np.asarray([kind == "cpu_op" for kind in told["kind"].to_pylist()])
    row = np.full(len(ph), -1, np.int64)
    for number in np.unique(track).tolist():
        mine = np.flatnonzero(track == number)
        asked = np.unique(ts[mine])
        starting = [_starting(block, asked, operator) for block in ordered.track(number)]
        if starting:
            row[mine] = _meant(joined(starting), spans.sequenced(), ph[mine], ts[mine])
    starts, ends = (
        _of_ids(*(column[(ph == which) & (row >= 0)] for column in (id_, row, ts))) for which in (_START, _END)
    )
    if starts is None or ends is None:
        return None
    (ids, src, begun), (asked, dst, late) = starts, ends
    at = np.minimum(np.searchsorted(ids, asked), max(0, len(ids) - 1))
    paired = np.flatnonzero(ids[at] == asked) if len(ids) else np.zeros(0, np.int64)
    src, dst, late = src[at[paired]], dst[paired], late[paired] - begun[at[paired]]
    apart = src != dst
    rows = pa.table({"src": src[apart], "dst": dst[apart], "late": late[apart]})
    return Answers(rows, len(np.unique(id_[ph == _END])))


def _starting(spans: Block, asked: Ints, operator: Bools) -> Block:
    """The operators that start at one of these moments."""
    at = np.minimum(np.searchsorted(asked, spans.ts), len(asked) - 1)
    kept = np.flatnonzero((asked[at] == spans.ts) & operator[spans.look])
    return taken(spans, kept)


def _meant(spans: Block, sequenced: Ints, ph: Ints, ts: Ints) -> Ints:
    """The operator of a track that each end means, -1 if none.

    Of those that start there it is one with a sequence number: forward the innermost, backward the outermost.
    """
    found, (row, begin, dur, _) = np.full(len(ts), -1, np.int64), spans
    place = np.minimum(np.searchsorted(sequenced, row), max(0, len(sequenced) - 1))
    bare = sequenced[place] != row if len(sequenced) else np.ones(len(row), bool)
    for which, length in ((_START, dur), (_END, -dur)):
        order = np.lexsort((row, length, bare, begin))
        starts, mine = begin[order], np.flatnonzero(ph == which)
        first = np.searchsorted(starts, ts[mine], side="left")
        there = first < len(starts)
        there[there] = starts[first[there]] == ts[mine][there]
        found[mine[there]] = row[order[first[there]]]
    return found


def _of_ids(id_: Ints, row: Ints, ts: Ints) -> tuple[Ints, Ints, Ints] | None:
    """The ends by their ids; None if an id has several."""
    order = np.argsort(id_, kind="stable")
    ids, rows, starts = id_[order], row[order], ts[order]
    same = ids[1:] == ids[:-1]
    return None if same.any() else (ids, rows, starts)
