"""What reading device values in the middle of a step costs: the run replayed without these reads.

While a call waits for the device, the host loses the lead that would hide its own work. Once lost, no later call shows
it: each lasts some us on an empty device. So the lead is not read off the calls. The replay leaves out the waits, the
copies and the operators around them (aten::item), and says which gaps would be left.

Reading the loss once, at the end of a step, is normal. A call before the first launch of a step waits for the step
before, so it is that step's end. What waits for a long copy is the copy's. Where nobody marked the steps, the turns of
the host's loop stand for them (analysis/ranks/turns.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.finding import Change, together
from npulens.analysis.idle.first_use import trials
from npulens.analysis.idle.host_names import special
from npulens.analysis.idle.host_spans import NONE, OPERATOR, HostSpans, hosts
from npulens.analysis.idle.issue import COLLECTIVE, COPY, KERNEL, MEMSET, Tasks, tasks
from npulens.analysis.intervals import Intervals, Ints, distinct
from npulens.analysis.ranks.turns import turns
from npulens.analysis.replay import whatif
from npulens.analysis.replay.graph import graph
from npulens.analysis.run import Run

#: Calls around a copy longer than this wait for the copy; a value takes 2 to 10 us in real captures.
_LONG_COPY_NS = 20_000
#: A step's last read is the end of its work where less than this share of its launches follows.
_FOLLOWS = 0.5
#: A blocking copy and the call that waits for it lie so close together.
_BESIDE_NS = 20_000
#: Before all stamps.
_NEVER = np.iinfo(np.int64).min // 2
#: How many operators around a call are looked at.
_LEVELS = 12


@dataclass(frozen=True)
class Reads:
    """Synchronising calls in the middle of steps."""

    calls: dict[int, Ints]  # rank -> their spans, by end
    ends: dict[int, Ints]
    change: Change  # the run without them

    def left_ns(self, run: Run, ids: Ints, count: Ints, whole: Ints, task: Ints) -> Ints:
        """What would be left of some gaps without the reads.

        `ids`: tasks of several ranks, each with a `count` of them. `task` ends a gap; NONE: nothing or a rank's first.
        """
        times = run.get(_without)
        if times is None or not len(ids):
            return whole
        found = run.get(graph)
        at = np.searchsorted(found.task_span, ids)
        begin, end = times[found.task_start[at]], times[found.task_end[at]]
        apart = np.repeat(np.arange(len(count)) * (int(times.max()) - int(times.min()) + 1), count)
        reach = np.maximum.accumulate(end + apart)
        place = np.maximum(task, 1) if len(ids) > 1 else np.zeros(len(task), np.int64)
        left = np.clip(begin[place] + apart[place] - reach[place - 1], 0, whole)
        return np.where(task > 0, left, whole)


def reads(run: Run) -> Reads:
    """Every rank's reads in the middle of its steps."""
    calls, ends, changes = {}, {}, [Change()]
    for rank, did in run.get(tasks).items():
        spans = run.get(special).get(rank)
        if spans is None or not did.linked.any():
            continue
        threads = run.get(hosts).threads[rank]
        mine = np.flatnonzero(spans.of("sync_stall") & np.isin(spans.tracks, threads.tracks(threads.issuing)))
        mine = mine[np.argsort(spans.ends[mine], kind="stable")]
        mine = mine[trials(run, rank).within(spans.starts[mine], spans.ends[mine]) == 0]  # these read no values
        kept = mine[_midway(run, rank, did, spans.starts[mine], spans.ends[mine])]
        if len(kept):
            calls[rank], ends[rank] = spans.ids[kept], spans.ends[kept]
            changes.append(_without_calls(run, rank, did, spans.ids[kept], spans.starts[kept], spans.ends[kept]))
    return Reads(calls, ends, together(changes))


def _without(run: Run) -> Ints | None:
    """When everything happens without them; None: there are none, or nothing would change."""
    return whatif.replayed(run, run.get(reads).change)


def _midway(run: Run, rank: int, did: Tasks, begins: Ints, ends: Ints) -> NDArray[np.bool_]:
    """Which calls lie between launches of their step, are not its last read and do not wait for a long copy."""
    kernels = np.flatnonzero(did.linked & np.isin(did.kinds, (KERNEL, MEMSET, COLLECTIVE)))
    kernels = kernels[np.argsort(did.issued[kernels], kind="stable")]
    launches = did.issued[kernels]
    steps = np.array([(step.ts_ns, step.end_ns) for step in run.steps[rank]], np.int64).reshape(-1, 2)
    if not len(steps):
        turned = turns(run, did, kernels, np.searchsorted(launches, ends, "left"), begins, ends)
        edges = np.concatenate(([_NEVER], turned + 1, [-_NEVER]))  # a call that ends a turn belongs to it
        steps = np.stack((edges[:-1], edges[1:]), axis=1)
    step = np.searchsorted(steps[:, 0], ends, "right") - 1
    inside = (step >= 0) & (ends < steps[step, 1])
    after = np.searchsorted(launches, ends, "left")
    first, last = (np.searchsorted(launches, steps[:, side], "left") for side in (0, 1))
    good = inside & (after > first[step]) & (after < last[step])
    # All calls without a launch between them are one read, so `after` names the read.
    final = np.zeros(len(steps), np.int64)
    np.maximum.at(final, step[inside], after[inside])
    good &= (after < final[step]) | (last[step] - after >= _FOLLOWS * (last - first)[step])
    copies = np.sort(did.ends[(did.kinds == COPY) & (did.ends - did.starts > _LONG_COPY_NS)])
    near = np.searchsorted(copies, ends, "right") > np.searchsorted(copies, begins, "left")
    return np.asarray(good & ~np.isin(after, after[near]))


def _without_calls(run: Run, rank: int, did: Tasks, ids: Ints, begins: Ints, ends: Ints) -> Change:
    """Nothing waits, nothing is copied, and the operators around the calls are gone."""
    spans = run.get(hosts).spans(rank)
    launches = np.sort(did.source_start[did.linked & np.isin(did.kinds, (KERNEL, MEMSET, COLLECTIVE))])
    starts, stops = _readers(spans, launches, ids, begins, ends)
    whole = Intervals.union_of(starts - _BESIDE_NS, stops)
    copy = did.linked & (did.kinds == COPY) & (did.ends - did.starts <= _LONG_COPY_NS)
    copy &= whole.within(did.source_start, did.source_start + 1) > 0
    beside = Intervals.union_of(
        np.concatenate((starts, did.source_start[copy])), np.concatenate((stops, did.source_end[copy]))
    )
    return Change(
        host={rank: beside}, tasks=did.ids[copy], task_ns=(did.ends - did.starts)[copy],
        syncs=distinct(np.concatenate((ids, did.source[copy]))),
    )  # fmt: skip


def _readers(spans: HostSpans, launches: Ints, ids: Ints, begins: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """The outermost operator around each call that launches no kernel itself, or else the call."""
    starts, stops = begins.copy(), ends.copy()
    order = np.argsort(spans.ids, kind="stable")
    at = order[np.minimum(np.searchsorted(spans.ids, ids, sorter=order), len(order) - 1)]
    above: list[Ints] = []
    while len(above) < _LEVELS and (at != NONE).any():
        at = np.where(at == NONE, NONE, spans.parent[at])
        above.append(at)
    for at in above:
        mine = np.flatnonzero(at != NONE)
        mine = mine[spans.kinds[at[mine]] == OPERATOR]
        begin, end = spans.starts[at[mine]], spans.ends[at[mine]]
        silent = np.searchsorted(launches, end, "left") == np.searchsorted(launches, begin, "left")
        starts[mine[silent]], stops[mine[silent]] = begin[silent], end[silent]
    return starts, stops
