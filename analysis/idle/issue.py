"""When the host issued each device task: on which thread, and when it reached the device's door.

A task can have several launch arrows, of which the most specific counts. A runtime call is preferred to a dequeue, and
that to an operator of the framework. The nodes of a graph have no launch of their own. One call launches the graph, and
all but its first node follow within the device (`node`). With a task queue the work is handed over twice: the main
thread enqueues it, the queue thread launches it. `issued` is the first, `launched` the second; without a queue they are
one. A launch call can take long itself (loading code, a full queue). So the launch is placed as late within the call as
a usual launch latency allows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.idle.host_names import ALLOC_CALLS, LAYER, NAMES, names, span_kinds
from npulens.analysis.intervals import Intervals, Ints
from npulens.analysis.run import Run

#: Span kinds that are work of the device (analysis/split.py): what ends a gap. A task holds its place in here.
WORK = ("kernel", "memset", "comm_op", "memcpy", "unknown")
KERNEL, MEMSET, COLLECTIVE, COPY, UNTOLD = range(len(WORK))
#: From launch to start on an idle device where a rank shows too few to tell: the median of the real captures.
USUAL_LATENCY_NS = 20_000
#: So many launches to an idle device tell what is usual.
ENOUGH = 5


@dataclass(frozen=True)
class Tasks:
    """Device work of one rank by start, with its launch. Where none is known, its times are 0 and its source is -1."""

    ids: Ints
    starts: Ints
    ends: Ints
    tracks: Ints
    kinds: NDArray[np.uint8]  # places in WORK
    linked: NDArray[np.bool_]  # a launch is known
    source: Ints  # host span of the launch
    source_start: Ints
    source_end: Ints
    source_track: Ints
    issued: Ints  # start of the enqueue, else of the launch
    issue_track: Ints
    queued: NDArray[np.bool_]  # it went through the task queue
    node: NDArray[np.bool_]  # of a graph launched by one call, and not its first: nothing launches it


_WORK = f"""
    SELECT rank, span_id, ts_ns, ts_ns + dur_ns AS end_ns, track,
        (list_position({list(WORK)}, kind) - 1)::UTINYINT AS kind
    FROM span WHERE kind IN {WORK} AND dur_ns > 0
    ORDER BY rank, ts_ns, end_ns, span_id
"""
#: Calls that launch a whole graph, of CUDA, ROCm and CANN.
GRAPH_LAUNCH = r"^(?:\w+@)?(?:(?:cuda|hip|cu)GraphLaunch\w*|aclmdl(?:RI)?Execute\w*|(?:rt)?ModelExecute\w*)$"
#: Calls by how much they tell of a launch, the most telling first.
RUNTIME, QUEUED, OPERATOR, OTHER = range(4)
_LAUNCHES = f"""
    WITH graph AS MATERIALIZED (
        SELECT DISTINCT name FROM {NAMES} WHERE kind NOT IN {WORK} AND regexp_matches(name, '{GRAPH_LAUNCH}')
    )
    SELECT l.dst_span_id AS task, h.span_id AS source, h.ts_ns, h.ts_ns + h.dur_ns AS end_ns, h.track, h.rank,
        h.name IN (FROM graph) AS graph,
        CASE h.kind WHEN 'runtime' THEN {RUNTIME} WHEN 'dequeue' THEN {QUEUED} WHEN 'enqueue' THEN {QUEUED}
            WHEN 'cpu_op' THEN {OPERATOR} ELSE {OTHER} END::UTINYINT AS vague
    FROM link l JOIN span h ON h.span_id = l.src_span_id WHERE l.route NOT IN ('fwdbwd', 'task_queue')
"""
_QUEUE = """
    SELECT d.rank, d.track, t.tid, d.ts_ns, d.ts_ns + d.dur_ns AS end_ns, e.ts_ns AS enqueued, e.track AS enqueue_track
    FROM link l JOIN span d ON d.span_id = l.dst_span_id JOIN span e ON e.span_id = l.src_span_id
    LEFT JOIN track t ON t.track = d.track
    WHERE l.route = 'task_queue' AND d.kind = 'dequeue' ORDER BY d.rank, d.ts_ns
"""


def launches(run: Run) -> dict[str, Any]:
    """Every call that launches a task, one row for each task, as columns."""
    run.get(names)
    return run.columns(_LAUNCHES)


def tasks(run: Run) -> dict[int, Tasks]:
    """rank -> its device work with launches."""
    columns = _launched(run.columns(_WORK), run.get(launches))
    columns_ = ("rank", "track", "ts_ns", "end_ns", "enqueued", "enqueue_track")
    queued = {"enqueue", "dequeue"} <= run.get(span_kinds)
    queue = run.columns(_QUEUE) if queued else dict.fromkeys(columns_, np.zeros(0, np.int64))
    thread = _threads(run)
    found: dict[int, Tasks] = {}
    for rank in run.ranks:
        a, b = np.searchsorted(columns["rank"], (rank, rank + 1))
        mine = {name: values[a:b] for name, values in columns.items()}
        c, d = np.searchsorted(queue["rank"], (rank, rank + 1))
        found[rank] = _rank(mine, {name: values[c:d] for name, values in queue.items()}, thread)
    return found


def _launched(work: dict[str, Any], links: dict[str, Any]) -> dict[str, Any]:
    """The tasks with their most specific launch, the latest of several."""
    order = np.lexsort((links["source"], -links["ts_ns"], links["vague"], links["task"]))
    known, first = np.unique(links["task"][order], return_index=True)
    best = order[first]
    at = np.minimum(np.searchsorted(known, work["span_id"]), max(len(known) - 1, 0))
    linked = known[at] == work["span_id"] if len(known) else np.zeros(len(work["span_id"]), bool)
    columns = {**work, "linked": linked}
    names = {"source": "source", "source_start": "ts_ns", "source_end": "end_ns", "source_track": "track"}
    for (ours, theirs), missing in zip(names.items(), (-1, 0, 0, -1), strict=True):
        column = np.full(len(linked), missing, np.int64)
        column[linked] = links[theirs][best[at[linked]]]
        columns[ours] = column
    columns["node"] = np.zeros(len(linked), bool)
    columns["node"][linked] = links["graph"][best[at[linked]]].astype(bool)
    _, firsts = np.unique(columns["source"], return_index=True)  # tasks lie by rank and start
    columns["node"][firsts] = False
    return columns


def _threads(run: Run) -> dict[int, str]:
    rows = run.con.execute("SELECT track, tid FROM track WHERE kind = 'host_thread'").fetchall()
    return {track: f"track {track}" if tid is None else tid for track, tid in rows}


def _rank(rows: dict[str, NDArray[np.generic]], queue: dict[str, NDArray[np.generic]], thread: dict[int, str]) -> Tasks:
    def ints(name: str) -> Ints:
        return rows[name].astype(np.int64)

    source_start, source_track = ints("source_start"), ints("source_track")
    linked = rows["linked"].astype(np.bool_)
    issued, issue_track = source_start.copy(), source_track.copy()
    queued = np.zeros(len(issued), bool)
    begins, ends = queue["ts_ns"].astype(np.int64), queue["end_ns"].astype(np.int64)
    names, of_queue = np.unique(queue["track"].astype(np.int64), return_inverse=True)
    for number, track in enumerate(names):
        mine = np.flatnonzero(of_queue == number)
        same = [t for t in np.unique(source_track) if thread.get(int(t)) == thread.get(int(track))]
        here = np.flatnonzero(np.isin(source_track, same) & linked)
        at = np.searchsorted(begins[mine], source_start[here], side="right") - 1
        inside = (at >= 0) & (source_start[here] <= ends[mine][at])
        here, at = here[inside], mine[at[inside]]
        issued[here] = queue["enqueued"].astype(np.int64)[at]
        issue_track[here] = queue["enqueue_track"].astype(np.int64)[at]
        queued[here] = True
    return Tasks(
        ints("span_id"), ints("ts_ns"), ints("end_ns"), ints("track"), rows["kind"].astype(np.uint8),
        linked, ints("source"), source_start, ints("source_end"), source_track,
        np.minimum(issued, source_start), issue_track, queued, rows["node"].astype(np.bool_),
    )  # fmt: skip


# Gaps during which the host launched nothing, of tasks whose own launch was not recorded.
#
# The calls that launch are there, and only which task each of them launched is not known. A long gap may have no such
# call until shortly before its end. Then its task was launched either before the gap or by that call. A task that was
# there would not wait on an idle device, unless for another stream. That does not end just when the host comes back.
#: A gap this long, and its first call so shortly before its end. Of calls at random one gap in twelve would look so.
LONG_NS, SOON_NS = 1_000_000, 200_000

# Of each rank the kind of span that launches, the most certain that was recorded.
_CALLS = f"""
    WITH named AS (
        SELECT kind, name, CASE kind WHEN 'runtime' THEN 0 WHEN 'dequeue' THEN 1 WHEN 'enqueue' THEN 2 ELSE 3 END AS how
        FROM {NAMES} WHERE kind IN ('dequeue', 'enqueue', 'cpu_op') OR kind = 'runtime'
            AND NOT regexp_matches(name, '{LAYER}(?:{ALLOC_CALLS})$|[Ss]ynchronize|Query')
    ), found AS (
        SELECT s.rank, s.ts_ns, s.ts_ns + s.dur_ns AS end_ns, how
        FROM span s JOIN named USING (kind, name) WHERE list_contains(?, s.rank)
    ), best AS (SELECT rank, min(how) AS how FROM found GROUP BY rank)
    SELECT rank, ts_ns, end_ns FROM found JOIN best USING (rank, how) ORDER BY rank, ts_ns
"""


def launching(run: Run) -> dict[int, Intervals]:
    """Per rank when its host was in calls that may launch; only ranks of which most launches are not known."""
    lacking = [rank for rank, did in run.get(tasks).items() if 2 * int((did.linked | did.node).sum()) <= len(did.ids)]
    if not lacking:
        return {}
    run.get(names)
    found = run.columns(_CALLS, [lacking])
    starts, ends = found["ts_ns"].astype(np.int64), found["end_ns"].astype(np.int64)
    edges = np.searchsorted(found["rank"], [[rank, rank + 1] for rank in lacking]).tolist()
    return {
        rank: Intervals.union_of(starts[begin:end], ends[begin:end])
        for rank, (begin, end) in zip(lacking, edges, strict=True)
        if begin < end
    }


def came_back(calls: Intervals, starts: Ints, ends: Ints) -> tuple[NDArray[np.bool_], Ints]:
    """Of some gaps, whether no call that may launch was open until just before the end, and when the first one was."""
    if not len(calls.starts):
        return np.zeros(len(starts), np.bool_), ends
    first = np.searchsorted(calls.ends, starts, "right")
    begin = np.append(calls.starts, np.iinfo(np.int64).max)[first]
    return (ends - starts >= LONG_NS) & (begin >= np.maximum(starts, ends - SOON_NS)) & (begin <= ends), begin
