"""Windows of a side put into blocks, and intervals cut at them."""

from __future__ import annotations

import numpy as np

from npulens.analysis.intervals import Ints
from npulens.analysis.look.compare import Window
from npulens.analysis.regression.verdict import edges_of


def blocks_of(windows: tuple[Window, ...]) -> dict[int | None, int]:
    """Step -> the block it is in, in order of time; whole captures are one block."""
    steps = list(dict.fromkeys(window.step for window in sorted(windows, key=lambda one: one.start_ns)))
    edges = edges_of(len(steps))
    return {step: int(np.searchsorted(edges, place, side="right")) - 1 for place, step in enumerate(steps)}


def middling(windows: tuple[Window, ...]) -> Window | None:
    """The window of middling length on the first rank."""
    mine = sorted((w for w in windows if w.rank == windows[0].rank), key=lambda w: (w.dur_ns, w.start_ns))
    return mine[len(mine) // 2] if mine else None


def first_come(starts: Ints, ends: Ints) -> Ints:
    """From when on each span is the one that counts, if it is: spans in order of their start, the longest first."""
    if not len(starts):
        return starts
    before = np.concatenate((starts[:1], np.maximum.accumulate(ends)[:-1]))
    return np.asarray(np.maximum(starts, before))


def cut(starts: Ints, ends: Ints, begins: Ints, stops: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """The pieces of disjoint ordered intervals in disjoint ordered windows: which interval, which window, from, to."""
    first = np.searchsorted(stops, starts, side="right")
    count = np.maximum(np.searchsorted(begins, ends, side="left") - first, 0)
    of = np.repeat(np.arange(len(count)), count)
    window = np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
    return of, window, np.maximum(starts[of], begins[window]), np.minimum(ends[of], stops[window])
