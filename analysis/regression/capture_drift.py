"""By how much single captures of one and the same job differ, from captures that the history knows.

One capture a side cannot tell a change from drift. Where earlier captures of the job are known, their spread says how
much drift is usual. Nights on which the job changed would count as drift. So each capture is taken from the level of
its own stretch between changes (analysis/regression/series.py). Captures that lie far out are drawn in, as a baseline
does with wild nights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from npulens.analysis.regression.series import changes

#: With fewer captures the spread is not known.
LEAST = 5
#: Fewer captures between two changes say nothing of their own level.
_LEAST_BETWEEN = 3
#: Of a normal distribution, the standard deviation over the median distance from the median.
_NORMAL = 1.4826
_WILD = 4.0


@dataclass(frozen=True)
class Drift:
    """What a comparison counts as drift, and where that comes from."""

    share: float  # standard deviation of the log time of one capture
    source: Literal["given", "off", "history", "unknown"]
    captures: int = 0  # of the history, what the share was taken from
    workload: str = ""  # whose captures


#: Nothing is known of the drift.
UNKNOWN = Drift(0.0, "unknown")


def drift_of(values: Sequence[float], workload: str) -> Drift:
    """The drift of captures of one job, the oldest first; unknown with fewer than five."""
    logs = np.log(np.array([value for value in values if value > 0], np.float64))
    if len(logs) < LEAST:
        return UNKNOWN
    edges = [0, *(one.index for one in changes([np.exp(logs).tolist()])[0]), len(logs)]
    stretches = [logs[a:b] for a, b in zip(edges, edges[1:], strict=False) if b - a >= _LEAST_BETWEEN]
    count = sum(map(len, stretches))
    if count < LEAST:
        return UNKNOWN
    apart = np.concatenate([each - np.median(each) for each in stretches])
    usual = _NORMAL * float(np.median(np.abs(apart)))
    drawn_in = np.clip(apart, -_WILD * usual, _WILD * usual) if usual else apart
    return Drift(float(np.sqrt(np.square(drawn_in).sum() / (count - len(stretches)))), "history", count, workload)
