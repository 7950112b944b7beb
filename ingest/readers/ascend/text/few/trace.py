"""The events of a small trace in arrays, and the lanes that they are on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from npulens.ingest.readers.ascend.text.lanes import Named, Seen
from npulens.ingest.readers.ascend.text.trace_view import COMM, HARDWARE, HOST
from npulens.ingest.tables.arrays import NONE, Rows, Texts, Unusual
from npulens.ingest.tables.held import Bools
from npulens.ingest.tables.steps import Ints

_SHAPES = (("x_host", HOST), ("x_hardware", HARDWARE), ("x_comm", COMM))
_COLUMNS = [{name: kind for kind, name in family.values()} for _, family in _SHAPES]
_NO_ID = 4294967295


def known_id(values: Ints) -> Ints:
    """Numbers; the tools' word for none is none."""
    return np.where(values == _NO_ID, NONE, values)


class Trace:
    """All that spans time, in the order of the shapes of its events: host, hardware, communication."""

    def __init__(self, raws: Mapping[str, Rows]) -> None:
        self.raws = raws
        words = raws["str"]
        codes = words.ints("code")
        if not np.array_equal(codes, np.arange(len(codes))):
            raise Unusual
        self.words: pa.Array = words.table["text"].combine_chunks()
        self.row, self.lane, self.ts, self.dur, self.name_code, self.cat_code = (
            self._plain(name) for name in ("row", "lane", "ts", "dur", "name", "cat")
        )
        self.name, self.cat = self.texts_of(self.name_code), self.texts_of(self.cat_code)
        self.shape = np.repeat([0, 1, 2], [len(raws[name]) for name, _ in _SHAPES])

    def __len__(self) -> int:
        return len(self.row)

    @property
    def host(self) -> Bools:
        return np.asarray(self.shape == 0, np.bool_)

    def _plain(self, name: str) -> Ints:
        return np.concatenate([self.raws[table].ints(name) for table, _ in _SHAPES])

    def ints(self, name: str) -> Ints:
        """An argument of the events that have it; none for the others."""
        return np.concatenate([
            self.raws[table].ints(name) if columns.get(name) == "i" else np.full(len(self.raws[table]), NONE)
            for (table, _), columns in zip(_SHAPES, _COLUMNS, strict=True)
        ])  # fmt: skip

    def texts(self, name: str) -> Texts:
        """The same of an argument that is a text."""
        return self.texts_of(np.concatenate([
            self.raws[table].ints(name) if columns.get(name) == "s" else np.full(len(self.raws[table]), NONE)
            for (table, _), columns in zip(_SHAPES, _COLUMNS, strict=True)
        ]))  # fmt: skip

    def floats(self, name: str) -> pa.Array:
        """The same of a finite number."""
        parts = [
            self.raws[table].table[name].combine_chunks() if columns.get(name) == "f"
            else pa.nulls(len(self.raws[table]), pa.float64())
            for (table, _), columns in zip(_SHAPES, _COLUMNS, strict=True)
        ]  # fmt: skip
        whole = pa.concat_arrays(parts)
        return pc.if_else(pc.fill_null(pc.is_finite(whole), False), whole, None)

    def texts_of(self, codes: Ints) -> Texts:
        """The texts of codes; NULL for none."""
        known, rows = np.unique(codes, return_inverse=True)
        texts = self.words.take(pa.array(known, mask=(known < 0) | (known >= len(self.words))))
        return Texts(rows.reshape(-1).astype(np.int64), pa.concat_arrays([texts, pa.nulls(1, pa.string())]))

    def text(self, code: int) -> str | None:
        return self.words[code].as_py() if 0 <= code < len(self.words) else None

    def named(self) -> list[Named]:
        """What metadata events name processes and threads: of several the last."""
        meta = self.raws["meta"]
        pid, tid, what = (self.texts_of(meta.ints(name)).list for name in ("pid", "tid", "name"))
        value, labels = (self.texts_of(meta.ints(name)).list for name in ("value", "labels"))
        texts: dict[tuple[str, str | None, str], tuple[str | None, int | None]] = {}
        everything = zip(pid, tid, what, value, labels, meta.ints("sort").tolist(), strict=True)
        for process, thread, kind, text, label, sort in everything:
            if process is not None and kind is not None:
                before = texts.get((process, thread, kind), (None, None))
                told = text if text is not None else label
                number = before[1] if sort == NONE else sort
                texts[process, thread, kind] = (before[0] if told is None else told), number
        return [Named(*key, *said) for key, said in texts.items()]

    def seen(self) -> list[Seen]:
        """Every lane that has spans."""
        lanes, of = np.unique(self.lane, return_inverse=True)
        many = len(lanes)
        hardware, comm, framework = (
            np.bincount(of[rows], minlength=many) > 0 for rows in (self.shape == 1, self.shape == 2, self.cat_code >= 0)
        )
        least = np.full(many, np.iinfo(np.int64).max)
        np.minimum.at(least, of, self.name_code)
        return [
            Seen(lane, self.text(lane >> 32) or "", self.text(lane & 0xFFFFFFFF) or "", bool(hardware[at]),
                 bool(comm[at]), bool(framework[at]), int(least[at]))
            for at, lane in enumerate(lanes.tolist())
        ]  # fmt: skip


@dataclass(frozen=True)
class Lanes:
    """The lanes of a trace, and for each of its spans the lane that it is on."""

    rows: Sequence[Mapping[str, Any]]
    of: Ints

    @staticmethod
    def make(trace: Trace, rows: Sequence[Mapping[str, Any]]) -> Lanes:
        lanes = np.array([row["lane"] for row in rows], np.int64)
        order = np.argsort(lanes)
        tracks = [row["track"] for row in rows]
        if len(set(tracks)) < len(tracks) or (np.diff(lanes[order]) == 0).any():
            raise Unusual
        return Lanes(rows, order[np.searchsorted(lanes[order], trace.lane)] if len(lanes) else trace.lane)

    def where(self, *classes: str) -> Bools:
        """The spans on lanes of some classes."""
        chosen = np.array([row["class"] in classes for row in self.rows], bool)
        return chosen[self.of] if len(chosen) else np.zeros(len(self.of), bool)

    def ints(self, name: str) -> Ints:
        """What is said of the lane of each span."""
        known = np.array([NONE if row[name] is None else row[name] for row in self.rows], np.int64)
        return known[self.of] if len(known) else self.of

    def texts(self, name: str) -> Texts:
        known = pa.array([*(row[name] for row in self.rows), None], pa.string())
        return Texts(self.of, known)
