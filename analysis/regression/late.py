"""Which rank the others wait for, where the change of the step is that wait.

A rank that takes longer on its own is waited for: its peers stay in the collective until it comes. So its own work
(everything but exposed communication) changed, while its exposed communication did not. The exposed communication of
the others changed by as much. This needs no common clock of the ranks, and no record of when each of them entered a
collective.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from npulens.analysis.regression.pieces import Measured

#: The wait must be this share of the step's change, and of what the late rank takes more than its peers.
EXPLAINED = 0.5
#: A late rank is one whose own communication changed by less than this share of what the others wait.
_OWN = 0.5
_WAIT = "communication"


@dataclass(frozen=True)
class Late:
    """A rank that takes longer on its own than before, or no longer does, and the wait of the others."""

    rank: int
    kind: str  # of pieces.KINDS, what of its own changed most
    own_ns: int  # by how much its own work changed, in a mean window
    wait_ns: int  # by how much the exposed communication of the others changed, in the mean of theirs


def late(base: Sequence[Measured], head: Sequence[Measured]) -> Late | None:
    """The rank, if the change is a wait for one. It needs the same ranks on both sides, and what tells work apart."""
    before, after = _ranks(base), _ranks(head)
    if before.keys() != after.keys() or len(before) < 2:
        return None
    kinds = set.intersection(*(set(kind) for side in (before, after) for kind in side.values()))
    if not {"kernel", _WAIT} <= kinds:
        return None
    delta = {rank: {kind: after[rank][kind] - ns for kind, ns in mine.items() if kind in kinds}
             for rank, mine in before.items()}  # fmt: skip
    step = sum(mine[_STEP] for mine in delta.values()) / len(delta)
    sign = 1 if step > 0 else -1
    own = {rank: sign * (mine[_STEP] - mine[_WAIT]) for rank, mine in delta.items()}
    rank = max(own, key=lambda each: own[each])
    others = [each for each in delta if each != rank]
    wait = sum(sign * delta[each][_WAIT] for each in others) / len(others)
    more = own[rank] - sum(own[each] for each in others) / len(others)
    if wait <= 0 or wait < EXPLAINED * max(more, abs(step)) or sign * delta[rank][_WAIT] > _OWN * wait:
        return None
    kind = max(kinds - {_WAIT, _STEP}, key=lambda each: (sign * delta[rank][each], each))
    return Late(rank, kind, round(sign * own[rank]), round(sign * wait))


_STEP = "step"


def _ranks(side: Sequence[Measured]) -> dict[int, dict[str, float]]:
    """Rank -> ns of each kind, and of the step, in its mean window."""
    windows: dict[int, int] = {}
    sums: dict[int, dict[str, int]] = {}
    for one in side:
        for each in one.ranks:
            windows[each.rank] = windows.get(each.rank, 0) + each.windows
            mine = sums.setdefault(each.rank, {})
            for kind, ns in ((_STEP, each.dur_ns), *each.ns):
                mine[kind] = mine.get(kind, 0) + ns
    return {rank: {kind: ns / max(1, windows[rank]) for kind, ns in mine.items()} for rank, mine in sums.items()}
