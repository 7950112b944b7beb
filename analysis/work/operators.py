"""What a run's device was asked to do: its operators, each with its work, its roof and what the counters say.

An operator is what was called: on CUDA and ROCm the host operator with its shapes, types and values, whose kernels
count together; on Ascend the kernel with its own. Its share of the roof is the least time that its work needs on the
device over the time that it took. A share above 1 is no result but a wrong roof or a wrong model, and is told as one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, SupportsIndex, overload

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.device.abilities import device, models
from npulens.analysis.device.family import family
from npulens.analysis.device.kernels import NO_HOST, Floats, Kernels, kernels
from npulens.analysis.device.kinds import TYPED, Bools, Coded, Kind, Kinds
from npulens.analysis.device.shapes import AS_JSON
from npulens.analysis.device.tensors import NO_TENSOR, dtype, listed
from npulens.analysis.intervals import Ints, combined
from npulens.analysis.run import Run
from npulens.analysis.work import many
from npulens.analysis.work.beside import results
from npulens.analysis.work.call import Argument, Call, Unmodelled, arguments, flat, values
from npulens.analysis.work.families import Work
from npulens.analysis.work.models import work
from npulens.analysis.work.roofs import Least, Roofs, precision, roofs
from npulens.analysis.work.works import Works

#: An operator below this is bound by being started, unless it comes near its roof. Launches take about as long.
SHORT_NS, NEAR = 5_000, 0.5
#: The share of its roof that a good kernel reaches: what it leaves below that is worth a look.
GOOD = 0.7
#: Operations of the cube as its hardware counts them.
COUNTED = "aic_cube_fops"
#: What the hardware counters call a pipe -> what it is for.
PIPES = {
    "mac": "compute", "cube": "compute", "vec": "compute", "mte1": "memory", "mte2": "memory", "mte3": "memory",
    "fixpipe": "memory", "scalar": "scalar",
}  # fmt: skip
#: How the counters of a pipe end: busy (PipeUtilization), or executing (PipelineExecuteUtilization).
BUSY_ENDS = ("_ratio", "_exe_ratio")
_NOTHING: Mapping[str, float] = {}
# The plain values that some host operators were called with. Their ids come as one text: a list of as many numbers
# takes longer to hand over than the rest of the statement.
_GIVEN = """
    WITH wanted AS MATERIALIZED (SELECT unnest(string_split(?, ' ')::BIGINT[]) AS span_id)
    SELECT span_id, given FROM (
        SELECT span_id, TRY(json_extract(args, '$."Concrete Inputs"'))::VARCHAR AS given
        FROM arg SEMI JOIN wanted USING (span_id) WHERE contains(args, '"Concrete Inputs"')
    ) WHERE given IS NOT NULL
"""


@dataclass(frozen=True)
class Operator:
    """One operator on one kind of device. Work and roof are those of one call."""

    name: str
    kind: Kind  # of its kernel with most time
    given: str | None  # the plain values that it was called with, as Kineto writes them
    span_id: int  # one of its kernels
    roofs: Roofs | None
    device: str | None
    calls: int
    calls_in_steps: int
    kernels: int
    ns: int  # of all calls
    work: Work
    precision: str | None  # in which the matrix units computed
    least: Least | None
    pipes: Mapping[str, float]  # pipe -> busy for this part of the time, by the hardware counters
    counted_flops: int | None  # of one call, as the hardware counted them

    @property
    def each_ns(self) -> float:
        """How long a call takes."""
        return self.ns / self.calls

    @property
    def roof_ns(self) -> float | None:
        """The least time of a call; None where no roof that it meets is known."""
        return None if self.least is None else self.least.ns

    @property
    def complete(self) -> bool:
        """Whether every roof that can bind is known."""
        return self.least is not None and self.least.complete

    @property
    def share(self) -> float | None:
        """Of the roof; at least so much where not every roof is known."""
        told = self._told
        return told if told is not None and told <= 1 else None

    @property
    def above(self) -> float | None:
        """What the share would be, where it is above 1: the roof or the model is wrong."""
        told = self._told
        return told if told is not None and told > 1 else None

    @property
    def bound(self) -> str | None:
        """'compute', 'memory' or 'launch', by work and time."""
        told = self._told
        if self.each_ns < SHORT_NS and told is not None and told < NEAR:
            return "launch"
        return None if self.least is None else self.least.bound

    @property
    def pipe(self) -> str | None:
        """The busiest pipe."""
        return max(self.pipes, key=lambda name: self.pipes[name], default=None)

    @property
    def gain_ns(self) -> int | None:
        """Of all calls, what GOOD of the roof would give."""
        if self.share is None or not self.complete or self.roof_ns is None:
            return None
        return max(0, round(self.ns - self.calls * self.roof_ns / GOOD))

    @cached_property
    def _told(self) -> float | None:
        roof = self.roof_ns
        return roof / self.each_ns if roof is not None and self.ns > 0 else None


@dataclass(frozen=True)
class _Columns:
    """What operators are made of, one row each."""

    kinds: Kinds
    kind: Ints
    span_id: Ints
    given: Coded[str | None]
    device: Coded[str]
    calls: Ints
    in_steps: Ints
    kernels: Ints
    ns: Ints
    work: Works
    precision: Coded[str | None]  # in which the matrix units would compute
    roofs: Coded[Roofs | None]
    pipes: Mapping[int, Mapping[str, float]]
    counted: Mapping[int, int]


class Every(Sequence[Operator]):
    """The operators of a run; each is made when it is asked for."""

    def __init__(self, columns: _Columns) -> None:
        self.columns = columns
        self._made: dict[int, Operator] = {}

    def __len__(self) -> int:
        return len(self.columns.work)

    @overload
    def __getitem__(self, at: SupportsIndex) -> Operator: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Operator, ...]: ...
    def __getitem__(self, at: SupportsIndex | slice) -> Operator | tuple[Operator, ...]:
        if isinstance(at, slice):
            return tuple(self[place] for place in range(len(self))[at])
        place = range(len(self))[at]
        if place not in self._made:
            self._made[place] = self._operator(place)
        return self._made[place]

    def _operator(self, at: int) -> Operator:
        own = self.columns
        kind, todo, used, peaks = own.kinds[own.kind[at]], own.work[at], own.precision[at], own.roofs[at]
        return Operator(
            called(kind), kind, own.given[at], int(own.span_id[at]), peaks, own.device[at] or None, int(own.calls[at]),
            int(own.in_steps[at]), int(own.kernels[at]), int(own.ns[at]), todo, used if todo.matrix else None,
            None if peaks is None else peaks.least_ns(todo, used), own.pipes.get(at, _NOTHING), own.counted.get(at),
        )  # fmt: skip


@dataclass(frozen=True)
class Operators:
    """Per kernel, in the order of kernels(run): its operator, and whether it is the first kernel of its call."""

    of: Ints  # its place in `every`
    first: Bools  # a call's work counts once, at its first kernel
    every: Every

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of every operator."""
        own = self.every.columns
        names = own.kinds.each(called, *TYPED)
        return tuple(names.values[at] for at in names.code[own.kind].tolist())

    @cached_property
    def times(self) -> Times:
        """The least time of every operator."""
        return _times(self.every.columns)


@dataclass(frozen=True)
class Times:
    """Of every operator what `Operator` says one by one; not a number where that is None."""

    roof_ns: Floats
    share: Floats
    surely: NDArray[np.str_]  # 'compute' or 'memory' where no doubt is left which of them binds, else ''


#: The memory of devices of which its speed is not known may be slower than that of all others, by so much at most.
ROOM = 1.5
#: Operations for each byte from which on computing is the limit, in precisions of which no device is known.
SURELY_COMPUTE = 1_000.0


@cache
def surely_compute(precision: str | None) -> float:
    """Operations for each byte from which on computing is the limit on every device, its memory known or not."""
    known = [
        facts["flops"][precision] / facts["memory_bytes_per_s"] for facts in (one.facts for one in models())
        if precision in facts.get("flops", ()) and "memory_bytes_per_s" in facts
    ]  # fmt: skip
    return ROOM * max(known) if known else SURELY_COMPUTE


def _times(own: _Columns) -> Times:
    _, first, where = np.unique(
        combined(own.roofs.code, own.precision.code), return_index=True, return_inverse=True
    )  # fmt: skip
    peaks = np.array([_peaks(own.roofs[at], own.precision[at]) for at in first.tolist()], np.float64).reshape(-1, 3)
    peaks, todo = peaks[where.ravel()], own.work.floats
    roofed = own.roofs.map(lambda roofs: roofs is not None).flags()
    by_roof = np.where(roofed[:, None], np.where(todo == 0, 0.0, todo * 1e9 / peaks), np.nan)
    most = np.max(np.nan_to_num(by_roof, nan=0.0), axis=1, initial=0.0)
    roof_ns = np.where(most > 0, most, np.nan)
    known = roofed & (np.isnan(todo[:, 0]) | (todo[:, 0] == 0) | ~np.isnan(peaks[:, 0]))
    complete = known & ~np.isnan(by_roof[:, 0]) & ~np.isnan(by_roof[:, 2])
    share = np.divide(roof_ns, own.ns / own.calls, out=np.full(len(own.ns), np.nan), where=own.ns > 0)
    share[share > 1] = np.nan
    least = own.precision.map(lambda one: int(surely_compute(one))).ints()
    sure = (by_roof[:, 0] > 0) & (todo[:, 0] > 0) & (todo[:, 2] > 0) & (todo[:, 0] >= least * todo[:, 2])
    told = np.where(complete, np.where(by_roof[:, 2] == roof_ns, "memory", "compute"), np.where(sure, "compute", ""))
    return Times(roof_ns, share, np.where(most > 0, told, ""))


def _peaks(roofs: Roofs | None, used: str | None) -> list[float]:
    """Of the matrix units, of the other units, and of memory; not a number where it is not known."""
    known = (None,) * 3 if roofs is None else (roofs.matrix.get(used or ""), roofs.vector, roofs.memory)
    return [np.nan if one is None else one for one in known]


def operators(run: Run) -> Operators:
    """Every operator of the run."""
    every = run.get(kernels)
    if not len(every):
        return Operators(np.zeros(0, np.int64), np.zeros(0, np.bool_), _none(every))
    backend = run.get(family)
    launched = every.of(~every.kinds.there("op_type") & every.kinds.there("op"))
    by_host = np.where(launched, every.host, NO_HOST)
    given, texts = _given(run, by_host)
    result, sides = results(run, by_host)
    names, by_name, device_code = _devices(run, every)
    values_, results_ = np.where(launched, given, -1) + 1, np.where(launched, result, -1) + 1
    key = (_same(every.kinds)[every.kind] * (len(texts) + 1) + values_) * (len(sides) + 1) + results_
    key = key * len(names) + device_code
    _, first, number = np.unique(key, return_index=True, return_inverse=True)
    number, count = number.ravel().astype(np.int64), len(first)
    # A call is a host operator with all its kernels; a kernel of its own is a call.
    begins = _begins(np.where(launched & (every.host != NO_HOST), every.host, -every.span_id - 2), every.ts, number)
    inside = begins & ((every.step >= 0) | (not run.stepped))
    calls, in_steps, kernels_ = (
        np.bincount(number[rows], minlength=count) for rows in (begins, inside, np.ones(len(every), np.bool_))
    )
    ns, most = _sums(every.dur, number, count), _most(every, number, count)
    kind, span_id = every.kind[most], every.span_id[most]
    hf32 = np.isin(span_id, run.columns("SELECT span_id FROM kernel WHERE hf32 = 'YES'")["span_id"].astype(np.int64))
    pipes, counted = _counters(run, every, number, count)
    of_device = {name: roofs(by_name.get(name), backend) for name in names}
    said = Coded(np.where(launched, given, -1)[first] + 1, [None, *map(texts.__getitem__, range(len(texts)))])
    gives = Coded(np.where(launched, result, -1)[first] + 1, [None, *map(sides.__getitem__, range(len(sides)))])
    todo = works(every.kinds, kind, said, gives, backend)
    aicpu = every.kinds.each(lambda one: one.on_aicpu, "core").flags()[kind]  # nobody says what that one can do
    peaks = Coded(np.where(aicpu, len(names), device_code[first]), [*map(of_device.__getitem__, names), None])
    return Operators(number, begins, Every(_Columns(
        every.kinds, kind, span_id, said, Coded(device_code[first], names), calls, in_steps, kernels_, ns, todo,
        _precision(todo, every.kinds, kind, hf32, backend), peaks, pipes, counted,
    )))  # fmt: skip


def _precision(todo: Works, kinds: Kinds, kind: Ints, hf32: Bools, backend: str) -> Coded[str | None]:
    """In which precision the matrix units would compute."""
    kernel = kinds.column("name")
    _, first, where = np.unique(
        combined(todo.form, kernel.code[kind], hf32.astype(np.int64)), return_index=True, return_inverse=True
    )  # fmt: skip
    return Coded(where.ravel().astype(np.int64), [
        precision(todo.forms[todo.form[at]], kernel[kind[at]], backend, bool(hf32[at])) for at in first.tolist()
    ])  # fmt: skip


def _none(every: Kernels) -> Every:
    none = np.zeros(0, np.int64)
    empty: Coded[Any] = Coded(none, ())
    return Every(_Columns(
        every.kinds, none, none, empty, empty, none, none, none, none, Works.of(0, (), {}), empty, empty, {}, {}
    ))  # fmt: skip


def works(kinds: Kinds, kind: Ints, given: Coded[str | None], gives: Coded[str | None], backend: str) -> Works:
    """What one call of each operator has to do; an operator is a kind with its plain values and its result."""
    together: list[many.Together] = []
    left = np.ones(len(kind), np.bool_)
    for rows in _alike(kinds, kind, given, gives):
        one = int(rows[0])
        types, shapes = _types(kinds[kind[one]].input_dtypes), kinds.shapes
        text = kinds.column("input_shapes").code[kind[rows]]
        first = shapes.first[text]
        sides = [
            [shapes.dims[shapes.begin[first + place] + side] for side in range(int(shapes.table[1, first[0] + place]))]
            for place in range(len(types or ()))
        ]  # fmt: skip
        for told in many.works(called(kinds[kind[one]]), types or (), sides, values(given[one]), len(rows)):
            together.append(replace(told, rows=rows[told.rows]))
            left[rows[told.rows]] = False
    alone = {
        at: work_of(kinds[kind[at]], given[at], backend, gives[at]) for at in np.flatnonzero(left).tolist()
    }  # fmt: skip
    return Works.of(len(kind), together, alone)


def _alike(kinds: Kinds, kind: Ints, given: Coded[str | None], gives: Coded[str | None]) -> Iterator[Ints]:
    """Operators that are asked together: of one name, types and values, whose tensors have as many sides."""
    types, shapes, text = kinds.column("input_dtypes"), kinds.shapes, kinds.column("input_shapes").code[kind]
    count = np.array([len(_types(one) or ()) for one in types.values], np.int64)[types.code[kind]]
    alone = (shapes.spelt[text] != AS_JSON) | (count == 0) | (count != shapes.count[text]) | (count > _PLACES)
    alone |= kinds.there("output_shapes")[kind] | gives.map(lambda one: one is not None).flags()
    owner = np.repeat(np.arange(len(shapes.count)), shapes.count)
    place = np.arange(len(owner)) - shapes.first[owner]
    odd = (shapes.table[1] >= _PLACES) | (place >= _PLACES)
    weight = np.where(odd, 0, shapes.table[1]) * (_PLACES + 1) ** np.minimum(place, _PLACES - 1)
    form = np.zeros(len(shapes.count), np.int64)
    np.add.at(form, owner, weight)
    mixed = np.zeros(len(shapes.count), np.bool_)
    mixed[owner[odd]] = True
    alone |= mixed[text]
    names = kinds.each(called, *TYPED)
    ours: dict[str, int] = {}
    name = names.map(lambda one: ours.setdefault(one, len(ours))).ints()[kind]
    rows = np.flatnonzero(~alone)
    key = combined(name[rows], types.code[kind[rows]], given.code[rows], form[text[rows]])
    order = np.argsort(key, kind="stable")
    edges = np.flatnonzero(np.diff(key[order], prepend=-1))
    yield from (rows[part] for part in np.split(order, edges[1:]) if len(part) >= many.FEW)


#: Tensors of a call, and sides of a tensor, that are asked together.
_PLACES = 8


@cache
def _types(text: str | None) -> tuple[str | None, ...] | None:
    """The types of a call's tensors as Kineto lists them, None for what is no tensor; None where they are odd."""
    try:
        names = listed(text or "")
    except ValueError:
        return None
    if not isinstance(names, tuple) or not all(isinstance(one, str) for one in names):
        return None
    plain = [dtype(one) for one in names]
    if "TENSORLIST" in plain or not (text or "").strip('"[] '):
        return None
    return tuple(None if one in NO_TENSOR else one for one in plain)


def work_of(kind: Kind, given: str | None, backend: str = "", gives: str | None = None) -> Work:
    """What one call of a kind of work has to do; `given` are the plain values it was called with, as Kineto writes.

    `gives` are the sides of its result, where another operator tells them; its type is that of the first input.
    """
    if not kind.op_type and not kind.op and kind.input_shapes is None:
        reason = "no_shapes" if backend == "npu" else "no_operator"
        return Work("unknown", None, None, None, reason=reason)
    outputs: tuple[Argument, ...] | None
    try:
        # Where the result was recorded and no input was, it has none: a generator of random numbers.
        alone = kind.input_shapes is None and kind.output_shapes is not None
        inputs = () if alone else arguments(kind.input_shapes, kind.input_dtypes, kind.input_formats, kind.name)
        outputs = None if kind.output_shapes is None else arguments(
            kind.output_shapes, kind.output_dtypes, kind.output_formats
        )  # fmt: skip
        if gives is not None and flat(inputs):
            outputs = arguments(gives, f'["{flat(inputs)[0].type}"]')
    except Unmodelled as refused:
        return Work("unknown", None, None, None, reason=refused.reason)
    return work(Call(called(kind), inputs, values(given), outputs))


def called(kind: Kind) -> str:
    """What was called: the type of a kernel that has one, else the host operator, else the kernel."""
    return kind.op_type or kind.op or kind.name


# ---- Which kernels are one operator


def _same(kinds: Kinds) -> Ints:
    """Kinds of kernels that are one operator share a number: those that one call launched."""
    own = kinds.there("op_type") | ~kinds.there("op")
    call = combined(*(kinds.column(name).code for name in ("op", "input_shapes", "input_dtypes")))
    return _in_order(combined(own.astype(np.int64), np.where(own, np.arange(len(kinds)), call)))


def _in_order(key: Ints) -> Ints:
    """Numbers from 0 on, in the order in which keys come first."""
    _, first, where = np.unique(key, return_index=True, return_inverse=True)
    number = np.empty(len(first), np.int64)
    number[np.argsort(first, kind="stable")] = np.arange(len(first))
    return number[where.ravel()]


def _given(run: Run, host: Ints) -> tuple[Ints, Mapping[int, str]]:
    """Per kernel: a number for the values that its host operator was called with, -1 where none were recorded."""
    hosts, where = np.unique(host, return_inverse=True)
    if not len(hosts) or hosts[-1] == NO_HOST:
        return np.full(len(host), -1, np.int64), {}
    told = run.columns(f"SELECT span_id, hash(given) AS code FROM ({_GIVEN})", [_as_text(hosts)])
    order = np.argsort(told["span_id"], kind="stable")
    spans = told["span_id"][order].astype(np.int64)
    if not len(spans):
        return np.full(len(host), -1, np.int64), {}
    at = np.minimum(np.searchsorted(spans, hosts), len(spans) - 1)
    here = np.flatnonzero(spans[at] == hosts)
    codes = told["code"][order[at[here]]].astype(np.uint64)
    _, first, place = np.unique(codes, return_index=True, return_inverse=True)
    found = np.full(len(hosts), -1, np.int64)
    found[here] = place.ravel()
    chosen = spans[at[here[first]]]
    texts = dict(run.con.execute(_GIVEN, [_as_text(chosen)]).fetchall())
    return found[where.ravel()], {number: texts[span_id] for number, span_id in enumerate(chosen.tolist())}


def _as_text(ids: Ints) -> str:
    return " ".join(map(str, ids.tolist()))


def _devices(run: Run, every: Kernels) -> tuple[list[str], Mapping[str, Any], Ints]:
    """Names of devices, what is known of each, and per kernel the place of its device's name."""
    on = [device(run, rank) for rank in run.ranks]
    names = sorted({one.name if one else "" for one in on})
    places = np.array([names.index(one.name if one else "") for one in on], np.int64)
    code = places[np.searchsorted(np.array(run.ranks), every.rank)]
    return names, {one.name: one for one in on if one is not None}, code


def _begins(call: Ints, ts: Ints, number: Ints) -> Bools:
    """The earliest kernel of each call. A call whose kernels are of several devices or kinds counts for each."""
    order = np.lexsort((ts, number, call))
    new = np.ones(len(call), np.bool_)
    new[1:] = (call[order][1:] != call[order][:-1]) | (number[order][1:] != number[order][:-1])
    found = np.zeros(len(call), np.bool_)
    found[order] = new
    return found


def _sums(amounts: Ints, number: Ints, count: int) -> Ints:
    """Exact sums of whole numbers by group."""
    found = np.zeros(count, np.int64)
    np.add.at(found, number, amounts)
    return found


def _most(every: Kernels, number: Ints, count: int) -> Ints:
    """Of each group, a kernel of the kind that takes most of its time."""
    kinds = max(1, len(every.kinds))
    pairs, first, where = np.unique(number * kinds + every.kind, return_index=True, return_inverse=True)
    spent = _sums(every.dur, where.ravel(), len(first))
    found = np.zeros(count, np.int64)
    order = np.argsort(spent, kind="stable")
    found[pairs[order] // kinds] = first[order]  # the longest comes last and stays
    return found


# ---- What the hardware counters say


def _counters(
    run: Run, every: Kernels, number: Ints, count: int
) -> tuple[Mapping[int, Mapping[str, float]], Mapping[int, int]]:
    """Per operator: how long each pipe was busy, over the time of its kernels; and the mean of the cube's operations.

    Neither, where nothing was counted.
    """
    wanted = re.compile(rf"(?:ai[cv]_)?(?:{'|'.join(PIPES)})(?:{'|'.join(BUSY_ENDS)})")
    there = sorted(name for (name,) in run.con.execute("SELECT DISTINCT metric FROM pmu").fetchall())
    metrics = [name for name in there if name == COUNTED or wanted.fullmatch(name)]
    if not metrics:
        return {}, {}
    told = run.columns(
        "SELECT span_id, value, list_position($1::VARCHAR[], metric)::UTINYINT AS place FROM pmu "
        "WHERE list_contains($1::VARCHAR[], metric) AND isfinite(value) AND (metric <> $2 OR value > 0)",
        [metrics, COUNTED],
    )  # fmt: skip
    row, value = _rows(every.span_id, told["span_id"]), np.asarray(told["value"], np.float64)
    # One group more than there are, for counters of what is no kernel here.
    cell = np.append(number, count)[row] * (len(metrics) + 1) + told["place"]
    weight = np.append(np.maximum(1, every.dur), 0).astype(np.float64)[row]
    if COUNTED in metrics:
        weight[told["place"] == metrics.index(COUNTED) + 1] = 1.0
    shape = count + 1, len(metrics) + 1
    whole, sums = (
        np.bincount(cell, weights, shape[0] * shape[1]).reshape(shape)[:-1, 1:] for weights in (weight, weight * value)
    )
    pipes: dict[int, dict[str, float]] = {}
    flops: dict[int, int] = {}
    for at, place in zip(*np.nonzero(sums > 0), strict=True):
        mean = float(sums[at, place] / whole[at, place])
        if metrics[place] == COUNTED:
            flops[int(at)] = round(mean)
        else:
            pipes.setdefault(int(at), {})[metrics[place].removesuffix("_ratio").removesuffix("_exe")] = mean
    return pipes, flops


def _rows(ids: Ints, spans: Ints) -> NDArray[np.int32]:
    """Which of the ids each span is, len(ids) where it is none. Spans of one id mostly follow each other."""
    first = np.concatenate(([0], np.flatnonzero(spans[1:] != spans[:-1]) + 1))[: len(spans)]
    wanted, order = spans[first].astype(np.int64), np.argsort(ids, kind="stable")
    at = np.minimum(np.searchsorted(ids[order], wanted), len(order) - 1)
    found = np.where(ids[order][at] == wanted, order[at], len(ids)).astype(np.int32)
    return np.repeat(found, np.diff(first, append=len(spans)))
