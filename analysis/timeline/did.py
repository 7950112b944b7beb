"""What each rank did at every moment, by role: one picture of a job, whatever the number of its ranks.

Roles tile the time of a rank from its first to its last edge. Where several things run, the first of this order counts:
computing, communication, copying, unknown work. Communication that nothing computes beside is waiting for a peer, where
the capture tells, or transferring. What is left is idle time by cause.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.idle.pieces import CODES, Idle
from npulens.analysis.intervals import EMPTY, Intervals, Ints
from npulens.analysis.ranks.collectives import collectives
from npulens.analysis.ranks.waits import UNKNOWN, waits
from npulens.analysis.run import Run

#: Roles of work; behind them come the causes of idle time, as in CODES.
WORK = ("computing", "transferring", "waiting", "copying", "unknown_work")
ROLES = (*WORK, *CODES)


@dataclass(frozen=True)
class Did:
    """One rank: role -> when. Roles that never occur are not there."""

    parts: Mapping[str, Intervals]


def did(run: Run, idle: Idle) -> dict[int, Did]:
    """Every rank whose device did anything."""
    operators, found = run.get(collectives), run.get(waits)
    known = (found.how != UNKNOWN) & (found.wait_ns > 0)
    rank, start = operators.rank[known], found.arrival_ns[known] - found.wait_ns[known]
    start, end = np.maximum(start, operators.ts[known]), np.minimum(found.arrival_ns[known], operators.end[known])
    made = {}
    for one in run.ranks:
        mine, here = rank == one, idle.rank == one
        parts = _worked(run, one, Intervals.union_of(start[mine], end[mine]))
        for code in np.unique(idle.cause[here]).tolist():
            of = here & (idle.cause == code)
            parts[CODES[code]] = Intervals(idle.start[of], idle.end[of])
        kept = {role: part for role, part in parts.items() if len(part.starts)}
        if kept:
            made[one] = Did(kept)
    return made


def _worked(run: Run, rank: int, waiting: Intervals) -> dict[str, Intervals]:
    activity = run.activity(rank)
    computing, communication = activity.computing or EMPTY, activity.communication or EMPTY
    bare = communication - computing
    told = computing | communication
    copying = (activity.copy or EMPTY) - told
    return {
        "computing": computing, "transferring": bare - waiting, "waiting": bare & waiting, "copying": copying,
        "unknown_work": (activity.unknown or EMPTY) - told - copying,
    }  # fmt: skip


def shares(
    of: Mapping[int, Did], rows: Sequence[Sequence[int]], begin: int, end: int, pixels: int
) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """Roles that occur, and the share of each in every pixel of each row; a row of several ranks is their mean.

    A rank that is not known counts as doing nothing, so that a row can be less than full.
    """
    edges = begin + (np.arange(pixels + 1, dtype=np.int64) * (end - begin)) // pixels
    wide = np.maximum(np.diff(edges), 1)
    roles = tuple(role for role in ROLES if any(role in one.parts for one in of.values()))
    found = np.zeros((len(rows), pixels, len(roles)))
    for row, ranks in enumerate(rows):
        for rank in ranks:
            for role, part in of[rank].parts.items() if rank in of else ():
                found[row, :, roles.index(role)] += part.within(edges[:-1], edges[1:]) / wide
        found[row] /= max(len(ranks), 1)
    return roles, found


def spent(of: Mapping[int, Did], ranks: Sequence[int], begin: int, end: int) -> list[tuple[int, str, int]]:
    """Rank, role and nanoseconds of a window; what did not occur in it is left out."""
    edges: tuple[Ints, Ints] = np.array([begin], np.int64), np.array([end], np.int64)
    found = [
        (rank, role, int(of[rank].parts[role].within(*edges)[0]))
        for rank in ranks
        if rank in of
        for role in ROLES
        if role in of[rank].parts
    ]
    return [row for row in found if row[2] > 0]
