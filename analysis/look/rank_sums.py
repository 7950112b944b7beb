"""Ranks by steps of a run that holds nothing but the profiler's own sums (a cluster analysis).

A step is as long as the profiler's parts of it together: computing, communication not overlapped, and free. What only
spans could tell - waiting, where work starts - stays unrecorded.
"""

from __future__ import annotations

import duckdb
import pandas as pd

_SUMS = """
SELECT rank, step, NULL::BIGINT AS start_ns,
    computing_ns + communication_not_overlapped_ns + free_ns AS dur_ns, communication_not_overlapped_ns,
    NULL::BIGINT AS only_waiting_ns, free_ns AS idle_ns, computing_ns, NULL::BIGINT AS work_start_ns
FROM profiler_step WHERE rank NOT IN (SELECT DISTINCT rank FROM span) ORDER BY rank, step
"""


def table(con: duckdb.DuckDBPyConnection) -> pd.DataFrame:
    """The rows of the ranks' grid; none where spans were recorded."""
    return con.execute(_SUMS).df()


def only(con: duckdb.DuckDBPyConnection) -> bool:
    """Whether the run has sums and no spans at all."""
    row = con.execute("SELECT (SELECT count(*) FROM span LIMIT 1) = 0 AND count(*) > 0 FROM profiler_step").fetchone()
    return bool(row and row[0])
