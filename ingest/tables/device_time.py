"""What a rank's device did in each of its windows.

They are sums that every page asks for, made once when the rank is loaded.

A window is the whole capture or a step. Spans of streams overlap, so each figure is the length of a union. One sweep
over begins and ends in order of time finds it. Between two neighbouring moments the device's state is constant, so
their distance is added to every state that holds. Spans come sorted and in batches, so the sweep needs the memory of a
batch, however long the capture is. A figure that the capture could not record is NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from npulens.ingest.tables.held import Work
from npulens.ingest.tables.in_order import Spans, in_order
from npulens.ingest.tables.steps import Ints, Steps

#: What can run: kernels and memsets compute, communication operators communicate, memory copies copy, of some work
#: nobody knows what it does. Of the tasks inside an operator some wait for a peer and some move data. A kernel that
#: communicates as well is two of these.
_COMPUTING, _COMMUNICATION, _COPY, _UNKNOWN, _WAIT, _TRANSFER = range(6)
_SUMS = (
    "computing_ns", "communication_ns", "communication_not_overlapped_ns", "overlapped_ns", "copy_ns",
    "copy_not_overlapped_ns", "unknown_ns", "unknown_not_overlapped_ns", "idle_ns", "only_waiting_ns",
)  # fmt: skip
#: Which of them need which of computing, communication and copy to be recorded. What is there and was not told apart
#: ("w" without "m") still fills the device.
_NEEDS = {
    "computing_ns": "c", "communication_ns": "m", "communication_not_overlapped_ns": "cm", "overlapped_ns": "cm",
    "copy_ns": "y", "copy_not_overlapped_ns": "cwy", "unknown_ns": "c", "unknown_not_overlapped_ns": "cwy",
    "idle_ns": "cwy", "only_waiting_ns": "cm", "kernels": "c", "collectives": "m", "copies": "y",
}  # fmt: skip
_BATCH = 16_384
Kinds = NDArray[np.int8]

# The names of a task's part are those of the view comm_task (analysis/sql); a test holds them together.
_MOMENTS = """
SELECT ts_ns, ts_ns + dur_ns AS end_ns,
    CASE kind WHEN 'comm_op' THEN 1 WHEN 'memcpy' THEN 2 WHEN 'unknown' THEN 3 ELSE 0 END::TINYINT AS what, 0 AS track
FROM {span} WHERE rank = {rank} AND kind IN ('kernel', 'memset', 'memcpy', 'comm_op', 'unknown') AND dur_ns > 0
UNION ALL
SELECT s.ts_ns, s.ts_ns + s.dur_ns, 1::TINYINT, 0
FROM {comm} c JOIN {span} s USING (span_id)
WHERE s.rank = {rank} AND s.kind = 'kernel' AND c.op_span_id = span_id AND s.dur_ns > 0
UNION ALL
SELECT s.ts_ns, s.ts_ns + s.dur_ns, CASE WHEN c.task_type ILIKE '%wait%' THEN 4 ELSE 5 END::TINYINT, 0
FROM {comm} c JOIN {span} s USING (span_id)
WHERE s.rank = {rank} AND c.task_type IS NOT NULL AND s.kind <> 'comm_op' AND s.dur_ns > 0
    AND (c.task_type ILIKE '%wait%'
        OR NOT (c.task_type ILIKE '%record%' OR c.task_type ILIKE '%value%' OR c.task_type ILIKE '%notify%'))
"""
_STARTED = """
SELECT step, grouping(step) = 1 AS whole, count(*) FILTER (kind IN ('kernel', 'memset')) AS kernels,
    count(*) FILTER (kind = 'comm_op' OR talks) AS collectives, count(*) FILTER (kind = 'memcpy') AS copies,
    min(ts_ns) FILTER (dur_ns > 0) AS work_ts_ns, max(ts_ns + dur_ns) FILTER (dur_ns > 0) AS end_ns
FROM (
    SELECT step, kind, ts_ns, dur_ns, kind = 'kernel' AND span_id IN (
        SELECT span_id FROM {comm} WHERE op_span_id = span_id
    ) AS talks
    FROM {span} WHERE rank = {rank} AND kind IN ('kernel', 'memset', 'memcpy', 'comm_op', 'unknown')
)
GROUP BY GROUPING SETS ((), (step))
"""
_TASKS = """
SELECT count(*) > 0 FROM {comm} c JOIN {span} s USING (span_id)
WHERE s.rank = {rank} AND c.task_type IS NOT NULL AND s.kind <> 'comm_op'
"""
#: A rank of several whose every kernel was recorded, and of whose work nothing was told to be communication. So too
#: where some of it speaks of communication. Then an empty table of collectives does not say that there were none.
_UNTOLD = """
SELECT count(*) FILTER (kind IN ('kernel', 'memset', 'unknown')) > 0 AND NOT coalesce(bool_or(kind = 'comm_op'), false)
    AND ({world} > 1 OR coalesce(bool_or(kind = 'unknown'), false))
    AND NOT EXISTS (FROM {comm} c WHERE c.rank = {rank})
FROM {span} WHERE rank = {rank}
"""


def untold(con: duckdb.DuckDBPyConnection, sources: Mapping[str, str], rank: int, world: int) -> bool:
    """Whether communication may have run on a rank and none of its work was told to be it."""
    asked = _UNTOLD.format(**sources, rank=rank, world=world)
    return bool(con.execute(asked).fetchall()[0][0])


def device_time(
    con: duckdb.DuckDBPyConnection, sources: Mapping[str, str], rank: int, steps: Steps, absent: Collection[str],
    kept: Callable[[str], str] = lambda select: f"({select})", *, untold: bool = False,
) -> pa.Table:  # fmt: skip
    """The rows of one rank, times as they are in ``steps``: first the whole capture, then its steps.

    ``sources`` says in SQL where spans and comm lie, ``absent`` which tables were not recorded. ``kept`` may hold the
    rows of a SELECT that is asked several times, and says where. ``untold``: communication is not absent from the
    spans, but none was told.
    """
    asked = {**sources, "rank": rank}
    return _windows(
        con.sql(_STARTED.format(**asked)).to_arrow_table(),
        lambda: bool(con.execute(_TASKS.format(**asked)).fetchall()[0][0]),
        lambda: _batches(con, kept(_MOMENTS.format(**asked))),
        rank, steps, absent, untold=untold,
    )  # fmt: skip


def of_work(work: Work, rank: int, steps: Steps, absent: Collection[str], *, untold: bool = False) -> pa.Table:
    """The same of a rank whose work is held in memory."""
    return _windows(work.started(), work.has_tasks, work.moments, rank, steps, absent, untold=untold)


def _windows(
    started: pa.Table, has_tasks: Callable[[], bool], moments: Callable[[], Iterable[tuple[Ints, Ints, Kinds]]],
    rank: int, steps: Steps, absent: Collection[str], *, untold: bool,
) -> pa.Table:  # fmt: skip
    whole = started.filter(pc.field("whole")).to_pylist()[0]
    tasks = bool(whole["collectives"]) and has_tasks()
    known = _known((whole["kernels"], whole["collectives"], whole["copies"]), absent)
    if untold:
        known -= {"m"}
    if untold or "m" in known:
        known |= {"w"}
    unknown = {name for name, needs in _NEEDS.items() if not set(needs) <= known}
    if whole["collectives"] and not tasks:
        unknown.add("only_waiting_ns")
    bounds = _bounds(steps, whole["work_ts_ns"], whole["end_ns"])
    first = np.arange(len(bounds)) == 0
    columns = {
        "rank": pa.array(np.full(len(bounds), rank)),
        "step": pa.array(np.concatenate((first[:1].astype(np.int64), steps.number)), mask=first),
        **_counted(started, whole, steps),
    }
    if whole["work_ts_ns"] is None and not len(steps.number):  # there is no window to sum over
        unknown |= {"ts_ns", "dur_ns", *_SUMS, "work_ts_ns"}
    else:
        sums = _sums(bounds, moments())
        columns |= {"ts_ns": pa.array(bounds[:, 0]), "dur_ns": pa.array(bounds[:, 1] - bounds[:, 0])}
        columns |= {name: pa.array(sums[:, number]) for number, name in enumerate(_SUMS)}
    return pa.table({**columns, **dict.fromkeys(unknown, pa.nulls(len(bounds), pa.int64()))})


def _bounds(steps: Steps, work_ns: int | None, end_ns: int | None) -> Ints:
    """Begin and end of every window, the whole capture first: from the first mark or work to the last end of either."""
    work = [] if work_ns is None or end_ns is None else [(work_ns, end_ns)]
    begins, ends = np.concatenate(
        (np.stack((steps.begin_ns, steps.host_end_ns), axis=1), np.array(work, np.int64).reshape(-1, 2))
    ).T
    whole = (begins.min(), ends.max()) if len(begins) else (0, 0)
    return np.concatenate((np.array([whole], np.int64), np.stack((steps.begin_ns, steps.end_ns), axis=1)))


def _counted(started: pa.Table, whole: Mapping[str, int | None], steps: Steps) -> dict[str, pa.Array]:
    """What starts in each window."""
    of_steps = started.filter(~pc.field("whole"))
    found = of_steps.take(pc.index_in(pa.array(steps.number, pa.int64()), value_set=of_steps["step"]))
    columns = {
        name: pa.concat_arrays([pa.array([whole[name]], pa.int64()), *found[name].cast(pa.int64()).chunks])
        for name in ("kernels", "collectives", "copies", "work_ts_ns")
    }
    return {name: pc.fill_null(column, 0) if name in _NEEDS else column for name, column in columns.items()}


def _known(counts: Iterable[int], absent: Collection[str]) -> set[str]:
    """Which kinds of work were recorded: there is some, or the capture says that there was none.

    Without a recorded device an empty table of copies or collectives means nothing either.
    """
    kernels, collectives, copies = counts
    computing = kernels > 0 or "kernel" not in absent
    told = {
        "c": computing, "m": collectives > 0 or (computing and "comm" not in absent),
        "y": copies > 0 or (computing and "transfer" not in absent),
    }  # fmt: skip
    return {name for name, yes in told.items() if yes}


def _batches(con: duckdb.DuckDBPyConnection, moments: str) -> Iterator[tuple[Ints, Ints, Kinds]]:
    for batch in in_order(con, Spans(moments, then="end_ns"), _BATCH):
        yield tuple(np.asarray(batch.column(i).to_numpy(False)) for i in range(3))  # type: ignore[misc]


def _sums(bounds: Ints, batches: Iterable[tuple[Ints, Ints, Kinds]]) -> Ints:
    """Per window, given by its begin and end, the length of each state."""
    sweep = _Sweep(np.unique(bounds))
    for starts, ends, what in batches:
        sweep.add(starts, ends, what)
    sweep.finish()
    at = np.searchsorted(sweep.edges, bounds)
    return np.asarray(sweep.at_edge[at[:, 1]] - sweep.at_edge[at[:, 0]])


class _Sweep:
    """Running totals of each state, noted at every edge of a window."""

    def __init__(self, edges: Ints) -> None:
        self.edges = edges
        self.at_edge = np.zeros((len(edges), len(_SUMS)), np.int64)
        self._total = np.zeros(len(_SUMS), np.int64)
        self._from = int(edges[0])  # up to here everything is summed
        self._open = np.full(6, self._from, np.int64)  # what runs beyond that ends here

    def add(self, starts: Ints, ends: Ints, what: Kinds) -> None:
        """Spans that begin no earlier than any added before."""
        starts, ends, what = self._with_open(np.maximum(starts, self._from), np.maximum(ends, self._from), what)
        # Whatever comes later begins at the last of these or after it: up to there everything is known.
        until = int(starts[-1])
        self._go(until, starts, ends, what)
        np.maximum.at(self._open, what, ends)

    def finish(self) -> None:
        """No more spans."""
        none = np.zeros(0, np.int64)
        until = max(int(self.edges[-1]), int(self._open.max())) + 1
        self._go(until, *self._with_open(none, none, none.astype(np.int8)))

    def _with_open(self, starts: Ints, ends: Ints, what: Kinds) -> tuple[Ints, Ints, Kinds]:
        """Before the others, what still runs: of each kind the end that lies farthest stands for all."""
        runs = np.flatnonzero(self._open > self._from)
        begun = np.full(len(runs), self._from, np.int64)
        return (
            np.concatenate((begun, starts)), np.concatenate((self._open[runs], ends)),
            np.concatenate((runs.astype(np.int8), what)),
        )  # fmt: skip

    def _go(self, until: int, starts: Ints, ends: Ints, what: Kinds) -> None:
        """Sum from where we are to a moment."""
        first, last = np.searchsorted(self.edges, [self._from, until])
        edges = self.edges[first:last]
        inside = starts < until
        starts, ends, what = starts[inside], np.minimum(ends[inside], until), what[inside]
        # Edges come first, and the sort is stable: of what happens at an edge's own time nothing counts before it.
        times = np.concatenate((edges, [self._from], starts, ends))
        kind = np.concatenate((np.full(len(edges) + 1, -1, np.int8), what, what))
        change = np.repeat(np.array([0, 1, -1], np.int8), [len(edges) + 1, len(what), len(what)])
        order = np.argsort(times, kind="stable")
        times, kind, change = times[order], kind[order], change[order]
        runs = [np.cumsum(np.where(kind == each, change, 0)) > 0 for each in range(6)]
        length = np.diff(times, append=until)
        sums = np.zeros((len(times) + 1, len(_SUMS)), np.int64)
        for column, state in enumerate(_states(runs)):
            np.cumsum(np.where(state, length, 0), out=sums[1:, column])
        self.at_edge[first:last] = self._total + sums[np.flatnonzero(order < len(edges))]
        self._total += sums[-1]
        self._from = until


def _states(runs: list[NDArray[np.bool_]]) -> Iterator[NDArray[np.bool_]]:
    """In the order of `_SUMS`."""
    computing, communication, copy, unknown, wait, transfer = runs
    bare, told = communication & ~computing, computing | communication | copy
    yield from (
        computing, communication, bare, communication & computing, copy, copy & ~computing & ~communication,
        unknown, unknown & ~told, ~told & ~unknown, bare & wait & ~transfer,
    )  # fmt: skip
