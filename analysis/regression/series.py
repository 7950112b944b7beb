"""What the history of one metric says: where it changed, and whether it is slower now than it was.

Nights are judged as they came: each night the window since the last change is scanned for another one
(analysis/regression/change_point.py), so that a later change does not hide an earlier one. What was found is looked at
once more with everything that came after; what does not hold is dropped, what holds is dated again.

The verdict is about now:

* `regressed`, `improved`: the last change is one for the worse or for the better, and at most ``fresh`` nights old;
* `same`: there is none, and the last nights lie within ``margin`` of those before (two one-sided tests, 5 % each);
* `ambiguous`: there is none, and a change of ``margin`` would not have been seen; ``settles`` says how many more
  nights would do if the noise stays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from npulens.analysis.regression import change_point
from npulens.analysis.regression.baseline import Baseline, baseline
from npulens.analysis.regression.change_point import LEAST, WINDOW, Floats, Scan

#: Nights on each side of a change that date it and size it.
_SIDE = 40
#: The last nights that are compared with those before.
_LATELY = 7
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
    found = _as_they_came([each.scaled for each in histories], limits)
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


def _as_they_came(several: Sequence[Floats], limits: Limits) -> list[list[int]]:
    """Night after night, the changes that were seen first; windows of one length are scanned together."""
    starts, found = [0] * len(several), [list[int]() for _ in several]
    for night in range(LEAST, max(map(len, several), default=0) + 1):
        groups: dict[int, list[int]] = {}
        for which, logs in enumerate(several):
            if len(logs) >= night >= starts[which] + LEAST:
                groups.setdefault(min(night - starts[which], WINDOW), []).append(which)
        for length, members in groups.items():
            seen = change_point.scan(np.stack([several[which][night - length : night] for which in members]))
            for row in np.flatnonzero((seen.p <= limits.alpha) & (np.abs(seen.shift) >= math.log1p(limits.least))):
                starts[members[row]] = night - length + int(seen.split[row])
                found[members[row]].append(starts[members[row]])
    return found


def _held(history: _History, splits: list[int], limits: Limits) -> list[Change]:
    """The changes that hold with all nights on either side, dated by them; the weakest goes first."""
    tried: list[list[int]] = []  # two datings may each lead to the other
    while True:
        tried.append(list(splits))
        edges = [0, *splits, len(history.scaled)]
        looked = [_look(history, limits, *edges[i : i + 3]) for i in range(len(splits))]
        weakest = max((change.p for change in looked), default=0.0)
        if weakest > limits.alpha:
            del splits[[change.p for change in looked].index(weakest)]
            continue
        dated = [change.index for change in looked]
        if dated in tried or sorted(set(dated)) != dated:
            return looked
        splits = dated


def _look(history: _History, limits: Limits, before: int, split: int, after: int) -> Change:
    """One change between its neighbours; of a size that is not spoken of, p is 1."""
    begin, end = max(before, split - _SIDE), min(after, split + _SIDE)
    if end - begin < LEAST:
        return Change(split, split, split, 1.0, 1.0, 1.0, 1.0)
    window = history.scaled[begin:end]
    seen: Scan = change_point.scan(window[None])
    index, (first, last), shift = int(seen.split[0]), seen.between(0), float(seen.shift[0])
    reach = change_point.t_reach(_CONFIDENCE, max(end - begin - 3, 1)) * float(seen.error[0])
    old = float(np.median(window[:index]))
    low, ratio, high = (history.ratio(each, old) for each in (shift - reach, shift, shift + reach))
    p = float(seen.p[0]) if abs(shift) >= math.log1p(limits.least) else 1.0
    return Change(begin + index, begin + first, begin + last, ratio, low, high, p)


def _verdict(history: _History, found: list[Change], limits: Limits, better: str) -> SeriesVerdict:
    now = found[-1].index if found else 0
    stands = baseline(history.values[now:])
    level, floor = (None, None) if stands is None else (stands.level, stands.spread)
    if found and len(history.values) - now <= limits.fresh:
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
    lately = max(min(_LATELY, n // 2), change_point.AFTER)
    shift, error, freedom = change_point.contrast(window, n - lately)
    edge, reach = math.log1p(limits.margin), change_point.t_reach(0.90, freedom)
    if abs(shift) + reach * error <= edge:
        return 0
    # The error falls with the root of the nights on the shorter side; a shift of nothing is the best to hope for.
    wanted = lately * (reach * error / max(edge - abs(shift), edge / 4)) ** 2
    more = math.ceil(wanted) - lately
    return max(more, 1) if more <= 1_000 else None
