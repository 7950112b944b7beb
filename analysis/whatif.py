"""Replays the run with a change: what a fix would give back of the whole run.

Everything that does not change takes as long as it was recorded to take, and waits for the same
things (analysis/graph.py). Uncaptured peers are either as they were, or - where a change touches
every captured rank, so that it is the job's and not one rank's - keep their distance to them; the
kinder of the two counts, because a saving is a ceiling.
"""

from __future__ import annotations

import numpy as np

from analysis.finding import Change
from analysis.graph import Graph, graph
from analysis.graph_draft import MIRROR, PEER
from analysis.graph_edit import Edit
from analysis.intervals import Ints
from analysis.maxplus import solve
from analysis.run import Run


def saved_ns(run: Run, change: Change) -> int:
    """How much shorter the run's wall would be; never negative, and 0 for no change."""
    found = run.get(graph)
    edit = Edit(run, found)
    touched = edit.apply(change)
    if not edit.changed:
        return 0
    before = found.wall_ns(found.settled.time)
    return max(0, before - min(found.wall_ns(times) for times in _replays(found, edit, touched >= set(run.ranks))))


def _replays(found: Graph, edit: Edit, whole: bool) -> list[Ints]:
    """The times with the change: with peers as they were, and keeping their distance if the whole job changes."""
    settled = found.settled
    mirrors, chained = (np.flatnonzero(settled.kind == kind) for kind in (MIRROR, PEER))
    if not len(mirrors):
        return [solve(settled.first, settled.source, edit.lag, edit.rest)]
    replays = []
    for dropped in (mirrors, chained) if whole else (mirrors,):
        lag = edit.lag.copy()
        # A peer that came without a collective before has nothing but its distance.
        lag[dropped[edit.in_edges(edit.target(dropped)) > 1]] = edit.NEVER
        replays.append(solve(settled.first, settled.source, lag, edit.rest))
    return replays
