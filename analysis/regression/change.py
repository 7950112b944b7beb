"""What the change of the mean step is made of: kernels, gaps by cause, exposed copies, exposed communication.

Each contribution is the time its things own (analysis/regression/pieces.py) in the mean window of head. That in the
mean window of base is subtracted. A kernel that got slower while the device would have idled shows twice, as a longer
kernel and a shorter gap. They add up, as everything does. Contributions and the residual sum to the change of the step
to the nanosecond. Means of whole numbers leave remainders, which are given out so that they do.

Several runs of a side are one: all their windows count alike. What one side cannot tell apart is told apart on neither
and is residual. Kernels that all changed by one factor are one contribution with parts
(analysis/regression/common_factor.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from npulens.analysis.look.compare import _means
from npulens.analysis.regression.common_factor import ALIKE, Moved, common_factor
from npulens.analysis.regression.late import EXPLAINED, Late, late
from npulens.analysis.regression.matching import LEVELS, named, says
from npulens.analysis.regression.pieces import KINDS, Measured, NotExact
from npulens.analysis.regression.regrouped import Group, Key
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
    state: str  # 'new', 'gone', 'renamed', 'fused', 'split', 'count', 'time', 'same', 'alike'
    members: Group | None = None  # the names of both sides, where they differ
    reach_ns: float | None = None  # its interval is the change and so much to either side; None: too little to tell
    parts: tuple[Contribution, ...] = ()  # of `alike`: the kernels, whose changes sum to its own
    factor: float | None = None  # of `alike`: by what share of its time each kernel changed
    asked: str = ""  # a kernel's shapes where it is replayed, of several those that take longest; '' if not known
    whole_ns: tuple[int, int] | None = None  # of copies and communication: how long they take, hidden or not
    pinned: tuple[bool | None, bool | None] = (None, None)  # whether a side's copies all use pinned memory of the host
    bare: bool = False  # of a gap: no kernel ran on either side

    @property
    def before(self) -> str:
        """What base calls it, where that is another name."""
        return " + ".join(self.members.base) if self.members else ""

    @property
    def delta_ns(self) -> int:
        return self.head_ns - self.base_ns

    @property
    def repinned(self) -> str:
        """'pinned' or 'pageable': the memory of head, where base copies from the other."""
        base, head = self.pinned
        return "" if base is None or head is None or base == head else "pinned" if head else "pageable"

    @property
    def uncovered(self) -> bool:
        """Whether most of its change is that it is hidden behind other work less, or more, than before."""
        if self.whole_ns is None or not all(self.whole_ns):
            return False
        longer = self.whole_ns[1] - self.whole_ns[0]
        return abs(self.delta_ns - longer) > EXPLAINED * max(abs(self.delta_ns), abs(longer))

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
    late: Late | None = None  # the rank that the others wait for, where the change is that wait
    mhz: tuple[float | None, float | None] = (None, None)  # mean clock of the cores on both sides, where recorded

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
    same = named(sides, level)
    frames = [frame[frame["kind"].isin(told)] for frame in same.frames]
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
    asked = _asked(frames, sides) if level == LEVELS[0] else [{}, {}]
    bare = not any(bool((frame["kind"] == "kernel").any()) for frame in frames)
    copied = [_copied(frame, count) for frame, count in zip(frames, windows, strict=True)]
    reach = reaches(frames, sides, keys, design) if design else [None] * len(keys)
    found = {}
    for place, key in enumerate(keys):
        group = same.groups.get(key)
        state = group.state if group else _state(
            (counts[0][place] * windows[1], counts[1][place] * windows[0]),
            (times[0][place] * windows[1], times[1][place] * windows[0]))  # fmt: skip
        what, shapes, dtypes = texts[key]
        found[key] = Contribution(
            key[0], " + ".join(group.head) if group else what, shapes, dtypes, means[0][place], means[1][place],
            counts[0][place] / max(1, windows[0]), counts[1][place] / max(1, windows[1]), state, group, reach[place],
            asked=asked[0 if state == "gone" else 1].get(key, ""),
            whole_ns=(copied[0][key].ns, copied[1][key].ns) if key in copied[0] and key in copied[1] else None,
            pinned=(_pinned(copied[0], key), _pinned(copied[1], key)), bare=bare and key[0] == "gap",
        )  # fmt: skip
    made_of = _led(found, frames, sides, design) if design else list(found.values())
    made_of.sort(key=_largest)
    return Change(steps[0], steps[1], tuple(made_of), means[0][-1], means[1][-1], told, late(base, head),
                  (_clock(base), _clock(head)))  # fmt: skip


def _largest(one: Contribution) -> tuple[object, ...]:
    return not one.parts, -abs(one.delta_ns), -one.head_ns, one.kind, one.what


def _led(
    found: Mapping[Key, Contribution], frames: Sequence[pd.DataFrame], sides: Sequence[Sequence[Measured]],
    design: Design,
) -> list[Contribution]:  # fmt: skip
    """The contributions; kernels that changed by one factor are parts of one."""
    kernels = {key: one for key, one in found.items() if one.kind == "kernel"}
    there = {key: one for key, one in kernels.items() if one.base_ns and one.head_ns and one.members is None}
    blur = max(_clock_step_ns(frame) for frame in frames)
    moved = [Moved(one.base_ns, one.head_ns, one.reach_ns, blur * max(one.base_count, one.head_count))
             for one in there.values()]  # fmt: skip
    others = sum(abs(one.delta_ns) for key, one in kernels.items() if key not in there)
    factor = common_factor(moved, others, design.alpha)
    if factor is None:
        return list(found.values())
    whole = ("kernel", ALIKE)
    mine = [frame[frame["key"].isin(there.keys())] for frame in frames]
    reach = reaches([frame.assign(key=[whole] * len(frame)) for frame in mine], sides, [whole], design)
    parts = sorted(there.values(), key=_largest)
    lead = Contribution(
        "kernel", ALIKE, "", "", sum(one.base_ns for one in parts), sum(one.head_ns for one in parts),
        sum(one.base_count for one in parts), sum(one.head_count for one in parts), "alike", None, reach[0],
        tuple(parts), factor,
    )  # fmt: skip
    return [lead, *(one for key, one in found.items() if key not in there)]


def _clock_step_ns(frame: pd.DataFrame) -> int:
    """What every time of a kernel is a multiple of: a microsecond at most, as some profilers stamp."""
    ns = frame.loc[frame["kind"] == "kernel", "whole_ns"].to_numpy(np.int64)
    return min(1_000, int(np.gcd.reduce(ns))) if len(ns) else 0


def _clock(side: Sequence[Measured]) -> float | None:
    """The mean clock of the runs of a side, in MHz; None where one of them did not record it."""
    known = [one.mhz for one in side if one.mhz is not None]
    return sum(known) / len(known) if known and len(known) == len(side) else None


def _texts(frames: Sequence[pd.DataFrame]) -> dict[Key, tuple[str, str, str]]:
    """What to call each key, its shapes and types: as head does, if it has it."""
    found: dict[Key, tuple[str, str, str]] = {}
    for frame in frames:
        for key, what in zip(frame["key"], frame["what"], strict=True):
            shapes, dtypes = (*key[2:], "", "")[:2]
            found[key] = (what, shapes, dtypes)
    return found


def _asked(frames: Sequence[pd.DataFrame], sides: Sequence[Sequence[Measured]]) -> list[dict[Key, str]]:
    """Of each side the recorded shapes with which each kernel takes longest.

    None where some launches of that name have none: the name alone means those. Another part of a run counts too."""
    kernels = [frame[frame["kind"] == "kernel"] for frame in frames]
    silent = [set(each.loc[~says(each["shapes"]), "what"]) for each in kernels]
    runs = [{one.side.about.run_id for one in side} for side in sides]
    if not runs[0].isdisjoint(runs[1]):
        silent = [silent[0] | silent[1]] * 2
    found = []
    for each, without in zip(kernels, silent, strict=True):
        sums = each[~each["what"].isin(without)].groupby(["key", "shapes"], sort=True)["whole_ns"].sum()
        found.append({key: str(text) for key, text in sums.sort_values(kind="stable").index.tolist()})
    return found


#: Directions in which the host's memory may be pinned.
_HOSTS = ("h2d", "d2h")


@dataclass(frozen=True)
class _Copied:
    """Copies of one direction, or one collective, in the mean window."""

    ns: int  # hidden or not
    pinned: bool | None  # None: not told, or of both kinds


def _copied(frame: pd.DataFrame, windows: int) -> dict[Key, _Copied]:
    """How long copies and communication take, and from which memory."""
    frame = frame[frame["kind"].isin(("copy", "communication"))]
    names = frame["name"].str.lower()
    pageable = names.str.contains("pageable")
    found = frame.assign(pageable=pageable, pinned=names.str.contains("pinned") & ~pageable).groupby("key", sort=False)
    whole, told = found["whole_ns"].sum(), found[["pageable", "pinned"]].all()
    return {
        key: _Copied(int(ns) // max(1, windows), True if pinned else False if unpinned else None)
        for key, ns, unpinned, pinned in zip(whole.index, whole, told["pageable"], told["pinned"], strict=True)
    }


def _pinned(side: Mapping[Key, _Copied], key: Key) -> bool | None:
    return side[key].pinned if key in side and key[1] in _HOSTS else None


def _state(counts: tuple[int, int], times: tuple[int, int]) -> str:
    """Both sides over a common number of windows, so that nothing is rounded."""
    if not all(counts) and any(counts):
        return "new" if counts[1] else "gone"
    return "count" if counts[0] != counts[1] else "time" if times[0] != times[1] else "same"
