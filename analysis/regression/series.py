"""What the history of one metric says: where it changed, and whether it is slower now than it was.

Nights are judged as they came. Each night the window since the last change is scanned for another one
(analysis/regression/change_point.py). A later change then does not hide an earlier one. What was found is looked at
once more with everything that came after. What does not hold is dropped, what holds is dated again.

A series that climbs night by night (analysis/regression/drift.py) is a change of its own kind: a drift, from the night
it began. While it lasts, what goes on in its direction is part of it.

The verdict is about now:

* `regressed`, `improved`: the last change is one for the worse or for the better, and at most ``fresh`` nights old;
* `same`: there is none. The last three and the last seven nights lie within ``margin`` of those before (two one-sided
  tests, 5 % each). So does the level against that of 30 and of 90 nights ago;
* `ambiguous`: there is none, and a change of ``margin`` is there or would not have been seen. ``settles`` says how many
  more nights would do if the noise stays.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import numpy as np
from threadpoolctl import ThreadpoolController

from npulens.analysis.regression import change_point, drift
from npulens.analysis.regression.baseline import Baseline, baseline
from npulens.analysis.regression.change_point import LEAST, WINDOW, Floats, Scan

#: Nights on each side of a change that date it and size it.
_SIDE = 40
#: The last nights that are compared with those before: many, which is exact, and few, which a new level reaches soon.
_LATELY, _FEW = 7, 3
#: Nights ago whose level still has to be within the margin for "same". Then how many nights on each side say it.
_AGO, _AROUND = (30, 90), 3
#: Nights after a drift was seen that its size is taken from.
_FOLLOWED = 15
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Limits:
    """When something counts as a change."""

    alpha: float = 0.01  # how often a night without a change may be said to have one
    least: float = 0.01  # smaller changes are not spoken of
    margin: float = 0.03  # levels within this share of each other are the same
    fresh: int = 14  # nights after which a change is how things are


LIMITS = Limits()


@dataclass(frozen=True)
class Change:
    """A step between two nights."""

    index: int  # the first night of the new level, in the values that were judged
    first: int  # the earliest night that may be it, 95 times in 100
    last: int  # the latest
    ratio: float  # new level / old level; infinite where the old level is 0
    low: float  # 95 % interval of the ratio
    high: float
    p: float
    seen: int  # the night that saw it first
    slope: float | None = None  # of a drift, a share of the level a night: it moves night by night from `index` on

    @property
    def drift(self) -> bool:
        """Whether it is a drift and no step."""
        return self.slope is not None

    @property
    def since(self) -> int:
        """From here on the nights are of the new level; of a drift, the nights since it was seen."""
        return max(self.index, self.seen - _FEW + 1) if self.drift else self.index


@dataclass(frozen=True)
class Seen:
    """A change as the night saw it that saw it first."""

    index: int
    night: int
    up: bool
    drift: bool

    @property
    def onward(self) -> int:
        """Where to look for what comes after."""
        return max(self.index, self.night - _FEW + 1) if self.drift else self.index


@dataclass(frozen=True)
class SeriesVerdict:
    """What is said of a series."""

    verdict: Literal["regressed", "improved", "same", "ambiguous"]
    changes: tuple[Change, ...]
    level: float | None  # of now: the median since the last change; None without values
    floor: float | None  # the noise of one night, as a share; None with fewer than three
    baseline: Baseline | None = None
    settles: int | None = None  # more nights that would tell, where it is ambiguous; None: not with 1,000


def judge_series(values: Sequence[float], limits: Limits = LIMITS, better: str = "lower") -> SeriesVerdict:
    """The verdict of a series, the oldest value first; only values that may be part of a baseline."""
    return judge_all([values], limits, [better])[0]


def judge_all(
    several: Sequence[Sequence[float]], limits: Limits = LIMITS, better: Sequence[str] | None = None
) -> list[SeriesVerdict]:
    """The same of many series at once, which is much faster."""
    ways = better or ["lower"] * len(several)
    return [
        _verdict(_history(values), found, limits, way)
        for values, found, way in zip(several, changes(several, limits), ways, strict=True)
    ]


def changes(several: Sequence[Sequence[float]], limits: Limits = LIMITS) -> list[list[Change]]:
    """Only the changes of many series."""
    histories = [_history(values) for values in several]
    found = as_they_came([each.scaled for each in histories], limits)
    return [_held(each, splits, limits) for each, splits in zip(histories, found, strict=True)]


@dataclass(frozen=True)
class _History:
    """A series on the scale on which it is judged: logarithms, or shares of the usual size where a value is <= 0."""

    values: Floats
    scaled: Floats
    logs: bool

    def ratio(self, shift: float, before: float) -> float:
        """New level over old."""
        if self.logs:
            return math.exp(min(shift, 700.0))
        return (before + shift) / before if before else math.inf


def _history(values: Sequence[float]) -> _History:
    given = np.asarray(values, np.float64)
    if not np.isfinite(given).all():
        raise ValueError("a series holds a value that is not finite")
    if (given > 0).all():
        return _History(given, np.log(given), True)
    usual = float(np.median(np.abs(given))) or float(np.abs(given).max()) or 1.0
    return _History(given, given / usual, False)


def as_they_came(several: Sequence[Floats], limits: Limits) -> list[list[Seen]]:
    """Night after night, the changes that were seen first; windows of one length are scanned together."""
    with _blas().limit(limits=1, user_api="blas"):
        return _as_they_came(several, limits)


@cache
def _blas() -> ThreadpoolController:
    """Products of matrices this small gain nothing from threads, which spin where other work wants the cores."""
    return ThreadpoolController()


def _as_they_came(several: Sequence[Floats], limits: Limits) -> list[list[Seen]]:
    starts, found = [0] * len(several), [list[Seen]() for _ in several]
    for night in range(LEAST, max(map(len, several), default=0) + 1):
        groups: dict[int, list[int]] = {}
        for which, logs in enumerate(several):
            if len(logs) >= night >= starts[which] + LEAST:
                groups.setdefault(min(night - starts[which], WINDOW), []).append(which)
        for length, members in groups.items():
            windows = np.stack([several[which][night - length : night] for which in members])
            for row, seen in _of_a_night(windows, night, limits):
                mine = found[members[row]]
                starts[members[row]] = seen.onward
                if not (mine and mine[-1].drift and mine[-1].up == seen.up):
                    mine.append(seen)
    return found


def _of_a_night(windows: Floats, night: int, limits: Limits) -> Iterator[tuple[int, Seen]]:
    """The rows whose level has moved by a night, as a step or night by night, whichever explains more."""
    begin, least = night - windows.shape[1], math.log1p(limits.least)
    steps = change_point.scan(windows)
    stepped = (steps.doubted <= limits.alpha) & (np.abs(steps.shift) >= least)
    climbed, drifts = np.zeros(len(windows), bool), None
    if windows.shape[1] >= drift.LEAST:
        drifts = drift.climbs(windows)
        climbed = (drifts.p <= limits.alpha) & (np.abs(drifts.total) >= least)
        climbed &= drifts.evidence > steps.evidence
    for row in np.flatnonzero(stepped | climbed).tolist():
        if drifts is not None and climbed[row]:
            yield row, Seen(begin + int(drifts.start[row]), night - 1, bool(drifts.slope[row] > 0), True)
        else:
            yield row, Seen(begin + int(steps.split[row]), night - 1, bool(steps.shift[row] > 0), False)


def _held(history: _History, seen: list[Seen], limits: Limits) -> list[Change]:
    """The changes that hold with all nights on either side, dated by them; the weakest goes first."""
    tried: list[list[int]] = []  # two datings may each lead to the other
    while True:
        tried.append([each.index for each in seen])
        edges = [0, *(each.onward for each in seen)]
        ends = [*(each.index for each in seen[1:]), len(history.scaled)]
        looked = [
            _look_again(history, limits, edges[place], each, ends[place])
            for place, each in enumerate(seen)
        ]
        weakest = max((change.p for change in looked), default=0.0)
        if weakest > limits.alpha:
            del seen[[change.p for change in looked].index(weakest)]
            continue
        dated = [change.index for change in looked]
        if dated in tried or sorted(set(dated)) != dated:
            return looked
        seen = [replace(each, index=index) for each, index in zip(seen, dated, strict=True)]


def _look_again(history: _History, limits: Limits, before: int, seen: Seen, after: int) -> Change:
    """One change between its neighbours; what began like a drift and went no further is a step."""
    if not seen.drift:
        return _look(history, limits, before, seen, after)
    found = _look_at_drift(history, limits, before, seen, after)
    return found if found.p <= limits.alpha else _look(history, limits, before, seen, after)


def _look(history: _History, limits: Limits, before: int, seen: Seen, after: int) -> Change:
    """One step between its neighbours; of a size that is not spoken of, p is 1."""
    split = seen.index
    begin, end = max(before, split - _SIDE), min(after, split + _SIDE)
    if end - begin < LEAST:
        return Change(split, split, split, 1.0, 1.0, 1.0, 1.0, seen.night)
    window = history.scaled[begin:end]
    found: Scan = change_point.scan(window[None])
    index, (first, last), shift = int(found.split[0]), found.between(0), float(found.shift[0])
    reach = change_point.t_reach(_CONFIDENCE, max(end - begin - 3, 1)) * float(found.error[0])
    old = float(np.median(window[:index]))
    low, ratio, high = (history.ratio(each, old) for each in (shift - reach, shift, shift + reach))
    p = float(found.p[0]) if abs(shift) >= math.log1p(limits.least) else 1.0
    return Change(begin + index, begin + first, begin + last, ratio, low, high, p, seen.night)


def _look_at_drift(history: _History, limits: Limits, before: int, seen: Seen, after: int) -> Change:
    """One drift, with the nights soon after it was seen; how far it has gone by the last of them."""
    end = max(min(after, seen.night + _FOLLOWED), seen.night + 1)
    begin = max(before, end - WINDOW)
    window = history.scaled[begin:end]
    if len(window) < drift.LEAST:
        return Change(seen.index, seen.index, seen.night, 1.0, 1.0, 1.0, 1.0, seen.night, 0.0)
    found = drift.climbs(window[None])
    index, total = int(found.start[0]), float(found.total[0])
    freedom = max(len(window) - 3, 1)
    reach = change_point.t_reach(_CONFIDENCE, freedom) * float(found.error[0]) * (len(window) - index)
    old = float(np.median(window[:index]))
    low, ratio, high = (history.ratio(each, old) for each in (total - reach, total, total + reach))
    p = float(found.p[0]) if abs(total) >= math.log1p(limits.least) else 1.0
    slope = history.ratio(float(found.slope[0]), old) - 1
    return Change(begin + index, begin + index, seen.night, ratio, low, high, p, seen.night, slope)


def _verdict(history: _History, found: list[Change], limits: Limits, better: str) -> SeriesVerdict:
    now = found[-1].since if found else 0
    stands = baseline(history.values[now:])
    level, floor = (None, None) if stands is None else (stands.level, stands.spread)
    if found and len(history.values) - (found[-1].seen if found[-1].drift else now) <= limits.fresh:
        worse = (found[-1].ratio > 1) == (better == "lower")
        return SeriesVerdict("regressed" if worse else "improved", tuple(found), level, floor, stands)
    settles = _settles(history.scaled[now:], limits)
    said: Literal["same", "ambiguous"] = "same" if settles == 0 else "ambiguous"
    return SeriesVerdict(said, tuple(found), level, floor, stands, settles or None)


def _settles(logs: Floats, limits: Limits) -> int | None:
    """More nights until the last ones are known to be within the margin; 0: they are."""
    window = logs[-WINDOW:]
    n = len(window)
    if n < LEAST:
        return LEAST - n
    edge, lately = math.log1p(limits.margin), max(min(_LATELY, n // 2), change_point.AFTER)
    shift, error, freedom = change_point.contrast(window, n - lately)
    reach = change_point.t_reach(0.90, freedom)
    few = change_point.contrast(window, n - min(_FEW, lately))
    within = abs(shift) + reach * error <= edge and abs(few[0]) + reach * few[1] <= edge
    if within and all(abs(moved) <= edge for moved in _since_long(logs)):
        return 0
    # The error falls with the root of the nights on the shorter side. A shift of nothing is the best to hope for.
    wanted = lately * (reach * error / max(edge - abs(shift), edge / 4)) ** 2
    more = math.ceil(wanted) - lately
    return max(more, 1) if more <= 1_000 else None


def _since_long(logs: Floats) -> Iterator[float]:
    """How far the level of the last nights lies from the first of this level.

    Also how far from that of 30 and 90 nights ago.
    """
    now = float(np.median(logs[-_LATELY:]))
    yield now - float(np.median(logs[:_FEW]))
    for ago in _AGO:
        if len(logs) > ago + _AROUND:
            place = len(logs) - 1 - ago
            yield now - float(np.median(logs[max(0, place - _AROUND) : place + _AROUND + 1]))
