"""What each span is and on which track it lies: small tables that everything else joins."""

from __future__ import annotations

from npulens.ingest.readers.kineto import npu
from npulens.ingest.readers.kineto.asked import CAPTURE
from npulens.ingest.readers.kineto.lanes import CATEGORY, DEVICE, NAME, SAID
from npulens.ingest.readers.kineto.spans import Spans
from npulens.ingest.tables import comm_facts
from npulens.ingest.tables.draft import Draft
from npulens.ingest.tables.marks import STEP_MARK
from npulens.ingest.tables.sqltext import literal

#: Device spans that are work or that a host call asked for; annotations and profiler ranges are neither.
LAUNCHED = ("kernel", "memset", "memcpy", "comm_op", "unknown", "wait", "device_other")


def _named(cats: tuple[str, ...]) -> str:
    return ", ".join(map(literal, cats))


_DEVICE_KIND = f"""CASE
    WHEN cat IN ('cpu_op', 'operator', 'user_annotation') THEN
        CASE WHEN starts_with(name, 'gloo:') THEN 'comm_op' ELSE 'kernel' END
    WHEN cat IN ('gpu_user_annotation', {_named(npu.NOTES)}) THEN 'device_annotation'
    WHEN cat IN ('cuda_sync', 'xpu_sync') THEN 'wait'
    WHEN cat IN ('gpu_memcpy', 'memcpy', {_named(npu.COPIES)}) THEN 'memcpy'
    WHEN cat IN ('gpu_memset', 'memset', {_named(npu.FILLS)}) THEN 'memset'
    WHEN cat IN ('collective_comm', {_named(npu.COLLECTIVES)}) THEN 'comm_op'
    WHEN cat = 'mtia_ccp_events' THEN CASE
        WHEN name = 'dma_request' THEN 'memcpy'
        WHEN name = 'event_wait' THEN 'wait'
        WHEN name = 'event_record' THEN 'device_other'
        ELSE 'kernel' END
    WHEN cat IN ('kernel', 'concurrent_kernel', 'hpu_op', {_named(npu.KERNELS)}) THEN
        CASE WHEN regexp_matches(name, '{npu.WAITS}') THEN 'wait'
        WHEN regexp_matches(name, '{npu.MARKS}') THEN 'device_other'
        WHEN fused THEN 'kernel' WHEN known THEN 'comm_op' WHEN suspected THEN 'unknown' ELSE 'kernel' END
    ELSE 'device_other' END"""

_HOST_KIND = f"""CASE
    WHEN name = 'Python GC' THEN 'gc'
    WHEN cat IN ('cpu_op', 'operator', 'user_annotation') AND regexp_matches(name, '{STEP_MARK}') THEN 'step_mark'
    WHEN cat IN ('cpu_op', 'operator') THEN 'cpu_op'
    WHEN cat = 'user_annotation' THEN 'annotation'
    WHEN cat = 'python_function' THEN 'python'
    WHEN cat = 'runtime' OR cat LIKE '%\\_runtime' ESCAPE '\\' OR cat LIKE '%\\_driver' ESCAPE '\\' THEN 'runtime'
    ELSE 'host_other' END"""

#: Begin and end events paired per thread: an end closes the latest open begin. What finds no partner is lost.
_PAIRED = """
CREATE TABLE edge AS
WITH depth AS (
    SELECT *, sum(CASE ph WHEN 66 THEN 1 ELSE -1 END) OVER (PARTITION BY lane ORDER BY ts, row)
        + CASE ph WHEN 66 THEN 0 ELSE 1 END AS level FROM edge_raw
), paired AS (
    SELECT *, lead(ph) OVER w AS next_ph, lead(ts) OVER w AS next_ts, lead(row) OVER w AS end_row FROM depth
    WINDOW w AS (PARTITION BY lane, level ORDER BY ts, row)
)
SELECT row, ts, next_ts - ts AS dur, shape, lane, end_row FROM paired WHERE ph = 66 AND next_ph = 69
"""

_META = """
CREATE TABLE meta AS
SELECT m.row, n.text AS what, p.text AS pid, t.text AS tid, x.text AS text, l.text AS label, m.sort
FROM meta_raw m JOIN strings n ON n.code = m.name JOIN strings p ON p.code = m.pid JOIN strings t ON t.code = m.tid
LEFT JOIN strings x ON x.code = m.text LEFT JOIN strings l ON l.code = m.label
"""

#: Equal texts share a track, whatever their codes.
_LANE = """
CREATE TABLE lane AS
WITH category AS (
    SELECT lane, list(DISTINCT s.text) AS cats
    FROM (SELECT lane, unnest(cats) AS code FROM lane_raw) c JOIN strings s USING (code) GROUP BY lane
)
SELECT r.lane, r.device, r.spans, r.first_row, p.text AS pid_text, t.text AS tid_text,
    coalesce(len(list_filter(c.cats, lambda cat: cat NOT IN ('Trace', 'overhead'))) = 0, false) AS profiler,
    NOT r.device AND coalesce(c.cats = ['mtia_runtime'], false)
        AND p.text IN (SELECT text FROM strings JOIN lane_raw ON pid = code AND device AND spans > 0) AS waits,
    dense_rank() OVER (ORDER BY r.device, p.text, t.text) AS track
FROM lane_raw r JOIN strings p ON p.code = r.pid JOIN strings t ON t.code = r.tid
    LEFT JOIN category c USING (lane)
"""

_TRACK = """
CREATE TABLE track_made AS
WITH one AS (
    SELECT track, bool_or(device OR waits) AS device,
        bool_and(profiler OR pid_text IN ('Spans', 'Traces', '')) AS profiler,
        any_value(pid_text) AS pid, any_value(tid_text) AS tid, min(first_row) AS first_row
    FROM lane GROUP BY track HAVING sum(spans) > 0
), streams AS (
    SELECT l.track, max(d.stream) AS stream FROM device_raw d JOIN lane l USING (lane)
    WHERE d.stream BETWEEN 0 AND 9223372036854775806 AND d.stream <> 4294967295 GROUP BY l.track
), threads AS (
    SELECT pid, tid, arg_max(text, row) FILTER (what = 'thread_name') AS name,
        arg_max(sort, row) FILTER (sort IS NOT NULL) AS sort
    FROM meta WHERE what LIKE 'thread%' GROUP BY pid, tid
), processes AS (
    SELECT pid, arg_max(text, row) FILTER (what = 'process_name') AS name,
        arg_max(label, row) FILTER (label IS NOT NULL) AS label, arg_max(sort, row) FILTER (sort IS NOT NULL) AS sort
    FROM meta WHERE what LIKE 'process%' GROUP BY pid
), named AS (
    SELECT o.*, p.name AS process, p.label, p.sort AS process_sort, t.sort AS thread_sort,
        nullif(trim(t.name), '') AS thread, coalesce(s.stream,
            CASE WHEN o.device THEN try_cast(nullif(regexp_extract(o.tid, '(\\d+)$', 1), '') AS BIGINT) END) AS stream
    FROM one o LEFT JOIN threads t ON t.pid = o.pid AND t.tid = o.tid
        LEFT JOIN processes p ON p.pid = o.pid LEFT JOIN streams s ON s.track = o.track
)
SELECT track, CASE WHEN device THEN 'stream' WHEN profiler THEN 'profiler' ELSE 'host_thread' END AS kind,
    coalesce(thread, CASE
        WHEN device THEN 'stream ' || coalesce(stream::VARCHAR, tid)
        WHEN regexp_full_match(tid, '-?\\d+') THEN 'thread ' || tid
        ELSE nullif(tid, '') END, nullif(pid, ''), 'no thread given') AS name,
    CASE WHEN device THEN coalesce(label, process) ELSE coalesce(process, label) END AS process, pid, tid, stream,
    row_number() OVER (
        ORDER BY profiler AND NOT device, device, process_sort NULLS LAST, thread_sort NULLS LAST, first_row) AS sort
FROM named
"""


#: Kind and name of each shape; ``collective`` is the kind of collective that the facts give for its name.
_SORT = """
CREATE TABLE sort AS
WITH seen AS (
    SELECT shape, {device} AS device, {said} AS said, lower(c.text) AS cat, n.text AS name
    FROM met JOIN category_raw k ON k.number = {category}
        JOIN strings c ON c.code = k.code JOIN strings n ON n.code = {name}
), asked AS (
    -- A CASE asks no name of the host; there are many.
    SELECT *, CASE WHEN device THEN {known} ELSE false END AS known,
        CASE WHEN device THEN {fused} ELSE false END AS fused,
        CASE WHEN device THEN {suspected} ELSE false END AS suspected
    FROM seen
), judged AS (
    SELECT *, CASE WHEN device THEN {device_kind} ELSE {host_kind} END AS kind FROM asked
)
SELECT shape, device, cat, name AS text,
    CASE WHEN said AND NOT fused AND kind IN ('kernel', 'unknown', 'device_other') THEN 'comm_op' ELSE kind END AS kind,
    fused AND kind = 'kernel' AS fused, CASE WHEN known THEN {collective} END AS collective
FROM judged
"""


#: Shapes of marks of steps, of such calls, and of what launches communication.
_ASKED = f"""SELECT shape FROM sort WHERE kind IN ('step_mark', 'device_annotation')
    OR kind = 'runtime' AND regexp_matches(text, '{CAPTURE}')
    OR NOT device AND kind IN ('cpu_op', 'annotation') AND {{launches}}"""


def _sort() -> str:
    facts = comm_facts.facts()
    return _SORT.format(
        device=DEVICE, said=SAID, category=CATEGORY, name=NAME, device_kind=_DEVICE_KIND, host_kind=_HOST_KIND,
        known=facts.known("name"), fused=facts.fused("name"), suspected=facts.suspected("name"),
        collective=facts.collective("name"),
    )  # fmt: skip


def shape(draft: Draft, spans: Spans | None, *, paired: bool, on_cpu: bool) -> None:
    """Make ``sort`` (kind and name of each shape), ``lane``, ``meta`` and the tracks.

    And ``marked``, spans that are asked for by their names; ``ev``, every span, where ``spans`` does not hold them.
    """
    sources = ["span_raw"]
    if spans is not None and (paired or on_cpu):
        spans.whole(draft)
    if paired:
        draft.make(_PAIRED)
        draft.make("CREATE TABLE unpaired AS SELECT row FROM edge_raw ANTI JOIN edge USING (row)")
        sources.append("edge")
    if on_cpu:
        sources.append("cpu_task")
    if spans is None or paired or on_cpu:
        every = " UNION ALL ".join(f"SELECT row, ts, dur, shape, lane FROM {source}" for source in sources)
        draft.make(f"CREATE VIEW ev AS {every}")
    if spans is not None:
        spans.complete(draft, paired=paired, on_cpu=on_cpu)
    met = spans.met if spans is not None else None
    if met is not None:
        draft.table("met", met)
    else:
        if spans is not None:
            spans.whole(draft)
        draft.make("CREATE VIEW met AS SELECT DISTINCT shape FROM ev")
    for statement in (_META, _LANE, _TRACK, _sort()):
        draft.make(statement)
    if spans is not None and met is not None:
        asked = draft.con.sql(_ASKED.format(launches=comm_facts.facts().launches("text"))).to_arrow_table()
        draft.table("marked", spans.pick(asked["shape"].to_numpy()))
    else:
        draft.make("CREATE VIEW marked AS FROM ev")
    draft.provide("track", "SELECT track, kind, name, process, pid, tid, stream, sort FROM track_made")


def spans(shift_ns: int) -> str:
    """Every span with its kind, name, track and absolute time."""
    return f"""SELECT e.row AS span_id, l.track, e.ts + {shift_ns} AS ts_ns, e.dur AS dur_ns, s.text AS name,
        CASE WHEN l.waits AND s.kind = 'runtime' THEN 'wait' ELSE s.kind END AS kind
        FROM ev e JOIN sort s USING (shape) JOIN lane l USING (lane)"""
