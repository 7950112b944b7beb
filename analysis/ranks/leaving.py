"""When the transfers of a collective were over, by when its other members left it.

A transfer has two ends. Where every member was captured and the others have left, nothing can come or go any more. What
a member takes after that is no transfer: something held its device up.

Members leave about together, but not at once. In a ring the last part travels on from member to member. So the last
leaves at most about one transfer after the first. What was sent last may still lie in a buffer. A member is told to
be held up only where it stays longer than that and than clocks are uncertain. A transfer
is as long as from the last arrival to the end of those others. Equal ones (group, kind, size) are asked as well,
without comparing clocks: who comes last does not wait. What the quickest member of a call usually takes is allowed too.

Of a kind in which members move different amounts, one may be done while others still exchange. There all others must
have left. A send may end early, its data in a buffer, so it says nothing of the receive. But a receive that is over has
everything, so it says that its send is over too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.device.kernels import middle
from npulens.analysis.intervals import Ints, combined
from npulens.analysis.ranks.clock import clock
from npulens.analysis.ranks.collectives import MEETING, POINT_TO_POINT, UNEVEN, Collectives, collectives
from npulens.analysis.ranks.exchanges import exchanges
from npulens.analysis.ranks.waits import GUESSED, UNKNOWN, between, complete, shifts, waits
from npulens.analysis.run import Run

#: That their send is over says nothing of these.
_RECEIVES = frozenset({"receive", "recv", "irecv"})


@dataclass(frozen=True)
class Held:
    """Operators whose transfer was over before they ended, and what of the rest nothing is computed beside."""

    rows: Ints
    ns: Ints


def over_ns(run: Run) -> Ints:
    """Per operator when its transfer was over, on its own rank's clock: its end, unless others tell better."""
    operators = run.get(collectives)
    over = operators.end.copy()
    number, even = _groups(run, operators)
    rows = np.flatnonzero(number >= 0)
    if not len(rows):
        return over
    rows = rows[np.argsort(number[rows], kind="stable")]
    time, group = run.get(clock), np.unique(number[rows], return_inverse=True)[1].ravel()
    shift = shifts(time, operators.rank[rows])
    start, end = operators.ts[rows] + shift, operators.end[rows] + shift
    came = _by_group(start, group)[0]  # of each group the row that came last
    first, last, second = _leaving(end, group)
    others = np.where(np.arange(len(rows)) == last[group], second[group], last[group])  # the last of all the others
    by = np.where(even[rows], first[group], others)
    left, took = end[by], end[by] - start[came[group]]
    doubt = _doubt(run, operators.rank[rows], operators.rank[rows[by]], operators.rank[rows[came[group]]])
    known, took = (doubt >= 0) & (took >= 0), np.maximum(took, 0)
    allowed = np.maximum(took, _usual(operators, rows, group)) + doubt
    held = known & (end > left + allowed) & ~operators.of_kinds(_RECEIVES)[rows]
    arrival = run.get(waits).arrival_ns[rows]
    over[rows[held]] = np.clip(left - shift, arrival, operators.end[rows])[held]
    return over


def _groups(run: Run, operators: Collectives) -> tuple[Ints, NDArray[np.bool_]]:
    """The number of each operator's collective or exchange with all its members; -1: not all are known.

    And whether any member that left tells of the others: each moves as much as the other.
    """
    found = run.get(waits)
    known = ~np.isin(found.how, (UNKNOWN, GUESSED))
    meets = (operators.instance >= 0) & operators.of_kinds(MEETING) & complete(run, operators)
    number = np.where(meets, operators.instance, -1)
    number = np.where(operators.of_kinds(POINT_TO_POINT), run.get(exchanges), number)
    rows = np.flatnonzero(number >= 0)
    count = np.bincount(number[rows], minlength=int(number.max(initial=-1)) + 1)
    told = np.bincount(number[rows], known[rows], minlength=len(count))
    number[rows[(count[number[rows]] < _members(operators)[rows]) | (told[number[rows]] < count[number[rows]])]] = -1
    two = np.zeros(len(number), np.bool_)
    two[rows] = count[number[rows]] == 2
    return number, two | ~operators.of_kinds(UNEVEN)


def _members(operators: Collectives) -> Ints:
    """Per operator how many ranks take part in it: the members of its group, else those that were seen in it."""
    sizes = []
    for team in range(len(operators.teams)):
        members = operators.members.get(team)
        sizes.append(len(members) if members else len(np.unique(operators.rank[operators.team == team])))
    size = np.array(sizes, np.int64)[operators.team] if sizes else np.zeros(0, np.int64)
    return np.maximum(2, np.where(operators.of_kinds(POINT_TO_POINT), 2, size))


def _by_group(when: Ints, group: Ints) -> tuple[Ints, Ints]:
    """Of each group the row with the greatest value, and the one with the second greatest."""
    order = np.lexsort((when, group))
    last = np.flatnonzero(np.diff(group[order], append=-1))
    return order[last], order[np.maximum(last - 1, 0)]


def _leaving(end: Ints, group: Ints) -> tuple[Ints, Ints, Ints]:
    """Of each group who left first, who left last and who left before that one."""
    last, second = _by_group(end, group)
    return _by_group(-end, group)[0], last, second


def _doubt(run: Run, own: Ints, left: Ints, came: Ints) -> Ints:
    """How far off the clocks may be: from who left to who stays, and to who came last; -1: cannot be told."""
    time = run.get(clock)
    stays, takes = between(time, own, left), between(time, left, came)
    return np.where((stays < 0) | (takes < 0), -1, stays + takes)


def _usual(operators: Collectives, rows: Ints, group: Ints) -> Ints:
    """What equal operators of a group usually take the member that takes least, by its own clock alone."""
    least = np.full(int(group.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(least, group, operators.end[rows] - operators.ts[rows])
    equal = combined(operators.team[rows], operators.kind[rows], operators.bytes[rows])
    return middle(least[group].astype(np.float64), equal).astype(np.int64)


def held_up(run: Run) -> Held:
    """The operators whose device was held up after their transfer, on ranks whose computing was recorded."""
    operators, over = run.get(collectives), run.get(over_ns)
    rows = np.flatnonzero(over < operators.end)
    ns = operators.end[rows] - over[rows]
    for rank in np.unique(operators.rank[rows]).tolist():
        mine, computing = operators.rank[rows] == rank, run.activity(rank).computing
        ns[mine] -= ns[mine] if computing is None else computing.within(over[rows[mine]], operators.end[rows[mine]])
    return Held(rows[ns > 0], ns[ns > 0])
