"""Launch arrows of a small trace: the same as ../links.py says in SQL."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from npulens.ingest.messages import Message
from npulens.ingest.readers.kineto.few.trace import Trace
from npulens.ingest.readers.kineto.shape import LAUNCHED
from npulens.ingest.tables.arrays import NONE, Found, Texts, Unusual, at, coded, lookup, pairs, same
from npulens.ingest.tables.held import Bools
from npulens.ingest.tables.steps import Ints

_START, _END = ord("s"), ord("f")
_LAUNCHES, _AUTOGRAD = ("ac2g", "async_cpu_to_gpu", "async"), ("fwdbwd", "fwd_bwd")


@dataclass(frozen=True)
class Tasks:
    """Device spans that a call asked for. ``at``: their places in the raw table; ``of``: of their shapes."""

    at: Ints
    row: Ints
    ts: Ints
    of: Ints
    operator: Ints  # the row of the operator around the launch, by External id; NONE: not told
    src: Ints  # the row of the call; NONE: none is known
    call: Ints  # its shape
    linked: Bools  # by its correlation


def make(trace: Trace, found: Found) -> Tasks:
    """Tasks and links."""
    device, host = trace.raws["device_raw"], trace.raws["host_raw"]
    of = np.searchsorted(trace.shapes.shape, device.ints("shape"))
    place = np.flatnonzero(trace.shapes.where(*LAUNCHED)[of])
    row, ts = device.ints("row")[place], device.ints("ts")[place]
    correlation = device.ints("correlation")[place]
    task, call = pairs(np.where(correlation == 0, NONE, correlation), host.ints("correlation"))
    late = ts[task] - host.ints("ts")[call]
    call = _earliest(task, call, late, len(place))
    linked = call >= 0
    src = at(host.ints("row"), call)
    shape = at(host.ints("shape"), call)
    # As _EARLIER of the other way has it.
    earlier = (correlation != 0) & (correlation != NONE) & ~linked & (2 * int(linked.sum()) >= len(place))
    external = np.where(earlier, NONE, device.ints("external_id")[place])
    tasks = Tasks(place, row, ts, of[place], _operators(trace, external, shape), src, shape, linked)
    latency = np.where(linked, ts - at(host.ints("ts"), call, 0), NONE)
    _give(found, src[linked], row[linked], "correlation", latency[linked])
    missing = int((~linked).sum())
    if missing:
        tasks = _others(trace, tasks, found)
    found.expected["link"] = len(place)
    lost = int((tasks.src == NONE).sum())
    if lost:
        found.notes.append(("link", Message("device_spans_have_no_launching", {"lost": lost, "n": len(place)})))
    if len(trace.raws["flow_raw"]):
        _answers(trace, found)
    return tasks


def _give(found: Found, src: Ints, dst: Ints, route: str, late: Ints) -> None:
    found.give("link", {
        "src_span_id": src, "dst_span_id": dst, "route": same(route, len(src)), "latency_ns": late,
    })  # fmt: skip


def _earliest(task: Ints, call: Ints, late: Ints, many: int) -> Ints:
    """The call of each task: of several the earliest."""
    order = np.lexsort((-late, task))
    if ((np.diff(task[order]) == 0) & (np.diff(late[order]) == 0)).any():
        raise Unusual
    firsts = np.unique(task[order], return_index=True)
    found = np.full(many, -1, np.int64)
    found[firsts[0]] = call[order][firsts[1]]
    return found


def graph_launch(trace: Trace, shapes: Ints) -> Bools:
    """Whether calls of these shapes launch graphs."""
    names = trace.texts(np.where(shapes == NONE, NONE, (shapes >> 16) - 1))
    return names.where(lambda known: pc.match_substring(known, "GraphLaunch"))


def _operators(trace: Trace, external: Ints, call: Ints) -> Ints:
    """The operator of each task by its External id."""
    host = trace.raws["host_raw"]
    kinds = trace.shapes.where("cpu_op")[np.searchsorted(trace.shapes.shape, host.ints("shape"))]
    last: dict[int, int] = {}
    for key, row in zip(host.ints("external_id")[kinds].tolist(), host.ints("row")[kinds].tolist(), strict=True):
        if key != NONE:
            last[key] = max(last.get(key, row), row)
    told = (external != 0) & (external != NONE)
    operator = np.array([last.get(key, NONE) for key in external.tolist()], np.int64)
    operator = np.where(told, operator, NONE)
    known = operator != NONE
    if 2 * int(known.sum()) < int(told.sum()):
        return np.full(len(external), NONE)
    return np.where(graph_launch(trace, call), NONE, operator)


@dataclass(frozen=True)
class _Flows:
    """Ends of flows: phase, time, id and track."""

    start: Bools
    end: Bools
    ts: Ints
    id: Ints
    track: Ints


def _flows(trace: Trace, cats: tuple[str, ...], far: int) -> _Flows:
    flow = trace.raws["flow_raw"]
    wanted = pa.array(cats)
    cat = trace.texts(flow.ints("cat"))
    phase = flow.ints("ph")
    lane = flow.ints("lane") + np.where(phase == _START, 0, far)
    rows = np.flatnonzero(
        cat.where(lambda known: pc.is_in(pc.utf8_lower(known), value_set=wanted)) & (lane < len(trace.lanes.track))
    )
    ids = flow.ints("id")[rows]
    texts = Texts.of(trace.words)  # ids of one text have several codes
    first: dict[int, int] = {}
    for code in ids[ids >= 0].tolist():
        first[int(texts.codes[code + 1])] = min(first.get(int(texts.codes[code + 1]), code), code)
    ids = np.array([first[int(texts.codes[one + 1])] if one >= 0 else one for one in ids.tolist()], np.int64)
    return _Flows(phase[rows] == _START, phase[rows] == _END, flow.ints("ts")[rows], ids, trace.lanes.track[lane[rows]])


def _others(trace: Trace, tasks: Tasks, found: Found) -> Tasks:
    """Tasks whose call has no correlation: by the flow drawn to them, else by the operator's External id."""
    flows = _flows(trace, _LAUNCHES, 1)
    starts = np.flatnonzero(flows.start)
    ours, theirs = coded((flows.ts[starts], flows.track[starts]), (trace.ts, trace.track))
    flow, span = pairs(ours, theirs)
    ids = flows.id[starts[flow]]
    order = np.lexsort((trace.dur[span], ids))
    twice = ids[order][1:][(np.diff(ids[order]) == 0) & (np.diff(trace.dur[span[order]]) == 0)]
    known, firsts = np.unique(ids[order], return_index=True)
    source = span[order][firsts]  # the shortest span of each id
    loose = np.flatnonzero(~tasks.linked)
    ends = np.flatnonzero(flows.end)
    lanes = trace.lanes.track[trace.raws["device_raw"].ints("lane")[tasks.at[loose]]]
    ours, theirs = coded((flows.ts[ends], flows.track[ends]), (tasks.ts[loose], lanes))
    end, task = pairs(ours, theirs)
    of = lookup(flows.id[ends[end]], known)
    drawn = np.flatnonzero(of >= 0)
    if np.isin(known[of[drawn]], twice).any():  # which of two spans as long as each other is not told
        raise Unusual
    src, call, late = tasks.src.copy(), tasks.call.copy(), np.full(len(tasks.row), NONE)
    for place in drawn[np.argsort(-trace.row[source[of[drawn]]], kind="stable")].tolist():
        to, start = loose[task[place]], source[of[place]]  # of several the least row comes last
        src[to], call[to], late[to] = trace.row[start], trace.shape[start], tasks.ts[to] - trace.ts[start]
    drawn_to = loose[src[loose] != NONE]
    _give(found, src[drawn_to], tasks.row[drawn_to], "ac2g", late[drawn_to])
    rest = loose[(src[loose] == NONE) & (tasks.operator[loose] != NONE)]
    host = trace.raws["host_raw"]
    begin = at(host.ints("ts"), lookup(tasks.operator[rest], host.ints("row")))
    _give(found, tasks.operator[rest], tasks.row[rest], "external_id", tasks.ts[rest] - begin)
    src[rest] = tasks.operator[rest]
    return Tasks(tasks.at, tasks.row, tasks.ts, tasks.of, tasks.operator, src, call, tasks.linked)


def _answers(trace: Trace, found: Found) -> None:
    """Which forward operator a backward one answers."""
    flows = _flows(trace, _AUTOGRAD, 0)
    calls = np.flatnonzero(trace.kinds("cpu_op"))
    ours, theirs = coded((flows.ts, flows.track), (trace.ts[calls], trace.track[calls]))
    flow, call = pairs(ours, theirs)
    span = calls[call]
    host = trace.raws["host_raw"]
    sequence = at(host.ints("sequence"), lookup(trace.row[span], host.ints("row")))
    length = np.where(flows.start[flow], trace.dur[span], -trace.dur[span])
    (end,) = coded(
        (flows.start.astype(np.int64)[flow] + 2 * flows.end[flow], flows.id[flow], flows.ts[flow], flows.track[flow])
    )
    order = np.lexsort((trace.row[span], length, sequence == NONE, end))
    chosen = order[np.unique(end[order], return_index=True)[1]]
    starts, ends = (chosen[which[flow[chosen]]] for which in (flows.start, flows.end))
    one, other = pairs(flows.id[flow[starts]], flows.id[flow[ends]])
    src, dst = span[starts[one]], span[ends[other]]
    late = flows.ts[flow[ends[other]]] - flows.ts[flow[starts[one]]]
    apart = np.flatnonzero(trace.row[src] != trace.row[dst])
    keys = np.stack([src[apart], dst[apart], late[apart]], axis=1)
    firsts = apart[np.unique(keys, axis=0, return_index=True)[1]] if len(apart) else apart
    _give(found, trace.row[src[firsts]], trace.row[dst[firsts]], "fwdbwd", late[firsts])
    found.expected["link"] += len(np.unique(flows.id[flows.end]))
