"""Counters over time: what was sampled, how low, how high and on average, and the curves to draw.

A curve is thinned in SQL: of every slice of time the first, the last, the lowest and the highest sample stay. A sample
holds until the next one, and so does the mean: it weighs each by the time until the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
import pandas as pd

from npulens.analysis.device.abilities import device
from npulens.analysis.device.frequency import clocked
from npulens.analysis.device.kernels import kernels
from npulens.analysis.device.strip import Strip, strip
from npulens.analysis.run import Run

_SLICES = 375  # four samples a slice at most: 1,500 points

#: Counters that differ only in numbers - HBM 0 and HBM 1, one per die or channel - are one family.
_FAMILY = "regexp_replace(counter, '[0-9]+', '#', 'g')"


@dataclass(frozen=True)
class Clock:
    """The AI Core clock of one rank against its rating."""

    rank: int
    rated_mhz: float | None
    kernels: int  # kernels that ran below the rating and that the clock slowed
    lost_ns: int  # what they would be shorter at the rating, added


def series(con: duckdb.DuckDBPyConnection) -> pd.DataFrame:
    """rank, family, counter, series, samples, first_ns, last_ns, low, mean, high: one row a rank and series."""
    return con.execute(
        "WITH held AS (SELECT *, lead(ts_ns) OVER (PARTITION BY rank, counter, series ORDER BY ts_ns) - ts_ns "
        f"AS for_ns FROM sample) SELECT rank, {_FAMILY} AS family, counter, series, count(*) AS samples, "
        "min(ts_ns) AS first_ns, max(ts_ns) AS last_ns, min(value) AS low, "
        "coalesce(sum(value * for_ns) / nullif(sum(for_ns), 0), avg(value)) AS mean, max(value) AS high "
        "FROM held GROUP BY ALL ORDER BY rank, family, series, counter"
    ).df()


def points(
    con: duckdb.DuckDBPyConnection, rank: int, names: Sequence[tuple[str, str]], begin: int, end: int
) -> pd.DataFrame:
    """counter, series, ts_ns, value of some series of a rank between two moments: at most 1,500 each."""
    return con.execute(
        "WITH named AS (SELECT counter, series, ts_ns, value, row_number() OVER (PARTITION BY counter, series "
        "ORDER BY ts_ns, value) AS place FROM sample WHERE rank = $rank AND ts_ns BETWEEN $begin AND $end "
        "AND list_contains($names, counter || chr(0) || series)), "
        "kept AS (SELECT counter, series, unnest([min(place), max(place), arg_min(place, value), "
        "arg_max(place, value)]) AS place "
        "FROM named GROUP BY counter, series, (ts_ns - $begin) * $slices // ($end - $begin + 1)) "
        "SELECT counter, series, ts_ns, value FROM named SEMI JOIN kept USING (counter, series, place) "
        "ORDER BY counter, series, place",
        {"rank": rank, "begin": begin, "end": end, "slices": _SLICES,
         "names": [f"{counter}\0{one}" for counter, one in names]},
    ).df()  # fmt: skip


def busy(con: duckdb.DuckDBPyConnection, rank: int, begin: int, end: int) -> Strip:
    """How busy the rank's device was meanwhile, slice by slice."""
    return strip(Run.of(con), rank, begin, end, 480)


def clocks(con: duckdb.DuckDBPyConnection) -> tuple[Clock, ...]:
    """What a clock below its rating cost the kernels of each rank that recorded it."""
    rows = con.execute("SELECT DISTINCT rank FROM sample WHERE counter ILIKE '%core freq%' ORDER BY rank").fetchall()
    if not rows:
        return ()
    run = Run.of(con)
    every, found = run.get(kernels), run.get(clocked)
    told = []
    for (rank,) in rows:
        here = device(run, rank)
        mine = (every.rank == rank) & (found.share < 1)
        rated = float(here.clock_mhz) if here is not None and here.clock_mhz else None
        told.append(Clock(rank, rated, int(np.count_nonzero(mine)), int(found.cut[mine].sum())))
    return tuple(told)
