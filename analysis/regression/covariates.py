"""What else changed when the metric changed: the conditions of the nights on either side, the most telling first.

A condition is suspect if it changed with the metric: one value before, another since. It tells as much as the lower of
two shares. They are nights before that had the old value, and nights since that have the new one. One night that went
back does not clear it. A value that comes and goes is seen on both sides and tells nothing. A condition that is new
every night goes with any change, so neither is suspect. Only a commit is: it changes every night or two, and that it
changed in this one is still where to look.

Only nights of the two levels that meet at the change are looked at. What changed with the change before it explains
that one. Nights that may be on either side count for neither, so old and new value enclose all of them. A suspect is no
culprit. Two conditions that changed in the same night cannot be told apart by nights. A run with only one of them
changed can tell.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from npulens.analysis.regression.series import Change

Night = Mapping[str, str]

#: Nights on each side that are looked at.
_SIDE = 20
#: A condition that keeps each value for a shorter part of a side than this changes too often to tell anything.
_LEAST = 0.25
#: On so many nights a value may be seen on the other side. It was tried out for a night, or one night went back.
_STRAYS = 0.25
#: One that tells this much is taken for the reason.
_SURE = 0.9
#: Suspects that a reader can take in.
_MOST = 8
#: What the machine is, and not what runs on it.
_MACHINE = re.compile(
    r"(machine\.|host|hardware|device|driver|firmware|platform|kernel|cpu|AI Core|governor|clock|power"
    r"|temperature|throttled|memory_limit|numa)", re.IGNORECASE,
)  # fmt: skip
#: A variable of the environment is a setting, whatever it is named after: CPU_AFFINITY_CONF, HOST_CACHE_CAPACITY.
_VARIABLE = re.compile(r"(?:variables\.|env[. ])?[A-Z0-9]+(?:_[A-Z0-9]+)+")


@dataclass(frozen=True)
class Suspect:
    """A condition that changed with the metric."""

    name: str
    before: str | None  # on the last night before; None: not recorded
    after: str | None  # on the first night after
    tells: float  # 1: it had one value on every night before, and another on every night since
    switches: int  # how often it changed within the nights that were looked at

    @property
    def machine(self) -> bool:
        """Whether it is what the machine is, and not what runs on it."""
        return bool(_MACHINE.match(self.name)) and not _VARIABLE.fullmatch(self.name)

    @property
    def commit(self) -> bool:
        """Whether it is the state of somebody's code."""
        return is_commit(self.name)

    @property
    def sure(self) -> bool:
        """Whether it is taken for the reason. A commit that is new every night or two goes with any change."""
        return self.tells >= _SURE


def is_commit(name: str) -> bool:
    """Whether a condition is the state of somebody's code."""
    return name.rpartition(".")[2] == "commit"


def suspects_of(nights: Sequence[Night], changes: Sequence[Change], number: int) -> list[Suspect]:
    """The conditions that changed with one of the changes of a series."""
    begin = changes[number - 1].index if number > 0 else 0
    end = changes[number + 1].index if number + 1 < len(changes) else None
    return suspects(nights, changes[number].first, changes[number].last, begin, end)


def suspects(nights: Sequence[Night], first: int, last: int, begin: int = 0, end: int | None = None) -> list[Suspect]:
    """The conditions that changed with a step whose new level began on one of the nights `first` to `last`.

    ``begin`` and ``end`` bound the nights that belong to the levels on either side, as the neighbouring changes do.
    """
    stop = len(nights) if end is None else end
    before = nights[max(min(begin, first - 1), first - _SIDE, 0) : first]
    after = nights[last : min(max(stop, last + 1), last + _SIDE)]
    if not before or not after:
        return []
    found = [_suspect(name, before, nights[first:last], after) for name in {*before[-1], *after[0]}]
    return sorted(filter(None, found), key=lambda each: (-each.tells, each.switches, each.name))[:_MOST]


def _suspect(name: str, before: Sequence[Night], between: Sequence[Night], after: Sequence[Night]) -> Suspect | None:
    """A condition that has one value before and another since, unless it often has them otherwise too."""
    here, there = ([night.get(name) for night in side] for side in (before, after))
    old, new = here[-1], there[0]
    tells, strays = min(_share(here, old), _share(there, new)), max(_share(here, new), _share(there, old))
    if old == new or not (is_commit(name) or (tells >= _LEAST and strays <= _STRAYS)):
        return None
    told = [*here, *(night.get(name) for night in between), *there]
    return Suspect(name, old, new, tells, sum(a != b for a, b in zip(told[:-1], told[1:], strict=True)))


def _share(side: Sequence[str | None], value: str | None) -> float:
    return side.count(value) / len(side)
