"""A graph of moments: each happens once the last of those it waits for has, and its own time is over.

Node by node the edges that lead to it stand together, and lead from earlier nodes. `_maxplus.c` does the same in C.
"""

from __future__ import annotations

import os
from contextlib import suppress
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.intervals import Ints

_native: Any = None
if not os.environ.get("NPULENS_PLAIN"):
    with suppress(ImportError):  # built without a compiler
        _native = import_module("npulens.analysis.replay._maxplus")


def solve(first: Ints, source: NDArray[np.int32], lag: Ints, rest: Ints) -> Ints:
    """The time of every node."""
    time = np.empty(len(rest), np.int64)
    if _native is not None:
        _native.solve(*(np.ascontiguousarray(part) for part in (first, source, lag, rest)), time)
    else:
        plain(first, source, lag, rest, time)
    return time


def plain(first: Ints, source: NDArray[np.int32], lag: Ints, rest: Ints, time: Ints) -> None:
    """The same without a compiler."""
    sources, lags, bounds = source.tolist(), lag.tolist(), first.tolist()
    times: list[int] = []
    if bounds[-1] > len(lags) or len(sources) != len(lags):
        raise ValueError("solve: buffers of unequal length")
    for i, more in enumerate(rest.tolist()):
        begin, end = bounds[i], bounds[i + 1]
        if any(not 0 <= sources[e] < i for e in range(begin, end)):
            raise ValueError("solve: an edge does not lead forward")
        times.append(max((times[sources[e]] + lags[e] for e in range(begin, end)), default=0) + more)
    time[:] = times


def walk(
    first: Ints, source: NDArray[np.int32], lag: Ints, rest: Ints, time: Ints, last: int, until: int
) -> tuple[Ints, Ints]:
    """From a node to what it waited for, and so on until a moment or until one waited for nothing.

    Of each node the edge that decided when it happened comes with it; -1: there is none.
    """
    nodes, edges = np.empty(last + 1, np.int64), np.empty(last + 1, np.int64)
    if _native is not None:
        parts = (np.ascontiguousarray(part) for part in (first, source, lag, rest, time))
        count = int(_native.walk(*parts, last, until, nodes, edges))
    else:
        count = walk_plain(first, source, lag, rest, time, last, until, nodes, edges)
    return nodes[:count], edges[:count]


def walk_plain(
    first: Ints, source: NDArray[np.int32], lag: Ints, rest: Ints, time: Ints, last: int, until: int,
    nodes: Ints, edges: Ints,
) -> int:  # fmt: skip
    """The same without a compiler; how many nodes there are."""
    node, count = last, 0
    while node >= 0 and time[node] > until:
        begin, end = int(first[node]), int(first[node + 1])
        reached = time[source[begin:end]] + lag[begin:end] + rest[node]
        deciding = np.flatnonzero(reached == time[node])
        edge = begin + int(deciding[-1]) if len(deciding) else -1
        nodes[count], edges[count] = node, edge
        count += 1
        node = int(source[edge]) if edge >= 0 else -1
    return count
