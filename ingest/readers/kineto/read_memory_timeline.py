"""Memory timelines that torch.profiler's export_memory_timeline writes, told by what they hold whatever their name.

Two forms, plain or gzipped: ``[[times in us], [[bytes by category]...]]``, and raw ``[[time in ns, action, bytes,
category]...]``, one entry for each change. Both are of one device, which the file does not name.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from npulens.ingest.errors import IngestError
from npulens.ingest.events.source import open_source
from npulens.ingest.loading import peek
from npulens.ingest.messages import Message
from npulens.ingest.readers import Claim, Facts
from npulens.ingest.readers.kineto.head import GZIP, is_unix, rank_in_name
from npulens.ingest.tables.draft import Draft

TITLE = "torch.profiler memory timeline"

Ints = NDArray[np.int64]

#: The categories in the order of the numbers that stand for them; the last is what PyTorch could not tell.
CATEGORIES = (
    "parameter", "optimizer state", "input", "temporary", "activation", "gradient", "autograd detail", "unknown",
)  # fmt: skip
_COUNTER = "PyTorch memory"
#: Actions of the raw form, and the stamp of what was there before the recording.
_ACTIONS, _BEFORE = (1, 2, 3, 4), -1
_RAW = re.compile(rb"\s*\[\s*\[\s*(-1|\d{18,19})\s*,\s*[1-4]\s*,\s*-?\d+\s*,\s*[0-7]\s*\]")
_SUMS = re.compile(rb"\s*\[\s*\[\s*(\d{15,16})\s*[,\]]")
_NUMBERS = b"0123456789-, \t\r\n[]"
_BLOCK = 4 << 20
_SAMPLES = pa.schema({"ts_ns": pa.int64(), "allocated_bytes": pa.int64()})
_SERIES = pa.schema({"ts_ns": pa.int64(), "series": pa.string(), "value": pa.float64()})


def sniff(path: Path) -> Claim | None:
    """A list whose first entry is one of times, or one change of memory."""
    head = peek.head(path)
    if head.startswith(GZIP):
        try:
            head = zlib.decompressobj(wbits=31).decompress(head, 512)
        except zlib.error:
            return None
    raw, sums = _RAW.match(head), _SUMS.match(head)
    stamp = int(raw[1]) if raw else int(sums[1]) * 1000 if sums else 0
    if not is_unix(stamp) and not (raw and stamp == _BEFORE):
        return None
    rank = rank_in_name(path.name)
    begin = None if stamp == _BEFORE else stamp
    return Claim("memory_timeline", path, (path,), Facts(rank, None if rank is None else "file name", begin_ns=begin))


def read(claim: Claim, draft: Draft) -> None:
    """Totals as samples of the pool, and each category as a counter."""
    path = claim.files[0]
    numbers = _Numbers(path, draft)
    raw = _RAW.match(numbers.first) is not None
    with draft.spool("total_raw", _SAMPLES) as totals, draft.spool("category_raw", _SERIES) as categories:
        for ts, held in _changes(numbers) if raw else _sums(numbers):
            totals.write(pa.record_batch([pa.array(ts), pa.array(held.sum(axis=1))], schema=_SAMPLES))
            for number, name in enumerate(CATEGORIES):
                of = pa.array([name] * len(ts)), pa.array(held[:, number].astype(np.float64))
                categories.write(pa.record_batch([pa.array(ts), *of], schema=_SERIES))
    if not totals.rows:
        raise IngestError("empty", Message("memory_timeline_without_entry"), str(path))
    draft.fact("clock", "unix")
    draft.provide("memory_sample", "SELECT 'PyTorch' AS component, * FROM total_raw")
    draft.provide("sample", f"SELECT '{_COUNTER}' AS counter, * FROM category_raw")
    draft.note("memory_sample", Message("memory_timeline_is_one_device"))
    for table in ("kernel", "host_op"):
        draft.absent(table, Message("memory_timeline_holds_no_events"))


class _Numbers:
    """The numbers of nested lists, a block of the file at a time."""

    def __init__(self, path: Path, draft: Draft) -> None:
        self._path, self._draft, self._done = path, draft, 0
        self._source = open_source(path)
        self.first = self._rest = self._read()

    def _read(self) -> bytes:
        buffer = bytearray(_BLOCK)
        block = bytes(buffer[: self._source.readinto(memoryview(buffer))])
        self._draft.advance(self._source.file_bytes - self._done)
        self._done = self._source.file_bytes
        if block.translate(None, _NUMBERS):
            self._source.close()
            raise IngestError("damaged", Message("memory_timeline_with_something_else"), str(self._path))
        return block

    def _texts(self) -> Iterator[bytes]:
        """Pieces that end between two numbers."""
        while block := self._rest:
            more = self._read()
            cut = 1 + max(block.rfind(b","), block.rfind(b"]")) if more else len(block)
            self._rest = block[cut:] + more
            yield block[:cut]
        self._source.close()
        if self._source.damage:
            self._draft.partial(None, self._source.damage)

    def list(self) -> Ints:
        """The numbers up to the end of the innermost list."""
        found: list[Ints] = []
        for text in self._texts():
            end = text.find(b"]")
            found.append(self._of(text[:end] if end >= 0 else text))
            if end >= 0:
                self._rest = text[end:] + self._rest
                break
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def rows(self, width: int) -> Iterator[Ints]:
        """The numbers that follow, in rows; what does not fill the last one is left out."""
        left = np.zeros(0, np.int64)
        for text in self._texts():
            left = np.concatenate((left, self._of(text)))
            whole = len(left) // width * width
            if whole:
                yield left[:whole].reshape(-1, width)
            left = left[whole:]

    def _of(self, text: bytes) -> Ints:
        numbers = text.translate(None, b"[] \t\r\n").strip(b",")
        try:
            return np.array(numbers.split(b",") if numbers else [], dtype=np.int64)
        except (ValueError, OverflowError):
            raise IngestError("damaged", Message("memory_timeline_with_something_else"), str(self._path)) from None


def _changes(numbers: _Numbers) -> Iterator[tuple[Ints, Ints]]:
    """Raw form: what each category holds after each change. What was there before counts from the first stamp on."""
    held = np.zeros(len(CATEGORIES), np.int64)
    for ts, action, size, category in (rows.T for rows in numbers.rows(4)):
        good = np.isin(action, _ACTIONS) & (category >= 0) & (category < len(CATEGORIES))
        change = np.zeros((len(ts), len(CATEGORIES)), np.int64)
        change[np.flatnonzero(good), category[good]] = size[good]
        after = held + np.cumsum(change, axis=0)
        held = after[-1]
        last = np.append(np.diff(ts) != 0, True) & (ts != _BEFORE)  # of several changes at one time the last
        yield ts[last], after[last]


def _sums(numbers: _Numbers) -> Iterator[tuple[Ints, Ints]]:
    """Times first, then as many rows of sums: a number that stands for nothing, then one a category."""
    ts, done = numbers.list() * 1000, 0
    for rows in numbers.rows(1 + len(CATEGORIES)):
        held = rows[: len(ts) - done, 1:]
        yield ts[done : done + len(held)], held
        done += len(held)
