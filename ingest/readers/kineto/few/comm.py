"""What communicates in a small trace: the same as ../witness.py and ../tables.py say in SQL."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from npulens.ingest.readers.kineto import npu
from npulens.ingest.readers.kineto.few.links import Tasks, graph_launch
from npulens.ingest.readers.kineto.few.trace import Trace
from npulens.ingest.readers.kineto.tables import ALGORITHM, ELEMENTS
from npulens.ingest.tables import comm_facts
from npulens.ingest.tables.arrays import NONE, Found, Unusual, lookup
from npulens.ingest.tables.steps import Ints

_SIZES = {name: size for size, names in ELEMENTS.items() for name in names.split()}
_INTEGER = re.compile(r"\s*-?[0-9]{1,18}\s*\Z")


class Rest:
    """Arguments that no column holds, each event's read once."""

    def __init__(self, trace: Trace, table: str) -> None:
        raw = trace.raws[table]
        self._texts = dict(zip(raw.ints("row").tolist(), raw.table["rest"].to_pylist(), strict=True))
        self._known: dict[int, Mapping[str, object]] = {}
        if len(self._texts) < len(raw):
            raise Unusual

    def __contains__(self, row: int) -> bool:
        return row in self._texts

    def text(self, row: int, *keys: str) -> str | None:
        """The first of some arguments that an event has, as a text."""
        told = self._of(row)
        for key in keys:
            if (value := _text(told.get(key))) is not None:
                return value
        return None

    def whole(self, row: int, key: str) -> int | None:
        """A whole number of 64 bits."""
        text = self.text(row, key)
        if text is None or not any(letter.isdigit() for letter in text):
            return None
        if not _INTEGER.match(text):
            raise Unusual
        return int(text)

    def _of(self, row: int) -> Mapping[str, object]:
        if row not in self._known:
            try:
                told = json.loads(self._texts.get(row) or "{}", object_pairs_hook=_once)
            except (ValueError, RecursionError) as error:
                raise Unusual from error
            self._known[row] = told if isinstance(told, dict) else {}
        return self._known[row]


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    told = dict(pairs)
    if len(told) < len(pairs):  # which of them counts is not told
        raise Unusual
    return told


def _text(value: object) -> str | None:
    """A value as SQL takes it out of JSON."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return str(value)
    if isinstance(value, list) and all(isinstance(one, int) and not isinstance(one, bool) for one in value):
        return json.dumps(value, separators=(",", ":"))
    raise Unusual


@dataclass(frozen=True)
class Said:
    """What the operators above a launch say of it."""

    team: str | None
    dtype: str | None
    elements: int | None
    by_shape: bool


def word_of(word: str, said: str | None) -> str | None:
    """The kind of collective that a name's letters say, else what the event said."""
    return next((kind for part, kind in comm_facts.NAMED if part in word), said)


def above(trace: Trace, tasks: Tasks, rest: Rest) -> dict[int, Said]:
    """For each launch below a communication operator what that operator says; tasks that only it tells are refused."""
    called = _Called(trace)
    if not called.any:
        return {}
    below = called.below(trace, tasks)
    if not below:
        return {}
    _refuse_told(trace, tasks, set(below))
    told: dict[tuple[int, int], Said | None] = {}
    found = {}
    for task, place in below.items():
        if place not in told:
            told[place] = _said(trace, called.calls[place], rest)
        said = told[place]
        if said is not None:
            found[task] = said
    return found


class _Called:
    """Calls of the host that launch communication, each with the outermost around it."""

    def __init__(self, trace: Trace) -> None:
        names = trace.shapes.name
        launches = np.asarray(
            pc.match_substring_regex(names, comm_facts.facts().launching).to_numpy(zero_copy_only=False), bool
        )
        shapes = launches & ~trace.shapes.device & trace.shapes.where("cpu_op", "annotation")
        rows = np.flatnonzero(shapes[trace.of] & (trace.dur > 0))
        until = trace.ts + trace.dur
        rows = rows[np.lexsort((trace.row[rows], -until[rows], trace.ts[rows], trace.track[rows]))]
        self.any = len(rows) > 0
        self.calls: dict[tuple[int, int], list[int]] = defaultdict(list)  # (track, number): spans, the outermost first
        self._tops: dict[int, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))  # track: begins, ends
        reach: dict[int, int] = {}
        for row in rows.tolist():
            track = int(trace.track[row])
            begins, ends = self._tops[track]
            if track not in reach or trace.ts[row] >= reach[track]:
                begins.append(int(trace.ts[row]))
                ends.append(int(until[row]))
            reach[track] = max(reach.get(track, int(until[row])), int(until[row]))
            self.calls[track, len(begins)].append(row)

    def below(self, trace: Trace, tasks: Tasks) -> dict[int, tuple[int, int]]:
        """The tasks whose call lies in such a call, and in which."""
        found = {}
        spans = trace.place(tasks.src)
        for task in np.flatnonzero(spans >= 0).tolist():
            span = spans[task]
            begins, ends = self._tops.get(int(trace.track[span]), ([], []))
            place = int(np.searchsorted(begins, trace.ts[span], side="right"))
            if place and trace.ts[span] < ends[place - 1]:
                found[task] = (int(trace.track[span]), place)
        return found


def _refuse_told(trace: Trace, tasks: Tasks, below: set[int]) -> None:
    """Work that only its launches tell to be communication is left to the statements."""
    plain = trace.shapes.where("kernel", "unknown") & ~trace.shapes.fused
    computes = np.asarray(
        pc.match_substring_regex(trace.shapes.name, comm_facts.facts().arithmetic).to_numpy(zero_copy_only=False), bool
    )
    asked = {int(tasks.of[task]) for task in below if plain[tasks.of[task]] and not computes[tasks.of[task]]}
    graph = graph_launch(trace, tasks.call)
    for shape in asked:
        if all(task in below or graph[task] for task in np.flatnonzero(tasks.of == shape).tolist()):
            raise Unusual


def _said(trace: Trace, calls: list[int], rest: Rest) -> Said | None:
    names = [trace.shapes.name[int(trace.of[call])].as_py() for call in calls]
    params = [
        int(trace.row[call]) for call, name in zip(calls, names, strict=True)
        if name == "record_param_comms" and int(trace.row[call]) in rest
    ]  # fmt: skip
    team = dtype = None
    elements: int | None = None
    if len(params) == 1:
        team, dtype = rest.text(params[0], "Process Group Name"), rest.text(params[0], "dtype")
        sizes = [rest.whole(params[0], key) for key in ("In msg nelems", "Out msg nelems")]
        elements = max((size for size in sizes if size is not None), default=None)
    largest = _largest(trace, calls[0])
    by_shape = elements is None
    if largest is not None:
        dtype = largest[0] if dtype is None else dtype
        elements = largest[1] if elements is None else elements
    return None if elements is None and team is None else Said(team, dtype, elements, by_shape)


def _largest(trace: Trace, call: int) -> tuple[str, int] | None:
    """Type and elements of the largest tensor that an operator was called with."""
    host = trace.raws["host_raw"]
    place = int(lookup(trace.row[call : call + 1], host.ints("row"))[0])
    if place < 0:
        return None
    shapes, dtypes = (host.table[name][place].as_py() for name in ("shapes", "dtypes"))
    try:
        dims, types = json.loads(shapes or "null"), json.loads(dtypes or "null")
    except ValueError:
        return None
    except RecursionError as error:
        raise Unusual from error
    if not isinstance(dims, list) or not isinstance(types, list):
        return None
    found: list[tuple[int, str]] = []
    for size, type_ in zip(dims, types, strict=False):
        name = type_.lower().replace("c10::", "") if isinstance(type_, str) else ""
        if not isinstance(size, list) or not size or name not in _SIZES:
            continue
        if not all(isinstance(one, int) and not isinstance(one, bool) for one in size):
            raise Unusual
        many = int(np.prod([float(one) for one in size]))
        if many > 2**53:
            raise Unusual
        if many > 0:
            found.append((many, name))
    if not found:
        return None
    most = max(many for many, _ in found)
    names = {name for many, name in found if many == most}
    if len(names) > 1:
        raise Unusual
    return names.pop(), most


def rows_of(trace: Trace, tasks: Tasks) -> Ints:
    """The tasks that communicate."""
    return np.flatnonzero((trace.shapes.where("comm_op") | trace.shapes.fused)[tasks.of])


def give(trace: Trace, tasks: Tasks, said: Mapping[int, Said], rest: Rest, found: Found) -> bool:
    """The comm table; whether a row has both size and group."""
    device = trace.raws["device_raw"]
    streams, codes = device.ints("stream")[tasks.at], device.ints("collective")[tasks.at]
    made: dict[str, list[object]] = {
        name: [] for name in _COMM.names if name not in ("span_id", "op_span_id", "stream")
    }
    rows = rows_of(trace, tasks)
    sized = False
    for task in rows.tolist():
        row, shape = int(tasks.row[task]), int(tasks.of[task])
        text = trace.shapes.name[shape].as_py()
        one = _row(text, trace.text(int(codes[task])) if codes[task] != NONE else None,
                   trace.shapes.collective[shape], said.get(task), rest, row)  # fmt: skip
        sized |= one["bytes"] is not None and one["group_name"] is not None
        for name, values in made.items():
            values.append(one[name])
    columns: dict[str, object] = {name: pa.array(values, _COMM.field(name).type) for name, values in made.items()}
    found.give("comm", columns | {
        "span_id": tasks.row[rows], "op_span_id": tasks.row[rows], "stream": streams[rows],
    })  # fmt: skip
    return sized


_COMM = pa.schema([
    ("collective", pa.string()), ("group_name", pa.string()), ("src_rank", pa.int64()), ("dst_rank", pa.int64()),
    ("count", pa.int64()), ("dtype", pa.string()), ("bytes", pa.int64()), ("algorithm", pa.string()),
])  # fmt: skip


def _row(
    text: str, said: str | None, told: str | None, above_it: Said | None, rest: Rest, row: int
) -> Mapping[str, object]:
    name = said if said is not None else told if told is not None else text
    kind = word_of(re.sub(r"[^a-z]", "", name.lower()), said)
    sizes = [rest.whole(row, key) for key in ("In msg nelems", "Out msg nelems")]
    own = max((size for size in sizes if size is not None), default=rest.whole(row, "count"))
    dtype, team = rest.text(row, *npu.DTYPE), rest.text(row, *npu.GROUP)
    lent = own is None and above_it is not None and (not above_it.by_shape or kind == "allreduce")
    elements = own
    if above_it is not None:
        team = above_it.team if team is None else team
        if lent:
            elements = above_it.elements
            dtype = above_it.dtype if dtype is None else dtype
    size = _SIZES.get((dtype or "").lower())
    moved = elements * size if elements is not None and size is not None else None
    algorithm = re.search(ALGORITHM, text)
    return {
        "collective": kind, "group_name": team, "src_rank": _rank(rest.whole(row, "Src Rank")),
        "dst_rank": _rank(rest.whole(row, "Dst Rank")), "count": elements, "dtype": dtype,
        "bytes": moved if moved is not None and -(2**63) <= moved < 2**63 else None,
        "algorithm": algorithm[1] if algorithm and algorithm[1] else rest.text(row, *npu.ALGORITHM),
    }  # fmt: skip


def _rank(value: int | None) -> int | None:
    return value if value is not None and -(2**31) <= value < 2**31 else None
