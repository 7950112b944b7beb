"""Two stretches of two runs side by side: where on the device's way through its work the time differs.

The work of a rank is put in order. Each piece moves the front (the latest end so far) on by some time, the gap before
it included. These advances sum to what the stretch takes. Pieces of both sides are matched by their order and their
names. Where a matched piece advances more on one side, the difference lies there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import duckdb

#: Pieces of a stretch that are matched, and differences that are told.
MOST_PIECES, MOST_SPOTS = 3000, 20


@dataclass(frozen=True)
class Piece:
    name: str
    front_ns: int  # where the front was before it
    advance_ns: int


@dataclass(frozen=True)
class Spot:
    """One difference: the piece, and its window on both sides; a side that lacks it has an empty one."""

    name: str
    base_ns: int
    base_dur_ns: int
    head_ns: int
    head_dur_ns: int

    @property
    def change_ns(self) -> int:
        return self.head_dur_ns - self.base_dur_ns


def pieces(con: duckdb.DuckDBPyConnection, rank: int, begin: int, end: int) -> tuple[Piece, ...] | None:
    """The device's work of a rank in a stretch; None: there is too much of it."""
    rows = con.execute(
        "SELECT coalesce(k.op_type, s.name), greatest(s.ts_ns, $begin), least(s.ts_ns + s.dur_ns, $end) "
        "FROM span s LEFT JOIN kernel k USING (span_id) WHERE s.rank = $rank AND s.dur_ns > 0 "
        "AND s.kind IN ('kernel', 'memset', 'memcpy', 'comm_op', 'unknown') AND s.ts_ns < $end "
        "AND s.ts_ns + s.dur_ns > $begin ORDER BY s.ts_ns, s.span_id LIMIT $most",
        {"rank": rank, "begin": begin, "end": end, "most": MOST_PIECES + 1},
    ).fetchall()
    if len(rows) > MOST_PIECES:
        return None
    found, front = [], begin
    for name, _, stop in rows:
        found.append(Piece(str(name), front, max(0, stop - front)))
        front = max(front, stop)
    return tuple(found)


def spots(base: Sequence[Piece], head: Sequence[Piece]) -> tuple[Spot, ...]:
    """The largest differences, the largest first."""
    found = []
    matcher = SequenceMatcher(None, [one.name for one in base], [one.name for one in head], autojunk=False)
    for what, a, b, c, d in matcher.get_opcodes():
        if what == "equal":
            found += [
                Spot(one.name, one.front_ns, one.advance_ns, other.front_ns, other.advance_ns)
                for one, other in zip(base[a:b], head[c:d], strict=True)
            ]
            continue
        mine, theirs = base[a:b], head[c:d]
        names = dict.fromkeys(one.name for one in (*mine, *theirs))
        found.append(Spot(
            ", ".join(names), _at(base, a), sum(one.advance_ns for one in mine), _at(head, c),
            sum(one.advance_ns for one in theirs),
        ))  # fmt: skip
    kept = [spot for spot in found if spot.change_ns]
    return tuple(sorted(kept, key=lambda spot: (-abs(spot.change_ns), spot.base_ns))[:MOST_SPOTS])


def _at(pieces: Sequence[Piece], place: int) -> int:
    """Where the front is before the piece of a place; at the end, after the last."""
    if place < len(pieces):
        return pieces[place].front_ns
    return pieces[-1].front_ns + pieces[-1].advance_ns if pieces else 0
