"""Collectives in the replay: nobody leaves before the last has come.

The captured members of one collective meet in a node. Members that were not captured are a node
each time they came last (analysis/ranks/waits.py): they come some time after the collective before, or -
where a change touches every captured rank alike - as late after the captured one as was recorded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npulens.analysis.intervals import Ints
from npulens.analysis.ranks.clock import clock
from npulens.analysis.ranks.collectives import MEETING, collectives
from npulens.analysis.ranks.comm_tasks import comm_tasks
from npulens.analysis.ranks.exchanges import exchanges
from npulens.analysis.ranks.waits import arrivals
from npulens.analysis.replay.device import Device
from npulens.analysis.replay.draft import COMM, MIRROR, PEER, Draft
from npulens.analysis.replay.rows import COLLECTIVE, Rows
from npulens.analysis.run import Run

#: A peer that nobody names came later than the captured ones only if by more than stamps can be off.
_CLEAR_NS = 5_000


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
    draft.edges(peer, found.end_node[op], found.end[op] - arrival, COMM)
    draft.edges(found.start_node[op], peer, arrival - found.ts[op], MIRROR)
    _peer_chain(draft, found, op, arrival, peer)
    met = np.flatnonzero(meeting >= 0)
    draft.edges(meeting[met], found.end_node[met], transfer[met], COMM)
    draft.edges(found.start_node, found.end_node, np.minimum(transfer, length), COMM)
    return found


def _operators(run: Run, rows: dict[int, Rows], devices: dict[int, Device]) -> Operators:
    parts = []
    for number, rank in enumerate(run.ranks):
        tasks, device = rows[rank].tasks, devices[rank]
        of = np.flatnonzero(tasks.code == COLLECTIVE)
        shift = run.get(clock).offset_ns(rank)
        parts.append((
            tasks.span[of], np.full(len(of), number, np.int64), tasks.ts[of] + shift, tasks.end[of] + shift,
            tasks.lane[of], device.start[of], device.end[of],
        ))  # fmt: skip
    span, index, ts, end, lane, start_node, end_node = (np.concatenate(part) for part in zip(*parts, strict=True))
    known = run.get(collectives)
    at = known.at(span)
    instance = np.full(len(at), -1, np.int64)
    has = at >= 0
    instance[has] = np.where(known.of_kinds(MEETING), known.instance, run.get(exchanges))[at[has]]
    return Operators(span, index, ts, end, lane, start_node, end_node, instance)


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


def _peer_chain(draft: Draft, found: Operators, op: Ints, arrival: Ints, peer: Ints) -> None:
    """A peer comes some time after the collective before was over, which released it too."""
    if not len(op):
        return
    order = np.lexsort((found.end, found.lane))
    group = np.cumsum(np.concatenate(([True], np.diff(found.lane[order]) != 0)))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    previous = place[op] - 1
    before = order[np.maximum(previous, 0)]
    fits = (previous >= 0) & (group[previous] == group[place[op]]) & (found.end[before] <= arrival)
    draft.edges(found.end_node[before[fits]], peer[fits], (arrival - found.end[before])[fits], PEER)
