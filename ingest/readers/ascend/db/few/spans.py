"""Spans and tracks of a small database: the same as ../spans.py and ../tasks.py say in SQL."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from npulens.ingest.messages import Message
from npulens.ingest.readers.ascend import helpers
from npulens.ingest.readers.ascend.db import spans
from npulens.ingest.readers.ascend.db.tasks import (
    BY_TYPE,
    CANN,
    COMM_OP,
    FIRST_SPAN,
    GC,
    NOT_COMPUTING,
    OSRT,
    PLANE,
    PYTORCH,
    ROW_BITS,
    SPLIT,
    TASK,
)
from npulens.ingest.readers.ascend.device import OWN_KERNELS
from npulens.ingest.readers.ascend.few import Quiet, Running
from npulens.ingest.tables import comm_facts
from npulens.ingest.tables.arrays import (
    NONE,
    Found,
    Rows,
    Texts,
    Unusual,
    among,
    at,
    between,
    coded,
    first,
    is_one,
    lookup,
    matches,
    put_together,
    same,
)
from npulens.ingest.tables.held import Bools
from npulens.ingest.tables.marks import STEP_MARK
from npulens.ingest.tables.steps import Ints

Raws = Mapping[str, Rows]

KINDS = (
    "python", "annotation", "enqueue", "dequeue", "host_other", "step_mark", "cpu_op", "runtime", "container",
    "comm_task", "device_other", "kernel", "comm_op", "memcpy", "wait", "device_annotation", "gc", "profiler_split",
)  # fmt: skip
KIND = {name: number for number, name in enumerate(KINDS)}
_THREADS = (PYTORCH, CANN, GC, OSRT)
_NO_CONTEXT = 4294967295


def stamp(values: Ints) -> Ints:
    return between(values, 0, 4 * 10**18)


def number(values: Ints) -> Ints:
    return between(values, 0, 4294967294)


def small(values: Ints) -> Ints:
    return between(values, 0, 2**31 - 1)


def or_minus(values: Ints) -> Ints:
    """-1 for a number that is not there."""
    return np.where(values == NONE, -1, values)


def told(texts: Texts) -> Texts:
    """Texts that say something."""
    nothing = is_one("N/A", "NA", "", "INVALID_TYPE")
    return texts.map(lambda known: pc.if_else(nothing(known), None, known))


def of_kind(kinds: Ints, *names: str) -> Bools:
    return np.isin(kinds, [KIND[name] for name in names])


@dataclass(frozen=True)
class Spans:
    """What a table gave: one span a row."""

    ids: Ints
    source: Ints
    x: Ints
    y: Ints
    kind: Ints
    name: Texts
    ts: Ints
    end: Ints
    connection: Ints

    @property
    def lasting(self) -> Bools:
        """Those that have a begin, and an end that is not before it."""
        return np.asarray((self.ts != NONE) & (self.end != NONE) & (self.end >= self.ts), np.bool_)


@dataclass(frozen=True)
class Tasks(Spans):
    """Tasks of the device, with the rows of other tables that say more of them; -1: none does."""

    type: Texts
    stream: Ints
    task_id: Ints
    compute: Ints
    comm: Ints
    operator: Ints  # the operator whose span it lies in, of those that help one
    helps: Bools


@dataclass(frozen=True)
class Operators(Spans):
    """Operators of communication."""

    group: Texts
    type: Texts


@dataclass
class All:
    """Every span of a rank."""

    raws: Raws
    api: Spans
    cann: Spans
    operators: Operators
    tasks: Tasks
    other: Spans
    found: Found = field(default_factory=Found)


def make(raws: Raws, found: Found) -> All:
    """Spans and tracks."""
    api, cann, operators = _api(raws["PYTORCH_API"]), _cann(raws["CANN_API"]), _operators(raws["COMMUNICATION_OP"])
    tasks = _tasks(raws, operators, found)
    other = _other(raws)
    made = All(raws, api, cann, operators, tasks, other, found)
    _give(made)
    return made


def _ids(source: int | Ints, rows: Ints) -> Ints:
    return np.asarray(FIRST_SPAN + (np.asarray(source, np.int64) << ROW_BITS) + rows, np.int64)


def _spans(source: int, rows: Rows, x: Ints, kind: Ints, name: Texts, connection: Ints) -> Spans:
    many = len(rows)
    return Spans(
        _ids(source, rows.ints("row")), np.full(many, source), or_minus(x), np.full(many, -1), kind, name,
        stamp(rows.ints("startNs")), stamp(rows.ints("endNs")), connection,
    )  # fmt: skip


def _api(rows: Rows) -> Spans:
    name, type_ = rows.texts("name").filled(), rows.texts("type")
    marks = name.where(matches(STEP_MARK))
    kind = np.where(marks, KIND["step_mark"], KIND["cpu_op"])
    queued = np.where(
        name.where(lambda known: pc.starts_with(known, "Enqueue")), KIND["enqueue"],
        np.where(name.where(lambda known: pc.starts_with(known, "Dequeue")), KIND["dequeue"], KIND["host_other"]),
    )  # fmt: skip
    for of, instead in (("trace", KIND["python"]), ("mstx", KIND["annotation"]), ("queue", queued)):
        kind = np.where(type_.where(is_one(of)), instead, kind)
    return _spans(PYTORCH, rows, rows.ints("globalTid"), kind, name, rows.ints("connectionId"))


def _cann(rows: Rows) -> Spans:
    level = rows.texts("type").known.to_pylist()
    levels = Texts(rows.texts("type").codes, pa.array([spans.LEVELS.get(one, "Api") for one in level], pa.string()))
    name = put_together(levels, rows.texts("name").filled(), "@")
    kind = np.full(len(rows), KIND["runtime"])
    return _spans(CANN, rows, rows.ints("globalTid"), kind, name, number(rows.ints("connectionId")))


def _operators(rows: Rows) -> Operators:
    many = len(rows)
    return Operators(
        _ids(COMM_OP, rows.ints("row")), np.full(many, COMM_OP), or_minus(rows.ints("groupId")), np.full(many, -1),
        np.full(many, KIND["comm_op"]), rows.texts("opName").filled(), stamp(rows.ints("startNs")),
        stamp(rows.ints("endNs")), number(rows.ints("connectionId")), told(rows.texts("groupName")),
        told(rows.texts("opType")),
    )  # fmt: skip


def _tasks(raws: Raws, operators: Operators, found: Found) -> Tasks:
    rows, compute, comm, schedule = (raws[name] for name in (
        "TASK", "COMPUTE_TASK_INFO", "COMMUNICATION_TASK_INFO", "COMMUNICATION_SCHEDULE_TASK_INFO"))  # fmt: skip
    ids = rows.ints("globalTaskId")
    to_compute, to_comm, to_schedule = (lookup(ids, table.ints("globalTaskId")) for table in (compute, comm, schedule))
    type_, core, kernel = rows.texts("taskType").filled(), compute.texts("taskType"), compute.texts("name")
    planned = schedule.texts("name").take(to_schedule)
    if _talks(compute)[to_compute[to_compute >= 0]].any():
        raise Unusual
    ts, end = stamp(rows.ints("startNs")), stamp(rows.ints("endNs"))
    own = (to_compute >= 0) | (to_comm >= 0) | planned.there
    of_operator = among(rows.ints("connectionId"), operators.connection)
    lasting = (ts != NONE) & (end != NONE) & (end >= ts)
    quiet = Quiet(
        rows.ints("streamId"), ts, end, type_, own | of_operator | (number(rows.ints("connectionId")) != NONE)
    )
    running = Running(operators.ts, operators.end, operators.x, np.flatnonzero(operators.lasting))
    helps, operator = quiet.helping(lasting, running)
    if helps.any():
        found.notes.append(("comm", Message("tasks_that_nothing_launches_run", {"n": int(helps.sum())})))
    by_type = _by_type(type_, without_compute=not len(compute))
    computes = to_compute >= 0
    core_of = core.take(to_compute)
    idle = core_of.where(is_one(*NOT_COMPUTING))
    idle |= core_of.where(matches("AI_?CPU", any_case=True)) & kernel.take(to_compute).where(matches(helpers.SCHEDULES))
    container = _parents(rows) & ~computes & (to_comm < 0) & (by_type != KIND["memcpy"])
    kind = np.select(
        [container, to_comm >= 0, idle, computes, planned.there, of_operator | helps],
        [KIND[name] for name in ("container", "comm_task", "device_other", "kernel", "device_other", "comm_task")],
        by_type,
    )
    if container.any():
        found.notes.append(("span", Message("ffts_tasks_are_shown_by", {"n": int(container.sum())})))
    plane = at(small(comm.ints("planeId")), to_comm)
    on_plane = (kind == KIND["comm_task"]) & (plane != NONE)
    name = first(kernel.take(to_compute), told(comm.texts("taskType")).take(to_comm), planned, type_)
    return Tasks(
        _ids(TASK, rows.ints("row")), np.where(on_plane, PLANE, TASK),
        or_minus(np.where(on_plane, at(comm.ints("groupId"), to_comm), rows.ints("deviceId"))),
        or_minus(np.where(on_plane, plane, rows.ints("streamId"))), kind.astype(np.int64), name, ts, end,
        number(rows.ints("connectionId")), type_, number(rows.ints("streamId")), number(rows.ints("taskId")),
        to_compute, to_comm, operator, helps,
    )  # fmt: skip


def _talks(compute: Rows) -> Bools:
    """Kernels that communicate by themselves."""
    called = put_together(told(compute.texts("opType")), compute.texts("name"), " ")
    return called.where(matches(comm_facts.of(*OWN_KERNELS).names))


def _by_type(type_: Texts, *, without_compute: bool) -> Ints:
    """What the type of a task says by itself."""
    kinds = np.full(len(type_.known), KIND["device_other"])
    for pattern, kind in reversed(BY_TYPE):
        holds = pc.fill_null(matches(pattern, any_case=True)(type_.known), False).to_numpy(False)
        kinds[holds] = KIND[kind or ("kernel" if without_compute else "device_other")]
    return kinds[type_.codes]


def _parents(rows: Rows) -> Bools:
    """Tasks of the FFTS+ engine whose sub-tasks are there."""
    context = rows.ints("contextId")
    whole, parts = context == _NO_CONTEXT, (context != _NO_CONTEXT) & (context != NONE)
    parent = np.zeros(len(rows), bool)
    if whole.any() and parts.any():
        keys = np.stack([rows.ints(name) for name in ("deviceId", "streamId", "taskId", "connectionId")], axis=1)
        known = {tuple(key) for key in keys[parts & (keys != NONE).all(axis=1)].tolist()}
        parent[whole] = [tuple(key) in known for key in keys[whole].tolist()]
    return parent


def _other(raws: Raws) -> Spans:
    """Everything with a start and an end that no task or call is."""
    parts = []
    if len(rows := raws["GC_RECORD"]):
        parts.append((GC, rows, rows.ints("globalTid"), np.full(len(rows), -1), "gc", same("GC", len(rows))))
    if len(rows := raws["OSRT_API"]):
        parts.append((OSRT, rows, rows.ints("globalTid"), np.full(len(rows), -1), "host_other", rows.texts("name")))
    if len(rows := raws["OVERLAP_ANALYSIS"]) and len(raws["ENUM_OVERLAP_ANALYSIS_TYPE"]):
        lanes = rows.ints("type")
        named = Texts.of(pa.array([spans.LANES.get(lane, "Unknown") for lane in lanes.tolist()], pa.string()))
        parts.append((SPLIT, rows, rows.ints("deviceId"), lanes, "profiler_split", named))
    if not parts:
        nothing = np.zeros(0, np.int64)
        return Spans(nothing, nothing, nothing, nothing, nothing, same("", 0), nothing, nothing, nothing)
    names = reduce(_appended, (name.filled() for *_, name in parts))
    columns = [
        (_ids(source, rows.ints("row")), np.full(len(rows), source), or_minus(x), or_minus(y),
         np.full(len(rows), KIND[kind]), stamp(rows.ints("startNs")), stamp(rows.ints("endNs")))
        for source, rows, x, y, kind, _ in parts
    ]  # fmt: skip
    ids, source, x, y, kind, ts, end = (np.concatenate(column) for column in zip(*columns, strict=True))
    return Spans(ids, source, x, y, kind, names, ts, end, np.full(len(ids), NONE))


def _appended(one: Texts, other: Texts) -> Texts:
    return Texts(np.concatenate((one.codes, other.codes + len(one.known))), pa.concat_arrays([one.known, other.known]))


def _give(made: All) -> None:
    parts = (made.api, made.cann, made.tasks, made.operators, made.other)
    ids, source, x, y, kind, ts, end = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("ids", "source", "x", "y", "kind", "ts", "end")
    )
    names = reduce(_appended, (part.name for part in parts))
    shown = kind != KIND["container"]
    stamped = (ts != NONE) & (end != NONE)
    found = made.found
    found.dropped += [
        ("span", Message("rows_without_start_and_end"), int((shown & ~stamped).sum())),
        ("span", Message("rows_that_end_before_they"), int((shown & stamped & (end < ts)).sum())),
    ]
    lasting = shown & stamped & (end >= ts)
    (track,) = coded((source[lasting], x[lasting], y[lasting]))  # numbered in their order
    firsts = np.unique(track, return_index=True)[1]
    lanes = (column[lasting][firsts].tolist() for column in (source, x, y))
    _tracks(made, list(zip(*lanes, strict=True)))
    found.give("span", {
        "span_id": ids[lasting], "track": spans.FIRST_TRACK + 1 + track,
        "kind": pa.array(KINDS).take(pa.array(kind[lasting])),
        "name": names.known.take(pa.array(names.codes[lasting])), "ts_ns": ts[lasting], "dur_ns": (end - ts)[lasting],
    })  # fmt: skip


def _tracks(made: All, lanes: list[tuple[int, int, int]]) -> None:
    groups = _group_names(made.raws)
    called = made.cann.name.known.to_pylist()
    hccl = "HCCL" if any(name is not None and name.startswith("Hccl@") for name in called) else "Communication"
    task = made.raws["TASK"].ints("globalPid")
    pid = int(task[task != NONE].min()) if (task != NONE).any() else None
    rows = []
    for number, (source, x, y) in enumerate(lanes, 1):
        thread = source in _THREADS
        group = groups.get(x) if source in (COMM_OP, PLANE) else None
        kind, name, process = _named(source, x, y, group)
        rows.append({
            "track": spans.FIRST_TRACK + number, "kind": kind, "name": name, "process": process or hccl,
            "pid": x >> 32 if thread else pid if source == TASK else None,
            "tid": x & 0xFFFFFFFF if thread else y if source in (TASK, SPLIT) else None,
            "stream": y if source == TASK else None, "group_name": group, "plane": y if source == PLANE else None,
            "sort": number,
        })  # fmt: skip
    made.found.tables["track"] = [pa.Table.from_pylist(rows, _TRACK)]


_TRACK = pa.schema([
    ("track", pa.int64()), ("kind", pa.string()), ("name", pa.string()), ("process", pa.string()), ("pid", pa.int64()),
    ("tid", pa.int64()), ("stream", pa.int64()), ("group_name", pa.string()), ("plane", pa.int64()),
    ("sort", pa.int64()),
])  # fmt: skip


def _named(source: int, x: int, y: int, group: str | None) -> tuple[str, str, str | None]:
    """Kind, name and process of a lane."""
    if source in _THREADS:
        process = {PYTORCH: "Python", CANN: "CANN", GC: "Python GC"}.get(source, "OS Runtime API")
        return "host_thread", "Python GC" if source == GC else f"Thread {x & 0xFFFFFFFF}", process
    if source == TASK:
        return "stream", f"Stream {y}", "Ascend Hardware"
    if source == COMM_OP:
        return "comm_group", "Communication" if group is None else f"Group {group} Communication", None
    if source == PLANE:
        return "comm_plane", f"Plane {y}", None
    return "profiler", spans.LANES.get(y, "Unknown"), "Overlap Analysis"


def _group_names(raws: Raws) -> dict[int, str | None]:
    """What the groups of communication are called, by their number."""
    least: dict[int, str] = {}
    for table in ("COMMUNICATION_OP", "COMMUNICATION_TASK_INFO"):
        ids, names = raws[table].ints("groupId"), raws[table].texts("groupName")
        for of in {*zip(ids.tolist(), names.codes.tolist(), strict=True)}:
            name = names.known[of[1]].as_py()
            if of[0] != NONE and name is not None:
                least[of[0]] = min(least.get(of[0], name), name)
    return {of: None if re.fullmatch(r"N/A|NA||INVALID_TYPE", name) else name for of, name in least.items()}
