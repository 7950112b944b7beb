"""Launches of a run: how long they take to reach the device and how many wait there. Also how far ahead the host is.

The latency of a task runs from the start of its host call to its own start. It includes waiting on the stream, so a
long latency is good while the device is busy. The lead tells the two apart: it is negative where the stream stood free
before the host had even begun to launch.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import numpy as np
import pandas as pd

from npulens.analysis.idle.host_names import special
from npulens.analysis.idle.launch_costs import launch_costs
from npulens.analysis.intervals import EMPTY, Intervals
from npulens.analysis.run import Run

#: Slices of a curve over time; each gives its least and its most.
SLICES = 750
#: Rows of a table of calls.
MOST_CALLS = 200


@dataclass(frozen=True)
class Headline:
    """The whole run, ranks together."""

    tasks: int
    launched: int  # with a recorded launch
    median_ns: int | None
    p99_ns: int | None
    negative: int  # started before their own launch: the clocks differ
    negative_ns: int  # by so much at most
    led: int  # tasks with a known lead
    late: int  # of those, negative: their stream stood free before the launch began
    late_idle_ns: int  # how long the device idled meanwhile: a union, added over ranks
    wall_ns: int  # the windows of these ranks, added
    kernels: int  # with a launch whose length was recorded
    short: int  # of those, shorter than their own launch call
    ordinary_ns: int  # from one launch to the next, usually
    ranks: tuple[int, ...]  # with launches


def headline(con: duckdb.DuckDBPyConnection) -> Headline:
    """The numbers of the sentence."""
    return _headline(Run(con), late(con))


def _headline(run: Run, behind: Late) -> Headline:
    con = run.con
    tasks, launched, median, p99, negative, before = con.execute(
        "SELECT count(*), count(launch_id), quantile_disc(latency_ns, 0.5), quantile_disc(latency_ns, 0.99), "
        "count(*) FILTER (negative), coalesce(-min(latency_ns) FILTER (negative), 0) "
        "FROM launch WHERE kind IN ('kernel', 'memset', 'memcpy', 'comm_op', 'unknown')"
    ).fetchall()[0]
    led = con.execute("SELECT count(lead_ns) FROM host_lead").fetchall()[0][0]
    kernels, short = con.execute(f"SELECT count(*), count(*) FILTER (dur_ns < call_ns) FROM ({_SHORT})").fetchall()[0]
    ranks = con.execute("SELECT DISTINCT rank FROM launch WHERE launch_id IS NOT NULL ORDER BY 1").fetchall()
    wall = con.execute(
        "SELECT coalesce(sum(dur_ns), 0)::BIGINT FROM step_window WHERE step IS NULL AND list_contains(?, rank)",
        [[rank for (rank,) in ranks]],
    ).fetchall()[0][0]
    return Headline(
        tasks, launched, median, p99, negative, before, led, behind.tasks, behind.idle_ns, wall, kernels, short,
        run.get(launch_costs).ordinary_ns, tuple(rank for (rank,) in ranks),
    )  # fmt: skip


#: Kernels with the host call that launched them.
_SHORT = """
    SELECT l.span_id, l.rank, l.ts_ns, l.dur_ns, call.name AS call, call.dur_ns AS call_ns
    FROM launch l JOIN span call ON call.span_id = l.launch_id
    WHERE l.kind IN ('kernel', 'memset') AND l.launch_kind IN ('runtime', 'dequeue')
"""


@dataclass(frozen=True)
class Latency:
    """How long launches take, by route, kind of task and rank."""

    rows: pd.DataFrame  # route, kind, rank, count, min, median, p90, p99, max, negative
    quantiles: pd.DataFrame  # route, rank, share, latency_ns


_SHARES = [share / 50 for share in range(51)]


def latency(con: duckdb.DuckDBPyConnection) -> Latency:
    """The distribution of launch latencies. The route is the one of the launch that counts (view launch)."""
    routed = """
        WITH routed AS (
            SELECT l.rank, l.kind, l.latency_ns, l.negative, min(k.route) AS route
            FROM launch l JOIN link k ON k.src_span_id = l.launch_id AND k.dst_span_id = l.span_id
            GROUP BY l.span_id, l.rank, l.kind, l.latency_ns, l.negative
        )"""
    rows = con.execute(f"""
        {routed}, told AS (
            SELECT
                route, kind, rank, count(*) AS count, min(latency_ns) AS min_ns,
                quantile_disc(latency_ns, [0.5, 0.9, 0.99]) AS q, max(latency_ns) AS max_ns,
                count(*) FILTER (negative) AS negative
            FROM routed GROUP BY ALL
        )
        SELECT route, kind, rank, count, min_ns, q[1] AS median_ns, q[2] AS p90_ns, q[3] AS p99_ns, max_ns, negative
        FROM told ORDER BY route, kind, rank""").fetchdf()
    found = con.execute(
        f"{routed} SELECT route, rank, quantile_disc(latency_ns, {_SHARES}) FROM routed GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    quantiles = pd.DataFrame(
        [(route, rank, share, value) for route, rank, values in found
         for share, value in zip(_SHARES, values, strict=True)],
        columns=["route", "rank", "share", "latency_ns"],
    )  # fmt: skip
    return Latency(rows, quantiles)


@dataclass(frozen=True)
class Curve:
    """Something over time, slice by slice: its least, its most, and its mean or median."""

    slices: pd.DataFrame  # ts_ns (start of the slice), least, middle, most
    begin_ns: int
    end_ns: int
    width_ns: int  # of a slice
    points: int  # moments before slicing


def queue(con: duckdb.DuckDBPyConnection, rank: int) -> Curve:
    """Tasks launched and not started, over time; `middle` is the mean over the slice's time.

    A slice holds its least and its most, also where the depth only passes through it.
    """
    begin, end, points = _extent(con, "queue_depth", rank)
    width = (end - begin) // SLICES + 1
    slices = con.execute("""
        WITH held AS (
            SELECT ts_ns, depth, lead(ts_ns, 1, $end) OVER (ORDER BY ts_ns) AS until_ns
            FROM queue_depth WHERE rank = $rank
        ), placed AS (
            SELECT
                *, unnest(range((ts_ns - $begin) // $width,
                    greatest(ts_ns - $begin, until_ns - $begin - 1) // $width + 1)) AS slice
            FROM held
        )
        SELECT
            $begin + slice * $width AS ts_ns, min(depth) AS least, max(depth) AS most,
            sum(depth * (least(until_ns, $begin + (slice + 1) * $width) - greatest(ts_ns, $begin + slice * $width)))
                / nullif(sum(least(until_ns, $begin + (slice + 1) * $width) - greatest(ts_ns, $begin + slice * $width)),
                    0) AS middle
        FROM placed GROUP BY slice ORDER BY slice
        """, {"rank": rank, "begin": begin, "end": end, "width": width}).fetchdf()  # fmt: skip
    return Curve(slices, begin, end, width, points)


def lead(con: duckdb.DuckDBPyConnection, rank: int) -> Curve:
    """How far ahead of the device the host was, over the starts of tasks; `middle` is the median of the slice."""
    begin, end, points = _extent(con, "host_lead", rank)
    width = (end - begin) // SLICES + 1
    slices = con.execute("""
        SELECT
            $begin + ((ts_ns - $begin) // $width) * $width AS ts_ns, min(lead_ns) AS least, max(lead_ns) AS most,
            quantile_disc(lead_ns, 0.5) AS middle
        FROM host_lead WHERE rank = $rank AND lead_ns IS NOT NULL GROUP BY 1 ORDER BY 1
        """, {"rank": rank, "begin": begin, "width": width}).fetchdf()  # fmt: skip
    return Curve(slices, begin, end, width, points)


def _extent(con: duckdb.DuckDBPyConnection, view: str, rank: int) -> tuple[int, int, int]:
    begin, end, points = con.execute(
        f"SELECT coalesce(min(ts_ns), 0), coalesce(max(ts_ns), 0), count(*) FROM {view} WHERE rank = ?", [rank]
    ).fetchall()[0]
    return begin, end, points


def short(con: duckdb.DuckDBPyConnection) -> pd.DataFrame:
    """Kernels that are over sooner than the host call that launched them returns, by operator type and call."""
    return con.execute(f"""
        SELECT
            coalesce(k.op_type, s.name) AS op, x.call, count(*) AS count,
            count(*) FILTER (x.dur_ns < x.call_ns) AS short,
            quantile_disc(x.dur_ns, 0.5) AS kernel_ns, quantile_disc(x.call_ns, 0.5) AS call_ns,
            coalesce(sum(x.call_ns - x.dur_ns) FILTER (x.dur_ns < x.call_ns), 0)::BIGINT AS over_ns,
            arg_max(x.span_id, x.call_ns - x.dur_ns) AS span_id, arg_max(x.rank, x.call_ns - x.dur_ns) AS rank,
            arg_max(x.ts_ns, x.call_ns - x.dur_ns) AS ts_ns, arg_max(x.dur_ns, x.call_ns - x.dur_ns) AS dur_ns
        FROM ({_SHORT}) x JOIN span s USING (span_id) LEFT JOIN kernel k USING (span_id)
        GROUP BY 1, 2 HAVING count(*) FILTER (x.dur_ns < x.call_ns) > 0 ORDER BY over_ns DESC, op, call
        LIMIT {MOST_CALLS}""").fetchdf()  # fmt: skip


_LATE = """
    WITH late AS (
        SELECT h.span_id, h.rank, h.ts_ns, h.free_ns, h.launch_ns, l.launch_id, l.name, l.dur_ns
        FROM host_lead h JOIN launch l USING (span_id) WHERE h.lead_ns < 0
    ), framework AS (
        SELECT x.span_id, arg_max(op.name, (op.ts_ns, op.span_id)) AS op
        FROM late x JOIN link l ON l.dst_span_id = x.span_id AND l.route NOT IN ('fwdbwd', 'task_queue')
        JOIN span call ON call.span_id = l.src_span_id
        JOIN span op ON op.kind = 'cpu_op'
            AND op.span_id = CASE WHEN call.kind = 'cpu_op' THEN call.span_id ELSE call.parent_id END
        GROUP BY 1
    )
    SELECT x.*, coalesce(f.op, call.name) AS op, call.name AS call
    FROM late x JOIN span call ON call.span_id = x.launch_id LEFT JOIN framework f ON f.span_id = x.span_id
    ORDER BY x.span_id
"""


@dataclass(frozen=True)
class Late:
    """Launches that came after their stream was free, and what of that the whole device idled for."""

    calls: pd.DataFrame  # op, call, count, idle_ns (union), most_ns, and span, name, rank, ts, dur of the worst task
    tasks: int
    idle_ns: int  # union of all of them, added over ranks


def late(con: duckdb.DuckDBPyConnection) -> Late:
    """Host operators whose launches came late, by what the device idled meanwhile.

    That runs from when the stream was free to the start of the launch. Time in which any other stream of the device
    worked is left out.
    """
    return _late(Run(con))


def _late(run: Run) -> Late:
    found = run.con.execute(_LATE).fetchdf()
    free, launched = (found[name].to_numpy(np.int64) for name in ("free_ns", "launch_ns"))
    idle = np.zeros(len(found), np.int64)
    for rank, rows in found.groupby("rank").indices.items():
        idle[rows] = launched[rows] - free[rows] - run.activity(int(rank)).work().within(free[rows], launched[rows])
    found["idle_ns"] = idle
    calls = []
    for (op, call), rows in found.groupby(["op", "call"]).indices.items():
        worst = found.iloc[int(rows[np.argmax(idle[rows])])]
        calls.append((
            op, call, len(rows), _idle(run, found.iloc[rows]), int(worst["idle_ns"]), int(worst["span_id"]),
            worst["name"], int(worst["rank"]), int(worst["free_ns"]), int(worst["ts_ns"] - worst["free_ns"]),
        ))  # fmt: skip
    columns = ["op", "call", "count", "idle_ns", "most_ns", "span_id", "name", "rank", "ts_ns", "dur_ns"]
    ordered = sorted((row for row in calls if row[3] > 0), key=lambda row: (-row[3], row[0], row[1]))
    return Late(pd.DataFrame(ordered[:MOST_CALLS], columns=columns), len(found), _idle(run, found))


def _idle(run: Run, rows: pd.DataFrame) -> int:
    """The time in which one of these launches was awaited and the device of its rank did nothing, added over ranks."""
    total = 0
    for rank, mine in rows.groupby("rank"):
        union = Intervals.union_of(mine["free_ns"].to_numpy(np.int64), mine["launch_ns"].to_numpy(np.int64))
        total += union.total() - int(run.activity(int(rank)).work().within(union.starts, union.ends).sum())
    return total


def syncs(con: duckdb.DuckDBPyConnection) -> pd.DataFrame:
    """Synchronising calls of the host (analysis/idle/host_names.py), by name and rank. `blocked_ns` is a union, and so
    is what of it the rank's device works for."""
    return _syncs(Run(con))


def _syncs(run: Run) -> pd.DataFrame:
    rows = []
    for rank, found in run.get(special).items():
        mine = found.of("sync_stall")
        names = dict(
            run.con.execute(
                "SELECT span_id, name FROM span WHERE list_contains($ids, span_id)", {"ids": found.ids[mine].tolist()}
            ).fetchall()
        )
        called = np.array([names.get(int(one), "") for one in found.ids[mine]], dtype=object)
        for name in sorted(set(called.tolist())):
            at = np.flatnonzero(mine)[called == name]
            union = Intervals.union_of(found.starts[at], found.ends[at])
            longest = int(at[np.argmax(found.ends[at] - found.starts[at])])
            did = run.activity(rank)
            work = did.work() if did.computing is not None else EMPTY
            rows.append((
                name, rank, len(at), union.total(), (union & work).total(), int(found.ids[longest]),
                int(found.starts[longest]), int(found.ends[longest] - found.starts[longest]),
            ))  # fmt: skip
    columns = ["name", "rank", "count", "blocked_ns", "working_ns", "span_id", "ts_ns", "dur_ns"]
    ordered = sorted(rows, key=lambda row: (-row[3], row[0], row[1]))
    return pd.DataFrame(ordered[:MOST_CALLS], columns=columns)


@dataclass(frozen=True)
class Launches:
    """Everything that no choice changes, measured at once: what is slow to derive is derived once."""

    headline: Headline
    latency: Latency
    late: Late
    short: pd.DataFrame
    syncs: pd.DataFrame


def launches(con: duckdb.DuckDBPyConnection) -> Launches:
    """The whole run."""
    run = Run(con)
    behind = _late(run)
    return Launches(_headline(run, behind), latency(con), behind, short(con), _syncs(run))
