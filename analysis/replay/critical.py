"""What the run's length is made of: the chain of moments each of which let the next one wait.

Backwards from the end of the longest window, every node names the edge that decided when it happened. The pieces tile
the window exactly; what no edge explains is a piece of its own. The same chain of a run with a change says what holds
it then (`held_by`). It also says how much of it stands still whatever one changes (`unmovable`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.finding import Change
from npulens.analysis.idle.culprit import codes, names
from npulens.analysis.intervals import Intervals, Ints
from npulens.analysis.replay.draft import GAP, HOST, LAUNCH, WHAT
from npulens.analysis.replay.graph import Graph, graph
from npulens.analysis.replay.maxplus import walk
from npulens.analysis.replay.whatif import replay
from npulens.analysis.run import Run

Bools = NDArray[np.bool_]
#: Where more of the critical path than this cannot move in the replay, a saving is only the least that is gained.
STILL = 0.05


@dataclass(frozen=True)
class Segment:
    """A piece of the critical path, on the common clock; minus `shift_ns` it is on the clock of its rank."""

    rank: int | None  # None: a peer that was not captured
    begin_ns: int
    end_ns: int
    what: str  # 'host', 'launch', 'queue', 'kernel', 'copy', 'comm', 'peer', 'sync' or 'unexplained'
    span_id: int | None
    shift_ns: int

    @property
    def dur_ns(self) -> int:
        return self.end_ns - self.begin_ns


#: What a piece can be.
WHATS = (*dict.fromkeys(WHAT), "unexplained")
#: Piece of a path that no edge explains.
_REST = -1
_PLACES = np.array([*map(WHATS.index, WHAT), len(WHATS) - 1])  # of a kind of edge, and of none, among WHATS


@dataclass(frozen=True)
class Chain(Sequence[Segment]):
    """The pieces of the critical path in columns, the first first; each is made when it is asked for."""

    ranks: tuple[int, ...]
    offsets: Ints  # of each rank's clock to the common one
    at_rank: Ints  # place of its rank among `ranks`; -1: a peer that was not captured
    begin: Ints
    end: Ints
    what: Ints  # place among WHATS
    span: Ints  # -1: none

    @property
    def dur(self) -> Ints:
        return self.end - self.begin

    @property
    def shift(self) -> Ints:
        """Of each piece's rank to the common clock."""
        return np.append(self.offsets, 0)[self.at_rank]

    def kind(self, what: str) -> Bools:
        """Which pieces are of one kind."""
        return np.asarray(self.what == WHATS.index(what))

    def __len__(self) -> int:
        return len(self.begin)

    @overload
    def __getitem__(self, at: int) -> Segment: ...
    @overload
    def __getitem__(self, at: slice) -> list[Segment]: ...
    def __getitem__(self, at: int | slice) -> Segment | list[Segment]:
        if isinstance(at, slice):
            return [self[place] for place in range(len(self))[at]]
        index, span = int(self.at_rank[at]), int(self.span[at])
        rank, shift = (self.ranks[index], int(self.offsets[index])) if index >= 0 else (None, 0)
        begin, end = int(self.begin[at]), int(self.end[at])
        return Segment(rank, begin, end, WHATS[int(self.what[at])], None if span < 0 else span, shift)


@dataclass(frozen=True)
class Held:
    """What holds a run's end when something else is mended: most of the path there, while the mended part happened."""

    kind: str  # as in Segment
    rank: int | None  # None: a peer that was not captured
    name: str | None  # of the span or the code with most of it
    share: float  # of the path meanwhile


@dataclass(frozen=True)
class _Path:
    """The chain of moments from the end of the longest window to its begin; one row per piece, the last first."""

    node: Ints
    source: Ints  # -1: it waited for nothing
    begin: Ints
    end: Ints
    kind: Ints  # of the edge; -1: no edge explains the piece


def critical_path(run: Run) -> Chain:
    """The pieces of the longest window, from its begin to its end, without a hole and without overlap."""
    found, path = run.get(graph), run.get(_recorded)
    settled, node = found.settled, path.node[::-1]
    return Chain(
        found.ranks, found.offsets, settled.rank[node].astype(np.int64), path.begin[::-1], path.end[::-1],
        _PLACES[path.kind[::-1]], settled.span[node],
    )  # fmt: skip


def held_by(run: Run, change: Change) -> Held | None:
    """What the run waits for instead, once a change is made that gives little back; None: there is nothing to walk.

    Of the critical path with the change, the pieces that lie in what the change is about count. Told is what kind of
    node, and which rank, holds most of them.
    """
    found, made = run.get(graph), replay(run, change)
    settled = found.settled
    path = run.get(_recorded) if made is None else _walked(found, made.time, made.lag, made.rest)
    length = path.end - path.begin
    where = _about(found, change)
    began = settled.time[np.maximum(path.source, 0)]
    inside = np.minimum(where.within(np.where(path.source < 0, settled.time[path.node], began),
                                     settled.time[path.node]), length)  # fmt: skip
    weight = inside if inside.any() else length
    if not weight.any():
        return None
    key = (settled.rank[path.node].astype(np.int64) + 1) * 64 + path.kind + 1
    groups, which = np.unique(key, return_inverse=True)
    total = np.bincount(which, weight, len(groups))
    best = int(np.argmax(total))
    mine = np.flatnonzero(which == best)
    worst = mine[np.argmax(weight[mine])]
    index = int(settled.rank[path.node[worst]])
    rank = found.ranks[index] if index >= 0 else None
    return Held(
        _what(int(path.kind[worst])), rank, _called(run, found, rank, path, worst), float(total[best] / weight.sum())
    )


def waits_for_absent(run: Run, change: Change) -> bool:
    """Whether a rank that was not captured holds the run's end then.

    Collectives that are quicker are so for it as well, and nobody knows what it waited for itself.
    """
    held = held_by(run, change) if run.missing_ranks != () else None
    return held is not None and held.kind == "peer"


def unmovable(run: Run) -> float:
    """The share of the critical path that no change can move.

    It is time that nothing explains. It is also what runs without a known launch after the one before on its stream,
    wherever the host was.
    """
    found, path = run.get(graph), run.get(_recorded)
    settled = found.settled
    length = path.end - path.begin
    if not length.sum():
        return 0.0
    target = np.repeat(np.arange(len(settled.time)), np.diff(settled.first))
    launched = np.zeros(len(settled.time), np.bool_)
    launched[target[np.isin(settled.kind, (LAUNCH, HOST))]] = True
    starts = np.zeros(len(settled.time), np.bool_)
    starts[found.task_start[found.task_instance < 0]] = True
    still = (path.kind == _REST) | (path.kind == GAP) & starts[path.node] & ~launched[path.node]
    return float(length[still].sum() / length.sum())


def _what(kind: int) -> str:
    return WHATS[int(_PLACES[kind])]


def _recorded(run: Run) -> _Path:
    """Of the run as it was recorded."""
    found = run.get(graph)
    return _walked(found, found.settled.time, found.settled.lag, found.settled.rest)


def _walked(found: Graph, time: Ints, lag: Ints, rest: Ints) -> _Path:
    """Backwards from the end of the longest window, along the edges that decided."""
    settled, none = found.settled, np.zeros(0, np.int64)
    has = np.flatnonzero(found.begin >= 0)
    if not len(has):
        return _Path(none, none, none, none, none)
    index = has[np.argmax(time[found.end[has]] - time[found.begin[has]])]
    begin = int(time[found.begin[index]])
    node, edge = walk(settled.first, settled.source, lag, rest, time, int(found.end[index]), begin)
    at = time[node]
    source = np.where(edge >= 0, settled.source[np.maximum(edge, 0)], -1) if len(lag) else edge
    known = edge >= 0
    reached = np.where(known, np.maximum(at - rest[node], begin), begin)
    # Of each node what nothing explains, then what its edge does.
    low = np.where(known, np.maximum(begin, time[source]), reached)
    kind = np.where(known, settled.kind[np.maximum(edge, 0)] if len(lag) else _REST, _REST)
    pieces = np.stack((
        np.repeat(node, 2), np.repeat(source, 2), np.stack((reached, low), 1).ravel(),
        np.stack((at, np.where(known, at - rest[node], begin)), 1).ravel(),
        np.stack((np.full(len(node), _REST), kind), 1).ravel(),
    ))  # fmt: skip
    return _Path(*pieces[:, pieces[2] < pieces[3]])


def _about(found: Graph, change: Change) -> Intervals:
    """When what a change is about happened, on the common clock."""
    time = found.settled.time
    parts = []
    for windows in (change.host, change.cut):
        for rank, some in windows.items():
            if rank in found.ranks:
                shift = found.offsets[found.ranks.index(rank)]
                parts.append((some.starts + shift, some.ends + shift))
    if len(found.task_span):
        for spans in (change.tasks, change.peers, change.delays):
            at = np.minimum(np.searchsorted(found.task_span, spans), len(found.task_span) - 1)
            at = at[found.task_span[at] == spans]
            parts.append((time[found.task_start[at]], time[found.task_end[at]]))
    calls = np.isin(found.sync_span, change.syncs)
    parts.append((time[found.sync_start[calls]], time[found.sync_end[calls]]))
    return Intervals.union_of(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _called(run: Run, found: Graph, rank: int | None, path: _Path, piece: int) -> str | None:
    """The code that the host was at in a piece, or the name of the span that a device was at."""
    settled, node = found.settled, int(path.node[piece])
    if rank is not None and _what(int(path.kind[piece])) in ("host", "queue"):
        middle = (settled.time[path.source[piece]] + settled.time[node]) // 2 - found.offsets[found.ranks.index(rank)]
        return str(codes(run, rank, np.array([middle], np.int64))[0]) or None
    span = int(settled.span[node])
    return names(run, np.array([span], np.int64)).get(span) if span >= 0 else None
