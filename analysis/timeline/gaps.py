"""Why the device idled, as a track of each rank: the pieces of analysis/idle/pieces.py, and one of them with its host
call."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import numpy as np

from npulens.analysis.idle.culprit import code_of
from npulens.analysis.idle.pieces import CODES, idle
from npulens.analysis.intervals import Ints
from npulens.analysis.ranks.clock import Clock, clock
from npulens.analysis.run import Run
from npulens.analysis.timeline.did import Did, did
from npulens.analysis.timeline.tiles import Cells, Spans


@dataclass(frozen=True)
class Pieces:
    """One rank's pieces of idle time by start; they do not overlap. A piece's number is its place."""

    start: Ints
    end: Ints
    cause: Ints  # index into analysis.idle.CODES
    host: Ints  # the host span behind it, -1 where none is known


@dataclass(frozen=True)
class Causes:
    """What takes seconds to find out of a large run: of every rank that could be measured; and the clocks."""

    of_rank: dict[int, Pieces]
    clock: Clock
    did: dict[int, Did]


@dataclass(frozen=True)
class Gap:
    """One piece in words."""

    ts: int
    dur: int
    cause: str
    host: tuple[int, str, int, int] | None  # id, name, start, length
    line: str | None


def causes(con: duckdb.DuckDBPyConnection) -> Causes:
    """Every rank's pieces. The connection carries the views."""
    run = Run.of(con)
    found = run.get(idle)
    pieces = {}
    for rank in found.ranks:
        mine = found.rank == rank
        pieces[rank] = Pieces(found.start[mine], found.end[mine], found.cause[mine], found.host[mine])
    return Causes(pieces, run.get(clock), did(run, found))


def within(pieces: Pieces, begin: int, end: int) -> tuple[int, int]:
    """The places of the first piece that reaches into a window and of the first one after it."""
    first = int(np.searchsorted(pieces.end, begin, side="right"))
    return first, max(first, int(np.searchsorted(pieces.start, end, side="left")))


def tile(pieces: Pieces, track: int, begin: int, end: int, bucket_ns: int) -> tuple[Spans, Cells]:
    """The pieces of a window: at least a bucket long one by one, the others summed; `name` is the cause's number."""
    first, last = within(pieces, begin, end)
    if bucket_ns == 0:
        return _spans(pieces, track, np.arange(first, last)), _no_cells()
    aligned = (begin // bucket_ns * bucket_ns, -(-end // bucket_ns) * bucket_ns)
    begun = np.arange(*np.searchsorted(pieces.start, aligned, side="left"))
    short = begun[pieces.end[begun] - pieces.start[begun] < bucket_ns]
    seen = np.arange(first, last)
    long = seen[pieces.end[seen] - pieces.start[seen] >= bucket_ns]
    return _spans(pieces, track, long), _cells(pieces, track, short, bucket_ns)


def summed(pieces: Pieces, begin: int, end: int) -> list[tuple[str, int, int, int, int]]:
    """Each cause of a window: how many pieces, and their total, shortest and longest part within it."""
    at = np.arange(*within(pieces, begin, end))
    length, cause = np.minimum(pieces.end[at], end) - np.maximum(pieces.start[at], begin), pieces.cause[at]
    found = []
    for code in np.unique(cause).tolist():
        mine = length[cause == code]
        found.append((CODES[code], len(mine), int(mine.sum()), int(mine.min()), int(mine.max())))
    return found


def near(pieces: Pieces, ts: int, forward: bool) -> tuple[int, int, int] | None:
    """Number, start and length of the first piece that starts later, or of the last that starts earlier."""
    at = int(np.searchsorted(pieces.start, ts, side="right" if forward else "left")) - (0 if forward else 1)
    if not 0 <= at < len(pieces.start):
        return None
    return at, int(pieces.start[at]), int(pieces.end[at] - pieces.start[at])


def _spans(pieces: Pieces, track: int, at: Ints) -> Spans:
    same = np.zeros(len(at), np.int64)
    return Spans(pieces.start[at], pieces.end[at] - pieces.start[at], at, same + track, same, pieces.cause[at], same)


def _no_cells() -> Cells:
    return Cells(*(np.zeros(0, np.int64) for _ in range(7)))


def _cells(pieces: Pieces, track: int, at: Ints, bucket_ns: int) -> Cells:
    if not len(at):
        return _no_cells()
    bucket, length = pieces.start[at] // bucket_ns, pieces.end[at] - pieces.start[at]
    first = np.flatnonzero(np.concatenate(([True], bucket[1:] != bucket[:-1])))
    packed = np.maximum.reduceat((length << 8) | pieces.cause[at], first)
    same = np.zeros(len(first), np.int64)
    return Cells(
        bucket[first] * bucket_ns, same + track, same, np.diff(np.append(first, len(at))),
        np.add.reduceat(length, first), packed >> 8, packed & 255,
    )  # fmt: skip


def gap(con: duckdb.DuckDBPyConnection, pieces: Pieces, ordinal: int) -> Gap:
    """One piece, with the host call behind it and the line of the program that made the call."""
    start, end, host = int(pieces.start[ordinal]), int(pieces.end[ordinal]), int(pieces.host[ordinal])
    cause = CODES[int(pieces.cause[ordinal])]
    row = con.execute("SELECT span_id, name, ts_ns, dur_ns FROM span WHERE span_id = ?", [host]).fetchone()
    return Gap(start, end - start, cause, row, _line(con, host) if row else None)


def _line(con: duckdb.DuckDBPyConnection, host: int) -> str | None:
    """The line of the user's own program that a host span belongs to: from the frames around it, innermost first.

    The thread that takes launches from a queue has no frames; then those around the call that queued them.
    """
    around = _around(con, host)
    frame = code_of([row[1:] for row in around]).frame
    if frame is not None or not around:
        return frame
    ids = ", ".join(str(int(row[0])) for row in around)
    queued = con.execute(f"SELECT max(src_span_id) FROM link WHERE dst_span_id IN ({ids})").fetchall()[0][0]
    return None if queued is None else code_of([row[1:] for row in _around(con, queued)]).frame


def _around(con: duckdb.DuckDBPyConnection, host: int) -> list[tuple[int, str, str, str | None]]:
    """A span and those that contain it, innermost first: id, kind, name, frames."""
    return con.execute(
        "SELECT s.span_id, s.kind, s.name, stack.frames FROM span s LEFT JOIN stack USING (span_id), "
        "(SELECT track, ts_ns, ts_ns + dur_ns AS end_ns, depth FROM span WHERE span_id = ?) AS it "
        "WHERE s.track = it.track AND s.ts_ns <= it.ts_ns AND s.ts_ns + s.dur_ns >= it.end_ns AND s.depth <= it.depth "
        "ORDER BY s.depth DESC",
        [host],
    ).fetchall()
