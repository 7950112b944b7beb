"""Where the time of each step goes, exactly.

Per rank there is one row for the whole capture (`step` None: first to last edge of host steps or device work). Then
comes one per recorded step. Spans are clipped to the window, so work counts where it runs. Each of the five parts is
found on its own. Exposed communication is communication without computing. Exposed copies are copies without either.
Unknown work is what runs beside none of the three. Idle time is the sum of the gaps between everything. What they do
not cover is `residual_ns`, a check that can fail. A kernel that communicates as well is in both.

`profiler` is the profiler's own split by its own rule (analysis/profiler_split.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from npulens.analysis.intervals import EMPTY, Intervals, Ints, bare
from npulens.analysis.profiler_split import Profiler, Splits, profiler_split

#: What counts as what (the kinds of span.kind that keep a device busy).
COMPUTING = ("kernel", "memset")
_MIXED = "kind = 'kernel' AND span_id IN (SELECT span_id FROM comm WHERE op_span_id = span_id)"


@dataclass(frozen=True)
class Row:
    """The split of one window of one rank; None is "not recorded"."""

    rank: int
    step: int | None
    start_ns: int | None
    dur_ns: int | None
    computing_ns: int | None
    communication_ns: int | None
    communication_not_overlapped_ns: int | None
    overlapped_ns: int | None
    copy_ns: int | None
    copy_not_overlapped_ns: int | None
    unknown_ns: int | None
    unknown_not_overlapped_ns: int | None
    idle_ns: int | None
    residual_ns: int | None
    profiler: Profiler | None

    def as_dict(self) -> dict[str, Any]:
        """The keys that `npulens breakdown --json` promises."""
        return asdict(self)


@dataclass(frozen=True)
class Activity:
    """What one rank's device did, as sets of time; None where the capture could not record it."""

    computing: Intervals | None
    communication: Intervals | None
    copy: Intervals | None
    unknown: Intervals | None  # work that nothing told to compute or to communicate
    mixed: Intervals  # kernels that compute and communicate, in both of the above
    complete: bool  # no work is missing, so that gaps between it are idle time

    @property
    def untold(self) -> bool:
        """Whether communication is somewhere in the work, and nothing told which of it."""
        return self.complete and self.communication is None

    @property
    def surely_computing(self) -> Intervals:
        """Computing without the kernels that communicate as well: those may have waited."""
        return (self.computing or EMPTY) - self.mixed if len(self.mixed.starts) else self.computing or EMPTY

    def work(self) -> Intervals:
        """Everything recorded, together."""
        return self._work

    @cached_property
    def _work(self) -> Intervals:
        parts = [part for part in (self.computing, self.communication, self.copy, self.unknown) if part is not None]
        starts = np.concatenate([part.starts for part in parts]) if parts else np.zeros(0, np.int64)
        ends = np.concatenate([part.ends for part in parts]) if parts else np.zeros(0, np.int64)
        return Intervals.union_of(starts, ends)


def breakdown(con: duckdb.DuckDBPyConnection) -> list[Row]:
    """The split of every rank and step of a run."""
    alone = profiler_sums(con)
    said = profiler_split(con) | alone
    found = con.execute(
        "SELECT rank, step, ts_ns, dur_ns, computing_ns, communication_ns, communication_not_overlapped_ns, "
        "overlapped_ns, copy_ns, copy_not_overlapped_ns, unknown_ns, unknown_not_overlapped_ns, idle_ns, "
        "dur_ns - computing_ns - coalesce(communication_not_overlapped_ns, 0) - copy_not_overlapped_ns "
        "- unknown_not_overlapped_ns - idle_ns FROM device_time ORDER BY rank, step IS NOT NULL, ts_ns, step"
    ).fetchall()
    split = [Row(*(*row, said.get((row[0], row[1])))) for row in found]
    known = {(row.rank, row.step) for row in split}
    split += [_unseen(*window, sums) for window, sums in alone.items() if window not in known]
    return sorted(split, key=lambda row: row.rank)  # within a rank the order of above stays


def _unseen(rank: int, step: int | None, sums: Profiler) -> Row:
    """A step that only the profiler saw."""
    return Row(rank, step, None, None, None, None, None, None, None, None, None, None, None, None, sums)


#: What a span of the device does, as bits; a kernel that communicates as well does two of them.
_COMPUTES, _COMMUNICATES, _COPIES, _UNTOLD = 1, 2, 4, 8
_WORK = f"""
SELECT rank, ts_ns, ts_ns + dur_ns AS end_ns, (CASE WHEN kind IN {COMPUTING} THEN {_COMPUTES}
    WHEN kind = 'comm_op' THEN {_COMMUNICATES} WHEN kind = 'memcpy' THEN {_COPIES} ELSE {_UNTOLD} END
    + CASE WHEN {_MIXED} THEN {_COMMUNICATES} ELSE 0 END)::UTINYINT AS does
FROM span WHERE rank BETWEEN ? AND ? AND kind IN ('kernel', 'memset', 'comm_op', 'memcpy', 'unknown')
"""


#: Of a rank whose device work is all there: a setting would record its communication, so that is not in this work. It
#: ran on the host. Without a setting it is in the work, and nothing told which of it.
ELSEWHERE = "table_name = 'comm' AND status = 'absent' AND collect_with IS NOT NULL"


def activity(con: duckdb.DuckDBPyConnection, rank: int) -> Activity:
    """The sets of time of one rank."""
    return activities(con, rank, rank)[rank]


def activities(con: duckdb.DuckDBPyConnection, first: int, last: int) -> dict[int, Activity]:
    """The sets of time of the ranks from the first to the last."""
    told = con.execute(
        "SELECT rank, complete, absent, elsewhere FROM (SELECT rank FROM rank WHERE rank BETWEEN ? AND ?) "
        "LEFT JOIN (SELECT rank, bool_or(idle_ns IS NOT NULL) AS complete FROM device_time WHERE step IS NULL "
        "GROUP BY rank) USING (rank) LEFT JOIN (SELECT rank, list(table_name) AS absent, "
        f"bool_or({ELSEWHERE}) AS elsewhere FROM coverage "
        "WHERE status = 'absent' GROUP BY rank) USING (rank) ORDER BY rank", [first, last],
    ).fetchall()  # fmt: skip
    rows = {name: bare(values) for name, values in con.execute(_WORK, [first, last]).fetchnumpy().items()}
    order = np.argsort(rows["rank"], kind="stable")
    rank, does = rows["rank"][order], rows["does"][order]
    starts, ends = _ints(rows["ts_ns"][order]), _ints(rows["end_ns"][order])
    found = {}
    for one, complete, absent, elsewhere in told:
        begin, end = np.searchsorted(rank, [one, one + 1])
        lacks = frozenset(absent or ()) - ({"comm"} if complete and elsewhere else frozenset())
        work = _Work(starts[begin:end], ends[begin:end], does[begin:end], lacks)
        found[one] = _activity(work, bool(complete))
    return found


@dataclass(frozen=True)
class _Work:
    """What one rank's device did, span by span, and the tables that its capture lacks."""

    starts: Ints
    ends: Ints
    does: NDArray[np.uint8]
    absent: frozenset[str]

    def of(self, which: NDArray[np.bool_], table: str) -> Intervals | None:
        if table in self.absent and not which.any():
            return None
        return Intervals.union_of(self.starts[which], self.ends[which])


def _activity(work: _Work, complete: bool) -> Activity:
    computes, communicates = (work.does & _COMPUTES) > 0, (work.does & _COMMUNICATES) > 0
    computing = work.of(computes, "kernel")
    if computing is None:  # no device was recorded: an empty table of copies means nothing either
        work = replace(work, absent=work.absent | {"comm", "transfer"})
    communication, copy = work.of(communicates, "comm"), work.of((work.does & _COPIES) > 0, "transfer")
    unknown = None if computing is None else work.of((work.does & _UNTOLD) > 0, "")
    return Activity(
        computing, communication, copy, unknown, work.of(computes & communicates, "") or EMPTY, complete
    )  # fmt: skip


def _ints(values: Any) -> Any:
    return bare(values).astype(np.int64)


def rows(rank: int, windows: list[tuple[int | None, int, int]], did: Activity) -> Iterator[Row]:
    """The split of any windows (step, begin, end) of one rank."""
    begins = np.array([window[1] for window in windows], np.int64)
    ends = np.array([window[2] for window in windows], np.int64)

    def within(part: Intervals | None) -> list[int | None]:
        return [None] * len(windows) if part is None else [int(v) for v in part.within(begins, ends)]

    computing, communication, copy = did.computing, did.communication, did.copy
    exposed = None if computing is None or communication is None else communication - computing
    both = None if computing is None or communication is None else communication & computing
    bare = dark = idle = None
    if did.complete and computing is not None and copy is not None:
        told = computing if communication is None else computing | communication
        bare, idle = copy - told, did.work().gaps(int(begins.min()), int(ends.max()))
        dark = (did.unknown or EMPTY) - told - copy
    columns = [within(part) for part in (computing, communication, exposed, both, copy, bare, did.unknown, dark, idle)]
    for i, (step, begin, end) in enumerate(windows):
        comp, comm, shown, over, copied, shown_copy, unknown, shown_unknown, gaps = (column[i] for column in columns)
        parts = (comp, shown or 0, shown_copy, shown_unknown, gaps)  # untold, it is in the others
        residual = None if None in parts else end - begin - sum(part for part in parts if part is not None)
        yield Row(
            rank,
            step,
            begin,
            end - begin,
            comp,
            comm,
            shown,
            over,
            copied,
            shown_copy,
            unknown,
            shown_unknown,
            gaps,
            residual,
            None,
        )


# The profiler's split as its file says it, for ranks whose device work is not here (a cluster analysis).
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
