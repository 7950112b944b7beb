"""How good each operator of a run is: its work beside its time, and its time beside its own roof.

An operator is what was called: on CUDA and ROCm the host operator with its shapes, types and values, whose kernels
count together; on Ascend the kernel with its own. Its share of the roof is the least time that its work needs on the
device over the time that it took. A share above 1 is no result but a wrong roof or a wrong model, and is told as one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import duckdb
import numpy as np

from npulens.analysis import views
from npulens.analysis.device.abilities import device
from npulens.analysis.device.family import family
from npulens.analysis.device.frequency import clocked
from npulens.analysis.device.kernels import LAUNCHED_BY, Kernels, Kind, kernels
from npulens.analysis.device.tensors import spoken
from npulens.analysis.intervals import Ints
from npulens.analysis.run import Run
from npulens.analysis.work.call import Argument, Call, Unmodelled, arguments, values
from npulens.analysis.work.families import Work
from npulens.analysis.work.models import work
from npulens.analysis.work.roofs import Least, Roofs, precision, roofs

#: An operator below this is bound by being started, unless it comes near its roof. Launches take about as long.
SHORT_NS, NEAR = 5_000, 0.5
#: The share of its roof that a good kernel reaches: what it leaves below that is worth a look.
GOOD = 0.7
#: Operations of the cube as its hardware counts them, and how far from them a model may be.
COUNTED, FAR = "aic_cube_fops", 0.25
#: A pipe that is busy for this part of a kernel's time is what bounds it.
BUSY = 0.5
#: What the hardware counters call a pipe -> what it is for.
PIPES = {
    "mac": "compute", "cube": "compute", "vec": "compute", "mte1": "memory", "mte2": "memory", "mte3": "memory",
    "fixpipe": "memory", "scalar": "scalar",
}  # fmt: skip
_NO_HOST = -1
_GIVEN = f"""
    SELECT span_id, hash(given) AS code, given FROM (
        SELECT span_id, CASE WHEN json_valid(args) THEN json_extract(args, '$."Concrete Inputs"')::VARCHAR END AS given
        FROM arg SEMI JOIN (SELECT host_id FROM ({LAUNCHED_BY})) l ON l.host_id = arg.span_id
        WHERE contains(args, '"Concrete Inputs"')
    ) WHERE given IS NOT NULL
"""


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
    mfu: float | None  # time that the matrix units need at their peak, over the window
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

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "modelled_share": self.modelled_share}


def roofline(con: duckdb.DuckDBPyConnection) -> Roofline:
    """Every operator of a run beside its roof."""
    views.install(con)
    return of_run(Run(con))


def of_run(run: Run) -> Roofline:
    every, backend = run.get(kernels), run.get(family)
    groups = _groups(run, every)
    hf32 = set(run.columns("SELECT span_id FROM kernel WHERE hf32 = 'YES'")["span_id"].tolist())
    pipes = _pipes(run, every, groups.number, len(groups.calls))
    counted = _counted(run, every, groups.number, len(groups.calls))
    rows, times = [], np.zeros(len(groups.calls))
    for at, one in enumerate(groups.calls):
        found = work_of(one.kind, one.given, backend)
        used = precision(found, one.kind.name, backend, one.span_id in hf32)
        row, least = _row(one, found, used, pipes.get(at), counted.get(at))
        rows.append(row)
        times[at] = least.matrix if least is not None and least.matrix is not None else 0.0
    return _summed(run, every, groups, rows, times)


def work_of(kind: Kind, given: str | None, backend: str = "") -> Work:
    """What one call of a kind of work has to do; `given` are the plain values it was called with, as Kineto writes."""
    name = _operator(kind)
    if not kind.op_type and not kind.op and kind.input_shapes is None:
        reason = "no_shapes" if backend == "npu" else "no_operator"
        return Work("unknown", None, None, None, reason=reason)
    outputs: tuple[Argument, ...] | None
    try:
        inputs = arguments(kind.input_shapes, kind.input_dtypes, kind.input_formats, kind.name)
        outputs = None if kind.output_shapes is None else arguments(
            kind.output_shapes, kind.output_dtypes, kind.output_formats
        )  # fmt: skip
    except Unmodelled as refused:
        return Work("unknown", None, None, None, reason=refused.reason)
    return work(Call(name, inputs, values(given), outputs))


def _operator(kind: Kind) -> str:
    return kind.op_type or kind.op or kind.name


# ---- Which kernels are one operator


@dataclass(frozen=True)
class _Group:
    """One operator: how often it was called, and its kernel with most time."""

    kind: Kind
    given: str | None
    span_id: int
    roofs: Roofs | None
    device: str | None
    calls: int
    calls_in_steps: int
    kernels: int
    ns: int


@dataclass(frozen=True)
class _Groups:
    number: Ints  # of each kernel's group
    calls: tuple[_Group, ...]


def _groups(run: Run, every: Kernels) -> _Groups:
    if not len(every):
        return _Groups(np.zeros(0, np.int64), ())
    host, given, texts = _called(run, every)
    named: dict[tuple[Any, ...], int] = {}
    code_of_kind = np.array(
        [named.setdefault(_identity(at, kind), len(named)) for at, kind in enumerate(every.kinds)], np.int64
    )
    on = [(rank, device(run, rank)) for rank in run.ranks]
    names = sorted({one.name if one else "" for _, one in on})
    by_rank = {rank: names.index(one.name if one else "") for rank, one in on}
    by_name = {one.name: one for _, one in on if one is not None}
    device_code = np.array([by_rank[rank] for rank in run.ranks], np.int64)[
        np.searchsorted(np.array(run.ranks), every.rank)
    ]
    launched = every.of(kind.op_type is None and kind.op is not None for kind in every.kinds)
    keys = np.stack((code_of_kind[every.kind], np.where(launched, given, -1), device_code))
    _, first, number = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    number = number.ravel()
    # A call is a host operator with all its kernels; a kernel of its own is a call.
    call = np.where(launched & (host != _NO_HOST), host, -every.span_id - 2)
    pairs, at = np.unique(np.stack((number, call)), axis=1, return_index=True)
    calls = np.bincount(pairs[0], minlength=len(first))
    inside = (every.step[at] >= 0) | (not run.stepped)
    in_steps = np.bincount(pairs[0][inside], minlength=len(first))
    ns, count = _sums(every.dur, number, len(first)), np.bincount(number, minlength=len(first))
    most = _most(every, number, len(first))
    found = []
    for group, row in enumerate(first.tolist()):
        name = names[int(device_code[row])]
        found.append(_Group(
            every.kinds[int(every.kind[most[group]])], texts.get(int(given[row])) if launched[row] else None,
            int(every.span_id[most[group]]), roofs(by_name.get(name), run.get(family)), name or None,
            int(calls[group]), int(in_steps[group]), int(count[group]), int(ns[group]),
        ))  # fmt: skip
    return _Groups(number, tuple(found))


def _identity(at: int, kind: Kind) -> tuple[Any, ...]:
    """What makes two kinds of kernels the same operator."""
    if kind.op_type is not None or kind.op is None:
        return (at,)
    return kind.op, kind.input_shapes, kind.input_dtypes


def _called(run: Run, every: Kernels) -> tuple[Ints, Ints, Mapping[int, str]]:
    """Per kernel: the host operator that launched it, and a number for the values that this was called with."""
    found = run.columns(f"SELECT span_id, coalesce(host_id, {_NO_HOST}) AS host_id FROM ({LAUNCHED_BY})")
    host = _looked_up(every.span_id, found["span_id"], found["host_id"], _NO_HOST)
    told = run.columns(f"SELECT span_id, code FROM ({_GIVEN})")
    codes, place = np.unique(told["code"].astype(np.uint64), return_inverse=True)
    given = _looked_up(host, told["span_id"], place.ravel(), -1)
    texts = dict(run.con.execute(f"SELECT code, any_value(given) FROM ({_GIVEN}) GROUP BY code").fetchall())
    return host, given, {at: texts[int(code)] for at, code in enumerate(codes.tolist())}


def _looked_up(keys: Ints, known: Any, found: Any, otherwise: int) -> Ints:
    known, found = known.astype(np.int64), found.astype(np.int64)
    if not len(known):
        return np.full(len(keys), otherwise, np.int64)
    order = np.argsort(known, kind="stable")
    at = np.minimum(np.searchsorted(known[order], keys), len(known) - 1)
    values_: Ints = np.where(known[order][at] == keys, found[order][at], otherwise)
    return values_


def _sums(amounts: Ints, number: Ints, count: int) -> Ints:
    """Exact sums of whole numbers by group."""
    found = np.zeros(count, np.int64)
    np.add.at(found, number, amounts)
    return found


def _most(every: Kernels, number: Ints, count: int) -> Ints:
    """Of each group, a kernel of the kind that takes most of its time."""
    pairs, first, where = np.unique(np.stack((number, every.kind)), axis=1, return_index=True, return_inverse=True)
    spent = _sums(every.dur, where.ravel(), len(first))
    found = np.zeros(count, np.int64)
    order = np.argsort(spent, kind="stable")
    found[pairs[0][order]] = first[order]  # the longest comes last and stays
    return found


# ---- What the hardware counters say


def _pipes(run: Run, every: Kernels, number: Ints, count: int) -> Mapping[int, tuple[str, float]]:
    """Per group: the pipe that was busy for most of its time, and for which part of it."""
    rows = run.con.execute(
        "SELECT metric, list(span_id), list(value) FROM pmu WHERE regexp_matches(metric, ?) GROUP BY metric",
        [rf"^(?:ai[cv]_)?(?:{'|'.join(PIPES)})_ratio$"],
    ).fetchall()
    if not len(every):
        return {}
    order = np.argsort(every.span_id, kind="stable")
    best: dict[int, tuple[str, float]] = {}
    for metric, ids, shares in rows:
        spans, found = np.array(ids, np.int64), np.array(shares, np.float64)
        at = np.minimum(np.searchsorted(every.span_id[order], spans), len(order) - 1)
        there = (every.span_id[order][at] == spans) & np.isfinite(found)
        row = order[at[there]]
        weight = np.maximum(1, every.dur[row]).astype(np.float64)
        whole = np.bincount(number[row], weight, count)
        busy = np.bincount(number[row], weight * found[there], count)
        for group in np.flatnonzero(whole).tolist():
            share = float(busy[group] / whole[group])
            if share > best.get(group, ("", 0.0))[1]:
                best[group] = (metric.removesuffix("_ratio"), share)
    return best


def _counted(run: Run, every: Kernels, number: Ints, count: int) -> Mapping[int, int]:
    """Per group: the mean of the cube's operations of its kernels, where the hardware counted any."""
    rows = run.columns("SELECT span_id, value FROM pmu WHERE metric = ? AND isfinite(value) AND value > 0", [COUNTED])
    amounts = dict(zip(rows["span_id"].tolist(), rows["value"].tolist(), strict=True))
    found: dict[int, list[float]] = defaultdict(list)
    for span, group in zip(every.span_id.tolist(), number.tolist(), strict=True) if amounts else ():
        if span in amounts:
            found[group].append(amounts[span])
    return {group: round(sum(one) / len(one)) for group, one in found.items() if group < count}


# ---- One row, and all together


def _row(
    one: _Group, found: Work, used: str | None, pipe: tuple[str, float] | None, counted: int | None
) -> tuple[Row, Least | None]:
    least = None if one.roofs is None else one.roofs.least_ns(found, used)
    roof = least.ns if least is not None else None
    each = one.ns / one.calls
    share = roof / each if roof is not None and each > 0 else None
    complete = least is not None and least.complete
    bound = least.bound if least is not None else None
    if each < SHORT_NS and share is not None and share < NEAR:
        bound = "launch"
    name, busy = pipe if pipe is not None else (None, None)
    by_pipe = None if name is None or busy is None or busy < BUSY else PIPES[name.split("_")[-1]]
    flops = found.flops if found.flops is not None else found.matrix or None
    right = share is not None and share <= 1
    return Row(
        _operator(one.kind).removeprefix("aten::"), found.family, one.kind.name, spoken(one.kind.input_shapes),
        one.device, one.calls, one.kernels, one.ns, found.matrix, found.vector, found.bytes,
        used if found.matrix else None, _rate(flops, each), _rate(found.bytes, each), roof,
        share if right else None, complete, bound, name, busy,
        by_pipe is not None and bound in ("compute", "memory") and by_pipe != bound, counted,
        max(0, round(one.ns - one.calls * roof / GOOD)) if right and complete and roof is not None else None,
        None if right else share, found.reason,
    ), least  # fmt: skip


def _rate(amount: int | None, ns: float) -> float | None:
    return None if amount is None or ns <= 0 else amount * 1e9 / ns


def _summed(run: Run, every: Kernels, groups: _Groups, rows: Sequence[Row], times: Any) -> Roofline:
    kernel_ns = int(every.dur.sum())
    unknown: dict[str, int] = defaultdict(int)
    by_name: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in rows:
        if row.reason is not None:
            unknown[row.reason] += row.ns
            by_name[row.reason][row.operator] += row.ns
    in_steps = [one.calls_in_steps for one in groups.calls]
    ranks = len(np.unique(every.rank))
    steps = run.step_count
    flops = sum(
        calls * ((row.matrix_flops or 0) + (row.vector_flops or 0)) for calls, row in zip(in_steps, rows, strict=True)
    )
    peaks = {one.roofs.device: one.roofs for one in groups.calls if one.roofs is not None}
    lacking = sorted({
        row.precision for row in rows
        if row.precision is not None and row.precision not in (peaks[row.device].matrix if row.device in peaks else {})
    })  # fmt: skip
    windows = [end - begin for rank in run.ranks if (window := run.window(rank)) for begin, end in [window]]
    at_peak = sum(calls * float(ns) for calls, ns in zip(in_steps, times, strict=True))
    return Roofline(
        tuple(sorted(rows, key=lambda row: -row.ns)),
        tuple(peaks.values()),
        kernel_ns,
        sum(row.ns for row in rows if row.bytes is not None or row.matrix_flops is not None),
        sum(row.ns for row in rows if row.matrix_flops is not None),
        steps, ranks,
        flops // (steps * ranks) if flops else None,
        at_peak / sum(windows) if windows and sum(windows) and at_peak and not lacking else None,
        tuple(lacking),
        tuple(
            Missing(reason, ns, ns / kernel_ns if kernel_ns else 0.0,
                    tuple(sorted(by_name[reason], key=lambda name: -by_name[reason][name])[:3]))
            for reason, ns in sorted(unknown.items(), key=lambda item: -item[1])
        ),
        _setting(run) if 2 * (unknown["no_shapes"] + unknown["no_types"]) > kernel_ns else None,
        _clock_share(run, every),
    )  # fmt: skip


def _clock_share(run: Run, every: Kernels) -> float | None:
    """Averaged over the time of kernels; None where no kernel is known to have run below the rating."""
    share = run.get(clocked).share
    if not len(every) or not (share < 1).any():
        return None
    return float(np.average(share, weights=np.maximum(1, every.dur)))


def _setting(run: Run) -> str:
    return "profiler_level=Level1" if run.get(family) == "npu" else "record_shapes=True"
