"""The comm table of a small rank: the same as ../comm.py says in SQL."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from npulens.ingest.messages import Message
from npulens.ingest.readers.ascend import helpers
from npulens.ingest.readers.ascend.db.details import DTYPE_BYTES
from npulens.ingest.readers.ascend.few import latest
from npulens.ingest.readers.ascend.text.comm import MAX_LOCAL, NEAR_NS
from npulens.ingest.readers.ascend.text.few.device import KIND, Device
from npulens.ingest.readers.ascend.text.few.trace import Lanes, Trace
from npulens.ingest.readers.ascend.text.lanes import group_name
from npulens.ingest.tables.arrays import NONE, Found, Rows, Texts, Unusual, at, between, coded, first, matches
from npulens.ingest.tables.steps import Ints

_COLLECTIVE = re.compile(r"(?:.*/)?(?:hcom_)?([A-Za-z]+)")
_TAIL = re.compile(r"(__[0-9]{3})_[0-9]+_[0-9]+\Z")
_TIMES = ("transit_ns", "wait_ns", "synchronization_ns", "idle_ns")
_FLAGS = {"yes": 1, "no": 0, "true": 1, "false": 0, "1": 1, "0": 0}
_NO_NOTIFY = ("4294967295", "18446744073709551615")


@dataclass(frozen=True)
class Analysed:
    """The analysis of each operator, as a row of communication.json: -1, none."""

    rows: Rows
    of: Ints


def make(
    trace: Trace, lanes: Lanes, made: Device, groups: Mapping[str, str], ranks: Mapping[str, tuple[int, ...]],
    rank: int, found: Found,
) -> Analysed:  # fmt: skip
    """``groups``: hash of a group -> its name; ``ranks``: name of a group -> its global ranks in order."""
    analysed = _analysis(trace.raws["analysed"], made, found)
    named = _groups(made, analysed, groups)
    _operators(trace, made, analysed, named, found)
    _bandwidths(trace, made, analysed, found)
    _planes(trace, lanes, made, named, ranks, rank, found)
    rows = np.flatnonzero(made.shown & (made.kind == KIND["comm_task"]))
    type_, name, operator = made.type.take(rows), made.name.take(rows), made.operator[rows]
    found.give("comm", {
        "span_id": made.row[rows], "op_span_id": at(made.operators.row, operator),
        "collective": collectives(made.operators.name.take(operator)), "group_name": named.take(operator),
        "task_type": first(_says(type_), _says(name)), "stream": made.stream[rows],
        "task_id": trace.ints("task")[made.hw[rows]],
        "by_stream": pa.array(np.ones(len(rows), bool), mask=~made.helps[rows]),
    })  # fmt: skip
    return analysed


def _says(texts: Texts) -> Texts:
    return texts.only(~texts.where(matches(helpers.NAMELESS, any_case=True)))


def collectives(names: Texts) -> Texts:
    """hcom_allReduce__586_0_1 and Default/AllReduce-op534_0 are an allreduce."""
    found = [_COLLECTIVE.match(name or "") for name in names.known.to_pylist()]
    return Texts(names.codes, pa.array([match and match[1].lower() for match in found], pa.string()))


def _analysis(rows: Rows, made: Device, found: Found) -> Analysed:
    """To each operator its analysis: the same name, and a start that agrees as far as communication.json is exact."""
    operators = made.operators
    name, start = rows.texts("name"), rows.ints("start_ns")
    known = start != NONE
    ours, theirs = coded((name,), (operators.name,))
    last = latest(np.where(known, ours, NONE), np.where(known, start, 0) + NEAR_NS, theirs, operators.ts)
    near = (last >= 0) & (at(operators.ts, last) >= np.where(known, start, 0) - NEAR_NS)
    of = np.full(len(operators.row), -1, np.int64)
    steps = rows.texts("step").list
    for row in np.flatnonzero(near).tolist():
        before = of[last[row]]
        if before >= 0 and (steps[row] is None or steps[before] is None or steps[row] == steps[before]):
            raise Unusual
        if before < 0 or (steps[row] or "") < (steps[before] or ""):
            of[last[row]] = row
    found.dropped.append(("comm", Message("analysis_operator_that_is_not"), len(rows) - int((of >= 0).sum())))
    return Analysed(rows, of)


def _groups(made: Device, analysed: Analysed, groups: Mapping[str, str]) -> Texts:
    """The group of each operator: as its analysis or its lane says, else as its name lets see."""
    hashes = analysed.rows.texts("hash").take(analysed.of).list
    known: dict[tuple[str | None, str | None, str], str | None] = {}
    names = []
    for lane, told, name in zip(made.operators.group.list, hashes, made.operators.name.list, strict=True):
        found = _TAIL.search(name or "")
        key = (lane, told, found[1] if found else "")
        if key not in known:
            known[key] = groups.get(told, told) if told else group_name(lane, f"{key[2]}_0_0", groups)
        names.append(known[key])
    return Texts.of(pa.array(names, pa.string()))


def _operators(trace: Trace, made: Device, analysed: Analysed, named: Texts, found: Found) -> None:
    operators = made.operators
    dtype, count = trace.texts("op_dtype").take(operators.at), trace.ints("count")[operators.at]
    size = [DTYPE_BYTES.get(one) for one in dtype.known.to_pylist()]
    sizes = [
        many * bytes_ if many != NONE and (bytes_ := size[code]) is not None else None
        for many, code in zip(count.tolist(), dtype.codes.tolist(), strict=True)
    ]
    found.give("comm", {
        "span_id": operators.row, "op_span_id": operators.row, "collective": collectives(operators.name),
        "group_name": named,
        "bytes": pa.array([None if of is None or not -(2**63) <= of < 2**63 else of for of in sizes], pa.int64()),
        "count": count, "dtype": dtype, "algorithm": trace.texts("algorithm").take(operators.at),
        "relay": _flags(trace.texts("relay").take(operators.at)),
        "retry": _flags(trace.texts("retry").take(operators.at)),
        **{name: at(analysed.rows.ints(name), analysed.of) for name in _TIMES},
    })  # fmt: skip


def _flags(texts: Texts) -> Ints:
    """Yes and no, in words or as a number."""
    known = texts.known.take(pa.array(np.unique(texts.codes))).to_pylist()
    if any(text is not None and text not in _FLAGS for text in known):
        raise Unusual
    values = np.array([NONE if text is None else _FLAGS.get(text, NONE) for text in texts.known.to_pylist()], np.int64)
    return values[texts.codes]


def _bandwidths(trace: Trace, made: Device, analysed: Analysed, found: Found) -> None:
    """How an operator's bytes went, with its other arguments."""
    bandwidth = analysed.rows.texts("bandwidth").take(analysed.of)
    rows = np.flatnonzero(bandwidth.there)
    rest = trace.raws["rest"]
    others = dict(zip(rest.ints("row").tolist(), rest.table["rest"].to_pylist(), strict=True))
    args = []
    for row, text in zip(made.operators.row[rows].tolist(), bandwidth.take(rows).list, strict=True):
        other = others.get(row)
        args.append(f'{"{" if other is None else other[:-1] + ","}"Communication Bandwidth Info":{text}}}')
    found.give("arg", {"span_id": made.operators.row[rows], "args": pa.array(args, pa.string())})


def bandwidth_of(made: Device, analysed: Analysed) -> Ints:
    """Rows of operators whose arguments have been given."""
    return made.operators.row[analysed.rows.texts("bandwidth").take(analysed.of).there]


def _planes(
    trace: Trace, lanes: Lanes, made: Device, named: Texts, ranks: Mapping[str, tuple[int, ...]], rank: int,
    found: Found,
) -> None:  # fmt: skip
    """Tasks of the planes."""
    rows, operators = made.plane, made.operators
    group = Texts.of(lanes.texts("group_name").take(rows).array)
    source, target = trace.ints("src")[rows], trace.ints("dst")[rows]
    meaning = _peers(group, _small(source), _small(target), ranks, rank, found)
    ours, theirs = coded((group.filled(),), (operators.group.filled(),))
    last = latest(ours, trace.ts[rows], theirs, operators.ts)
    operator = np.where((last >= 0) & (trace.ts[rows] <= at(operators.till, last)), last, -1)
    type_, name = trace.texts("task_type").take(rows), trace.name.take(rows).filled()
    bandwidth = trace.floats("bandwidth").take(pa.array(rows))
    notify = trace.texts("notify").take(rows)
    without = pa.array(_NO_NOTIFY)
    codes = group.codes.tolist()
    found.give("comm", {
        "span_id": trace.row[rows], "op_span_id": at(operators.row, operator),
        "collective": collectives(operators.name.take(operator)), "group_name": first(named.take(operator), group),
        "plane": lanes.ints("plane")[rows], "task_type": first(type_, name),
        "src_rank": _ranks(codes, source, meaning), "dst_rank": _ranks(codes, target, meaning),
        "src_local": _small(source), "dst_local": _small(target),
        "bytes": between(trace.ints("bytes")[rows], 0, 2**63 - 1),
        **{name: _valid(trace.texts(name).take(rows)) for name in ("dtype", "transport", "link_type")},
        "bandwidth_bytes_per_s": pc.multiply(bandwidth, 1e9),
        "notify_id": notify.map(lambda known: pc.if_else(pc.is_in(known, value_set=without), None, known)),
        "stream": trace.ints("stream")[rows], "task_id": trace.ints("task")[rows],
    })  # fmt: skip
    found.give("span", {
        "span_id": trace.row[rows], "track": lanes.ints("track")[rows], "kind": pa.repeat("comm_task", len(rows)),
        "name": name, "ts_ns": trace.ts[rows], "dur_ns": trace.dur[rows],
    })  # fmt: skip


def _valid(texts: Texts) -> Texts:
    return texts.map(lambda known: pc.if_else(pc.equal(known, "INVALID_TYPE"), None, known))


def _small(values: Ints) -> Ints:
    return between(values, 0, 2**31 - 1)


def _ranks(groups: Sequence[int], local: Ints, meaning: Mapping[int, Mapping[int, int]]) -> Ints:
    nothing: Mapping[int, int] = {}
    found = [
        meaning.get(group, nothing).get(number, NONE) for group, number in zip(groups, local.tolist(), strict=True)
    ]
    return np.array(found, np.int64)


def _peers(
    group: Texts, source: Ints, target: Ints, ranks: Mapping[str, tuple[int, ...]], rank: int, found: Found
) -> dict[int, Mapping[int, int]]:
    """What a rank number of a group's tasks means in the job, by the code of the group."""
    meaning: dict[int, Mapping[int, int]] = {}
    guessed = False
    for code in np.unique(group.codes).tolist():
        rows = group.codes == code
        listed = ranks.get(group.known[code].as_py() or "", ())
        numbers, times = np.unique(source[rows & (source != NONE)], return_counts=True)
        if len(numbers) and int((times == times.max()).sum()) > 1:
            raise Unusual
        own = int(numbers[np.argmax(times)]) if len(numbers) else None
        if listed and (own is None or (own < len(listed) and listed[own] == rank)):
            meaning[code] = dict(enumerate(listed))
        elif own == rank:
            largest = int(max(source[rows].max(), target[rows].max()))
            meaning[code] = {number: number for number in listed or range(min(largest + 1, MAX_LOCAL))}
            guessed |= not listed
    if guessed:
        found.notes.append(("comm", Message("ranks_group_are_listed_nowhere")))
    return meaning
