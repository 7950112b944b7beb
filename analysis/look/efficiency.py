"""How well a run uses its device: operators beside their roofs, and the same of kinds of kernels."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import duckdb
import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from npulens.analysis.device.kernels import Floats, Kernels, kernels
from npulens.analysis.intervals import Ints, bare
from npulens.analysis.run import Run
from npulens.analysis.selection.pane import answered
from npulens.analysis.work import waterfall as falling
from npulens.analysis.work.operators import GOOD, PIPES, Operator, Operators, operators
from npulens.analysis.work.roofline import BUSY, Roofline, clock_share, of_operators, row_of
from npulens.analysis.work.roofs import Roofs

#: Operators that a table and a chart hold, the longest first; the rest is counted.
MOST = 1000
#: A kind of kernels has a share of the roof where it is known for this part of its time.
ENOUGH = 0.5


@dataclass(frozen=True)
class Chosen:
    """One operator in full: what it is given, by each roof, and its pipes."""

    name: str
    kernel: str
    shapes: str | None
    dtypes: str | None
    given: str | None
    device: str | None
    precision: str | None
    calls: int
    kernels: int
    ns: int
    flops: int | None
    bytes: int | None
    matrix_ns: float | None  # of one call at the peak of the matrix units
    vector_ns: float | None
    memory_ns: float | None
    roof_ns: float | None
    share: float | None
    above: float | None
    complete: bool
    bound: str | None
    disagree: bool
    pipe: str | None
    pipes: tuple[tuple[str, float], ...]  # busiest first
    counted_flops: int | None
    gain_ns: int | None
    reason: str | None
    span_id: int  # its longest kernel
    rank: int
    ts_ns: int
    dur_ns: int


@dataclass(frozen=True)
class Part:
    """One part of the mean window."""

    name: str
    ns: int


@dataclass(frozen=True)
class Fall:
    """The parts of the mean window of some ranks and steps; they and `residual_ns` sum to `dur_ns`."""

    dur_ns: int
    parts: tuple[Part, ...]  # empty: not measured
    residual_ns: int
    windows: int
    mfu: float | None
    hfu: float | None


@dataclass(frozen=True)
class Efficiency:
    """The operators of a run and their sums. `operators` and `chosen` are in the same order, the longest first."""

    operators: pd.DataFrame
    chosen: tuple[Chosen, ...]
    count: int  # of operators, also those that are left out here
    sums: Roofline  # without its rows, its window and its clock
    window_ns: int  # a step of a rank; without steps the whole window
    gain_ns: int | None  # of that, what GOOD of the roofs would give; None where no roof is known whole
    roof_share: float | None  # time at the roofs over time taken, of the operators with a share
    roof_known_ns: int  # what these operators take
    at_least: bool  # one roof of the two is not known for some of them
    good: float = GOOD


@dataclass(frozen=True)
class Whole:
    """Where the time of a step goes, and what of it the matrix units needed."""

    falls: dict[str, Fall]  # of `all`, and of each rank and phase
    clock_share: float | None  # of the rated clock at which kernels ran, where it was recorded and below it

    @property
    def mfu(self) -> float | None:
        """Of the whole run, without what is computed again."""
        return self.falls["all"].mfu if "all" in self.falls else None

    @property
    def hfu(self) -> float | None:
        return self.falls["all"].hfu if "all" in self.falls else None


def efficiency(run: Run) -> Efficiency:
    """Every operator beside its roof, as it is kept of a large run."""
    kept = "operator_row", "operator_sum"
    if not answered(run.con, *kept):
        return _beside_roofs(run)
    rows = run.con.execute("SELECT * FROM operator_row").fetchdf().astype(dict.fromkeys(_NUMBERS, "float64"))
    ((said,),) = run.con.execute("SELECT said FROM operator_sum").fetchall()
    return msgspec.convert(json.loads(said), Efficiency, dec_hook=lambda wanted, none: rows)


def operator_rows(run: Run) -> pa.Table:
    """Its rows as they are kept; a column where nothing is known is one of texts."""
    table = pa.Table.from_pandas(run.get(_beside_roofs).operators, preserve_index=False)
    return table.cast(pa.schema(
        pa.field(each.name, pa.string()) if pa.types.is_null(each.type) else each for each in table.schema
    ))  # fmt: skip


def operator_sums(run: Run) -> pa.Table:
    """The rest of it as it is kept: one text."""
    return _text(asdict(replace(run.get(_beside_roofs), operators=pd.DataFrame())) | {"operators": None})


def _beside_roofs(run: Run) -> Efficiency:
    every, found = run.get(kernels), run.get(operators)
    sums = of_operators(run)
    order = sorted(range(len(found.every)), key=lambda at: -found.every[at].ns)[:MOST]
    longest = _longest(every, found)
    shared = [one for one in found.every if one.share is not None]
    known_ns = sum(one.ns for one in shared)
    gains = [one.gain_ns for one in found.every if one.gain_ns is not None]
    parts = sums.steps * max(1, sums.ranks)
    windows = [end - begin for rank in run.ranks if (window := run.window(rank)) for begin, end in [window]]
    return Efficiency(
        _frame([found.every[at] for at in order], sums),
        tuple(_chosen(found.every[at], every, int(longest[at])) for at in order),
        len(found.every), replace(sums, rows=()),
        sum(windows) // len(windows) // sums.steps if windows else 0,
        sum(gains) // parts if gains else None,
        sum(one.calls * (one.roof_ns or 0.0) for one in shared) / known_ns if known_ns else None,
        known_ns, any(not one.complete for one in shared),
    )  # fmt: skip


def whole(run: Run) -> Whole:
    """The waterfall of the run, of each rank and of each phase, as it is kept of a large one."""
    if answered(run.con, "step_fall"):
        ((said,),) = run.con.execute("SELECT said FROM step_fall").fetchall()
        return msgspec.convert(json.loads(said), Whole)
    return _measured(run)


def _measured(run: Run) -> Whole:
    return Whole(_falls(run), clock_share(run))


def answer(run: Run) -> pa.Table:
    """The waterfall as it is kept: one text."""
    return _text(asdict(_measured(run)))


def _text(said: Mapping[str, Any]) -> pa.Table:
    return pa.table({"said": [json.dumps(said)]})


def _longest(every: Kernels, found: Operators) -> Ints:
    """Of each operator its longest kernel, the first of several."""
    most = np.zeros(len(found.every), np.int64)
    np.maximum.at(most, found.of, every.dur)
    rows = np.flatnonzero(every.dur == most[found.of])[::-1]
    at = np.zeros(len(found.every), np.int64)
    at[found.of[rows]] = rows  # of several the first comes last and stays
    return at


def _flops(one: Operator) -> int | None:
    """Of one call; those of the matrix units alone where the others are not known."""
    return one.work.flops if one.work.flops is not None else one.work.matrix or None


def _told(one: Operator) -> str:
    """What bounds it: by work and time, else by the hardware counters (`memory_counted`), else `unknown`."""
    if one.bound is not None:
        return one.bound
    pipe = one.pipe
    return "unknown" if pipe is None or one.pipes[pipe] < BUSY else f"{PIPES[pipe.split('_')[-1]]}_counted"


def _frame(every: list[Operator], sums: Roofline) -> pd.DataFrame:
    parts = sums.steps * max(1, sums.ranks)
    rows = []
    for one in every:
        row, flops = row_of(one), _flops(one)
        rows.append({
            "operator": row.operator, "shapes": row.shapes, "device": row.device, "calls": row.calls,
            "step_ns": row.ns / parts, "of_time": row.ns / sums.kernel_ns if sums.kernel_ns else np.nan,
            "each_ns": one.each_ns, "flops": flops, "bytes": row.bytes, "precision": row.precision,
            "intensity": flops / row.bytes if flops and row.bytes else np.nan,
            "flops_per_s": row.flops_per_s if flops else None, "bytes_per_s": row.bytes_per_s,
            "roof_ns": row.roof_ns, "share": row.share, "above": row.above, "complete": row.complete,
            "bound": row.bound, "told": _told(one), "pipe": row.pipe, "pipe_share": row.pipe_share,
            "disagree": row.disagree, "gain_ns": None if row.gain_ns is None else row.gain_ns / parts,
            "reason": row.reason,
        })  # fmt: skip
    frame = pd.DataFrame(rows, columns=_COLUMNS)
    return frame.astype(dict.fromkeys(_NUMBERS, "float64"))


_NUMBERS = ("flops", "bytes", "intensity", "flops_per_s", "bytes_per_s", "roof_ns", "share", "above", "pipe_share",
            "gain_ns")  # fmt: skip
_COLUMNS = ["operator", "shapes", "device", "calls", "step_ns", "of_time", "each_ns", "flops", "bytes", "precision",
            "intensity", "flops_per_s", "bytes_per_s", "roof_ns", "share", "above", "complete", "bound", "told",
            "pipe", "pipe_share", "disagree", "gain_ns", "reason"]  # fmt: skip


def _chosen(one: Operator, every: Kernels, longest: int) -> Chosen:
    row, least = row_of(one), one.least
    times = (None, None, None) if least is None else (least.matrix, least.vector, least.memory)
    return Chosen(
        row.operator, one.kind.name, row.shapes, one.kind.input_dtypes, one.given, one.device, one.precision,
        one.calls, one.kernels, one.ns, _flops(one), row.bytes, *times, one.roof_ns, one.share, one.above,
        one.complete, one.bound, row.disagree, one.pipe,
        tuple(sorted(one.pipes.items(), key=lambda pipe: -pipe[1])), one.counted_flops, one.gain_ns, row.reason,
        int(every.span_id[longest]), int(every.rank[longest]), int(every.ts[longest]), int(every.dur[longest]),
    )  # fmt: skip


# Where the time of a step goes, from the peak of the matrix units on.


def _falls(run: Run) -> dict[str, Fall]:
    """A key is `all`, `rank 3` or `phase decode`."""
    found = run.get(falling.of_run)
    rows = {"all": found.total}
    ranks, phases = found.by("rank"), found.by("phase")
    if len(ranks) > 1:
        rows |= {f"rank {row.rank}": row for row in ranks}
    if len(phases) > 1:
        rows |= {f"phase {row.phase}": row for row in phases if row.phase is not None}
    return {name: _fall(row) for name, row in rows.items() if row is not None}


def _fall(row: falling.Row) -> Fall:
    """The mean of its windows; what whole numbers leave over goes to the longest part."""
    dur = row.dur_ns // row.windows
    parts = {name: ns // row.windows for name, ns in row.parts}
    residual = (row.residual_ns or 0) // row.windows
    if parts:
        parts[max(parts, key=lambda name: parts[name])] += dur - residual - sum(parts.values())
    told = tuple(Part(name, ns) for name, ns in parts.items() if ns)
    return Fall(dur, told, residual, row.windows, row.mfu, row.hfu)


def chips(found: Efficiency) -> tuple[Roofs | None, ...]:
    """The devices of the run, those with most time first; None stands for one of which nothing is known."""
    known = {one.device: one for one in found.sums.roofs}
    spent = found.operators.groupby(found.operators["device"].fillna(""))["step_ns"].sum()
    return tuple(known.get(str(name)) for name in spent.sort_values(ascending=False, kind="stable").index)


# Kinds of kernels, as the page of kernels groups them. What does not depend on the filter is measured once.


@dataclass(frozen=True)
class Rates:
    """Per kernel, by span_id, its length and operator; per operator what a call of it needs. NaN is not known."""

    span_id: Ints
    dur: Ints
    of: Ints
    roof_ns: Floats
    flops: Floats
    calls: Ints
    kernels: Ints


def rates(con: duckdb.DuckDBPyConnection) -> Rates:
    """What the share of any group of kernels follows from, as it is kept of a large run."""
    kept = "kernel_operator", "operator_need"
    if answered(con, *kept):
        of, need = (con.table(name).fetchnumpy() for name in kept)
        columns = {name: bare(column) for name, column in {**of, **need}.items()}
    else:
        run = Run.of(con)
        tables = (operators_of_kernels(run), needs(run))
        columns = {name: table[name].to_numpy() for table in tables for name in table.column_names}
    return Rates(**columns)


def operators_of_kernels(run: Run) -> pa.Table:
    """Per kernel, by span_id, its length and operator."""
    every, found = run.get(kernels), run.get(operators)
    order = np.argsort(every.span_id, kind="stable")
    return pa.table({"span_id": every.span_id[order], "dur": every.dur[order], "of": found.of[order]})


def needs(run: Run) -> pa.Table:
    """Per operator what a call of it needs, and how many calls and kernels it has."""
    every = run.get(operators).every

    def known(amounts: Iterable[float | None]) -> Floats:
        return np.array([np.nan if one is None else one for one in amounts], np.float64)

    return pa.table({
        "roof_ns": known(one.roof_ns if one.share is not None else None for one in every),
        "flops": known(_flops(one) or None for one in every),
        "calls": np.array([one.calls for one in every], np.int64),
        "kernels": np.array([one.kernels for one in every], np.int64),
    })  # fmt: skip


def of_kernels(held: Rates, chosen: tuple[Ints, NDArray[np.uint64]]) -> pd.DataFrame:
    """Per group of kernels (key): its share of the roof (roof_share) and its flops_per_s; NaN is not known.

    A call of several kernels has one roof. So it counts only where all of its kernels are in the group. A group has a
    share where it is known for ENOUGH of its time.
    """
    spans, codes = chosen
    keys, group = np.unique(codes, return_inverse=True)
    at = np.searchsorted(held.span_id, spans)
    several = max(1, len(held.calls))
    pairs, where = np.unique(group.ravel() * several + held.of[at], return_inverse=True)
    in_group, of = np.divmod(pairs.astype(np.int64), several)
    there = np.bincount(where.ravel(), minlength=len(pairs))
    ns = np.bincount(where.ravel(), held.dur[at], len(pairs))
    whole = np.bincount(in_group, ns, len(keys))
    single = np.where(held.kernels[of] == held.calls[of], there, np.nan)
    calls = np.where(there == held.kernels[of], held.calls[of], single)
    found = {"key": keys}
    for name, each, unit in (("roof_share", held.roof_ns, 1.0), ("flops_per_s", held.flops, 1e9)):
        amount = calls * each[of] * unit
        known = np.isfinite(amount)
        spent = np.bincount(in_group[known], ns[known], len(keys))
        told = np.bincount(in_group[known], amount[known], len(keys))
        with np.errstate(invalid="ignore", divide="ignore"):
            found[name] = np.where((spent > 0) & (spent >= ENOUGH * whole), told / spent, np.nan)
    return pd.DataFrame(found)
