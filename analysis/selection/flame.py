"""Where the time of a selection goes by code: host calls by what called them, device work by what launched it.

Spans of one name below spans of one name are one frame, whatever the thread and the rank. Where Python's frames were
recorded beside operators and not as spans, operators lie below those frames. Lengths are of the part within the
selection. Of the host they are the lengths of calls; of the device those of tasks, added over streams.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import duckdb
import numpy as np

from npulens.analysis.intervals import Ints

#: Host spans whose ancestors are looked up, and frames that are drawn; thinner ones are left out.
MOST_SPANS, MOST_FRAMES, THINNEST = 3_000_000, 2_000, 1 / 2_000
WEIGHTS = ("device", "host")
_HOST = "'cpu_op', 'python', 'annotation', 'step_mark', 'runtime', 'enqueue', 'dequeue', 'gc', 'host_other'"
_WORK = "'kernel', 'memset', 'memcpy', 'comm_op', 'unknown'"
_CLIP = "least(ts_ns + dur_ns, coalesce(to_ns, ts_ns + dur_ns)) - greatest(ts_ns, coalesce(from_ns, ts_ns))"
_PANE = "CREATE TEMP TABLE IF NOT EXISTS pane (rank INTEGER, from_ns BIGINT, to_ns BIGINT)"


@dataclass(frozen=True)
class Frame:
    """One name below the same names."""

    parent: int  # place of the frame above; -1: none
    name: str
    kind: str  # of its spans
    count: int
    total_ns: int
    self_ns: int  # without the frames below


@dataclass(frozen=True)
class Flame:
    frames: tuple[Frame, ...]  # parents first
    total_ns: int
    unlinked_ns: int  # device work whose launch was not recorded; in no frame
    left_out: int  # frames too thin to draw


def flame(con: duckdb.DuckDBPyConnection, weight: str) -> Flame | None:
    """The frames of what the connection holds; None: there are too many spans, so a window has to be selected."""
    count: int = con.execute(f"SELECT count(*) FROM span WHERE kind IN ({_HOST})").fetchall()[0][0]
    if count > MOST_SPANS:
        return None
    spans = con.execute(
        f"SELECT span_id, coalesce(parent_id, -1) AS parent_id, depth, kind, CASE kind WHEN 'step_mark' THEN '' "
        f"ELSE name END AS name FROM span WHERE kind IN ({_HOST}) ORDER BY depth, span_id"
    ).fetchnumpy()
    ids, above, depth = (_ints(spans[name]) for name in ("span_id", "parent_id", "depth"))
    tree = _tree(
        ids,
        above,
        depth,
        np.ma.getdata(spans["kind"]).tolist(),
        np.ma.getdata(spans["name"]).tolist(),
        *_stacks(con, ids),
    )
    order = np.argsort(ids, kind="stable")
    weighed, ns, unlinked = _device(con) if weight == "device" else (*_host(con), 0)
    at = order[np.minimum(np.searchsorted(ids, weighed, sorter=order), max(len(ids) - 1, 0))] if len(ids) else weighed
    return _drawn(tree, tree.of[at] if len(ids) else at, ns, unlinked)


def _ints(values: Any) -> Ints:
    return np.ma.getdata(values).astype(np.int64)


@dataclass(frozen=True)
class _Tree:
    of: Ints  # frame of each span
    parents: Ints
    names: Sequence[str]
    kinds: Sequence[str]


def _stacks(con: duckdb.DuckDBPyConnection, ids: Ints) -> tuple[Ints, Sequence[str]]:
    """Of each span the place of its Python frames among all; -1: none. None at all where frames are spans."""
    none = np.full(len(ids), -1, np.int64)
    if con.execute("SELECT 1 FROM span WHERE kind = 'python' LIMIT 1").fetchall():
        return none, ()
    texts = [text for (text,) in con.execute("SELECT DISTINCT frames FROM stack ORDER BY frames").fetchall()]
    if not texts:
        return none, ()
    rows = con.execute(
        "SELECT span_id, place FROM stack JOIN (SELECT frames, row_number() OVER (ORDER BY frames) - 1 AS place "
        "FROM (SELECT DISTINCT frames FROM stack)) USING (frames) ORDER BY span_id"
    ).fetchnumpy()
    held, place = _ints(rows["span_id"]), _ints(rows["place"])
    at = np.minimum(np.searchsorted(held, ids), len(held) - 1)
    return np.where(held[at] == ids, place[at], -1), texts


class _Growing:
    """Frames as they are found; a parent comes before its children."""

    def __init__(self) -> None:
        self.places: dict[tuple[int, str], int] = {}
        self.parents: list[int] = []
        self.names: list[str] = []
        self.kinds: list[str] = []

    def frame(self, parent: int, name: str, kind: str) -> int:
        key = parent, name
        if key not in self.places:
            self.places[key] = len(self.parents)
            self.parents.append(parent)
            self.names.append(name)
            self.kinds.append(kind)
        return self.places[key]

    def below(self, frames: str) -> int:
        """The frame of a stack's innermost call."""
        parent = -1
        for line in reversed(frames.splitlines()):
            parent = self.frame(parent, line.strip(), "python")
        return parent


def _tree(
    ids: Ints, above: Ints, depth: Ints, kind: Sequence[str], name: Sequence[str], stack: Ints, stacks: Sequence[str]
) -> _Tree:
    """Spans come by depth, so a parent has its frame before its children. A stack replaces what lies above a span."""
    of, under = np.full(len(ids), -1, np.int64), np.zeros(len(ids), np.bool_)
    found = _Growing()
    roots = np.array([found.below(text) for text in stacks], np.int64)
    known = sorted(set(name))
    places = {text: place for place, text in enumerate(known)}
    codes, order = np.fromiter(map(places.__getitem__, name), np.int64, len(ids)), np.argsort(ids, kind="stable")
    edges = np.flatnonzero(np.diff(depth, prepend=-1)) if len(depth) else np.zeros(0, np.int64)
    for first, last in pairwise((*edges, len(ids))):
        level = slice(first, last)
        at = order[np.minimum(np.searchsorted(ids, above[level], sorter=order), len(ids) - 1)]
        there = ids[at] == above[level]
        parent = np.where(there, of[at], -1)
        begins = (stack[level] >= 0) & ~(there & under[at])
        under[level] = begins | (there & under[at])
        if len(roots):
            parent = np.where(begins, roots[np.maximum(stack[level], 0)], parent)
        pairs, first_of, where = np.unique(
            (parent + 1) * len(known) + codes[level], return_index=True, return_inverse=True
        )
        made = np.empty(len(pairs), np.int64)
        for number, (pair, at_first) in enumerate(zip(pairs.tolist(), first_of.tolist(), strict=True)):
            frame, code = divmod(pair, len(known))
            made[number] = found.frame(frame - 1, known[code], kind[first + at_first])
        of[level] = made[where.ravel()]
    return _Tree(of, np.array(found.parents, np.int64), found.names, found.kinds)


def _host(con: duckdb.DuckDBPyConnection) -> tuple[Ints, Ints]:
    """Calls of the host, each with its time that no call below it has."""
    con.execute(_PANE)
    found = con.execute(
        f"WITH mine AS (SELECT span_id, parent_id, greatest(0, {_CLIP}) AS ns FROM span LEFT JOIN pane USING (rank) "
        f"WHERE kind IN ({_HOST})), below AS (SELECT parent_id, sum(ns) AS ns FROM mine WHERE parent_id IS NOT NULL "
        "GROUP BY parent_id) SELECT span_id, greatest(0, mine.ns - coalesce(below.ns, 0))::BIGINT AS ns FROM mine "
        "LEFT JOIN below ON below.parent_id = mine.span_id WHERE mine.ns > 0"
    ).fetchnumpy()
    return _ints(found["span_id"]), _ints(found["ns"])


def _device(con: duckdb.DuckDBPyConnection) -> tuple[Ints, Ints, int]:
    """Calls that launched device work, each with the time of that work; and the work whose call is not known.

    Of several calls on the way to the device the operator counts, else the call that is farthest from the device.
    """
    con.execute(_PANE)
    found = con.execute(
        "WITH work AS (SELECT span_id, greatest(0, "
        f"{_CLIP}) AS ns FROM span LEFT JOIN pane USING (rank) WHERE kind IN ({_WORK})), "
        "host AS (SELECT span_id, ts_ns, list_position(['runtime', 'dequeue', 'enqueue', 'cpu_op'], kind) AS far "
        "FROM span WHERE kind IN ('runtime', 'dequeue', 'enqueue', 'cpu_op')), "
        "call AS (SELECT work.span_id, max((far, host.ts_ns, host.span_id))[3] AS host_id FROM link "
        "JOIN work ON work.span_id = dst_span_id JOIN host ON host.span_id = src_span_id GROUP BY work.span_id) "
        "SELECT coalesce(host_id, -1) AS host_id, sum(ns)::BIGINT AS ns FROM work LEFT JOIN call USING (span_id) "
        "WHERE ns > 0 GROUP BY host_id ORDER BY host_id"
    ).fetchnumpy()
    host, ns = _ints(found["host_id"]), _ints(found["ns"])
    return host[host >= 0], ns[host >= 0], int(ns[host < 0].sum())


def _drawn(tree: _Tree, of: Ints, ns: Ints, unlinked: int) -> Flame:
    size = len(tree.parents)
    own = np.bincount(of, ns, size).astype(np.int64) if size else np.zeros(0, np.int64)
    count = np.bincount(of, minlength=size)
    total = own.copy()
    for place in range(size - 1, -1, -1):  # children come after their parents
        if tree.parents[place] >= 0:
            total[tree.parents[place]] += total[place]
    whole = int(total[tree.parents < 0].sum()) if size else 0
    least = max(1, int(whole * THINNEST))
    kept = sorted(np.flatnonzero(total >= least).tolist(), key=lambda at: -int(total[at]))[:MOST_FRAMES]
    place_of: Mapping[int, int] = {at: number for number, at in enumerate(sorted(kept))}
    frames = tuple(
        Frame(
            place_of[int(tree.parents[at])] if tree.parents[at] >= 0 else -1, tree.names[at], tree.kinds[at],
            int(count[at]), int(total[at]), int(own[at]),
        )
        for at in sorted(kept)
    )  # fmt: skip
    return Flame(frames, whole, unlinked, int(np.count_nonzero(total > 0)) - len(kept))


@dataclass(frozen=True)
class Differs:
    """A frame of two flames: what it takes in each."""

    parent: int
    name: str
    kind: str
    base_ns: int
    head_ns: int


def differences(base: Flame, head: Flame, base_count: int, head_count: int) -> tuple[Differs, ...]:
    """The frames of both, parents first; those of one path are one. Each side is a mean of so many windows."""
    places: dict[tuple[int, str], int] = {}
    rows: list[list[object]] = []
    for side, (one, count) in enumerate(((base, base_count), (head, head_count))):
        own: list[int] = []
        for frame in one.frames:
            parent = own[frame.parent] if frame.parent >= 0 else -1
            key = parent, frame.name
            if key not in places:
                places[key] = len(rows)
                rows.append([parent, frame.name, frame.kind, 0, 0])
            own.append(places[key])
            rows[places[key]][3 + side] = frame.total_ns // count
    return tuple(Differs(*row) for row in rows)  # type: ignore[arg-type]
