"""Kernels of a run in groups of their likes: how often, how long, what share of the device's busy time.

Shares are unions: kernels of one group that run at the same moment count once. `total_ns` adds lengths and says so in
its name; it is what one core stream after the other would have taken.

Kernels are grouped at three levels: by type (operator type and core), by shape (and shapes and element types) and by
name. A CUDA or ROCm profiler gives kernels no shapes; there the operator that launched them says them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from npulens.analysis.intervals import Ints, bare
from npulens.analysis.kept import LEVELS, ready
from npulens.analysis.selection.pane import panes_of

#: Groups a table holds, and sequences; the rest is counted.
MOST_GROUPS, MOST_SEQUENCES = 1000, 300


@dataclass(frozen=True)
class Filter:
    """Which kernels are meant; nothing given means all."""

    ranks: tuple[int, ...] = ()
    step: int | None = None
    cores: tuple[str, ...] = ()
    text: str = ""


@dataclass(frozen=True)
class Choices:
    """What a filter can be set to."""

    ranks: tuple[int, ...]
    steps: tuple[int, ...]
    cores: tuple[str, ...]
    shaped: bool  # some kernel has shapes
    typed: bool  # some kernel has an operator type


@dataclass(frozen=True)
class Table:
    """Groups, the longest busy first, and what they are parts of."""

    groups: pd.DataFrame  # host_op: the operator that launches most of them, where kernels have no type of their own
    count: int  # of groups, also those that the table leaves out
    kernels: int
    ranks: int  # ranks that have some
    computing_ns: int  # union over the kernels that are meant, added over ranks
    busy_ns: int | None  # union over everything these ranks' devices did; None: kernels were not recorded
    wall_ns: int  # their windows, added


def chosen_sql(con: duckdb.DuckDBPyConnection, level: str) -> str:
    """The kernels that a filter means, each with its group's key; `starts` tells those that start in the step."""
    ready(con, ("kernel_task",))
    begins = "ts_ns >= from_ns AND ts_ns < to_ns" if panes_of(con) else "true"
    return f"""
        pane AS (
            SELECT rank, ts_ns AS from_ns, ts_ns + dur_ns AS to_ns
            FROM device_time WHERE step IS NOT DISTINCT FROM $step AND dur_ns IS NOT NULL
        ), chosen AS (
            SELECT
                task.*, key_{level} AS key, greatest(ts_ns, from_ns) AS begin_ns,
                least(end_ns, to_ns) AS stop_ns,
                ({begins}) AND ($step IS NULL OR task.step IS NOT DISTINCT FROM $step) AS starts
            FROM kernel_task task JOIN pane USING (rank)
            WHERE (len($ranks::INTEGER[]) = 0 OR list_contains($ranks::INTEGER[], rank))
                AND (len($cores::VARCHAR[]) = 0 OR list_contains($cores::VARCHAR[], coalesce(core, '')))
                AND ($text = '' OR contains(
                    lower(concat_ws(' ', op, name, host_op, input_shapes, input_dtypes)), lower($text)))
                AND (starts OR (ts_ns < to_ns AND end_ns > from_ns))
        )"""


def values(what: Filter) -> dict[str, Any]:
    """The filter as a query's parameters."""
    return {"ranks": list(what.ranks), "step": what.step, "cores": list(what.cores), "text": what.text.strip()}


def choices(con: duckdb.DuckDBPyConnection) -> Choices:
    """The ranks, steps and cores there are."""
    ranks = con.execute("SELECT DISTINCT rank FROM span WHERE kind IN ('kernel', 'memset') ORDER BY 1").fetchall()
    steps = con.execute("SELECT DISTINCT step FROM step ORDER BY 1").fetchall()
    cores = con.execute("SELECT DISTINCT core FROM kernel WHERE core IS NOT NULL ORDER BY 1").fetchall()
    shaped, typed = con.execute(
        "SELECT EXISTS (FROM kernel WHERE input_shapes IS NOT NULL) OR EXISTS "
        "(FROM host_op WHERE input_shapes IS NOT NULL), EXISTS (FROM kernel WHERE op_type IS NOT NULL)"
    ).fetchall()[0]
    there = [tuple(value for (value,) in rows) for rows in (ranks, steps, cores)]
    return Choices(there[0], there[1], there[2], shaped, typed)


def _union_sql(by: str) -> str:
    """What each kernel adds to those of its rank (and group) that began before it, added."""
    return f"""
        SELECT {by}, sum(greatest(0, stop_ns - greatest(begin_ns, coalesce(reach_ns, begin_ns))))::BIGINT AS union_ns
        FROM (
            SELECT rank, key, begin_ns, stop_ns, max(stop_ns) OVER (
                PARTITION BY rank, {by} ORDER BY begin_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS reach_ns
            FROM chosen WHERE stop_ns > begin_ns
        ) GROUP BY {by}"""


def table(con: duckdb.DuckDBPyConnection, level: str, what: Filter) -> Table:
    """The groups of a level. Counts and quantiles are of kernels that start in the step, times of what runs in it."""
    columns = ", ".join(LEVELS[level])
    groups = con.execute(f"""
        WITH {chosen_sql(con, level)}, counted AS (
            SELECT
                key, {columns}, count(*) AS count, count(DISTINCT rank) AS ranks, sum(dur_ns)::BIGINT AS total_ns,
                (sum(dur_ns) // count(*))::BIGINT AS mean_ns, min(dur_ns) AS min_ns,
                quantile_disc(dur_ns, [0.5, 0.9, 0.99]) AS quantiles, max(dur_ns) AS max_ns, mode(host_op) AS host_op
            FROM chosen WHERE starts GROUP BY key, {columns}
        )
        SELECT
            counted.* EXCLUDE (quantiles), quantiles[1] AS median_ns, quantiles[2] AS p90_ns, quantiles[3] AS p99_ns,
            coalesce(union_ns, 0) AS busy_ns, count(*) OVER () AS groups, sum(count) OVER () AS kernels
        FROM counted LEFT JOIN ({_union_sql("key")}) USING (key) ORDER BY busy_ns DESC, total_ns DESC, key
        LIMIT {MOST_GROUPS}""", values(what)).fetchdf()  # fmt: skip
    rows = con.execute(
        f"WITH {chosen_sql(con, level)} {_union_sql('rank')}", values(what)
    ).fetchall()  # fmt: skip
    having = tuple(sorted(rank for rank, _ in rows))
    busy, wall = _busy(con, what.step, having)
    count, of = (int(groups[name].iloc[0]) if len(groups) else 0 for name in ("groups", "kernels"))
    groups["share"] = groups["busy_ns"] / busy if busy else np.nan
    computing = sum(ns for _, ns in rows)
    return Table(groups.drop(columns=["groups", "kernels"]), count, of, len(having), computing, busy, wall)


def _busy(con: duckdb.DuckDBPyConnection, step: int | None, ranks: tuple[int, ...]) -> tuple[int | None, int]:
    """How long the devices of some ranks are busy in a step, and its length: added over ranks."""
    asked = {"step": step, "ranks": list(ranks)}
    where = "step IS NOT DISTINCT FROM $step AND list_contains($ranks::INTEGER[], rank)"
    known, busy, wall = con.execute(
        "SELECT count(idle_ns) = count(*), sum(dur_ns - idle_ns)::BIGINT, coalesce(sum(dur_ns), 0)::BIGINT "
        f"FROM device_time WHERE {where}", asked,
    ).fetchall()[0]  # fmt: skip
    if known:
        return busy, wall
    # Idle time is not known where some work was not recorded. What was still keeps the device busy.
    busy, wall = con.execute(
        "SELECT CASE WHEN count(busy_ns) = count(*) THEN sum(busy_ns)::BIGINT END, coalesce(sum(dur_ns), 0)::BIGINT "
        f"FROM device_busy WHERE track IS NULL AND {where}", asked,
    ).fetchall()[0]  # fmt: skip
    return busy, wall


@dataclass(frozen=True)
class Durations:
    """How long the kernels of one group take, rank by rank."""

    ranks: pd.DataFrame  # rank, count, total, mean, min, median, p90, p99, max
    quantiles: pd.DataFrame  # rank, share (0..1), dur_ns
    bins: pd.DataFrame  # rank, from_ns, to_ns, count
    logarithmic: bool  # the bins grow


#: Bins of a histogram; from a longest that is so many times the shortest on they grow with the length.
_BINS, _WIDE = 48, 30
_SHARES = [share / 100 for share in range(101)]


def durations(con: duckdb.DuckDBPyConnection, level: str, key: int, what: Filter) -> Durations:
    """The distribution of one group's durations."""
    given = {**values(what), "key": key}
    mine = f"WITH {chosen_sql(con, level)}, mine AS (SELECT rank, dur_ns FROM chosen WHERE starts AND key = $key)"
    found = con.execute(
        f"{mine} SELECT rank, count(*) AS count, sum(dur_ns)::BIGINT AS total_ns, (sum(dur_ns) // count(*))::BIGINT "
        f"AS mean_ns, min(dur_ns) AS min_ns, quantile_disc(dur_ns, {_SHARES}) AS quantiles, max(dur_ns) AS max_ns "
        "FROM mine GROUP BY rank ORDER BY rank", given,
    ).fetchall()  # fmt: skip
    ranks = pd.DataFrame(
        [(rank, n, total, mean, least, q[50], q[90], q[99], most) for rank, n, total, mean, least, q, most in found],
        columns=["rank", "count", "total_ns", "mean_ns", "min_ns", "median_ns", "p90_ns", "p99_ns", "max_ns"],
    )
    quantiles = pd.DataFrame(
        [(rank, n / 100, value) for rank, _, _, _, _, q, _ in found for n, value in enumerate(q)],
        columns=["rank", "share", "dur_ns"],
    )
    least, most = (int(ranks["min_ns"].min()), int(ranks["max_ns"].max())) if len(ranks) else (0, 0)
    wide = most > _WIDE * max(least, 1)
    edges = bin_edges(least, most, wide)
    every = con.execute(f"{mine} SELECT rank, dur_ns FROM mine", given).fetchdf()
    every["bin"] = np.searchsorted(edges, every["dur_ns"].to_numpy(np.int64), side="right") - 1
    counted = every.groupby(["rank", "bin"]).size().items()
    bins = pd.DataFrame(
        [(rank, edges[at], edges[at + 1], count) for (rank, at), count in counted],
        columns=["rank", "from_ns", "to_ns", "count"],
    )
    return Durations(ranks, quantiles, bins, wide)


def bin_edges(least: int, most: int, wide: bool) -> list[int]:
    """Whole, rising edges from the shortest to beyond the longest; a bin holds its lower edge and not its upper."""
    low, high = (max(least, 1), max(most, 1) + 1) if wide else (least, most + 1)
    spaced = np.geomspace(low, high, _BINS + 1) if wide else np.linspace(low, high, _BINS + 1)
    whole = np.unique(np.floor(spaced).astype(np.int64))
    whole[0], whole[-1] = min(least, whole[0]), high
    return [int(edge) for edge in whole]


_ORDERS = {"longest": "dur_ns DESC, span_id", "first": "ts_ns, span_id"}


def instances(
    con: duckdb.DuckDBPyConnection, level: str, key: int, what: Filter, order: str, page: int, size: int
) -> pd.DataFrame:
    """One page (from 0) of the kernels of a group, one by one."""
    return con.execute(f"""
        WITH {chosen_sql(con, level)}
        SELECT c.span_id, c.rank, c.step, t.name AS track, c.ts_ns, c.dur_ns, c.block_num, c.name
        FROM chosen c LEFT JOIN track t ON t.track = c.track WHERE c.starts AND c.key = $key
        ORDER BY {_ORDERS[order]} LIMIT $size OFFSET $skip
        """, {**values(what), "key": key, "size": size, "skip": page * size}).fetchdf()  # fmt: skip


def slow(con: duckdb.DuckDBPyConnection) -> pd.DataFrame:
    """Kernels that are outliers among their likes by the usual bounds, with the key of their group at every level."""
    ready(con, ("slow_kernel",))
    return con.execute("SELECT * FROM slow_kernel").fetchdf()


def sequences(con: duckdb.DuckDBPyConnection, ranks: tuple[int, ...], text: str, order: str) -> pd.DataFrame:
    """Which kernels follow each other (view kernel_sequence), ranks together, with the earliest place of the rank that
    has most. `order` is what to sort by: gap_ns, total_ns or count."""
    found = con.execute(f"""
        WITH alike AS (
            SELECT
                ops, sum(count)::BIGINT AS count, sum(total_ns)::BIGINT AS total_ns, sum(gap_ns)::BIGINT AS gap_ns,
                arg_max(median_gap_ns, (count, -rank)) AS median_gap_ns, arg_max(first_id, (count, -rank)) AS first_id
            FROM kernel_sequence
            WHERE (len($ranks::INTEGER[]) = 0 OR list_contains($ranks::INTEGER[], rank))
                AND ($text = '' OR contains(lower(array_to_string(ops, ' ')), lower($text)))
            GROUP BY ops
        )
        SELECT array_to_string(ops, ' → ') AS ops, len(ops) AS length, count, total_ns, gap_ns, median_gap_ns,
            first_id AS span_id, s.rank, s.ts_ns, s.dur_ns
        FROM alike JOIN span s ON s.span_id = first_id ORDER BY {_SORTS[order]} DESC, first_id, length
        LIMIT {MOST_SEQUENCES}""", {"ranks": list(ranks), "text": text.strip()}).fetchdf()  # fmt: skip
    return found


_SORTS = {"gap": "gap_ns", "total": "total_ns", "count": "count"}


def members(con: duckdb.DuckDBPyConnection, level: str, what: Filter) -> tuple[Ints, NDArray[np.uint64]]:
    """The kernels that a filter means (span_id), and the group (key) of each."""
    told = con.execute(f"WITH {chosen_sql(con, level)} SELECT span_id, key FROM chosen WHERE starts", values(what))
    columns = {name: bare(column) for name, column in told.fetchnumpy().items()}
    return columns["span_id"].astype(np.int64), columns["key"].astype(np.uint64)
