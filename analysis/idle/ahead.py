"""Idle time in which the host cannot have been late: the task that ends the gap was launched before."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.idle.host_spans import NONE
from npulens.analysis.idle.issue import tasks
from npulens.analysis.idle.pieces import Idle, idle
from npulens.analysis.intervals import Ints
from npulens.analysis.run import Run


def launch_ends(run: Run, found: Idle) -> Ints:
    """Per piece when the call that launches the gap's task had ended; -1: no launch is known."""
    ends = np.full(len(found.rank), NONE, np.int64)
    for rank in found.ranks:
        own, did = found.on(rank), run.get(tasks)[rank]
        if not len(did.ids):
            continue
        order = np.argsort(did.ids, kind="stable")
        at = np.minimum(np.searchsorted(did.ids, found.task[own], sorter=order), len(order) - 1)
        place = order[at]
        known = (did.ids[place] == found.task[own]) & did.linked[place]
        ends[own] = np.where(known, did.source_end[place], NONE)
    return ends


def ahead(run: Run) -> NDArray[np.bool_]:
    """Which pieces without a reason lie after the launch of their task, so that the host was not late."""
    found = run.get(idle)
    return np.asarray(found.pick("unknown") & (launch_ends(run, found) != NONE))
