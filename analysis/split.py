"""Where the time of each step goes, exactly.

Per rank one row for the whole capture (`step` None: first to last edge of host steps or device
work), then one per recorded step. Spans are clipped to the window, so work counts where it runs.
The four parts are found each on its own - exposed communication by taking computing away from
it, exposed copies by taking both away, idle time as the gaps between everything - and what is
left of the window is `residual_ns`, which is therefore a check that can fail.

`profiler` is the profiler's own split by its own rule (analysis/profiler_split.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import duckdb
import numpy as np

from analysis.intervals import Intervals
from analysis.profiler_split import Profiler, profiler_split
from analysis.profiler_sums import profiler_sums

#: What counts as what (the kinds of span.kind that keep a device busy).
COMPUTING, COMMUNICATION, COPY = ("kernel", "memset"), ("comm_op",), ("memcpy",)


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

    def work(self) -> Intervals:
        """Everything recorded, together."""
        parts = [part for part in (self.computing, self.communication, self.copy) if part is not None]
        starts = np.concatenate([part.starts for part in parts]) if parts else np.zeros(0, np.int64)
        ends = np.concatenate([part.ends for part in parts]) if parts else np.zeros(0, np.int64)
        return Intervals.union_of(starts, ends)


def breakdown(con: duckdb.DuckDBPyConnection) -> list[Row]:
    """The split of every rank and step of a run."""
    alone = profiler_sums(con)
    said = profiler_split(con) | alone
    found = con.execute(
        "SELECT rank, step, ts_ns, dur_ns, computing_ns, communication_ns, communication_not_overlapped_ns, "
        "overlapped_ns, copy_ns, copy_not_overlapped_ns, idle_ns, "
        "dur_ns - computing_ns - communication_not_overlapped_ns - copy_not_overlapped_ns - idle_ns FROM device_time "
        "ORDER BY rank, step IS NOT NULL, ts_ns, step"
    ).fetchall()
    split = [Row(*(*row, said.get((row[0], row[1])))) for row in found]
    known = {(row.rank, row.step) for row in split}
    split += [_unseen(*window, sums) for window, sums in alone.items() if window not in known]
    return sorted(split, key=lambda row: row.rank)  # within a rank the order of above stays


def _unseen(rank: int, step: int | None, sums: Profiler) -> Row:
    """A step that only the profiler saw."""
    return Row(rank, step, None, None, None, None, None, None, None, None, None, None, sums)


def activity(con: duckdb.DuckDBPyConnection, rank: int) -> Activity:
    """The sets of time of one rank."""
    absent = {
        name for (name,) in con.execute(
            "SELECT table_name FROM coverage WHERE rank = ? AND status = 'absent'", [rank]
        ).fetchall()
    }  # fmt: skip

    def of(kinds: tuple[str, ...], table: str) -> Intervals | None:
        found = con.execute(
            "SELECT ts_ns, ts_ns + dur_ns AS end_ns FROM span WHERE rank = ? AND list_contains(?, kind)",
            [rank, list(kinds)],
        ).fetchnumpy()
        if not len(found["ts_ns"]) and table in absent:
            return None
        return Intervals.union_of(_ints(found["ts_ns"]), _ints(found["end_ns"]))

    computing = of(COMPUTING, "kernel")
    if computing is None:  # no device was recorded: an empty table of copies means nothing either
        absent |= {"comm", "transfer"}
    return Activity(computing, of(COMMUNICATION, "comm"), of(COPY, "transfer"))


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
    bare = None if exposed is None or copy is None else copy - computing - communication  # type: ignore[operator]
    idle = None if bare is None else did.work().gaps(int(begins.min()), int(ends.max()))
    columns = [within(part) for part in (computing, communication, exposed, both, copy, bare, idle)]
    for i, (step, begin, end) in enumerate(windows):
        comp, comm, shown, over, copied, shown_copy, gaps = (column[i] for column in columns)
        parts = (comp, shown, shown_copy, gaps)
        residual = None if None in parts else end - begin - sum(part for part in parts if part is not None)
        yield Row(
            rank, step, begin, end - begin, comp, comm, shown, over, copied, shown_copy, gaps, residual, None
        )
