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
from dataclasses import asdict, dataclass
from typing import Any

import duckdb
import numpy as np

from npulens.analysis.intervals import EMPTY, Intervals
from npulens.analysis.profiler_split import Profiler, Splits, profiler_split

#: What counts as what (the kinds of span.kind that keep a device busy).
COMPUTING = ("kernel", "memset")
_MIXED = "kind = 'kernel' AND span_id IN (SELECT span_id FROM comm WHERE op_span_id = span_id)"
_COMMUNICATION = f"(kind = 'comm_op' OR {_MIXED})"


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


def activity(con: duckdb.DuckDBPyConnection, rank: int) -> Activity:
    """The sets of time of one rank."""
    absent = {
        name for (name,) in con.execute(
            "SELECT table_name FROM coverage WHERE rank = ? AND status = 'absent'", [rank]
        ).fetchall()
    }  # fmt: skip

    def of(which: str, table: str) -> Intervals | None:
        found = con.execute(
            f"SELECT ts_ns, ts_ns + dur_ns AS end_ns FROM span WHERE rank = ? AND {which}", [rank]
        ).fetchnumpy()
        if not len(found["ts_ns"]) and table in absent:
            return None
        return Intervals.union_of(_ints(found["ts_ns"]), _ints(found["end_ns"]))

    computing = of(f"kind IN {COMPUTING}", "kernel")
    if computing is None:  # no device was recorded: an empty table of copies means nothing either
        absent |= {"comm", "transfer"}
    communication, copy = of(_COMMUNICATION, "comm"), of("kind = 'memcpy'", "transfer")
    unknown = None if computing is None else of("kind = 'unknown'", "")
    ((complete,),) = con.execute(
        "SELECT coalesce(bool_or(idle_ns IS NOT NULL), false) FROM device_time WHERE rank = ? AND step IS NULL", [rank]
    ).fetchall()
    return Activity(computing, communication, copy, unknown, of(_MIXED, "") or EMPTY, bool(complete))


def _ints(values: Any) -> Any:
    return np.ma.getdata(values).astype(np.int64)


def rows(
    rank: int, windows: list[tuple[int | None, int, int]], did: Activity
) -> Iterator[Row]:
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
            rank, step, begin, end - begin, comp, comm, shown, over, copied, shown_copy, unknown, shown_unknown,
            gaps, residual, None,
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
