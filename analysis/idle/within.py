"""What the host was in while the device idled, to the nanosecond.

Idle time is cut wherever a span of an issuing thread begins or ends. In each stretch the thread that moved last tells
what went on: its innermost span, and those around it. So time in an operator is time that the host really was in it.
An operator is told by the call that says most. That is the outermost one, or one within it that has at least half of
its time. Where one call has at least half of a step's idle time and calls others, those say more.

Several ranks are one list of stretches and one of spans: what is asked of all of them is asked once.
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
class Cut:
    """Idle time of one rank, cut where its host moves; in order."""

    starts: Ints
    ends: Ints
    piece: Ints  # which of the pieces asked for
    inner: Ints  # the innermost span of the thread that moved last, as a place among the rank's; NONE: none was open
    met: Ints  # the spans of issuing threads that can have some of it


@dataclass(frozen=True)
class Stretches:
    """Idle time of some ranks, cut where their hosts move; rank by rank, each in order."""

    ranks: Ints
    steps: Ints  # how many each rank has
    of: Ints  # which of the ranks a stretch is of
    starts: Ints
    ends: Ints
    piece: Ints  # which of the pieces asked for
    inner: Ints  # the innermost span of the thread that moved last, as a place among the spans; NONE: none was open
    ids: Ints  # of the spans of issuing threads that the hosts were in meanwhile
    of_span: Ints
    begins: Ints
    stops: Ints
    parent: Ints  # a place among them, or NONE
    kinds: NDArray[np.uint8]

    @property
    def ns(self) -> Ints:
        length: Ints = self.ends - self.starts
        return length

    @cached_property
    def whole(self) -> Ints:
        """Per span how long the host was in it, in what it calls as well."""
        found = np.zeros(len(self.ids), np.int64)
        open_ = self.inner != NONE
        np.add.at(found, self.inner[open_], self.ns[open_])
        at = np.flatnonzero(found)
        ns = found[at]
        while len(at):
            at = self.parent[at]
            at, ns = at[at != NONE], ns[at != NONE]
            np.add.at(found, at, ns)
        return found

    @cached_property
    def operator(self) -> Ints:
        """Per stretch the innermost operator that was open, or NONE."""
        return self.innermost(self.kinds == OPERATOR)

    def innermost(self, marked: Marks) -> Ints:
        """Per stretch the innermost of the marked spans that the host was in, or NONE."""
        return self._up(self.inner, marked)

    def around(self, places: Ints, marked: Marks) -> Ints:
        """Per span the next of the marked spans around it, or NONE."""
        return self._up(self.parent[places], marked)

    @cached_property
    def telling(self) -> Ints:
        """Per stretch the call of an operator that says most of it, or NONE."""
        named = self._named
        return np.append(named, NONE)[self.operator]

    @cached_property
    def _named(self) -> Ints:
        """Per operator with idle time the call that tells it; others tell themselves."""
        whole, count = self.whole, len(self.ids)
        named = np.arange(count, dtype=np.int64)
        mine = np.flatnonzero((self.kinds == OPERATOR) & (whole > 0))
        above = np.full(count, NONE, np.int64)
        above[mine] = self.around(mine, self.kinds == OPERATOR)
        total = np.zeros(len(self.ranks), np.int64)
        np.add.at(total, self.of, self.ns)
        wide = 2 * self.steps[self.of_span] * whole >= total[self.of_span]
        done = np.zeros(count, np.bool_)
        done[mine[above[mine] == NONE]] = True
        left = mine[above[mine] != NONE]
        while len(left):
            ready = done[above[left]]
            now, outer = left[ready], above[left[ready]]
            own = (named[outer] == outer) & (wide[outer] | (2 * whole[now] >= whole[outer]))
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
        at, change = np.flatnonzero(marked), np.zeros(len(self.starts) + 1, np.int64)
        for place in np.unique(self.of_span[at]).tolist():
            first, last = np.searchsorted(self.of, [place, place + 1]).tolist()
            mine = at[slice(*np.searchsorted(self.of_span[at], [place, place + 1]).tolist())]
            begin = np.searchsorted(self.starts[first:last], self.begins[mine]) + first
            end = np.searchsorted(self.ends[first:last], self.stops[mine], side="right") + first
            np.add.at(change, begin, begin < end)
            np.subtract.at(change, end, begin < end)
        return np.cumsum(change)[:-1] > 0

    def of_ids(self, ids: Ints) -> Marks:
        """Which spans have one of some ids, which are in order."""
        return among(self.ids, ids)

    def _up(self, at: Ints, marked: Marks) -> Ints:
        """From spans up to the first that is marked, itself or one around it; NONE where there is none."""
        found = at.copy()
        left = np.flatnonzero(found != NONE)
        while len(left):
            left = left[~marked[found[left]]]
            found[left] = self.parent[found[left]]
            left = left[found[left] != NONE]
        return found


def stretches(run: Run, ranks: Ints, starts: Ints, ends: Ints) -> Stretches:
    """Disjoint pieces of idle time, each of a rank, cut; `piece` counts them as they were given."""
    every = np.unique(ranks)
    found: list[tuple[NDArray[np.generic], ...]] = [_NOTHING]
    span = 0
    for place, rank in enumerate(every.tolist()):
        mine, spans = np.flatnonzero(ranks == rank), run.get(hosts).spans(rank)
        one = cut(run, rank, starts[mine], ends[mine])
        kept = _around(spans, one)
        new = np.full(len(spans.ids) + 1, NONE)  # where each span is among those that are kept
        new[kept] = np.arange(span, span + len(kept))
        found.append((
            np.full(len(one.starts), place), one.starts, one.ends, mine[one.piece], new[one.inner],
            spans.ids[kept], np.full(len(kept), place), spans.starts[kept], spans.ends[kept], new[spans.parent[kept]],
            spans.kinds[kept],
        ))  # fmt: skip
        span += len(kept)
    steps = np.array([max(1, len(run.steps[rank])) for rank in every.tolist()], np.int64)
    return Stretches(every, steps, *(np.concatenate(column) for column in zip(*found, strict=True)))


#: Of no rank: the columns of stretches and of spans.
_NO = np.zeros(0, np.int64)
_NOTHING = (_NO, _NO, _NO, _NO, _NO, _NO, _NO, _NO, _NO, _NO, np.zeros(0, np.uint8))


def cut(run: Run, rank: int, starts: Ints, ends: Ints) -> Cut:
    """The same of one rank; `inner` is a place among all of its host's spans."""
    there = run.get(hosts)
    spans, threads = there.spans(rank), there.threads[rank]
    tracks = threads.tracks(threads.issuing) or sorted(threads.of_track)
    order = np.argsort(starts, kind="stable")
    begins, stops = starts[order], ends[order]
    issued = np.flatnonzero(np.isin(spans.tracks, tracks))
    edges = np.concatenate((spans.starts[issued], spans.ends[issued]))
    at = np.searchsorted(begins, edges, side="right") - 1
    within = (at >= 0) & (edges < np.append(stops, 0)[at])
    met = within[: len(issued)] | within[len(issued) :] | (at[: len(issued)] < at[len(issued) :])
    edges = edges[within]
    cuts = distinct(np.concatenate((edges, begins, stops)))
    first, last = cuts[:-1], cuts[1:]
    of = np.searchsorted(begins, first, side="right") - 1
    inside = last <= stops[of] if len(first) else np.zeros(0, np.bool_)
    first, last, of = first[inside], last[inside], of[inside]
    return Cut(first, last, order[of], spans.latest(tracks, first), issued[met])


def _around(spans: HostSpans, one: Cut) -> Ints:
    """The spans that the host was in while its device idled, and those around them."""
    kept = np.zeros(len(spans.ids), np.bool_)
    at = one.met.astype(np.int32)
    while len(at):
        kept[at] = True
        at = spans.parent[at]
        at = at[at != NONE]
        at = np.unique(at[~kept[at]])
    return np.flatnonzero(kept)


def largest(of: Ints, ns: Ints, many: int) -> Ints:
    """The places with most time, so many of each rank: rank by rank, the largest first."""
    order = np.lexsort((-ns, of))
    group = of[order]
    return order[np.arange(len(order)) - np.searchsorted(group, group) < many]


def marked(spans: HostSpans, ids: Ints) -> Marks:
    """Which spans have one of some ids, which are in order."""
    return among(spans.ids, ids)
