"""The spans of a file in order, without a join.

What a lane and a shape mean is looked up by their numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from npulens.ingest.readers.kineto.columns import SCHEMAS
from npulens.ingest.readers.kineto.lanes import Shapes
from npulens.ingest.tables.draft import Draft, Spool
from npulens.ingest.tables.runs import Block, Looks, Ordered, Runs
from npulens.ingest.tables.steps import Ints

#: Shapes of a file at most: each has a name that is held.
_SHAPES = 1 << 18
_RAW = SCHEMAS["span_raw"]
_SORT = pa.schema([("shape", pa.int64()), *((name, pa.string()) for name in ("kind", "cat", "text"))])
_EVENTS = "SELECT row, ts, dur, shape, lane FROM {} ORDER BY row"


class Spans:
    """The spans of one trace while its batches come in."""

    def __init__(self, draft: Draft, spool: Spool) -> None:
        """``spool``: their raw table, which is written where a statement asks for all of them."""
        self._runs, self._shapes = Runs(draft.dir / "span.runs.spool.parquet"), Shapes()
        self._sequenced: list[Ints] = []
        self._spool: Spool | None = spool

    def add(self, lane: NDArray[np.int32], row: Ints, ts: Ints, dur: Ints, shape: Ints) -> None:
        """Some more, column by column."""
        if self._runs.dropped:
            return self._write(lane, row, ts, dur, shape)
        if not len(row):
            return
        if len(self._shapes.keys) > _SHAPES or self._runs.crowded:
            self._write_all()
            self._runs.drop()
            return self._write(lane, row, ts, dur, shape)
        self._runs.add(lane, Block(row, ts, dur, self._shapes.of(shape)))

    def _write(self, lane: NDArray[Any], row: Ints, ts: Ints, dur: Ints, shape: Ints) -> None:
        columns = {"row": row, "ts": ts, "dur": dur, "shape": shape, "lane": lane}
        if self._spool is not None and len(row):
            arrays = [pa.array(columns[field.name], field.type) for field in _RAW]
            self._spool.write(pa.RecordBatch.from_arrays(arrays, schema=_RAW))

    def _write_all(self) -> None:
        for lane, block in self._runs.blocks():
            self._write(lane, block.row, block.ts, block.dur, self.shape(block.look))

    def whole(self, draft: Draft) -> None:
        """Make ``span_raw``, and ``ev`` of it, if they are not there."""
        if self._spool is not None:
            if not self._runs.dropped:
                self._write_all()
            self._spool.close()
            self._spool = None
            draft.make("CREATE VIEW ev AS FROM span_raw")

    def pick(self, shapes: Ints) -> pa.Table:
        """The spans of some shapes."""
        wanted = np.isin(np.asarray(self._shapes.keys), shapes)
        parts = []
        for lane, block in self._runs.blocks():
            at = np.flatnonzero(wanted[block.look])
            columns = (block.row[at], block.ts[at], block.dur[at], self.shape(block.look[at]), lane[at])
            arrays = [pa.array(column, field.type) for column, field in zip(columns, _RAW, strict=True)]
            parts.append(pa.RecordBatch.from_arrays(arrays, schema=_RAW))
        return pa.Table.from_batches(parts, _RAW)

    @property
    def met(self) -> pa.Table | None:
        """Every shape; None where they are too many."""
        return None if self._runs.dropped else pa.table({"shape": np.array(self._shapes.keys, np.int64)})

    def sequence(self, rows: Ints) -> None:
        """Note spans that have a sequence number."""
        if not self._runs.dropped:
            self._sequenced.append(rows)

    def sequenced(self) -> Ints:
        """Rows of the spans that have one."""
        self._sequenced = [np.concatenate([*self._sequenced, np.zeros(0, np.int64)])]
        return self._sequenced[0]

    def number(self, shape: Ints) -> Looks:
        """The number of each of some shapes."""
        return np.zeros(len(shape), np.int32) if self._runs.dropped else self._shapes.of(shape)

    def shape(self, number: Looks) -> Ints:
        """The shape of each of some numbers."""
        return np.asarray(self._shapes.keys)[number]

    def told(self, draft: Draft) -> pa.Table | None:
        """Kind, category and name of each shape, by its number; None where they are too many."""
        if self._runs.dropped or not self._runs.rows:
            return None
        found = draft.con.sql("SELECT shape, kind, cat, text FROM sort ORDER BY shape").to_arrow_table().cast(_SORT)
        keys = np.asarray(self._shapes.keys)
        order = np.argsort(keys)
        if not np.array_equal(keys[order], found["shape"].to_numpy()):
            return None
        place = np.empty(len(keys), np.int64)
        place[order] = np.arange(len(keys))
        return found.take(pa.array(place)).combine_chunks()

    def complete(self, draft: Draft, *, paired: bool, on_cpu: bool) -> None:
        """Add those that were found later."""
        for source in (["edge"] if paired else []) + (["cpu_task"] if on_cpu else []):
            for batch in draft.con.sql(_EVENTS.format(source)).to_arrow_reader(1 << 16):
                row, ts, dur, shape, lane = (column.to_numpy(zero_copy_only=False) for column in batch.columns)
                self.add(lane, row, ts, dur, shape)

    def by_track(self, draft: Draft) -> Ordered | None:
        """All of them in order, without what they are called. None where they must be sorted."""
        if self._runs.dropped or not self._runs.rows:
            return None
        tracks = [(*lane, 0) for lane in draft.con.execute("SELECT lane, track FROM lane ORDER BY lane").fetchall()]
        nothing, looks = pa.array([""]), len(self._shapes.keys)
        ordered = Ordered(self._runs, tracks, nothing, np.zeros(looks, np.int8), nothing, np.zeros(looks, np.int32))
        return ordered if ordered.orderly else None

    def ordered(self, draft: Draft, shift_ns: int) -> Ordered | None:
        """All of them by track and time. None where they must be sorted."""
        if (told := self.told(draft)) is None:
            return None
        lanes = draft.con.execute("SELECT lane, track, waits FROM lane ORDER BY lane").fetchall()
        kind, name = (pc.dictionary_encode(told[of]).combine_chunks() for of in ("kind", "text"))
        words = list(dict.fromkeys([*kind.dictionary.to_pylist(), "runtime", "wait"]))
        codes = kind.indices.to_numpy().astype(np.int8)
        # A thread that only waits for a device has calls that are waits.
        waits = np.where(codes == words.index("runtime"), np.int8(words.index("wait")), codes)
        looks = np.concatenate((codes, waits))
        tracks = [(lane, track, len(codes) if waiting else 0) for lane, track, waiting in lanes]
        names = np.tile(name.indices.to_numpy(), 2)
        ordered = Ordered(self._runs, tracks, pa.array(words), looks, name.dictionary, names, shift_ns)
        return ordered if ordered.orderly else None
