"""Kernels of base and head that do the same work under other names: renamed, fused into one, or split into several.

What only one side has stands in stretches between kernels that both have. There may be several kernels on one side and
a single one on the other, between the same neighbours. Such a stretch is one piece of work. Three things must agree:

* the places: the pair explains at least half of the places where any of its kernels runs;
* how often: the kernels run as often in a mean window as the places say;
* how long: neither side of the group takes more than `LONGER` times as long as the other.

Stretches of several kernels on both sides stay apart: nothing recorded says which of them belong together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

Key = tuple[str, ...]
Line = Sequence[Key | None]
#: A kernel that takes longer than those it replaces by more than this is other work. Chosen, not measured.
LONGER = 4.0
#: By so much the runs of a mean window may differ from what the places say. Windows begin and end inside of work.
_OFTEN = 0.1
#: Longer stretches are other programs, not fusions. Chosen, not measured.
_MOST = 12


@dataclass(frozen=True)
class Group:
    """What base calls some work and what head calls it, in the order in which the kernels run."""

    base: tuple[str, ...]
    head: tuple[str, ...]

    @property
    def state(self) -> str:
        """'renamed', 'fused' or 'split'."""
        return "fused" if len(self.base) > 1 else "split" if len(self.head) > 1 else "renamed"


@dataclass(frozen=True)
class Mean:
    """A kernel in the mean window of its side."""

    count: float
    ns: float


def stretches(line: Line, both: set[Key]) -> Iterator[tuple[Key | None, tuple[Key, ...], Key | None]]:
    """What one side only has, between its neighbours that both have; None where a stream begins or ends."""
    first = 0
    while first < len(line):
        only: list[Key] = []
        while (here := line[first]) is not None and here not in both:
            only.append(here)
            first += 1
        if only:
            yield line[first - len(only) - 1], tuple(only), here
        first += 1


def regrouped(
    lines: Sequence[Line], both: set[Key], means: Sequence[Mapping[Key, Mean]]
) -> Iterator[tuple[tuple[Key, ...], tuple[Key, ...]]]:
    """Kernels of base and those of head that took their place; one side of each pair is a single kernel."""
    spots = [Counter(stretches(line, both)) for line in lines]
    often = [Counter(key for key in line if key is not None) for line in lines]
    there: dict[tuple[Key | None, Key | None], list[tuple[tuple[Key, ...], int]]] = {}
    for (left, only, right), count in spots[1].items():
        there.setdefault((left, right), []).append((only, count))
    votes: Counter[tuple[tuple[Key, ...], tuple[Key, ...]]] = Counter()
    for (left, only, right), count in spots[0].items():
        for other, as_often in there.get((left, right), ()) if (left, right) != (None, None) else ():
            if len(only) + len(other) > 2 and min(len(only), len(other)) == 1:
                votes[only, other] += min(count, as_often)
    taken: tuple[set[Key], set[Key]] = (set(), set())
    for pair, count in sorted(votes.items(), key=lambda item: (-item[1], item[0])):
        free = all(used.isdisjoint(side) for used, side in zip(taken, pair, strict=True))
        if free and max(map(len, pair)) <= _MOST and _agree(pair, count, often, means):
            for used, side in zip(taken, pair, strict=True):
                used.update(side)
            yield pair


def _agree(
    pair: tuple[tuple[Key, ...], tuple[Key, ...]], count: int, often: Sequence[Counter[Key]],
    means: Sequence[Mapping[Key, Mean]],
) -> bool:  # fmt: skip
    """Whether places, runs and times of both sides speak of the same work."""
    runs: list[float] = []
    for side, seen, mean in zip(pair, often, means, strict=True):
        for key, times in Counter(side).items():
            if 2 * count * times < seen[key]:
                return False
            runs.append(mean[key].count / times)
    lengths = [sum(mean[key].ns for key in set(side)) for side, mean in zip(pair, means, strict=True)]
    return max(runs) <= (1 + _OFTEN) * min(runs) and max(lengths) <= LONGER * min(lengths)
