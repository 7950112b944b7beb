"""Spans by track and time without a sort of all of them.

They lie in a trace as a few ascending runs of each track. A reader adds them batch by batch. What was added is held in
memory, and beyond some megabytes in a file. The spans of a track are put together from pieces in order of time. Only
pieces whose times overlap are in memory at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from npulens.ingest.tables.steps import WORK, Ints

Looks = NDArray[np.int32]

#: Bytes of spans that are held in memory, and pieces that are known of at most.
_HELD, _PIECES = 8 << 20, 1 << 19
#: Spans of a track that are merged at once, and those that may have to be.
_AT_ONCE, _MOST = 60_000, 800_000
#: Spans between two cuts.
_STRETCH = 200_000


class Block(NamedTuple):
    """Spans column by column; ``look`` numbers what tells their kind and name."""

    row: Ints
    ts: Ints
    dur: Ints
    look: Looks


_TYPES = (np.int64, np.int64, np.int64, np.int32)


def taken(block: Block, which: slice | Ints) -> Block:
    """Some of the spans."""
    return Block(block.row[which], block.ts[which], block.dur[which], block.look[which])


def joined(blocks: Sequence[Block]) -> Block:
    """Blocks as one."""
    return blocks[0] if len(blocks) == 1 else Block(*map(np.concatenate, zip(*blocks, strict=True)))


def _in_order(block: Block) -> Block:
    """By start, longest first, then by row."""
    order = np.argsort(block.ts, kind="stable")  # which merges runs that ascend already
    ts = block.ts[order]
    same = ts[1:] == ts[:-1]
    if same.any():
        tied = np.zeros(len(ts), bool)
        tied[1:] |= same
        tied[:-1] |= same
        some = order[tied]
        order[tied] = some[np.lexsort((block.row[some], -block.dur[some], block.ts[some]))]
    return taken(block, order)


class _Index(NamedTuple):
    """Pieces of blocks, each of one lane and ascending in time."""

    lane: Ints
    block: Ints
    begin: Ints
    many: Ints
    first: Ints
    last: Ints
    until: Ints  # when the last of them ends


class Runs:
    """The spans of one rank while its batches come in; lanes are numbers below 65,536."""

    def __init__(self, path: Path) -> None:
        """``path``: where to put what does not stay in memory."""
        self._path = path
        self._file: BinaryIO | None = None
        self._blocks: list[Block | tuple[int, int]] = []  # or where one lies in the file, and its length
        self._pieces: list[_Index] = []
        self._known = self._held = 0
        self._at, self._since = 0, 0
        self.rows = 0
        self.cuts: list[int] = []  # rows between stretches, if rows ascend from batch to batch
        self.dropped = False  # it was given up

    def add(self, lane: NDArray[Any], block: Block) -> None:
        """Some spans more."""
        if self.dropped or not len(lane):
            return
        order = np.argsort(lane.astype(np.uint16), kind="stable")
        by, when = lane[order], block.ts[order]
        begin = np.flatnonzero(np.concatenate(([True], by[1:] != by[:-1])))
        falls = when[1:] < when[:-1]
        falls[begin[1:] - 1] = False
        if falls.any():
            order = np.lexsort((block.ts, lane))
            when = block.ts[order]
        end = np.append(begin[1:], len(by))
        sorted_ = taken(block, order)
        self._pieces.append(
            _Index(by[begin].astype(np.int64), np.full(len(begin), len(self._blocks)), begin, end - begin,
                   when[begin], when[end - 1], np.maximum.reduceat(when + sorted_.dur, begin))
        )  # fmt: skip
        self._count(block, len(begin))
        self._blocks.append(sorted_)
        self._held += sum(column.nbytes for column in sorted_)
        if self._held > _HELD:
            self._spill()

    def _count(self, block: Block, pieces: int) -> None:
        if self._since >= _STRETCH:
            self.cuts.append(int(block.row[0]))
            self._since = 0
        self.rows += len(block.ts)
        self._since += len(block.ts)
        self._known += pieces

    @property
    def crowded(self) -> bool:
        """Whether they are more pieces than one should know of."""
        return self._known > _PIECES

    def _spill(self) -> None:
        if self._file is None:
            self._file = self._path.open("w+b")
        for at, block in enumerate(self._blocks):
            if isinstance(block, Block):
                self._blocks[at] = (self._at, len(block.ts))
                for column in block:
                    self._file.write(column.data)
                    self._at += column.nbytes
        self._file.flush()
        self._held = 0

    def read(self, block: int, begin: int, count: int) -> Block:
        """A piece of a block."""
        found = self._blocks[block]
        if isinstance(found, Block):
            return taken(found, slice(begin, begin + count))
        at, length = found
        columns = list[NDArray[Any]]()
        for kind in _TYPES:
            size = np.dtype(kind).itemsize
            raw = os.pread(self._file.fileno(), count * size, at + begin * size) if self._file else b""
            columns.append(np.frombuffer(raw, kind))
            at += length * size
        return Block(*columns)

    def blocks(self) -> Iterator[tuple[Ints, Block]]:
        """What was added, batch by batch in the order of its rows, with the lane of each span."""
        for number, pieces in enumerate(self._pieces):
            block = self.read(number, 0, int(pieces.many.sum()))
            order = np.argsort(block.row, kind="stable")
            yield np.repeat(pieces.lane, pieces.many)[order], taken(block, order)

    def index(self) -> _Index:
        """The pieces, by lane and by their first start."""
        whole = _Index(*map(np.concatenate, zip(*self._pieces, strict=True)))
        order = np.lexsort((whole.first, whole.lane))
        return _Index(*(column[order] for column in whole))

    def drop(self) -> None:
        """Give up."""
        self.close()
        self.dropped = True

    def close(self) -> None:
        """Forget them."""
        self._blocks, self._pieces = [], []
        if self._file is not None:
            self._file.close()
            self._path.unlink(missing_ok=True)
        self._file = None


class Ordered:
    """The spans of a rank in the order in which they are stored.

    ``tracks``: of each lane that is meant its track, and what is added to the ``look`` of its spans. ``kinds`` and
    ``names``: of each look the number of its kind among ``words`` and of its name among ``texts``. ``shift_ns`` is
    added to every stamp.
    """

    def __init__(
        self, runs: Runs, tracks: Sequence[tuple[int, int, int]], words: pa.Array, kinds: NDArray[np.int8],
        texts: pa.Array, names: Looks, shift_ns: int = 0,
    ) -> None:  # fmt: skip
        self.runs, self.words, self._texts, self._kinds, self._names = runs, words, texts, kinds, names
        self._shift = shift_ns
        self._index = runs.index()
        bounds = np.searchsorted(self._index.lane, [[lane, lane + 1] for lane, _, _ in tracks])
        self._of: dict[int, list[tuple[int, int, int]]] = {}  # track -> begin and end in the index, what is added
        for (_, track, added), (begin, end) in zip(tracks, bounds.tolist(), strict=True):
            if end > begin:
                self._of.setdefault(track, []).append((begin, end, added))
        self._places = [place for places in self._of.values() for place in places]
        self.works = np.array([word in WORK for word in words.to_pylist()], bool)

    @property
    def orderly(self) -> bool:
        """Whether few enough of their pieces overlap."""
        index = self._index
        for places in self._of.values():
            at = np.concatenate([np.arange(begin, end) for begin, end, _ in places])
            first, last, count = index.first[at], index.last[at], index.many[at]
            if count.sum() <= _MOST:
                continue
            order, ends = np.argsort(first, kind="stable"), np.argsort(last, kind="stable")
            begun = np.cumsum(count[order])
            ended = np.concatenate(([0], np.cumsum(count[ends])))
            over = ended[np.searchsorted(last[ends], first[order], side="left")]
            if (begun - over).max() > _MOST:
                return False
        return True

    @property
    def rows(self) -> int:
        """How many they are."""
        return sum(int(self._index.many[begin:end].sum()) for begin, end, _ in self._places)

    @property
    def bounds(self) -> tuple[int, int]:
        """The earliest start and the latest end."""
        first, until = self._index.first, self._index.until
        edges = [(int(first[begin:end].min()), int(until[begin:end].max())) for begin, end, _ in self._places]
        return min(edge[0] for edge in edges) + self._shift, max(edge[1] for edge in edges) + self._shift

    def worked(self, since_ns: int) -> int | None:
        """When the device's work that starts from a stamp on ends; None if there is none."""
        index, since, found = self._index, since_ns - self._shift, None
        for begin, end, added in self._places:
            for at in (begin + np.flatnonzero(index.last[begin:end] >= since)).tolist():
                block = self._piece(at, added)
                mine = self.works[self._kinds[block.look]] & (block.ts >= since)
                if mine.any():
                    last = int((block.ts + block.dur)[mine].max()) + self._shift
                    found = last if found is None else max(found, last)
        return found

    def stretches(self, row: str, runs: int = 1) -> list[str]:
        """Conditions on a column of rows that let every span through once, ascending, so many runs at a time."""
        cuts: list[int | None] = [None, *sorted(set(self.runs.cuts))[runs - 1 :: runs], None]
        return [
            " AND ".join(
                ([] if begin is None else [f"{row} >= {begin}"]) + ([] if end is None else [f"{row} < {end}"])
            ) or "true"
            for begin, end in zip(cuts[:-1], cuts[1:], strict=True)
        ]  # fmt: skip

    def batches(self, size: int) -> Iterator[pa.RecordBatch]:
        """All of them by track, start, longest first; kinds and names as dictionaries."""
        held: list[tuple[int, Block]] = []
        many = 0
        for track in sorted(self._of):
            for block in self.track(track):
                held.append((track, block))
                many += len(block.ts)
                if many >= size:
                    tracks, whole = _tracked(held)
                    done = many - many % size
                    for begin in range(0, done, size):
                        yield self._batch(tracks[begin : begin + size], taken(whole, slice(begin, begin + size)))
                    held = []
                    for each in np.unique(tracks[done:]).tolist():  # what is left, as it was held
                        mine = done + np.flatnonzero(tracks[done:] == each)
                        held.append((each, taken(whole, slice(int(mine[0]), int(mine[-1]) + 1))))
                    many -= done
        if many:
            yield self._batch(*_tracked(held))

    def _piece(self, at: int, added: int) -> Block:
        index = self._index
        block = self.runs.read(int(index.block[at]), int(index.begin[at]), int(index.many[at]))
        return block._replace(look=block.look + np.int32(added)) if added else block

    def track(self, number: int) -> Iterator[Block]:
        """The spans of a track in order, piece by piece."""
        index, places = self._index, self._of.get(number, [])
        pieces = [(at, added) for begin, end, added in places for at in range(begin, end)]
        if len(places) > 1:
            pieces.sort(key=lambda piece: int(index.first[piece[0]]))
        starts = index.first[[at for at, _ in pieces]].tolist()
        held: list[Block] = []
        many, limit = 0, _AT_ONCE
        for number, (at, added) in enumerate(pieces, 1):
            held.append(self._piece(at, added))
            many += len(held[-1].ts)
            if number == len(pieces):
                yield _in_order(joined(held))
            elif many >= limit:
                whole = _in_order(joined(held))
                until = int(np.searchsorted(whole.ts, starts[number], side="left"))
                if until:
                    yield taken(whole, slice(until))
                held = [taken(whole, slice(until, None))]
                many -= until
                limit = max(_AT_ONCE, 2 * many)

    def _batch(self, tracks: Ints, block: Block) -> pa.RecordBatch:
        names = self._names[block.look]
        used = np.zeros(len(self._texts), bool)
        used[names] = True
        place = np.cumsum(used, dtype=np.int32) - 1
        texts = self._texts.take(pa.array(np.flatnonzero(used)))
        columns = {
            "span_id": pa.array(block.row), "track": pa.array(tracks),
            "kind": pa.DictionaryArray.from_arrays(pa.array(self._kinds[block.look]), self.words),
            "name": pa.DictionaryArray.from_arrays(pa.array(place[names]), texts),
            "ts_ns": pa.array(block.ts + self._shift), "dur_ns": pa.array(block.dur),
        }  # fmt: skip
        return pa.RecordBatch.from_pydict(columns)


def _tracked(held: Sequence[tuple[int, Block]]) -> tuple[Ints, Block]:
    """Blocks as one, with the track of each span."""
    counts = [len(block.ts) for _, block in held]
    return np.repeat(np.array([track for track, _ in held], np.int64), counts), joined([block for _, block in held])
