"""The host's part of the replay: when each task was launched, and what made the host get there.

The threads that launch or synchronise take turns (the backward thread runs while the main thread waits for it). So they
form one chain whose steps take the time they took. The thread behind torch_npu's task queue is a chain of its own. It
takes an element out when it has been put in and the one before is done, works, and rests in between.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.intervals import EMPTY, Intervals, Ints
from npulens.analysis.replay.draft import BUSY, HOST, QUEUE, Draft
from npulens.analysis.replay.polled import at_work, polled
from npulens.analysis.replay.rows import BY_CALL, Queued, Rows, Syncs, Tasks

#: A host that waits for a task goes on so soon after it: 5 to 50 us in real captures.
_WOKEN_NS = 100_000
#: Where the device is the CPU itself, it may take this share of the wait.
_SHARED_CORES = 20
#: In what is a wait the device works for at least this share.
_WORKED_SHARE = 0.9
#: Elements of the queue in a row, each waiting for the one before, that are no accident. Then how much longer than
#: usual one takes that holds the others up.
_MANY, _LONG = 4, 4
#: So many frees say what one takes; one that waits takes so many times that.
_FREES, _LONG_FREE = 3, 4
#: A queue of the driver that is full holds so many launches or more: some 1,020 in CUDA.
_DEEP = 128
#: So many launches that waited prove that there is a limit; each took so many times the median, and they took most of
#: what all such long ones took.
_BLOCKED, _LONG_LAUNCH = 32, 4
#: It holds the same number each time, but for this share.
_SAME_DEPTH = 0.02
_END, _BEGIN, _INSIDE = range(3)  # moments of a queue's chain; in this order where they coincide


@dataclass(frozen=True)
class Host:
    """One rank's host."""

    times: Ints  # of the main chain, each once
    nodes: Ints
    launch: Ints  # per task: the node it was launched from; -1: unknown
    launch_ts: Ints
    sync_span: Ints
    sync_start: Ints  # nodes
    sync_end: Ints
    sync_ts: Ints
    sync_end_ts: Ints
    sync_task: Ints  # the one task that it waited for; -1: all that the device had been given
    queued: Intervals  # when the queue's thread worked
    backlog: Intervals  # when it was the one that everything waited for
    queue_times: Ints  # of the chains of queues, in order
    queue_nodes: Ints

    def at(self, time: int) -> int:
        """The node of a time that is in the chain."""
        return int(self.nodes[np.searchsorted(self.times, time)])


def host(draft: Draft, index: int, rows: Rows, marks: Ints) -> Host:
    """Adds the host of one rank; `marks` are further moments that have to be in its main chain."""
    tasks, anchor = rows.tasks, rows.tasks.anchor
    queue_threads = np.unique(rows.queued.thread)
    by_queue = (tasks.source >= 0) & np.isin(tasks.thread, queue_threads)
    rows = replace(rows, queued=_in_time(rows.queued, tasks, anchor, by_queue))
    queued = rows.queued
    mine = (tasks.source >= 0) & ~by_queue
    working = _working(rows, mine, by_queue)
    put = np.where(np.isin(queued.putter, working), queued.put, -1)
    base = np.concatenate((anchor[mine], put[put >= 0], marks))
    span, begin, end, task = _syncs(rows, np.setdiff1d(working, queue_threads))
    done = tasks.end[tasks.itself]
    times = _distinct(np.concatenate((base, begin, end, done)))
    spans = np.full(len(times), -1, np.int64)
    spans[np.searchsorted(times, anchor[mine])] = tasks.source[mine]
    spans[np.searchsorted(times, end[span >= 0])] = span[span >= 0]
    nodes = draft.nodes(times, index, spans)
    starts, ends = np.searchsorted(times, begin), np.searchsorted(times, end)
    # The return of a waiting call, or of one that is the task itself, has its own reasons. What another thread did
    # meanwhile only comes before it.
    steps = np.diff(times, prepend=times[:1])
    steps[ends] = 0
    steps[np.searchsorted(times, done)] = 0
    launch, launch_ts = np.full(len(tasks.ts), -1, np.int64), np.zeros(len(tasks.ts), np.int64)
    _found(times, nodes, tasks, mine, launch, launch_ts)
    busy, taken = EMPTY, Intervals.union_of(queued.ts, queued.end)
    chains: list[tuple[Ints, Ints]] = [(times[:0], nodes[:0])]
    for thread in queue_threads:
        of, of_tasks = queued.thread == thread, by_queue & (tasks.thread == thread)
        points, at, kinds = _queue(draft, index, rows, put, of, of_tasks, times, nodes)
        chains.append((points, at))
        _found(points, at, tasks, of_tasks, launch, launch_ts)
        emptied = _drained(draft, rows, (times, nodes, steps), (points, at, kinds))
        busy = busy | _backlog(queued.ts[of], queued.end[of], put[of], emptied)
    draft.edges(nodes[:-1], nodes[1:], steps[1:], HOST)
    moments, numbers = (np.concatenate(column) for column in zip(*chains, strict=True))
    order = np.argsort(moments, kind="stable")
    return Host(
        times, nodes, launch, launch_ts, span, nodes[starts], nodes[ends], begin, end, task, taken, busy,
        moments[order], numbers[order],
    )  # fmt: skip


def _in_time(queued: Queued, tasks: Tasks, anchor: Ints, by_queue: NDArray[np.bool_]) -> Queued:
    """No element is taken out after what it launched has started, as it may seem where clocks differ a little."""
    begin = queued.ts.copy()
    for thread in np.unique(queued.thread):
        of, mine = np.flatnonzero(queued.thread == thread), by_queue & (tasks.thread == thread)
        at = np.searchsorted(queued.ts[of], tasks.source_ts[mine], "right") - 1
        known = at >= 0
        np.minimum.at(begin, of[at[known]], anchor[mine][known])
        begin[of[1:]] = np.maximum(begin[of[1:]], np.minimum(queued.end[of[:-1]], queued.ts[of[1:]]))
    return replace(queued, ts=begin, put=np.where(queued.put >= 0, np.minimum(queued.put, begin), queued.put))


def _drained(draft: Draft, rows: Rows, main: tuple[Ints, Ints, Ints], queue: tuple[Ints, Ints, Ints]) -> Ints:
    """Calls before which the queue had to be empty; what the thread waited for that is none of its own time.

    Returns when the queue was done, of those that really had to wait for it.
    """
    (times, nodes, steps), (points, at, kinds) = main, queue
    place = np.searchsorted(times, rows.direct.ts)  # the call itself, or the moment in it that launched
    last = np.searchsorted(points, rows.direct.ts, "right") - 1
    good = (place > 0) & (place < len(times)) & (last >= 0) & (kinds[last] == _END)
    place, last, reached = place[good], last[good], rows.direct.reached[good]
    done, before, now = points[last], times[place - 1], times[place]
    waited = (done > reached) & (done > before)
    own = np.maximum(reached - before, 0) + now - done
    np.minimum.at(steps, place[waited], own[waited])
    draft.edges(at[last], nodes[place], np.where(waited, now - done, 0), QUEUE)
    return np.asarray(done[waited], np.int64)


def _backlog(begin: Ints, end: Ints, put: Ints, emptied: Ints) -> Intervals:
    """When the queue's thread is what everybody waits for.

    Then many elements in a row had to wait for the one before. Fewer are enough until the script itself had to wait, or
    behind one that took long.
    """
    if len(begin) < 2:
        return EMPTY
    waited = np.concatenate(([False], (put[1:] >= 0) & (put[1:] < end[:-1])))
    row = np.cumsum(~waited) - 1  # each begins with the element that the others waited for
    size = np.bincount(row)
    odd = (end - begin > _LONG * np.median(end - begin)) | np.isin(end, emptied)
    matters = (size >= _MANY) | (np.bincount(row, weights=odd) > 0)
    of = matters[row] & ((size[row] > 1) | np.isin(end, emptied))
    return Intervals.union_of(begin[of], end[of])


def _working(rows: Rows, mine: NDArray[np.bool_], by_queue: NDArray[np.bool_]) -> Ints:
    """Threads that launch something themselves or through the queue; others only watch or tidy up."""
    tasks, queued = rows.tasks, rows.queued
    taken = np.searchsorted(np.sort(queued.ts), tasks.source_ts[by_queue], "right") - 1
    order = np.argsort(queued.ts, kind="stable")
    return np.union1d(tasks.thread[mine], queued.putter[order[taken[taken >= 0]]])


def _syncs(rows: Rows, threads: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Calls that waited for the device, the outermost of each thread, and waits that no call shows.

    Their spans, begins and ends, and the task that one alone waited for.
    """
    tasks, syncs = rows.tasks, rows.syncs
    held = (tasks.held & (tasks.how == BY_CALL)) | _blocked(tasks)
    certain = (syncs.asked == 0) | ended_with(tasks, syncs.ts, syncs.end) | _freed_after(tasks, syncs)
    called = [
        np.concatenate(part) for part in (
            (syncs.span[certain], tasks.source[held]), (syncs.ts[certain], tasks.source_ts[held]),
            (syncs.end[certain], tasks.source_end[held]), (syncs.thread[certain], tasks.thread[held]),
        )
    ]  # fmt: skip
    of = np.isin(called[3], threads)
    unseen, asked = _unseen(rows, threads, Intervals.union_of(called[1][of], called[2][of]))
    silent = np.flatnonzero(unseen | (asked >= 0))
    nobody, thread = np.full(len(silent), -1, np.int64), np.broadcast_to(threads[:1], (len(silent),))
    silently = (nobody, rows.silence.ts[silent], rows.silence.end[silent], thread)
    span, begin, end, thread = (np.concatenate(part) for part in zip(called, silently, strict=True))
    task = np.concatenate((np.full(len(called[0]), -1, np.int64), np.where(unseen, -1, asked)[silent]))
    order = np.lexsort((-end, begin, thread))
    order = order[np.isin(thread[order], threads) & (end[order] > begin[order])]
    keep = np.zeros(len(order), np.bool_)
    for one in np.unique(thread[order]):
        of = thread[order] == one
        reach = np.maximum.accumulate(end[order[of]])
        keep[of] = np.concatenate(([True], begin[order[of]][1:] >= reach[:-1]))
    order = order[keep]
    return span[order], begin[order], end[order], task[order]


def _blocked(tasks: Tasks) -> NDArray[np.bool_]:
    """Launches that waited for a place in the driver's queue: it was as full as it is whenever a launch takes long.

    A place is free when the device begins with the next task. So a faster device lets them return earlier. Another
    queue may hold a few tasks more for a while, so the fullest moment of all tells nothing.
    """
    found = np.zeros(len(tasks.ts), np.bool_)
    mine = np.flatnonzero((tasks.how == BY_CALL) & (tasks.source >= 0))
    _, first, of = np.unique(tasks.source[mine], return_index=True, return_inverse=True)
    if len(first) < _DEEP + _BLOCKED:
        return found
    begun = np.full(len(first), np.iinfo(np.int64).max)
    np.minimum.at(begun, of.ravel(), tasks.ts[mine])
    called, returned = tasks.source_ts[mine][first], tasks.source_end[mine][first]
    waiting = np.searchsorted(np.sort(called), returned) - np.searchsorted(np.sort(begun), returned, "right")
    took = returned - called
    long = took >= _LONG_LAUNCH * np.median(took)
    depth = _most(waiting[long], took[long])
    blocked = long & (waiting >= _DEEP) & (np.abs(waiting - depth) <= _SAME_DEPTH * depth)
    if blocked.sum() >= _BLOCKED and 2 * took[blocked].sum() >= took[long].sum():
        found[mine] = blocked[of.ravel()]
    return found


def _most(values: Ints, weight: Ints) -> int:
    """The median of some values, each as often as it weighs; 0 of none."""
    order = np.argsort(values, kind="stable")
    reach = np.cumsum(weight[order])
    return int(values[order][np.searchsorted(2 * reach, reach[-1])]) if len(values) else 0


def _freed_after(tasks: Tasks, syncs: Syncs) -> NDArray[np.bool_]:
    """Frees that first waited for the device and then freed, which takes its own time.

    They take many times what a free takes in which no task ended. The device works until such a time before their end.
    """
    last, inside = _last_end(tasks, syncs.ts, syncs.end)
    asked, length = syncs.asked == 1, syncs.end - syncs.ts
    alone = length[asked & ~inside]
    if len(alone) < _FREES:
        return np.zeros(len(length), np.bool_)
    usual = np.median(alone)
    busy = Intervals.union_of(tasks.ts, tasks.end).within(syncs.ts, np.maximum(last, syncs.ts))
    worked = busy >= _WORKED_SHARE * (last - syncs.ts)
    return np.asarray(asked & inside & worked & (length >= _LONG_FREE * usual) & (syncs.end - last <= usual))


def _last_end(tasks: Tasks, begin: Ints, end: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """The last end of a task before each of some stretches is over, and whether it lies within it."""
    ends = np.sort(tasks.end)
    at = np.searchsorted(ends, end, "right") - 1
    last = ends[np.maximum(at, 0)] if len(ends) else end
    return last, np.asarray((at >= 0) & (last > begin))


def ended_with(tasks: Tasks, begin: Ints, end: Ints, woken: Ints | int = _WOKEN_NS) -> NDArray[np.bool_]:
    """Which of some stretches of the host ended soon after a task did that ran in them."""
    last, inside = _last_end(tasks, begin, end)
    return np.asarray(inside & (end - last <= woken))


def _unseen(rows: Rows, threads: Ints, calls: Intervals) -> tuple[NDArray[np.bool_], Ints]:
    """Silent stretches that are waits for the device, which no call shows: allocators wait without one.

    The device worked nearly all the time, and the stretch ended with its last task. By then nothing ran any more, or
    that task makes up most of the stretch. A host that sleeps is none: its device idles meanwhile. Nor is a thread of a
    CPU that works. One that waits shares its cores with what it waits for, and wakes later.

    Also the task that the host asked for again and again, of other stretches beside `calls` that wait; -1: none.
    """
    tasks, begin, end = rows.tasks, rows.silence.ts, rows.silence.end
    if not len(begin) or not len(threads) or not len(tasks.end):
        return np.zeros(len(begin), np.bool_), np.full(len(begin), -1, np.int64)
    ends = np.argsort(tasks.end, kind="stable")
    last = ends[np.maximum(np.searchsorted(tasks.end[ends], end, "right") - 1, 0)]
    begun = np.searchsorted(np.sort(tasks.ts), end, "left")
    over = np.searchsorted(tasks.end[ends], end, "right")
    filled = np.minimum(tasks.end[last], end) - np.maximum(tasks.ts[last], begin)
    busy = at_work(tasks, begin, end, _WORKED_SHARE)
    asked = polled(tasks, rows.silence, busy & (calls.within(begin, end) == 0))
    itself, woken = tasks.itself, np.full(len(begin), _WOKEN_NS)
    if itself.any():
        busy &= Intervals.union_of(tasks.ts[itself], tasks.end[itself]).within(begin, end) < end - begin
        woken = np.maximum(woken, (end - begin) // _SHARED_CORES)
    alone = (begun == over) | (2 * filled >= end - begin)
    return np.asarray(busy & ended_with(tasks, begin, end, woken) & alone), asked


def _found(
    times: Ints, nodes: Ints, tasks: Tasks, mine: NDArray[np.bool_], launch: Ints, launch_ts: Ints
) -> None:  # fmt: skip
    """The nodes that tasks were launched from."""
    if not len(times):
        return
    at = np.searchsorted(times, tasks.anchor[mine], "right") - 1
    launch[mine] = np.where(at >= 0, nodes[at], -1)
    launch_ts[mine] = np.where(at >= 0, times[at], 0)


def _queue(
    draft: Draft, index: int, rows: Rows, puts: Ints, of: NDArray[np.bool_], of_tasks: NDArray[np.bool_],
    times: Ints, nodes: Ints,
) -> tuple[Ints, Ints, Ints]:  # fmt: skip
    """The chain of one queue thread; returns its moments, their nodes and what they are."""
    queued, inside = rows.queued, _distinct(rows.tasks.anchor[of_tasks])
    begin, end, span, put = queued.ts[of], queued.end[of], queued.span[of], puts[of]
    inside = inside[~np.isin(inside, end, kind="sort")]
    time = np.concatenate((end, begin, inside))
    what = np.repeat([_END, _BEGIN, _INSIDE], [len(end), len(begin), len(inside)])
    order = np.lexsort((what, time))
    number = np.empty(len(order), np.int64)
    spans = np.concatenate((span, span, np.full(len(inside), -1, np.int64)))
    number[order] = draft.nodes(time[order], index, spans[order])
    chain, moments, kinds = number[order], time[order], what[order]
    rests, gaps = (kinds[1:] == _BEGIN) & (kinds[:-1] == _END), np.diff(moments)
    draft.edges(chain[:-1][~rests], chain[1:][~rests], gaps[~rests], BUSY)
    starts, has = number[len(end) : len(end) + len(begin)], put >= 0
    before = np.concatenate(([np.iinfo(np.int64).min], end))[: len(end)]
    kept = has & (put < before)  # it had to wait for the one before
    taken = (begin - put)[has & ~kept]
    usual, most = usual_of(taken if len(taken) else (begin - put)[has])
    draft.edges(nodes[np.searchsorted(times, put[has])], starts[has], usual, QUEUE, most)
    least, more = usual_of((begin - before)[kept])
    draft.edges(chain[:-1][rests], chain[1:][rests], min(least, usual), QUEUE, min(more, most))
    return moments, chain, kinds


def _distinct(values: Ints) -> Ints:
    """Sorted, each once; np.unique hashes, which takes ten times as long for what is nearly sorted."""
    values = np.sort(values, kind="stable")
    return values[np.concatenate(([True], values[1:] != values[:-1]))[: len(values)]]


def usual_of(values: Ints) -> tuple[int, int]:
    """What something usually takes, and what it may take without looking odd."""
    if not len(values):
        return 0, 0
    usual, most = math.floor(0.5 * (len(values) - 1)), math.ceil(0.9 * (len(values) - 1))
    ranked = np.partition(values, (usual, most))  # ten times as fast as numpy's quantiles of a few values
    return int(ranked[usual]), int(ranked[most])
