"""Which send belongs to which receive, between two captured ranks."""

from __future__ import annotations

import numpy as np

from npulens.analysis.intervals import Ints
from npulens.analysis.ranks.collectives import POINT_TO_POINT, collectives
from npulens.analysis.ranks.comm_tasks import comm_tasks
from npulens.analysis.run import Run


def exchanges(run: Run) -> Ints:
    """Which send belongs to which receive: the same number for both sides, -1 where the other side is unknown.

    Two ranks exchange in the same order on both sides. Where one of them did so more often in a step, nothing tells.
    """
    known, tasks = run.get(collectives), run.get(comm_tasks)
    peer = known.peer.copy()
    named = tasks.peer >= 0
    peer[tasks.op[named][::-1]] = tasks.peer[named][::-1]
    for team, members in known.members.items():
        if len(members) == 2:
            of = known.team == team
            peer[of] = np.where(known.rank[of] == members[0], members[1], members[0])
    found = np.full(len(peer), -1, np.int64)
    sides: dict[tuple[int, int, int, int], dict[int, list[int]]] = {}
    for row in np.flatnonzero(known.of_kinds(POINT_TO_POINT) & (peer >= 0) & (peer != known.rank)):
        one, other = sorted((int(known.rank[row]), int(peer[row])))
        pair = (int(known.team[row]), int(known.step[row]), one, other)
        sides.setdefault(pair, {}).setdefault(int(known.rank[row]), []).append(int(row))
    number = int(known.instance.max(initial=-1)) + 1
    for ranks in sides.values():
        both = list(ranks.values())
        if len(both) == 2 and len(both[0]) == len(both[1]):
            for rows in both:
                found[rows] = number + np.arange(len(rows))
            number += len(both[0])
    return found
