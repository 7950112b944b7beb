"""What the run's length is made of: the chain of moments each of which let the next one wait.

Backwards from the end of the longest window, every node names the edge that decided when it
happened. The pieces tile the window exactly; what no edge explains is a piece of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.graph import Graph, graph
from analysis.graph_draft import WHAT
from analysis.intervals import Ints
from analysis.run import Run


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


def critical_path(run: Run) -> list[Segment]:
    """The pieces of the longest window, from its begin to its end, without a hole and without overlap."""
    found = run.get(graph)
    settled, time = found.settled, found.settled.time
    has = np.flatnonzero(found.begin >= 0)
    if not len(has):
        return []
    index = has[np.argmax(time[found.end[has]] - time[found.begin[has]])]
    begin, node = int(time[found.begin[index]]), int(found.end[index])
    deciding = run.get(_deciding)
    pieces: list[Segment] = []
    while (at := int(time[node])) > begin:
        edge = int(deciding[node])
        if edge < 0:
            pieces.append(_segment(found, node, begin, at, "unexplained"))
            break
        reached, source = at - int(settled.rest[node]), int(settled.source[edge])
        if reached < at:
            pieces.append(_segment(found, node, max(begin, reached), at, "unexplained"))
        low = max(begin, int(time[source]))
        if low < reached:
            pieces.append(_segment(found, node, low, reached, WHAT[int(settled.kind[edge])]))
        node = source
    return pieces[::-1]


def _deciding(run: Run) -> Ints:
    """Per node the edge that decided when it happened; -1: it waited for nothing."""
    settled = run.get(graph).settled
    target = np.repeat(np.arange(len(settled.time)), np.diff(settled.first))
    edges = np.flatnonzero(settled.time[settled.source] + settled.lag + settled.rest[target] == settled.time[target])
    found = np.full(len(settled.time), -1, np.int64)
    found[target[edges]] = edges
    return found


def total_by_what(segments: list[Segment]) -> dict[str, int]:
    """How much of the path each kind of piece makes."""
    total: dict[str, int] = {}
    for segment in segments:
        total[segment.what] = total.get(segment.what, 0) + segment.dur_ns
    return total


def _segment(found: Graph, node: int, begin: int, end: int, what: str) -> Segment:
    index, span = int(found.settled.rank[node]), int(found.settled.span[node])
    rank, shift = (found.ranks[index], int(found.offsets[index])) if index >= 0 else (None, 0)
    return Segment(rank, begin, end, what, None if span < 0 else span, shift)
