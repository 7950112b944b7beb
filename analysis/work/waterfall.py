"""From the peak of the matrix units down to what was reached: where every ns of a window goes.

`waterfall(con)` gives one `Row` per window of `npulens breakdown`: of each rank the whole capture (`step` None), then
its steps. `Waterfall.total` and `by("rank" | "step" | "phase")` add them up. A row has `dur_ns` and `parts`, pairs of
a name of `PARTS` and its ns, in that order. They sum to `dur_ns`; what they miss is `residual_ns`, a check that can
fail. Where the device's work was not recorded, `parts` is empty: not measured.

A ns in which kernels compute belongs to one kernel: of those that run, the one that started first, on the lower track
where two start together. Its time is split in this order. First comes what its work needs at the peak of the matrix
units. Then comes what fusing it with its neighbours would give back (`unfused`), what its roof needs beyond that peak,
and the rest. So of a kernel that runs behind another, waste is hidden first. The work of kernels that are hidden
altogether counts in `peak_ns` and so in HFU, but not in `at_peak`.

A roof is that of a call. A call's kernels share it by their time. An operator that is faster than its roof is in
`above_roof` with all of its time: the roof or the model is wrong. Where even the peak is too slow for its operations,
they count nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from npulens.analysis import views
from npulens.analysis.detectors.unfused import fused
from npulens.analysis.device.kernels import Floats, Kernels, kernels
from npulens.analysis.intervals import Ints, distinct
from npulens.analysis.run import Run
from npulens.analysis.work.mfu import AGAIN, UNTOLD, recomputed
from npulens.analysis.work.operators import Operator, Operators, operators

#: In the order in which they are drawn. Those of kernels come first, the others are of `npulens breakdown`.
COMPUTING = (
    "at_peak",  # what the matrix units need at their peak
    "matrix_roof",  # matrix operators: what their roof, memory or the other units, needs beyond that
    "matrix_slow",  # matrix operators: over their roof
    "other_roof",  # other operators with known work: at their roof
    "other_slow",  # the same: over their roof
    "unfused",  # what fusing would give back
    "above_roof",  # operators that are faster than their roof allows: the roof or the model is wrong
    "no_roof",  # work that is known, on a device whose peak is not
    "no_work",  # work that is not known
)
OUTSIDE = ("communication", "copies", "unknown", "idle")
PARTS = (*COMPUTING, *OUTSIDE)
#: A share of the work at peak that may be untold without hiding MFU.
NEGLIGIBLE = 0.01
#: Parts of a kernel's time are counted in 1/1024 ns, so that many short kernels do not lose what rounding takes.
FINE = 10
LONGEST = 1 << 52  # a window beyond that is counted in whole ns: 64 bits hold no more
#: No device does more operations in a ns: 1e17 a second.
MOST_OPERATIONS = 1e8
#: Kernels that are looked at together.
CHUNK = 1 << 16
BF16 = "bf16"


@dataclass(frozen=True)
class Row:
    """One window, or several added up; None is "not one" or "not known"."""

    rank: int | None
    step: int | None
    phase: str | None  # of a serving engine: prefill, decode or mixed
    windows: int  # how many were added up
    start_ns: int | None
    dur_ns: int
    parts: tuple[tuple[str, int], ...]  # empty: not measured
    matrix_flops: int  # operations of the matrix units, as far as they are known
    again_flops: int  # of that, what was computed before and is computed again for the backward pass
    peak_ns: int  # what these need at the peak of the precision in which they ran
    again_ns: int  # of that, what is computed again
    untold_ns: int  # of that, where nothing tells whether it is
    bf16_ns: int | None  # what they would need at the device's peak for bf16
    bf16_again_ns: int | None
    peaks_known: bool  # whether every precision in which matrices were multiplied has a known peak

    @property
    def residual_ns(self) -> int | None:
        """What the parts do not cover; None where there are none."""
        return self.dur_ns - sum(ns for _, ns in self.parts) if self.parts else None

    @property
    def hfu(self) -> float | None:
        """Time at the peak over the window, whatever is computed again included."""
        return self.peak_ns / self.dur_ns if self.peaks_known and self.peak_ns and self.dur_ns else None

    @property
    def mfu(self) -> float | None:
        """The same without what is computed again; None where that cannot be told."""
        if self.hfu is None or self.untold_ns > NEGLIGIBLE * self.peak_ns:
            return None
        return (self.peak_ns - self.again_ns) / self.dur_ns

    @property
    def mfu_bf16(self) -> float | None:
        """MFU as papers give it: every operation at the device's peak for bf16."""
        if self.mfu is None or self.bf16_ns is None or self.bf16_again_ns is None:
            return None
        return (self.bf16_ns - self.bf16_again_ns) / self.dur_ns

    def as_dict(self) -> dict[str, Any]:
        return {
            **asdict(self), "parts": dict(self.parts), "residual_ns": self.residual_ns, "hfu": self.hfu,
            "mfu": self.mfu, "mfu_bf16": self.mfu_bf16,
        }  # fmt: skip


@dataclass(frozen=True)
class Waterfall:
    """The windows of a run, rank by rank, and their sums."""

    rows: tuple[Row, ...]

    @property
    def windows(self) -> tuple[Row, ...]:
        """The windows that a sum is made of: the steps of each rank, its whole capture where it has none."""
        stepped = {row.rank for row in self.rows if row.step is not None}
        return tuple(row for row in self.rows if row.step is not None or row.rank not in stepped)

    @property
    def total(self) -> Row | None:
        """Everything together, without ranks that are not measured; None where there is no window."""
        return next(iter(self.by("run")), None)

    def by(self, what: str, rank: int | None = None, step: int | None = None) -> tuple[Row, ...]:
        """Sums by `run`, `rank`, `step` or `phase`, of one rank or step where it is given."""
        keys: dict[str, Callable[[Row], Hashable]] = {
            "run": lambda row: None, "rank": lambda row: row.rank, "step": lambda row: row.step,
            "phase": lambda row: row.phase,
        }  # fmt: skip
        chosen = [
            row for row in self.windows if (rank is None or row.rank == rank) and (step is None or row.step == step)
        ]
        return _added(chosen, keys[what])

    def as_dict(self) -> dict[str, Any]:
        """What `npulens roofline --json` holds under `waterfall`."""
        total = self.total
        return {
            "total": None if total is None else total.as_dict(), "rows": [row.as_dict() for row in self.rows],
            **{f"by_{what}": [row.as_dict() for row in self.by(what)] for what in ("rank", "phase")},
        }  # fmt: skip


def _added(rows: Iterable[Row], key: Callable[[Row], Hashable]) -> tuple[Row, ...]:
    every = list(rows)
    groups: dict[Hashable, list[Row]] = {}
    for row in [row for row in every if row.parts] or every:
        groups.setdefault(key(row), []).append(row)
    return tuple(_sum(group) for group in groups.values())


def _sum(rows: Sequence[Row]) -> Row:
    def same(values: list[Any]) -> Any:
        return values[0] if len(set(values)) == 1 else None

    def whole(values: list[int | None]) -> int | None:
        known = [value for value in values if value is not None]
        return sum(known) if len(known) == len(values) else None

    parts = zip(*(row.parts for row in rows), strict=True)
    return Row(
        same([row.rank for row in rows]), same([row.step for row in rows]), same([row.phase for row in rows]),
        sum(row.windows for row in rows), rows[0].start_ns if len(rows) == 1 else None,
        sum(row.dur_ns for row in rows), tuple((each[0][0], sum(ns for _, ns in each)) for each in parts),
        sum(row.matrix_flops for row in rows), sum(row.again_flops for row in rows),
        sum(row.peak_ns for row in rows), sum(row.again_ns for row in rows), sum(row.untold_ns for row in rows),
        whole([row.bf16_ns for row in rows]), whole([row.bf16_again_ns for row in rows]),
        all(row.peaks_known for row in rows),
    )  # fmt: skip


def waterfall(con: duckdb.DuckDBPyConnection) -> Waterfall:
    """The waterfall of every rank and step of a run."""
    views.install(con)
    return of_run(Run.of(con))


def of_run(run: Run) -> Waterfall:
    asked = run.con.execute(
        "SELECT d.rank, d.step, s.phase, d.ts_ns, d.dur_ns, coalesce(d.communication_not_overlapped_ns, 0), "
        "d.copy_not_overlapped_ns, d.unknown_not_overlapped_ns, d.idle_ns FROM device_time d "
        "LEFT JOIN step s ON s.rank = d.rank AND s.step = d.step WHERE d.dur_ns IS NOT NULL "
        "ORDER BY d.rank, d.step IS NOT NULL, d.ts_ns, d.step"
    ).fetchall()
    by_rank: dict[int, list[Any]] = {}
    for rank, *window in asked:
        by_rank.setdefault(rank, []).append(window)
    return Waterfall(tuple(row for rank, windows in by_rank.items() for row in _of_rank(run, rank, windows)))


def _of_rank(run: Run, rank: int, windows: list[Any]) -> Iterable[Row]:
    begins, ends = (np.array([w[2] + extra * w[3] for w in windows], np.int64) for extra in (0, 1))
    edges = distinct(np.concatenate((begins, ends)))
    first, last = np.searchsorted(edges, begins), np.searchsorted(edges, ends)
    mine = run.get(_of_kernels)
    low, high = np.searchsorted(mine.rank, [rank, rank + 1])
    order = np.argsort(mine.begin[low:high], kind="stable") + low
    fine = FINE if int(edges[-1]) - int(edges[0]) < LONGEST else 0
    inner, whole = _Sums(len(COMPUTING), len(edges), fine), _Sums(7, len(edges), fine)
    reach = int(edges[0])
    for at in range(0, len(order), CHUNK):
        rows = order[at : at + CHUNK]
        reach = _attribute(mine, rows, edges, reach, inner)
        _add_work(mine, rows, edges, whole)
    on = np.unique(mine.of[low:high])
    known, bf16_known = not mine.lacking[on].any(), not np.isnan(mine.bf16_ns[on]).any()
    for (step, phase, begin, dur, *outer), sums, amounts in zip(
        windows, inner.between(first, last), whole.between(first, last), strict=True
    ):
        told = np.diff(np.cumsum(sums) >> fine, prepend=0).tolist()
        parts = () if None in outer else tuple(zip(PARTS, (*told, *outer), strict=True))
        flops, again_flops, peak, again, untold, bf16, bf16_again = (int(one) for one in amounts)
        yield Row(
            rank, step, phase, 1, begin, dur, parts, flops, again_flops, peak >> fine, again >> fine, untold >> fine,
            bf16 >> fine if bf16_known else None, bf16_again >> fine if bf16_known else None, known,
        )  # fmt: skip


class _Sums:
    """Whole numbers added up between neighbouring edges."""

    def __init__(self, columns: int, edges: int, fine: int) -> None:
        self.fine = fine  # times are counted in ns / 2**fine
        self._totals = np.zeros((columns, edges), np.int64)

    def add(self, column: int, where: Ints, amounts: Ints) -> None:
        """Amounts that lie after the edges `where`."""
        np.add.at(self._totals[column], where + 1, amounts)

    def between(self, first: Ints, last: Ints) -> Ints:
        """One line a window."""
        sums = np.cumsum(self._totals, axis=1)
        found: Ints = (sums[:, last] - sums[:, first]).T
        return found


# ---- What kernels are made of


@dataclass(frozen=True)
class _Kernels:
    """Per kernel, in the order of kernels(run); below, of one call of each operator."""

    rank: Ints
    begin: Ints
    dur: Ints
    of: Ints  # its operator
    first: NDArray[np.bool_]  # of its call
    share: Floats  # which part of its call's time is its own
    cut: Ints  # what fusing would give back
    again: NDArray[np.int8]
    kind: NDArray[np.int8]  # one of _MATRIX ... _NO_WORK
    peak: Floats  # ns at the peak of the matrix units
    beyond: Floats  # ns that the roof needs more than that
    flops: Floats
    bf16_ns: Floats  # NaN: no peak
    lacking: NDArray[np.bool_]  # matrices are multiplied, and no peak is known


_MATRIX, _OTHER, _ABOVE, _NO_ROOF, _NO_WORK = range(5)


def _of_kernels(run: Run) -> _Kernels:
    every, found = run.get(kernels), run.get(operators)
    kind, peak, beyond, flops, bf16, lacking = np.array([_facts(one) for one in found.every]).reshape(-1, 6).T
    return _Kernels(
        every.rank, every.ts, every.dur, found.of, found.first, _of_a_call(every, found), run.get(fused),
        run.get(recomputed), kind.astype(np.int8), peak, beyond, flops, bf16, lacking.astype(np.bool_),
    )  # fmt: skip


def _facts(one: Operator) -> tuple[float, ...]:
    """Of one call: its kind, ns at peak, ns at its roof beyond that, operations, ns at the peak for bf16, no peak."""
    flops, least = float(one.work.matrix or 0), one.least
    peak = least.matrix if least is not None else None
    if (peak or 0.0) > one.each_ns or flops > MOST_OPERATIONS * one.each_ns:
        return _kind(one), 0.0, 0.0, 0.0, 0.0, False  # it cannot have done so much: nothing is known of it
    rate = one.roofs.matrix.get(BF16) if one.roofs is not None else None
    bf16 = flops * 1e9 / rate if rate else np.nan if flops else 0.0
    kind = _kind(one)
    beyond = (one.roof_ns or 0.0) - (peak or 0.0) if kind in (_MATRIX, _OTHER) else 0.0
    return kind, peak or 0.0, beyond, flops, bf16, bool(flops) and peak is None


def _kind(one: Operator) -> int:
    work, least = one.work, one.least
    if work.matrix is None or (work.matrix == 0 and work.bytes is None):
        return _NO_WORK
    if one.above is not None:
        return _ABOVE
    if least is None or least.ns is None or least.matrix is None or (work.matrix == 0 and least.memory is None):
        return _NO_ROOF
    return _MATRIX if work.matrix else _OTHER


def _of_a_call(every: Kernels, found: Operators) -> Floats:
    """Which part of the work of a call is each kernel's: its part of the time that the call's kernels took."""
    share = np.ones(len(every))
    several = np.array([one.kernels > one.calls for one in found.every], np.bool_)
    rows = np.flatnonzero(several[found.of]) if len(every) else np.zeros(0, np.int64)
    _, where = np.unique(found.of[rows] + len(found.every) * (every.host[rows] + 1), return_inverse=True)
    where, dur = where.ravel(), every.dur[rows]
    whole, calls = np.bincount(where, dur), np.bincount(where, found.first[rows])
    share[rows] = calls[where] * dur / np.maximum(whole[where], 1)
    return share


# ---- From kernels to windows


def _attribute(mine: _Kernels, rows: Ints, edges: Ints, reach: int, sums: _Sums) -> int:
    """Give each of some kernels, by start, its own time and split it; `reach` is where the time before them ends."""
    begin = mine.begin[rows]
    ends = begin + mine.dur[rows]
    until = np.maximum.accumulate(np.maximum(ends, reach))
    own = np.maximum(begin, np.concatenate(([reach], until[:-1])))
    which, where, length = _pieces(own, ends, edges)
    row = rows[which]
    of, left = mine.of[row], length << sums.fine
    kind, mine_ns = mine.kind[of], ends[which] - own[which]
    # Of a kernel in several pieces each has its part.
    piece = np.where(length == mine_ns, 1.0, length / mine_ns) * (1 << sums.fine)

    def taken(ns: Floats, but: NDArray[np.bool_]) -> Ints:
        amount: Ints = np.minimum((ns * piece).astype(np.int64), left)
        amount[but] = 0
        np.subtract(left, amount, out=left)
        return amount

    share = mine.share[row]
    sums.add(0, where, taken(mine.peak[of] * share, kind != _MATRIX))
    sums.add(5, where, taken(mine.cut[row].astype(np.float64), kind == _ABOVE))
    beyond = taken(mine.beyond[of] * share, kind > _OTHER)
    for column, amount, which_kind in (
        (1, beyond, _MATRIX), (2, left, _MATRIX), (3, beyond, _OTHER), (4, left, _OTHER), (6, left, _ABOVE),
        (7, left, _NO_ROOF), (8, left, _NO_WORK),
    ):  # fmt: skip
        some = np.flatnonzero(kind == which_kind)
        sums.add(column, where[some], amount[some])
    return int(until[-1])


def _add_work(mine: _Kernels, rows: Ints, edges: Ints, sums: _Sums) -> None:
    """The work of every kernel, hidden ones too: what lies between two edges by its part of the kernel's time."""
    rows = rows[(mine.flops[mine.of[rows]] > 0) & (mine.dur[rows] > 0)]
    which, where, length = _pieces(mine.begin[rows], mine.begin[rows] + mine.dur[rows], edges)
    row = rows[which]
    of, part = mine.of[row], length / mine.dur[row] * mine.share[row]
    peak, bf16 = (
        (one[of] * part * (1 << sums.fine)).astype(np.int64) for one in (mine.peak, np.nan_to_num(mine.bf16_ns))
    )
    # A call's operations count at its first kernel, so that a sum of calls is a whole multiple of one.
    flops = np.rint(mine.flops[of] * mine.first[row] * length / mine.dur[row]).astype(np.int64)
    again, untold = (np.flatnonzero(mine.again[row] == one) for one in (AGAIN, UNTOLD))
    every = np.arange(len(row))
    for column, amount, some in (
        (0, flops, every), (1, flops, again), (2, peak, every), (3, peak, again), (4, peak, untold), (5, bf16, every),
        (6, bf16, again),
    ):  # fmt: skip
        sums.add(column, where[some], amount[some])


def _pieces(begin: Ints, end: Ints, edges: Ints) -> tuple[Ints, Ints, Ints]:
    """Intervals cut at the edges: whose each piece is, after which edge it lies, and its length. Empty ones vanish."""
    low, high = np.maximum(begin, edges[0]), np.minimum(end, edges[-1])
    rows = np.flatnonzero(high > low)
    first = np.searchsorted(edges, low[rows], side="right") - 1
    last = np.searchsorted(edges, high[rows], side="left") - 1
    count = last - first + 1
    which = np.repeat(rows, count)
    where = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
    return which, where, np.minimum(high[which], edges[where + 1]) - np.maximum(low[which], edges[where])
