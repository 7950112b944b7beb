"""How sure each contribution to a change is: Student's interval from what was repeated, as the verdict has one.

What is a repetition depends on the design (analysis/regression/verdict.py). It is a capture where there are several a
side, else a block of consecutive steps. A contribution is the ratio of a sum of ns to a number of windows. So a
repetition with more windows weighs more. Its part of the error is (its ns - its windows times the mean) / windows of
all. Captures or blocks that belong together are taken as pairs, so that what both sides share cancels. What correlation
is left between blocks widens the interval.

There is none where a rank test could not tell the sides apart either. Fewer than five repetitions a side (eight pairs)
can all fall on the same one of two modes. Then they look as if nothing ever varied. For the same reason a thing has
none that occurs in fewer of them. What comes once in thirty steps says nothing of how often it comes.

Each interval is about its own contribution: of a hundred at 99 %, one is expected to miss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from npulens.analysis.regression import verdict as judging
from npulens.analysis.regression.pieces import IN_BLOCK, Measured

Floats = NDArray[np.float64]
Key = tuple[str, ...]


@dataclass(frozen=True)
class Design:
    """What is repeated, and which repetitions belong together."""

    blocks: bool  # of steps, of one capture a side; else captures
    pairs: tuple[tuple[int, int], ...] = ()  # base, head; empty: the sides are independent
    alpha: float = judging.RULE.alpha


def reaches(
    frames: Sequence[pd.DataFrame], sides: Sequence[Sequence[Measured]], keys: Sequence[Key], design: Design
) -> list[float | None]:
    """How far the interval of each key reaches to either side of its change of the mean window, in ns."""
    place = {key: number for number, key in enumerate(keys)}
    found = [_repeated(frame, side, place, design) for frame, side in zip(frames, sides, strict=True)]
    return reach_of((found[0][0], found[1][0]), (found[0][1], found[1][1]), design)


def _repeated(
    frame: pd.DataFrame, side: Sequence[Measured], place: Mapping[Key, int], design: Design
) -> tuple[Floats, Floats]:
    """ns of each key in each repetition, and the windows of each repetition."""
    rows = frame["key"].map(place).to_numpy(np.int64)
    windows = list(side[0].blocks) if design.blocks else [len(one.side.windows) for one in side]
    ns = np.zeros((len(place), len(windows)))
    if design.blocks:
        np.add.at(ns, rows, frame[list(IN_BLOCK[: len(windows)])].to_numpy(np.float64))
    else:
        np.add.at(ns, (rows, frame["run"].to_numpy(np.int64)), frame["ns"].to_numpy(np.float64))
    return ns, np.array(windows, np.float64)


def reach_of(ns: tuple[Floats, Floats], windows: tuple[Floats, Floats], design: Design) -> list[float | None]:
    """Half of the interval of each row: ns of a side by row and repetition, windows by repetition."""
    least = (judging.least_of_pairs if design.pairs else judging.least_of_two)(design.alpha)
    sides = list(zip(ns, windows, strict=True))
    if design.pairs:
        sides = [(times[:, list(which)], count[list(which)])
                 for (times, count), which in zip(sides, zip(*design.pairs, strict=True), strict=True)]  # fmt: skip
    if min(len(count) for _, count in sides) < least:
        return [None] * len(ns[0])
    errors = [_errors(times, count) for times, count in sides]
    often = np.stack([(times > 0).sum(axis=1) for times, _ in sides])
    told = ((often == 0) | (often >= least)).all(axis=0)
    return [_reach([error[row] for error in errors], design) if told[row] else None for row in range(len(told))]


def _errors(ns: Floats, windows: Floats) -> Floats:
    """What each repetition adds to the error of the mean window, times their number."""
    mean = ns.sum(axis=1, keepdims=True) / windows.sum()
    return np.asarray((ns - windows * mean) * (len(windows) / windows.sum()))


def _reach(errors: Sequence[Floats], design: Design) -> float:
    values = [errors[1] - errors[0]] if design.pairs else list(errors)
    stretch = judging.stretch_of(values) if design.blocks else 1.0
    parts = [float((each**2).sum()) / (len(each) - 1) / len(each) * stretch for each in values]
    freedom = judging.welch(parts, [len(each) - 1 for each in values])
    return float(stats.t.ppf(1 - design.alpha / 2, freedom)) * float(np.sqrt(sum(parts)))
