"""What runs for the first time in a capture: operators, kernels, and the calls that launch these."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.idle.issue import tasks
from npulens.analysis.intervals import Ints
from npulens.analysis.run import Run

#: Deeper than any program nests its calls in a capture; a broken parent chain must end.
DEEPEST = 200

_FIRST_OPERATORS = """
    SELECT rank, name, arg_min(span_id, ts_ns) AS first_id, count(*) AS n FROM span WHERE kind = 'cpu_op' GROUP BY ALL
"""
_FIRST_TASKS = "SELECT arg_min(span_id, ts_ns) FROM span WHERE kind IN ('kernel', 'memset') GROUP BY rank, name"
_OPERATORS = f"""
    WITH RECURSIVE up AS (
        SELECT span_id AS start_id, parent_id AS at, 0 AS deep FROM span WHERE list_contains(?, span_id)
        UNION ALL
        SELECT u.start_id, s.parent_id, u.deep + 1 FROM up u JOIN span s ON s.span_id = u.at
        WHERE s.kind <> 'cpu_op' AND u.deep < {DEEPEST}
    )
    SELECT u.start_id, s.span_id, s.rank, s.name FROM up u JOIN span s ON s.span_id = u.at AND s.kind = 'cpu_op'
"""


class Fresh:
    """What runs for the first time in the capture."""

    def __init__(self, run: Run) -> None:
        self._rows: dict[int, tuple[Ints, NDArray[np.bool_]]] = {}
        self.run = run

    @cached_property
    def operators(self) -> dict[int, int]:
        """The first operator of each name, and how many of the name there are."""
        return {span: int(n) for _, _, span, n in self.run.con.execute(_FIRST_OPERATORS).fetchall()}

    @cached_property
    def _tasks(self) -> Ints:
        """The first task of each name."""
        return np.array([span for (span,) in self.run.con.execute(_FIRST_TASKS).fetchall()], np.int64)

    @cached_property
    def launches(self) -> frozenset[int]:
        """The calls that launch the first task of a name; the nodes of a graph have none of their own."""
        every = self.run.get(tasks).values()
        first = [did.source[did.linked & ~did.node & np.isin(did.ids, self._tasks)] for did in every]
        return frozenset(span for mine in first for span in mine.tolist())

    def quick(self, rank: int, least_ns: int) -> int:
        """How many kernels of a rank are first launched by a call that takes less."""
        did = self.run.get(tasks)[rank]
        first = did.linked & ~did.node & np.isin(did.ids, self._tasks)
        return int((first & (did.source_end - did.source_start < least_ns)).sum())

    def task_from(self, rank: int, at: int) -> bool:
        """Whether the first task that is launched from a moment on is the first of its name."""
        if rank not in self._rows:
            did = self.run.get(tasks)[rank]
            order = np.argsort(did.source_start[did.linked], kind="stable")
            new = np.isin(did.ids[did.linked], self._tasks)
            self._rows[rank] = did.source_start[did.linked][order], new[order]
        starts, new = self._rows[rank]
        next_ = int(np.searchsorted(starts, at))
        return next_ < len(new) and bool(new[next_])


def above(run: Run, spans: list[int]) -> list[tuple[Any, ...]]:
    """The innermost operator above each span: the span, the operator, its rank and its name."""
    return run.con.execute(_OPERATORS, [spans]).fetchall() if spans else []
