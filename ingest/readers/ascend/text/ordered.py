"""The spans of a trace in order, without a join of its host's.

What a lane and a name mean is looked up by number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from npulens.ingest.readers.ascend.text.host import DEVICE, KIND, SPANS
from npulens.ingest.readers.kineto.lanes import Dense, Shapes
from npulens.ingest.tables.draft import Draft, give_back, union
from npulens.ingest.tables.runs import Block, Looks, Ordered, Runs
from npulens.ingest.tables.steps import Ints

#: Lanes, categories and names with a category that are told apart, and events of which the start is known.
_LANES, _PROCESSES, _THREADS = 1 << 15, 1 << 10, 1 << 14
_CATEGORIES, _NAMED, _EVENTS = 1 << 12, 1 << 16, 8_000_000
_BATCH = 40_960
_LOOK = pa.schema([("number", pa.int64()), ("name", pa.int32()), ("cat", pa.int32())])
_LINKS = "SELECT src AS src_span_id, dst AS dst_span_id, route, late AS latency_ns FROM launched"
_LATE = pa.schema([("src", pa.int64()), ("dst", pa.int64()), ("route", pa.string()), ("late", pa.int64())])


class _Lanes(NamedTuple):
    number: dict[int, int]  # of each lane
    spans: Ordered  # a track for each


class Traced:
    """The spans of one trace while its batches come in; their rows count events."""

    def __init__(self, draft: Draft) -> None:
        self._runs, self._shapes = Runs(draft.dir / "span.runs.spool.parquet"), Shapes()
        self._cats = Dense(_CATEGORIES)
        self._pids, self._tids, self._pairs = Dense(_PROCESSES), Dense(_THREADS), Dense(_LANES)
        self._starts: list[tuple[int, Ints]] = []
        self._events = 0

    def add(
        self, row: Ints, ts: Ints, dur: Ints, place: tuple[Looks, Looks], named: tuple[Looks, Looks],
        spans: NDArray[np.bool_],
    ) -> None:  # fmt: skip
        """The events of a batch, of which some are spans. ``place``: process and thread; ``named``: name, category."""
        if self._runs.dropped or not len(row):
            return
        self._starts.append((int(row[0]), ts))
        self._events = int(row[-1]) + 1
        pid, tid, (name, cat) = place[0][spans], place[1][spans], (of[spans] for of in named)
        if len(pid):
            pairs = self._pids.of(pid + 1).astype(np.int64) * _THREADS + self._tids.of(tid + 1)
            shape = ((name.astype(np.int64) + 1) << 16) | self._cats.of(cat + 1)
            self._runs.add(self._pairs.of(pairs), Block(row[spans], ts[spans], dur[spans], self._shapes.of(shape)))
        full = (
            len(self._pairs.keys) >= _LANES, len(self._pids.keys) >= _PROCESSES, len(self._tids.keys) >= _THREADS,
            len(self._cats.keys) >= _CATEGORIES, len(self._shapes.keys) > _NAMED, self._events > _EVENTS,
            self._runs.crowded,
        )  # fmt: skip
        if any(full):
            self._runs.drop()

    def lanes(self) -> _Lanes | None:
        """The spans of each lane in order; None if they must be sorted."""
        if self._runs.dropped or not self._runs.rows:
            return None
        number, looks = {}, len(self._shapes.keys)
        for at, key in enumerate(self._pairs.keys):
            pid, tid = (int(of) - 1 for of in (self._pids.keys[key // _THREADS], self._tids.keys[key % _THREADS]))
            number[pid << 32 | tid & 0xFFFFFFFF] = at
        nothing = pa.array([""])
        kinds, names = np.zeros(looks, np.int8), np.zeros(looks, np.int32)
        spans = Ordered(self._runs, [(at, at, 0) for at in number.values()], nothing, kinds, nothing, names)
        return _Lanes(number, spans) if spans.orderly else None

    def others(self, meant: Sequence[int]) -> NDArray[np.bool_]:
        """Of each look whether its category is none of these, or any at all."""
        cats = np.array([0, *self._cats.keys])[1 + (np.asarray(self._shapes.keys, np.int64) & 0xFFFF)] - 1
        return ~np.isin(cats, [*meant, -1])

    def provide(self, draft: Draft) -> None:
        """Say that the draft's spans are there in order, and its links, once both are provided."""
        if self._runs.dropped:
            return
        spans = self._ordered(draft, [select for select in draft.selects["span"] if select != SPANS])
        if spans is not None and self._links(draft):
            draft.spans = spans
        self._starts = []
        give_back()

    def _links(self, draft: Draft) -> bool:
        """Provide links that know how late they are."""
        if not draft.selects.get("link"):
            return True
        begins = np.zeros(self._events, np.int64)
        for row, ts in self._starts:
            begins[row : row + len(ts)] = ts
        with draft.spool("launched", _LATE) as spool:
            for batch in draft.con.sql(union(draft.selects["link"])).to_arrow_reader(_BATCH):
                src, dst = (batch.column(f"{end}_span_id").to_numpy(zero_copy_only=False) for end in ("src", "dst"))
                if len(src) and not 0 <= min(src.min(), dst.min()) <= max(src.max(), dst.max()) < self._events:
                    return False
                late = pa.array(begins[dst] - begins[src])
                route = batch.column("route").cast(pa.string())
                columns = [batch.column("src_span_id"), batch.column("dst_span_id"), route, late]
                spool.write(pa.RecordBatch.from_arrays(columns, schema=_LATE))
        draft.selects["link"] = [_LINKS]
        return True

    def _ordered(self, draft: Draft, device: list[str]) -> Ordered | None:
        if (by_lane := self.lanes()) is None:
            return None
        keys, looks = np.asarray(self._shapes.keys, np.int64), len(self._shapes.keys)
        draft.table("look", pa.table([
            pa.array(np.arange(looks)), pa.array((keys >> 16) - 1, pa.int32()),
            pa.array(np.array([0, *self._cats.keys])[1 + (keys & 0xFFFF)] - 1, pa.int32()),
        ], schema=_LOOK))  # fmt: skip
        told = draft.con.sql(
            f"""SELECT l.class, {KIND} AS kind, coalesce(n.text, '') AS name
            FROM (SELECT DISTINCT class FROM lane WHERE class NOT IN {DEVICE}) l CROSS JOIN look k
            LEFT JOIN word n ON n.code = k.name LEFT JOIN word c ON c.code = k.cat ORDER BY l.class, k.number"""
        ).to_arrow_table()
        classes = dict.fromkeys(told["class"].to_pylist()[:: looks or 1])
        base = {of: at * looks for at, of in enumerate(classes)}
        number = by_lane.number
        lanes = draft.con.execute(f"SELECT lane, track, class FROM lane WHERE class NOT IN {DEVICE}").fetchall()
        tracks = [(number[lane], track, base[of]) for lane, track, of in lanes if lane in number]
        kinds, names = told["kind"].to_pylist(), told["name"].to_pylist()
        beside = self._device(draft, device, kinds, names) if device else {}
        if beside is None:
            return None
        tracks += [(lane, track, 0) for track, lane in beside.items()]
        kind, name = (pc.dictionary_encode(pa.array(of, pa.string())) for of in (kinds, names))
        if len(kind.dictionary) > 100 or not tracks:
            return None
        ordered = Ordered(
            self._runs, tracks, kind.dictionary, kind.indices.to_numpy().astype(np.int8), name.dictionary,
            name.indices.to_numpy(),
        )  # fmt: skip
        return ordered if ordered.orderly and ordered.rows else None

    def _device(self, draft: Draft, selects: list[str], kinds: list[str], names: list[str]) -> dict[int, int] | None:
        """Add the spans that statements made; the lane of each of their tracks. None if they cannot be numbered."""
        lanes, known = dict[int, int](), dict[tuple[str, str], int]()
        asked = f"SELECT span_id, track, kind, coalesce(name, '') AS name, ts_ns, dur_ns FROM ({union(selects)})"
        for batch in draft.con.sql(asked).to_arrow_reader(_BATCH):
            if not batch.num_rows:
                continue
            if any(column.null_count for column in batch.columns):
                return None
            row, track, ts, dur = (batch.column(of).to_numpy() for of in ("span_id", "track", "ts_ns", "dur_ns"))
            if (dur < 0).any():
                return None
            for each in np.unique(track).tolist():
                lanes.setdefault(each, len(self._pairs.keys) + len(lanes))
            look = self._looks(batch, known, kinds, names)
            if len(self._pairs.keys) + len(lanes) > 2 * _LANES or len(names) > 4 * _NAMED or self._runs.dropped:
                return None
            distinct, at = np.unique(track, return_inverse=True)
            lane = np.array([lanes[each] for each in distinct.tolist()], np.int32)[at]
            self._runs.add(lane, Block(row, ts, dur, look))
        return None if self._runs.dropped else lanes

    def _looks(
        self, batch: pa.RecordBatch, known: dict[tuple[str, str], int], kinds: list[str], names: list[str]
    ) -> Looks:
        """The number of kind and name of each span, new ones behind those that are there."""
        kind, name = (pc.dictionary_encode(batch.column(of)) for of in ("kind", "name"))
        whole = kind.indices.to_numpy().astype(np.int64) * len(name.dictionary) + name.indices.to_numpy()
        distinct, at = np.unique(whole, return_inverse=True)
        texts, words = name.dictionary.to_pylist(), kind.dictionary.to_pylist()
        numbers = []
        for pair in distinct.tolist():
            told = (words[pair // len(texts)], texts[pair % len(texts)])
            if told not in known:
                known[told] = len(kinds)
                kinds.append(told[0])
                names.append(told[1])
            numbers.append(known[told])
        return np.array(numbers, np.int32)[at]
