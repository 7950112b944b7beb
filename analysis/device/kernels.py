"""Every kernel of a run in columns, and what kind of work each is.

Two kernels are of one kind when they do the same work. They have the same operator type (or name, where no type is
recorded), core, shapes, types, formats and block count. A CUDA or ROCm profiler gives kernels no shapes; there the
operator that launched them says them. Where none says them, the name with the launch geometry (grid and block) tells
the work.

Kinds make durations comparable. `expected` holds what a kernel usually takes. `step_slowdown` is how much slower than
usual all of a rank's kernels ran in one step.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.device.family import family
from npulens.analysis.device.kinds import Bools, Kinds
from npulens.analysis.finding import Evidence, NotMeasured, Value
from npulens.analysis.idle.behind import counted
from npulens.analysis.intervals import Ints, combined
from npulens.analysis.limits import COVERED
from npulens.analysis.run import Run

Floats = NDArray[np.float64]
#: Fewer kernels of a kind than this say nothing of what is usual.
ENOUGH = 5
#: Kernels of one name, grid and block do the same work if so many of them take the median, within so much.
ALIKE, NEAR = 0.95, 0.25
#: MAD x this is the standard deviation of a normal distribution.
SIGMA = 1.4826

# A kind is told by all of these. Joining the texts of millions of kernels takes gigabytes. So each table hashes its own
# first and only numbers are joined; the texts are read once for each kind.
_OWN = """op_type, core, input_formats, output_shapes, output_dtypes, output_formats, block_num, mix_block_num, grid,
    block"""
#: The operator that launched each kernel: the one around the launching call, else the one that the profiler says. An
#: operator may end before its call does. So one that began within the other, before the call, is nearer and counts.
LAUNCHED_BY = """
    SELECT coalesce(told.span_id, around.span_id) AS span_id,
        CASE WHEN nearer.track = around.track AND nearer.ts_ns BETWEEN around.ts_ns AND around.call_ns
             THEN told.op_span_id ELSE coalesce(around.host_id, told.op_span_id) END AS host_id
    FROM (SELECT span_id, op_span_id FROM kernel WHERE op_span_id IS NOT NULL) told FULL JOIN (
        SELECT l.dst_span_id AS span_id, min(host.span_id) AS host_id, arg_min(host.track, host.span_id) AS track,
            arg_min(host.ts_ns, host.span_id) AS ts_ns, arg_min(call.ts_ns, host.span_id) AS call_ns
        FROM link l
        JOIN (SELECT span_id, ts_ns, CASE WHEN kind = 'cpu_op' THEN span_id ELSE parent_id END AS host_id
              FROM span) call ON call.span_id = l.src_span_id
        JOIN (SELECT span_id, track, ts_ns FROM span WHERE kind = 'cpu_op') host ON host.span_id = call.host_id
        WHERE l.route = 'correlation' GROUP BY 1
    ) around ON around.span_id = told.span_id
    LEFT JOIN (SELECT span_id, track, ts_ns FROM span WHERE kind = 'cpu_op') nearer
        ON nearer.span_id = told.op_span_id AND told.op_span_id <> around.host_id
"""
# Of millions of host operators only those are hashed that launched a kernel.
_CODES = f"""
    WITH launched AS MATERIALIZED ({LAUNCHED_BY}), hosts AS (SELECT DISTINCT host_id FROM launched), o AS (
        SELECT host_id, hash(name) AS name, track, ts_ns
        FROM hosts JOIN (SELECT span_id, name, track, ts_ns FROM span WHERE kind = 'cpu_op') ON span_id = host_id
    ), h AS (
        SELECT host_id, CASE WHEN input_shapes IS NOT NULL THEN hash(input_shapes) END AS shapes,
            CASE WHEN input_dtypes IS NOT NULL THEN hash(input_dtypes) END AS dtypes
        FROM hosts JOIN (SELECT span_id, input_shapes, input_dtypes FROM host_op) ON span_id = host_id
    )
    SELECT s.span_id, s.rank, s.track, s.ts_ns, s.dur_ns, s.step, s.memset, launched.host_id, o.track AS host_track,
        o.ts_ns AS host_ts_ns,
        hash(k.own, CASE WHEN k.typed THEN NULL ELSE s.name END, o.name,
             CASE WHEN k.shapes IS NULL THEN h.shapes ELSE k.shapes END,
             CASE WHEN k.dtypes IS NULL THEN h.dtypes ELSE k.dtypes END, s.memset) AS code
    FROM (SELECT span_id, rank, track, ts_ns, dur_ns, coalesce(step, -1) AS step, hash(name) AS name,
                 kind = 'memset' AS memset FROM span WHERE kind IN ('kernel', 'memset')) s
    LEFT JOIN (SELECT span_id, hash({_OWN}) AS own, op_type IS NOT NULL AS typed,
                      CASE WHEN input_shapes IS NOT NULL THEN hash(input_shapes) END AS shapes,
                      CASE WHEN input_dtypes IS NOT NULL THEN hash(input_dtypes) END AS dtypes FROM kernel) k
        ON k.span_id = s.span_id
    LEFT JOIN launched ON launched.span_id = s.span_id
    LEFT JOIN o ON o.host_id = launched.host_id
    LEFT JOIN h ON h.host_id = launched.host_id
    ORDER BY s.rank, s.track, s.ts_ns, s.span_id
"""
_TEXTS = """
    SELECT s.name, k.op_type, k.core, o.name AS op, coalesce(k.input_shapes, h.input_shapes) AS input_shapes,
        coalesce(k.input_dtypes, h.input_dtypes) AS input_dtypes, k.input_formats, k.output_shapes, k.output_dtypes,
        k.output_formats, k.block_num, k.mix_block_num, k.grid, k.block, s.kind = 'memset' AS memset
    FROM chosen JOIN span s ON s.span_id = chosen.span_id
    LEFT JOIN (SELECT * FROM kernel SEMI JOIN chosen USING (span_id)) k ON k.span_id = chosen.span_id
    LEFT JOIN (SELECT span_id, name FROM span WHERE span_id IN (SELECT host_id FROM chosen)) o
        ON o.span_id = chosen.host_id
    LEFT JOIN (SELECT * FROM host_op WHERE span_id IN (SELECT host_id FROM chosen)) h ON h.span_id = chosen.host_id
    ORDER BY place
"""
#: No host operator launched it, as far as is known.
NO_HOST = -1


@dataclass(frozen=True)
class Kernels:
    """Columns, sorted by rank, track and start; `kind` points into `kinds`."""

    span_id: Ints
    rank: Ints
    track: Ints
    ts: Ints
    dur: Ints
    step: Ints
    kind: Ints
    host: Ints  # the host operator that launched it, else NO_HOST
    host_track: Ints  # where and when that began; NO_HOST where it is not a host operator's span
    host_ts: Ints
    kinds: Kinds

    @property
    def end(self) -> Ints:
        return self.ts + self.dur

    @property
    def ran(self) -> bool:
        """Whether there is one that computed: memory that was set to a value is listed too."""
        return not self.kinds.memset.all()

    def __len__(self) -> int:
        return len(self.span_id)

    def on(self, rank: int) -> slice:
        """Where a rank's kernels are."""
        begin, end = np.searchsorted(self.rank, [rank, rank + 1])
        return slice(int(begin), int(end))

    def of(self, wanted: Iterable[bool]) -> Bools:
        """The kernels whose kind is wanted; one answer per kind."""
        if isinstance(wanted, np.ndarray):
            return np.asarray(wanted[self.kind])
        return np.fromiter(wanted, np.bool_, len(self.kinds))[self.kind]


def kernels(run: Run) -> Kernels:
    """Every kernel of the run; where steps are judged, without those from before the first."""
    found = run.columns(
        f"SELECT * REPLACE (coalesce(host_id, {NO_HOST}) AS host_id, coalesce(host_track, {NO_HOST}) AS host_track, "
        f"coalesce(host_ts_ns, {NO_HOST}) AS host_ts_ns) FROM ({_CODES})"
    )
    stays = counted(run, found["rank"], found["ts_ns"])
    if not stays.all():
        found = {name: values[stays] for name, values in found.items()}
    codes, first, kind = np.unique(found["code"].astype(np.uint64), return_index=True, return_inverse=True)
    # As arrays: a list of as many numbers takes longer to hand over than the rest of the statement.
    run.con.register("chosen", {
        "span_id": found["span_id"][first], "host_id": found["host_id"][first], "place": np.arange(len(codes)),
    })  # fmt: skip
    try:
        texts = run.con.execute(_TEXTS).fetchnumpy()
    finally:
        run.con.unregister("chosen")
    span_id, rank, track, ts, dur, step, host, host_track, host_ts = (
        found[name].astype(np.int64) for name in (
            "span_id", "rank", "track", "ts_ns", "dur_ns", "step", "host_id", "host_track", "host_ts_ns",
        )
    )  # fmt: skip
    return Kernels(
        span_id, rank, track, ts, dur, step, kind.astype(np.int64), host, host_track, host_ts,
        Kinds({name: values.tolist() for name, values in texts.items()}),
    )


def identity(run: Run) -> Ints:
    """Which kernels do the same work, per kernel; -1 where that cannot be told.

    Without shapes (Level0, CUDA without record_shapes) the n-th kernel of a name in every step does. For that every
    step of the rank must have as many of them. Not so in a serving engine, whose steps have as much work as there are
    requests. Where the steps are too few or differ, name and launch geometry tell it, if nearly all of them take alike.
    A reduction over 64 channels has one grid whatever its images measure.
    """
    every = run.get(kernels)
    kinds = every.kinds  # what has no input, such as a generator of random numbers, has the shapes of its output
    known = every.of(kinds.there("input_shapes") | kinds.there("output_shapes") | kinds.memset)
    if known.all():
        return every.kind
    ordinal = ordinals(run)
    usable = ~known & (ordinal >= 0) & ~_serving(run)
    same = np.where(known, every.kind, -1)
    if usable.any():
        _, named = np.unique(combined(every.kind[usable], ordinal[usable]), return_inverse=True)
        same[usable] = len(kinds) + named.ravel()
    few = np.isin(every.rank, [rank for rank in run.ranks if len(run.steps[rank]) < ENOUGH])
    placed = every.of(kinds.there("grid") & kinds.there("block"))
    by_place = np.flatnonzero(~known & placed & (few | ~usable))
    alike = by_place[_alike(every.dur[by_place], every.kind[by_place])]
    same[alike] = every.kind[alike]
    return same


def compared(run: Run) -> None:
    """Raises where it is not told, for most of their time, which kernels do the same work."""
    every, same = run.get(kernels), run.get(identity)
    if int(every.dur[same >= 0].sum()) < COVERED * int(every.dur.sum()):
        collect_with = "profiler_level=Level1" if run.get(family) == "npu" else "record_shapes=True"
        raise NotMeasured("which kernels do the same work is not told", "无法判断哪些算子做同样的工作", collect_with)


def _serving(run: Run) -> Bools:
    """The kernels of the steps of a serving engine."""
    every = run.get(kernels)
    rows = run.columns("SELECT rank, step FROM step WHERE phase IS NOT NULL")
    place = rows["rank"].astype(np.int64) << 40 | rows["step"].astype(np.int64)
    return np.isin(every.rank << 40 | every.step, place)


def _alike(dur: Ints, group: Ints) -> Bools:
    """Whether nearly all of each value's group are near its median."""
    where, count = numbered(group)
    usual = _middle(dur.astype(np.float64), where, count)
    near = np.bincount(where, np.abs(dur - usual) <= NEAR * usual, len(count))
    return (near >= ALIKE * count)[where]


def ordinals(run: Run) -> Ints:
    """The number of each kernel among those of its kind in its step; -1 where the steps differ in how many.

    Its step is the one that launched it: of a host that runs ahead, kernels run in the windows of later steps.
    """
    every, launched_in = run.get(kernels), _launched_in(run)
    order = np.lexsort((every.ts, every.kind, launched_in, every.rank))
    rank, step, kind = every.rank[order], launched_in[order], every.kind[order]
    new = np.concatenate(([True], (rank[1:] != rank[:-1]) | (step[1:] != step[:-1]) | (kind[1:] != kind[:-1])))
    group = np.cumsum(new) - 1 if len(order) else np.zeros(0, np.int64)
    starts = np.flatnonzero(new) if len(order) else np.zeros(0, np.int64)
    number = np.arange(len(order)) - starts[group]
    size = np.diff(np.append(starts, len(order)))
    # The same count in every step of the rank that has the kind.
    _, where = np.unique(combined(rank[starts], kind[starts]), return_inverse=True)
    least, most = np.full(len(starts), np.iinfo(np.int64).max), np.zeros(len(starts), np.int64)
    within = step[starts] >= 0  # what was launched before the first step is of none
    np.minimum.at(least, where.ravel()[within], size[within])
    np.maximum.at(most, where.ravel()[within], size[within])
    even = (least == most)[where.ravel()] & within
    found = np.full(len(order), -1, np.int64)
    found[order] = np.where(even[group], number, -1)
    return found


def _launched_in(run: Run) -> Ints:
    """The step that launched each kernel, where operators are known that launched some on its stream.

    A stream runs in the order of launches. So a kernel without a known operator is of the step of the one before it.
    """
    every = run.get(kernels)
    found = every.step.copy()
    known = np.flatnonzero((every.host != NO_HOST) & (every.host_track != NO_HOST))
    for rank in run.ranks:
        steps, mine = run.steps[rank], every.on(rank)
        of = known[(known >= mine.start) & (known < mine.stop)]
        if not steps or not len(of):
            continue
        number = np.array([-1, *(step.step for step in steps)], np.int64)
        at = np.searchsorted(np.array([step.ts_ns for step in steps], np.int64), every.host_ts[of], "right")
        rows = np.arange(mine.start, mine.stop)
        last = np.searchsorted(of, rows, "right") - 1
        told = (last >= 0) & (every.track[of[np.maximum(last, 0)]] == every.track[rows])
        found[rows[told]] = number[at[last[told]]]
    return found


@dataclass(frozen=True)
class Usual:
    """What kernels usually take: the median and the spread (MAD) of their likes; NaN where there are too few."""

    median: Floats
    mad: Floats
    count: Ints


def usual(run: Run) -> Usual:
    """Per kernel, from its own rank's likes; where those are too few, from all ranks'."""
    every, same = run.get(kernels), run.get(identity)
    known = same >= 0
    own = _grouped(every.dur, np.where(known, same * (int(every.rank.max(initial=0)) + 1) + every.rank, -1))
    alike = _grouped(every.dur, same)
    few = own.count < ENOUGH
    return Usual(
        np.where(few, alike.median, own.median), np.where(few, alike.mad, own.mad),
        np.where(few, alike.count, own.count),
    )  # fmt: skip


def _grouped(values: Ints, group: Ints) -> Usual:
    """Median, MAD and count of each value's group; a negative group is none."""
    where, count = numbered(group)
    median = _middle(values.astype(np.float64), where, count)
    mad = _middle(np.abs(values - median), where, count)
    counts = np.where(group < 0, 0, count[where]).astype(np.int64)
    enough = counts >= ENOUGH
    return Usual(np.where(enough, median, np.nan), np.where(enough, mad, np.nan), counts)


def numbered(group: Ints) -> tuple[Ints, Ints]:
    """Each value's group as a number from 0 on, and how many values each group has."""
    _, where, count = np.unique(group, return_inverse=True, return_counts=True)
    return where.ravel(), count


def middle(values: Floats, group: Ints) -> Floats:
    """The median of each value's group, per value."""
    return _middle(values, *numbered(group))


def _middle(values: Floats, where: Ints, count: Ints) -> Floats:
    if not len(values):
        return values
    order = np.argsort(values, kind="stable")
    few = where.astype(np.uint16) if len(count) < 2**16 else where  # numpy sorts 16 bits in linear time
    order = order[np.argsort(few[order], kind="stable")]
    ends = np.cumsum(count)
    low, high = ends - count + (count - 1) // 2, ends - count + count // 2
    ranked = values[order]
    medians: Floats = ((ranked[low] + ranked[high]) / 2)[where]
    return medians


def step_slowdown(run: Run) -> Floats:
    """Per kernel: the median of duration / usual over its rank's kernels of the step; 1 where it cannot be told.

    A single slow kernel does not move it; a step in which everything is slow does.
    """
    every, normal = run.get(kernels), run.get(usual)
    known = np.isfinite(normal.median) & (normal.median > 0)
    found = np.ones(len(every))
    if known.any():
        group = every.rank[known] * (int(every.step.max()) + 2) + every.step[known] + 1
        found[known] = middle(every.dur[known] / normal.median[known], group)
    return found


def per_step(run: Run, every: Kernels, rows: Ints) -> int:
    """How long the rows take in a step, of one of the ranks that have them."""
    return int(every.dur[rows].sum()) // run.step_count // max(1, len(np.unique(every.rank[rows])))


def of_a_step(run: Run, every: Kernels, rows: Ints) -> dict[str, Value]:
    """How many of them a step has and how long they take, on one of the ranks that have them."""
    ranks = max(1, len(np.unique(every.rank[rows])))
    return {"count": max(1, round(len(rows) / run.step_count / ranks)), "kernel_ns": per_step(run, every, rows)}


def evidence(every: Kernels, rows: Ints, weight: NDArray[Any], limit: int = 20) -> tuple[Evidence, ...]:
    """The rows with the greatest weight, largest first, as windows."""
    largest = rows[np.argsort(-weight, kind="stable")[:limit]]
    return tuple(
        Evidence(
            int(every.rank[row]), int(every.ts[row]), int(every.dur[row]), int(every.span_id[row]),
            every.kinds[every.kind[row]].type,
        )
        for row in largest
    )  # fmt: skip
