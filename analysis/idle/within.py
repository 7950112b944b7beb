"""What the host was in while the device idled, to the nanosecond.

Idle time is cut wherever a span of an issuing thread begins or ends. In each stretch the thread that moved last tells
what went on: its innermost span, and those around it. So time in an operator is time that the host really was in it.
An operator is told by the call that says most. That is the outermost one, or one within it that has at least half of
its time. Where one call has at least half of a step's idle time and calls others, those say more.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.idle.host_spans import NONE, OPERATOR, HostSpans, hosts
from npulens.analysis.intervals import Ints, among, distinct
from npulens.analysis.run import Run

Marks = NDArray[np.bool_]


@dataclass(frozen=True)
class Stretches:
    """Idle time of one rank, cut where its host moves; in order."""

    rank: int
    spans: HostSpans
    starts: Ints
    ends: Ints
    piece: Ints  # which of the pieces asked for
    inner: Ints  # the innermost span of the thread that moved last, as a place among the spans; NONE: none was open
    tracks: tuple[int, ...]  # of the issuing threads
    steps: int  # in so many steps

    @property
    def ns(self) -> Ints:
        length: Ints = self.ends - self.starts
        return length

    @cached_property
    def whole(self) -> Ints:
        """Per span how long the host was in it, in what it calls as well."""
        found = np.zeros(len(self.spans.ids), np.int64)
        open_ = self.inner != NONE
        np.add.at(found, self.inner[open_], self.ns[open_])
        at = np.flatnonzero(found)
        ns = found[at]
        while len(at):
            at = self.spans.parent[at].astype(np.int64)
            at, ns = at[at != NONE], ns[at != NONE]
            np.add.at(found, at, ns)
        return found

    @cached_property
    def operator(self) -> Ints:
        """Per stretch the innermost operator that was open, or NONE."""
        return self.innermost(self.spans.kinds == OPERATOR)

    def innermost(self, marked: Marks) -> Ints:
        """Per stretch the innermost of the marked spans that the host was in, or NONE."""
        return self._up(self.inner, marked)

    def around(self, places: Ints, marked: Marks) -> Ints:
        """Per span the next of the marked spans around it, or NONE."""
        return self._up(self.spans.parent[places].astype(np.int64), marked)

    @cached_property
    def telling(self) -> Ints:
        """Per stretch the call of an operator that says most of it, or NONE."""
        named = self._named
        return np.append(named, NONE)[self.operator]

    @cached_property
    def _named(self) -> Ints:
        """Per operator with idle time the call that tells it; others tell themselves."""
        whole, count = self.whole, len(self.spans.ids)
        named = np.arange(count, dtype=np.int64)
        mine = np.flatnonzero((self.spans.kinds == OPERATOR) & (whole > 0))
        above = np.full(count, NONE, np.int64)
        above[mine] = self.around(mine, self.spans.kinds == OPERATOR)
        total = int(self.ns.sum())
        done = np.zeros(count, np.bool_)
        done[mine[above[mine] == NONE]] = True
        left = mine[above[mine] != NONE]
        while len(left):
            ready = done[above[left]]
            now, outer = left[ready], above[left[ready]]
            wide = 2 * self.steps * whole[outer] >= total
            own = (named[outer] == outer) & (wide | (2 * whole[now] >= whole[outer]))
            named[now] = np.where(own, now, named[outer])
            done[now] = True
            left = left[~ready]
        return named

    def within(self, marked: Marks) -> Ints:
        """Per stretch the outermost of the marked spans that the host was in, or NONE."""
        found = self._up(self.inner, marked)
        inside = np.flatnonzero(found != NONE)
        while len(inside):
            further = self.around(found[inside], marked)
            inside, further = inside[further != NONE], further[further != NONE]
            found[inside] = further
        return found

    def on_any_thread(self, marked: Marks) -> Marks:
        """Per stretch whether any issuing thread was in one of the marked spans."""
        at = np.flatnonzero(marked & self._issued)
        begins, ends = self.spans.starts[at], self.spans.ends[at]
        order = np.argsort(begins, kind="stable")
        reach = np.maximum.accumulate(ends[order]) if len(at) else ends
        last = np.searchsorted(begins[order], self.starts, side="right") - 1
        return (last >= 0) & (np.append(reach, NONE)[last] >= self.ends)

    @cached_property
    def _issued(self) -> Marks:
        """Which spans are of issuing threads."""
        return np.isin(self.spans.tracks, self.tracks)

    def _up(self, at: Ints, marked: Marks) -> Ints:
        """From spans up to the first that is marked, itself or one around it; NONE where there is none."""
        found = at.astype(np.int64, copy=True)
        left = np.flatnonzero(found != NONE)
        while len(left):
            left = left[~marked[found[left]]]
            found[left] = self.spans.parent[found[left]]
            left = left[found[left] != NONE]
        return found


def stretches(run: Run, rank: int, starts: Ints, ends: Ints) -> Stretches:
    """Disjoint pieces of idle time of a rank, cut; `piece` counts them as they were given."""
    there = run.get(hosts)
    spans, threads = there.spans(rank), there.threads[rank]
    tracks = threads.tracks(threads.issuing) or sorted(threads.of_track)
    order = np.argsort(starts, kind="stable")
    begins, stops = starts[order], ends[order]
    mine = np.isin(spans.tracks, tracks)
    edges = np.concatenate((spans.starts[mine], spans.ends[mine]))
    at = np.searchsorted(begins, edges, side="right") - 1
    edges = edges[(at >= 0) & (edges < np.append(stops, 0)[at])] if len(begins) else edges[:0]
    cuts = distinct(np.concatenate((edges, begins, stops)))
    first, last = cuts[:-1], cuts[1:]
    of = np.searchsorted(begins, first, side="right") - 1
    inside = last <= stops[of] if len(first) else np.zeros(0, np.bool_)
    first, last, of = first[inside], last[inside], of[inside]
    inner, steps = spans.latest(tracks, first), max(1, len(run.steps[rank]))
    return Stretches(rank, spans, first, last, order[of], inner, tuple(tracks), steps)


def marked(spans: HostSpans, ids: Ints) -> Marks:
    """Which spans have one of some ids, which are in order."""
    return among(spans.ids, ids)
