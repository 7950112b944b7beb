"""What a run is: which ranks of an upload belong to one session of the job.

Different ranks that share communication groups or overlap in time are one run. A repeated rank
or an unrelated time starts another. Clocks of hosts can be minutes apart, so windows need only
be near; among several candidates the nearest session wins.
"""

from __future__ import annotations

from dataclasses import dataclass, field

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
    members: list[Member] = field(default_factory=list)

    def distance(self, new: Member) -> tuple[int, int] | None:
        """How far a rank lies from this session (group first, then time); None: it does not belong."""
        if new.rank is None or any(m.rank in (None, new.rank) or m.clock != new.clock for m in self.members):
            return None
        groups = frozenset[str]().union(*(m.groups for m in self.members))
        shared = bool(groups & new.groups)
        if groups and new.groups and not shared:
            return None
        gap = min(max(0, m.begin_ns - new.end_ns, new.begin_ns - m.end_ns) for m in self.members)
        if gap > (SAME_GROUP_NS if shared else NEAR_NS):
            return None
        return (0 if shared else 1, gap)


def sessions(members: list[Member]) -> list[list[Member]]:
    """Group ranks into runs. In order of time, so that the answer does not depend on names."""
    found: list[Session] = []
    for new in sorted(members, key=lambda m: (m.begin_ns, m.end_ns, m.key)):
        near = [(distance, i) for i, session in enumerate(found) if (distance := session.distance(new)) is not None]
        if near:
            found[min(near)[1]].members.append(new)
        else:
            found.append(Session([new]))
    return [sorted(session.members, key=lambda m: (m.rank or 0, m.key)) for session in found]
