"""The most that idle time can come to where not all work of the device was recorded.

What else the device did is not known, and need not be. No more is left than the time in which no known work runs. What
costs nothing but idle time cannot cost more than that, whatever was not recorded.
"""

from __future__ import annotations

import numpy as np

from npulens.analysis.causes import OF_IDLE
from npulens.analysis.device.family import by_msprof_op, family
from npulens.analysis.intervals import EMPTY, Intervals
from npulens.analysis.run import Run

#: Detectors of idle time alone, and the one of copies: those cost as well.
_OF_IDLE, _OF_COPIES = frozenset({*OF_IDLE, "idle_unexplained", "environment"}), "copy_exposed"


def idle_at_most(run: Run, name: str) -> int | None:
    """The most ns of the run that a detector can speak of, all ranks together; None: nothing bounds it."""
    if name != _OF_COPIES and name not in _OF_IDLE:
        return None
    return run.get(_beside_copies if name == _OF_COPIES else _beside_work)


def _beside_work(run: Run) -> int | None:
    return _left(run, True)


def _beside_copies(run: Run) -> int | None:
    return _left(run, False)


def _left(run: Run, copies: bool) -> int | None:
    """The ns of all windows in which no known work runs; ``copies``: known copies are such work."""
    left = 0
    if run.get(by_msprof_op) or run.get(family) == "cpu":  # one operator says nothing of its job, a CPU does not idle
        return None
    for rank in run.ranks:
        window, did = run.window(rank), run.activity(rank)
        if window is None or did.computing is None:
            return None
        begin, end = (np.array([edge], np.int64) for edge in window)
        empty = Intervals.union_of(begin, end)
        for work in (did.computing, did.communication, did.unknown, did.copy if copies else EMPTY):
            empty = empty - (work or EMPTY)
        left += empty.total()
    return left
