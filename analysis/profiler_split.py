"""The profiler's own split, computed again by the profiler's own rule.

torch_npu's text export makes four lanes: computing, communication, communication not overlapped, free. They are unions
over the whole capture, and each piece belongs, unclipped, to the step in which it starts. The database export makes the
same unions step by step, so free time between two steps belongs to neither. A step's window runs from its first device
work to the later of its last and its host end. Stage is the length of what was counted, less the bubbles (receive
operators).

Three definitions of "free" are in use; which one reproduced the file is said:

* `between busy`: gaps strictly inside the first and last busy moment;
* `from first task`: the window begins and ends with any device task that is no kernel (copies, events);
* `minus copies`: the first, less the copies not hidden in it.

Communication is the union of the communication operators, or, in databases of some versions, of their tasks
(COMMUNICATION_TASK_INFO). The second is tried where the first does not reproduce the file. Which one did is said.

The text export subtracts float64 microseconds since 1970, which move in steps of 0.25 us. Stage and preparing are
reproduced with that rounding where the file is a step_trace_time.csv.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import numpy as np
from numpy.typing import NDArray

from npulens.analysis.intervals import Intervals, Ints

#: A reproduced value may differ from the file by its rounding to a microsecond with three decimals, per piece added up.
TOLERANCE_NS = 2
_TEXT = "step_trace_time.csv"
_DEFINITIONS = ("between busy", "from first task", "minus copies")
OPERATORS, TASKS = "operators", "tasks"
#: What communicates by each definition: a kind of its own for receives, whose sum is the bubbles.
_COMMUNICATES = {
    OPERATORS: "kind = 'comm_op'",
    TASKS: "(kind = 'comm_op' AND starts_with(name, 'hcom_receive') "
    "OR kind = 'comm_task' AND span_id IN (SELECT span_id FROM comm WHERE by_stream IS NOT TRUE))",
}
#: So much device work is held in memory at a time, and so long may one axis be.
_AT_ONCE, _LONGEST = 4_000_000, 1 << 62
_NONE = np.iinfo(np.int64).min


@dataclass(frozen=True)
class Profiler:
    """The profiler's split of one step by its own rule."""

    computing_ns: int
    communication_ns: int
    communication_not_overlapped_ns: int
    overlapped_ns: int
    free_ns: int
    stage_ns: int | None
    bubble_ns: int | None
    preparing_ns: int | None
    free_definition: str | None
    communication_definition: str | None  # whose union reproduced the file: operators or tasks


@dataclass(frozen=True)
class _Rank:
    """What is known of a rank beside its spans."""

    rank: int
    as_text: bool
    steps: tuple[tuple[int, int, int, int | None, bool], ...]  # step, start, host length, device start, host mark
    free: dict[int | None, int | None]  # what the profiler's file says
    communication: dict[int | None, int | None]  # the same of communication
    preparing: dict[int | None, int | None]  # and of the time before, which needs marks of the host to be made again
    tasks: tuple[int, int] | None  # first and last edge of device tasks that are no kernels
    spans: int


Splits = dict[tuple[int, int | None], Profiler]


def profiler_split(con: duckdb.DuckDBPyConnection) -> Splits:
    """Per rank and step, and under None for the whole capture; a rank whose capture cannot say has no entries."""
    origin = con.execute("SELECT origin_ns FROM run").fetchall()[0][0]
    found: Splits = {}
    for ranks, low, high in _batches(con, list(_ranks(con))):
        split = _Axis(con, ranks, low, high, OPERATORS).split(origin)
        others = [one for one in ranks if any(_told(split, one.rank, step) is None for step in one.communication)]
        if others:
            by_tasks = _Axis(con, others, low, high, TASKS).split(origin)
            split |= {window: each for window, each in by_tasks.items() if each.communication_definition}
        found.update(split)
    return found


def _told(split: Splits, rank: int, step: int | None) -> str | None:
    """Which definition of communication reproduced the file."""
    return split[rank, step].communication_definition if (rank, step) in split else OPERATORS


def _ranks(con: duckdb.DuckDBPyConnection) -> Iterator[_Rank]:
    steps: dict[int, list[tuple[int, int, int, int | None, bool]]] = {}
    for rank, *step in con.execute(
        "SELECT rank, step, ts_ns, coalesce(host_dur_ns, dur_ns), device_ts_ns, "
        "source IN ('ProfilerStep', 'STEP_TIME') FROM step ORDER BY rank, ts_ns"
    ).fetchall():
        steps.setdefault(rank, []).append(tuple(step))
    references: dict[int, list[tuple[int | None, int | None, int | None, int | None, str]]] = {}
    for rank, *reference in con.execute(
        "SELECT rank, step, free_ns, communication_ns, preparing_ns, source FROM profiler_step"
    ).fetchall():
        references.setdefault(rank, []).append(tuple(reference))
    tasks = {
        rank: (begin, end) for rank, begin, end in con.execute(
            "SELECT rank, min(ts_ns), max(ts_ns + dur_ns) FROM span "
            "WHERE kind IN ('memcpy', 'wait', 'device_other', 'memset') GROUP BY rank"
        ).fetchall()
    }  # fmt: skip
    for rank, formats, spans in con.execute(
        "SELECT rank, formats, kernels + coalesce(collectives, 0) + coalesce(copies, 0) FROM rank "
        "JOIN device_time USING (rank) WHERE device_time.step IS NULL AND computing_ns IS NOT NULL ORDER BY rank"
    ).fetchall():
        if {"torch_npu_text", "torch_npu_db"}.isdisjoint(formats):
            continue
        said = references.get(rank, [])
        if len(said) == 1:  # the only step is the whole capture as well
            said = [*said, (None, *said[0][1:])]
        free = {step: ns for step, ns, *_ in said}
        communication: dict[int | None, int | None] = {step: ns for step, _, ns, *_ in said if ns is not None}
        preparing = {step: ns for step, _, _, ns, _ in said}
        as_text = _TEXT in {source for *_, source in said} or set(formats) == {"torch_npu_text"}
        yield _Rank(
            rank, as_text, tuple(steps.get(rank, ())), free, communication, preparing, tasks.get(rank), spans
        )  # fmt: skip


def _batches(con: duckdb.DuckDBPyConnection, ranks: list[_Rank]) -> Iterator[tuple[list[_Rank], int, int]]:
    """Neighbouring ranks that fit on one axis, and the times between which everything of any rank lies."""
    if not ranks:
        return
    low, high = con.execute(
        "SELECT min(ts_ns), max(end_ns) FROM (SELECT ts_ns, ts_ns + dur_ns AS end_ns FROM device_time UNION ALL "
        "SELECT least(ts_ns, device_ts_ns), greatest(ts_ns + coalesce(host_dur_ns, dur_ns), device_ts_ns) FROM step)"
    ).fetchall()[0]
    low = min([low, *(one.tasks[0] for one in ranks if one.tasks)])
    high = max([high, *(one.tasks[1] for one in ranks if one.tasks)])
    most = max(1, _LONGEST // (high - low + 2))
    batch: list[_Rank] = []
    spans = 0
    for one in ranks:
        spans += one.spans
        if batch and (len(batch) == most or spans > _AT_ONCE):
            yield batch, low, high
            batch, spans = [], one.spans
        batch.append(one)
    yield batch, low, high


class _Lane:
    """Pieces that belong, whole, to the window in which they start."""

    def __init__(self, pieces: Intervals) -> None:
        self.starts, self.ends = pieces.starts, pieces.ends
        self._sum = np.concatenate((np.zeros(1, np.int64), np.cumsum(pieces.ends - pieces.starts)))

    def of(self, begin: Ints, end: Ints) -> tuple[Ints, Ints]:
        """Index of the first piece of each window, and of the first after it."""
        return np.searchsorted(self.starts, begin), np.searchsorted(self.starts, end)

    def total(self, begin: Ints, end: Ints) -> Ints:
        first, after = self.of(begin, end)
        return np.where(after > first, self._sum[after] - self._sum[np.minimum(first, after)], 0)


@dataclass(frozen=True)
class _Windows:
    """Where the profiler's windows lie on the axis; the mark is the host's, or none."""

    at: Ints  # of which rank
    step: list[int | None]
    begin: Ints
    end: Ints
    mark: Ints
    marked: NDArray[np.bool_]  # the mark is the host's own


class _Axis:
    """Several ranks one after the other."""

    def __init__(
        self, con: duckdb.DuckDBPyConnection, ranks: list[_Rank], low: int, high: int, definition: str
    ) -> None:
        self.ranks, self.stride, self.definition = ranks, high - low + 2, definition
        self.shift = np.arange(len(ranks), dtype=np.int64) * self.stride - low + 1
        numbers = np.array([one.rank for one in ranks], np.int64)
        rows = con.execute(
            "SELECT rank, ts_ns, dur_ns, CASE WHEN kind IN ('kernel', 'memset') THEN 0 WHEN kind = 'memcpy' THEN 2 "
            "WHEN starts_with(name, 'hcom_receive') THEN 3 ELSE 1 END::TINYINT AS what FROM span "
            f"WHERE rank BETWEEN ? AND ? AND (kind IN ('kernel', 'memset', 'memcpy') OR {_COMMUNICATES[definition]})",
            [ranks[0].rank, ranks[-1].rank],
        ).fetchnumpy()
        rank, ts, dur, what = (np.ma.getdata(rows[name]) for name in ("rank", "ts_ns", "dur_ns", "what"))
        at = np.minimum(np.searchsorted(numbers, rank), len(numbers) - 1)
        mine = numbers[at] == rank
        starts, ends, what = (ts + self.shift[at])[mine], (ts + dur + self.shift[at])[mine], what[mine]

        def of(*kinds: int) -> Intervals:
            chosen = np.isin(what, kinds)
            return Intervals.union_of(starts[chosen], ends[chosen])

        computing, communication = of(0), of(1, 3) if definition == OPERATORS else of(1)
        busy = computing | communication
        receives = np.flatnonzero(what == 3)
        receives = receives[np.argsort(starts[receives], kind="stable")]
        self.computing, self.communication = _Lane(computing), _Lane(communication)
        self.exposed, self.busy = _Lane(communication - computing), _Lane(busy)
        self.receives = _Lane(Intervals(starts[receives], ends[receives]))
        self.free, self.told = self._free_lanes(busy, of(2))

    def _free_lanes(self, busy: Intervals, copy: Intervals) -> tuple[list[_Lane], list[NDArray[np.bool_]]]:
        """Free time by each definition in use, and for which ranks there is one."""
        base = np.arange(len(self.ranks), dtype=np.int64) * self.stride
        first, after = np.searchsorted(busy.starts, base), np.searchsorted(busy.starts, base + self.stride)
        some = after > first
        inner = busy.starts[1:] // self.stride == busy.starts[:-1] // self.stride
        between = Intervals(busy.ends[:-1][inner], busy.starts[1:][inner])
        # One definition begins and ends the window with any device task that is no kernel.
        tasked = np.array([one.tasks is not None for one in self.ranks], np.bool_) & some
        edge = np.array([one.tasks or (0, 0) for one in self.ranks], np.int64)
        edge = edge[tasked] + self.shift[tasked][:, np.newaxis]
        begins, ends = busy.starts[first[tasked]], busy.ends[after[tasked] - 1]
        wider = Intervals.union_of(
            np.concatenate((between.starts, np.minimum(edge[:, 0], begins), ends)),
            np.concatenate((between.ends, begins, np.maximum(edge[:, 1], ends))),
        )
        return [_Lane(between), _Lane(wider), _Lane(between - copy)], [some, tasked, some]

    def split(self, origin: int) -> Splits:
        """The split of every window of every rank."""
        w = self._windows()
        text = np.array([one.as_text for one in self.ranks], bool)[w.at]
        computing, communication = self.computing.total(w.begin, w.end), self.communication.total(w.begin, w.end)
        exposed, bubble = self.exposed.total(w.begin, w.end), self.receives.total(w.begin, w.end)
        first, last_start, last_end = self._edges(w.begin, w.end)
        free, definition = self._free(w, text, first, last_end)
        _, stage_start, stage_end = self._edges(w.begin, w.end, text)
        found: Splits = {}
        for i, at in enumerate(w.at.tolist()):
            shift = int(self.shift[at])
            stage = preparing = None
            if first[i] != _NONE and stage_end[i] != _NONE:
                times = (int(first[i]) - shift, int(stage_start[i]) - shift, int(stage_end[i]) - shift)
                stage = _stage(*times, origin, bool(text[i])) - int(bubble[i])
            if not w.marked[i]:
                preparing = self.ranks[at].preparing.get(w.step[i])
            elif first[i] != _NONE and w.mark[i] != _NONE:
                preparing = _preparing(int(w.mark[i]) - shift, int(first[i]) - shift, origin, bool(text[i]))
            found[self.ranks[at].rank, w.step[i]] = Profiler(
                int(computing[i]), int(communication[i]), int(exposed[i]), int(communication[i] - exposed[i]),
                int(free[i]), stage, int(bubble[i]), preparing, definition[i],
                self._fitting(at, w.step[i], int(communication[i])),
            )  # fmt: skip
        return found

    def _fitting(self, at: int, step: int | None, communication: int) -> str | None:
        """The definition of communication, if it reproduces the file."""
        file = self.ranks[at].communication.get(step)
        return self.definition if file is not None and abs(communication - file) <= TOLERANCE_NS else None

    def _windows(self) -> _Windows:
        """The whole capture, and each step from its first device work to the later of its last and its host end."""
        at: list[int] = []
        step: list[int | None] = []
        marked: list[bool] = []
        times: list[tuple[int, int, int, int]] = []  # begin, end, the host's mark, its end
        for i, one in enumerate(self.ranks):
            shift, far = int(self.shift[i]), (i + 1) * self.stride
            begins = [(start if device is None else device) + shift for _, start, _, device, _ in one.steps]
            marked += [all(own for *_, own in one.steps), *(own for *_, own in one.steps)]
            step += [None, *(number for number, *_ in one.steps)]
            at += [i] * (1 + len(one.steps))
            times.append((i * self.stride, far, one.steps[0][1] + shift if len(one.steps) == 1 else _NONE, _NONE))
            for (_, mark, length, *_), start, following in zip(one.steps, begins, [*begins[1:], far], strict=False):
                times.append((start, following, mark + shift, mark + length + shift))
        begin, end, marks, host = np.array(times, np.int64).T
        first, _, last = self._edges(begin, end)
        whole = np.array([number is None for number in step], np.bool_)
        keep = whole | (first != _NONE)
        steps = [number for number, kept in zip(step, keep.tolist(), strict=True) if kept]
        begin, end = np.where(whole, begin, first), np.where(whole, end, np.maximum(host, last))
        return _Windows(
            np.array(at, np.int64)[keep], steps, begin[keep], end[keep], marks[keep], np.array(marked, np.bool_)[keep]
        )  # fmt: skip

    def _edges(self, begin: Ints, end: Ints, with_free: NDArray[np.bool_] | None = None) -> tuple[Ints, Ints, Ints]:
        """Per window the first start of what was counted, and start and end of the piece that ends last; or _NONE."""
        first = np.full(len(begin), np.iinfo(np.int64).max)
        last_start, last_end = np.full(len(begin), _NONE), np.full(len(begin), _NONE)
        everywhere = np.ones(len(begin), bool)
        lanes = [(self.computing, everywhere), (self.communication, everywhere)]
        if with_free is not None:
            lanes.append((self.free[0], with_free))
        for lane, asked in lanes:
            begun, after = lane.of(begin, end)
            there = np.flatnonzero((after > begun) & asked)
            first[there] = np.minimum(first[there], lane.starts[begun[there]])
            starts, ends = lane.starts[after[there] - 1], lane.ends[after[there] - 1]
            later = (ends > last_end[there]) | ((ends == last_end[there]) & (starts > last_start[there]))
            last_start[there[later]], last_end[there[later]] = starts[later], ends[later]
        return np.where(last_end == _NONE, _NONE, first), last_start, last_end

    def _free(self, w: _Windows, text: NDArray[np.bool_], first: Ints, last: Ints) -> tuple[Ints, list[str | None]]:
        """Free time by the definition that reproduces the file, else by the first."""
        offered = [told[w.at] for told in self.told]
        lanes = zip(self.free, offered, strict=True)
        sums = [np.where(there, lane.total(w.begin, w.end), 0) for lane, there in lanes]
        stepwise = ~text & (first != _NONE)
        sums[0] = np.where(stepwise, last - first - self.busy.total(w.begin, w.end), sums[0])
        wanted = [self.ranks[at].free.get(step) for at, step in zip(w.at.tolist(), w.step, strict=True)]
        asked = np.array([ns is not None for ns in wanted], bool)
        file = np.array([ns or 0 for ns in wanted], np.int64)
        free, definition = sums[0].copy(), np.full(len(wanted), -1)
        for number in reversed(range(len(sums))):
            fits = offered[number] & asked & (np.abs(sums[number] - file) <= TOLERANCE_NS)
            free[fits], definition[fits] = sums[number][fits], number
        return free, [None if number < 0 else _DEFINITIONS[number] for number in definition.tolist()]


def _stage(first: int, last_start: int, last_end: int, origin: int, as_text: bool) -> int:
    """From the first start to the last end; the text adds start and duration of the last piece as floats."""
    if not as_text:
        return last_end - first
    end = (last_start + origin) / 1000 + (last_end - last_start) / 1000
    return round((end - (first + origin) / 1000) * 1000)


def _preparing(mark: int, first: int, origin: int, as_text: bool) -> int:
    """From the host's mark to the first start."""
    if not as_text:
        return first - mark
    return round(((first + origin) / 1000 - (mark + origin) / 1000) * 1000)
