"""The run as a graph that can be replayed: what every moment waited for, and for how long.

Nodes are moments: a launch, the start and the end of a task, the arrival of a peer. A call that waits for the device is
one, and so is its return. Each happens when the last of what it waits for has happened and the time in between has
passed (analysis/replay/whatif.py). Unchanged, the replay gives back every recorded stamp to the nanosecond;
analysis/replay/whatif.py changes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.intervals import Intervals, Ints
from npulens.analysis.ranks.clock import clock
from npulens.analysis.ranks.collectives import MEETING, collectives
from npulens.analysis.ranks.comm_tasks import comm_tasks
from npulens.analysis.ranks.exchanges import exchanges
from npulens.analysis.ranks.waits import arrivals
from npulens.analysis.replay.device import Device, device, synchronised
from npulens.analysis.replay.draft import COMM, LAST, MIRROR, PEER, Draft, Settled
from npulens.analysis.replay.host import Host, host
from npulens.analysis.replay.rows import COLLECTIVE, Rows, rows
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
    task_told: Ints  # when the host had its result before it ended; -1: never
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
        synchronised(draft, mine, hosts[rank], devices[rank])
        begin[index], end[index] = _window(draft, run, index, mine, hosts[rank], devices[rank])
    operators = meet(draft, run, all_rows, devices)
    settled, place = draft.settle()
    place = np.append(place, -1)  # so that what there is none of stays so
    return _placed(run, settled, place, all_rows, hosts, devices, operators, offsets, begin, end)


def _marks(run: Run, rank: int) -> Ints:
    """Moments of the host that bound the rank's window: its begin, and when the host was through with the last step."""
    window = run.window(rank)
    if window is None or not run.steps[rank]:
        return np.zeros(0, np.int64)
    through = run.steps[rank][-1].ts_ns + run.get(_last_on_host)[rank]
    return np.array([window[0], min(through, window[1])], np.int64)


def _last_on_host(run: Run) -> dict[int, int]:
    """How long each rank's host was at its last step."""
    sql = "SELECT rank, arg_max(coalesce(host_dur_ns, dur_ns), ts_ns) FROM step GROUP BY rank"
    return dict(run.con.execute(sql).fetchall())


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
    run: Run, settled: Settled, place: Ints, all_rows: dict[int, Rows], hosts: dict[int, Host],
    devices: dict[int, Device], operators: Operators, offsets: Ints, begin: Ints, end: Ints,
) -> Graph:  # fmt: skip
    """Everything by its place in the order of time."""
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
        place[_joined(devices[rank].end for rank in ranks)[order]],
        place[_joined(devices[rank].told for rank in ranks)[order]], instance,
        _joined(hosts[rank].sync_span for rank in ranks)[by_time], sync_rank[by_time], sync_start[by_time],
        place[_joined(hosts[rank].sync_end for rank in ranks)][by_time],
        {rank: hosts[rank].queued for rank in ranks}, {rank: hosts[rank].backlog for rank in ranks},
    )  # fmt: skip


def _joined(parts: Iterable[Ints]) -> Ints:
    return np.concatenate([np.zeros(0, np.int64), *parts])


# Collectives in the replay: nobody leaves before the last has come.
#
# The captured members of one collective meet in a node. Members that were not captured are a node each time they came
# last (analysis/ranks/waits.py). They come some time after the collective before. Where a change touches every captured
# rank alike, they come as late after the captured one as was recorded.
#: A peer that nobody names came later than the captured ones only if by more than stamps can be off.
_CLEAR_NS = 5_000
#: Who meets in an operator: ranks that have no number, nobody, or all ranks of the job; else a number from 1 on.
_NOT_TOLD, _NOBODY, _EVERYBODY = -2, -1, 0


@dataclass(frozen=True)
class Operators:
    """Collective operators of all ranks, by span. Times on the common clock; nodes as drafted."""

    span: Ints
    rank: Ints  # index of the rank
    ts: Ints
    end: Ints
    lane: Ints
    start_node: Ints
    end_node: Ints
    told_node: Ints
    early: Ints  # so long before the end the host had its result
    instance: Ints  # those of one collective share a number; -1: matched with none


def meet(draft: Draft, run: Run, rows: dict[int, Rows], devices: dict[int, Device]) -> Operators:
    """Adds what ties the ranks together."""
    found = _operators(run, rows, devices)
    draft.shift = 0
    length = found.end - found.ts
    meeting, last = _meetings(draft, found)
    op, arrival, ready = _peers(run, found, last)
    transfer = np.where(last <= found.end, found.end - last, length)
    # Once its own part is ready a member waits: what it does before does not depend on the peer.
    transfer[op] = np.minimum(transfer[op], found.end[op] - arrival + ready - found.ts[op])
    peer = draft.nodes(arrival, -1, found.span[op])
    draft.edges(found.start_node[op], peer, arrival - found.ts[op], MIRROR)
    _peer_chain(draft, found, op, arrival, peer, _company(run, found))
    met, told = np.flatnonzero(meeting >= 0), np.flatnonzero(found.told_node >= 0)
    for node, early, of in ((found.end_node, np.zeros_like(length), np.arange(len(length))),
                            (found.told_node, found.early, told)):  # fmt: skip
        mine = np.isin(op, of) & (found.end[op] - early[op] >= arrival)
        draft.edges(peer[mine], node[op[mine]], (found.end[op] - early[op] - arrival)[mine], COMM)
        mine = np.intersect1d(met, of)
        draft.edges(meeting[mine], node[mine], np.maximum(transfer[mine] - early[mine], 0), COMM)
        draft.edges(found.start_node[of], node[of], np.maximum(np.minimum(transfer, length)[of] - early[of], 0), COMM)
    return found


def _operators(run: Run, rows: dict[int, Rows], devices: dict[int, Device]) -> Operators:
    parts = []
    for number, rank in enumerate(run.ranks):
        tasks, device = rows[rank].tasks, devices[rank]
        of = np.flatnonzero(tasks.code == COLLECTIVE)
        shift = run.get(clock).offset_ns(rank)
        parts.append((
            tasks.span[of], np.full(len(of), number, np.int64), tasks.ts[of] + shift, tasks.end[of] + shift,
            tasks.lane[of], device.start[of], device.end[of], device.told[of], tasks.end[of] - device.told_ts[of],
        ))  # fmt: skip
    span, index, ts, end, lane, start_node, end_node, told_node, early = (
        np.concatenate(part) for part in zip(*parts, strict=True)
    )
    known = run.get(collectives)
    at = known.at(span)
    instance = np.full(len(at), -1, np.int64)
    has = at >= 0
    instance[has] = np.where(known.of_kinds(MEETING), known.instance, run.get(exchanges))[at[has]]
    return Operators(span, index, ts, end, lane, start_node, end_node, told_node, early, instance)


def _meetings(draft: Draft, found: Operators) -> tuple[Ints, Ints]:
    """The node in which the members of each operator's collective meet (-1: none), and when the last came there."""
    matched = np.flatnonzero(found.instance >= 0)
    numbers, which, size = np.unique(found.instance[matched], return_inverse=True, return_counts=True)
    last = np.full(len(numbers), np.iinfo(np.int64).min)
    np.maximum.at(last, which, found.ts[matched])
    nodes = draft.nodes(last, -1)
    draft.edges(found.start_node[matched], nodes[which], 0, COMM)
    meeting, came = np.full(len(found.ts), -1, np.int64), found.ts.copy()
    several = size[which] > 1
    meeting[matched[several]], came[matched[several]] = nodes[which[several]], last[which[several]]
    return meeting, came


def _peers(run: Run, found: Operators, last: Ints) -> tuple[Ints, Ints, Ints]:
    """Operators whose last member was not captured: when it came, and when the operator's own part was ready."""
    known, arrived = run.get(collectives), run.get(arrivals)
    shifts = np.array([run.get(clock).offset_ns(rank) for rank in run.ranks], np.int64)
    order = np.argsort(found.span, kind="stable")
    at = np.searchsorted(found.span[order], arrived.op_span_id)
    inside = at < len(order)
    at, arrival, wait, peer = at[inside], arrived.arrival_ns[inside], arrived.wait_ns[inside], arrived.peer[inside]
    op = order[at]
    hit = (found.span[op] == arrived.op_span_id[inside]) & (wait > 0)
    op, arrival, peer = op[hit], arrival[hit] + shifts[found.rank[op[hit]]], peer[hit]
    ready = _ready(run, found, known.at(found.span[op])) + shifts[found.rank[op]]
    missing = ~np.isin(peer, np.array(run.ranks, np.int64)) | (found.instance[op] < 0)
    clear = arrival - (ready - found.ts[op]) > last[op] + _CLEAR_NS
    late = missing & ((peer >= 0) | clear) & (arrival > ready) & (arrival <= found.end[op])
    return op[late], arrival[late], ready[late]


def _ready(run: Run, found: Operators, rows: Ints) -> Ints:
    """When operators began to wait, on their own clock."""
    known, tasks = run.get(collectives), run.get(comm_tasks)
    ready = known.ts.copy()
    ready[tasks.op[tasks.meeting][::-1]] = tasks.ts[tasks.meeting][::-1]
    return ready[rows]


def _company(run: Run, found: Operators) -> Ints:
    """Of each operator a number for the ranks that meet in it, or what else there is to say of them.

    Where all ranks of the job meet, `_EVERYBODY`: whoever meets in another operator is among them.
    """
    known = run.get(collectives)
    numbers: dict[tuple[int, ...], int] = {}
    of_team = np.full(len(known.teams), _NOT_TOLD, np.int64)
    for team, members in known.members.items():
        whole = run.world_size is not None and len(set(members)) == run.world_size
        of_team[team] = _EVERYBODY if whole else numbers.setdefault(tuple(sorted(set(members))), len(numbers) + 1)
    at = known.at(found.span)
    company = np.full(len(at), _NOBODY, np.int64)
    meets = (at >= 0) & known.of_kinds(MEETING)[at]
    company[meets] = of_team[known.team[at[meets]]]
    return company


def _before(found: Operators, op: Ints, arrival: Ints, company: Ints) -> Ints:
    """The latest operator of the same rank in which the same ranks met, and that was over by the arrival; -1: none.

    Its kind and group may be others. Ranks that nobody recorded are among those of an operator of all ranks.
    """
    last = np.full(len(op), -1, np.int64)
    for rank, who in np.unique(np.stack((found.rank[op], company[op])), axis=1).T.tolist():
        if who < _EVERYBODY:
            continue
        same = (company == who) | ((company == _NOT_TOLD) & (who == _EVERYBODY))
        some = np.flatnonzero(same & (found.rank == rank))
        some = some[np.argsort(found.end[some], kind="stable")]
        mine = np.flatnonzero((found.rank[op] == rank) & (company[op] == who))
        place = np.searchsorted(found.end[some], np.minimum(arrival[mine], found.end[op[mine]] - 1), side="right") - 1
        last[mine] = np.where(place >= 0, some[np.maximum(place, 0)], -1)
    return last


def _peer_chain(draft: Draft, found: Operators, op: Ints, arrival: Ints, peer: Ints, company: Ints) -> None:
    """A peer comes some time after the collective before was over, which released it too.

    That is the one before in the same lane, or a later one in which the same ranks met.
    """
    if not len(op):
        return
    order = np.lexsort((found.end, found.lane))
    group = np.cumsum(np.concatenate(([True], np.diff(found.lane[order]) != 0)))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    previous = place[op] - 1
    before = order[np.maximum(previous, 0)]
    fits = (previous >= 0) & (group[previous] == group[place[op]]) & (found.end[before] <= arrival)
    met = _before(found, op, arrival, company)
    later = (met >= 0) & (~fits | (found.end[met] > found.end[before]))
    before, fits = np.where(later, met, before), fits | later
    draft.edges(found.end_node[before[fits]], peer[fits], (arrival - found.end[before])[fits], PEER)
