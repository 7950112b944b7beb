"""The critical path in numbers: what the run's length is made of, by kind, by rank, by step and by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from npulens.analysis.idle.culprit import names
from npulens.analysis.idle.host_spans import NONE, hosts
from npulens.analysis.intervals import Intervals, Ints
from npulens.analysis.ranks.clock import clock
from npulens.analysis.replay.critical import WHATS, Chain, critical_path
from npulens.analysis.run import Run
from npulens.analysis.selection.pane import answered

#: Kinds of pieces, as the timeline and the charts order and colour them.
KINDS = ("kernel", "comm", "copy", "host", "launch", "queue", "sync", "peer", "unexplained")
LONGEST = 10
# Of some spans, which have one name. Their ids come as one text: a list of as many numbers takes longer to hand over.
_NAMES = """
    SELECT span_id, hash(name) AS code FROM span
    SEMI JOIN (SELECT TRY_CAST(unnest(string_split(?, ' ')) AS BIGINT) AS span_id) USING (span_id) ORDER BY span_id
"""


@dataclass(frozen=True)
class Part:
    """What one kind of piece on one rank makes of the path; rank None: a peer that was not captured."""

    kind: str
    rank: int | None
    ns: int
    pieces: int


@dataclass(frozen=True)
class Piece:
    """One piece; its time is on the clock of its rank."""

    kind: str
    rank: int | None
    ts_ns: int
    dur_ns: int
    span_id: int | None
    name: str  # empty where nothing of it was recorded


@dataclass(frozen=True)
class Named:
    """All pieces of one kind whose spans have one name."""

    kind: str
    name: str
    ns: int
    pieces: int


@dataclass(frozen=True)
class PathStep:
    """A step of the rank whose window the path tiles."""

    step: int
    ts_ns: int
    dur_ns: int
    kinds: Mapping[str, int]


@dataclass(frozen=True)
class Path:
    """The chain that decides how long the run is: its pieces tile the longest window to the nanosecond."""

    rank: int | None  # whose window is the longest; None: no rank has one
    wall_ns: int
    pieces: int
    parts: tuple[Part, ...]  # the largest first
    steps: tuple[PathStep, ...]
    longest: tuple[Piece, ...]
    names: tuple[Named, ...]

    def by_kind(self) -> dict[str, int]:
        """What each kind makes of the path, the largest first."""
        return _summed((part.kind, part.ns) for part in self.parts)

    def by_rank(self) -> dict[int | None, int]:
        """What each rank makes of it, the largest first."""
        return _summed((part.rank, part.ns) for part in self.parts)

    def as_dict(self) -> dict[str, Any]:
        """For scripts."""
        said = asdict(self)
        said["kinds"] = [{"kind": kind, "ns": ns} for kind, ns in self.by_kind().items()]
        said["ranks"] = [{"rank": rank, "ns": ns} for rank, ns in self.by_rank().items()]
        return said


def path(con: duckdb.DuckDBPyConnection) -> Path:
    """The critical path of a run, as it is kept of a large one."""
    if answered(con, "critical_path"):
        ((said,),) = con.execute("SELECT said FROM critical_path").fetchall()
        return _restored(json.loads(said))
    return of_run(Run.of(con))


def answer(run: Run) -> pa.Table:
    """The path as it is kept: one text."""
    return pa.table({"said": [json.dumps(asdict(of_run(run)))]})


def _restored(said: Mapping[str, Any]) -> Path:
    return Path(
        said["rank"], said["wall_ns"], said["pieces"], tuple(Part(**one) for one in said["parts"]),
        tuple(PathStep(**one) for one in said["steps"]), tuple(Piece(**one) for one in said["longest"]),
        tuple(Named(**one) for one in said["names"]),
    )  # fmt: skip


def of_run(run: Run) -> Path:
    """The same, followed now."""
    pieces = run.get(followed)
    if not len(pieces):
        return Path(None, 0, 0, (), (), (), ())
    begin, end = int(pieces.begin[0]), int(pieces.end[-1])
    whose = next(rank for rank in run.ranks if _window(run, rank) == (begin, end))
    first = np.argsort(-pieces.dur, kind="stable")[:LONGEST]
    said = names(run, pieces.span[first])
    longest = tuple(
        Piece(one.what, one.rank, one.begin_ns - one.shift_ns, one.dur_ns, one.span_id, said.get(span, ""))
        for one, span in ((pieces[at], int(pieces.span[at])) for at in first.tolist())
    )
    return Path(
        whose, end - begin, len(pieces), _parts(pieces), _steps(run, whose, pieces), longest, _named(run, pieces)
    )


def _parts(pieces: Chain) -> tuple[Part, ...]:
    """The largest first, of those that are as large the one that comes first."""
    first, ns, count = _grouped(pieces, pieces.at_rank * len(WHATS) + pieces.what)
    return tuple(
        Part(one.what, one.rank, ns_, count_)
        for one, ns_, count_ in zip((pieces[at] for at in first), ns, count, strict=True)
    )


def _grouped(pieces: Chain, key: Ints) -> tuple[list[int], list[int], list[int]]:
    """Of each group its first piece, its ns and how many it has; the largest first, then the one that comes first."""
    _, first, where, count = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
    ns = np.zeros(len(first), np.int64)
    np.add.at(ns, where, pieces.dur)
    order = np.lexsort((first, -ns))
    return first[order].tolist(), ns[order].tolist(), count[order].tolist()


def followed(run: Run) -> Chain:
    """The pieces of the path; those of the host with the call that fills them, where one does."""
    pieces = critical_path(run)
    span, begin, end = pieces.span.copy(), pieces.begin - pieces.shift, pieces.end - pieces.shift
    for at, rank in enumerate(pieces.ranks):
        mine = np.flatnonzero(pieces.kind("host") & (pieces.at_rank == at))
        calls = _calls(run, rank, begin[mine], end[mine])
        span[mine] = np.where(calls == NONE, span[mine], calls)
    return replace(pieces, span=span)


def _calls(run: Run, rank: int, begin: Ints, end: Ints) -> Ints:
    """Per window the innermost host span that fills at least half of it; the mark of a step says nothing."""
    there = run.get(hosts)
    spans, threads = there.spans(rank), there.threads[rank]
    if not len(begin) or not len(spans.ids):
        return np.full(len(begin), NONE, np.int64)
    tracks = threads.tracks(threads.issuing) or sorted(threads.of_track)
    found = spans.covering(spans.latest(tracks, begin + (end - begin) // 2), begin, end)
    covered = np.minimum(spans.ends[found], end) - np.maximum(spans.starts[found], begin)
    marks = run.columns("SELECT span_id FROM span WHERE kind = 'step_mark' AND rank = ?", [rank])["span_id"]
    fills = (found != NONE) & (2 * covered >= end - begin) & ~np.isin(spans.ids[found], marks)
    return np.where(fills, spans.ids[found], NONE)


def _window(run: Run, rank: int) -> tuple[int, int] | None:
    """A rank's window on the common clock."""
    window, shift = run.window(rank), run.get(clock).offset_ns(rank)
    return None if window is None else (window[0] + shift, window[1] + shift)


def _steps(run: Run, rank: int, pieces: Chain) -> tuple[PathStep, ...]:
    steps, shift = run.steps[rank], run.get(clock).offset_ns(rank)
    begin = np.array([step.ts_ns for step in steps], np.int64) + shift
    end = np.array([step.end_ns for step in steps], np.int64) + shift
    within: dict[str, list[int]] = {}
    for kind in KINDS:
        mine = pieces.kind(kind)
        within[kind] = Intervals.union_of(pieces.begin[mine], pieces.end[mine]).within(begin, end).tolist()
    return tuple(
        PathStep(step.step, step.ts_ns, step.dur_ns, {kind: ns[at] for kind, ns in within.items() if ns[at]})
        for at, step in enumerate(steps)
    )


def _named(run: Run, pieces: Chain) -> tuple[Named, ...]:
    code, texts = _texts(run, pieces.span)
    first, ns, count = _grouped(pieces, code * len(WHATS) + pieces.what)
    found = zip(first[:LONGEST], ns, count, strict=False)
    return tuple(Named(WHATS[int(pieces.what[at])], texts[code[at]], ns_, count_) for at, ns_, count_ in found)


def _texts(run: Run, span: Ints) -> tuple[Ints, list[str]]:
    """Per span the place of its name among all names; that of no span is empty."""
    told = run.columns(_NAMES, [" ".join(map(str, np.unique(span[span != NONE]).tolist()))])
    ids, places = told["span_id"].astype(np.int64), {"": 0}
    if not len(ids):
        return np.zeros(len(span), np.int64), [*places]
    _, first, where = np.unique(told["code"].astype(np.uint64), return_index=True, return_inverse=True)
    spelt = names(run, ids[first])
    place = np.array([places.setdefault(spelt[one], len(places)) for one in ids[first].tolist()], np.int64)[where]
    at = np.minimum(np.searchsorted(ids, span), len(ids) - 1)
    return np.where(ids[at] == span, place[at], 0), [*places]


def _summed(pairs: Any) -> dict[Any, int]:
    total: dict[Any, int] = {}
    for key, ns in pairs:
        total[key] = total.get(key, 0) + ns
    return dict(sorted(total.items(), key=lambda item: -item[1]))
