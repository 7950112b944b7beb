"""trace_view.json and msprof_*.json: one pass over the events into raw tables, one per shape of event.

Metadata may stand anywhere in the file, so nothing is decided here about what an event means. Events that span time are
only parted by the arguments they carry, to keep each raw table narrow. `x` is all of them again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from npulens.ingest.errors import IngestError
from npulens.ingest.events import NULL, Batch, Column, scan
from npulens.ingest.messages import Message, of_file
from npulens.ingest.readers.ascend.text.ordered import Traced
from npulens.ingest.tables.draft import Draft, Spool
from npulens.ingest.tables.ready import Ready

#: Key in the file -> type for the scanner, name of ours, by the shape of event that carries it.
HOST = {
    "Sequence number": ("i", "sequence"),
    "Fwd thread id": ("i", "fwd_thread"),
    "Input Dims": ("t", "dims"),
    "Input type": ("t", "dtypes"),
    "Call stack": ("s", "stack"),
    "correlation_id": ("i", "correlation"),
    "External id": ("i", "external"),
    "connection_id": ("i", "connection"),
}
HARDWARE = {
    "Task Type": ("s", "task_type"),
    "Physic Stream Id": ("i", "stream"),
    "Stream Id": ("i", "old_stream"),
    "Task Id": ("i", "task"),
    "Subtask Id": ("i", "context"),
    "Model Id": ("i", "model"),
    "Batch Id": ("i", "batch"),
    "data size(Byte)": ("i", "bytes"),
    "size(B)": ("i", "old_bytes"),
    "memcpy direction": ("s", "direction"),
    "operation": ("s", "old_direction"),
    "bandwidth(GB/s)": ("f", "bandwidth"),
    "connection_id": ("i", "connection"),
}
COMM = {
    "task type": ("s", "task_type"),
    "stream id": ("i", "stream"),
    "task id": ("i", "task"),
    "context id": ("i", "context"),
    "src rank": ("i", "src"),
    "dst rank": ("i", "dst"),
    "notify_id": ("s", "notify"),
    "transport type": ("s", "transport"),
    "link type": ("s", "link_type"),
    "size(Byte)": ("i", "bytes"),
    "data type": ("s", "dtype"),
    "data_type": ("s", "op_dtype"),
    "alg_type": ("s", "algorithm"),
    "count": ("i", "count"),
    "relay": ("s", "relay"),
    "retry": ("s", "retry"),
    "bandwidth(GB/s)": ("f", "bandwidth"),
    "connection_id": ("i", "connection"),
}
META = {"name": ("s", "value"), "labels": ("s", "labels"), "sort_index": ("i", "sort")}
#: Keys of counters worth a column; any other comes through the rest.
SERIES = ("value", "MHz", "KB", "Read(MB/s)", "Write(MB/s)", "Throughput(MB/s)", "Hit Rate(%)")
#: Keys that repeat what the span says already: its thread, its name, its nesting. Read and let go.
REPEATED = {
    "Python id": "i", "Python parent id": "i", "Python module id": "i", "Thread Id": "i", "id": "s", "level": "s"
}  # fmt: skip

#: No stamp lies beyond the year 2096, so that no sum of a stamp and a duration overflows.
LATEST = 4 * 10**18
#: Keys that tell a hardware task and a communication span from the others.
_IS_HARDWARE, _IS_COMM = ("Task Type", "Task Id"), ("task type", "task id", "alg_type", "notify_id")
_ARROW = {"i": pa.int64(), "f": pa.float64(), "s": pa.int32(), "t": pa.string(), "b": pa.bool_()}
_X, _COUNTER, _META, _FLOWS, _INSTANTS = ord("X"), ord("C"), ord("M"), [ord(c) for c in "stf"], [ord(c) for c in "iI"]


def _schema(columns: str, family: Mapping[str, tuple[str, str]] | None = None) -> pa.Schema:
    """Columns written as name:type, then those of a family of arguments."""
    plain = [(name, _ARROW[kind]) for name, _, kind in (word.partition(":") for word in columns.split())]
    return pa.schema([*plain, *((name, _ARROW[kind]) for kind, name in (family or {}).values())])


_SPAN = "row:i lane:i ts:i dur:i name:s cat:s"
_SCHEMAS = {
    "x_host": _schema(_SPAN, HOST),
    "x_hardware": _schema(_SPAN, HARDWARE),
    "x_comm": _schema(_SPAN, COMM),
    "meta": _schema("row:i name:s pid:s tid:s", META),
    "flow": _schema("row:i lane:i ts:i route:s id:i starts:b"),
    "counter": _schema("name:s series:t accelerator:i pid:s ts:i value:f"),
    "counter_rest": _schema("name:s pid:s ts:i rest:t"),
    "rest": _schema("row:i rest:t"),
    "str": _schema("code:s text:t"),
}
_FAMILIES = {"x_host": HOST, "x_hardware": HARDWARE, "x_comm": COMM, "meta": META}


Code = TypeVar("Code", np.int32, np.int64)


@dataclass
class Pass:
    """What one pass over the files has met."""

    rows: int = 0  # numbers given to events so far
    codes: int = 0  # string codes given so far
    spans: int = 0
    lost: Counter[Message] = field(default_factory=Counter)
    repeated: int = 0
    named: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(1 << 16, bool))  # codes to be looked up often
    damage: list[Message] = field(default_factory=list)
    traced: Traced | None = None  # its spans in order, if they need no statement
    calls: Ready | None = None  # its table host_op, if nothing else tells of calls


def read_trace(paths: Sequence[Path], draft: Draft, *, whole: bool = False, alone: bool = False) -> Pass:
    """Read the slices of one trace into the views x_host, x_hardware, x_comm, flow, counter, meta, rest and str.

    The view word_code has the codes of texts that spans and metadata name things by; stacks are in str alone.
    ``whole``: all that is in one file is of the rank. ``alone``: no other file tells of calls.
    """
    done = Pass()
    if draft.straight and whole and len(paths) == 1:
        done.traced = Traced(draft)
        if alone:
            done.calls = Ready("host_op", draft.dir / "host_op.ready.spool.parquet", draft.rank)
    spools = {name: draft.spool(name, schema) for name, schema in _SCHEMAS.items()}
    for path in paths:
        try:
            _read(path, draft, spools, done)
        except IngestError as error:
            done.damage.append(error.said())
    for spool in spools.values():
        spool.close()
    if done.calls is not None:
        done.calls.close()
        draft.ready["host_op"] = done.calls
    codes = pa.array(np.flatnonzero(done.named[: done.codes]).astype(np.int32))
    draft.table("word_code", pa.Table.from_arrays([codes], names=["code"]))
    return done


def see(draft: Draft) -> None:
    """Make the view x, all that spans time, and the table word, the texts that spans and metadata name things by."""
    shapes = (f"SELECT *, '{name[2:]}' AS shape FROM {name}" for name in ("x_host", "x_hardware", "x_comm"))
    draft.make("CREATE VIEW x AS " + " UNION ALL BY NAME ".join(shapes))
    draft.make("CREATE TEMP TABLE word AS SELECT code, text FROM str SEMI JOIN word_code USING (code)")


def _read(path: Path, draft: Draft, spools: Mapping[str, Spool], done: Pass) -> None:
    events = scan(path, _columns())
    first_row, first_code, read = done.rows, done.codes, 0
    for batch in events:
        _Split(batch, first_row, first_code, spools, done).write()
        done.rows = first_row + batch.row + batch.n + sum(batch.bad.values())
        draft.advance(events.file_bytes - read)
        read = events.file_bytes
    done.lost.update(events.lost())
    if events.truncated:
        cut = events.truncated
        if events.bytes_lost:
            cut = Message("bytes_lost", {"reason": cut, "n": events.bytes_lost})
        done.damage.append(of_file(path, cut))


def _columns() -> list[Column]:
    wanted = {key: kind for family in _FAMILIES.values() for key, (kind, _) in family.items()}
    wanted |= dict.fromkeys(SERIES, "f") | {"acc_id": "i"} | REPEATED
    return [Column(key, kind) for key, kind in wanted.items()]


class _Split:
    """One batch on its way into the raw tables."""

    def __init__(self, batch: Batch, first_row: int, first_code: int, spools: Mapping[str, Spool], done: Pass) -> None:
        self.batch, self.first_code, self.spools, self.done = batch, first_code, spools, done
        self.row = np.arange(batch.n, dtype=np.int64) + (first_row + batch.row)
        self.name, self.cat = self._coded(batch.name), self._coded(batch.cat)
        self.pid, self.tid = self._coded(batch.pid), self._coded(batch.tid)
        self.lane = self.pid.astype(np.int64) << 32 | (self.tid.astype(np.int64) & 0xFFFFFFFF)
        instant = np.isin(batch.ph, _INSTANTS)
        self.dur = np.where(instant, 0, batch.dur)
        self.stamped = (batch.ts >= -LATEST) & (batch.ts <= LATEST)
        self.shaped = (batch.ph == _X) | instant
        self.spans = self.shaped & self.stamped & (self.dur >= 0) & (self.dur <= LATEST)
        self.counts = (batch.ph == _COUNTER) & self.stamped

    def write(self) -> None:
        self._write_strings()
        hardware = self._carries(_IS_HARDWARE) & self.spans
        comm = self._carries(_IS_COMM) & self.spans & ~hardware
        self._note(self.name[self.spans])
        self._note(self.cat[self.spans])
        for name, mask in ("x_hardware", hardware), ("x_comm", comm), ("x_host", self.spans & ~hardware & ~comm):
            at = np.flatnonzero(mask)
            self._put(name, at, [self.row, self.lane, self.batch.ts, self.dur, self.name, self.cat])
        if self.done.traced is not None:
            place, named = (self.pid, self.tid), (self.name, self.cat)
            self.done.traced.add(self.row, self.batch.ts, self.dur, place, named, self.spans)
        at = np.flatnonzero(self.batch.ph == _META)
        self._put("meta", at, [self.row, self.name, self.pid, self.tid])
        for codes in (self.name, self.pid, self.tid):
            self._note(codes[at])
        self._write_flows()
        self._write_counters()
        self._write_rest()
        self._count()

    def _write_strings(self) -> None:
        first, texts = self.batch.new_strings
        codes = np.arange(len(texts), dtype=np.int32) + np.int32(first + self.first_code)
        self.spools["str"].write(pa.Table.from_arrays([pa.array(codes), texts], schema=_SCHEMAS["str"]))
        self.done.codes = max(self.done.codes, first + self.first_code + len(texts))
        if self.done.codes > len(self.done.named):
            self.done.named = np.concatenate([self.done.named, np.zeros(self.done.codes, bool)])

    def _write_flows(self) -> None:
        batch = self.batch
        at = np.flatnonzero(np.isin(batch.ph, _FLOWS) & self.stamped & (batch.id != -1))
        route = np.where(self.cat >= 0, self.cat, self.name)
        self._put("flow", at, [self.row, self.lane, batch.ts, route, self._coded(batch.id), batch.ph == _FLOWS[0]])

    def _write_counters(self) -> None:
        if not self.counts.any():
            return
        accelerator = self._dense("acc_id", "i", np.arange(self.batch.n, dtype=np.int32), self.batch.n)
        for series in SERIES:
            rows, values = self.batch.args.get(series, (np.empty(0, np.int32), np.empty(0)))
            kept = self.counts[rows] & np.isfinite(values)
            at = rows[kept]
            which = [self.name[at], pa.repeat(series, len(at)), accelerator.take(pa.array(at)), self.pid[at]]
            self._write("counter", [*which, self.batch.ts[at], values[kept]])

    def _write_rest(self) -> None:
        rows, texts = self.batch.rest_rows, self.batch.rest_text
        of_spans = np.flatnonzero(self.spans[rows])
        self._write("rest", [self.row[rows[of_spans]], texts.take(pa.array(of_spans))])
        of_counters = np.flatnonzero(self.counts[rows])
        at = rows[of_counters]
        self._write("counter_rest", [self.name[at], self.pid[at], self.batch.ts[at], texts.take(pa.array(of_counters))])

    def _count(self) -> None:
        """Count what is not kept, by reason."""
        batch, lost = self.batch, self.done.lost
        known = self.shaped | np.isin(batch.ph, [_COUNTER, _META, *_FLOWS])
        for letter, count in zip(*np.unique(batch.ph[~known], return_counts=True), strict=True):
            lost[Message("event_phase", {"code": f"{chr(letter)!r}"})] += int(count)
        for reason, mask in (
            (Message("no_stamp_or_one_no"), (self.shaped | (batch.ph == _COUNTER)) & ~self.stamped),
            (Message("no_duration"), self.shaped & self.stamped & (self.dur == NULL)),
            (Message("duration_more_than_century"), self.shaped & self.stamped & (self.dur > LATEST)),
            (Message("negative_duration"), self.shaped & self.stamped & (self.dur < 0) & (self.dur != NULL)),
        ):
            lost[reason] += int(mask.sum())
        self.done.spans += int(self.spans.sum())
        self.done.repeated += sum(len(batch.args[key][0]) for key in REPEATED if key in batch.args)

    def _carries(self, keys: Sequence[str]) -> NDArray[np.bool_]:
        mask = np.zeros(self.batch.n, bool)
        for key in keys:
            if key in self.batch.args:
                mask[self.batch.args[key][0]] = True
        return mask

    def _coded(self, codes: NDArray[Code]) -> NDArray[Code]:
        """Codes unique over all files."""
        return np.where(codes >= 0, codes + codes.dtype.type(self.first_code), codes) if self.first_code else codes

    def _put(self, name: str, at: NDArray[np.intp], columns: Sequence[NDArray[Any]]) -> None:
        """Write the events at ``at``: these columns, then the arguments of the table's family."""
        if len(at):
            family = _FAMILIES.get(name, {})
            place = np.full(self.batch.n, -1, np.int32)
            place[at] = np.arange(len(at), dtype=np.int32)
            arguments = [self._dense(key, kind, place, len(at)) for key, (kind, _) in family.items()]
            if name == "x_host" and self.done.calls is not None:
                arguments = _called(self.done.calls, self.row[at], arguments)
            for argument, (kind, _) in zip(arguments, family.values(), strict=True):
                if kind == "s" and family is not HOST:
                    self._note(argument.drop_null().to_numpy())
            self._write(name, [*(column[at] for column in columns), *arguments])

    def _note(self, codes: NDArray[np.int32]) -> None:
        """Remember codes whose text will be looked up; -1 is none and marks the last place, which is no code yet."""
        self.done.named[codes] = True

    def _write(self, name: str, columns: Sequence[Any]) -> None:
        if len(columns[0]):
            arrays = [pa.array(column) for column in columns]
            self.spools[name].write(pa.Table.from_arrays(arrays, schema=_SCHEMAS[name]))

    def _dense(self, key: str, kind: str, place: NDArray[np.int32], length: int) -> pa.Array:
        """One argument of the events that have a place, NULL where an event has none."""
        rows, values = self.batch.args.get(key, _NO_ARGUMENT)
        to = place[rows]
        ours = to >= 0
        if not ours.any():
            return pa.nulls(length, _ARROW[kind])
        coded: NDArray[Any] = self._coded(values) if kind == "s" else values
        full, missing = np.zeros(length, coded.dtype), np.ones(length, bool)
        full[to[ours]], missing[to[ours]] = coded[ours], False
        dense = pa.array(full, mask=missing)
        return one_line(self.batch.texts[key]).take(dense) if kind == "t" else dense


def _called(calls: Ready, row: NDArray[np.int64], arguments: Sequence[pa.Array]) -> list[pa.Array]:
    """Write what calls were called with; the same arguments without those that nothing else asks for."""
    told = dict(zip((name for _, name in HOST.values()), arguments, strict=True))
    known = pa.array(np.zeros(len(row), bool))
    for name in ("sequence", "correlation", "connection", "dims", "dtypes", "external"):
        known = pc.or_(known, pc.is_valid(told[name]))
    connection = pc.if_else(pc.equal(told["connection"], _NO_CONNECTION), None, told["connection"])
    made = {
        "span_id": pa.array(row), "input_shapes": told["dims"], "input_dtypes": told["dtypes"],
        "sequence": told["sequence"], "fwd_thread": told["fwd_thread"], "external_id": told["external"],
        "correlation": pc.coalesce(told["correlation"], connection),
    }  # fmt: skip
    calls.write({name: column.filter(known) for name, column in made.items()})
    return [pa.nulls(len(row), of.type) if name in _ASKED_ONCE else of for name, of in told.items()]


def one_line(texts: pa.Array) -> pa.Array:
    """Shapes without the line breaks that the profiler puts behind each semicolon."""
    return pc.replace_substring(pc.replace_substring(texts, "\r", ""), "\n", "")


_NO_CONNECTION = 4294967295
_ASKED_ONCE = ("dims", "dtypes", "fwd_thread")
_NO_ARGUMENT: tuple[NDArray[np.int32], NDArray[Any]] = (np.empty(0, np.int32), np.empty(0))
