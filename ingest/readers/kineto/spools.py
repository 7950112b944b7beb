"""Batches of the scanner to raw tables on disk, column-wise: no Python runs per event.

Events part by what they are: spans (complete events and instants), memory instants, flows, metadata, counters, and
begin/end pairs. Arguments of host spans and of device spans go to tables of their own. So a kernel's columns cost
nothing on a Python function.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from npulens.ingest.events import NULL, Batch, lost_by
from npulens.ingest.messages import Message
from npulens.ingest.readers.kineto import merged
from npulens.ingest.readers.kineto.calls import Calls
from npulens.ingest.readers.kineto.columns import (  # fmt: skip
    AS_WRITTEN,
    DEVICE_ARGS,
    DEVICE_CATEGORIES,
    HOST_ARGS,
    HOST_CATEGORIES,
    MEMORY_ARGS,
    META_ARGS,
    SCHEMAS,
    SPAN_ARGS,
    TABLE_ARGS,
    TYPES,
    Args,
)
from npulens.ingest.readers.kineto.lanes import Lanes, grown
from npulens.ingest.readers.kineto.spans import Spans
from npulens.ingest.tables.draft import Draft, Spool
from npulens.ingest.tables.ready import Ready
from npulens.ingest.tables.sqltext import literal

Mask = NDArray[np.bool_]

_HOST, _DEVICE = 1, 2
#: Sorts of events by ph: complete, instant, flow, edge, counter, metadata; 0 is none of them.
_SORTS = np.zeros(256, np.uint8)
for _sort, _letters in enumerate(("X", "iI", "stf", "BE", "C", "M"), 1):
    _SORTS[[ord(letter) for letter in _letters]] = _sort
_META = 6
#: Events of another rank of the file.
_OTHERS = 7
#: Stamps and durations beyond these (of 1933, 2116 and 36 years) are damage, and sums with them would not fit 64 bits.
_EARLIEST_NS, _LATEST_NS, _LONGEST_NS = -(2**60), 2**62, 2**60
#: What the columns of host_op are called in the raw table, which need not hold those that are asked of nothing else.
_HOST_OP = {
    "span_id": "row", "input_shapes": "shapes", "input_dtypes": "dtypes",
    **{name: name for name in ("sequence", "fwd_thread", "external_id", "correlation")},
}  # fmt: skip
_ONLY_THERE = ("shapes", "dtypes", "fwd_thread")
_HOST_KEYS = [key for group in (SPAN_ARGS, HOST_ARGS) for keys, _ in group.values() for key in keys]


class Spools:
    """The raw tables of one trace while its batches come in."""

    def __init__(self, draft: Draft, mine: merged.Mine | None = None) -> None:
        """``mine``: tells the processes of the rank that is meant, where the file holds several."""
        self._draft, self._of_mine = draft, mine
        self._spools: dict[str, Spool] = {name: draft.spool(name, schema) for name, schema in SCHEMAS.items()}
        self._sides: NDArray[np.uint8] = np.zeros(1, np.uint8)  # by code + 1: on which side a category is
        self._used: NDArray[np.uint8] = np.ones(1, np.uint8)  # by code + 1: met as more than the id of a flow
        self._mine: NDArray[np.bool_] = np.zeros(1, bool)  # by code + 1: the process is one of the rank that is meant
        self._asked: NDArray[np.bool_] = np.zeros(1, bool)  # by code + 1: of spans of this name arguments are asked
        self.lanes = Lanes()
        self.spans = Spans(draft, self._spools.pop("span_raw")) if draft.straight else None
        self.calls = Calls(self.spans) if self.spans else None
        self.ready = {
            table: Ready(table, draft.dir / f"{table}.ready.spool.parquet", draft.rank)
            for table in ("host_op", "arg") if draft.straight
        }  # fmt: skip
        self.lost: Counter[Message] = Counter()
        self.seen: set[str] = set()  # argument keys met
        self.unheld = 0  # memory and metadata events with arguments that no table has a place for
        self.rows: Counter[str] = Counter()  # rows per raw table
        self.typical_ns: int | None = None  # a stamp from the middle of the first batch
        self.write("strings_raw", {"code": np.array([-1], np.int32), "text": pa.array([""])})

    def add(self, batch: Batch) -> None:
        """Part one batch."""
        self.lost.update({lost_by(reason): times for reason, times in batch.bad.items()})
        first, texts = batch.new_strings
        if len(texts):
            self._learn(first, texts)
        if not batch.n:
            return
        for codes in (batch.name, batch.cat, batch.pid, batch.tid):
            self._used[codes + 1] = 1
        for key, (rows, values) in batch.args.items():
            if len(rows):
                self.seen.add(key)
                if TYPES[key] == "s":
                    self._used[values.astype(np.int64) + 1] = 1
        _Parting(self, batch).write()

    def close(self) -> None:
        """Finish the raw tables."""
        for spool in self._spools.values():
            spool.close()
        self._draft.table("used_raw", pa.table({"code": pa.array(np.flatnonzero(self._used) - 1, type=pa.int32())}))
        self._draft.table("lane_raw", self.lanes.table())
        self._draft.table("category_raw", self.lanes.categories())

    def see(self) -> None:
        """Make the table ``strings``: the texts that are more than the id of a flow; and where texts of calls are."""
        self._draft.make("CREATE TABLE strings AS FROM strings_raw SEMI JOIN used_raw USING (code)")
        text = "(SELECT row, shapes, dtypes FROM host_raw)"
        if self.ready:
            calls = self.ready["host_op"]
            calls.close()
            self._draft.ready |= self.ready
            text = f"""(SELECT span_id - {calls.offset} AS row, input_shapes AS shapes, input_dtypes AS dtypes
                FROM read_parquet({literal(str(calls.path))}))"""
        self._draft.show("host_text", text)

    def asked(self, name: NDArray[np.int32]) -> Mask:
        """Whether arguments of host spans of these names are asked for."""
        return self._asked[name + 1]

    def sides(self, cat: NDArray[np.int32]) -> NDArray[np.uint8]:
        """On which side each category is; 0 if unknown."""
        return self._sides[cat + 1]

    def others(self, pid: NDArray[np.int32]) -> Mask | None:
        """Which processes are another rank's; None if the file is of one."""
        return None if self._of_mine is None else ~self._mine[pid + 1]

    def _learn(self, first: int, texts: pa.Array) -> None:
        self.write("strings_raw", {"code": np.arange(first, first + len(texts), dtype=np.int32), "text": texts})
        side = np.where(_is_in(texts, HOST_CATEGORIES), _HOST, np.where(_is_in(texts, DEVICE_CATEGORIES), _DEVICE, 0))
        self._sides = grown(self._sides, first + 1 + len(texts))
        self._sides[first + 1 : first + 1 + len(texts)] = side
        self._used = grown(self._used, first + 1 + len(texts))
        if self.ready:
            said = pc.or_(pc.equal(texts, "record_param_comms"), pc.starts_with(texts, "c10d::"))
            self._asked = grown(self._asked, first + 1 + len(texts))
            self._asked[first + 1 : first + 1 + len(texts)] = said.to_numpy(zero_copy_only=False)
        if self._of_mine is not None:
            self._mine = grown(self._mine, first + 1 + len(texts))
            self._mine[first + 1 : first + 1 + len(texts)] = self._of_mine(texts)

    def write(self, table: str, columns: Mapping[str, Any]) -> None:
        """Append columns to a raw table."""
        schema = SCHEMAS[table]
        arrays = [pa.array(columns[field.name], type=field.type) for field in schema]
        self.rows[table] += len(arrays[0])
        self._spools[table].write(pa.RecordBatch.from_arrays(arrays, schema=schema))


class _Parting:
    """One batch on its way into the raw tables."""

    def __init__(self, spools: Spools, batch: Batch) -> None:
        self._to, self._batch = spools, batch
        self._columns: dict[str, NDArray[Any]] = {
            "row": batch.row + np.arange(batch.n, dtype=np.int64),
            **{name: getattr(batch, name) for name in ("ph", "ts", "name", "cat", "pid", "tid", "id")},
        }

    def write(self) -> None:
        batch, sort = self._batch, _SORTS[self._batch.ph]
        if (others := self._to.others(batch.pid)) is not None:
            sort = np.where(others, _OTHERS, sort)
        complete, instant, flow, edge, count, meta = (sort == i for i in range(1, 7))
        timed = (batch.ts >= _EARLIEST_NS) & (batch.ts <= _LATEST_NS)
        self._count_losses(sort, complete, timed)
        memory = instant & timed & self._has("Bytes")
        spans = timed & ((complete & (batch.dur >= 0) & (batch.dur <= _LONGEST_NS)) | (instant & ~memory))
        device = spans & complete & self._on_device()
        said = device & self._has("Collective name")
        if self._to.typical_ns is None and spans.any():
            self._to.typical_ns = int(np.sort(batch.ts[spans])[int(spans.sum()) // 2])
        lanes, self._columns["dur"] = self._to.lanes, np.where(complete, batch.dur, 0)
        self._columns["shape"] = lanes.shapes(batch, device, said)
        self._columns["lane"] = lanes.of(batch, device, spans | edge)
        if self._to.spans is None:
            self._table("span_raw", spans)
        else:
            self._to.rows["span_raw"] += int(spans.sum())
            self._to.spans.add(*(self._columns[name][spans] for name in ("lane", "row", "ts", "dur", "shape")))
        self._table("host_raw", spans & ~device & self._has(*_HOST_KEYS))
        for table, mask in (("device_raw", device), ("memory_raw", memory), ("meta_raw", meta)):
            self._table(table, mask)
        self._table("flow_raw", flow & timed)
        self._table("edge_raw", edge & timed)
        self._counters(count & timed)
        homes = (
            (SPAN_ARGS, spans),
            (HOST_ARGS, spans & ~device),
            (DEVICE_ARGS, device),
            (MEMORY_ARGS, memory),
            (META_ARGS, meta),
        )
        self._changed = edge.copy()  # what becomes of their arguments is told later
        for group, home in homes:
            self._strays(group, home, spans | edge, device)
        self._rest("host_rest_raw", (spans & ~device) | (edge & timed))
        self._rest("device_rest_raw", device)
        self._rest("count_rest_raw", count & timed)
        self._to.unheld += int((memory | meta)[batch.rest_rows].sum())

    def _count_losses(self, sort: NDArray[np.uint8], complete: Mask, timed: Mask) -> None:
        batch, lost = self._batch, self._to.lost
        counts = np.bincount(batch.ph[sort == 0], minlength=1)
        for code in np.flatnonzero(counts):
            lost[
                Message("event_kind_unknown_here_ph", {"code": chr(code)}) if code else Message("event_without_ph")
            ] += int(counts[code])
        for reason, mask in (
            (Message("no_time_stamp"), (sort > 0) & (sort < _META) & (batch.ts == NULL)),
            (Message("time_out_range"), (sort > 0) & (sort < _META) & ~timed & (batch.ts != NULL)),
            (Message("duration_out_range"), complete & timed & (batch.dur > _LONGEST_NS)),
            (Message("no_duration"), complete & timed & (batch.dur == NULL)),
            (Message("negative_duration"), complete & timed & (batch.dur < 0) & (batch.dur != NULL)),
        ):
            if mask.any():
                lost[reason] += int(mask.sum())

    def _on_device(self) -> Mask:
        """By category; an unknown category is the device's if its event names a stream."""
        side = self._to.sides(self._batch.cat)
        known: Mask = side == _DEVICE
        return known if side.all() else known | ((side == 0) & self._has("stream"))

    def _has(self, *keys: str) -> Mask:
        mask = np.zeros(self._batch.n, bool)
        for key in keys:
            mask[self._batch.args[key][0]] = True
        return mask

    def _table(self, table: str, mask: Mask) -> None:
        """The rows of the batch that ``mask`` picks, with the argument columns of the table."""
        picked = np.flatnonzero(mask)
        if not len(picked):
            return
        every = len(picked) == self._batch.n
        plain = {
            name: column if every else column[picked]
            for name, column in self._columns.items()
            if name in SCHEMAS[table].names
        }
        if table in TABLE_ARGS:
            place = np.full(self._batch.n, -1, np.int32)
            place[picked] = np.arange(len(picked), dtype=np.int32)
            made = {
                name: self._texts(keys, place, len(picked), as_written=name in AS_WRITTEN)
                if kind == "t"
                else self._column(keys, kind, place, len(picked))
                for name, (keys, kind) in TABLE_ARGS[table].items()
            }
            if self._to.calls is not None and table in ("host_raw", "device_raw"):
                row, ts, lane, shape = (self._columns[name][picked] for name in ("row", "ts", "lane", "shape"))
                ties = made["correlation"], made["external_id"]
                self._to.calls.add(row, ts, lane, shape, *ties, device=table == "device_raw")
            if self._to.spans is not None and table == "host_raw" and made["sequence"].null_count < len(picked):
                known = made["sequence"].is_valid().to_numpy(zero_copy_only=False)
                self._to.spans.sequence(self._columns["row"][picked][known])
            if table == "host_raw" and self._to.ready:
                told = {"row": pa.array(plain["row"]), **made}
                self._to.ready["host_op"].write({name: told[ours] for name, ours in _HOST_OP.items()})
                made |= {name: pa.nulls(len(picked), made[name].type) for name in _ONLY_THERE}
            self._to.write(table, {**plain, **made})
        else:
            self._to.write(table, plain)

    def _column(self, keys: Sequence[str], kind: str, place: NDArray[np.int32], length: int) -> pa.Array:
        """Sparse values of one of the keys as a column; the first key that an event has tells."""
        present = [self._batch.args[key] for key in reversed(keys) if len(self._batch.args[key][0])]
        dtype = {"i": np.int64, "f": np.float64, "s": np.int32}[kind]
        values, missing = np.zeros(length, dtype), np.ones(length, bool)
        for rows, found in present:
            at = place[rows]
            kept = at >= 0
            values[at[kept]], missing[at[kept]] = found[kept], False
        return pa.nulls(length, pa.from_numpy_dtype(dtype)) if missing.all() else pa.array(values, mask=missing)

    def _texts(self, keys: Sequence[str], place: NDArray[np.int32], length: int, *, as_written: bool) -> pa.Array:
        """The same of texts; unless they are wanted as written, a list is written the same however it was."""
        present = [key for key in reversed(keys) if len(self._batch.args[key][0])]
        if not present:
            return pa.nulls(length, pa.string())
        index, first = np.full(length, -1, np.int32), 0
        for key in present:
            rows, found = self._batch.args[key]
            at = place[rows]
            kept = at >= 0
            index[at[kept]] = found[kept] + first
            first += len(self._batch.texts[key])
        texts = pa.concat_arrays([self._batch.texts[key] for key in present])
        return (texts if as_written else listed(texts)).take(pa.array(index, mask=index < 0))

    def _counters(self, count: Mask) -> None:
        """Promoted numbers of counter events; the others come from their rest."""
        if not count.any():
            return
        for key, (rows, values) in self._batch.args.items():
            mine = rows[count[rows]]
            if len(mine) and TYPES[key] in ("i", "f"):
                found = values[count[rows]].astype(np.float64)
                names = pa.array([key] * len(mine))
                plain = {name: self._columns[name][mine] for name in ("row", "ts", "name")}
                self._to.write("count_raw", {**plain, "key": names, "value": found})

    def _strays(self, group: Args, home: Mask, spans: Mask, device: Mask) -> None:
        """Promoted arguments of spans whose kind has no column for them: they go back to the arguments."""
        homeless = spans & ~home
        if not homeless.any():
            return
        for key in {key: None for name, (keys, _) in group.items() if name not in AS_WRITTEN for key in keys}:
            kind = TYPES[key]
            rows, values = self._batch.args[key]
            lost = homeless[rows]
            if not lost.any():
                continue
            picked, found = rows[lost], values[lost]
            self._changed[picked] = True
            nothing = pa.nulls(len(picked), pa.string())
            said: dict[str, Any] = {"value": nothing, "code": pa.nulls(len(picked), pa.int32()), "said": nothing}
            if kind == "s":
                said["code"] = found
            elif kind == "t":
                said["said"] = self._batch.texts[key].take(pa.array(found))
            else:
                said["value"] = pc.cast(pa.array(found), pa.string())
            plain = {
                "row": self._columns["row"][picked],
                "device": device[picked],
                "key": pa.array([key] * len(picked)),
            }
            self._to.write("stray_raw", {**plain, **said})

    def _rest(self, table: str, wanted: Mask) -> None:
        rows, texts = self._batch.rest_rows, self._batch.rest_text
        kept = wanted[rows]
        if table == "host_rest_raw" and self._to.ready:
            final = kept & ~self._changed[rows]
            if final.any():
                mine = pa.array(self._columns["row"][rows[final]])
                args = texts if final.all() else texts.filter(pa.array(final))
                self._to.ready["arg"].write({"span_id": mine, "args": args})
            kept &= ~final | self._to.asked(self._batch.name[rows])
        if not kept.any():
            return
        if not kept.all():
            rows, texts = rows[kept], texts.filter(pa.array(kept))
        plain = {name: self._columns[name][rows] for name in ("row", "ts", "name") if name in SCHEMAS[table].names}
        self._to.write(table, {**plain, "rest": texts})


def listed(texts: pa.Array) -> pa.Array:
    """Lists of shapes, dtypes and launch geometry, written the same however the file was indented."""
    lists = pc.if_else(pc.starts_with(texts, "["), texts, pa.scalar(None, pa.string()))
    if pc.any(pc.match_substring(lists, "\n")).as_py():
        lists = pc.replace_substring_regex(lists, r"\s*\n\s*", "")
    return pc.replace_substring(lists, ", ", ",")


def _is_in(texts: pa.Array, wanted: Sequence[str]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = pc.is_in(texts, value_set=pa.array(wanted)).to_numpy(False)
    return found
