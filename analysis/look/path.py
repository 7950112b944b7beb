"""The critical path in numbers: what the run's length is made of, by kind, by rank, by step and by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import duckdb
import numpy as np

from npulens.analysis.idle.culprit import names
from npulens.analysis.idle.host_spans import NONE, hosts
from npulens.analysis.intervals import Intervals, Ints
from npulens.analysis.ranks.clock import clock
from npulens.analysis.replay.critical import Segment, critical_path
from npulens.analysis.run import Run

#: Kinds of pieces, as the timeline and the charts order and colour them.
KINDS = ("kernel", "comm", "copy", "host", "launch", "queue", "sync", "peer", "unexplained")
LONGEST = 10


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
    """The critical path of a run."""
    run = Run(con)
    pieces = run.get(followed)
    if not pieces:
        return Path(None, 0, 0, (), (), (), ())
    window = pieces[-1].end_ns - pieces[0].begin_ns
    whose = next(rank for rank in run.ranks if _window(run, rank) == (pieces[0].begin_ns, pieces[-1].end_ns))
    counted: dict[tuple[str, int | None], tuple[int, int]] = {}
    for one in pieces:
        ns, count = counted.get((one.what, one.rank), (0, 0))
        counted[one.what, one.rank] = ns + one.dur_ns, count + 1
    parts = sorted((Part(*key, *value) for key, value in counted.items()), key=lambda part: -part.ns)
    said = _names(run, pieces)
    first = sorted(range(len(pieces)), key=lambda at: -pieces[at].dur_ns)[:LONGEST]
    longest = tuple(
        Piece(one.what, one.rank, one.begin_ns - one.shift_ns, one.dur_ns, one.span_id, text)
        for one, text in ((pieces[at], said[at]) for at in first)
    )
    return Path(
        whose, window, len(pieces), tuple(parts), _steps(run, whose, pieces), longest, _named(pieces, said)
    )  # fmt: skip


def followed(run: Run) -> list[Segment]:
    """The pieces of the path; those of the host with the call that fills them, where one does."""
    pieces = critical_path(run)
    for rank in run.ranks:
        mine = [at for at, one in enumerate(pieces) if one.what == "host" and one.rank == rank]
        begin = np.array([pieces[at].begin_ns - pieces[at].shift_ns for at in mine], np.int64)
        end = np.array([pieces[at].end_ns - pieces[at].shift_ns for at in mine], np.int64)
        for at, span in zip(mine, _calls(run, rank, begin, end).tolist(), strict=True):
            if span != NONE:
                pieces[at] = replace(pieces[at], span_id=span)
    return pieces


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


def _steps(run: Run, rank: int, pieces: Sequence[Segment]) -> tuple[PathStep, ...]:
    steps, shift = run.steps[rank], run.get(clock).offset_ns(rank)
    begin = np.array([step.ts_ns for step in steps], np.int64) + shift
    end = np.array([step.end_ns for step in steps], np.int64) + shift
    within: dict[str, list[int]] = {}
    for kind in KINDS:
        mine = [one for one in pieces if one.what == kind]
        edges = [np.array([getattr(one, edge) for one in mine], np.int64) for edge in ("begin_ns", "end_ns")]
        within[kind] = [int(ns) for ns in Intervals.union_of(*edges).within(begin, end)]
    return tuple(
        PathStep(step.step, step.ts_ns, step.dur_ns, {kind: ns[at] for kind, ns in within.items() if ns[at]})
        for at, step in enumerate(steps)
    )


def _names(run: Run, pieces: Sequence[Segment]) -> list[str]:
    known = names(run, np.array([NONE if one.span_id is None else one.span_id for one in pieces], np.int64))
    return ["" if one.span_id is None else known.get(one.span_id, "") for one in pieces]


def _named(pieces: Sequence[Segment], said: Sequence[str]) -> tuple[Named, ...]:
    total: dict[tuple[str, str], tuple[int, int]] = {}
    for one, name in zip(pieces, said, strict=True):
        ns, count = total.get((one.what, name), (0, 0))
        total[one.what, name] = ns + one.dur_ns, count + 1
    most = sorted(total.items(), key=lambda item: -item[1][0])[:LONGEST]
    return tuple(Named(kind, name, ns, count) for (kind, name), (ns, count) in most)


def _summed(pairs: Any) -> dict[Any, int]:
    total: dict[Any, int] = {}
    for key, ns in pairs:
        total[key] = total.get(key, 0) + ns
    return dict(sorted(total.items(), key=lambda item: -item[1]))
