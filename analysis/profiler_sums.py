"""The profiler's split as its file says it, for ranks whose device work is not here (a cluster analysis)."""

from __future__ import annotations

import duckdb

from npulens.analysis.profiler_split import Profiler, Splits

_ALONE = """
SELECT p.rank, p.step, p.computing_ns, p.communication_ns, p.communication_not_overlapped_ns, p.overlapped_ns,
    p.free_ns, p.stage_ns, p.bubble_ns, p.preparing_ns
FROM profiler_step p JOIN device_time d ON d.rank = p.rank AND d.step IS NULL AND d.computing_ns IS NULL
WHERE p.computing_ns IS NOT NULL AND p.communication_ns IS NOT NULL
    AND p.communication_not_overlapped_ns IS NOT NULL AND p.overlapped_ns IS NOT NULL AND p.free_ns IS NOT NULL
ORDER BY p.rank, p.step
"""


def profiler_sums(con: duckdb.DuckDBPyConnection) -> Splits:
    """Per rank and step; steps of which the file leaves out a part have none."""
    return {(row[0], row[1]): Profiler(*(*row[2:], None, None)) for row in con.execute(_ALONE).fetchall()}
