"""What the workspace asks: the split at a glance, whom a finding speaks of, the span and the code of a moment.

A finding is called by its detector, a second one of the same detector by its number too. So an address and a remark
still mean the same finding when the run is judged again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

from npulens.analysis.finding import Evidence, Finding
from npulens.analysis.idle.culprit import code_of
from npulens.analysis.split import Row
from npulens.analysis.timeline.detail import detail

#: A span that shares this much with its window of evidence is the one to look at.
FITS = 0.5
#: A named span that is at most ten times as long as its window still says what that was. A whole step does not.
NAMED_FITS = 0.1
#: Frames of a call stack that are shown.
_MOST_FRAMES = 60
_RANKS = re.compile(r"\d+(?:-\d+)?(?:, \d+(?:-\d+)?)*")


@dataclass(frozen=True)
class Glance:
    """The mean step over ranks, or the mean rank of a capture without steps; None is "not measured"."""

    ranks: int
    steps: int  # recorded on the rank with most of them
    mean_ns: int
    computing_ns: int | None
    exposed_ns: int | None
    idle_ns: int | None


def glance(rows: Sequence[Row]) -> Glance | None:
    """The split of the whole run in four figures; nothing where no device work was recorded."""
    timed = [row for row in rows if row.dur_ns]
    stepped = [row for row in timed if row.step is not None]
    of = stepped or timed
    if not of:
        return None
    most = max(Counter(row.rank for row in stepped).values(), default=0)
    return Glance(
        len({row.rank for row in of}), most, sum(row.dur_ns or 0 for row in of) // len(of),
        _mean([row.computing_ns for row in of]), _mean([row.communication_not_overlapped_ns for row in of]),
        _mean([row.idle_ns for row in of]),
    )  # fmt: skip


def _mean(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) // len(known) if len(known) == len(values) else None


def finding_ids(findings: Sequence[Finding]) -> tuple[str, ...]:
    """What each finding is called, in their order: late_rank, slow_link, slow_link-2."""
    seen = Counter[str]()
    names = []
    for finding in findings:
        seen[finding.detector] += 1
        count = seen[finding.detector]
        names.append(finding.detector if count == 1 else f"{finding.detector}-{count}")
    return tuple(names)


def ranks_of(finding: Finding) -> tuple[int, ...]:
    """The ranks to look at: who comes late, else whom the finding names, else where its evidence lies."""
    one = finding.numbers.get("peer" if finding.cause == "late_rank" else "rank")
    if isinstance(one, int):
        return (one,)
    said = finding.numbers.get("ranks")
    if isinstance(said, str) and _RANKS.fullmatch(said):
        ends = [part.partition("-") for part in said.split(", ")]
        return tuple(rank for first, _, last in ends for rank in range(int(first), int(last or first) + 1))
    return tuple(sorted({one.rank for one in finding.evidence}))


def moments(finding: Finding) -> tuple[Evidence, ...]:
    """The windows of a finding, each stretch of time once: none that lies within or around an earlier one."""
    kept: list[Evidence] = []
    for one in finding.evidence:
        if not any(one.rank == other.rank and _nested(one, other) for other in kept):
            kept.append(one)
    return tuple(kept)


def _nested(one: Evidence, other: Evidence) -> bool:
    inner, outer = sorted((one, other), key=lambda window: window.dur_ns)
    return outer.ts_ns <= inner.ts_ns and inner.ts_ns + inner.dur_ns <= outer.ts_ns + outer.dur_ns


_FITTING = """
WITH wanted AS (
    SELECT unnest($places) AS place, unnest($ranks) AS rank, unnest($begins) AS begin_ns, unnest($ends) AS end_ns,
        unnest($spans) AS own
), near AS (
    SELECT place, span_id, kind, dur_ns, end_ns - begin_ns AS wide_ns, span_id = own AS named,
        least(ts_ns + dur_ns, end_ns) - greatest(ts_ns, begin_ns) AS shared_ns,
        shared_ns::DOUBLE / greatest(greatest(ts_ns + dur_ns, end_ns) - least(ts_ns, begin_ns), 1) AS fits
    FROM span JOIN wanted ON span.rank = wanted.rank AND ts_ns < end_ns AND ts_ns + dur_ns > begin_ns
    WHERE kind NOT IN ('step_mark', 'profiler_split', 'wait')
)
SELECT place, span_id, fits, named, shared_ns >= $half * dur_ns AS inside, max(CASE WHEN kind IN
    ('kernel', 'memset', 'memcpy', 'comm_op', 'comm_task', 'unknown') THEN shared_ns ELSE 0 END)
    OVER (PARTITION BY place) >= $half * wide_ns AS busy
FROM near QUALIFY row_number() OVER (PARTITION BY place, named ORDER BY fits DESC, dur_ns, span_id) = 1
"""


def spans_of(con: duckdb.DuckDBPyConnection, windows: Sequence[Evidence]) -> tuple[int | None, ...]:
    """Per window the span to select: the named one if it lies there or fits, else the one that shares most.

    None where none fits and the device is idle: then that idle time is to be seen.
    """
    if not windows:
        return ()
    rows = con.execute(_FITTING, {
        "places": list(range(len(windows))), "ranks": [one.rank for one in windows],
        "begins": [one.ts_ns for one in windows], "ends": [one.ts_ns + max(one.dur_ns, 1) for one in windows],
        "spans": [-1 if one.span_id is None else one.span_id for one in windows], "half": FITS,
    }).fetchall()  # fmt: skip
    named = {place: (fits, inside) for place, _, fits, own, inside, _ in rows if own}
    best = {place: (span, fits) for place, span, fits, own, *_ in rows if not own}
    idles = {place for place, *_, at_work in rows if not at_work}
    chosen: list[int | None] = []
    for place, window in enumerate(windows):
        span, fits = best.get(place, (None, 0.0))
        own, inside = named.get(place, (0.0, False))
        keeps = inside or own >= (FITS if fits >= FITS else NAMED_FITS)
        idle = fits < FITS and window.dur_ns > 0 and place in idles
        if window.span_id is not None and (keeps or (span is None and not idle)):
            chosen.append(window.span_id)
        else:
            chosen.append(None if idle else span)
    return tuple(chosen)


@dataclass(frozen=True)
class Source:
    """The code that a span belongs to."""

    line: str | None  # the user's innermost frame: 'train.py(12): forward'
    place: str | None  # the same with the file as it was recorded
    op: str | None
    stack: tuple[str, ...]  # every frame recorded, innermost first


def source(con: duckdb.DuckDBPyConnection, span: int) -> Source | None:
    """Who issued a span, or what the host was at in it; None where there is no such span."""
    found = detail(con, span)
    if found is None:
        return None
    came = min((one for one in found.links if not one.out), key=lambda one: one.ts, default=None)
    if came is None:
        return _open_at(con, found.rank, found.track, found.ts)
    return _open_at(con, came.rank, came.track, came.ts)


def source_of_idle(con: duckdb.DuckDBPyConnection, window: Evidence) -> Source | None:
    """What the host was at in the middle of idle time, on the thread that issued what the device did next."""
    end = window.ts_ns + window.dur_ns
    found = con.execute(
        "SELECT host.track FROM span AS task JOIN link ON dst_span_id = task.span_id "
        "JOIN span AS host ON host.span_id = src_span_id WHERE task.rank = ? AND task.ts_ns >= ? "
        "AND task.kind IN ('kernel', 'memset', 'memcpy', 'comm_op') AND host.kind IN ('cpu_op', 'runtime', 'enqueue') "
        "ORDER BY task.ts_ns, host.ts_ns LIMIT 1",
        [window.rank, end - 1],
    ).fetchone()
    return None if found is None else _open_at(con, window.rank, found[0], window.ts_ns + window.dur_ns // 2)


def _open_at(con: duckdb.DuckDBPyConnection, rank: int, track: int, at: int) -> Source:
    """The code that a thread of a rank was in at a moment."""
    open_ = con.execute(
        "SELECT span_id, kind, name FROM span WHERE rank = ? AND track = ? AND ts_ns <= ? AND ts_ns + dur_ns >= ? "
        "AND kind IN ('python', 'cpu_op', 'runtime', 'annotation') ORDER BY depth DESC",
        [rank, track, at, at],
    ).fetchall()
    ids = [row[0] for row in open_]
    stacks: dict[int, str] = dict(
        con.execute("SELECT span_id, frames FROM stack WHERE list_contains(?, span_id)", [ids]).fetchall()
    )
    code = code_of([(kind, name, stacks.get(one)) for one, kind, name in open_])
    stack = [name for _, kind, name in open_ if kind == "python"]
    stack = stack or [line.strip() for one in ids for line in stacks.get(one, "").split("\n") if line.strip()]
    place = next((frame for frame in stack if code.frame and frame.endswith(code.frame)), None)
    return Source(code.frame, place, code.op, tuple(dict.fromkeys(stack))[:_MOST_FRAMES])
