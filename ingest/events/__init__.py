"""The event scanner: a trace's JSON events as columns, in bounded memory, exact to the nanosecond.

``scan`` reads what Chrome's trace format has become in practice. That is a bare array of events or an object around
one, with numbers or strings for stamps and ids. The file may be plain or gzipped, whole or cut short. An event that is
not well formed is lost alone and counted. Where text is missing, reading goes on at the next event that stands there
whole, and the bytes between are counted. What is lost at the end of a damaged file is measured.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from npulens.ingest.errors import IngestError
from npulens.ingest.events.frame import Broken, Frame, Window
from npulens.ingest.events.model import DAMAGED, MORE, NULL, Batch, Buffer, Column, Parts, Scanner, lost_by
from npulens.ingest.events.plain import Scanner as PlainScanner
from npulens.ingest.events.source import open_source
from npulens.ingest.messages import Message, joined

try:
    from npulens.ingest.events._scan import Scanner as CScanner
except ImportError:  # installed where there was no compiler
    CScanner = None  # type: ignore[assignment,misc]

__all__ = ["NULL", "Batch", "Column", "Scan", "lost_by", "scan"]

_CHUNK = 8 << 20
_TABLE = 64 << 20  # bytes of distinct texts remembered
_VALUES = {"i": np.int64, "n": np.int64, "f": np.float64, "s": np.int32, "t": np.int32}


def scan(path: Path, columns: Sequence[Column], *, flow_names: bool = True, chunk_size: int = _CHUNK) -> Scan:
    """Open a trace and read up to its first event.

    ``flow_names``: names of flow events (ph s, t, f) lose trailing digits, for torch_npu numbers every one of them.
    Raises IngestError 'not_a_trace' or 'unreadable'. Iterate the Scan for batches; it closes itself at the end.
    """
    return Scan(path, columns, flow_names, chunk_size)


class Scan:
    """A trace being read. ``header`` has what precedes the events at once, and everything when they are through."""

    def __init__(self, path: Path, columns: Sequence[Column], flow_names: bool, chunk_size: int) -> None:
        if len({column.key for column in columns}) < len(columns) or {c.type for c in columns} - set(_VALUES):
            raise ValueError(f"columns need distinct keys and a type of {', '.join(_VALUES)}")
        self.truncated: Message | None = None  # what is wrong with the text, if it is not whole
        self.bytes_lost = 0
        self.gaps = self._first_gap = self._gap_bytes = 0  # damage passed by: places, the first, bytes
        self.bad: Counter[str] = Counter()  # over all batches so far
        self._closed = False
        self._columns = tuple(columns)
        self._source = open_source(path)
        self._window = Window(self._source, chunk_size)
        self._frame = Frame(self._window, str(path))
        self._scanner = _scanner(self._columns, flow_names)
        try:
            self._frame.enter()
        except IngestError as error:
            self.close()
            if self._source.damage:
                error.message = joined([error.message, self._source.damage])
            raise
        self._row, self._offset = 0, self._window.offset

    @property
    def header(self) -> dict[str, object]:
        """The other members of the root object, decoded; empty for a bare array."""
        return self._frame.header

    @property
    def bytes_read(self) -> int:
        """Bytes of text read so far (of a gzip file: unpacked)."""
        return self._window.read

    @property
    def file_bytes(self) -> int:
        """Bytes of the file read so far, for progress."""
        return self._source.file_bytes

    def __enter__(self) -> Scan:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_source"):
            self.close()

    def close(self) -> None:
        """Let go of the file, its bytes and the strings met; harmless when done twice."""
        self._closed = True
        self._source.close()
        self._window.forget()
        self._scanner = _scanner((), True)

    def __iter__(self) -> Iterator[Batch]:
        if self._closed:
            return
        with self:
            yield from self._events()
            if self._frame.bad:
                window = self._window
                yield self._batch(Parts._make(self._scanner.feed(window.data, 0, 0, False)[3]), self._frame.bad)

    def _events(self) -> Iterator[Batch]:
        """Batches up to the end of the array, then whatever follows it."""
        window, met, last = self._window, MORE, False
        while met == MORE:
            met, window.start, done, raw = self._scanner.feed(window.data, window.start, window.end, last)
            if done >= 0:
                self._offset = window.base + done
            parts = Parts._make(raw)
            self._pass(parts)
            if parts.n or parts.bad:
                yield self._batch(parts, parts.bad)
            if met == DAMAGED:
                return self._stop(Message("damaged_at_byte", {"offset": window.offset - self._scanner.pending}))
            if met == MORE and last:
                return self._stop(Message("file_ends_before_its_event"))
            last = met == MORE and not window.more()
        try:
            self._frame.leave()
        except Broken as broken:
            return self._stop(broken.said)
        self._say(self._source.damage)
        if self._source.trailing:
            self._frame.bad["trailing data"] = 1

    def lost(self) -> Counter[Message]:
        """What was met so far and could not be kept, by reason."""
        return Counter({lost_by(reason): times for reason, times in self.bad.items()})

    def _stop(self, reason: Message) -> None:
        """Nothing can be read from here on: say why, and how much that is."""
        self.bytes_lost += self._scanner.pending + self._window.drain()
        self._say(self._source.damage or reason)

    def _pass(self, parts: Parts) -> None:
        """Note which damage was passed by."""
        if parts.gaps and not self.gaps:
            self._first_gap = self._window.base + parts.gap_at
        self.gaps += parts.gaps
        self._gap_bytes += parts.gap_bytes
        self.bytes_lost += parts.gap_bytes

    def _say(self, end: Message | None) -> None:
        """Say what is wrong with the text: damage that was passed by, and what ended it early."""
        told = [end] if end else []
        if self.gaps:
            lost = {"offset": self._first_gap, "n": self.gaps, "bytes": self._gap_bytes}
            told = [Message("damage_was_passed_by", lost), Message("idle_may_be_lost_work"), *told]
        self.truncated = joined(told) if told else None

    def _batch(self, parts: Parts, bad: dict[str, int]) -> Batch:
        row = self._row
        self._row += parts.elements
        self.bad.update(bad)
        args = {
            column.key: (_array(rows, np.int32), _array(values, _VALUES[column.type]))
            for column, (rows, values, _, _) in zip(self._columns, parts.args, strict=True)
        }
        texts = {
            column.key: _texts(offsets, text)
            for column, (_, _, offsets, text) in zip(self._columns, parts.args, strict=True)
            if column.type == "t"
        }
        return Batch(
            n=parts.n,
            row=row,
            offset=self._offset,
            ph=_array(parts.ph, np.uint8),
            ts=_array(parts.ts, np.int64),
            dur=_array(parts.dur, np.int64),
            name=_array(parts.name, np.int32),
            cat=_array(parts.cat, np.int32),
            pid=_array(parts.pid, np.int32),
            tid=_array(parts.tid, np.int32),
            id=_array(parts.id, np.int64),
            args=args,
            texts=texts,
            rest_rows=_array(parts.rest_rows, np.int32),
            rest_text=_texts(parts.rest_offsets, parts.rest_bytes),
            new_strings=(parts.first_code, _texts(parts.string_offsets, parts.string_bytes)),
            bad=bad,
        )


def _scanner(columns: Sequence[Column], flow_names: bool) -> Scanner:
    if CScanner is None or os.environ.get("NPULENS_PLAIN") == "1":
        return PlainScanner(columns, flow_names, _TABLE)
    return CScanner(columns, flow_names, _TABLE, int.from_bytes(os.urandom(8), "little"))


def _array(buffer: Buffer, kind: type[Any]) -> NDArray[Any]:
    return np.frombuffer(buffer, dtype=kind)


def _texts(offsets: Buffer, text: Buffer) -> pa.Array:
    count = memoryview(offsets).nbytes // 4 - 1
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(text))
