"""What the replay needs of the tables, as columns per rank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.idle.host_names import NAMES, names, span_kinds
from npulens.analysis.idle.host_spans import ENQUEUE, OPERATOR, hosts
from npulens.analysis.intervals import Ints, among
from npulens.analysis.run import Run

#: What a device task is.
COMPUTE, COPYING, COLLECTIVE, WAITING, OTHER = range(5)
#: What launched it: a call into the driver, the queue's thread, or only a framework's operator is known.
BY_CALL, BY_QUEUE, BY_OPERATOR = range(3)

#: How long a launch takes at least to reach an idle device; real captures show 5 to 20 us.
_ARRIVES_NS = 10_000
#: A host that launches does something all the time; only a wait keeps it silent for so long.
_SILENT_NS = 2_000_000

#: Copies that wait for the device by definition.
#: A copy that takes so long, and for which part of it its call goes on where the host hands it over piece by piece.
_STAGED_NS, _STAGED = 100_000, 0.9
_BLOCKING = r"(^|@)(aclrt|cuda|hip)(Memcpy|MemcpyWithStream|Memcpy2d|Memcpy2D)$"

_THREAD = (
    "thread AS (SELECT track, dense_rank() OVER (ORDER BY rank, coalesce(tid, 'track ' || track)) AS thread FROM track)"
)

# A comm_op lies on its group's track; its tasks say on which stream it ran.
_TASKS = f"""
WITH {_THREAD}, blocking AS (
    SELECT name FROM {NAMES} WHERE kind = 'runtime' AND regexp_matches(name, '{_BLOCKING}')
), best AS (
    SELECT dst_span_id, arg_min(src_span_id, CASE WHEN route IN ('host_to_device', 'correlation') THEN 0
        WHEN route = 'connection_id' THEN 1 WHEN route = 'ac2g' THEN 2 ELSE 3 END) AS src_span_id
    FROM link WHERE route NOT IN ('fwdbwd', 'task_queue') GROUP BY 1
), source AS (
    SELECT best.dst_span_id, h.span_id, h.ts_ns, h.ts_ns + h.dur_ns AS end_ns, thread,
        CASE h.kind WHEN 'runtime' THEN 0 WHEN 'dequeue' THEN 1 ELSE 2 END AS how,
        h.kind = 'runtime' AND h.name IN (FROM blocking) AS blocks
    FROM best JOIN span h ON h.span_id = best.src_span_id JOIN thread USING (track)
    WHERE h.kind IN ('runtime', 'dequeue', 'enqueue', 'cpu_op', 'annotation', 'python', 'host_other')
), lane AS (
    SELECT c.op_span_id, min(t.track) AS lane FROM (
        SELECT op_span_id, rank, min(stream) AS stream FROM comm WHERE op_span_id <> span_id GROUP BY ALL
    ) c JOIN track t ON t.rank = c.rank AND t.stream = c.stream AND t.kind = 'stream' GROUP BY 1
)
SELECT s.rank, s.span_id AS span, s.ts_ns AS ts, s.ts_ns + s.dur_ns AS "end", coalesce(lane, s.track) AS lane,
    CASE WHEN s.kind = 'kernel' AND s.span_id IN (SELECT span_id FROM comm WHERE op_span_id = span_id) THEN 2 ELSE
    CASE s.kind WHEN 'kernel' THEN 0 WHEN 'memset' THEN 0 WHEN 'memcpy' THEN 1 WHEN 'comm_op' THEN 2
        WHEN 'wait' THEN 3 ELSE 4 END END AS code,
    coalesce(h.span_id, -1) AS source, coalesce(h.ts_ns, 0) AS source_ts, coalesce(h.end_ns, 0) AS source_end,
    coalesce(h.thread, -1) AS thread, coalesce(h.how, -1) AS how,
    coalesce(h.blocks, false)::INTEGER AS blocks
FROM span s JOIN track ON track.track = s.track LEFT JOIN lane ON lane.op_span_id = s.span_id
    LEFT JOIN source h ON h.dst_span_id = s.span_id
WHERE s.kind IN ('kernel', 'memset', 'memcpy', 'comm_op', 'unknown', 'wait')
    OR s.kind = 'device_other' AND track.kind = 'stream'
ORDER BY s.rank, 5, ts, "end", span
"""

_QUEUED = f"""
WITH {_THREAD}, pair AS (
    SELECT dst_span_id, min(src_span_id) AS src_span_id FROM link WHERE route = 'task_queue' GROUP BY 1
)
SELECT s.rank, s.span_id AS span, s.ts_ns AS ts, s.ts_ns + s.dur_ns AS "end", thread.thread,
    coalesce(least(e.ts_ns + e.dur_ns, s.ts_ns), -1) AS put, coalesce(putter.thread, -1) AS putter
FROM span s JOIN thread ON thread.track = s.track LEFT JOIN pair ON pair.dst_span_id = s.span_id
    LEFT JOIN span e ON e.span_id = pair.src_span_id AND e.kind = 'enqueue'
    LEFT JOIN thread putter ON putter.track = e.track
WHERE s.kind = 'dequeue' ORDER BY s.rank, thread.thread, ts, "end", span
"""

# A call that returns only when the device is done. aclrtMemcpy and cudaMemcpy are such by definition; where no call
# is recorded, the operator that reads a value back is one. A free may be one: only its end tells.
_SYNCS = f"""
WITH {_THREAD}, silent AS (SELECT rank FROM rank WHERE rank NOT IN (SELECT rank FROM span WHERE kind = 'runtime'))
SELECT s.rank, s.span_id AS span, s.ts_ns AS ts, s.ts_ns + s.dur_ns AS "end", thread,
    regexp_matches(s.name, 'Free$')::INTEGER AS asked
FROM span s JOIN thread USING (track)
WHERE s.kind = 'runtime' AND s.name IN (SELECT name FROM {NAMES} WHERE kind = 'runtime'
        AND (contains(lower(name), 'synchronize')
            OR regexp_matches(name, '{_BLOCKING}|(^|@)(aclrt|cuda|hip)Free$')))
    OR s.kind = 'cpu_op' AND s.name IN ('aten::_local_scalar_dense', 'aten::nonzero')
        AND s.rank IN (SELECT rank FROM silent)
ORDER BY s.rank, ts, "end" DESC, span
"""

_STREAM_WAITS = f"""
SELECT rank, ts_ns AS ts FROM span WHERE kind = 'runtime' AND name IN (
    SELECT name FROM {NAMES} WHERE kind = 'runtime' AND regexp_matches(name, '(cuda|hip|cu)StreamWaitEvent')
) ORDER BY rank, ts
"""

# Calls of the script's own threads where a queue launches for them. Before such a call torch_npu waits until the queue
# is empty. That is somewhere behind the last thing that the thread is known to have done.
_DIRECT = f"""
WITH {_THREAD}, queue AS (SELECT DISTINCT s.rank, thread FROM span s JOIN thread USING (track) WHERE kind = 'dequeue')
SELECT s.rank, s.ts_ns AS ts, thread FROM span s JOIN thread USING (track)
WHERE s.kind = 'runtime' AND s.rank IN (SELECT rank FROM queue) AND thread NOT IN (SELECT thread FROM queue)
    AND (s.name IN (SELECT name FROM {NAMES} WHERE kind = 'runtime' AND contains(lower(name), 'synchronize'))
        OR s.span_id IN (SELECT src_span_id FROM link WHERE route = 'host_to_device'))
ORDER BY thread, ts
"""
# Calls that ask whether the device is done and do not wait.
_QUERIES = f"""
SELECT rank, span_id AS span FROM span WHERE kind = 'runtime' AND name IN (
    SELECT name FROM {NAMES}
    WHERE kind = 'runtime' AND regexp_matches(name, '(^|@)((cuda|hip|cu)(Event|Stream)Query|aclrtQuery(Event|Stream))')
) ORDER BY rank, span
"""
_THREADS = f"WITH {_THREAD} SELECT track, thread FROM thread ORDER BY track"


@dataclass(frozen=True)
class Tasks:
    """What ran on the device, by lane and start; a lane is a stream."""

    span: Ints
    ts: Ints
    end: Ints
    lane: Ints
    code: Ints
    source: Ints  # the host span that launched it; -1: unknown
    source_ts: Ints
    source_end: Ints
    thread: Ints
    how: Ints
    blocks: Ints  # 1: by a call that waits for the device

    @property
    def anchor(self) -> Ints:
        """When it was launched, as far as spans tell.

        That is when the call was over, if it started only then, else shortly before it started. It may even seem to
        start before the call began: clocks of host and device differ a little.
        """
        inside = np.minimum(np.maximum(self.source_ts, self.ts - _ARRIVES_NS), self.ts)
        inside = np.where(self.held, np.minimum(self.source_ts, self.ts), inside)
        return np.where(self.source_end < self.ts, self.source_end, inside)

    @property
    def itself(self) -> NDArray[np.bool_]:
        """Work of a CPU, which is done where it is called: the task is its own launch."""
        same = (self.source_ts == self.ts) & (self.source_end == self.end)
        works = np.isin(self.code, (COMPUTE, COLLECTIVE))
        return np.asarray((self.source >= 0) & works & (self.how == BY_OPERATOR) & same)

    @property
    def held(self) -> NDArray[np.bool_]:
        """Copies whose call lasted until they were done: it waited for them.

        One that waits by definition may seem to return a little before its copy is done. Clocks differ, and what is
        copied from pageable memory has left it by then. So has that of a long copy whose call went on for most of it.
        """
        lasted = (self.source_end >= self.end) | ((self.blocks == 1) & (self.source_end >= self.ts))
        length = self.end - self.ts
        lasted |= (length >= _STAGED_NS) & (self.source_end - self.ts >= _STAGED * length)
        return np.asarray((self.how != BY_QUEUE) & (self.code == COPYING) & lasted)


@dataclass(frozen=True)
class Queued:
    """What the queue's thread took out, by thread and start."""

    span: Ints
    ts: Ints
    end: Ints
    thread: Ints
    put: Ints  # when it was put in; -1: unknown
    putter: Ints  # by which thread


@dataclass(frozen=True)
class Syncs:
    """Calls that wait for the device, by start, longest first."""

    span: Ints
    ts: Ints
    end: Ints
    thread: Ints
    asked: Ints  # 1: it waited only if it ended with a task


@dataclass(frozen=True)
class Silence:
    """Stretches in which no thread that launches began or ended anything but a look at the device, by start."""

    ts: Ints
    end: Ints


@dataclass(frozen=True)
class Direct:
    """Calls that wait until the queue is empty, by start."""

    ts: Ints
    reached: Ints  # the thread had come here by itself


@dataclass(frozen=True)
class Rows:
    """One rank."""

    tasks: Tasks
    queued: Queued
    syncs: Syncs
    direct: Direct
    silence: Silence
    stream_waits: Ints


def rows(run: Run) -> dict[int, Rows]:
    """Every rank's columns."""
    run.get(names)
    kinds = run.get(span_kinds)
    queued, calls = "dequeue" in kinds, "runtime" in kinds
    tables = [
        _table(run, _TASKS), _table(run, _QUEUED) if queued else _none("rank", *Queued.__dataclass_fields__),
        _table(run, _SYNCS) if calls or "cpu_op" in kinds else _none("rank", *Syncs.__dataclass_fields__),
        _direct(run) if queued and calls else _none("rank", *Direct.__dataclass_fields__),
        _table(run, _STREAM_WAITS) if calls else _none("rank", "ts"),
        _table(run, _QUERIES) if calls else _none("rank", "span"),
    ]  # fmt: skip

    def of(table: dict[str, Ints], rank: int) -> dict[str, Ints]:
        begin, end = np.searchsorted(table["rank"], [rank, rank + 1])
        return {name: values[begin:end] for name, values in table.items() if name != "rank"}

    return {
        rank: Rows(
            _one_lane(_working(Tasks(**of(tables[0], rank)))), Queued(**of(tables[1], rank)),
            Syncs(**of(tables[2], rank)), Direct(**of(tables[3], rank)),
            _silence(run, rank, of(tables[5], rank)["span"]), of(tables[4], rank)["ts"],
        )
        for rank in run.ranks
    }  # fmt: skip


def _none(*columns: str) -> dict[str, Ints]:
    return {name: np.zeros(0, np.int64) for name in columns}


def _table(run: Run, sql: str) -> dict[str, Ints]:
    return {name: np.asarray(values).astype(np.int64) for name, values in run.columns(sql).items()}


def _direct(run: Run) -> dict[str, Ints]:
    """The direct calls, by rank and start, and what their thread had last done or begun."""
    calls = _table(run, _DIRECT)
    done = _done(run, np.unique(calls["rank"]))
    reached = np.full(len(calls["ts"]), -1, np.int64)
    for thread in np.unique(calls["thread"]):
        mine = np.flatnonzero(calls["thread"] == thread)
        begin, end = np.searchsorted(done["thread"], [thread, thread + 1])
        last = begin + np.searchsorted(done["ts"][begin:end], calls["ts"][mine], side="right") - 1
        mine, last = mine[last >= begin], last[last >= begin]
        over = done["end"][last] < calls["ts"][mine]
        reached[mine] = np.where(over, done["end"][last], done["ts"][last])
    known = np.flatnonzero(reached >= 0)
    order = known[np.lexsort((reached[known], calls["ts"][known], calls["rank"][known]))]
    found = {"rank": calls["rank"][order], "ts": calls["ts"][order], "reached": reached[order]}
    again = (np.diff(found["rank"], prepend=-1) == 0) & (np.diff(found["ts"], prepend=-1) == 0)
    return {name: values[~again] for name, values in found.items()}


def _done(run: Run, ranks: Ints) -> dict[str, Ints]:
    """The operators of these ranks and what they put into queues, by thread and start, longest first."""
    there, known = run.get(hosts), _table(run, _THREADS)
    parts = [(np.zeros(0, np.int64),) * 3]
    for rank in ranks.tolist():
        spans = there.spans(rank)
        of = np.flatnonzero((spans.kinds == OPERATOR) | (spans.kinds == ENQUEUE))
        at = np.minimum(np.searchsorted(known["track"], spans.tracks[of]), len(known["track"]) - 1)
        there_is = known["track"][at] == spans.tracks[of]
        of, thread = of[there_is], known["thread"][at[there_is]]
        order = np.lexsort((-spans.ends[of], spans.starts[of], thread))
        parts.append((thread[order], spans.starts[of[order]], spans.ends[of[order]]))
    return dict(zip(("thread", "ts", "end"), (np.concatenate(column) for column in zip(*parts, strict=True)),
                    strict=True))  # fmt: skip


def _silence(run: Run, rank: int, queries: Ints) -> Silence:
    """Where the threads that launch and the queue's are silent for long; calls that only ask make no noise."""
    there = run.get(hosts)
    threads = there.threads[rank]
    tracks = threads.tracks(threads.issuing | threads.queue)
    if not tracks:
        return Silence(np.zeros(0, np.int64), np.zeros(0, np.int64))
    spans = there.spans(rank)
    mine = np.isin(spans.tracks, tracks) & ~among(spans.ids, queries)
    edges = np.sort(np.concatenate((spans.starts[mine], spans.ends[mine])), kind="stable")
    long = np.flatnonzero(np.diff(edges) >= _SILENT_NS)
    return Silence(edges[long], edges[long + 1])


def _working(tasks: Tasks) -> Tasks:
    """Without the streams on which nothing but tasks of unknown kind and launch ran.

    They are a collective's helpers, which move with their operator and would stand still on their own.
    """
    idle = (tasks.code == OTHER) & (tasks.source < 0)
    keep = ~np.isin(tasks.lane, np.setdiff1d(tasks.lane[idle], tasks.lane[~idle]))
    return tasks if keep.all() else Tasks(**{name: values[keep] for name, values in vars(tasks).items()})


def _one_lane(tasks: Tasks) -> Tasks:
    """Where no launch is known, a task hangs on whatever ran before it, on any stream."""
    if (tasks.source >= 0).any():
        return tasks
    order = np.lexsort((tasks.span, tasks.end, tasks.ts))
    columns = {name: values[order] for name, values in vars(tasks).items()}
    return Tasks(**{**columns, "lane": np.zeros(len(order), np.int64)})
