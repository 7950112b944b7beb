"""Who comes last to collectives, by the order of calls alone: where nothing proves which calls are the same.

The n-th call from the end of each rank is taken for the same collective if the ranks made nearly as
many and the kinds agree. Their ends put the ranks on one clock, as far as they do: what is smaller
than the scatter of the ends does not count. So it is a hint, never a measurement.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from npulens.analysis.intervals import Ints
from npulens.analysis.ranks.collectives import POINT_TO_POINT, SHIFTS, UNNAMED, Collectives, collectives
from npulens.analysis.ranks.waits import GUESSED, UNKNOWN, waits
from npulens.analysis.run import Run

#: So many calls at least have an order; a wait has to be so many times the scatter of the ends.
_ENOUGH, _CLEARLY = 8, 3


@dataclass(frozen=True)
class Order:
    """The rank that came last most often to the collectives of one group."""

    rank: int
    count: int  # collectives compared
    last: int  # to so many of them it came last
    waiting: int  # the rank that waited most for it
    wait_ns: int  # that rank's waits for it, in the whole run
    late_ns: int  # by how much it came after the last but one, together
    rows: Ints  # of `collectives(run)`: the waiting rank's, the longest wait first
    row_wait_ns: Ints


def orders(run: Run) -> tuple[Order, ...]:
    """One per group whose waits nothing else tells, the longest wait first."""
    operators, found = run.get(collectives), run.get(waits)
    bare = ~operators.of_kinds(POINT_TO_POINT) & np.isin(found.how, (UNKNOWN, GUESSED))
    every = (_order(operators, np.flatnonzero(bare & (operators.team == team)))
             for team in np.unique(operators.team[bare]).tolist())  # fmt: skip
    return tuple(sorted((one for some in every for one in some), key=lambda one: -one.wait_ns))


def _order(operators: Collectives, rows: Ints) -> Iterator[Order]:
    ranks, count = np.unique(operators.rank[rows], return_counts=True)
    if len(ranks) < 2 or count.min() < _ENOUGH or count.max() - count.min() > SHIFTS:
        return
    place = np.stack([rows[operators.rank[rows] == rank][-count.min() :] for rank in ranks])  # by rank and call
    kind = np.where(operators.of_kinds(UNNAMED), -1, operators.kind)[place]
    known = kind.max(axis=0)
    if ((kind >= 0) & (kind != known)).any():
        return
    apart = operators.end[place[0]] - operators.end[place]
    offset = np.median(apart, axis=1).astype(np.int64)[:, None]
    scatter = int(np.median(np.abs(apart - offset)))
    came = operators.ts[place] + offset
    last, second = np.sort(came, axis=0)[-1], np.sort(came, axis=0)[-2]
    late = np.where(last - second > _CLEARLY * scatter, last - second, 0)
    who = np.argmax(came, axis=0)
    total = np.bincount(who, late, len(ranks))
    worst = int(np.argmax(total))
    mine = (who == worst) & (late > 0)
    if not mine.any():
        return
    length = operators.end[place] - operators.ts[place]
    wait = np.where(mine, np.minimum(np.maximum(last - came, 0), length), 0)
    waiting = int(np.argmax(wait.sum(axis=1)))
    order = np.argsort(-wait[waiting], kind="stable")[: int(mine.sum())]
    yield Order(
        int(ranks[worst]), int(count.min()), int(mine.sum()), int(ranks[waiting]), int(wait[waiting].sum()),
        int(total[worst]), place[waiting][order], wait[waiting][order],
    )  # fmt: skip
