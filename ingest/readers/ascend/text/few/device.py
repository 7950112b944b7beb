"""What the device of a small rank did: the same as ../../device.py says in SQL."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from npulens.ingest.messages import Message
from npulens.ingest.readers.ascend import device, helpers
from npulens.ingest.readers.ascend.few import Quiet, Running, latest
from npulens.ingest.readers.ascend.text import columns
from npulens.ingest.readers.ascend.text.few.kernels import Kernels
from npulens.ingest.readers.ascend.text.few.trace import Lanes, Trace, known_id
from npulens.ingest.tables import comm_facts
from npulens.ingest.tables.arrays import (
    NONE,
    Found,
    Texts,
    Unusual,
    among,
    at,
    coded,
    first,
    matches,
    pairs,
    put_together,
)
from npulens.ingest.tables.held import Bools
from npulens.ingest.tables.steps import Ints

_CORES = "^(KERNEL_AI(CORE|VEC)|KERNEL_MIX|AI_CORE|AI_VECTOR|AICORE|AIC$|AIV|MIX)"

KINDS = ("device_other", "kernel", "comm_task", "memset", "memcpy", "wait")
KIND = {name: number for number, name in enumerate(KINDS)}


@dataclass(frozen=True)
class Operators:
    """Operators of the communication lanes."""

    at: Ints  # place in the trace
    row: Ints
    track: Ints
    group: Texts
    ts: Ints
    dur: Ints
    name: Texts
    connection: Ints

    @property
    def till(self) -> Ints:
        return self.ts + self.dur


@dataclass(frozen=True)
class Device:
    """Tasks of the streams with what they are, and tasks of the planes of communication."""

    hw: Ints  # place in the trace, of every task
    plane: Ints  # the same of the planes' tasks
    plane_of: Ints  # the task of a plane that a task is, as a place in ``plane``; -1: none
    row: Ints
    ts: Ints
    dur: Ints  # as the profiler's split has it
    name: Texts
    type: Texts
    stream: Ints
    task: Ints
    connection: Ints
    kernel: Ints  # line of kernel_details, -1: none
    operator: Ints  # the operator that a task is part of, -1: none
    helps: Bools
    kind: Ints
    shown: Bools  # not shown on a plane
    operators: Operators


def make(trace: Trace, lanes: Lanes, kernels: Kernels, found: Found) -> Device:
    """Tasks and operators."""
    hw, plane = np.flatnonzero(lanes.where("hardware")), np.flatnonzero(lanes.where("comm_plane"))
    name, type_ = trace.name.take(hw).filled(), trace.texts("task_type").take(hw).filled()
    stream = _filled(trace.ints("stream")[hw], trace.ints("old_stream")[hw], lanes.ints("stream")[hw])
    task, ts, dur = trace.ints("task")[hw], trace.ts[hw], trace.dur[hw]
    connection = known_id(trace.ints("connection")[hw])
    plane_of = _merged(trace, hw, plane, stream)
    laps = _Laps(trace, lanes)
    operators = _operators(trace, lanes, laps)
    kernel = _matched(kernels, ts, name, stream, task)
    if len(kernels) and _only_listed(kernels, operators, kernel):
        raise Unusual
    computes = _computes(type_, name)
    one = put_together(type_, name, " ")
    quiet = Quiet(stream, ts, ts + dur, one.map(lambda known: pc.utf8_trim(known, " ")),
                  (kernel >= 0) | (plane_of >= 0) | computes | (connection >= 0))  # fmt: skip
    (groups,) = coded((operators.group.filled(),))
    running = Running(operators.ts, operators.till, groups, np.arange(len(operators.row)))
    helps, operator = quiet.helping(np.ones(len(hw), bool), running)
    if helps.any():
        found.notes.append(("comm", Message("tasks_that_nothing_launches_run", {"n": int(helps.sum())})))
    polls = _schedulers(type_, name, connection, ts, dur)
    part, launched = _in_operators(operators, connection, ts, (plane_of < 0) & ~helps)
    operator = np.where(helps, operator, part)
    shown = plane_of < 0
    carries = name.where(matches(device.CARRIES))
    kind = np.select(
        [polls, kernel >= 0, computes & ~carries, launched | helps,
         one.where(matches(device.SETS, any_case=True)), one.where(matches(device.COPIES, any_case=True)),
         put_together(type_, name, "").where(lambda known: pc.match_substring(pc.utf8_lower(known), "wait"))],
        [KIND[which] for which in ("device_other", "kernel", "kernel", "comm_task", "memset", "memcpy", "wait")],
        KIND["device_other"],
    ).astype(np.int64)  # fmt: skip
    is_kernel = shown & (kind == KIND["kernel"])
    dur = np.where(is_kernel, laps.settled("Computing", ts, dur), dur)
    made = Device(hw, plane, plane_of, trace.row[hw], ts, dur, name, type_, stream, task, connection, kernel, operator,
                  helps, kind, shown, operators)  # fmt: skip
    _refuse_own(kernels, made, is_kernel)
    _say(made, kernels, polls, found)
    return made


def _filled(*columns_: Ints) -> Ints:
    """In each row the first number that is there."""
    values = columns_[-1]
    for column in reversed(columns_[:-1]):
        values = np.where(column == NONE, values, column)
    return values


def _merged(trace: Trace, hw: Ints, plane: Ints, stream: Ints) -> Ints:
    """For each task the first of the planes that is the same: stream, task, context and start agree."""
    task, context = trace.ints("task"), known_id(trace.ints("context"))
    ours, theirs = coded((stream, task[hw], trace.ts[hw]), (trace.ints("stream")[plane], task[plane], trace.ts[plane]))
    one, other = pairs(ours, theirs)
    contexts = context[hw][one], context[plane][other]
    same = (contexts[0] == contexts[1]) | (contexts[0] == NONE) | (contexts[1] == NONE)
    return _least(len(hw), one[same], other[same], trace.row[plane])


def _least(many: int, one: Ints, other: Ints, row: Ints) -> Ints:
    """For each of many the other with the least row, or -1."""
    found = np.full(many, -1, np.int64)
    order = np.lexsort((row[other], one))[::-1]
    found[one[order]] = other[order]  # of several the last written is the least
    return found


class _Laps:
    """The intervals of the profiler's own split."""

    def __init__(self, trace: Trace, lanes: Lanes) -> None:
        here = lanes.where("overlap")
        names = lanes.texts("name")
        self._of = {}
        for lane in ("Computing", "Communication"):
            rows = np.flatnonzero(here & names.where(lambda known, lane=lane: pc.equal(known, lane)))  # type: ignore[misc]
            rows = rows[np.argsort(trace.ts[rows], kind="stable")]
            self._of[lane] = trace.ts[rows], trace.ts[rows] + trace.dur[rows]

    def settled(self, lane: str, ts: Ints, dur: Ints) -> Ints:
        """Durations of spans that end where the interval they begin in does, 1 ns off or none."""
        begins, tills = self._of[lane]
        if not len(begins):
            return dur
        if (np.diff(begins) == 0).any():
            raise Unusual
        place = np.searchsorted(begins, ts, side="right") - 1
        till = tills[np.maximum(place, 0)]
        ends = (place >= 0) & (np.abs(ts + dur - till) <= 1) & (till >= ts)
        return np.where(ends, till - ts, dur)


def _operators(trace: Trace, lanes: Lanes, laps: _Laps) -> Operators:
    rows = np.flatnonzero(lanes.where("comm_group"))
    ts = trace.ts[rows]
    return Operators(
        rows, trace.row[rows], lanes.ints("track")[rows], lanes.texts("group_name").take(rows), ts,
        laps.settled("Communication", ts, trace.dur[rows]), trace.name.take(rows).filled(),
        known_id(trace.ints("connection")[rows]),
    )  # fmt: skip


def _matched(kernels: Kernels, ts: Ints, name: Texts, stream: Ints, task: Ints) -> Ints:
    """The line of kernel_details of each task: start and name agree, or stream, task and name, and the start is near.

    So too stream and start alone.
    """
    plain = np.flatnonzero(~kernels.comm)
    ours, theirs = coded((ts, name), (kernels.ts[plain], kernels.name.take(plain)))
    one, other = pairs(ours, theirs)
    on = kernels.stream[plain[other]]
    fits = (on == NONE) | (on == stream[one])
    met = _least(len(ts), one[fits], plain[other[fits]], np.arange(len(kernels)))
    left = np.setdiff1d(plain, met)
    ours, theirs = coded((stream, task, name), (kernels.stream[left], kernels.task[left], kernels.name.take(left)))
    one, other = pairs(ours, theirs)
    near = np.abs(ts[one] - kernels.ts[left[other]]) <= device.NEAR_NS
    again, there = coded((stream, ts), (kernels.stream[left], kernels.ts[left]))
    two, others = pairs(again, there)
    one, other = np.concatenate((one[near], two)), np.concatenate((other[near], others))
    fresh = met[one] < 0
    late = _least(len(ts), one[fresh], left[other[fresh]], np.arange(len(kernels)))
    return np.where(met >= 0, met, late)


def _only_listed(kernels: Kernels, operators: Operators, kernel: Ints) -> bool:
    """Whether kernel_details holds tasks or operators that the trace does not."""
    plain, talking = np.flatnonzero(~kernels.comm), np.flatnonzero(kernels.comm)
    if len(np.setdiff1d(plain, kernel)):
        return True
    ours, theirs = coded((kernels.name.take(talking),), (operators.name,))
    one, other = pairs(ours, theirs)
    near = np.abs(kernels.ts[talking[one]] - operators.ts[other]) <= device.NEAR_NS
    return len(np.unique(one[near])) < len(talking)


def _computes(type_: Texts, name: Texts) -> Bools:
    is_other = type_.where(lambda known: pc.equal(known, "Other"))
    unnamed = name.where(matches(helpers.NAMELESS, any_case=True))
    others = is_other & name.where(matches(device.OPERATOR)) & ~name.where(matches(device.SIGNAL)) & ~unnamed
    return type_.where(matches(device.TYPES, any_case=True)) | others


def _schedulers(type_: Texts, name: Texts, connection: Ints, ts: Ints, dur: Ints) -> Bools:
    """Tasks of the AI CPU that only hand out the work of an operator."""
    on_cpu = type_.where(matches("AI_?CPU", any_case=True))
    polls = on_cpu & name.where(matches(helpers.SCHEDULES))
    cores = np.flatnonzero(type_.where(matches(_CORES, any_case=True)) & (connection >= 0))
    while_: dict[int, tuple[int, int]] = {}
    for task in cores.tolist():
        begin, end = while_.get(int(connection[task]), (int(ts[task]), int(ts[task] + dur[task])))
        while_[int(connection[task])] = min(begin, int(ts[task])), max(end, int(ts[task] + dur[task]))
    for task in np.flatnonzero(on_cpu & (connection >= 0)).tolist():
        if core := while_.get(int(connection[task])):
            polls[task] |= ts[task] <= core[0] and ts[task] + dur[task] >= core[1]
    return polls


def _in_operators(operators: Operators, connection: Ints, ts: Ints, rows: Bools) -> tuple[Ints, Bools]:
    """The operator whose call launched a task that begins while it runs."""
    asked = np.flatnonzero(rows & among(connection, operators.connection))
    last = latest(connection[asked], ts[asked], operators.connection, operators.ts)
    inside = (last >= 0) & (ts[asked] <= at(operators.till, last))
    operator, launched = np.full(len(ts), -1, np.int64), np.zeros(len(ts), bool)
    operator[asked[inside]] = last[inside]
    launched[asked[inside]] = True
    return operator, launched


def _refuse_own(kernels: Kernels, made: Device, is_kernel: Bools) -> None:
    """Kernels that communicate by themselves are left to the statements."""
    called = put_together(kernels.said(*columns.TYPE).take(made.kernel), made.name, " ")
    if (called.where(matches(comm_facts.of(*device.OWN_KERNELS).names)) & is_kernel).any():
        raise Unusual


def _say(made: Device, kernels: Kernels, polls: Bools, found: Found) -> None:
    if polling := int((polls & made.shown).sum()):
        found.notes.append(("kernel", Message("tasks_ai_cpu_only_schedule", {"n": polling})))
    if merged := int((~made.shown).sum()):
        found.notes.append(("span", Message("tasks_that_are_shown_on", {"n": merged})))
    alone = int((made.shown & (made.kind == KIND["kernel"]) & (made.kernel < 0)).sum())
    if alone and len(kernels):
        found.notes.append(("kernel", Message("kernels_trace_are_not_in", {"n": alone})))


def give(made: Device, trace: Trace, kernels: Kernels, found: Found) -> None:
    """The kernel table."""
    rows = np.flatnonzero(made.shown & np.isin(made.kind, [KIND["kernel"], KIND["memset"]]))
    of, place = made.kernel[rows], made.hw[rows]
    type_ = made.type.take(rows)
    written = type_.only(type_.where(lambda known: pc.not_equal(known, "")))
    core, known = kernels.said(*columns.CORE).take(of), helpers.cores
    block = at(kernels.whole(*columns.BLOCK), of)
    found.give("kernel", {
        "span_id": made.row[rows], "op_type": kernels.said(*columns.TYPE).take(of),
        "core": first(core.map(known), written.map(known)),
        "task_type": written, "stream": _filled(made.stream[rows], at(kernels.stream, of)),
        "task_id": _filled(trace.ints("task")[place], at(kernels.task, of)),
        "model_id": _filled(known_id(trace.ints("model")[place]), at(kernels.whole("Model ID"), of)),
        "context_id": _filled(known_id(trace.ints("context")[place]), at(kernels.whole("Context ID"), of)),
        "block_num": np.where(core.there | (block != 0), block, NONE),
        "mix_block_num": at(kernels.whole(*columns.MIX), of), "op_state": kernels.said("OP State").take(of),
        "hf32": kernels.said("HF32 Eligible").take(of),
        **{ours: kernels.tensor(theirs).take(of) for ours, theirs in columns.TENSORS.items()},
        "wait_ns": at(kernels.ns(*columns.WAIT), of),
    })  # fmt: skip
