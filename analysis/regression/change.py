"""What the change of the mean step is made of: kernels, gaps by cause, exposed copies, exposed communication.

Each contribution is the time its things own (analysis/regression/pieces.py) in the mean window of head less that in the
mean window of base. A kernel that got slower while the device would have idled shows twice, as a longer kernel and a
shorter gap: they add up, as everything does. Contributions and the residual sum to the change of the step to the
nanosecond; means of whole numbers leave remainders, which are given out so that they do.

Several runs of a side are one: all their windows count alike. What one side cannot tell apart is told apart on neither
and is residual.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from npulens.analysis.look.compare import _means
from npulens.analysis.regression.matching import LEVELS, named
from npulens.analysis.regression.pieces import KINDS, Measured, NotExact
from npulens.analysis.regression.spread import Design, reaches


@dataclass(frozen=True)
class Contribution:
    """What one thing adds to the change of the mean step."""

    kind: str  # of pieces.KINDS
    what: str  # kernel, operator or module; collective; direction of a copy; cause of a gap
    shapes: str
    dtypes: str
    base_ns: int
    head_ns: int
    base_count: float  # per window
    head_count: float
    state: str  # 'new', 'gone', 'renamed', 'count', 'time', 'same'
    before: str  # what base calls it, where that is another name
    reach_ns: float | None = None  # its interval is the change and so much to either side; None: too little to tell

    @property
    def delta_ns(self) -> int:
        return self.head_ns - self.base_ns

    @property
    def interval_ns(self) -> tuple[int, int] | None:
        """Within which its change lies."""
        return None if self.reach_ns is None else (
            math.floor(self.delta_ns - self.reach_ns), math.ceil(self.delta_ns + self.reach_ns))  # fmt: skip


@dataclass(frozen=True)
class Change:
    """The mean step of both sides, and where the difference comes from, the largest first."""

    base_ns: int
    head_ns: int
    contributions: tuple[Contribution, ...]
    base_residual_ns: int
    head_residual_ns: int
    told: tuple[str, ...]  # of pieces.KINDS, what both sides can tell apart

    @property
    def delta_ns(self) -> int:
        return self.head_ns - self.base_ns

    @property
    def delta_share(self) -> float | None:
        return self.delta_ns / self.base_ns if self.base_ns else None

    @property
    def residual_ns(self) -> int:
        """What of the change no contribution explains."""
        return self.head_residual_ns - self.base_residual_ns

    def of(self, kind: str) -> tuple[int, int]:
        """Time of one kind in the mean step of both sides."""
        mine = [one for one in self.contributions if one.kind == kind]
        return sum(one.base_ns for one in mine), sum(one.head_ns for one in mine)


def change(
    base: Sequence[Measured], head: Sequence[Measured], level: str = LEVELS[0], design: Design | None = None
) -> Change:
    """The change from base to head; ``level``: what kernels are added up by; without ``design`` no intervals."""
    sides = (base, head)
    told = tuple(kind for kind in KINDS if all(kind in one.told for side in sides for one in side))
    frames = [frame[frame["kind"].isin(told)] for frame in named(sides, level)]
    residual = [sum(one.residual_ns + int(one.rows.loc[~one.rows["kind"].isin(told), "ns"].sum()) for one in side)
                for side in sides]  # fmt: skip
    windows = [sum(len(one.side.windows) for one in side) for side in sides]
    grouped = [frame.groupby("key", sort=False)[["ns", "count"]].sum() for frame in frames]
    keys = sorted(set(grouped[0].index) | set(grouped[1].index))
    times, counts = (
        [group[name].reindex(keys, fill_value=0).tolist() for group in grouped] for name in ("ns", "count")
    )
    means = [list(_means({str(place): ns for place, ns in enumerate([*column, rest])}, count).values())
             for column, rest, count in zip(times, residual, windows, strict=True)]  # fmt: skip
    steps = [sum(one.side.dur_ns for one in side) // max(1, count) for side, count in zip(sides, windows, strict=True)]
    if [sum(column) for column in means] != steps:
        raise NotExact(f"contributions of {means[0]} and {means[1]} ns do not add up to steps of {steps} ns")
    texts = _texts(frames)
    reach = reaches(frames, sides, keys, design) if design else [None] * len(keys)
    found = [
        Contribution(
            key[0], *texts[key][:3], means[0][place], means[1][place], counts[0][place] / max(1, windows[0]),
            counts[1][place] / max(1, windows[1]), _state(
                (counts[0][place] * windows[1], counts[1][place] * windows[0]),
                (times[0][place] * windows[1], times[1][place] * windows[0]), texts[key][3]), texts[key][3],
            reach[place],
        ) for place, key in enumerate(keys)
    ]  # fmt: skip
    found.sort(key=lambda one: (-abs(one.delta_ns), -one.head_ns, one.kind, one.what))
    return Change(steps[0], steps[1], tuple(found), means[0][-1], means[1][-1], told)


def _texts(frames: Sequence[pd.DataFrame]) -> dict[tuple[str, ...], tuple[str, str, str, str]]:
    """What to call each key: as head does, if it has it."""
    found: dict[tuple[str, ...], tuple[str, str, str, str]] = {}
    for frame in frames:
        for key, what, before in zip(frame["key"], frame["what"], frame["before"], strict=True):
            shapes, dtypes = (*key[2:], "", "")[:2]
            found[key] = (what, shapes, dtypes, before)
    return found


def _state(counts: tuple[int, int], times: tuple[int, int], before: str) -> str:
    """Both sides over a common number of windows, so that nothing is rounded."""
    if before and all(counts):
        return "renamed"
    if not all(counts) and any(counts):
        return "new" if counts[1] else "gone"
    return "count" if counts[0] != counts[1] else "time" if times[0] != times[1] else "same"
