"""Every kernel of a run in columns, and what kind of work each is.

Two kernels are of one kind when they do the same work: the same operator type (or name, where no
type is recorded) on the same core with the same shapes, types, formats and block count. A CUDA or
ROCm profiler gives kernels no shapes; there the operator that launched them says them.

Kinds make durations comparable: `expected` holds what a kernel usually takes, and `pace` how much
slower than usual all of a rank's kernels ran in one step.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.finding import Evidence, Value
from analysis.intervals import Ints
from analysis.run import Run
from analysis.tensors import tensors

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
#: Fewer kernels of a kind than this say nothing of what is usual.
ENOUGH = 5
#: MAD x this is the standard deviation of a normal distribution.
SIGMA = 1.4826

#: Operators that leave one number per row. Over which dimensions is not recorded: the last is what norms do.
REDUCTIONS = ("mean", "sum", "amax", "amin", "var", "norm", "linalg_vector_norm")

# The operator that launched a kernel, where the kernel itself carries no shapes (Kineto).
_LAUNCHED_BY = """
    SELECT l.dst_span_id AS span_id, min(host.name) AS op, min(h.input_shapes) AS shapes, min(h.input_dtypes) AS dtypes
    FROM link l JOIN span call ON call.span_id = l.src_span_id
    LEFT JOIN span host ON host.span_id = CASE WHEN call.kind = 'cpu_op' THEN call.span_id ELSE call.parent_id END
                       AND host.kind = 'cpu_op'
    LEFT JOIN host_op h ON h.span_id = host.span_id
    WHERE l.route = 'correlation' GROUP BY 1
"""
_KERNELS = f"""
    WITH launched AS ({_LAUNCHED_BY})
    SELECT s.span_id, s.rank, s.track, s.ts_ns, s.dur_ns, coalesce(s.step, -1) AS step, s.kind = 'memset' AS memset,
           s.name, k.op_type, k.core, launched.op, coalesce(k.input_shapes, launched.shapes) AS input_shapes,
           coalesce(k.input_dtypes, launched.dtypes) AS input_dtypes, k.input_formats, k.output_shapes, k.output_dtypes,
           k.output_formats, k.block_num, k.mix_block_num, k.grid
    FROM span s LEFT JOIN kernel k ON k.span_id = s.span_id LEFT JOIN launched ON launched.span_id = s.span_id
    WHERE s.kind IN ('kernel', 'memset')
"""
_KIND = "coalesce(op_type, name), op_type, core, op, input_shapes, input_dtypes, input_formats, output_shapes, " \
        "output_dtypes, output_formats, block_num, mix_block_num, grid, memset"  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """One kind of work."""

    name: str
    op_type: str | None
    core: str | None
    op: str | None  # the operator that launched it, where the kernel has no type of its own
    input_shapes: str | None
    input_dtypes: str | None
    input_formats: str | None
    output_shapes: str | None
    output_dtypes: str | None
    output_formats: str | None
    block_num: int | None
    mix_block_num: int | None
    grid: str | None
    memset: bool

    @property
    def type(self) -> str:
        """What people call it: its type, else the operator that launched it, else its name."""
        plain = self.name.replace("(anonymous namespace)::", "").removeprefix("void ")
        return self.op_type or (self.op or "").removeprefix("aten::") or plain.split("(")[0].split("<")[0][-60:]

    @cached_property
    def inputs(self) -> tuple[tuple[str, int], ...] | None:
        """Its inputs as (shape, bytes); None where shapes or types are not known."""
        return tensors(self.input_shapes, self.input_dtypes)

    @cached_property
    def outputs(self) -> tuple[tuple[str, int], ...] | None:
        """Its outputs; where they are not recorded (CUDA, ROCm) one like its largest input, reduced if it reduces."""
        if self.output_shapes is not None or not self.inputs:
            return tensors(self.output_shapes, self.output_dtypes)
        shape, size = max(self.inputs, key=lambda tensor: tensor[1])
        if self.type in REDUCTIONS and "," in shape:
            rest, last = shape.rsplit(",", 1)
            return ((f"{rest},1", size // max(1, int(last))),)
        return ((shape, size),)

    @property
    def bytes(self) -> int | None:
        """What it reads and writes at least."""
        if not self.inputs or self.outputs is None:
            return None
        return sum(size for _, size in (*self.inputs, *self.outputs))


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
    kinds: tuple[Kind, ...]

    @property
    def end(self) -> Ints:
        return self.ts + self.dur

    def __len__(self) -> int:
        return len(self.span_id)

    def of(self, wanted: Iterable[bool]) -> Bools:
        """The kernels whose kind is wanted; one answer per kind."""
        return np.fromiter(wanted, np.bool_, len(self.kinds))[self.kind]


def kernels(run: Run) -> Kernels:
    """Every kernel of the run."""
    kinds = run.con.execute(
        f"SELECT hash({_KIND}) AS code, {', '.join(f'any_value({column})' for column in _columns())} "
        f"FROM ({_KERNELS}) GROUP BY code ORDER BY code"
    ).fetchall()
    found = run.columns(
        f"SELECT span_id, rank, track, ts_ns, dur_ns, step, hash({_KIND}) AS code FROM ({_KERNELS}) "
        "ORDER BY rank, track, ts_ns, span_id"
    )
    code = np.searchsorted(np.array([row[0] for row in kinds], np.uint64), found["code"].astype(np.uint64))
    span_id, rank, track, ts, dur, step = (
        found[name].astype(np.int64) for name in ("span_id", "rank", "track", "ts_ns", "dur_ns", "step")
    )
    return Kernels(
        span_id, rank, track, ts, dur, step, code.astype(np.int64), tuple(Kind(*row[1:]) for row in kinds)
    )  # fmt: skip


def _columns() -> list[str]:
    """What a kind is told by; the first is its name or type."""
    return [column.strip() for column in _KIND.replace("coalesce(op_type, name)", "name", 1).split(",")]


def identity(run: Run) -> Ints:
    """Which kernels do the same work, per kernel; -1 where that cannot be told.

    Without shapes (Level0) the n-th kernel of a name in every step does, as long as every step of
    the rank has as many of them.
    """
    every = run.get(kernels)
    shaped = every.of(kind.input_shapes is not None or kind.memset for kind in every.kinds)
    if shaped.all():
        return every.kind
    ordinal = ordinals(run)
    usable = ~shaped & (ordinal >= 0)
    same = np.where(shaped, every.kind, -1)
    if usable.any():
        _, named = np.unique(np.stack((every.kind[usable], ordinal[usable])), axis=1, return_inverse=True)
        same[usable] = len(every.kinds) + named.ravel()
    return same


def ordinals(run: Run) -> Ints:
    """The number of each kernel among those of its kind in its step; -1 where the steps differ in how many."""
    every = run.get(kernels)
    order = np.lexsort((every.ts, every.kind, every.step, every.rank))
    rank, step, kind = every.rank[order], every.step[order], every.kind[order]
    new = np.concatenate(([True], (rank[1:] != rank[:-1]) | (step[1:] != step[:-1]) | (kind[1:] != kind[:-1])))
    group = np.cumsum(new) - 1 if len(order) else np.zeros(0, np.int64)
    starts = np.flatnonzero(new) if len(order) else np.zeros(0, np.int64)
    number = np.arange(len(order)) - starts[group]
    size = np.diff(np.append(starts, len(order)))
    # The same count in every step of the rank that has the kind.
    _, where = np.unique(np.stack((rank[starts], kind[starts])), axis=1, return_inverse=True)
    least, most = np.full(len(starts), np.iinfo(np.int64).max), np.zeros(len(starts), np.int64)
    np.minimum.at(least, where.ravel(), size)
    np.maximum.at(most, where.ravel(), size)
    even = (least == most)[where.ravel()] & (step[starts] >= 0)
    found = np.full(len(order), -1, np.int64)
    found[order] = np.where(even[group], number, -1)
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


def pace(run: Run) -> Floats:
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
