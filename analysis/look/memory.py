"""Device memory as its page shows it: the curve of each pool, what holds the peak, growth over steps, big blocks.

A curve is thinned in SQL. Of every slice of time the first, the last, the lowest and the highest state stay. So no peak
is lost and what is drawn between two slices is what was there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import duckdb
import pandas as pd

from npulens.analysis.selection.pane import panes_of

#: A pool that this project makes itself of allocations and releases, where no pool was sampled.
EVENTS = ""
_SLICES = 250  # six states a slice at most: 1,500 points

#: The state of one pool over time. Of a rank's pools of one name on several streams each reports the whole pool.
_STATES = """
SELECT ts_ns, allocated_bytes, reserved_bytes, active_bytes FROM memory_sample
WHERE rank = $rank AND component = $pool
"""
#: Made of single events: where the pool's totals stand beside them, those, else the running sum from 0.
_EVENT_STATES = """
SELECT ts_ns, CASE WHEN count(told) OVER () > 0 THEN told ELSE sum(change) OVER (ORDER BY ts_ns, change
    ROWS UNBOUNDED PRECEDING) END::BIGINT AS allocated_bytes, reserved_bytes, active_bytes
FROM (
    SELECT ts_ns, bytes AS change, allocated_bytes AS told, reserved_bytes, active_bytes FROM memory_event
    WHERE rank = $rank AND ts_ns IS NOT NULL AND coalesce(device, '') NOT ILIKE 'cpu%'
    UNION ALL
    SELECT ts_ns + dur_ns, -bytes, release_allocated_bytes, release_reserved_bytes, release_active_bytes
    FROM memory_event WHERE rank = $rank AND dur_ns IS NOT NULL AND coalesce(device, '') NOT ILIKE 'cpu%'
) WHERE $pool = '' AND (told IS NOT NULL OR NOT EXISTS (SELECT 1 FROM memory_event WHERE rank = $rank
    AND allocated_bytes IS NOT NULL))
"""


@dataclass(frozen=True)
class Pool:
    """One pool of one rank; sizes in bytes, None: not recorded."""

    rank: int
    name: str  # EVENTS: made of allocations and releases
    samples: int
    allocated: int | None  # the most of all
    reserved: int | None
    first_ns: int
    last_ns: int
    relative: bool = False  # counted from 0 at the first event: what was there before is not known


@dataclass(frozen=True)
class Peak:
    """The moment at which a pool holds most."""

    ts_ns: int
    allocated: int | None
    reserved: int | None
    most_unused: int | None  # the most that was reserved and not allocated, at any moment
    most_unused_ns: int | None


def pools(con: duckdb.DuckDBPyConnection) -> tuple[Pool, ...]:
    """Every pool that ever held something, the largest first; pools that stay empty are left out."""
    rows = con.execute(
        "SELECT rank, component, count(*), max(allocated_bytes) AS allocated, max(reserved_bytes) AS reserved, "
        "min(ts_ns), max(ts_ns) FROM memory_sample GROUP BY rank, component "
        "HAVING greatest(coalesce(allocated, 0), coalesce(reserved, 0)) > 0 "
        "ORDER BY rank, allocated IS NULL, component LIKE '%+%', greatest(allocated, reserved) DESC, component"
    ).fetchall()
    found = [Pool(*row) for row in rows]
    sampled = {pool.rank for pool in found if pool.allocated is not None}
    for (rank,) in con.execute("SELECT DISTINCT rank FROM memory_event ORDER BY rank").fetchall():
        if rank in sampled:
            continue
        states = con.execute(f"WITH state AS ({_states(con, rank, EVENTS)}) SELECT count(*), max(allocated_bytes), "
                             "max(reserved_bytes), min(ts_ns), max(ts_ns) FROM state",
                             {"rank": rank, "pool": EVENTS}).fetchone()  # fmt: skip
        told = con.execute("SELECT count(allocated_bytes) FROM memory_event WHERE rank = ?", [rank]).fetchone()
        if states is not None and states[0]:
            found.append(replace(Pool(rank, EVENTS, *states), relative=not (told and told[0])))
    return tuple(found)


def _states(con: duckdb.DuckDBPyConnection, rank: int, pool: str) -> str:
    """The states of a pool; of a selection those in its pane. Events are added up from the first one on."""
    every = _EVENT_STATES if pool == EVENTS else _STATES + " AND $pool <> ''"
    pane = panes_of(con).get(rank)
    return every if pane is None else (
        f"SELECT * FROM ({every}) WHERE ts_ns BETWEEN {int(pane.starts[0])} AND {int(pane.ends[0])}"
    )  # fmt: skip


def curve(con: duckdb.DuckDBPyConnection, rank: int, pool: str) -> pd.DataFrame:
    """ts_ns, allocated_bytes, reserved_bytes, active_bytes: at most 1,500 states."""
    return con.execute(
        f"WITH state AS ({_states(con, rank, pool)}), placed AS (SELECT *, "
        "row_number() OVER (ORDER BY ts_ns) AS place, "
        "(ts_ns - min(ts_ns) OVER ()) * $slices // (max(ts_ns) OVER () - min(ts_ns) OVER () + 1) AS slice FROM state), "
        "kept AS (SELECT unnest([min(place), max(place), arg_min(place, allocated_bytes), "
        "arg_max(place, allocated_bytes), arg_min(place, reserved_bytes), arg_max(place, reserved_bytes)]) AS place "
        "FROM placed GROUP BY slice) "
        "SELECT ts_ns, allocated_bytes, reserved_bytes, active_bytes FROM placed "
        "WHERE place IN (SELECT place FROM kept WHERE place IS NOT NULL) ORDER BY place",
        {"rank": rank, "pool": pool, "slices": _SLICES},
    ).df()


def peak(con: duckdb.DuckDBPyConnection, rank: int, pool: str) -> Peak | None:
    """When the pool holds most, how much of what it reserved is unused then, and the most that ever is."""
    row = con.execute(
        f"WITH state AS ({_states(con, rank, pool)}) SELECT arg_max(ts_ns, coalesce(allocated_bytes, reserved_bytes)), "
        "max(allocated_bytes), arg_max(reserved_bytes, coalesce(allocated_bytes, reserved_bytes)), "
        "max(reserved_bytes - allocated_bytes), arg_max(ts_ns, reserved_bytes - allocated_bytes) FROM state",
        {"rank": rank, "pool": pool},
    ).fetchone()
    return None if row is None or row[0] is None else Peak(*row)


def holders(con: duckdb.DuckDBPyConnection, rank: int, at_ns: int) -> pd.DataFrame:
    """name, blocks, bytes: what is alive at a moment, allocated before it and not released yet, by operator.

    Empty where releases were recorded on their own: nothing says then which allocation they end.
    """
    return con.execute(
        "SELECT name, count(*) AS blocks, sum(bytes)::BIGINT AS bytes FROM memory_event "
        "WHERE rank = ? AND ts_ns <= ? AND (dur_ns IS NULL OR ts_ns + dur_ns > ?) AND bytes > 0 "
        "AND coalesce(device, '') NOT ILIKE 'cpu%' "
        "AND NOT EXISTS (SELECT 1 FROM memory_event WHERE rank = ? AND bytes < 0) "
        "GROUP BY name ORDER BY bytes DESC, name", [rank, at_ns, at_ns, rank],
    ).df()  # fmt: skip


def growth(con: duckdb.DuckDBPyConnection, rank: int, pool: str) -> pd.DataFrame:
    """step, end_bytes, peak_bytes, low_bytes: the pool in each step of the rank, as last known at its end."""
    return con.execute(
        f"WITH state AS ({_states(con, rank, pool)}), kept AS (SELECT ts_ns, "
        "coalesce(allocated_bytes, reserved_bytes) AS bytes "
        "FROM state) SELECT s.step, arg_max(k.bytes, k.ts_ns) AS end_bytes, max(k.bytes) AS peak_bytes, "
        "min(k.bytes) AS low_bytes FROM step s LEFT JOIN kept k ON k.ts_ns >= s.ts_ns AND k.ts_ns < s.ts_ns + s.dur_ns "
        "WHERE s.rank = $rank GROUP BY s.step, s.ts_ns ORDER BY s.ts_ns",
        {"rank": rank, "pool": pool},
    ).df()


@dataclass(frozen=True)
class Trend:
    """How the level at the end of a step moves over the steps that were sampled."""

    first: int
    last: int
    steps: int  # from the first to the last
    per_step: float  # slope of the straight line that fits best, in bytes


def trend(rows: pd.DataFrame) -> Trend | None:
    """The trend of `growth`; None with fewer than two steps."""
    held = rows["end_bytes"].dropna().astype(float)
    if len(held) < 2:
        return None
    at = pd.Series(range(len(held)), index=held.index, dtype=float)
    away = at - at.mean()
    slope = float((away * (held - held.mean())).sum() / (away**2).sum())
    return Trend(int(held.iloc[0]), int(held.iloc[-1]), len(held) - 1, slope)


def marks(con: duckdb.DuckDBPyConnection, rank: int) -> tuple[tuple[int, int], ...]:
    """(step, start) of the rank's recorded steps."""
    rows = con.execute("SELECT step, ts_ns FROM step WHERE rank = ? ORDER BY ts_ns", [rank]).fetchall()
    return tuple((step, at) for step, at in rows)


def largest(con: duckdb.DuckDBPyConnection, rank: int, most: int) -> pd.DataFrame:
    """name, bytes, ts_ns, dur_ns, allocated_bytes: the largest blocks; NULL: before the capture, or not released."""
    pane = panes_of(con).get(rank)
    alive = "" if pane is None else (
        f"AND coalesce(ts_ns, 0) < {int(pane.ends[0])} AND (dur_ns IS NULL OR ts_ns + dur_ns > {int(pane.starts[0])}) "
    )  # fmt: skip
    return con.execute(
        "SELECT name, bytes, ts_ns, dur_ns, allocated_bytes, reserved_bytes FROM memory_event "
        f"WHERE rank = ? AND bytes > 0 AND coalesce(device, '') NOT ILIKE 'cpu%' {alive}"
        "ORDER BY bytes DESC, ts_ns, name LIMIT ?", [rank, most],
    ).df()  # fmt: skip
