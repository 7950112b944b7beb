"""Where a graph was recorded: from the call that begins the capture to the last that makes the graph ready to launch.

Between the begin and the end of a capture launches run nothing: they are noted down. What the host does there costs
the device nothing that a faster host would give back, and it happens once for a graph. Names are those of CUDA, ROCm
and CANN (NPUGraph). `around` is the whole operator in which it happened, warm-up and all: the outermost one that
holds the begin, without one the outermost annotation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from npulens.analysis.idle.host_spans import NONE, hosts
from npulens.analysis.intervals import Intervals, Ints
from npulens.analysis.run import Run

_BEGIN = r"^(?:\w+@)?(?:(?:cuda|hip|cu)StreamBeginCapture\w*|aclmdlRICaptureBegin)$"
_END = r"^(?:\w+@)?(?:(?:cuda|hip|cu)StreamEndCapture\w*|aclmdlRICaptureEnd)$"
_INSTANTIATE = r"^(?:\w+@)?(?:cuda|hip|cu)GraphInstantiate\w*$"
#: What else is asked of a graph before its first launch, and calls that ask for work, a graph's launch among them.
_READY = r"^(?:\w+@)?(?:(?:cuda|hip|cu)Graph(?:GetNodes|Upload|Destroy|DebugDot|Node)\w*|aclmdlRI(?:Build|Debug)\w*)$"
_ASKS = r"(?i)launch|memcpy|memset|aclmdlRIExecute"
#: A run of which so much is recording is one of a recording.
MOST = 0.5

_CALLS = f"""
    WITH marked AS (
        SELECT rank, span_id, track, name, ts_ns, dur_ns,
            CASE WHEN regexp_matches(name, '{_BEGIN}') THEN 1 WHEN regexp_matches(name, '{_END}') THEN 2
                WHEN regexp_matches(name, '{_INSTANTIATE}') THEN 3 WHEN regexp_matches(name, '{_READY}') THEN 4
                WHEN regexp_matches(name, '{_ASKS}') THEN 5 ELSE 0 END AS what
        FROM span WHERE kind = 'runtime'
    )
    SELECT rank, span_id, track, ts_ns, ts_ns + dur_ns AS end_ns, what FROM marked
    WHERE track IN (SELECT track FROM marked WHERE what = 1) ORDER BY track, ts_ns, span_id
"""
_AROUND = """
    SELECT span_id, name, ts_ns, ts_ns + dur_ns, kind = 'cpu_op' FROM span
    SEMI JOIN (SELECT unnest(?::BIGINT[]) AS span_id) USING (span_id) WHERE kind IN ('cpu_op', 'annotation')
"""


@dataclass(frozen=True)
class Capture:
    """One graph that was recorded."""

    rank: int
    span_id: int  # the call that began it
    begin_ns: int
    end_ns: int
    calls: int  # launches and copies noted down
    instantiate_ns: int  # making it executable
    around: str | None  # the operator or annotation in which it happened
    around_begin_ns: int
    around_end_ns: int
    around_id: int  # NONE: in none


@dataclass(frozen=True)
class Captures:
    """Every graph that was recorded."""

    found: tuple[Capture, ...]
    most: frozenset[int]  # ranks of which more than half of the time is recording

    def windows(self, rank: int) -> Intervals:
        """When the rank was recording."""
        mine = [each for each in self.found if each.rank == rank]
        starts, ends = ([getattr(each, name) for each in mine] for name in ("begin_ns", "end_ns"))
        return Intervals.union_of(np.array(starts, np.int64), np.array(ends, np.int64))


def captures(run: Run) -> Captures:
    """The graphs that a run recorded, by rank and time."""
    calls = run.columns(_CALLS)
    begins, ends, what = (calls[name] for name in ("ts_ns", "end_ns", "what"))
    first = np.flatnonzero(what == 1)
    by_rank = {rank: first[calls["rank"][first] == rank] for rank in np.unique(calls["rank"][first]).tolist()}
    held = {rank: iter(_around(run, rank, calls["track"][at], begins[at])) for rank, at in by_rank.items()}
    found: list[Capture] = []
    for at, following in zip(first.tolist(), np.append(first, len(what))[1:].tolist(), strict=True):
        stop = min(following, int(np.searchsorted(calls["track"], calls["track"][at], side="right")))
        closed = _next(what, (2,), at + 1, stop)
        end = min(closed, stop - 1)  # without its end the file ends within the capture
        ready = closed + 1 + np.flatnonzero(np.isin(what[closed + 1 : _next(what, (5,), closed + 1, stop)], (3, 4)))
        last = int(ready[-1]) if len(ready) else end
        rank, span = int(calls["rank"][at]), int(calls["span_id"][at])
        begin, until = int(begins[at]), int(ends[last])
        found.append(Capture(
            rank, span, begin, until, int((what[at:end] == 5).sum()),
            int((ends - begins)[ready[what[ready] == 3]].sum()), *(next(held[rank]) or (None, begin, until, NONE)),
        ))  # fmt: skip
    found.sort(key=lambda each: (each.rank, each.begin_ns))
    every = Captures(tuple(found), frozenset())
    return replace(every, most=frozenset(rank for rank in {each.rank for each in found} if _mostly(run, rank, every)))


def _next(what: Ints, wanted: tuple[int, ...], begin: int, stop: int) -> int:
    """The first of some calls from one on, or the stop."""
    there = np.flatnonzero(np.isin(what[begin:stop], wanted))
    return begin + int(there[0]) if len(there) else stop


def _mostly(run: Run, rank: int, every: Captures) -> bool:
    """Of the rank's steps, without steps of everything that it recorded."""
    begin, end = run.con.execute(
        "SELECT min(ts_ns), max(ts_ns + dur_ns) FROM span WHERE rank = ? AND kind <> 'host_other'", [rank]
    ).fetchall()[0]
    if run.steps[rank]:
        begin, end = run.steps[rank][0].ts_ns, run.steps[rank][-1].end_ns
    recording = int(every.windows(rank).within(np.array([begin]), np.array([end]))[0])
    return bool(recording > MOST * (end - begin))


def _around(run: Run, rank: int, tracks: Ints, begins: Ints) -> list[tuple[str, int, int, int] | None]:
    """The outermost operator around each begin, without one the outermost annotation: name, start, end and id."""
    spans = run.get(hosts).spans(rank)
    at = np.array([spans.innermost(int(t), begins[i : i + 1])[0] for i, t in enumerate(tracks)], np.int64)
    chains: list[list[int]] = [[] for _ in at]  # innermost first
    for chain, inner in zip(chains, at.tolist(), strict=True):
        while inner != NONE:
            chain.append(int(spans.ids[inner]))
            inner = int(spans.parent[inner])
    rows = run.con.execute(_AROUND, [sorted({span for chain in chains for span in chain})]).fetchall()
    known = {span: (name, begin, end, span, is_op) for span, name, begin, end, is_op in rows}
    found: list[tuple[str, int, int, int] | None] = []
    for chain in chains:
        held = [known[span] for span in reversed(chain) if span in known]
        best = next((each for each in held if each[4]), held[0] if held else None)
        found.append(best and best[:4])
    return found
