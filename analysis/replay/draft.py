"""A replay graph in the making: nodes and edges in any order, and what they settle to.

An edge says "not before that much after its source". Its `lag` is what such a thing usually takes, its `most` what it
may take without looking odd. A node may come later than any of its edges says. Then the edge that let it wait longest
takes the excess up to its `most`. The rest stays with the node as time that nothing recorded explains. So the unchanged
replay gives back every recorded time, and a change moves what is explained.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.intervals import Ints

#: Kinds of edges: what the time between the two nodes is spent with.
HOST, OWN, BUSY, QUEUE, LAUNCH, GAP, EVENT, KERNEL, COPY, COMM, PEER, MIRROR, SYNC, LAST = range(14)
#: How people call them.
WHAT = (
    "host", "host", "queue", "queue", "launch", "launch", "launch", "kernel", "copy", "comm", "peer", "peer", "sync",
    "sync",
)  # fmt: skip
#: Excess of edges that take all of it.
ALL = np.iinfo(np.int64).max
#: How often nodes of one instant are put in order again; a longer chain of instants is cut.
_ROUNDS = 64


@dataclass(frozen=True)
class Settled:
    """Nodes in the order of time, edges by the node they lead to."""

    time: Ints
    rank: NDArray[np.int32]
    span: Ints  # the span a node is an edge of; -1: none
    first: Ints  # the edges of node i are first[i]:first[i + 1]
    source: NDArray[np.int32]
    lag: Ints
    kind: NDArray[np.uint8]
    rest: Ints


@dataclass
class Draft:
    """Collects nodes and edges; `settle` puts them in order."""

    count: int = 0
    shift: int = 0  # from the clock of the rank being added to the common one
    _nodes: list[tuple[Ints, NDArray[np.int32], Ints]] = field(default_factory=list)
    _edges: list[tuple[NDArray[np.int32], NDArray[np.int32], Ints, Ints, NDArray[np.uint8]]] = field(
        default_factory=list
    )

    def nodes(self, time: Ints, rank: int, span: Ints | None = None) -> Ints:
        """Adds nodes and returns their numbers."""
        of = np.full(len(time), -1, np.int64) if span is None else span
        self._nodes.append((time.astype(np.int64) + self.shift, np.full(len(time), rank, np.int32), of))
        self.count += len(time)
        return np.arange(self.count - len(time), self.count, dtype=np.int64)

    def edges(self, source: Ints, target: Ints, lag: Ints | int, kind: int, most: Ints | int | None = None) -> None:
        """Adds edges. `most`: the lag it may get; without it, no more than `lag`."""
        lags = np.broadcast_to(np.asarray(lag, np.int64), source.shape)
        mosts = lags if most is None else np.broadcast_to(np.asarray(most, np.int64), source.shape)
        self._edges.append((
            source.astype(np.int32), target.astype(np.int32), lags, mosts, np.full(len(source), kind, np.uint8)
        ))  # fmt: skip

    def settle(self) -> tuple[Settled, Ints]:
        """Orders nodes by time, drops what would lead backwards, and gives every delay its place. Empties the draft.

        Also the place of each drafted node.
        """
        none = np.zeros(0, np.int64)
        self.edges(none, none, none, HOST)
        time, rank, span = (_emptied(self._nodes, column) for column in range(3))
        source, target, lag, most, kind = (_emptied(self._edges, column) for column in range(5))
        self._nodes.clear()
        self._edges.clear()
        order, place = _ordered(time, source, target)
        time = time[order]
        source, target = place[source], place[target]
        by = np.argsort(target, kind="stable")
        by = by[(source[by] < target[by]) & (time[source[by]] <= time[target[by]])]
        source, target = source[by].astype(np.int32), target[by].astype(np.int32)
        lag, most, kind = lag[by], most[by], kind[by]
        first = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.bincount(target, minlength=len(time)))))
        slack = time[target]
        slack -= time[source]
        np.minimum(lag, slack, out=lag)
        lag, rest = _excess(time, target, slack, lag, most, first)
        return Settled(time, rank[order], span[order], first, source, lag, kind, rest), place


def _emptied(parts: list[Any], column: int) -> Any:
    """One column of all parts."""
    return np.concatenate([part[column] for part in parts])


def _ordered(time: Ints, source: Ints, target: Ints) -> tuple[Ints, Ints]:
    """Nodes by time, those of one instant so that edges lead forward."""
    order = np.argsort(time, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    instant = np.flatnonzero(time[source] == time[target])
    if not np.any(place[source[instant]] >= place[target[instant]]):
        return order, place
    level = np.zeros(len(time), np.int64)
    for _ in range(_ROUNDS):
        above = level[source[instant]] + 1
        late = above > level[target[instant]]
        if not late.any():
            break
        np.maximum.at(level, target[instant][late], above[late])
    order = np.lexsort((level, time))
    place[order] = np.arange(len(order))
    return order, place


def _excess(
    time: Ints, target: NDArray[np.int32], slack: Ints, lag: Ints, most: Ints, first: Ints
) -> tuple[Ints, Ints]:
    """Lags that take the excess of the node they decide, and what is left to each node."""
    has = np.flatnonzero(first[1:] > first[:-1])
    if not len(has):
        return lag, time.copy()
    spare = slack
    spare -= lag  # how much longer the edge could have taken
    excess = np.zeros(len(time), np.int64)
    excess[has] = np.minimum.reduceat(spare, first[has])
    late = np.flatnonzero(excess)
    rest = time.copy()
    rest[has] = excess[has]
    edges = np.flatnonzero((spare == excess[target]) & (excess[target] > 0) & (most > lag))
    more = np.minimum(spare[edges], most[edges] - lag[edges])
    lag[edges] += more
    given = np.zeros(len(time), np.int64)
    np.maximum.at(given, target[edges], more)
    rest[late] -= given[late]
    return lag, rest
