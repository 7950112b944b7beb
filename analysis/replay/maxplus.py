"""When everything happens: each node as soon as the last of what it waits for has.

``time[i] = max over the in-edges e of i (time[source[e]] + lag[e]) + rest[i]``; a node without
in-edges happens at ``rest[i]``. Edges lie by node: those of node i are ``first[i]:first[i + 1]``,
and each comes from an earlier node, so that one pass is enough. The C twin is some hundred times
faster.
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
