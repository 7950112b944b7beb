"""What finishing asks of a small rank's tables, found in arrays that are in memory.

Each answer is the one that a statement gives of a rank of any size, in device_time.py, checks.py or finish.py. A
statement takes a millisecond to plan, and a small rank has no rows that would need one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from npulens.ingest.tables.steps import WORK, Ints

Bools = NDArray[np.bool_]

_KERNELS = ("kernel", "memset")
#: What a task's name says of its part, as the view comm_task has it (analysis/sql).
_WAITS, _RECORDS = "wait", ("record", "value", "notify")


def ints(column: pa.ChunkedArray, null: int = 0) -> Ints:
    """A column of whole numbers."""
    return np.asarray(pc.fill_null(column, null).to_numpy(), np.int64)


def bools(values: pa.ChunkedArray | pa.Array) -> Bools:
    """A column of truths; unknown is no."""
    return np.asarray(pc.fill_null(values, False).to_numpy(zero_copy_only=False), np.bool_)


def among(column: pa.ChunkedArray, *values: str) -> Bools:
    """Where a text is one of several."""
    return bools(pc.is_in(column, value_set=pa.array(values, pa.string())))


def says(column: pa.ChunkedArray, word: str) -> Bools:
    """Where a text holds a word, in letters of any case."""
    return bools(pc.match_substring(column, word, ignore_case=True))


def in_track_order(spans: pa.Table) -> pa.Table:
    """Spans that have a length, by track, start, longest first."""
    spans = spans.filter(pc.greater_equal(spans["dur_ns"], 0))
    keys = [ints(spans[name]) for name in ("span_id", "dur_ns", "ts_ns", "track")]
    return spans.take(pa.array(np.lexsort((keys[0], -keys[1], keys[2], keys[3]))))


def worked(spans: pa.Table, since_ns: int) -> int | None:
    """When the device's work that starts from a stamp on ends; None if there is none."""
    of = among(spans["kind"], *WORK) & (ints(spans["ts_ns"]) >= since_ns) & ~bools(pc.is_null(spans["dur_ns"]))
    ends = (ints(spans["ts_ns"]) + ints(spans["dur_ns"]))[of]
    return int(ends.max()) if len(ends) else None


class Work:
    """What a device did, as the tables of spans and of communication hold it."""

    def __init__(self, spans: pa.Table, comm: pa.Table) -> None:
        self._kind, self._step, self._comm = spans["kind"], spans["step"], comm
        self._ts, self._dur, ids = (ints(spans[name]) for name in ("ts_ns", "dur_ns", "span_id"))
        self._ends = self._ts + self._dur
        order = np.argsort(ids)
        told, operator = ints(comm["span_id"], -1), ints(comm["op_span_id"], -1)
        place = np.minimum(np.searchsorted(ids[order], told), max(0, len(ids) - 1))
        at = order[place] if len(ids) else place
        there = ids[at] == told if len(ids) else np.zeros(len(told), bool)
        self._at, self._there = at, there  # the span of each row of comm, and whether there is one
        self._talks = np.zeros(len(ids), bool)
        self._talks[at[there & (told == operator)]] = True
        self._talks &= among(self._kind, "kernel")

    def untold(self, world: int) -> bool:
        """Whether communication may have run and none of the work was told to be it."""
        works, unknown = among(self._kind, *_KERNELS, "unknown").any(), among(self._kind, "unknown").any()
        told = among(self._kind, "comm_op").any() or len(self._comm)
        return bool(works and not told and (world > 1 or unknown))

    def started(self) -> pa.Table:
        """What starts in the whole capture, and in each step."""
        work = among(self._kind, *WORK)
        kernels, copies = among(self._kind, *_KERNELS), among(self._kind, "memcpy")
        collectives, lasts = among(self._kind, "comm_op") | self._talks, work & (self._dur > 0)
        stepped = work & ~bools(pc.is_null(self._step))
        numbers, step = np.unique(ints(self._step)[stepped], return_inverse=True)
        groups: list[tuple[Ints | None, Bools, Ints, int]] = [
            (None, work, np.zeros(int(work.sum()), np.int64), 1),
            (numbers, stepped, np.asarray(step, np.int64), len(numbers)),
        ]
        parts = []
        for of, rows, group, many in groups:
            first, last = np.full(many, np.iinfo(np.int64).max), np.full(many, np.iinfo(np.int64).min)
            some = lasts[rows]
            np.minimum.at(first, group[some], self._ts[rows][some])
            np.maximum.at(last, group[some], self._ends[rows][some])
            none = np.bincount(group[some], minlength=many) == 0
            counts = [np.bincount(group[which[rows]], minlength=many) for which in (kernels, collectives, copies)]
            parts.append(
                pa.table({
                    "step": pa.nulls(many, pa.int64()) if of is None else pa.array(of),
                    "whole": pa.array(np.full(many, of is None)),
                    **{name: pa.array(count.astype(np.int64)) for name, count in zip(
                        ("kernels", "collectives", "copies"), counts, strict=True)},
                    "work_ts_ns": pa.array(first, mask=none), "end_ns": pa.array(last, mask=none),
                })
            )  # fmt: skip
        return pa.concat_tables(parts).combine_chunks()

    def has_tasks(self) -> bool:
        """Whether operators are told from the tasks that make them up."""
        return bool(self._tasks(lasting=False)[0].any())

    def moments(self) -> Iterator[tuple[Ints, Ints, NDArray[np.int8]]]:
        """Begin, end and kind of all that ran, in order of time."""
        work = among(self._kind, *WORK) & (self._dur > 0)
        kind = np.zeros(len(work), np.int8)
        for number, name in ((1, "comm_op"), (2, "memcpy"), (3, "unknown")):
            kind[among(self._kind, name)] = number
        talks, (tasks, part) = self._talks & (self._dur > 0), self._tasks(lasting=True)
        tasks &= part > 0
        at = np.concatenate((np.flatnonzero(work), np.flatnonzero(talks), self._at[tasks]))
        what = np.concatenate((kind[work], np.ones(int(talks.sum()), np.int8), part[tasks]))
        order = np.lexsort((self._ends[at], self._ts[at]))
        if len(order):
            yield self._ts[at][order], self._ends[at][order], what[order]

    def _tasks(self, *, lasting: bool) -> tuple[Bools, NDArray[np.int8]]:
        """Which rows of comm are tasks of an operator; whether each waits (4), moves data (5) or does neither (0)."""
        type_ = self._comm["task_type"]
        tasks = self._there & ~bools(pc.is_null(type_))
        if len(self._kind):
            tasks &= ~among(self._kind, "comm_op")[self._at]
            tasks &= (self._dur[self._at] > 0) | (not lasting)
        part = np.where(says(type_, _WAITS), 4, 5).astype(np.int8)
        for word in _RECORDS:
            part[says(type_, word) & (part == 5)] = 0
        return tasks, part
