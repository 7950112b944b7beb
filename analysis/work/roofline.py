"""How good each operator of a run is, as people read it: longest first, with the sums of the run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import duckdb
import numpy as np

from npulens.analysis import views
from npulens.analysis.device.family import family
from npulens.analysis.device.frequency import clocked
from npulens.analysis.device.kernels import Kernels, kernels
from npulens.analysis.device.tensors import spoken
from npulens.analysis.run import Run
from npulens.analysis.work import waterfall
from npulens.analysis.work.operators import PIPES, Operator, operators
from npulens.analysis.work.roofs import Roofs
from npulens.analysis.work.waterfall import Row as Window

#: How far from the hardware's own count a model may be.
FAR = 0.25
#: A pipe that is busy for this part of a kernel's time is what bounds it.
BUSY = 0.5


@dataclass(frozen=True)
class Row:
    """One operator on one kind of device. Work is that of one call; None is not known."""

    operator: str
    family: str
    kernel: str  # the one that took most of the time
    shapes: str | None
    device: str | None
    calls: int
    kernels: int
    ns: int  # of all calls
    matrix_flops: int | None
    vector_flops: int | None
    bytes: int | None
    precision: str | None
    flops_per_s: float | None
    bytes_per_s: float | None
    roof_ns: float | None  # the least time of one call
    share: float | None  # of the roof; at least so much where not every roof is known
    complete: bool  # whether every roof that can bind is known
    bound: str | None  # 'compute', 'memory' or 'launch', by work and time
    pipe: str | None  # the busiest pipe by the hardware counters
    pipe_share: float | None
    disagree: bool  # the counters say another bound than the shapes
    counted_flops: int | None  # of one call, as the hardware counted them
    gain_ns: int | None  # of all calls, what 0.7 of the roof would give
    above: float | None  # what the share would be, where it is above 1: the roof or the model is wrong
    reason: str | None  # why work is not known


@dataclass(frozen=True)
class Missing:
    """Device time whose work is not known, and why."""

    reason: str
    ns: int
    share: float
    operators: tuple[str, ...]  # those with most of it


@dataclass(frozen=True)
class Roofline:
    """The rows, longest first, and their sums."""

    rows: tuple[Row, ...]
    roofs: tuple[Roofs, ...]
    kernel_ns: int
    modelled_ns: int  # of that, time whose bytes or operations are known
    flops_known_ns: int  # of that, time whose operations are known
    steps: int
    ranks: int
    step_flops: int | None  # operations of a step and rank, as far as they are known
    window: Window | None  # all steps together, with HFU and MFU
    mfu_missing: tuple[str, ...]  # precisions whose peak is not known
    missing: tuple[Missing, ...]
    collect_with: str | None
    clock_share: float | None  # of the rated clock at which kernels ran, where it was recorded and below it

    @property
    def miscounted(self) -> tuple[Row, ...]:
        """Rows whose operations are not those that the hardware counted."""
        return tuple(
            row for row in self.rows
            if row.counted_flops and row.matrix_flops and abs(row.counted_flops / row.matrix_flops - 1) > FAR
        )  # fmt: skip

    @property
    def modelled_share(self) -> float | None:
        return self.modelled_ns / self.kernel_ns if self.kernel_ns else None

    @property
    def hfu(self) -> float | None:
        """Time that the matrix units need at their peak, over the window; what is computed again included."""
        return None if self.window is None else self.window.hfu

    @property
    def mfu(self) -> float | None:
        """The same without what is computed again; None where that cannot be told."""
        return None if self.window is None else self.window.mfu

    def as_dict(self) -> dict[str, Any]:
        told = asdict(self)
        del told["window"]
        return {**told, "hfu": self.hfu, "mfu": self.mfu, "modelled_share": self.modelled_share}


def roofline(con: duckdb.DuckDBPyConnection) -> Roofline:
    """Every operator of a run beside its roof."""
    views.install(con)
    return of_run(Run.of(con))


def of_run(run: Run) -> Roofline:
    found = of_operators(run)
    return replace(found, window=run.get(waterfall.of_run).total, clock_share=clock_share(run))


def of_operators(run: Run) -> Roofline:
    """The same without its window and its clock, which take longer."""
    return _summed(run, run.get(kernels), run.get(operators).every)


def row_of(one: Operator) -> Row:
    """An operator as people read it."""
    found = one.work
    flops = found.flops if found.flops is not None else found.matrix or None
    pipe = one.pipe
    busy = None if pipe is None else one.pipes[pipe]
    by_pipe = None if pipe is None or busy is None or busy < BUSY else PIPES[pipe.split("_")[-1]]
    return Row(
        one.name.removeprefix("aten::"), found.family, one.kind.name, spoken(one.kind.input_shapes), one.device,
        one.calls, one.kernels, one.ns, found.matrix, found.vector, found.bytes, one.precision,
        _rate(flops, one.each_ns), _rate(found.bytes, one.each_ns), one.roof_ns, one.share, one.complete, one.bound,
        pipe, busy, by_pipe is not None and one.bound in ("compute", "memory") and by_pipe != one.bound,
        one.counted_flops, one.gain_ns, one.above, found.reason,
    )  # fmt: skip


def _rate(amount: int | None, ns: float) -> float | None:
    return None if amount is None or ns <= 0 else amount * 1e9 / ns


def _summed(run: Run, every: Kernels, found: Sequence[Operator]) -> Roofline:
    kernel_ns = int(every.dur.sum())
    rows = [row_of(one) for one in found]
    unknown: dict[str, int] = defaultdict(int)
    by_name: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in rows:
        if row.reason is not None:
            unknown[row.reason] += row.ns
            by_name[row.reason][row.operator] += row.ns
    ranks = len(np.unique(every.rank))
    steps = run.step_count
    flops = sum(one.calls_in_steps * ((one.work.matrix or 0) + (one.work.vector or 0)) for one in found)
    peaks = {one.roofs.device: one.roofs for one in found if one.roofs is not None}
    lacking = sorted({
        row.precision for row in rows
        if row.precision is not None and row.precision not in (peaks[row.device].matrix if row.device in peaks else {})
    })  # fmt: skip
    return Roofline(
        tuple(sorted(rows, key=lambda row: -row.ns)),
        tuple(peaks.values()),
        kernel_ns,
        sum(row.ns for row in rows if row.bytes is not None or row.matrix_flops is not None),
        sum(row.ns for row in rows if row.matrix_flops is not None),
        steps, ranks,
        flops // (steps * ranks) if flops else None,
        None,
        tuple(lacking),
        tuple(
            Missing(reason, ns, ns / kernel_ns if kernel_ns else 0.0,
                    tuple(sorted(by_name[reason], key=lambda name: -by_name[reason][name])[:3]))
            for reason, ns in sorted(unknown.items(), key=lambda item: -item[1])
        ),
        _setting(run) if 2 * (unknown["no_shapes"] + unknown["no_types"]) > kernel_ns else None,
        None,
    )  # fmt: skip


def clock_share(run: Run) -> float | None:
    """Averaged over the time of kernels; None where no kernel is known to have run below the rating."""
    every, share = run.get(kernels), run.get(clocked).share
    if not len(every) or not (share < 1).any():
        return None
    return float(np.average(share, weights=np.maximum(1, every.dur)))


def _setting(run: Run) -> str:
    return "profiler_level=Level1" if run.get(family) == "npu" else "record_shapes=True"
