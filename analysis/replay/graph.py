"""The run as a graph that can be replayed: what every moment waited for, and for how long.

Nodes are moments: a launch, a call that waits for the device and its return, the start and the end
of a task, the arrival of a peer. Each happens when the last of what it waits for has happened and
the time in between has passed (analysis/replay/whatif.py). Unchanged, the replay gives back every
recorded stamp to the nanosecond; analysis/replay/whatif.py changes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.intervals import Intervals, Ints
from npulens.analysis.ranks.clock import clock
from npulens.analysis.replay.comm import Operators, meet
from npulens.analysis.replay.device import Device, device, synchronised
from npulens.analysis.replay.draft import LAST, Draft, Settled
from npulens.analysis.replay.host import Host, host
from npulens.analysis.replay.rows import Rows, rows
from npulens.analysis.run import Run


@dataclass(frozen=True)
class Graph:
    """Everything in the order of time, on the common clock."""

    settled: Settled
    ranks: tuple[int, ...]
    offsets: Ints  # of each rank's clock to the common one
    begin: Ints  # per rank: the node its window begins with; -1: it has none
    end: Ints
    is_linked: NDArray[np.bool_]
    task_span: Ints  # device tasks by span
    task_start: Ints
    task_end: Ints
    task_instance: Ints  # collectives: members share a number; -1: none
    sync_span: Ints  # calls that wait for the device, by start
    sync_rank: Ints
    sync_start: Ints
    sync_end: Ints
    queued: dict[int, Intervals]  # per rank, when the thread of its queue worked
    backlog: dict[int, Intervals]  # and when it was the one that everything waited for

    def linked(self, rank: int) -> bool:
        """Whether the rank's launches are known; without them a change of its host only shortens gaps."""
        return rank in self.ranks and bool(self.is_linked[self.ranks.index(rank)])

    def wall_ns(self, times: Ints) -> int:
        """The longest window, when everything happens at these times."""
        has = self.begin >= 0
        return int((times[self.end[has]] - times[self.begin[has]]).max(initial=0))


def graph(run: Run) -> Graph:
    """The run's graph; ask for it with run.get(graph)."""
    draft, all_rows = Draft(), rows(run)
    hosts, devices = {}, {}
    begin, end = np.full(len(run.ranks), -1, np.int64), np.full(len(run.ranks), -1, np.int64)
    offsets = np.array([run.get(clock).offset_ns(rank) for rank in run.ranks], np.int64)
    draft.nodes(np.zeros(0, np.int64), -1)
    for index, rank in enumerate(run.ranks):
        draft.shift = int(offsets[index])
        mine = all_rows[rank]
        hosts[rank] = host(draft, index, mine, _marks(run, rank))
        devices[rank] = device(draft, index, mine, hosts[rank])
        synchronised(draft, mine, hosts[rank], devices[rank].end)
        begin[index], end[index] = _window(draft, run, index, mine, hosts[rank], devices[rank])
    operators = meet(draft, run, all_rows, devices)
    settled = draft.settle()
    return _placed(run, settled, all_rows, hosts, devices, operators, offsets, begin, end)


def _marks(run: Run, rank: int) -> Ints:
    """Moments of the host that bound the rank's window: its begin, and when the host was through with the last step."""
    window = run.window(rank)
    if window is None or not run.steps[rank]:
        return np.zeros(0, np.int64)
    ((length,),) = run.con.execute(
        "SELECT arg_max(coalesce(host_dur_ns, dur_ns), ts_ns) FROM step WHERE rank = ?", [rank]
    ).fetchall()
    return np.array([window[0], min(run.steps[rank][-1].ts_ns + length, window[1])], np.int64)


def _window(draft: Draft, run: Run, index: int, rows: Rows, host: Host, device: Device) -> tuple[int, int]:
    """Nodes of the rank's window. Its begin stands still, its end is the later of host and device."""
    window = run.window(run.ranks[index])
    if window is None:
        return -1, -1
    begin, end = draft.nodes(np.array(window, np.int64), index)
    tasks = rows.tasks
    inside = np.flatnonzero(tasks.end <= window[1])
    order = inside[np.lexsort((tasks.end[inside], tasks.lane[inside]))]
    last = order[np.flatnonzero(np.diff(tasks.lane[order], append=-1))]
    sources = device.end[last]
    marks = _marks(run, run.ranks[index])
    if len(marks) and ((host.launch >= 0).any() or not len(last)):
        sources = np.append(sources, host.at(int(marks[1])))
    draft.edges(sources, np.full(len(sources), end), 0, LAST)
    return int(begin), int(end)


def _placed(
    run: Run, settled: Settled, all_rows: dict[int, Rows], hosts: dict[int, Host], devices: dict[int, Device],
    operators: Operators, offsets: Ints, begin: Ints, end: Ints,
) -> Graph:  # fmt: skip
    """Everything by its place in the order of time."""
    place = np.append(settled.place, -1)  # so that what there is none of stays so
    ranks = run.ranks
    span = _joined(all_rows[rank].tasks.span for rank in ranks)
    order = np.argsort(span, kind="stable")
    instance = np.full(len(span), -1, np.int64)
    instance[np.searchsorted(span[order], operators.span)] = operators.instance
    sync_start = place[_joined(hosts[rank].sync_start for rank in ranks)]
    by_time = np.argsort(sync_start, kind="stable")
    linked = np.array([bool((hosts[rank].launch >= 0).any()) for rank in ranks], np.bool_)
    sync_rank = np.repeat(np.arange(len(ranks)), [len(hosts[rank].sync_span) for rank in ranks])
    return Graph(
        settled, ranks, offsets, place[begin], place[end], linked,
        span[order], place[_joined(devices[rank].start for rank in ranks)[order]],
        place[_joined(devices[rank].end for rank in ranks)[order]], instance,
        _joined(hosts[rank].sync_span for rank in ranks)[by_time], sync_rank[by_time], sync_start[by_time],
        place[_joined(hosts[rank].sync_end for rank in ranks)][by_time],
        {rank: hosts[rank].queued for rank in ranks}, {rank: hosts[rank].backlog for rank in ranks},
    )  # fmt: skip


def _joined(parts: Iterable[Ints]) -> Ints:
    return np.concatenate([np.zeros(0, np.int64), *parts])
