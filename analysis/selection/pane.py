"""The panes of a connection that holds a selection (analysis/selection/within.py)."""

from __future__ import annotations

from collections.abc import Mapping

import duckdb
import numpy as np

from npulens.analysis.intervals import Intervals
from npulens.analysis.views import there


def panes_of(con: duckdb.DuckDBPyConnection) -> dict[int, Intervals]:
    """rank -> its pane, of a connection that holds a selection; empty: it holds the whole run."""
    if not con.execute("SELECT 1 FROM duckdb_tables() WHERE temporary AND table_name = 'pane'").fetchall():
        return {}
    rows = con.execute("SELECT rank, from_ns, to_ns FROM pane").fetchall()
    return {rank: Intervals(np.array([begin]), np.array([end])) for rank, begin, end in rows}


def answered(con: duckdb.DuckDBPyConnection, *names: str) -> bool:
    """Whether answers are kept, and are of what the connection holds: those of the whole run are not of a selection."""
    found = con.execute("SELECT table_name FROM duckdb_tables() WHERE temporary").fetchall()
    own = {name for (name,) in found}
    return own.issuperset(names) or ("pane" not in own and there(con).issuperset(names))


def cut_to(union: Intervals, panes: Mapping[int, Intervals], rank: int) -> Intervals:
    """What of it lies in the rank's pane."""
    return union & panes[rank] if rank in panes else union
