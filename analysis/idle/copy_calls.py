"""Copies that only the host shows: blocking calls that move data, on a rank none of whose copies the device recorded.

A driver may move data without a task of the device (aclrtMemcpy of pageable memory). Then the call itself is the copy.
A call that reads a value is no such copy: the device idles in it only while the call returns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.idle.host_names import LAYER
from npulens.analysis.idle.pieces import idle
from npulens.analysis.intervals import Ints
from npulens.analysis.run import Run

#: Blocking copies of the runtimes, and those that only start one.
_BLOCKING = (
    r"aclrtMemcpy(?:2d)?|MemCopySync|(?:cuda|hip)Memcpy(?:2D|3D|Peer|ToSymbol|FromSymbol)?|hipMemcpyWithStream|"
    r"cuMemcpy(?:[HD]to[HD])?(?:_v2)?"
)
_STARTING = r"(?:aclrt|cuda|hip|cu)?Mem(?:cpy|Copy)\w*Async\w*"
#: A call that reads a value returns within this time once the device is done; real captures show 4 to 40 us.
_RETURNS_NS = 50_000

_CALLS = f"""
    SELECT s.span_id, s.rank, s.ts_ns, regexp_matches(s.name, '{LAYER}(?:{_BLOCKING})$') AS blocking FROM span s
    WHERE s.kind = 'runtime' AND regexp_matches(s.name, '{LAYER}(?:{_BLOCKING}|{_STARTING})$')
        AND s.rank NOT IN (SELECT rank FROM span WHERE kind = 'memcpy')
"""


@dataclass(frozen=True)
class CopyCalls:
    """Copies of ranks on whose device none was recorded."""

    pieces: NDArray[np.bool_]  # of the idle pieces, those in calls that move data
    unseen: dict[int, int]  # rank -> calls in its window that only start a copy: nothing tells how long it took


def copy_calls(run: Run) -> CopyCalls:
    """What calls of the host tell of copies that the device did not record."""
    rows, pieces = run.columns(_CALLS), run.get(idle)
    blocking = rows["blocking"].astype(np.bool_)
    calls: Ints = np.sort(rows["span_id"].astype(np.int64)[blocking])
    long = pieces.pick("sync_stall") & (pieces.end - pieces.start > _RETURNS_NS)
    unseen = {}
    for rank in run.ranks:
        window = run.window(rank)
        at = rows["ts_ns"].astype(np.int64)[(rows["rank"] == rank) & ~blocking]
        if window is not None and (count := int(((at >= window[0]) & (at < window[1])).sum())):
            unseen[rank] = count
    return CopyCalls(np.asarray(long & np.isin(pieces.host, calls)), unseen)
