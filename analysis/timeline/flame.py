"""A window as a flame graph: spans of one name below spans of one name are one frame, whatever the track."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import numpy as np

from npulens.analysis.intervals import Ints
from npulens.analysis.timeline.tiles import Arranged, among, overlapping

#: Spans of a window for which a flame graph is drawn.
MOST_SPANS = 1_000_000
#: Frames of one; those that would be narrower than this share of all are left out.
MOST_FRAMES, THINNEST = 3_000, 1 / 3_000


@dataclass(frozen=True)
class Frame:
    """Lengths are of the part within the window, added: parallel tracks count each."""

    parent: int  # place of the frame above, -1: none
    name: str
    kind: str
    count: int
    total_ns: int
    self_ns: int  # without the frames below


@dataclass(frozen=True)
class Flame:
    frames: tuple[Frame, ...]  # parents first, the largest of one parent first
    spans: int  # of the window
    left_out: int  # frames too thin to draw


def flame(con: duckdb.DuckDBPyConnection, how: Arranged, begin: int, end: int, tracks: Sequence[int]) -> Flame | None:
    """Spans of some tracks from ``begin`` to before ``end``; None: there are too many."""
    raw = overlapping(how, begin, end, 0, among(tracks), "span_id, parent_id, depth, name, kind, ts_ns, dur_ns")
    count: int = con.execute(f"SELECT count(*) FROM ({raw})").fetchall()[0][0]
    if count > MOST_SPANS:
        return None
    if not count:
        return Flame((), 0, 0)
    found = con.execute(
        f"SELECT span_id, coalesce(parent_id, -1) AS parent_id, depth, name, kind, least(ts_ns + dur_ns, {end}) - "
        f"greatest(ts_ns, {begin}) AS ns FROM ({raw}) ORDER BY depth, span_id"
    ).fetchnumpy()
    ids, above, depth, name, kind, ns = (np.ma.getdata(found[key]).astype(np.int64) for key in found)
    node, parents, keys = _nodes(ids, above, depth, (name << 8) | kind)
    size = len(parents)
    total = np.bincount(node, ns, size).astype(np.int64)
    spans = np.bincount(node, minlength=size)
    below = np.bincount(parents[parents >= 0], total[parents >= 0], size).astype(np.int64)
    order, left_out = _drawn(parents, total)
    place = {int(at): number for number, at in enumerate(order)}
    names = _texts(con, "name", keys[order] >> 8)
    kinds = _texts(con, "kind", keys[order] & 255)
    frames = tuple(
        Frame(
            place.get(int(parents[at]), -1), names[int(keys[at] >> 8)], kinds[int(keys[at] & 255)], int(spans[at]),
            int(total[at]), max(0, int(total[at] - below[at])),
        )
        for at in order
    )  # fmt: skip
    return Flame(frames, count, left_out)


def _nodes(ids: Ints, above: Ints, depth: Ints, key: Ints) -> tuple[Ints, Ints, Ints]:
    """The frame of each span; the parent and the key of each frame. Spans come by depth, parents before children.

    Children of one span may lie at several depths.
    """
    node, sorted_ids = np.full(len(ids), -1, np.int64), np.argsort(ids, kind="stable")
    known: dict[tuple[int, int], int] = {}
    edges = np.flatnonzero(np.diff(depth, prepend=-1))
    for first, last in zip(edges, [*edges[1:], len(ids)], strict=True):
        level = slice(first, last)
        at = np.searchsorted(ids, above[level], sorter=sorted_ids)
        at = sorted_ids[np.minimum(at, len(ids) - 1)]
        there = ids[at] == above[level]
        parent = np.where(there, node[at], -1)
        pairs, which = np.unique(np.stack((parent, key[level])), axis=1, return_inverse=True)
        numbers = [known.setdefault((parent_, key_), len(known)) for parent_, key_ in pairs.T.tolist()]
        node[level] = np.array(numbers, np.int64)[which.ravel()]
    made = np.array(list(known), np.int64).reshape(len(known), 2)
    return node, made[:, 0], made[:, 1]


def _drawn(parents: Ints, total: Ints) -> tuple[list[int], int]:
    """Frames wide enough to see, the widest first; a parent is never narrower than what is drawn below it."""
    whole = int(total[parents < 0].sum())
    wide = np.flatnonzero(total >= max(1, whole * THINNEST))
    depth = np.zeros(len(parents), np.int64)
    for at in range(len(parents)):
        depth[at] = 0 if parents[at] < 0 else depth[parents[at]] + 1
    order = sorted(wide.tolist(), key=lambda at: (int(depth[at]), -int(total[at]), at))[:MOST_FRAMES]
    kept: set[int] = set()
    for at in order:
        if parents[at] < 0 or int(parents[at]) in kept:
            kept.add(at)
    return [at for at in order if at in kept], len(parents) - len(kept)


def _texts(con: duckdb.DuckDBPyConnection, table: str, ids: Ints) -> dict[int, str]:
    rows = con.execute(
        f"SELECT id, left(text, 4096) FROM {table} JOIN (SELECT DISTINCT unnest(?::BIGINT[]) AS id) USING (id)",
        [ids.tolist()],
    ).fetchall()
    return {int(number): str(text) for number, text in rows}
