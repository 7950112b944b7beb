"""Two captures, ranks or steps side by side: what each is, what its mean step is made of, and what changed.

A *side* is some windows of one run: the steps of some ranks, or whole captures where no steps were recorded. Figures
are of the mean window of a side. Means of whole numbers leave remainders. These are distributed so that the parts of a
side sum exactly to its step. So the changes of the parts also sum exactly to the change of the step.

One capture a side cannot tell a change from drift: nothing here is a verdict.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pandas as pd

from npulens.analysis.idle.pieces import CODES, idle
from npulens.analysis.intervals import Ints
from npulens.analysis.run import Run
from npulens.analysis.split import breakdown

#: The parts of the split: what people call it, the field of a row of the split.
PARTS = (
    ("computing", "computing_ns"), ("communication", "communication_not_overlapped_ns"),
    ("copy", "copy_not_overlapped_ns"), ("unknown", "unknown_not_overlapped_ns"), ("idle", "idle_ns"),
    ("residual", "residual_ns"),
)  # fmt: skip
#: Host calls of more names than this are cut, the ones that take least first.
MOST_NAMES = 20_000


@dataclass(frozen=True)
class Window:
    """One stretch of time that is compared: a step of a rank, or all of the rank."""

    rank: int
    step: int | None
    start_ns: int
    dur_ns: int


@dataclass(frozen=True)
class About:
    """Properties of a run. Two sides that differ in one are less comparable."""

    run_id: str
    status: str
    world_size: int | None
    ranks: tuple[int, ...]
    formats: tuple[str, ...]
    backends: tuple[str, ...]
    devices: tuple[str, ...]
    levels: tuple[str, ...]
    versions: tuple[tuple[str, str], ...]
    recorded: tuple[str, ...]  # tables that some rank recorded


@dataclass(frozen=True)
class Side:
    """The windows of one side, and their lengths and parts added up. A part is None where a window does not know it."""

    about: About
    windows: tuple[Window, ...]
    whole: bool  # whole captures, not steps
    dur_ns: int
    parts: tuple[tuple[str, int | None], ...]

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(sorted({window.rank for window in self.windows}))

    @property
    def steps(self) -> tuple[int, ...]:
        return tuple(sorted({window.step for window in self.windows if window.step is not None}))


@dataclass(frozen=True)
class Delta:
    """One part on both sides, in ns of the mean window."""

    key: str
    base_ns: int
    head_ns: int

    @property
    def change_ns(self) -> int:
        return self.head_ns - self.base_ns


@dataclass(frozen=True)
class Change:
    """The step on both sides, and its parts: their changes sum to that of the step."""

    step: Delta
    parts: tuple[Delta, ...]


@dataclass(frozen=True)
class Note:
    """Something that makes the two sides less comparable: which text says it, with what in it."""

    key: str
    values: tuple[tuple[str, object], ...] = ()


def side(
    con: duckdb.DuckDBPyConnection, ranks: tuple[int, ...] | None, steps: tuple[int, ...] | None, whole: bool
) -> Side:
    """Some windows of a run; None chooses every rank, every step."""
    rows = [
        row for row in breakdown(con)
        if (row.step is None) == whole and row.dur_ns and row.start_ns is not None
        and (ranks is None or row.rank in ranks) and (whole or steps is None or row.step in steps)
    ]  # fmt: skip
    windows = tuple(Window(row.rank, row.step, row.start_ns or 0, row.dur_ns or 0) for row in rows)
    parts = tuple((key, _sum([getattr(row, field) for row in rows])) for key, field in PARTS)
    return Side(about(con), windows, whole, sum(window.dur_ns for window in windows), parts)


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def merged(sides: Sequence[Side]) -> Side:
    """Several runs as one side: all their windows count alike. It says of itself what the first says."""
    parts = tuple((key, _sum([dict(one.parts)[key] for one in sides])) for key, _ in PARTS)
    windows = tuple(window for one in sides for window in one.windows)
    return Side(sides[0].about, windows, sides[0].whole, sum(one.dur_ns for one in sides), parts)


def about(con: duckdb.DuckDBPyConnection) -> About:
    """What a run says of itself."""
    run_id, status, world = con.execute("SELECT run_id, status, world_size FROM run").fetchall()[0]
    rows = con.execute("SELECT rank, formats, backend, device_name, profiler_level, versions FROM rank").fetchall()
    recorded = con.execute(
        "SELECT DISTINCT table_name FROM coverage WHERE status <> 'absent' ORDER BY table_name"
    ).fetchall()

    def every(place: int) -> tuple[str, ...]:
        return tuple(sorted({str(row[place]) for row in rows if row[place] is not None}))

    versions = {pair for row in rows for pair in _versions(row[5])}
    return About(
        run_id, status, world, tuple(sorted(row[0] for row in rows)),
        tuple(sorted({name for row in rows for name in row[1]})), every(2), every(3), every(4),
        tuple(sorted(versions)), tuple(name for (name,) in recorded),
    )  # fmt: skip


def _versions(text: str | None) -> Iterator[tuple[str, str]]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return
    if isinstance(found, dict):
        yield from ((str(name), str(value)) for name, value in found.items() if isinstance(value, str | int | float))


def change(base: Side, head: Side) -> Change:
    """The mean window of both sides and its parts. What one side does not know is told apart on neither."""
    ours, theirs = dict(base.parts), dict(head.parts)
    known = [key for key, _ in PARTS if ours[key] is not None and theirs[key] is not None]
    sides = []
    for each in (base, head):
        totals = {key: total for key, total in each.parts if key in known and total is not None}
        rest = each.dur_ns - sum(totals.values())
        sides.append(_means({**totals, "unsplit": rest}, len(each.windows)))
    before, after = sides
    parts = tuple(Delta(key, before[key], after[key]) for key in before)
    step = Delta("step", sum(before.values()), sum(after.values()))
    always = ("computing", "communication", "copy", "idle")
    return Change(step, tuple(p for p in parts if p.base_ns or p.head_ns or (p.key in always and p.key in known)))


def _means(totals: Mapping[str, int], count: int) -> dict[str, int]:
    """Each total over ``count``, in whole ns that sum to the whole mean: none is off by 1 ns or more."""
    means, so_far, given = {}, 0, 0
    for key, total in totals.items():
        so_far += total
        means[key] = so_far // max(1, count) - given
        given += means[key]
    return means


def idle_by_cause(
    con: duckdb.DuckDBPyConnection, ranks: tuple[int, ...] | None, steps: tuple[int, ...] | None, whole: bool
) -> tuple[tuple[str, int], ...] | None:
    """Idle ns of a side by cause: they sum to its idle time. None where it was not recorded."""
    found = side(con, ranks, steps, whole)
    total = dict(found.parts)["idle"]
    if total is None:
        return None
    pieces = Run.of(con).get(idle)
    sums = np.zeros(len(CODES), np.int64)
    for rank in found.ranks:
        mine = pieces.rank == rank
        starts, ends, causes = pieces.start[mine], pieces.end[mine], pieces.cause[mine]
        for window in (window for window in found.windows if window.rank == rank):
            _clipped(sums, starts, ends, causes, window)
    causes_of = {cause: int(ns) for cause, ns in zip(CODES, sums, strict=True) if ns}
    if beyond := total - sum(causes_of.values()):  # a whole capture reaches beyond its steps
        causes_of["beyond"] = beyond
    return tuple(causes_of.items())


def idle_together(sides: Sequence[tuple[tuple[str, int], ...] | None]) -> tuple[tuple[str, int], ...] | None:
    """Idle ns by cause of several runs; None where one of them did not record it."""
    found: dict[str, int] = {}
    for one in sides:
        if one is None:
            return None
        for cause, ns in one:
            found[cause] = found.get(cause, 0) + ns
    return tuple(found.items())


def idle_change(
    base: Sequence[tuple[str, int]], head: Sequence[tuple[str, int]], counts: tuple[int, int], whole: Delta
) -> tuple[Delta, ...]:
    """Idle time of the mean window by cause on both sides, the largest change first.

    It sums to ``whole``, the idle time of the mean window. The ns by which two ways of rounding differ goes to the
    largest cause.
    """
    causes = sorted({cause for cause, _ in (*base, *head)})
    sides = []
    for found, count, total in ((dict(base), counts[0], whole.base_ns), (dict(head), counts[1], whole.head_ns)):
        means = _means({cause: found.get(cause, 0) for cause in causes}, count)
        if means:
            means[max(means, key=lambda cause: means[cause])] += total - sum(means.values())
        sides.append(means)
    deltas = (Delta(cause, sides[0][cause], sides[1][cause]) for cause in causes)
    return tuple(sorted(deltas, key=lambda delta: -abs(delta.change_ns)))


def _clipped(sums: Ints, starts: Ints, ends: Ints, causes: Ints, window: Window) -> None:
    """Adds what of the pieces lies in a window; they are in order and do not overlap."""
    begin, end = window.start_ns, window.start_ns + window.dur_ns
    first, last = np.searchsorted(ends, begin, "right"), np.searchsorted(starts, end, "left")
    inside = slice(first, max(first, last))
    lengths = np.minimum(ends[inside], end) - np.maximum(starts[inside], begin)
    np.add.at(sums, causes[inside], lengths)


_INSIDE = "list_contains(?, s.rank) AND (? OR list_contains(?, s.step))"


def _given(found: Side) -> list[Any]:
    return [list(found.ranks), found.whole, list(found.steps)]


def kernels(
    con: duckdb.DuckDBPyConnection, ranks: tuple[int, ...] | None, steps: tuple[int, ...] | None, whole: bool
) -> pd.DataFrame:
    """Kernels of a side that start in its windows, by type and shape, all windows together."""
    return con.execute(f"""
        SELECT
            coalesce(k.op_type, s.name) AS op, coalesce(k.core, '') AS core, coalesce(k.input_shapes, '') AS shapes,
            coalesce(k.input_dtypes, '') AS dtypes, k.op_type IS NOT NULL AS typed,
            count(*) AS count, sum(s.dur_ns)::BIGINT AS total_ns
        FROM span s LEFT JOIN kernel k USING (span_id)
        WHERE s.kind IN ('kernel', 'memset') AND {_INSIDE} GROUP BY ALL ORDER BY total_ns DESC, op, core, shapes, dtypes
    """, _given(side(con, ranks, steps, whole))).fetchdf()  # fmt: skip


def host_calls(
    con: duckdb.DuckDBPyConnection, ranks: tuple[int, ...] | None, steps: tuple[int, ...] | None, whole: bool
) -> pd.DataFrame:
    """Operators, runtime calls and garbage collections on the host that start in a side's windows, by name. Calls
    nest: the time of one includes those inside it, and one directly inside another of its name is not added again."""
    return con.execute(f"""
        SELECT s.kind, s.name, count(*) AS count, sum(CASE WHEN p.name = s.name THEN 0 ELSE s.dur_ns END)::BIGINT
            AS total_ns
        FROM span s LEFT JOIN span p ON p.span_id = s.parent_id
        WHERE s.kind IN ('cpu_op', 'runtime', 'enqueue', 'dequeue', 'gc') AND {_INSIDE}
        GROUP BY ALL ORDER BY total_ns DESC, kind, name LIMIT {MOST_NAMES}
    """, _given(side(con, ranks, steps, whole))).fetchdf()  # fmt: skip
