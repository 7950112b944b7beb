"""What the windows of one side are filled with: every nanosecond belongs to one thing, so the things add up.

A window is a step of a rank, or the whole capture where no steps were recorded. Its time is given out in this order:

* While kernels (or memsets) run, it is the kernels' time. Where several run at once, each moment belongs to the one
  that started first; of those that start together the longest. A kernel that runs wholly beside others so has 0: making
  it slower costs nothing as long as it stays hidden.
* While communication operators run and no kernel does, it is exposed communication, given to operators the same way.
* While copies run and neither of the others does, it is exposed copies, the same way.
* Where nothing runs, it is a gap, in pieces by cause (analysis/idle/pieces.py).

Each of the four is found on its own, and so is the residual: what of the windows none of them covers. That the sum is
the length of the windows is therefore a check that can fail. Then there is no answer (`NotExact`).

What a capture did not record is not told apart. Without copies recorded nobody knows what is a gap, so both stay in the
residual.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pandas as pd

from npulens.analysis.device.frequency import mean_mhz
from npulens.analysis.idle.host_spans import NONE, hosts
from npulens.analysis.idle.pieces import CODES, idle
from npulens.analysis.intervals import EMPTY, Intervals, Ints
from npulens.analysis.look.compare import Side, Window, side
from npulens.analysis.modules.names import MODULE
from npulens.analysis.run import Run
from npulens.analysis.selection.blocks import BLOCKS, edges_of

#: What time is given to, in this order; each needs the ones before it.
KINDS = ("kernel", "communication", "copy", "unknown", "gap")
#: Idle time of a whole capture before its first step and after its last.
BEYOND = "beyond"
#: What tells one row from another.
COLUMNS = ("kind", "op", "name", "shapes", "dtypes", "operator", "module")


#: The sides of a launch; no device can launch more of them.
_SIDES, _MOST_SIDES = re.compile(r"\d{1,18}"), 2**31 - 1
#: Columns of the blocks: the first so many of them.
IN_BLOCK = tuple(f"ns_{block}" for block in range(BLOCKS))


class NotExact(ArithmeticError):
    """The pieces do not add up to the windows."""


@dataclass(frozen=True)
class Measured:
    """The windows of one side of one run, and what fills them."""

    side: Side
    origin_ns: int | None  # when the capture began, where its clock says so
    told: tuple[str, ...]  # of KINDS, what this capture can tell apart
    rows: pd.DataFrame  # COLUMNS, count, ns, whole_ns, threads: all windows; then ns in each block of steps in a row
    blocks: tuple[int, ...]  # windows in each block
    residual_ns: int
    sequence: Ints  # kernels of a middling window, stream by stream in order: rows of `rows`; -1 between streams
    ranks: tuple[OfRank, ...] = ()
    mhz: float | None = None  # mean clock of the cores in the windows; None where no samples say
    outside: Outside | None = None  # of whole captures; None where steps are compared


@dataclass(frozen=True)
class Outside:
    """What was recorded before the first task of the device and after the last, in the mean of the ranks."""

    before_ns: int
    after_ns: int
    recorded_ns: int  # all of the recording

    @property
    def ns(self) -> int:
        return self.before_ns + self.after_ns


@dataclass(frozen=True)
class OfRank:
    """What fills the windows of one rank."""

    rank: int
    windows: int
    dur_ns: int
    ns: tuple[tuple[str, int], ...]  # of KINDS, what the capture can tell apart


_KERNELS = """
    SELECT s.rank, s.track, s.ts_ns, s.ts_ns + s.dur_ns AS end_ns, s.span_id,
        hash(s.name, k.op_type, k.input_shapes, k.input_dtypes, k.grid, k.block) AS code
    FROM span s LEFT JOIN (SELECT span_id, op_type, input_shapes, input_dtypes, grid, block FROM kernel) k
        USING (span_id)
    WHERE s.kind IN ('kernel', 'memset') ORDER BY s.rank, s.ts_ns, end_ns DESC, s.span_id
"""
_OTHERS = {
    "communication": """
        SELECT s.rank, s.track, s.ts_ns, s.ts_ns + s.dur_ns AS end_ns, s.span_id, hash(coalesce(c.collective, s.name))
            AS code
        FROM span s LEFT JOIN (SELECT span_id, collective FROM comm) c USING (span_id)
        WHERE s.kind = 'comm_op' ORDER BY s.rank, s.ts_ns, end_ns DESC, s.span_id
    """,
    "copy": """
        SELECT s.rank, s.track, s.ts_ns, s.ts_ns + s.dur_ns AS end_ns, s.span_id, hash(t.direction, s.name) AS code
        FROM span s LEFT JOIN (SELECT span_id, direction FROM transfer) t USING (span_id)
        WHERE s.kind = 'memcpy' ORDER BY s.rank, s.ts_ns, end_ns DESC, s.span_id
    """,
    "unknown": """
        SELECT s.rank, s.track, s.ts_ns, s.ts_ns + s.dur_ns AS end_ns, s.span_id, hash(s.name) AS code
        FROM span s WHERE s.kind = 'unknown' ORDER BY s.rank, s.ts_ns, end_ns DESC, s.span_id
    """,
}
_TEXTS = """
    WITH chosen AS (
        SELECT unnest(?) AS span_id, unnest(?) AS inner_id, unnest(?) AS outer_id, unnest(?) AS module_id,
            unnest(?) AS place
    ), named AS (
        SELECT span_id, name FROM span WHERE span_id IN (
            SELECT unnest([span_id, outer_id, module_id]) FROM chosen
        )
    )
    SELECT s.name, coalesce(k.op_type, c.collective, t.direction) AS op_type,
        coalesce(k.input_shapes, h.input_shapes) AS shapes, coalesce(k.input_dtypes, h.input_dtypes) AS dtypes,
        o.name AS operator, m.name AS module, k.grid, k.block
    FROM chosen JOIN named s ON s.span_id = chosen.span_id
    LEFT JOIN (SELECT * FROM kernel SEMI JOIN chosen USING (span_id)) k ON k.span_id = chosen.span_id
    LEFT JOIN (SELECT * FROM comm SEMI JOIN chosen USING (span_id)) c ON c.span_id = chosen.span_id
    LEFT JOIN (SELECT * FROM transfer SEMI JOIN chosen USING (span_id)) t ON t.span_id = chosen.span_id
    LEFT JOIN named o ON o.span_id = chosen.outer_id
    LEFT JOIN named m ON m.span_id = chosen.module_id
    LEFT JOIN (SELECT * FROM host_op WHERE span_id IN (SELECT inner_id FROM chosen)) h ON h.span_id = chosen.inner_id
    ORDER BY place
"""
#: Names and shapes of the operators and modules that launched kernels, as numbers.
_HOST = """
    WITH wanted AS MATERIALIZED (SELECT unnest(?::BIGINT[]) AS span_id)
    SELECT s.span_id, s.name, coalesce(h.shapes, 0) AS shapes
    FROM (SELECT span_id, hash(name) AS name FROM span SEMI JOIN wanted USING (span_id)) s
    LEFT JOIN (SELECT span_id, hash(input_shapes, input_dtypes) AS shapes FROM host_op SEMI JOIN wanted USING (span_id))
        h USING (span_id)
    ORDER BY s.span_id
"""


def measure(
    con: duckdb.DuckDBPyConnection, ranks: tuple[int, ...] | None = None, steps: tuple[int, ...] | None = None,
    whole: bool = False,
) -> Measured:  # fmt: skip
    """What fills some windows of a run; None chooses every rank, every step."""
    run, found = Run.of(con), side(con, ranks, steps, whole)
    pieces = _Pieces(run, found)
    for rank in found.ranks:
        pieces.add(rank)
    rows, sequence = pieces.rows()
    clock, origin = con.execute("SELECT clock, origin_ns FROM run").fetchall()[0]
    covered = int(rows["ns"].sum())
    if covered + pieces.residual_ns != found.dur_ns:
        raise NotExact(f"pieces of {covered} ns and a residual of {pieces.residual_ns} ns do not add up to the "
                       f"{found.dur_ns} ns of the windows")  # fmt: skip
    return Measured(found, origin if clock == "unix" else None, pieces.told, rows, pieces.blocks, pieces.residual_ns,
                    sequence, tuple(pieces.ranks), _clock(run, found), _outside(con, found))  # fmt: skip


def _outside(con: duckdb.DuckDBPyConnection, found: Side) -> Outside | None:
    """Of whole captures, what their windows leave out of the recording."""
    if not found.whole or not found.windows:
        return None
    rows = con.execute("SELECT rank, min(ts_ns), max(ts_ns + dur_ns) FROM span GROUP BY rank").fetchall()
    ends = {rank: (int(begin), int(end)) for rank, begin, end in rows}
    before = after = 0
    for window in found.windows:
        begin, end = ends[window.rank]
        before += max(0, window.start_ns - begin)
        after += max(0, end - window.start_ns - window.dur_ns)
    count = len(found.windows)
    return Outside(before // count, after // count, (before + found.dur_ns + after) // count)


def _clock(run: Run, found: Side) -> float | None:
    """The mean clock of the windows, each as long as it is; what lies before the first sample is not known."""
    means, lengths = [np.zeros(0)], [np.zeros(0)]
    for rank in found.ranks:
        mine = [(w.start_ns, w.dur_ns) for w in found.windows if w.rank == rank]
        begins, durations = np.array(mine, np.int64).T
        means.append(mean_mhz(run, rank, begins, begins + durations))
        lengths.append(durations.astype(np.float64))
    every, weights = np.concatenate(means), np.concatenate(lengths)
    known = np.isfinite(every)
    return float(np.average(every[known], weights=weights[known])) if weights[known].sum() > 0 else None


class _Pieces:
    """Pieces of a side in the making, rank by rank."""

    def __init__(self, run: Run, found: Side) -> None:
        self._run, self._windows = run, found.windows
        self._whole = found.whole
        parts = ("computing", "communication", "copy", "unknown", "idle")
        self.told = KINDS[: next((place for place, part in enumerate(parts)
                                  if dict(found.parts)[part] is None), len(KINDS))]  # fmt: skip
        self._work = {"kernel": run.columns(_KERNELS)} | {kind: run.columns(sql) for kind, sql in _OTHERS.items()}
        self._codes: list[Ints] = []
        self._ids: list[Ints] = []  # span, innermost operator, outermost operator, module
        self._kinds: list[Ints] = []
        self._ns: list[tuple[Ints, Ints, Ints]] = []  # number of a span, block, ns
        self._starts: list[Ints] = []  # 1 where a span starts in a window
        self._lengths: list[Ints] = []  # how long it takes, whoever runs beside it
        self._gaps: dict[str, tuple[int, Ints]] = {}  # cause: how many, ns in each block
        self._block = blocks_of(found.windows)
        self.blocks = tuple(np.bincount([self._block[w.step] for w in found.windows]).tolist())
        self._middle = middling(found.windows)
        self._order: tuple[Ints, Ints] | None = None  # codes of the kernels of the middling window, and their tracks
        self.residual_ns = 0
        self.ranks: list[OfRank] = []

    def add(self, rank: int) -> None:
        """One rank."""
        windows = sorted((w for w in self._windows if w.rank == rank), key=lambda w: w.start_ns)
        begins = np.array([w.start_ns for w in windows], np.int64)
        ends = np.array([w.start_ns + w.dur_ns for w in windows], np.int64)
        block = np.array([self._block[w.step] for w in windows], np.int64)
        covered = EMPTY
        given: dict[str, int] = {}
        for place, kind in enumerate(KINDS[:-1]):
            if kind not in self.told:
                break
            rows = self._of(kind, rank)
            owned = rows["end_ns"] - (owned_from := first_come(rows["ts_ns"], rows["end_ns"]))
            keep = owned > 0
            of, window, inside_from, inside_to = cut(owned_from[keep], rows["end_ns"][keep], begins, ends)
            ns = inside_to - inside_from - covered.within(inside_from, inside_to)
            self._note(place, rank, rows, (np.flatnonzero(keep)[of], block[window], ns), begins, ends)
            covered = covered | Intervals.union_of(rows["ts_ns"], rows["end_ns"])
            given[kind] = int(ns.sum())
        if "gap" in self.told:
            before = int(covered.within(begins, ends).sum())
            covered = covered | self._idle(rank, begins, ends, block)
            given["gap"] = int(covered.within(begins, ends).sum()) - before
        self.ranks.append(OfRank(rank, len(windows), int((ends - begins).sum()), tuple(given.items())))
        self.residual_ns += int((ends - begins).sum() - covered.within(begins, ends).sum())

    def _of(self, kind: str, rank: int) -> dict[str, Any]:
        rows = self._work[kind]
        a, b = np.searchsorted(rows["rank"], (rank, rank + 1))
        return {name: values[a:b].astype(np.uint64 if name == "code" else np.int64) for name, values in rows.items()}

    def _note(
        self, kind: int, rank: int, rows: dict[str, Any], given: tuple[Ints, Ints, Ints], begins: Ints, ends: Ints
    ) -> None:
        """Keeps the spans that start in a window or are given time of one: which of them, in which block, how much."""
        at = np.searchsorted(begins, rows["ts_ns"], side="right") - 1
        starts = at >= 0
        starts[starts] = rows["ts_ns"][starts] < ends[at[starts]]
        of, block, ns = (values[given[2] > 0] for values in given)
        keep = starts.copy()
        keep[of] = True
        ids = rows["span_id"][keep]
        codes = rows["code"][keep]
        if kind == 0:
            by = launchers(self._run, rank, ids)
            columns = np.stack((ids, by.inner, by.outer, by.module))
            codes = self._with_host(codes, columns)
        else:
            columns = np.stack((ids, *[np.full(len(ids), -1, np.int64)] * 3))
        self._codes.append(codes * np.uint64(len(KINDS)) + np.uint64(kind))
        self._ids.append(columns)
        self._kinds.append(np.full(len(ids), kind, np.int64))
        before = sum(map(len, self._starts))
        self._ns.append((before + np.cumsum(keep)[of] - 1, block, ns))
        self._starts.append(starts[keep].astype(np.int64))
        self._lengths.append((rows["end_ns"] - rows["ts_ns"])[keep] * self._starts[-1])
        if kind == 0 and self._middle is not None and self._middle.rank == rank:
            begin, end = self._middle.start_ns, self._middle.start_ns + self._middle.dur_ns
            ts, track = rows["ts_ns"][keep], rows["track"][keep]
            mine = np.flatnonzero((ts >= begin) & (ts < end))
            mine = mine[np.argsort(track[mine], kind="stable")]
            self._order = self._codes[-1][mine], track[mine]

    def _with_host(self, codes: Ints, ids: Ints) -> Ints:
        """The codes of kernels with what launched them mixed in."""
        wanted = np.unique(ids[1:])
        known = self._run.columns(_HOST, [wanted[wanted >= 0].tolist()])
        spans = known["span_id"].astype(np.int64)
        if not len(spans):
            return codes
        for column, row in (("shapes", 1), ("name", 2), ("name", 3)):
            at = np.minimum(np.searchsorted(spans, ids[row]), len(spans) - 1)
            value = np.where(spans[at] == ids[row], known[column].astype(np.uint64)[at], np.uint64(row))
            codes = (codes ^ value) * np.uint64(0x9E3779B97F4A7C15)
        return codes

    def _idle(self, rank: int, begins: Ints, ends: Ints, block: Ints) -> Intervals:
        """Gaps by cause; what of a whole capture lies outside its steps has no cause."""
        pieces = self._run.get(idle)
        a, b = np.searchsorted(pieces.rank, (rank, rank + 1))
        starts, stops, causes = pieces.start[a:b], pieces.end[a:b], pieces.cause[a:b]
        of, at, inside_from, inside_to = cut(starts, stops, begins, ends)
        ns, count = np.zeros((len(CODES), len(self.blocks)), np.int64), np.zeros(len(CODES), np.int64)
        np.add.at(ns, (causes[of], block[at]), inside_to - inside_from)
        np.add.at(count, causes[of], 1)
        self._gap(CODES, ns, count)
        covered, window = Intervals.union_of(starts, stops), self._run.window(rank)
        if self._whole and window is not None:
            outside = self._run.activity(rank).work().outside() & Intervals.union_of(*map(np.array, (
                [begins[0], window[1]], [min(window[0], ends[-1]), ends[-1]])))  # fmt: skip
            self._gap((BEYOND,), np.array([[outside.total()]]), np.array([len(outside.starts)]))
            covered = covered | outside
        return covered

    def _gap(self, causes: tuple[str, ...], ns: Ints, count: Ints) -> None:
        for cause, lengths, often in zip(causes, ns, count.tolist(), strict=True):
            if often:
                held = self._gaps.get(cause, (0, np.zeros_like(lengths)))
                self._gaps[cause] = held[0] + often, held[1] + lengths

    def rows(self) -> tuple[pd.DataFrame, Ints]:
        """One row for everything that is alike, and the middling window's kernels as numbers of rows."""
        codes = np.concatenate(self._codes) if self._codes else np.zeros(0, np.uint64)
        known, first, of = np.unique(codes, return_index=True, return_inverse=True)
        counts, lengths = np.zeros(len(known), np.int64), np.zeros((len(known), len(self.blocks)), np.int64)
        np.add.at(counts, of, np.concatenate(self._starts) if self._starts else np.zeros(0, np.int64))
        wholes = np.zeros(len(known), np.int64)
        np.add.at(wholes, of, np.concatenate(self._lengths) if self._lengths else np.zeros(0, np.int64))
        for spans, block, ns in self._ns:
            np.add.at(lengths, (of[spans], block), ns)
        ids = (np.concatenate(self._ids, axis=1) if self._ids else np.zeros((4, 0), np.int64))[:, first]
        texts = self._run.con.execute(_TEXTS, [*ids.tolist(), list(range(len(known)))]).fetchall()
        kinds = (np.concatenate(self._kinds) if self._kinds else np.zeros(0, np.int64))[first]
        table: list[tuple[Any, ...]] = [
            (KINDS[kind], op or name, name, *(text or "" for text in others), count, sum(ns), whole,
             _sides(grid) * _sides(block), *ns)
            for kind, (name, op, *others, grid, block), count, whole, ns in zip(
                kinds.tolist(), texts, counts.tolist(), wholes.tolist(), lengths.tolist(), strict=True)
        ]  # fmt: skip
        table += [("gap", cause, cause, *[""] * 4, count, int(ns.sum()), int(ns.sum()), 0, *ns.tolist())
                  for cause, (count, ns) in self._gaps.items()]  # fmt: skip
        numbers = ["count", "ns", "whole_ns", "threads", *IN_BLOCK[: len(self.blocks)]]
        frame = pd.DataFrame(table, columns=[*COLUMNS, *numbers]).astype(dict.fromkeys(numbers, "int64"))
        return frame, self._sequence(known)

    def _sequence(self, known: Any) -> Ints:
        if self._order is None or not len(self._order[0]):
            return np.zeros(0, np.int64)
        codes, tracks = self._order
        places = np.searchsorted(known, codes).astype(np.int64)
        return np.insert(places, np.flatnonzero(np.diff(tracks)) + 1, -1)


def _sides(text: str | None) -> int:
    """The product of the sides of a launch, as `[100,50,1]`; 0 where none, or none that can be, is recorded."""
    sides = [int(side) for side in _SIDES.findall(text or "")]
    product = math.prod(sides) if sides else 0
    return product if product <= _MOST_SIDES else 0


# Windows of a side put into blocks, and intervals cut at them.
def blocks_of(windows: tuple[Window, ...]) -> dict[int | None, int]:
    """Step -> the block it is in, in order of time; whole captures are one block."""
    steps = list(dict.fromkeys(window.step for window in sorted(windows, key=lambda one: one.start_ns)))
    edges = edges_of(len(steps))
    return {step: int(np.searchsorted(edges, place, side="right")) - 1 for place, step in enumerate(steps)}


def middling(windows: tuple[Window, ...]) -> Window | None:
    """The window of middling length on the first rank."""
    mine = sorted((w for w in windows if w.rank == windows[0].rank), key=lambda w: (w.dur_ns, w.start_ns))
    return mine[len(mine) // 2] if mine else None


def first_come(starts: Ints, ends: Ints) -> Ints:
    """From when on each span is the one that counts, if it is: spans in order of their start, the longest first."""
    if not len(starts):
        return starts
    before = np.concatenate((starts[:1], np.maximum.accumulate(ends)[:-1]))
    return np.asarray(np.maximum(starts, before))


def cut(starts: Ints, ends: Ints, begins: Ints, stops: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """The pieces of disjoint ordered intervals in disjoint ordered windows: which interval, which window, from, to."""
    first = np.searchsorted(stops, starts, side="right")
    count = np.maximum(np.searchsorted(begins, ends, side="left") - first, 0)
    of = np.repeat(np.arange(len(count)), count)
    window = np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
    return of, window, np.maximum(starts[of], begins[window]), np.minimum(ends[of], stops[window])


# Which operator and which module of the script each kernel came from, as far as launches and frames were recorded.
#: Operators that only wrap others: everything a compiled region or a wrapper launches would have one name.
WRAPPERS = ("Torch-Compiled Region", "CompiledFunction", "## Call CompiledFxGraph", "DistributedDataParallel")

_LAUNCHES = """
    SELECT l.rank, l.dst_span_id AS task, arg_min(l.src_span_id, (
        CASE h.kind WHEN 'cpu_op' THEN 0 WHEN 'enqueue' THEN 1 WHEN 'runtime' THEN 2 ELSE 3 END, l.src_span_id
    )) AS source
    FROM link l JOIN span h ON h.span_id = l.src_span_id
    WHERE l.rank BETWEEN ? AND ? AND l.route NOT IN ('fwdbwd', 'task_queue') GROUP BY 1, 2 ORDER BY 1, 2
"""
_NAMED = f"""
    SELECT span_id, CASE WHEN starts_with(name, '{MODULE}') THEN 2 WHEN kind <> 'cpu_op' THEN 0
        WHEN {" OR ".join(f"starts_with(name, '{name}')" for name in WRAPPERS)} THEN 0 ELSE 1 END AS what
    FROM span WHERE rank = ? AND kind IN ('cpu_op', 'python', 'annotation') ORDER BY span_id
"""
_OPERATOR, _MODULE = 1, 2


@dataclass(frozen=True)
class Launchers:
    """Per kernel: spans of the innermost operator, the outermost one and the innermost module; NONE where unknown."""

    inner: Ints
    outer: Ints
    module: Ints


def launchers(run: Run, rank: int, tasks: Ints) -> Launchers:
    """What launched the tasks of a rank."""
    nothing = np.full(len(tasks), NONE, np.int64)
    found = Launchers(nothing.copy(), nothing.copy(), nothing.copy())
    source = sources(run, rank, tasks)
    if (source == NONE).all():
        return found
    named = run.columns(_NAMED, [rank])
    spans = run.get(hosts).spans(rank)
    order = np.argsort(spans.ids, kind="stable")
    what = np.zeros(len(spans.ids), np.int8)
    what[order] = _looked_up(spans.ids[order], named["span_id"], named["what"], 0)
    at = _looked_up(source, spans.ids[order], order, NONE)
    _climb(found, at, what, spans.ids, spans.parent)
    return found


def sources(run: Run, rank: int, tasks: Ints) -> Ints:
    """The span of the host that launched each task of a rank, or NONE."""
    links = run.of_rank(_LAUNCHES, rank)
    return _looked_up(tasks, links["task"], links["source"], NONE)


def _climb(found: Launchers, at: Ints, what: Any, ids: Ints, parent: Any) -> None:
    """From the launch up through everything that contains it, all kernels at once."""
    rows = np.flatnonzero(at != NONE)
    at = at[rows]
    while len(rows):
        here, name = what[at], ids[at]
        operator, module = here == _OPERATOR, here == _MODULE
        first = operator & (found.inner[rows] == NONE)
        found.inner[rows[first]] = name[first]
        found.outer[rows[operator]] = name[operator]
        first = module & (found.module[rows] == NONE)
        found.module[rows[first]] = name[first]
        at = parent[at].astype(np.int64)
        rows, at = rows[at != NONE], at[at != NONE]


def _looked_up(keys: Ints, known: Ints, values: Ints, missing: int) -> Ints:
    """The value of each key; ``known`` is sorted."""
    if not len(known):
        return np.full(len(keys), missing, np.int64)
    at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return np.where(known[at] == keys, values[at], missing).astype(np.int64)
