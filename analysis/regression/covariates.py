"""What else changed when the metric changed: the conditions of the nights on either side, the most telling first.

A condition is suspect if knowing it tells which side of the change a night lies on. One that switched once, just there,
comes before one that is different every night and therefore tells of any night. A suspect is no culprit: two conditions
that changed in the same night cannot be told apart by nights; a run with only one of them changed can.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

#: Nights on each side that are looked at.
_SIDE = 20
#: How well a condition must tell the sides apart; a coin has 0.
_LEAST = 0.5


@dataclass(frozen=True)
class Suspect:
    """A condition that changed with the metric."""

    name: str
    before: str | None  # on the last night before; None: not recorded
    after: str | None  # on the first night after
    tells: float  # 1: it tells the side of every night; 0: no better than a coin
    switches: int  # how often it changed within the nights that were looked at

    @property
    def score(self) -> float:
        """What suspects are ranked by."""
        return self.tells / max(self.switches, 1)


def suspects(
    nights: Sequence[Mapping[str, str]], first: int, last: int, begin: int = 0, end: int | None = None
) -> list[Suspect]:
    """The conditions that changed with a step whose new level began on one of the nights `first` to `last`.

    ``begin`` and ``end`` bound the nights that belong to the levels on either side, as the neighbouring changes do.
    """
    stop = len(nights) if end is None else end
    before = list(nights[max(begin, first - _SIDE) : first])
    after = list(nights[last : min(stop, last + _SIDE)])
    if not before or not after:
        return []
    between = list(nights[first:last])
    names = {name for night in [*before, *after] for name in night}
    found = [_suspect(name, before, between, after) for name in names]
    kept = [each for each in found if each.tells >= _LEAST and each.before != each.after]
    return sorted(kept, key=lambda each: (-each.score, each.name))


def _suspect(
    name: str, before: list[Mapping[str, str]], between: list[Mapping[str, str]], after: list[Mapping[str, str]]
) -> Suspect:
    sides = [[night.get(name) for night in side] for side in (before, after)]
    counts = [Counter(side) for side in sides]
    # Each value speaks for the side on which a larger share of the nights has it.
    right = sum(max(counts[0][value] / len(before), counts[1][value] / len(after)) for value in {*sides[0], *sides[1]})
    told = [night.get(name) for night in [*before, *between, *after]]
    switches = sum(a != b for a, b in zip(told[:-1], told[1:], strict=True))
    return Suspect(name, sides[0][-1], sides[1][0], right - 1.0, switches)
