"""What a run is: which ranks of an upload belong to one session of the job.

Different ranks that share communication groups are one run, also by way of others: stages of a pipeline share groups
with their neighbours only. What is left comes together where it overlaps in time, or lies near and has no groups that
could disagree. A repeated rank or an unrelated time starts another run. Clocks of hosts can be minutes apart, so
windows need only be near; among several candidates the nearest session wins. Ranks without a single stamp come to the
one session that has their groups, their steps and their world; where several do, or none, they stay by themselves.
What metadata says must agree: the size of the world always, the numbers of the steps where times do not overlap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

#: Ranks without a common group: how far their windows may lie apart (host clocks differ by minutes).
NEAR_NS = 5 * 60 * 10**9
#: Ranks that share a group: a group id can come back in the next session of the same job.
SAME_GROUP_NS = 60 * 60 * 10**9


@dataclass(frozen=True)
class Member:
    """A parsed rank, as grouping sees it."""

    key: int
    rank: int | None
    groups: frozenset[str]
    begin_ns: int | None  # None: it has no stamps
    end_ns: int | None
    clock: str = "unix"
    world_size: int | None = None
    steps: tuple[int, int] | None = None  # the first and the last number


@dataclass
class Session:
    members: list[Member]

    @property
    def groups(self) -> frozenset[str]:
        return frozenset[str]().union(*(m.groups for m in self.members))

    @property
    def windows(self) -> list[tuple[int, int]]:
        """Begin and end of each member that has stamps."""
        return [(m.begin_ns, m.end_ns) for m in self.members if m.begin_ns is not None and m.end_ns is not None]

    def apart_ns(self, other: Session) -> int:
        """How far the windows of two sessions lie apart; 0 where they overlap, or where neither has stamps."""
        pairs = [(a, b) for a in self.windows for b in other.windows]
        return min((max(0, a[0] - b[1], b[0] - a[1]) for a, b in pairs), default=0)

    def fits(self, other: Session) -> bool:
        """Whether nothing speaks against their being one: no rank twice or unknown, one clock, one world, steps."""
        ours, theirs = [{m.rank for m in session.members} for session in (self, other)]
        both = [*self.members, *other.members]
        clocks = {m.clock for m in both if m.begin_ns is not None}
        worlds = {m.world_size for m in both if m.world_size is not None}
        if None in ours | theirs or ours & theirs or len(clocks) > 1 or len(worlds) > 1:
            return False
        return self.same_steps(other) is not False or self.apart_ns(other) == 0

    def same_steps(self, other: Session) -> bool | None:
        """Whether both recorded a step of the same number; None: one of them numbers none."""
        ours, theirs = ([m.steps for m in session.members if m.steps is not None] for session in (self, other))
        return any(a[0] <= b[1] and b[0] <= a[1] for a in ours for b in theirs) if ours and theirs else None

    def related_ns(self, other: Session) -> int | None:
        """How far apart two sessions lie that share a group; None: they are not of one session of the job."""
        apart = self.apart_ns(other)
        return apart if self.groups & other.groups and self.fits(other) and apart <= SAME_GROUP_NS else None

    def near_ns(self, other: Session) -> int | None:
        """The same of two sessions without a common group: near, or overlapping where both have groups."""
        apart, most = self.apart_ns(other), 0 if self.groups and other.groups else NEAR_NS
        return apart if self.fits(other) and apart <= most else None

    def explains(self, other: Session) -> bool:
        """Whether a session without stamps may belong here: its groups and its steps say so."""
        return bool(self.groups & other.groups) and self.fits(other) and bool(self.same_steps(other))


def sessions(members: list[Member]) -> list[list[Member]]:
    """Group ranks into runs. In order of time, so that the answer does not depend on names."""
    order = sorted(members, key=lambda m: (m.begin_ns or 0, m.end_ns or 0, m.key))
    stamped, others = ([Session([m]) for m in order if (m.begin_ns is None) == without] for without in (False, True))
    found, apart = (_joined(_joined(part, Session.related_ns), Session.near_ns) for part in (stamped, others))
    for session in [Session([m]) for part in apart for m in part.members]:
        if len(near := [one for one in found if one.explains(session)]) == 1:
            near[0].members += session.members
    placed = {m.key for session in found for m in session.members}
    left = (Session([m for m in part.members if m.key not in placed]) for part in apart)
    every = [*found, *(session for session in left if session.members)]
    return [sorted(session.members, key=lambda m: (m.rank or 0, m.key)) for session in every]


def _joined(parts: list[Session], distance: Callable[[Session, Session], int | None]) -> list[Session]:
    """Each part put to the nearest of those before it that it belongs to, and with it whatever that brings together."""
    found: list[Session] = []
    for part in parts:
        while True:
            near = [(apart, i) for i, session in enumerate(found) if (apart := distance(session, part)) is not None]
            if not near:
                break
            part = Session([*found.pop(min(near)[1]).members, *part.members])
        found.append(part)
        found.sort(key=lambda session: min((begin for begin, _ in session.windows), default=0))
    return found
