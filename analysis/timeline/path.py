"""The critical path as one lane of the timeline: its pieces on the common clock, and one of them in words."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import numpy as np

from npulens.analysis.idle.pieces import CODES
from npulens.analysis.intervals import Ints
from npulens.analysis.look.path import KINDS, followed
from npulens.analysis.replay.critical import WHATS
from npulens.analysis.run import Run
from npulens.analysis.timeline.gaps import Pieces

#: The number of the lane: below that of every rank's gaps.
TRACK = -(2**31)
_NO_RANK = -1


@dataclass(frozen=True)
class Lane:
    """The pieces by start; `rank` is -1 and `span` too where there is none."""

    pieces: Pieces
    rank: Ints
    shift: Ints  # of each piece's rank to the common clock


@dataclass(frozen=True)
class OnPath:
    """One piece in words; `ts` is on the common clock."""

    ts: int
    dur: int
    whole: int  # of the path
    kind: str
    rank: int | None
    shift: int
    span: tuple[int, int, str, int, int] | None  # id, rank, name, start, length


def lane(con: duckdb.DuckDBPyConnection) -> Lane:
    """The critical path of a run. The connection carries the views."""
    found = Run.of(con).get(followed)
    first = len(CODES)  # a tile's names are the causes of gaps, then the kinds of the path
    kinds = np.array([first + KINDS.index(what) for what in WHATS])
    pieces = Pieces(found.begin, found.end, kinds[found.what], found.span)
    return Lane(pieces, np.array([*found.ranks, _NO_RANK])[found.at_rank], found.shift)


def piece(con: duckdb.DuckDBPyConnection, of: Lane, ordinal: int) -> OnPath:
    """One piece, with the span that it is made of or leads to."""
    pieces, rank = of.pieces, int(of.rank[ordinal])
    start, end = int(pieces.start[ordinal]), int(pieces.end[ordinal])
    row = con.execute(
        "SELECT span_id, rank, name, ts_ns, dur_ns FROM span WHERE span_id = ?", [int(pieces.host[ordinal])]
    ).fetchone()
    whole = int(pieces.end[-1] - pieces.start[0])
    kind = KINDS[int(pieces.cause[ordinal]) - len(CODES)]
    return OnPath(start, end - start, whole, kind, None if rank == _NO_RANK else rank, int(of.shift[ordinal]), row)
