"""The profiler's own split, computed again by the profiler's own rule.

torch_npu's text export makes four lanes (computing, communication, communication not overlapped,
free) from unions over the whole capture and gives each piece, unclipped, to the step in which it
starts; its database export makes the same unions step by step, so that free time between two
steps belongs to neither. A step's window runs from its first device work to the later of its last
and its host end. Stage is the length of what was counted, less the bubbles (receive operators).

Three definitions of "free" are in use; which one reproduced the file is said:

* `between busy`: gaps strictly inside the first and last busy moment;
* `from first task`: the window begins and ends with any device task that is no kernel (copies, events);
* `minus copies`: the first, less the copies not hidden in it.

The text export subtracts float64 microseconds since 1970, which move in steps of 0.25 us; stage
and preparing are reproduced with that rounding where the file is a step_trace_time.csv.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest

import duckdb
import numpy as np

from analysis.intervals import EMPTY, Intervals

#: A reproduced value may differ from the file by its rounding to a microsecond with three decimals, per piece added up.
TOLERANCE_NS = 2
_TEXT = "step_trace_time.csv"
_BETWEEN = "between busy"


@dataclass(frozen=True)
class Profiler:
    """The profiler's split of one step by its own rule."""

    computing_ns: int
    communication_ns: int
    communication_not_overlapped_ns: int
    overlapped_ns: int
    free_ns: int
    stage_ns: int | None
    bubble_ns: int | None
    preparing_ns: int | None
    free_definition: str | None


@dataclass(frozen=True)
class Reference:
    """What the profiler's file says of a step."""

    step: int | None
    computing_ns: int | None
    communication_ns: int | None
    communication_not_overlapped_ns: int | None
    overlapped_ns: int | None
    free_ns: int | None
    stage_ns: int | None
    bubble_ns: int | None
    preparing_ns: int | None
    source: str


Step = tuple[int, int, int, int, int | None]  # step, start, length to the next, host length, device start


def profiler_split(
    con: duckdb.DuckDBPyConnection, rank: int, computing: Intervals | None, communication: Intervals | None,
    copy: Intervals | None, steps: list[Step], references: list[Reference],
) -> dict[int | None, Profiler]:  # fmt: skip
    """Per step, and under None for the whole capture; empty where the capture cannot say."""
    formats = {
        name for (names,) in con.execute("SELECT formats FROM rank WHERE rank = ?", [rank]).fetchall() for name in names
    }
    if computing is None or not formats & {"torch_npu_text", "torch_npu_db"}:
        return {}
    communication = EMPTY if communication is None else communication
    origin = con.execute("SELECT origin_ns FROM run").fetchall()[0][0]
    busy = computing | communication
    lanes = _Lanes(
        _Lane(computing),
        _Lane(communication),
        _Lane(communication - computing),
        {name: _Lane(lane) for name, lane in _free(busy, copy or EMPTY, _tasks(con, rank)).items()},
        _Lane(_receives(con, rank)),
        _Lane(busy),
        origin,
        as_text=_TEXT in {reference.source for reference in references} or formats == {"torch_npu_text"},
    )
    windows: list[tuple[int | None, int, int, int | None]] = [(None, *_EVER, steps[0][1] if len(steps) == 1 else None)]
    begins = [start if device is None else device for _, start, _, _, device in steps]
    for (number, start, _, host, _), begin, following in zip_longest(steps, begins, begins[1:]):
        # The profiler's window: from the step's first device work to the later of its last and its host end.
        first, last = lanes.edges(begin, _EVER[1] if following is None else following)
        if first is not None and last is not None:
            windows.append((number, first, max(start + host, last[1]), start))
    of = {reference.step: reference for reference in references}
    if len(references) == 1:
        of.setdefault(None, references[0])
    return {step: lanes.split(begin, end, mark, of.get(step)) for step, begin, end, mark in windows}


def as_written(file: Reference) -> Profiler | None:
    """What the file says, for a run without the spans to compute it again; None where it leaves out a part."""
    parts = (file.computing_ns, file.communication_ns, file.communication_not_overlapped_ns, file.overlapped_ns)
    if None in parts or file.free_ns is None:
        return None
    computing, communication, exposed, overlapped = (part or 0 for part in parts)
    return Profiler(
        computing, communication, exposed, overlapped, file.free_ns, file.stage_ns, file.bubble_ns, file.preparing_ns,
        free_definition=None,
    )  # fmt: skip


_EVER = (int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max))


def _tasks(con: duckdb.DuckDBPyConnection, rank: int) -> tuple[int, int] | None:
    """First and last edge of device tasks that are no kernels."""
    row = con.execute(
        "SELECT min(ts_ns), max(ts_ns + dur_ns) FROM span WHERE rank = ? "
        "AND kind IN ('memcpy', 'wait', 'device_other', 'memset')",
        [rank],
    ).fetchall()[0]
    return None if row[0] is None else (row[0], row[1])


def _receives(con: duckdb.DuckDBPyConnection, rank: int) -> Intervals:
    """What the profiler calls bubbles: receive operators, and only those."""
    rows = con.execute(
        "SELECT ts_ns, ts_ns + dur_ns FROM span WHERE rank = ? AND kind = 'comm_op' "
        "AND starts_with(name, 'hcom_receive') ORDER BY ts_ns",
        [rank],
    ).fetchall()
    return Intervals(np.array([row[0] for row in rows], np.int64), np.array([row[1] for row in rows], np.int64))


def _free(busy: Intervals, copy: Intervals, tasks: tuple[int, int] | None) -> dict[str, Intervals]:
    """Free time by each definition in use."""
    if not len(busy.starts):
        return {}
    first, last = int(busy.starts[0]), int(busy.ends[-1])
    between = busy.gaps(first, last)
    ways = {_BETWEEN: between}
    if tasks is not None:
        ways["from first task"] = busy.gaps(min(first, tasks[0]), max(last, tasks[1]))
    return ways | {"minus copies": between - copy}


class _Lane:
    """Pieces that belong, whole, to the window in which they start."""

    def __init__(self, pieces: Intervals) -> None:
        self.starts, self.ends = pieces.starts, pieces.ends
        self._sum = np.concatenate((np.zeros(1, np.int64), np.cumsum(pieces.ends - pieces.starts)))

    def of(self, begin: int, end: int) -> tuple[int, int]:
        """Index of the first piece of a window, and of the first after it."""
        first, after = np.searchsorted(self.starts, [begin, end])
        return int(first), int(after)

    def total(self, begin: int, end: int) -> int:
        first, after = self.of(begin, end)
        return int(self._sum[after] - self._sum[first])


@dataclass(frozen=True)
class _Lanes:
    computing: _Lane
    communication: _Lane
    exposed: _Lane
    free: dict[str, _Lane]
    receives: _Lane
    busy: _Lane
    origin: int
    as_text: bool

    def split(self, begin: int, end: int, mark: int | None, file: Reference | None) -> Profiler:
        computing, communication = self.computing.total(begin, end), self.communication.total(begin, end)
        exposed = self.exposed.total(begin, end)
        free, definition = self._free(begin, end, file)
        first, last = self.edges(begin, end)
        bubble = self.receives.total(begin, end)
        stage = self._stage(first, self.edges(begin, end, with_free=self.as_text)[1])
        return Profiler(
            computing_ns=computing,
            communication_ns=communication,
            communication_not_overlapped_ns=exposed,
            overlapped_ns=communication - exposed,
            free_ns=free,
            stage_ns=None if stage is None else stage - bubble,
            bubble_ns=bubble,
            preparing_ns=self._preparing(mark, first),
            free_definition=definition,
        )

    def edges(self, begin: int, end: int, with_free: bool = False) -> tuple[int | None, tuple[int, int] | None]:
        """First start of what was counted in a window, and the piece that ends last."""
        counted = [self.computing, self.communication, *([self.free[_BETWEEN]] if with_free and self.free else [])]
        spans = [(lane, *lane.of(begin, end)) for lane in counted]
        starts = [int(lane.starts[first]) for lane, first, after in spans if after > first]
        last = [
            (int(lane.ends[after - 1]), int(lane.starts[after - 1])) for lane, first, after in spans if after > first
        ]
        return min(starts, default=None), max(last)[::-1] if last else None

    def _stage(self, first: int | None, last: tuple[int, int] | None) -> int | None:
        """From the first start to the last end; the text adds start and duration of the last piece as floats."""
        if first is None or last is None:
            return None
        if not self.as_text:
            return last[1] - first
        end = (last[0] + self.origin) / 1000 + (last[1] - last[0]) / 1000
        return round((end - (first + self.origin) / 1000) * 1000)

    def _preparing(self, mark: int | None, first: int | None) -> int | None:
        """From the host's mark to the first start."""
        if mark is None or first is None:
            return None
        if not self.as_text:
            return first - mark
        return round(((first + self.origin) / 1000 - (mark + self.origin) / 1000) * 1000)

    def _free(self, begin: int, end: int, file: Reference | None) -> tuple[int, str | None]:
        """Free time by the definition that reproduces the file, else by the first."""
        sums = {name: lane.total(begin, end) for name, lane in self.free.items()}
        first, last = self.edges(begin, end)
        if not self.as_text and first is not None and last is not None:
            sums[_BETWEEN] = last[1] - first - self.busy.total(begin, end)
        wanted = None if file is None else file.free_ns
        for name, value in sums.items():
            if wanted is not None and abs(value - wanted) <= TOLERANCE_NS:
                return value, name
        return sums.get(_BETWEEN, 0), None
