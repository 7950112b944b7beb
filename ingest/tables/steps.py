"""Marks to steps that tile: each runs to the next mark, the last to the end of its own work.

Held as arrays: a long capture has tens of thousands of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from npulens.ingest.tables import schema

Ints = NDArray[np.int64]

#: Device spans that are work: what keeps the device busy (DESIGN "The split").
WORK = ("kernel", "memset", "memcpy", "comm_op", "unknown")


#: A last step without work of the device that is shorter than this share of the others is none.
REST = 0.1

_FIRST = -(2**62)

#: What a reader finds of a step.
_MARK = {
    "step": pa.int64(), "ts_ns": pa.int64(), "host_dur_ns": pa.int64(), "device_ts_ns": pa.int64(),
    "device_dur_ns": pa.int64(), "phase": pa.string(), "source": pa.string(),
}  # fmt: skip


@dataclass(frozen=True)
class Steps:
    """The recorded steps of a rank, in order of time: their windows, and the end of each one's mark on the host."""

    number: Ints
    begin_ns: Ints
    end_ns: Ints
    host_end_ns: Ints

    @staticmethod
    def none() -> Steps:
        return Steps(*np.zeros((4, 0), np.int64))

    def of(self, ts: Ints) -> tuple[Ints, NDArray[np.bool_]]:
        """The step in whose window each stamp lies, and a mask of those in none."""
        if not len(self.number):
            return np.zeros(len(ts), np.int64), np.ones(len(ts), bool)
        index = np.searchsorted(self.begin_ns, ts, side="right") - 1
        inside = np.maximum(index, 0)
        return self.number[inside], (index < 0) | (ts >= self.end_ns[inside])


def tile(
    table: pa.Table, rank: int, origin_ns: int, worked: Callable[[int], int | None], cut: bool = False
) -> tuple[pa.Table, Steps]:
    """The table of steps from their marks, and the same as arrays, both from the rank's origin.

    ``worked``: when the device's work that starts from a stamp on ends. ``cut``: their file is not whole.
    """
    ts = np.asarray(table["ts_ns"].to_numpy())
    last = [_last_end(row, worked) for row in table.slice(max(0, len(ts) - 1)).to_pylist()]
    lasts = np.concatenate((ts[1:], np.array(last, np.int64))) - ts
    host = np.asarray(pc.coalesce(table["host_dur_ns"], pa.array(lasts)).to_numpy())
    begin = ts - origin_ns
    keep = _before_the_cut(ts, worked) if cut else len(ts) - _is_rest(table, lasts, worked)
    ts, begin, lasts, host, table = ts[:keep], begin[:keep], lasts[:keep], host[:keep], table.slice(0, keep)
    made = dict(zip(table.column_names, table.columns, strict=True)) | {
        "rank": pa.array(np.full(len(ts), rank)), "ts_ns": pa.array(begin), "dur_ns": pa.array(lasts),
        "device_ts_ns": pc.subtract(table["device_ts_ns"], origin_ns),
    }  # fmt: skip
    return pa.table(made), Steps(np.asarray(table["step"].to_numpy()), begin, begin + lasts, begin + host)


def _before_the_cut(ts: Ints, worked: Callable[[int], int | None]) -> int:
    """How many of the steps that begin then are over before the last work that was read.

    Profilers write what a device did in order of time, and the rest of a file in orders of its own. So a step's mark
    may lie before the cut and its kernels behind. Without any work all stay: nothing of a device is measured.
    """
    last = worked(_FIRST)
    return len(ts) if last is None else int(np.searchsorted(ts[1:], last, side="right"))


def _is_rest(table: pa.Table, lasts: Ints, worked: Callable[[int], int | None]) -> bool:
    """Whether the last mark is what the profiler opened when it was about to end: short, and nothing ran since."""
    if len(lasts) < 2 or table["source"][-1].as_py() != "ProfilerStep":
        return False
    return int(lasts[-1]) < REST * float(np.median(lasts[:-1])) and worked(table["ts_ns"][-1].as_py()) is None


def marks_of(given: Sequence[pa.Table]) -> pa.Table:
    """Each step once, in order of time, of what a reader gave."""
    rows = pa.concat_tables(given, promote_options="default")
    rows = rows.filter(pc.and_(pc.is_valid(rows["step"]), pc.is_valid(rows["ts_ns"])))
    step, ts = (np.asarray(rows[name].to_numpy(), np.int64) for name in ("step", "ts_ns"))
    order = np.lexsort((ts, step))
    firsts = order[np.unique(step[order], return_index=True)[1]]
    rows = rows.take(pa.array(firsts[np.lexsort((step[firsts], ts[firsts]))]))
    return pa.table({
        name: rows[name].cast(kind) if name in rows.column_names else pa.nulls(len(rows), kind)
        for name, kind in _MARK.items()
    })  # fmt: skip


def marks_in(con: duckdb.DuckDBPyConnection, select: str, have: Collection[str]) -> pa.Table:
    """The same of what a SELECT finds; ``have``: its columns."""
    wanted = [column for column in schema.tables()["step"].columns if column.name in _MARK]
    typed = [f"{column.name if column.name in have else 'NULL'}::{column.type} AS {column.name}" for column in wanted]
    return con.sql(
        f"SELECT {', '.join(typed)} FROM (SELECT DISTINCT ON (step) * FROM ({select}) "
        "WHERE step IS NOT NULL AND ts_ns IS NOT NULL ORDER BY step, ts_ns) ORDER BY ts_ns, step"
    ).to_arrow_table()


def _last_end(mark: Mapping[str, Any], worked: Callable[[int], int | None]) -> int:
    """The latest of the last step's end on the host, its recorded end on the device, and that of its device spans."""
    ts_ns: int = mark["ts_ns"]
    ends = [ts_ns + (mark["host_dur_ns"] or 0)]
    if mark["device_ts_ns"] is not None and mark["device_dur_ns"] is not None:
        ends.append(mark["device_ts_ns"] + mark["device_dur_ns"])
    return max(*ends, worked(ts_ns) or ts_ns)
