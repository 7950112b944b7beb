"""Spans of every lane of a small trace, and what its host called: the same as ../host.py says in SQL."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from npulens.ingest.readers.ascend.few import latest
from npulens.ingest.readers.ascend.stage import FRAME_END
from npulens.ingest.readers.ascend.text.few.device import KIND, KINDS, Device
from npulens.ingest.readers.ascend.text.few.kernels import Kernels
from npulens.ingest.readers.ascend.text.few.links import Arrows
from npulens.ingest.readers.ascend.text.few.trace import Lanes, Trace, known_id
from npulens.ingest.readers.ascend.text.host import MARKED, WAYS
from npulens.ingest.tables.arrays import NONE, Found, Texts, Unusual, at, between, coded, first, lookup, matches
from npulens.ingest.tables.json_text import as_json
from npulens.ingest.tables.marks import PROFILER_STEP, STEP_MARK
from npulens.ingest.tables.steps import Ints

_OF_CLASS = {
    "cann": "runtime", "gc": "gc", "overlap": "profiler_split", "other": "device_other", "mstx": "annotation",
    "scope": "device_annotation", "steps": "device_annotation",
}  # fmt: skip
_OF_CATEGORY = {
    "user_annotation": "annotation", "python_function": "python", "cpu_op": "cpu_op", "enqueue": "enqueue",
    "dequeue": "dequeue",
}  # fmt: skip
_WAYS = {way.replace("%", ".*"): short for way, short in WAYS.items()}


class Details:
    """Stacks and shapes of calls, by operator_details.csv: the n-th row of a name is its n-th call."""

    def __init__(self, trace: Trace, name: Texts | None, frames: Texts | None, shapes: Texts | None) -> None:
        """Without texts there are none."""
        self.of = np.full(len(trace), -1, np.int64)  # the row for each event
        nothing = Texts(np.zeros(0, np.int64), pa.nulls(1, pa.string()))
        self.frames, self.shapes = frames or nothing, shapes or nothing
        if name is None:
            return
        calls = np.flatnonzero(trace.host & trace.cat.where(lambda known: pc.equal(known, "cpu_op")) & trace.name.there)
        ours, theirs = coded((trace.name.take(calls),), (name,))
        known, of, times = np.unique(ours, return_inverse=True, return_counts=True)
        named, at_, lines = np.unique(theirs, return_inverse=True, return_counts=True)
        as_many = np.intersect1d(known, named[named != NONE])
        as_many = as_many[times[np.searchsorted(known, as_many)] == lines[np.searchsorted(named, as_many)]]
        mine, yours = (np.flatnonzero(np.isin(keys, as_many)) for keys in (ours, theirs))
        mine = mine[np.lexsort((trace.row[calls[mine]], trace.ts[calls[mine]], of[mine]))]
        self.of[calls[mine]] = yours[np.argsort(at_[yours], kind="stable")]

    @property
    def any_frames(self) -> bool:
        return bool(self.frames.take(self.of).there.any())


def make(
    trace: Trace, lanes: Lanes, made: Device, kernels: Kernels, details: Details, arrows: Arrows, given: Ints,
    found: Found,
) -> None:  # fmt: skip
    """``given``: rows of events whose arguments have been given."""
    _spans(trace, lanes, made, found)
    _operators(trace, details, found)
    _arguments(trace, made, given, found)
    _steps(trace, lanes, kernels, found)
    _transfers(trace, lanes, made, arrows, found)


def _spans(trace: Trace, lanes: Lanes, made: Device, found: Found) -> None:
    rows = np.flatnonzero(~lanes.where("hardware", "comm_group", "comm_plane"))
    class_, cat, name = lanes.texts("class").take(rows), trace.cat.take(rows), trace.name.take(rows)
    marked = ~cat.there | cat.where(lambda known: pc.is_in(known, value_set=pa.array(MARKED)))
    marks = marked & name.where(matches(STEP_MARK))
    by_class = class_.map(lambda known: pa.array([_OF_CLASS.get(one or "") for one in known.to_pylist()], pa.string()))
    by_cat = cat.map(lambda known: pa.array([_OF_CATEGORY.get(one or "", "host_other") for one in known.to_pylist()]))
    a_mark = Texts(np.where(marks, 0, 1), pa.array(["step_mark", None], pa.string()))
    found.give("span", {
        "span_id": trace.row[rows], "track": lanes.ints("track")[rows], "kind": first(by_class, a_mark, by_cat),
        "name": name.filled(), "ts_ns": trace.ts[rows], "dur_ns": trace.dur[rows],
    })  # fmt: skip
    tasks = np.flatnonzero(made.shown)
    found.give("span", {
        "span_id": made.row[tasks], "track": lanes.ints("track")[made.hw[tasks]],
        "kind": pa.array(KINDS).take(pa.array(made.kind[tasks])), "name": made.name.take(tasks),
        "ts_ns": made.ts[tasks], "dur_ns": made.dur[tasks],
    })  # fmt: skip
    operators = made.operators
    found.give("span", {
        "span_id": operators.row, "track": operators.track, "kind": pa.repeat("comm_op", len(operators.row)),
        "name": operators.name, "ts_ns": operators.ts, "dur_ns": operators.dur,
    })  # fmt: skip


def _operators(trace: Trace, details: Details, found: Found) -> None:
    """Shapes, sequence numbers and stacks of host operators, queue entries and CANN calls."""
    host = trace.raws["x_host"]
    of = details.of[: len(host)]  # events of the host come first
    dims, dtypes, shapes = host.texts("dims"), host.texts("dtypes"), details.shapes.take(of)
    numbers = {name: host.ints(name) for name in ("sequence", "correlation", "connection", "external")}
    anything = dims.there | dtypes.there | shapes.there
    for values in numbers.values():
        anything |= values != NONE
    rows = np.flatnonzero(anything)
    correlation, connection = numbers["correlation"], known_id(numbers["connection"])
    found.give("host_op", {
        "span_id": host.ints("row")[rows], "input_shapes": first(dims, shapes).take(rows),
        "input_dtypes": dtypes.take(rows), "sequence": numbers["sequence"][rows],
        "fwd_thread": host.ints("fwd_thread")[rows], "external_id": numbers["external"][rows],
        "correlation": np.where(correlation == NONE, connection, correlation)[rows],
    })  # fmt: skip
    code = host.ints("stack")
    stack = trace.texts_of(code).map(frames)
    had = np.flatnonzero(stack.where(lambda known: pc.not_equal(known, "")))
    found.give("stack", {"span_id": host.ints("row")[had], "frames": stack.take(had)})
    others = details.frames.take(of)
    had = np.flatnonzero(others.there & (code == NONE))
    found.give("stack", {"span_id": host.ints("row")[had], "frames": others.take(had)})


def frames(known: pa.Array) -> pa.Array:
    """A call stack with one frame a line."""
    return pc.replace_substring_regex(known, FRAME_END, "\n")


def _arguments(trace: Trace, made: Device, given: Ints, found: Found) -> None:
    """What no column holds: the keys nobody promoted, and a task's own numbers where no table keeps them."""
    rest = trace.raws["rest"]
    rows = rest.ints("row")
    twice = made.row[~made.shown]
    kept = np.flatnonzero(~np.isin(rows, twice) & ~np.isin(rows, given))
    found.give("arg", {"span_id": rows[kept], "args": rest.texts("rest").take(kept)})
    batch, task = trace.ints("batch")[made.hw], trace.ints("task")[made.hw]
    plain = np.isin(made.kind, [KIND[name] for name in ("memcpy", "wait", "device_other")])
    asked = np.flatnonzero(made.shown & (plain | (batch > 0)) & ~np.isin(made.row, rows))
    types = [as_json(text or "") for text in made.type.take(asked).list]
    args = [
        f'{{"Task Type":{type_},"Task Id":{_number(one)},"Batch Id":{_number(other)}}}'
        for type_, one, other in zip(types, task[asked].tolist(), batch[asked].tolist(), strict=True)
    ]
    found.give("arg", {"span_id": made.row[asked], "args": pa.array(args, pa.string())})


def _number(value: int) -> str:
    return "null" if value == NONE else str(value)


def _steps(trace: Trace, lanes: Lanes, kernels: Kernels, found: Found) -> None:
    """Steps by the profiler's marks; where there are none, the statements find others."""
    rows = np.flatnonzero(trace.host & lanes.where("host", "host_other") & trace.name.where(matches(PROFILER_STEP)))
    texts = [re.sub(r".*#", "", name or "") for name in trace.name.take(rows).list]
    if not texts or any(len(text) > 18 for text in texts):
        raise Unusual
    numbers = np.array([int(text) for text in texts], np.int64)
    order = rows[np.lexsort((trace.ts[rows], numbers))]
    steps, firsts, many = np.unique(np.sort(numbers), return_index=True, return_counts=True)
    for at_, times in zip(firsts.tolist(), many.tolist(), strict=True):
        if times > 1 and trace.ts[order[at_]] == trace.ts[order[at_ + 1]]:
            raise Unusual
    marks = order[firsts]
    begins, ends = _device_steps(kernels, steps)
    found.give("step", {
        "step": steps, "ts_ns": trace.ts[marks], "host_dur_ns": trace.dur[marks], "device_ts_ns": begins,
        "device_dur_ns": np.where(begins == NONE, NONE, ends - np.where(begins == NONE, 0, begins)),
        "source": pa.repeat("ProfilerStep", len(steps)),
    })  # fmt: skip


def _device_steps(kernels: Kernels, steps: Sequence[int] | Ints) -> tuple[Ints, Ints]:
    """When kernels of a step begin, and when they end."""
    begins, ends = np.full(len(steps), NONE), np.full(len(steps), NONE)
    for at_, step in enumerate(steps):
        mine = kernels.step == step
        if mine.any():
            begins[at_], ends[at_] = kernels.ts[mine].min(), (kernels.ts[mine] + kernels.dur[mine]).max()
    return begins, ends


def _transfers(trace: Trace, lanes: Lanes, made: Device, arrows: Arrows, found: Found) -> None:
    """Copies: way and size as the task says (Level2), else the way by which the call or queue entry above is named."""
    rows = np.flatnonzero(made.shown & (made.kind == KIND["memcpy"]))
    place = made.hw[rows]
    launches = np.flatnonzero(arrows.route.where(lambda known: pc.equal(known, "host_to_device")))
    source = lookup(arrows.src[launches], np.where(trace.host, trace.row, NONE))
    of = lookup(arrows.dst[launches], made.row[rows])
    pairs_ = np.flatnonzero((source >= 0) & (of >= 0))
    if len(np.unique(of[pairs_])) < len(pairs_):
        raise Unusual
    call = np.full(len(rows), -1, np.int64)
    call[of[pairs_]] = source[pairs_]
    calls, entries = trace.name.take(call).list, _entries(trace, lanes, call).list
    direction = first(trace.texts("direction").take(place), trace.texts("old_direction").take(place)).list
    ways = [
        next(filter(None, map(_way, said)), None) for said in zip(direction, calls, entries, strict=True)
    ]  # fmt: skip
    size, old = trace.ints("bytes")[place], trace.ints("old_bytes")[place]
    found.give("transfer", {
        "span_id": made.row[rows], "direction": pa.array(ways, pa.string()),
        "bytes": between(np.where(size == NONE, old, size), 0, 2**63 - 1),
        "bandwidth_bytes_per_s": pc.multiply(trace.floats("bandwidth").take(pa.array(place)), 1e9),
        "blocking": pa.array([_blocking(call_) for call_ in calls], pa.bool_()),
    })  # fmt: skip


def _entries(trace: Trace, lanes: Lanes, call: Ints) -> Texts:
    """What the queue entry around each call is named by."""
    queued = np.flatnonzero(trace.host & trace.cat.where(lambda known: pc.equal(known, "dequeue")) & trace.name.there)
    tids = lanes.texts("tid")
    asked = np.flatnonzero(call >= 0)
    ours, theirs = coded((tids.take(call[asked]),), (tids.take(queued),))
    last = latest(ours, trace.ts[call[asked]], theirs, trace.ts[queued])
    till = at(trace.ts[queued] + trace.dur[queued], last)
    entry = np.full(len(call), -1, np.int64)
    entry[asked] = np.where((last >= 0) & (trace.ts[call[asked]] <= till), at(queued, last, -1), -1)
    return trace.name.take(entry)


def _way(name: str | None) -> str | None:
    lower = (name or "").lower()
    return next((way for parts, way in _WAYS.items() if re.search(parts, lower, re.S)), None)


def _blocking(call: str | None) -> bool | None:
    lower = (call or "").lower()
    if "@aclrtmemcpy" not in lower:
        return None
    return re.search("@aclrtmemcpy.*async", lower, re.S) is None
