"""Launch arrows of a small database: the same as ../links.py says in SQL."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npulens.ingest.readers.ascend.db.few.spans import All, Raws, Spans, number, of_kind
from npulens.ingest.tables.arrays import NONE, Found, Rows, among, at, coded, lookup, pairs, same
from npulens.ingest.tables.nest import Nest
from npulens.ingest.tables.steps import Ints

_DEVICE = ("kernel", "memcpy", "comm_op", "wait", "device_other")
_WORK = ("kernel", "memcpy", "comm_op")


@dataclass(frozen=True)
class Ends:
    """Spans that links may end at."""

    ids: Ints
    kind: Ints
    connection: Ints
    ts: Ints


@dataclass(frozen=True)
class Connected:
    """Framework calls with each number that they are connected by: ``call`` is the row of the call."""

    call: Ints
    connection: Ints


@dataclass(frozen=True)
class Copies:
    """Copies of the device, each with its call, and the row of the framework call around that."""

    copy: Ints  # its span
    ts: Ints
    call: Ints  # row of the CANN call
    parent: Ints  # row of the framework call, -1: none
    nested: dict[int, int]  # the framework call around a span, by their ids


def make(made: All) -> tuple[Connected, Copies]:
    """Give links; what other tables need of them."""
    device, cann, api = _device(made), made.cann, made.api
    connected = _connected(made.raws, api)
    kinds = api.kind[connected.call]
    queue = _queue(connected, kinds)
    forth, back = _pairs(made.raws, api, connected)
    launched = _launched(connected, kinds, cann, api, forth, back)
    copies = _copies(api, cann, device)
    found = made.found
    calls = np.flatnonzero(cann.lasting)
    call, task = pairs(cann.connection[calls], device.connection)
    _give(found, "host_to_device", cann.ids[calls[call]], cann.ts[calls[call]], device.ids[task], device.ts[task])
    op, arrow = _around(api, copies, queue)
    launch, to = pairs(connected.connection[launched], device.connection)
    source = connected.call[launched[launch]]
    _give(
        found, "torch_to_npu", np.concatenate((api.ids[source], api.ids[op])),
        np.concatenate((api.ts[source], api.ts[op])), np.concatenate((device.ids[to], copies.copy[arrow])),
        np.concatenate((device.ts[to], copies.ts[arrow])),
    )  # fmt: skip
    _give(found, "task_queue", api.ids[queue[0]], api.ts[queue[0]], api.ids[queue[1]], api.ts[queue[1]])
    apart = api.x[forth.call] != api.x[back.call]
    of, to = forth.call[apart], back.call[apart]
    _give(found, "fwdbwd", api.ids[of], api.ts[of], api.ids[to], api.ts[to])
    found.expected["link"] = int(of_kind(device.kind, *_WORK).sum())
    return connected, copies


def _give(found: Found, route: str, src: Ints, src_ts: Ints, dst: Ints, dst_ts: Ints) -> None:
    """Links of a route, each once."""
    (keys,) = coded((src, dst))
    rows = np.unique(keys, return_index=True)[1]
    found.give("link", {
        "src_span_id": src[rows], "dst_span_id": dst[rows], "route": same(route, len(rows)),
        "latency_ns": (dst_ts - src_ts)[rows],
    })  # fmt: skip


def _device(made: All) -> Ends:
    tasks, operators = made.tasks, made.operators
    rows, others = np.flatnonzero(of_kind(tasks.kind, *_DEVICE) & tasks.lasting), np.flatnonzero(operators.lasting)

    def both(name: str) -> Ints:
        return np.concatenate((getattr(tasks, name)[rows], getattr(operators, name)[others]))

    return Ends(both("ids"), both("kind"), both("connection"), both("ts"))


def _connected(raws: Raws, api: Spans) -> Connected:
    ids = raws["CONNECTION_IDS"]
    call, row = pairs(np.where(api.lasting, api.connection, NONE), ids.ints("id"))
    connection = number(ids.ints("connectionId"))[row]
    known = connection != NONE
    return Connected(call[known], connection[known])


def _queue(connected: Connected, kinds: Ints) -> tuple[Ints, Ints]:
    """Rows of calls that enqueue, and of those that dequeue what they did."""
    into, out = (np.flatnonzero(of_kind(kinds, kind)) for kind in ("enqueue", "dequeue"))
    one, other = pairs(connected.connection[into], connected.connection[out])
    return connected.call[into[one]], connected.call[out[other]]


def _pairs(raws: Raws, api: Spans, connected: Connected) -> tuple[Connected, Connected]:
    """Forward calls and the backward calls that belong to them."""
    rows: Rows = raws["PYTORCH_API"]
    sequence = rows.ints("sequenceNumber")[connected.call]
    thread = rows.ints("fwdThreadId")[connected.call]
    backward = (thread != NONE) & (thread != 0)
    forth, back = np.flatnonzero(~backward & (sequence >= 0)), np.flatnonzero(backward & (sequence != NONE))
    one, other = pairs(connected.connection[forth], connected.connection[back])
    same_one = sequence[forth[one]] == sequence[back[other]]
    chosen = (forth[one[same_one]], back[other[same_one]])
    return tuple(Connected(connected.call[of], connected.connection[of]) for of in chosen)  # type: ignore[return-value]


def _launched(connected: Connected, kinds: Ints, cann: Spans, api: Spans, forth: Connected, back: Connected) -> Ints:
    """Which connections are launches."""
    launches = ~of_kind(kinds, "enqueue", "dequeue") & among(connected.connection, cann.connection)
    rows = np.flatnonzero(launches)
    paired = {
        *zip(forth.call.tolist(), forth.connection.tolist(), strict=True),
        *zip(back.call.tolist(), back.connection.tolist(), strict=True),
    }
    if paired:
        keys = zip(connected.call[rows].tolist(), connected.connection[rows].tolist(), strict=True)
        rows = rows[np.array([key not in paired for key in keys], bool)]
    return rows


def _copies(api: Spans, cann: Spans, device: Ends) -> Copies:
    calls, copies = np.flatnonzero(cann.lasting), np.flatnonzero(of_kind(device.kind, "memcpy"))
    call, copy = pairs(cann.connection[calls], device.connection[copies])
    call, copy = calls[call], copies[copy]
    nested = _nested(api, cann, call) if len(call) else {}
    parent = lookup(np.array([nested.get(span, NONE) for span in cann.ids[call].tolist()], np.int64), api.ids)
    return Copies(device.ids[copy], device.ts[copy], call, parent, nested)


def _nested(api: Spans, cann: Spans, call: Ints) -> dict[int, int]:
    """The span of the framework call around the start of each enqueued entry and of each of some CANN calls."""
    rows = np.flatnonzero(of_kind(api.kind, "cpu_op", "annotation", "enqueue", "dequeue") & api.lasting)
    length = np.where(of_kind(api.kind[rows], "enqueue"), 0, (api.end - api.ts)[rows])
    lengths = np.concatenate((length, np.zeros(len(call), np.int64)))
    track, start, span = (
        np.concatenate((getattr(api, name)[rows], getattr(cann, name)[call])) for name in ("x", "ts", "ids")
    )
    order = np.lexsort((span, -lengths, start, track))
    track, start, lengths, span = (np.ascontiguousarray(column[order]) for column in (track, start, lengths, span))
    _, parent = Nest().place(track, start, lengths, span)
    asked = (lengths == 0) & (parent >= 0)
    return dict(zip(span[asked].tolist(), parent[asked].tolist(), strict=True))


def _around(api: Spans, copies: Copies, queue: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    """The operators that copies belong to, as rows of calls, and the rows of those copies."""
    if not len(copies.copy):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    copy, entry = pairs(np.where(copies.parent < 0, NONE, copies.parent), queue[1])
    entries = api.ids[queue[0][entry]].tolist()
    outer = lookup(np.array([copies.nested.get(span, NONE) for span in entries], np.int64), api.ids)
    direct = np.setdiff1d(np.flatnonzero(copies.parent >= 0), copy)
    ops, arrows = np.concatenate((outer, copies.parent[direct])), np.concatenate((copy, direct))
    known = (ops >= 0) & ~of_kind(at(api.kind, ops), "enqueue", "dequeue")
    return ops[known], arrows[known]


def calls_of(copies: Copies, made: All) -> list[tuple[int, str | None, str | None]]:
    """For each copy the call that made it, and the queue entry around that call."""
    entry = at(made.api.kind, copies.parent)
    call = made.cann.name.take(copies.call).list
    around = made.api.name.take(np.where(of_kind(entry, "dequeue"), copies.parent, -1)).list
    return list(zip(copies.copy.tolist(), call, around, strict=True))
