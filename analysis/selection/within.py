"""A connection whose tables hold no more than what is selected, so that every measurement measures the selection.

Each rank has a pane: from the first selected step to the end of the last, cut to the selected window. Device work is in
the selection if any of it runs in its rank's pane, and keeps its whole length. Sums of time are cut at the edges
(`device_time`). Calls of the host stay, whenever they began: they say what launched the work. Samples are those that
hold within the pane.

The tables of a selection are temporary and shadow the run's own. Views that are made of tables follow by themselves.
What needs neighbours outside the pane, such as the launch of a task, is asked of the whole run and then narrowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np

from npulens.analysis import split
from npulens.analysis.intervals import EMPTY, Intervals
from npulens.analysis.kept import KEPT, ready
from npulens.analysis.run import Run
from npulens.analysis.views import views

#: Where the run's own tables are: a temporary one of the same name would be found first.
WHOLE = "memory.main"
_DEVICE = "'kernel', 'memset', 'memcpy', 'comm_op', 'comm_task', 'unknown', 'wait', 'device_annotation', 'device_other'"
#: Tables that are told by rank alone.
_OF_RANKS = ("rank", "coverage", "memory_event", "profiler_step", "summary", "comm_link", "l2_cache", "clock")
#: What lies in a pane: it runs there, or it is a moment of it.
_INSIDE = "ts_ns < to_ns AND (ts_ns + dur_ns > from_ns OR ts_ns >= from_ns)"
_STARTS = "ts_ns >= from_ns AND ts_ns < to_ns"
_OF_OPERATORS = (
    f"SEMI JOIN (SELECT span_id FROM collective JOIN pane USING (rank) WHERE {_INSIDE}) op ON op_id = span_id"
)
#: What is kept of a run (analysis/kept.py) row by row, and which rows are in the selection.
_NARROWED = {
    "launched": f"JOIN pane USING (rank) WHERE {_STARTS}",
    "kernel_task": f"JOIN pane USING (rank) WHERE {_INSIDE}",
    "kernel_source": f"JOIN pane USING (rank) WHERE {_INSIDE}",
    "slow_kernel": f"JOIN pane USING (rank) WHERE {_STARTS}",
    "collective": f"JOIN pane USING (rank) WHERE {_INSIDE}",
    "collective_plane": _OF_OPERATORS,
    "peer_wait": _OF_OPERATORS,
    "launch_pace": "",  # of the run: what is usual
    "request_part": "",  # of whole requests
}


@dataclass(frozen=True)
class Part:
    """What is selected of a run; what is not given means all."""

    ranks: tuple[int, ...] = ()
    steps: tuple[int, int] | None = None
    window: tuple[int, int] | None = None


def panes(con: duckdb.DuckDBPyConnection, part: Part) -> dict[int, tuple[int, int]]:
    """rank -> its pane; ranks of which nothing is selected are left out."""
    rows = con.execute(
        "SELECT rank, coalesce(d.ts_ns, first_ns), coalesce(d.ts_ns + d.dur_ns, last_ns), "
        "coalesce(first_ns, d.ts_ns), coalesce(last_ns, d.ts_ns + d.dur_ns), s.from_ns, s.to_ns "
        "FROM rank LEFT JOIN (SELECT * FROM device_time WHERE step IS NULL) d USING (rank) "
        "LEFT JOIN (SELECT rank, min(ts_ns) AS from_ns, max(ts_ns + dur_ns) AS to_ns FROM step "
        "WHERE step BETWEEN $first AND $last GROUP BY rank) s USING (rank) "
        "WHERE len($ranks::INTEGER[]) = 0 OR list_contains($ranks::INTEGER[], rank) ORDER BY rank",
        {"ranks": list(part.ranks), "first": part.steps[0] if part.steps else 0,
         "last": part.steps[1] if part.steps else -1},
    ).fetchall()  # fmt: skip
    found = {}
    for rank, begin, end, first, last, from_step, to_step in rows:
        low, high = (begin, end) if part.steps is None else (from_step, to_step)
        if part.window is not None and part.steps is None:
            low, high = first, last  # a window may lie where the device has nothing to do yet
        if low is None or high is None:
            continue
        if part.window is not None:
            reaches = part.window[0] < high and part.window[1] > low
            low, high = part.window if reaches and part.steps is None else (
                max(low, part.window[0]), min(high, part.window[1])
            )  # fmt: skip
        if low < high:
            found[rank] = (low, high)
    return found


def steps_of(con: duckdb.DuckDBPyConnection) -> tuple[int, ...]:
    """The recorded steps of all ranks."""
    return tuple(step for (step,) in con.execute("SELECT DISTINCT step FROM step ORDER BY step").fetchall())


def name_of(con: duckdb.DuckDBPyConnection, span_id: int) -> str | None:
    """What a span is called; None where the run has no such span."""
    found = con.execute("SELECT name FROM span WHERE span_id = ?", [span_id]).fetchone()
    return None if found is None else str(found[0])


def ranks_of(con: duckdb.DuckDBPyConnection, tracks: Sequence[int]) -> tuple[int, ...]:
    """The ranks that some tracks belong to."""
    rows = con.execute(
        "SELECT DISTINCT rank FROM track WHERE list_contains($tracks::BIGINT[], track) ORDER BY rank",
        {"tracks": list(tracks)},
    ).fetchall()
    return tuple(int(rank) for (rank,) in rows)


def narrow(con: duckdb.DuckDBPyConnection, part: Part, *, hosts: bool = True) -> None:
    """Makes the tables of the selection on a connection of its own (a cursor), where they shadow the run's.

    Without ``hosts`` only those calls of the host stay that run in the pane.
    """
    found = panes(con, part)
    con.execute(
        "CREATE TEMP TABLE pane AS SELECT unnest($rank::INTEGER[]) AS rank, unnest($begin::BIGINT[]) AS from_ns, "
        "unnest($end::BIGINT[]) AS to_ns",
        {"rank": list(found), "begin": [one for one, _ in found.values()], "end": [one for _, one in found.values()]},
    )
    for table in _OF_RANKS:
        con.execute(f"CREATE TEMP VIEW {table} AS SELECT * FROM {WHOLE}.{table} SEMI JOIN pane USING (rank)")
    if part.steps is None and part.window is None:
        for table in ("span", "step", "device_time", "sample", "memory_sample"):
            con.execute(f"CREATE TEMP VIEW {table} AS SELECT * FROM {WHOLE}.{table} SEMI JOIN pane USING (rank)")
        return
    con.execute(
        "CREATE TEMP TABLE step AS SELECT s.* REPLACE (greatest(s.ts_ns, from_ns) AS ts_ns, "
        "least(s.ts_ns + s.dur_ns, to_ns) - greatest(s.ts_ns, from_ns) AS dur_ns) "
        f"FROM {WHOLE}.step s JOIN pane USING (rank) WHERE s.ts_ns < to_ns AND s.ts_ns + s.dur_ns > from_ns"
    )
    for table, series in (("sample", "counter, series"), ("memory_sample", "component, stream_ptr, device")):
        con.execute(
            f"CREATE TEMP VIEW {table} AS SELECT * EXCLUDE (from_ns, to_ns, until_ns) REPLACE "
            "(greatest(ts_ns, from_ns) AS ts_ns) FROM (SELECT s.*, from_ns, to_ns, lead(ts_ns) OVER (PARTITION BY "
            f"rank, {series} ORDER BY ts_ns) AS until_ns FROM {WHOLE}.{table} s JOIN pane USING (rank)) "
            "WHERE ts_ns < to_ns AND (until_ns IS NULL OR until_ns > from_ns)"
        )
    _spans(con, hosts=hosts)
    _device_time(con, found)


def _spans(con: duckdb.DuckDBPyConnection, *, hosts: bool) -> None:
    """What is in the panes is copied: a window is small, and each question would read the files again."""
    which = f"kind IN ({_DEVICE}) AND" if hosts else ""
    con.execute(
        f"CREATE TEMP TABLE inside AS SELECT span.* FROM {WHOLE}.span JOIN pane USING (rank) WHERE {which} {_INSIDE}"
    )
    more = (
        f"UNION ALL SELECT * FROM {WHOLE}.span WHERE kind NOT IN ({_DEVICE}) AND rank IN (SELECT rank FROM pane)"
        if hosts
        else ""
    )
    con.execute(f"CREATE TEMP VIEW span AS SELECT * FROM inside {more}")


# The sums of time that a rank's table holds, of its pane and of the steps in it.
_SUMS = (
    "computing_ns", "communication_ns", "communication_not_overlapped_ns", "overlapped_ns", "copy_ns",
    "copy_not_overlapped_ns", "unknown_ns", "unknown_not_overlapped_ns", "idle_ns",
)  # fmt: skip
_STARTED = """
CREATE TEMP TABLE device_time AS
WITH work AS (
    SELECT rank, kind, ts_ns, dur_ns, kind = 'kernel' AND span_id IN (
        SELECT span_id FROM comm WHERE op_span_id = span_id
    ) AS talks
    FROM inside WHERE kind IN ('kernel', 'memset', 'memcpy', 'comm_op', 'unknown')
), started AS (
    SELECT sums.rank, sums.step, count(*) FILTER (kind IN ('kernel', 'memset')) AS kernels,
        count(*) FILTER (kind = 'comm_op' OR talks) AS collectives, count(*) FILTER (kind = 'memcpy') AS copies,
        min(work.ts_ns) FILTER (work.dur_ns > 0) AS work_ts_ns
    FROM sums JOIN work ON work.rank = sums.rank AND work.ts_ns >= sums.ts_ns
        AND work.ts_ns < sums.ts_ns + sums.dur_ns
    GROUP BY sums.rank, sums.step
)
SELECT sums.*, CASE WHEN run.kernels IS NOT NULL THEN coalesce(started.kernels, 0) END AS kernels,
    CASE WHEN run.collectives IS NOT NULL THEN coalesce(started.collectives, 0) END AS collectives,
    CASE WHEN run.copies IS NOT NULL THEN coalesce(started.copies, 0) END AS copies, started.work_ts_ns
FROM sums LEFT JOIN started ON started.rank = sums.rank AND started.step IS NOT DISTINCT FROM sums.step
LEFT JOIN {whole}.device_time run ON run.rank = sums.rank AND run.step IS NULL
"""
_TASKS = "SELECT ts_ns, end_ns FROM comm_task WHERE rank = ? AND part = ? AND end_ns > ts_ns"


def _device_time(con: duckdb.DuckDBPyConnection, found: dict[int, tuple[int, int]]) -> None:
    """As the run's own table: what a rank could not record stays NULL."""
    run = Run.of(con)
    told = dict(con.execute("SELECT rank, only_waiting_ns IS NOT NULL FROM device_time WHERE step IS NULL").fetchall())
    rows: list[tuple[object, ...]] = []
    for rank, pane in found.items():
        did = run.activity(rank)
        waits = _only_waiting(con, rank, did) if told.get(rank) else None
        windows = [(None, *pane), *((step.step, step.ts_ns, step.end_ns) for step in run.steps.get(rank, ()))]
        edges = np.array([window[1:] for window in windows], np.int64).T
        waited = [None] * len(windows) if waits is None else [int(ns) for ns in waits.within(edges[0], edges[1])]
        for row, waiting in zip(split.rows(rank, windows, did), waited, strict=True):
            rows.append((rank, row.step, row.start_ns, row.dur_ns, *(getattr(row, name) for name in _SUMS), waiting))
    names = ("rank", "step", "ts_ns", "dur_ns", *_SUMS, "only_waiting_ns")
    columns = ", ".join(f"unnest(${name}::BIGINT[]) AS {name}" for name in names)
    con.execute(
        f"CREATE TEMP TABLE sums AS SELECT * REPLACE (rank::INTEGER AS rank) FROM (SELECT {columns})",
        {name: [row[at] for row in rows] for at, name in enumerate(names)},
    )
    con.execute(_STARTED.format(whole=WHOLE))


def _only_waiting(con: duckdb.DuckDBPyConnection, rank: int, did: split.Activity) -> Intervals:
    """When tasks of communication only wait for peers and nothing computes."""

    def of(part: str) -> Intervals:
        found = con.execute(_TASKS, [rank, part]).fetchnumpy()
        return Intervals.union_of(*(np.ma.getdata(found[name]).astype(np.int64) for name in ("ts_ns", "end_ns")))

    return (of("wait") - of("transfer")) - (did.computing or EMPTY)


def hold(con: duckdb.DuckDBPyConnection, whole: duckdb.DuckDBPyConnection, names: Iterable[str]) -> None:
    """What pages ask of every task, of a selection: told of the ``whole`` run where a row needs what lies outside."""
    found = con.sql("SELECT rank, from_ns, to_ns FROM pane").to_arrow_table()
    whole.register("pane", found)
    for name in names:
        if name in _NARROWED:
            ready(whole, (name,))
            con.register("answer", whole.sql(f"SELECT {name}.* FROM {name} {_NARROWED[name]}").to_arrow_table())
        elif callable(answer := KEPT[name]):
            con.register("answer", answer(Run.of(con)))
        else:
            view = next((view.sql for view in views() if view.name == name), None)
            con.execute(
                f"CREATE TEMP TABLE {name} AS {answer}"
                if view is None
                else view.replace("CREATE OR REPLACE VIEW", "CREATE OR REPLACE TEMP VIEW", 1)
            )
            continue
        con.execute(f"CREATE TEMP TABLE {name} AS SELECT * FROM answer")
        con.unregister("answer")
    whole.unregister("pane")
