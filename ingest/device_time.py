"""What a rank's device did in each of its windows: sums that every page asks for, made once when the rank is loaded.

A window is the whole capture or a step. Spans of streams overlap, so each figure is the length of a union, found by
one sweep over begins and ends in order of time: between two neighbouring moments the device's state does not change,
and it is added to every state that holds. Spans come sorted and in batches, so the sweep needs the memory of a batch,
however long the capture is. A figure that the capture could not record is NULL.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

#: What can run: kernels and memsets compute, communication operators communicate, memory copies copy, and of the
#: tasks inside an operator some wait for a peer and some move data.
_COMPUTING, _COMMUNICATION, _COPY, _WAIT, _TRANSFER = range(5)
_SUMS = (
    "computing_ns", "communication_ns", "communication_not_overlapped_ns", "overlapped_ns", "copy_ns",
    "copy_not_overlapped_ns", "idle_ns", "only_waiting_ns",
)  # fmt: skip
#: Which of them need which of computing, communication and copy to be recorded.
_NEEDS = {
    "computing_ns": "c", "communication_ns": "m", "communication_not_overlapped_ns": "cm", "overlapped_ns": "cm",
    "copy_ns": "y", "copy_not_overlapped_ns": "cmy", "idle_ns": "cmy", "only_waiting_ns": "cm", "kernels": "c",
    "collectives": "m", "copies": "y",
}  # fmt: skip
_BATCH = 16_384

# The names of a task's part are those of the view comm_task (analysis/sql); a test holds them together.
_MOMENTS = """
SELECT ts_ns, ts_ns + dur_ns AS end_ns,
    CASE kind WHEN 'comm_op' THEN 1 WHEN 'memcpy' THEN 2 ELSE 0 END::TINYINT AS what
FROM {span} WHERE rank = {rank} AND kind IN ('kernel', 'memset', 'memcpy', 'comm_op') AND dur_ns > 0
UNION ALL
SELECT s.ts_ns, s.ts_ns + s.dur_ns, CASE WHEN c.task_type ILIKE '%wait%' THEN 3 ELSE 4 END::TINYINT
FROM {comm} c JOIN {span} s USING (span_id)
WHERE s.rank = {rank} AND c.task_type IS NOT NULL AND s.kind <> 'comm_op' AND s.dur_ns > 0
    AND (c.task_type ILIKE '%wait%'
        OR NOT (c.task_type ILIKE '%record%' OR c.task_type ILIKE '%value%' OR c.task_type ILIKE '%notify%'))
ORDER BY 1
"""
_STARTED = """
SELECT step, grouping(step) = 1 AS whole, count(*) FILTER (kind IN ('kernel', 'memset')) AS kernels,
    count(*) FILTER (kind = 'comm_op') AS collectives, count(*) FILTER (kind = 'memcpy') AS copies,
    min(ts_ns) FILTER (dur_ns > 0) AS work_ts_ns, max(ts_ns + dur_ns) FILTER (dur_ns > 0) AS end_ns
FROM {span} WHERE rank = {rank} AND kind IN ('kernel', 'memset', 'memcpy', 'comm_op')
GROUP BY GROUPING SETS ((), (step))
"""
_TASKS = """
SELECT count(*) > 0 FROM {comm} c JOIN {span} s USING (span_id)
WHERE s.rank = {rank} AND c.task_type IS NOT NULL AND s.kind <> 'comm_op'
"""


@dataclass(frozen=True)
class Window:
    """A stretch of time to sum over; times from the run's origin."""

    step: int | None  # None: the whole capture
    begin_ns: int
    end_ns: int


@dataclass(frozen=True)
class Marked:
    """A recorded step: its window, and the end of its own mark on the host."""

    window: Window
    host_end_ns: int


def device_time(
    con: duckdb.DuckDBPyConnection, sources: Mapping[str, str], rank: int, steps: Iterable[Marked],
    absent: Collection[str],
) -> list[dict[str, Any]]:  # fmt: skip
    """The rows of one rank. ``sources`` says in SQL where spans and comm lie, ``absent`` which tables were not
    recorded."""
    asked = {**sources, "rank": rank}
    started: dict[int | None, tuple[int, int, int, int | None]] = {}
    whole: tuple[int, int, int, int | None, int | None] = (0, 0, 0, None, None)
    for step, all_of_it, *counts, begin, end in con.execute(_STARTED.format(**asked)).fetchall():
        if all_of_it:
            whole = (*counts, begin, end)
        else:
            started[step] = (*counts, begin)
    marked = list(steps)
    edges = [(mark.window.begin_ns, mark.host_end_ns) for mark in marked]
    if whole[3] is not None and whole[4] is not None:
        edges.append((whole[3], whole[4]))
    tasks = bool(whole[1]) and con.execute(_TASKS.format(**asked)).fetchall()[0][0]
    known = _known(whole[:3], absent)
    unknown = {name for name, needs in _NEEDS.items() if not set(needs) <= known}
    if whole[1] and not tasks:
        unknown.add("only_waiting_ns")
    if not edges:
        empty = dict.fromkeys(("step", "ts_ns", "dur_ns", *_SUMS, "work_ts_ns"))
        counted = {"kernels": whole[0], "collectives": whole[1], "copies": whole[2]}
        return [{"rank": rank, **empty, **_nulled(counted, unknown)}]
    windows = [Window(None, min(edge[0] for edge in edges), max(edge[1] for edge in edges))]
    windows += [mark.window for mark in marked]
    found = _rows(windows, _sums(windows, _batches(con, _MOMENTS.format(**asked))), {**started, None: whole[:4]})
    return [{"rank": rank, **_nulled(row, unknown)} for row in found]


def _nulled(row: Mapping[str, int | None], unknown: Collection[str]) -> dict[str, int | None]:
    return {name: None if name in unknown else value for name, value in row.items()}


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


def _rows(
    windows: list[Window], sums: NDArray[np.int64], started: Mapping[int | None, tuple[int, int, int, int | None]]
) -> Iterator[dict[str, Any]]:
    for window, parts in zip(windows, sums.tolist(), strict=True):
        kernels, collectives, copies, work = started.get(window.step, (0, 0, 0, None))
        yield {
            "step": window.step, "ts_ns": window.begin_ns, "dur_ns": window.end_ns - window.begin_ns,
            **dict(zip(_SUMS, parts, strict=True)), "kernels": kernels, "collectives": collectives, "copies": copies,
            "work_ts_ns": work,
        }  # fmt: skip


def _batches(con: duckdb.DuckDBPyConnection, select: str) -> Iterator[tuple[Ints, Ints, NDArray[np.int8]]]:
    for batch in con.sql(select).to_arrow_reader(_BATCH):
        yield tuple(np.asarray(batch.column(i).to_numpy(False)) for i in range(3))  # type: ignore[misc]


def _sums(windows: list[Window], batches: Iterable[tuple[Ints, Ints, NDArray[np.int8]]]) -> Ints:
    """Per window the length of each state."""
    bounds = np.array([[window.begin_ns, window.end_ns] for window in windows], np.int64)
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
        self._open = np.full(5, self._from, np.int64)  # what runs beyond that ends here

    def add(self, starts: Ints, ends: Ints, what: NDArray[np.int8]) -> None:
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

    def _with_open(self, starts: Ints, ends: Ints, what: NDArray[np.int8]) -> tuple[Ints, Ints, NDArray[np.int8]]:
        """Before the others, what still runs: of each kind the end that lies farthest stands for all."""
        runs = np.flatnonzero(self._open > self._from)
        begun = np.full(len(runs), self._from, np.int64)
        return (
            np.concatenate((begun, starts)), np.concatenate((self._open[runs], ends)),
            np.concatenate((runs.astype(np.int8), what)),
        )  # fmt: skip

    def _go(self, until: int, starts: Ints, ends: Ints, what: NDArray[np.int8]) -> None:
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
        runs = [np.cumsum(np.where(kind == each, change, 0)) > 0 for each in range(5)]
        length = np.diff(times, append=until)
        sums = np.zeros((len(times) + 1, len(_SUMS)), np.int64)
        for column, state in enumerate(_states(runs)):
            np.cumsum(np.where(state, length, 0), out=sums[1:, column])
        self.at_edge[first:last] = self._total + sums[np.flatnonzero(order < len(edges))]
        self._total += sums[-1]
        self._from = until


def _states(runs: list[NDArray[np.bool_]]) -> Iterator[NDArray[np.bool_]]:
    """In the order of `_SUMS`."""
    computing, communication, copy, wait, transfer = runs
    bare = communication & ~computing
    yield from (
        computing, communication, bare, communication & computing, copy, copy & ~computing & ~communication,
        ~computing & ~communication & ~copy, bare & wait & ~transfer,
    )  # fmt: skip
