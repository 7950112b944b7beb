"""What a run is: which ranks of an upload belong to one session of the job.

Different ranks that share communication groups are one run, also by way of others: stages of a pipeline share groups
with their neighbours only. What is left comes together where it overlaps in time, or lies near and has no groups that
could disagree. A repeated rank or an unrelated time starts another run. Clocks of hosts can be minutes apart, so
windows need only be near; among several candidates the nearest session wins.
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
    begin_ns: int
    end_ns: int
    clock: str = "unix"


@dataclass
class Session:
    members: list[Member]

    @property
    def groups(self) -> frozenset[str]:
        return frozenset[str]().union(*(m.groups for m in self.members))

    def apart_ns(self, other: Session) -> int:
        """How far the windows of two sessions lie apart; 0 where they overlap."""
        return min(max(0, a.begin_ns - b.end_ns, b.begin_ns - a.end_ns) for a in self.members for b in other.members)

    def fits(self, other: Session) -> bool:
        """Whether nothing speaks against their being one: no rank twice, no rank unknown, one kind of clock."""
        ours, theirs = [{m.rank for m in session.members} for session in (self, other)]
        clocks = {m.clock for session in (self, other) for m in session.members}
        return None not in ours | theirs and not ours & theirs and len(clocks) == 1

    def related_ns(self, other: Session) -> int | None:
        """How far apart two sessions lie that share a group; None: they are not of one session of the job."""
        apart = self.apart_ns(other)
        return apart if self.groups & other.groups and self.fits(other) and apart <= SAME_GROUP_NS else None

    def near_ns(self, other: Session) -> int | None:
        """The same of two sessions without a common group: near, or overlapping where both have groups."""
        apart, most = self.apart_ns(other), 0 if self.groups and other.groups else NEAR_NS
        return apart if self.fits(other) and apart <= most else None


def sessions(members: list[Member]) -> list[list[Member]]:
    """Group ranks into runs. In order of time, so that the answer does not depend on names."""
    order = sorted(members, key=lambda m: (m.begin_ns, m.end_ns, m.key))
    found = _joined(_joined([Session([member]) for member in order], Session.related_ns), Session.near_ns)
    return [sorted(session.members, key=lambda m: (m.rank or 0, m.key)) for session in found]


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
        found.sort(key=lambda session: min(m.begin_ns for m in session.members))
    return found
