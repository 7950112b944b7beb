"""When a profiler's own export stopped the engine, and whom that hurt.

A profiler writes its trace when its window ends, and the engine waits for that. So the stop lies directly behind the
last iteration that a trace holds. Without a trace a stop is told as any other.
"""

from __future__ import annotations

import duckdb

#: So long, and so many times a usual iteration, is no iteration.
_LEAST_NS, _TIMES = 200_000_000, 20

_BEHIND = """
WITH timed AS (
    SELECT coalesce(rank, -1) AS rank, step, ts_ns, ts_ns + coalesce(dur_ns, 0) AS end_ns, dur_ns,
        lead(ts_ns) OVER later AS next_ts, lead(ts_ns + coalesce(dur_ns, 0)) OVER later AS next_end,
        lead(step) OVER later AS next_step
    FROM iteration WHERE ts_ns IS NOT NULL WINDOW later AS (ORDER BY ts_ns, iteration)
), usual AS (SELECT median(dur_ns) AS dur_ns FROM iteration WHERE ts_ns IS NOT NULL
), found AS (
    SELECT t.end_ns AS begin_ns,
        -- the stop is the next iteration where its length holds it, else the gap before that
        CASE WHEN t.next_end - t.next_ts >= greatest($least, $times * u.dur_ns) THEN t.next_end ELSE t.next_ts END
            AS until_ns,
        greatest($least, $times * u.dur_ns) AS least_ns
    FROM timed t, usual u WHERE t.step IS NOT NULL AND t.next_step IS NULL AND t.next_ts IS NOT NULL
)
SELECT begin_ns, until_ns FROM found WHERE until_ns - begin_ns >= least_ns ORDER BY 1
"""


def exports(con: duckdb.DuckDBPyConnection) -> tuple[tuple[int, int], ...]:
    """The windows, in ns from the run's origin."""
    found = con.execute(_BEHIND, {"least": _LEAST_NS, "times": _TIMES}).fetchall()
    return tuple((int(begin), int(until)) for begin, until in found)


def hurt(con: duckdb.DuckDBPyConnection) -> frozenset[int]:
    """The keys of requests that were open in them."""
    windows = exports(con)
    if not windows:
        return frozenset()
    rows = con.execute("SELECT request, ts_ns, ts_ns + dur_ns FROM request WHERE ts_ns IS NOT NULL").fetchall()
    return frozenset(key for key, begin, end in rows if any(begin < until and end > since for since, until in windows))
