"""The device's part of the replay: streams, launches, events, and the host's waits for them.

A task starts when three things have happened. The one before it on its stream is over, its launch has reached the
device, and what it depends on is done. The time from a launch to its arrival is measured on tasks whose stream was idle
at their launch. It cannot be seen for tasks that had to queue; they get the usual time of their kind.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.intervals import Ints
from npulens.analysis.replay.draft import ALL, BUSY, COPY, EVENT, GAP, HOST, KERNEL, LAUNCH, OWN, SYNC, Draft
from npulens.analysis.replay.host import Host, usual_of
from npulens.analysis.replay.rows import COLLECTIVE, COMPUTE, COPYING, OTHER, WAITING, Rows, Tasks

_NEVER = np.iinfo(np.int64).min // 4
#: A wait this short found its event there already.
_SHORT_NS = 1_000
#: A stream that has its next task takes no longer to start it; real captures show 0.1 to 3 us.
_DISPATCH_NS = 5_000
#: A task that starts this soon after another one's end may have waited for it; real captures show 1 to 5 us.
_SOON_NS = 10_000
#: After a long wait it may take this share of it longer, up to so much. Marks are stamped up to 26 us late (910A).
_SOON_SHARE, _MARK_NS = 20, 50_000
#: A launch that takes longer to arrive was held up by something: 5 to 20 us are usual in real captures.
_LAUNCH_NS = 200_000


@dataclass(frozen=True)
class Device:
    """One rank's device: nodes of its tasks."""

    start: Ints
    end: Ints
    before: Ints  # the task before on its stream; -1: none
    told: Ints  # node at which the host had its result before it ended; -1: none
    told_ts: Ints


def device(draft: Draft, index: int, rows: Rows, host: Host) -> Device:
    """Adds the device of one rank."""
    tasks = rows.tasks
    start = draft.nodes(tasks.ts, index, tasks.span)
    end = draft.nodes(tasks.end, index, tasks.span)
    before = previous(tasks)
    done = np.where(before >= 0, tasks.end[before], _NEVER) if len(before) else before
    arrives, latest = _launches(tasks, host, done)
    launched = np.flatnonzero(host.launch >= 0)
    draft.edges(host.launch[launched], start[launched], arrives[launched], LAUNCH, latest[launched])
    reached = np.where(host.launch >= 0, host.launch_ts + arrives, _NEVER)
    has = np.flatnonzero(before >= 0)
    gap, wide = _gaps(tasks, done, reached)
    draft.edges(end[before[has]], start[has], gap[has], GAP, wide[has])
    _orphans(draft, tasks, host, np.flatnonzero((before < 0) & (host.launch < 0)), start, end)
    told, told_ts = _told(draft, index, tasks, host)
    waiting, copying = tasks.code == WAITING, tasks.code == COPYING
    takes = np.minimum(tasks.end - tasks.ts, np.where(waiting, _SHORT_NS, ALL))
    for kind, of in ((COPY, copying), (EVENT, waiting), (KERNEL, ~copying & ~waiting & (tasks.code != COLLECTIVE))):
        draft.edges(start[of], end[of], takes[of], kind)
        early = np.flatnonzero(of & (told >= 0))
        draft.edges(start[early], told[early], told_ts[early] - tasks.ts[early], kind)
    itself = np.flatnonzero(tasks.itself)
    draft.edges(end[itself], host.nodes[np.searchsorted(host.times, tasks.end[itself])], 0, SYNC)
    _events(draft, rows, host, start, end)
    expected = np.maximum(reached, np.where(done > _NEVER, done + gap, _NEVER))
    explained = _hidden(draft, rows, host, (start, end), expected, not waiting.any())
    _unlaunched(draft, tasks, host, start, expected, explained)
    return Device(start, end, before, told, told_ts)


def _told(draft: Draft, index: int, tasks: Tasks, host: Host) -> tuple[Ints, Ints]:
    """Nodes and times of the moments at which a host that asked for a task had its result before it ended."""
    told, when = np.full(len(tasks.ts), -1, np.int64), np.zeros(len(tasks.ts), np.int64)
    early = np.flatnonzero(host.sync_task >= 0)
    early = early[host.sync_end_ts[early] < tasks.end[host.sync_task[early]]]
    of = host.sync_task[early]
    told[of], when[of] = draft.nodes(host.sync_end_ts[early], index, tasks.span[of]), host.sync_end_ts[early]
    return told, when


def _orphans(draft: Draft, tasks: Tasks, host: Host, orphans: Ints, start: Ints, end: Ints) -> None:
    """The first task of a stream whose launch nobody recorded keeps its distance to what the device had done last.

    The very first one keeps it to the host, and so does one for which the host was late. Otherwise it would stand
    still while everything around it moves, and hold all that depends on it.
    """
    of = latest_elsewhere(tasks, tasks.ts[orphans], tasks.lane[orphans], np.full(len(orphans), _NEVER))
    has = of >= 0
    has[has] = ~_late(tasks, host, orphans[has], tasks.end[of[has]])
    draft.edges(end[of[has]], start[orphans[has]], tasks.ts[orphans[has]] - tasks.end[of[has]], GAP)
    _after_host(draft, tasks, host, start, orphans[~has])


def previous(tasks: Tasks) -> Ints:
    """The task whose end a task may have waited for: the last of its stream that was over when it started."""
    count = len(tasks.ts)
    before = np.arange(count) - 1
    if not count:
        return before
    first = np.concatenate(([True], tasks.lane[1:] != tasks.lane[:-1]))
    before[first] = -1
    odd = np.flatnonzero((before >= 0) & (tasks.end[before] > tasks.ts))
    bounds = np.flatnonzero(np.concatenate((first, [True])))
    which = np.searchsorted(bounds, odd, "right") - 1
    for lane in np.unique(which):
        begin, end = bounds[lane], bounds[lane + 1]
        order = begin + np.argsort(tasks.end[begin:end], kind="stable")
        order = order[tasks.end[order] > tasks.ts[order]]  # what takes no time never comes before itself
        mine = odd[which == lane]
        at = np.searchsorted(tasks.end[order], tasks.ts[mine], "right") - 1
        before[mine] = np.where(at >= 0, order[np.maximum(at, 0)], -1) if len(order) else -1
    return before


def _launches(tasks: Tasks, host: Host, done: Ints) -> tuple[Ints, Ints]:
    """How long each launch usually takes to arrive, and at most."""
    usual, most = np.zeros(len(tasks.ts), np.int64), np.zeros(len(tasks.ts), np.int64)
    known = host.launch >= 0
    took = tasks.ts - host.launch_ts
    free = known & (done <= host.launch_ts)
    kernel = known & (tasks.code == COMPUTE)
    group = (tasks.how * 2 + (tasks.anchor > tasks.source_ts)) * 8 + tasks.code
    # Where a kind of task always found its stream busy, it is as fast as the others. Settling caps it by what it took.
    any_ = usual_of(took[free]) if free.any() else (int(took[known].min(initial=ALL)),) * 2
    for one in np.unique(group[known]):
        of = known & (group == one)
        usual[of], most[of] = usual_of(took[of & free]) if (of & free).any() else any_
    # A collective that waits for its event looks as if its launch took long: no longer than the call and a kernel's.
    of = known & (tasks.code == COLLECTIVE)
    if of.any() and kernel.any():
        limit = (tasks.source_end - tasks.anchor)[of] + int(np.median(usual[kernel]))
        usual[of], most[of] = np.minimum(usual[of], limit), np.minimum(most[of], limit)
    return np.minimum(usual, _LAUNCH_NS), np.minimum(most, _LAUNCH_NS)


def _gaps(tasks: Tasks, done: Ints, reached: Ints) -> tuple[Ints, Ints]:
    """How long a stream rests between two tasks when the next one is already there."""
    usual, most = np.zeros(len(tasks.ts), np.int64), np.zeros(len(tasks.ts), np.int64)
    queued = (done > _NEVER) & (reached > _NEVER) & (reached <= done)
    for code in np.unique(tasks.code):
        of = tasks.code == code
        usual[of], most[of] = np.minimum(usual_of((tasks.ts - done)[of & queued]), _DISPATCH_NS)
    return usual, most


def _events(draft: Draft, rows: Rows, host: Host, start: Ints, end: Ints) -> None:
    """A wait on one stream ends when what another stream had been given before is done."""
    tasks = rows.tasks
    waits = np.flatnonzero(tasks.code == WAITING)
    if not len(waits):
        return
    long = tasks.end[waits] - tasks.ts[waits] > _SHORT_NS
    by_time = _released(tasks, waits)
    by_order = _recorded(tasks, waits, host)
    fits = (by_order >= 0) & (tasks.end[by_order] <= tasks.end[waits])
    fits &= ~long | (tasks.end[waits] - tasks.end[by_order] < _SOON_NS)
    of = np.where(fits, by_order, np.where(long, by_time, -1))
    has = of >= 0
    after = tasks.end[waits[has]] - tasks.end[of[has]]
    usual, most = usual_of(after[long[has]])
    draft.edges(end[of[has]], end[waits[has]], usual, EVENT, most)


def _released(tasks: Tasks, waits: Ints) -> Ints:
    """The task of another stream that ended last before each wait did, if it was just before."""
    return latest_elsewhere(tasks, tasks.end[waits], tasks.lane[waits], tasks.end[waits] - _SOON_NS)


def latest_elsewhere(tasks: Tasks, until: Ints, lane: Ints, since: Ints) -> Ints:
    """The task of another lane that ended last in (since, until]; -1: none. Waits end with what they wait for: not
    they but their cause counts."""
    real = np.flatnonzero(tasks.code != WAITING)
    order = real[np.argsort(tasks.end[real], kind="stable")]
    at = np.searchsorted(tasks.end[order], until, "right") - 1
    found = np.full(len(until), -1, np.int64)
    open_ = at >= 0
    for _ in range(64):  # back over tasks of the same lane
        of = order[np.maximum(at, 0)] if len(order) else np.zeros(len(at), np.int64)
        open_ &= (at >= 0) & (tasks.end[of] > since) if len(order) else False
        hit = open_ & (tasks.lane[of] != lane)
        found[hit] = of[hit]
        open_ &= ~hit
        if not open_.any():
            break
        at = at - 1
    return found


def _recorded(tasks: Tasks, waits: Ints, host: Host) -> Ints:
    """The last task of another stream, launched before the wait was."""
    found = np.full(len(waits), -1, np.int64)
    known = np.flatnonzero((host.launch >= 0) & (tasks.code != WAITING))
    order = known[np.lexsort((tasks.ts[known], tasks.source_ts[known]))]
    asked = np.flatnonzero(host.launch[waits] >= 0)
    at = np.searchsorted(tasks.source_ts[order], tasks.source_ts[waits[asked]], "left") - 1
    for _ in range(64):
        good = at >= 0
        of = order[np.maximum(at, 0)] if len(order) else np.zeros(len(at), np.int64)
        hit = good & (found[asked] < 0) & (tasks.lane[of] != tasks.lane[waits[asked]]) if len(order) else good
        found[asked[hit]] = of[hit]
        at = at - 1
        if not (good & (found[asked] < 0)).any():
            break
    return found


def _hidden(
    draft: Draft, rows: Rows, host: Host, nodes: tuple[Ints, Ints], expected: Ints, unrecorded: bool
) -> Ints:  # fmt: skip
    """Waits for another stream that no task shows.

    They are starts that nothing explains but the end of a task on another stream just before. Where the profiler
    records no waits at all (CUDA), they are also the calls that order them.

    A mark that is stamped when its event has come (910A) follows it less closely. Returns the tasks that are explained.
    """
    tasks, (start, end) = rows.tasks, nodes
    held = tasks.ts - expected
    late = np.flatnonzero((held > _SHORT_NS) & (expected > _NEVER))
    mark = np.isin(tasks.code[late], (WAITING, OTHER)) & (tasks.end[late] - tasks.ts[late] <= _SHORT_NS)
    soon = np.where(mark, _MARK_NS, np.clip(held[late] // _SOON_SHARE, _SOON_NS, _MARK_NS))
    of = latest_elsewhere(tasks, tasks.ts[late], tasks.lane[late], tasks.ts[late] - soon)
    has = of >= 0
    after = tasks.ts[late[has]] - tasks.end[of[has]]
    usual, _ = usual_of(after)
    draft.edges(end[of[has]], start[late[has]], usual, EVENT, after)
    if unrecorded:
        _ordered_by_calls(draft, rows, host, start, end, usual)
    return late[has]


def _unlaunched(draft: Draft, tasks: Tasks, host: Host, start: Ints, expected: Ints, explained: Ints) -> None:
    """Work whose launch was not recorded and that nothing explains hangs on the host's last known moment.

    Marks and other tasks do not: what they stand for is decided on the device. Neither does what was launched before.
    A host that waited for the device all the time launched nothing meanwhile, unless its queue worked.
    """
    lacking = (host.launch < 0) & (expected > _NEVER)
    lacking[explained] = False
    of = np.flatnonzero(lacking)
    _after_host(draft, tasks, host, start, of[_late(tasks, host, of, expected[of])])


def _late(tasks: Tasks, host: Host, of: Ints, expected: Ints) -> NDArray[np.bool_]:
    """Which of these tasks, whose launch was not recorded, start later than expected and may wait for the host."""
    if not (host.launch >= 0).any():
        return np.zeros(len(of), np.bool_)
    waits = tasks.code == WAITING
    marks = not (waits & (tasks.end - tasks.ts > _SHORT_NS)).any()  # all are stamped when they are over
    begun = (COMPUTE, COPYING, COLLECTIVE)
    late = np.isin(tasks.code[of], begun if marks else (*begun, WAITING))
    late &= tasks.ts[of] - expected > _SOON_NS
    begin, end = expected[late], tasks.ts[of[late]]
    late[late] = ~_waiting(host, begin, end) | (host.queued.within(begin, end) > 0)
    return late


def _waiting(host: Host, begin: Ints, end: Ints) -> NDArray[np.bool_]:
    """Whether the host sat in one call that waits for the device from the begin of each stretch to its end."""
    order = np.argsort(host.sync_ts, kind="stable")
    reach = np.maximum.accumulate(host.sync_end_ts[order])
    at = np.searchsorted(host.sync_ts[order], begin, "right") - 1
    found = at >= 0
    found[found] = reach[at[found]] >= end[found]
    return found


def _after_host(draft: Draft, tasks: Tasks, host: Host, start: Ints, of: Ints) -> None:
    """These tasks keep their distance to the last known moment of the host, on the script's threads or its queue's."""
    last, queue = _last(host.times, tasks.ts[of]), _last(host.queue_times, tasks.ts[of])
    for times, nodes, mine, kind in (
        (host.times, host.nodes, last >= queue, HOST), (host.queue_times, host.queue_nodes, queue > last, BUSY),
    ):  # fmt: skip
        some = of[mine & (np.maximum(last, queue) > _NEVER)]
        at = np.searchsorted(times, tasks.ts[some], "right") - 1
        draft.edges(nodes[at], start[some], tasks.ts[some] - times[at], kind)


def _last(times: Ints, until: Ints) -> Ints:
    """The last of some moments by each time; never where there is none."""
    return np.concatenate((np.array([_NEVER], np.int64), times))[np.searchsorted(times, until, "right")]


def _ordered_by_calls(draft: Draft, rows: Rows, host: Host, start: Ints, end: Ints, usual: int) -> None:
    """After a stream was told to wait, its next task depends on what every other stream had been given by then."""
    tasks, told = rows.tasks, rows.stream_waits
    known = np.flatnonzero(host.launch >= 0)
    order = known[np.argsort(tasks.source_ts[known], kind="stable")]
    at = np.searchsorted(tasks.source_ts[order], told, "left")
    inside = at < len(order)
    told, waiting = told[inside], order[at[inside]]
    for lane in np.unique(tasks.lane[order]):
        given = order[tasks.lane[order] == lane]
        last = np.searchsorted(tasks.source_ts[given], told, "left") - 1
        of = given[np.maximum(last, 0)]
        good = (last >= 0) & (tasks.lane[waiting] != lane) & (tasks.end[of] <= tasks.ts[waiting])
        draft.edges(end[of[good]], start[waiting[good]], usual, EVENT)


def synchronised(draft: Draft, rows: Rows, host: Host, device: Device) -> None:
    """Calls that wait for the device: over when the last task of each stream is, and the host has woken up.

    A host that asked for one task goes on after that one.
    """
    tasks = rows.tasks
    one = np.flatnonzero(host.sync_task >= 0)
    of, until = host.sync_task[one], host.sync_end[one]
    draft.edges(host.sync_start[one], until, _SHORT_NS, OWN)
    early = device.told[of] >= 0
    draft.edges(device.told[of[early]], until[early], 0, SYNC)
    draft.edges(device.end[of[~early]], until[~early], (host.sync_end_ts[one] - tasks.end[of])[~early], SYNC)
    every = np.flatnonzero(host.sync_task < 0)
    begin, end, start_node, end_node = (
        part[every] for part in (host.sync_ts, host.sync_end_ts, host.sync_start, host.sync_end)
    )  # fmt: skip
    lanes, bounds = np.unique(tasks.lane, return_index=True)
    last = np.full((len(lanes), len(end)), -1, np.int64)
    ends = np.append(bounds, len(tasks.ts))
    for row, (low, high) in enumerate(zip(ends[:-1], ends[1:], strict=True)):
        order = low + np.argsort(tasks.end[low:high], kind="stable")
        at = np.searchsorted(tasks.end[order], end, "right") - 1
        last[row] = np.where(at >= 0, order[np.maximum(at, 0)], -1)
    ended = np.where(last >= 0, tasks.end[last], _NEVER) if len(tasks.end) else np.full(last.shape, _NEVER)
    latest = ended.max(axis=0, initial=_NEVER)
    bound = latest > begin
    usual, most = usual_of((end - latest)[bound])
    idle = (end - begin)[~bound]
    least = int(idle.min()) if len(idle) else _SHORT_NS
    own = np.where(bound, np.minimum(least, _SHORT_NS), end - begin)
    draft.edges(start_node, end_node, own, OWN)
    for row in range(len(lanes)):
        has = last[row] >= 0
        draft.edges(device.end[last[row][has]], end_node[has], usual, SYNC, most)
