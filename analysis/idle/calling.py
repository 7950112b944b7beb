"""When a CPU was in operators: work, or views and calls of others, but no waiting for the host.

On a CPU an operator is called and computed by one thread. What it computes is a task. The rest of its time is neither
work nor idle: it makes a view, asks, allocates, or calls the next operator. Ranges that the job names are no operators.
"""

from __future__ import annotations

import numpy as np

from npulens.analysis.idle.host_names import ON_CPU, OPERATORS, names
from npulens.analysis.intervals import Intervals
from npulens.analysis.run import Run

_OPERATORS = """
    SELECT s.rank, s.ts_ns, s.ts_ns + s.dur_ns AS end_ns FROM span s
    WHERE s.kind = 'cpu_op' AND s.dur_ns > 0 AND s.rank IN ({on_cpu}) AND s.name IN (
        SELECT name FROM {names} WHERE kind = 'cpu_op' AND regexp_matches(name, '{operators}'))
"""


def calling(run: Run) -> dict[int, Intervals]:
    """Per rank on a CPU: when an operator ran on any of its threads."""
    if not run.con.execute(f"{ON_CPU} LIMIT 1").fetchall():
        return {}
    rows = run.columns(_OPERATORS.format(on_cpu=ON_CPU, names=run.get(names), operators=OPERATORS))
    rank, begin, end = (rows[name].astype(np.int64) for name in ("rank", "ts_ns", "end_ns"))
    return {
        int(one): Intervals.union_of(begin[rank == one], end[rank == one]) for one in np.unique(rank)
    }  # fmt: skip
