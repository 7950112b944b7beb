"""Launches of a run: how long they take to reach the device and how many wait there. Also how far ahead the host is.

The latency of a task runs from the start of its host call to its own start. It includes waiting on the stream, so a
long latency is good while the device is busy. The lead tells the two apart: it is negative where the stream stood free
before the host had even begun to launch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import duckdb
import numpy as np
import pandas as pd

from npulens.analysis.idle.launch_costs import ORDINARY_NS
from npulens.analysis.intervals import EMPTY, Intervals, Ints, distinct
from npulens.analysis.kept import MOST_CALLS, ready

#: Slices of a curve over time; each gives its least and its most.
SLICES = 750


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


def _ready(con: duckdb.DuckDBPyConnection) -> None:
    ready(con, ("launched", "launch_pace"))


def headline(con: duckdb.DuckDBPyConnection) -> Headline:
    """The numbers of the sentence."""
    _ready(con)
    return _headline(con, late(con))


#: Work of the device; the rest of what a launch leads to is waits, notifications and tasks of an operator.
_WORK = "kind IN ('kernel', 'memset', 'memcpy', 'comm_op', 'unknown')"
#: Kernels with the host call that launched them.
_SHORT = "kind IN ('kernel', 'memset') AND launch_kind IN ('runtime', 'dequeue')"


def _headline(con: duckdb.DuckDBPyConnection, behind: Late) -> Headline:
    tasks, launched, quantiles, negative, before, led, kernels, short, ranks = con.execute(
        f"SELECT count(*) FILTER ({_WORK}), count(launch_id) FILTER ({_WORK}), "
        f"quantile_disc(latency_ns, [0.5, 0.99]) FILTER ({_WORK}), count(*) FILTER (negative AND {_WORK}), "
        f"coalesce(-min(latency_ns) FILTER (negative AND {_WORK}), 0), count(lead_ns), count(*) FILTER ({_SHORT}), "
        f"count(*) FILTER ({_SHORT} AND dur_ns < call_ns), "
        "coalesce(list(DISTINCT rank) FILTER (launch_id IS NOT NULL), []) FROM launched"
    ).fetchall()[0]
    wall = con.execute(
        "SELECT coalesce(sum(dur_ns), 0)::BIGINT FROM device_time WHERE step IS NULL AND list_contains(?, rank)",
        [ranks],
    ).fetchall()[0][0]
    pace = con.execute("SELECT ordinary_ns FROM launch_pace").fetchone()
    median, p99 = quantiles or (None, None)
    return Headline(
        tasks, launched, median, p99, negative, before, led, behind.tasks, behind.idle_ns, wall, kernels, short,
        pace[0] if pace else ORDINARY_NS, tuple(sorted(ranks)),
    )  # fmt: skip


@dataclass(frozen=True)
class Latency:
    """How long launches take, by route, kind of task and rank."""

    rows: pd.DataFrame  # route, kind, rank, count, min, median, p90, p99, max, negative
    quantiles: pd.DataFrame  # route, rank, share, latency_ns


_SHARES = [share / 50 for share in range(51)]


def latency(con: duckdb.DuckDBPyConnection) -> Latency:
    """The distribution of launch latencies. The route is the one of the launch that counts (view launch)."""
    _ready(con)
    rows = con.execute("""
        WITH told AS (
            SELECT
                route, kind, rank, count(*) AS count, min(latency_ns) AS min_ns,
                quantile_disc(latency_ns, [0.5, 0.9, 0.99]) AS q, max(latency_ns) AS max_ns,
                count(*) FILTER (negative) AS negative
            FROM launched WHERE route IS NOT NULL GROUP BY route, kind, rank
        )
        SELECT route, kind, rank, count, min_ns, q[1] AS median_ns, q[2] AS p90_ns, q[3] AS p99_ns, max_ns, negative
        FROM told ORDER BY route, kind, rank""").fetchdf()
    found = con.execute(
        f"SELECT route, rank, quantile_disc(latency_ns, {_SHARES}) FROM launched WHERE route IS NOT NULL "
        "GROUP BY route, rank ORDER BY route, rank"
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
    """Tasks launched and not started, over time (view queue_depth); `middle` is the mean over the slice's time.

    A slice holds its least and its most, also where the depth only passes through it.
    """
    _ready(con)
    found = con.execute(
        "SELECT least(launch_ns, ts_ns) AS launch_ns, ts_ns FROM launched WHERE rank = ? AND launch_id IS NOT NULL",
        [rank],
    ).fetchnumpy()
    launches, starts = (np.sort(np.ma.getdata(found[name]).astype(np.int64)) for name in ("launch_ns", "ts_ns"))
    moments = distinct(np.concatenate((launches, starts)))
    if not len(moments):
        return Curve(pd.DataFrame({name: [] for name in ("ts_ns", "least", "most", "middle")}), 0, 0, 1, 0)
    depth = np.searchsorted(launches, moments, "right") - np.searchsorted(starts, moments, "right")
    begin, end = int(moments[0]), int(moments[-1])
    width = (end - begin) // SLICES + 1
    edges = begin + np.arange((end - begin) // width + 1, dtype=np.int64) * width
    first, beyond = np.searchsorted(moments, edges), np.searchsorted(moments, edges + width)
    # What holds before the first moment of a slice holds in it too, unless that moment begins the slice.
    held = first - (moments[np.minimum(first, len(moments) - 1)] != edges)
    pairs, padded = np.stack((held, beyond), axis=1).ravel(), np.append(depth, 0)
    passed = np.concatenate(([0], np.cumsum(depth[:-1] * np.diff(moments))))

    def until(at: Ints) -> Ints:
        """The depth times how long it held, added up to some moments."""
        before = np.searchsorted(moments, at, "right") - 1
        added: Ints = passed[before] + depth[before] * (at - moments[before])
        return added

    ends = np.minimum(edges + width, end)
    with np.errstate(invalid="ignore"):
        middle = (until(ends) - until(edges)) / np.where(ends > edges, ends - edges, np.nan)
    slices = pd.DataFrame({
        "ts_ns": edges, "least": np.minimum.reduceat(padded, pairs)[::2],
        "most": np.maximum.reduceat(padded, pairs)[::2], "middle": middle,
    })  # fmt: skip
    return Curve(slices, begin, end, width, len(moments))


def lead(con: duckdb.DuckDBPyConnection, rank: int) -> Curve:
    """How far ahead of the device the host was, over the starts of tasks; `middle` is the median of the slice."""
    _ready(con)
    begin, end, points = con.execute(
        "SELECT coalesce(min(ts_ns), 0), coalesce(max(ts_ns), 0), count(*) FROM launched "
        "WHERE rank = ? AND launch_id IS NOT NULL", [rank],
    ).fetchall()[0]  # fmt: skip
    width = (end - begin) // SLICES + 1
    slices = con.execute("""
        SELECT
            $begin + ((ts_ns - $begin) // $width) * $width AS ts_ns, min(lead_ns) AS least, max(lead_ns) AS most,
            quantile_disc(lead_ns, 0.5) AS middle
        FROM launched WHERE rank = $rank AND lead_ns IS NOT NULL GROUP BY 1 ORDER BY 1
        """, {"rank": rank, "begin": begin, "width": width}).fetchdf()  # fmt: skip
    return Curve(slices, begin, end, width, points)


def short(con: duckdb.DuckDBPyConnection) -> pd.DataFrame:
    """Kernels that are over sooner than the host call that launched them returns, by operator type and call."""
    _ready(con)
    return con.execute(f"""
        WITH mine AS (SELECT *, call_ns - dur_ns AS more_ns FROM launched WHERE {_SHORT}), told AS (
            SELECT
                op, call, count(*) AS count, count(*) FILTER (more_ns > 0) AS short,
                quantile_disc(dur_ns, 0.5) AS kernel_ns, quantile_disc(call_ns, 0.5) AS call_ns,
                coalesce(sum(more_ns) FILTER (more_ns > 0), 0)::BIGINT AS over_ns, max(more_ns) AS most_ns
            FROM mine GROUP BY op, call HAVING count(*) FILTER (more_ns > 0) > 0
            ORDER BY over_ns DESC, op, call LIMIT {MOST_CALLS}
        ), worst AS (
            SELECT
                mine.op, mine.call, min(span_id) AS span_id, arg_min(rank, span_id) AS rank,
                arg_min(ts_ns, span_id) AS ts_ns, arg_min(dur_ns, span_id) AS dur_ns
            FROM mine JOIN told ON told.op = mine.op AND told.call = mine.call AND told.most_ns = mine.more_ns
            GROUP BY mine.op, mine.call
        )
        SELECT told.* EXCLUDE (most_ns), worst.span_id, worst.rank, worst.ts_ns, worst.dur_ns
        FROM told JOIN worst ON worst.op = told.op AND worst.call = told.call
        ORDER BY over_ns DESC, told.op, told.call""").fetchdf()


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
    _ready(con)
    return _late(con, _works(con))


#: Launches that came late, each with the number of its operator and call.
_LATE = """
    WITH late AS (SELECT * FROM launched WHERE lead_ns < 0), named AS (
        SELECT operator, call, row_number() OVER (ORDER BY operator, call) - 1 AS number
        FROM (SELECT DISTINCT operator, call FROM late)
    )
    SELECT rank, span_id, ts_ns, free_ns, launch_ns, number FROM late JOIN named USING (operator, call)
    ORDER BY span_id
"""
_CALLS = "SELECT DISTINCT operator, call FROM launched WHERE lead_ns < 0 ORDER BY operator, call"


def _works(con: duckdb.DuckDBPyConnection) -> dict[int, Intervals]:
    """rank -> when anything runs on its device; ranks without work are left out."""
    found = con.execute(f"SELECT rank, ts_ns, ts_ns + dur_ns AS end_ns FROM span WHERE {_WORK}").fetchnumpy()
    rank, begins, ends = (np.ma.getdata(found[name]).astype(np.int64) for name in ("rank", "ts_ns", "end_ns"))
    return {one: Intervals.union_of(begins[rows], ends[rows]) for one, rows in _by_rank(rank)}


def _by_rank(rank: Ints) -> Iterator[tuple[int, Ints]]:
    """Every rank with its rows."""
    order = np.argsort(rank, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(rank[order])) + 1) if len(order) else ():
        yield int(rank[rows[0]]), rows


def _late(con: duckdb.DuckDBPyConnection, works: Mapping[int, Intervals]) -> Late:
    found = con.execute(_LATE).fetchnumpy()
    rank, span_id, start, free, launched, number = (np.ma.getdata(found[name]).astype(np.int64) for name in (
        "rank", "span_id", "ts_ns", "free_ns", "launch_ns", "number",
    ))  # fmt: skip
    names = con.execute(_CALLS).fetchall()
    alone, together, whole = np.zeros(len(rank), np.int64), np.zeros(len(names), np.int64), 0
    for one, rows in _by_rank(rank):
        work = works.get(one, EMPTY)
        alone[rows] = launched[rows] - free[rows] - work.within(free[rows], launched[rows])
        together += _united(number[rows], free[rows], launched[rows], work, len(names))
        whole += int(_united(np.zeros(len(rows), np.int64), free[rows], launched[rows], work, 1)[0])
    order = np.lexsort((span_id, -alone, number))
    worst = order[np.flatnonzero(np.diff(number[order], prepend=-1))]
    count = np.bincount(number, minlength=len(names))
    shown = sorted(np.flatnonzero(together > 0).tolist(), key=lambda at: (-int(together[at]), at))[:MOST_CALLS]
    texts = dict(con.execute(
        "SELECT span_id, name FROM launched SEMI JOIN (SELECT unnest($ids) AS span_id) USING (span_id)",
        {"ids": span_id[worst[shown]].tolist()},
    ).fetchall())  # fmt: skip
    calls = [
        (
            *names[at], int(count[at]), int(together[at]), int(alone[row]), int(span_id[row]), texts[int(span_id[row])],
            int(rank[row]), int(free[row]), int(start[row] - free[row]),
        )
        for at, row in ((at, worst[at]) for at in shown)
    ]  # fmt: skip
    columns = ["op", "call", "count", "idle_ns", "most_ns", "span_id", "name", "rank", "ts_ns", "dur_ns"]
    return Late(pd.DataFrame(calls, columns=columns), len(rank), whole)


def _united(number: Ints, begins: Ints, ends: Ints, work: Intervals, count: int) -> Ints:
    """Per number the time that its intervals cover together and nothing works in."""
    # Each number's intervals are moved to a stretch of their own, so that one union is all of them.
    base, length = int(begins.min()), int(ends.max() - begins.min()) + 1
    union = Intervals.union_of(begins - base + number * length, ends - base + number * length)
    of = union.starts // length
    starts = union.starts - of * length + base
    total: Ints = np.zeros(count, np.int64)
    np.add.at(total, of, union.ends - union.starts - work.within(starts, starts + (union.ends - union.starts)))
    return total


def syncs(con: duckdb.DuckDBPyConnection) -> pd.DataFrame:
    """Synchronising calls of the host (analysis/idle/host_names.py), by name and rank. `blocked_ns` is a union, and so
    is what of it the rank's device works for."""
    ready(con, ("sync_call",))
    return con.execute("SELECT * FROM sync_call").fetchdf()


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
    _ready(con)
    behind = _late(con, _works(con))
    return Launches(_headline(con, behind), latency(con), behind, short(con), syncs(con))
