"""Spans, tracks and links of a torch_npu or msprof database.

Names are those of the text export of the same capture: a kernel is called like its operator, a CANN call
``AscendCL@...``, other tasks by their type.
"""

from __future__ import annotations

from collections.abc import Mapping

from ingest.ascend import db_tasks
from ingest.ascend.db_raw import first, named, texts, words
from ingest.ascend.db_tasks import CANN, COMM_OP, GC, MSTX, OSRT, PLANE, PYTORCH, SPLIT, TASK, span_id
from ingest.ascend.stage import count, keep
from ingest.draft import Draft, literal

_FIRST_TRACK = 1 << 19
#: What the CANN lane of the text export puts before a name; "hccl" became "communication" in 2025.
_LEVELS = (
    "CASE coalesce(level.name, a.type::VARCHAR) WHEN 'acl' THEN 'AscendCL' WHEN 'runtime' THEN 'Runtime' "
    "WHEN 'node' THEN 'Node' WHEN 'model' THEN 'Model' WHEN 'hccl' THEN 'Hccl' "
    "WHEN 'communication' THEN 'Communication' WHEN '20000' THEN 'AscendCL' WHEN '5000' THEN 'Runtime' "
    "WHEN '10000' THEN 'Node' WHEN '15000' THEN 'Model' WHEN '5500' THEN 'Communication' ELSE 'Api' END"
)
#: The profiler's own lanes, by ENUM_OVERLAP_ANALYSIS_TYPE.
_LANES = (
    "CASE type WHEN 0 THEN 'Computing' WHEN 1 THEN 'Communication' WHEN 2 THEN 'Communication(Not Overlapped)' "
    "WHEN 3 THEN 'Free' ELSE 'Unknown' END"
)


def make(draft: Draft, rows: Mapping[str, int]) -> None:
    """Spans and tracks; what the other modules join to are the views db_api, db_cann, db_task and db_comm_op."""
    _host(draft)
    db_tasks.make(draft, without_compute=rows["COMPUTE_TASK_INFO"] == 0)
    _comm_ops(draft)
    _other(draft, profiler_split=rows["ENUM_OVERLAP_ANALYSIS_TYPE"] > 0)
    views = ("db_api", "db_cann", "db_task", "db_comm_op", "db_other")
    columns = "span_id, source, x, y, kind, name, ts_ns, end_ns - ts_ns AS dur_ns"
    everything = " UNION ALL ".join(f"SELECT {columns} FROM {view}" for view in views)
    draft.con.execute(f"CREATE VIEW db_span AS SELECT * FROM ({everything}) WHERE kind <> 'container'")
    _say_lost(draft)
    _tracks(draft)
    draft.provide(
        "span",
        "SELECT s.span_id, l.track, s.kind, s.name, s.ts_ns, s.dur_ns FROM db_span s "
        "JOIN db_lane l USING (source, x, y) WHERE s.dur_ns >= 0",
    )


def _host(draft: Draft) -> None:
    words(draft, "host", "raw_PYTORCH_API.name", "raw_CANN_API.name")
    levels = f"{first('raw_ENUM_API_TYPE', 'id')} level"
    keep(
        draft,
        "db_api",
        f"""SELECT a.row, {span_id(PYTORCH, "a.row")} AS span_id, {PYTORCH} AS source, coalesce(a.globalTid, -1) AS x,
        -1 AS y, coalesce(name_.value, '') AS name, stamp(a.startNs) AS ts_ns, stamp(a.endNs) AS end_ns,
        CASE WHEN level.name = 'trace' OR a.type = 50003 THEN 'python'
             WHEN level.name = 'mstx' OR a.type = 50004 THEN 'annotation'
             WHEN level.name = 'queue' OR a.type = 50002
                THEN CASE WHEN name_.value LIKE 'Enqueue%' THEN 'enqueue'
                     WHEN name_.value LIKE 'Dequeue%' THEN 'dequeue' ELSE 'host_other' END
             WHEN regexp_full_match(name_.value, 'ProfilerStep#\\d+') THEN 'step_mark' ELSE 'cpu_op' END AS kind,
        a.connectionId, a.sequenceNumber, a.fwdThreadId, a.callchainId, a.inputShapes, a.inputDtypes
        FROM raw_PYTORCH_API a {texts("host", "a", "name")} LEFT JOIN {levels} ON level.id = a.type""",
    )
    keep(
        draft,
        "db_cann",
        f"""SELECT a.row, {span_id(CANN, "a.row")} AS span_id, {CANN} AS source, coalesce(a.globalTid, -1) AS x,
        -1 AS y, {_LEVELS} || '@' || coalesce(name_.value, '') AS name, stamp(a.startNs) AS ts_ns,
        stamp(a.endNs) AS end_ns, 'runtime' AS kind, number(a.connectionId) AS connectionId
        FROM raw_CANN_API a {texts("host", "a", "name")} LEFT JOIN {levels} ON level.id = a.type""",
    )


def _comm_ops(draft: Draft) -> None:
    keep(
        draft,
        "db_comm_op",
        f"""SELECT r.row, {span_id(COMM_OP, "r.row")} AS span_id, 'comm_op' AS kind, {COMM_OP} AS source,
        coalesce(r.groupName, -1) AS x, -1 AS y, coalesce(opName_.value, '') AS name, stamp(r.startNs) AS ts_ns,
        stamp(r.endNs) AS end_ns, number(r.connectionId) AS connectionId, r.opId, told(groupName_.value) AS group_name,
        r.count, r.relay, r.retry, told(opType_.value) AS op_type, told(algType_.value) AS algorithm, r.dataType
        FROM raw_COMMUNICATION_OP r {named(draft, "COMMUNICATION_OP", "opName", "groupName", "opType", "algType")}""",
    )


def _other(draft: Draft, *, profiler_split: bool) -> None:
    """Everything with a start and an end that links to nothing.

    Overlap lanes count only where the profiler itself wrote them (it then writes the names of their types too);
    MindStudio Insight adds a table of the same name to any database that it opens.
    """
    words(draft, "mstx", "raw_MSTX_EVENTS.message", "raw_MSTX_EVENTS.domainId")
    parts = [
        f"SELECT row, {GC} AS source, globalTid AS x, -1 AS y, 'gc' AS kind, 'GC' AS name, startNs, endNs, "
        "NULL AS link FROM raw_GC_RECORD",
        f"SELECT r.row, {MSTX}, globalTid, -1, 'annotation', coalesce(message_.value, ''), startNs, endNs, "
        f"r.connectionId FROM raw_MSTX_EVENTS r {texts('mstx', 'r', 'message')}",
        f"SELECT r.row, {OSRT}, globalTid, -1, 'host_other', coalesce(name_.value, ''), startNs, endNs, NULL "
        f"FROM raw_OSRT_API r {named(draft, 'OSRT_API', 'name')}",
    ]
    if profiler_split:
        parts.append(
            f"SELECT row, {SPLIT}, deviceId, type, 'profiler_split', {_LANES}, startNs, endNs, NULL "
            "FROM raw_OVERLAP_ANALYSIS"
        )
    keep(
        draft,
        "db_other",
        f"SELECT row, {span_id('source::BIGINT')} AS span_id, source, coalesce(x, -1) AS x, "
        "coalesce(y, -1) AS y, kind, name, stamp(startNs) AS ts_ns, stamp(endNs) AS end_ns, "
        f"number(link) AS connectionId FROM ({' UNION ALL '.join(parts)})",
    )


def _say_lost(draft: Draft) -> None:
    lost = draft.con.execute(
        "SELECT count(*) FILTER (dur_ns IS NULL), count(*) FILTER (dur_ns < 0) FROM db_span"
    ).fetchall()[0]
    draft.drop("span", "rows without a start and an end", lost[0])
    draft.drop("span", "rows that end before they start", lost[1])


def _tracks(draft: Draft) -> None:
    words(draft, "group", "raw_COMMUNICATION_OP.groupName", "raw_COMMUNICATION_TASK_INFO.groupName")
    keep(
        draft,
        "db_lane",
        f"SELECT {_FIRST_TRACK} + row_number() OVER (ORDER BY source, x, y) AS track, source, x, y FROM "
        "(SELECT DISTINCT source, x, y FROM db_span WHERE dur_ns >= 0)",
    )
    threads = f"source IN ({PYTORCH}, {CANN}, {GC}, {MSTX}, {OSRT})"
    draft.provide(
        "track",
        f"""SELECT l.track, CASE WHEN {threads} THEN 'host_thread' WHEN source = {TASK} THEN 'stream'
        WHEN source = {COMM_OP} THEN 'comm_group' WHEN source = {PLANE} THEN 'comm_plane' ELSE 'profiler' END AS kind,
        CASE WHEN source = {GC} THEN 'Python GC' WHEN {threads} THEN 'Thread ' || (x & 4294967295)
        WHEN source = {TASK} THEN 'Stream ' || y WHEN source = {PLANE} THEN 'Plane ' || y
        WHEN source = {COMM_OP} THEN coalesce('Group ' || told(g.value) || ' Communication', 'Communication')
        ELSE {_LANES} END AS name,
        CASE source WHEN {PYTORCH} THEN 'Python' WHEN {CANN} THEN 'CANN' WHEN {GC} THEN 'Python GC'
        WHEN {MSTX} THEN 'MSTX' WHEN {OSRT} THEN 'OS Runtime API' WHEN {TASK} THEN 'Ascend Hardware'
        WHEN {SPLIT} THEN 'Overlap Analysis'
        ELSE (SELECT CASE WHEN bool_or(name = 'hccl') THEN 'HCCL' ELSE 'Communication' END FROM raw_ENUM_API_TYPE) END
        AS process,
        CASE WHEN {threads} THEN x >> 32 WHEN source = {TASK} THEN (SELECT min(globalPid) FROM raw_TASK) END AS pid,
        CASE WHEN {threads} THEN x & 4294967295 WHEN source IN ({TASK}, {SPLIT}) THEN y END AS tid,
        CASE WHEN source = {TASK} THEN y END AS stream,
        CASE WHEN source IN ({COMM_OP}, {PLANE}) THEN told(g.value) END AS group_name,
        CASE WHEN source = {PLANE} THEN y::INTEGER END AS plane, (l.track - {_FIRST_TRACK})::INTEGER AS sort
        FROM (SELECT *, y AS type FROM db_lane) l 
        LEFT JOIN words_group g ON g.id = l.x AND source IN ({COMM_OP}, {PLANE})""",
    )


def link(draft: Draft) -> None:
    """Launch arrows: PyTorch operator -> CANN call -> device, enqueue -> dequeue, forward -> backward.

    One id space holds the ids of CANN calls, of queue entries and of forward-backward pairs, and in old versions
    they collide. So queue entries are paired only with each other, forward and backward operators also by their
    sequence number, and an id that pairs two operators so is no launch of theirs.
    """
    draft.con.execute(
        "CREATE VIEW db_device AS SELECT span_id, kind, connectionId, ts_ns FROM db_task "
        "WHERE kind IN ('kernel', 'memcpy', 'wait', 'device_other') AND end_ns >= ts_ns "
        "UNION ALL SELECT span_id, kind, connectionId, ts_ns FROM db_comm_op WHERE end_ns >= ts_ns"
    )
    keep(
        draft,
        "db_launch",
        """SELECT a.span_id, a.kind, a.sequenceNumber, a.x, coalesce(a.fwdThreadId, 0) <> 0 AS backward, a.ts_ns,
        number(i.connectionId) AS connectionId FROM db_api a JOIN raw_CONNECTION_IDS i ON i.id = a.connectionId
        WHERE a.end_ns >= a.ts_ns AND number(i.connectionId) IS NOT NULL""",
    )
    keep(
        draft,
        "db_pair",
        """SELECT f.span_id AS src, b.span_id AS dst, f.connectionId, f.ts_ns AS src_ts, b.ts_ns AS dst_ts,
        f.x <> b.x AS apart FROM db_launch f JOIN db_launch b USING (connectionId, sequenceNumber)
        WHERE NOT f.backward AND b.backward AND f.sequenceNumber >= 0""",
    )
    for route, select in _ROUTES.items():
        columns = f"src AS src_span_id, dst AS dst_span_id, {literal(route)} AS route, dst_ts - src_ts AS latency_ns"
        keep(draft, f"db_link_{route}", f"SELECT DISTINCT {columns} FROM ({select})")
        draft.provide("link", f"SELECT * FROM db_link_{route}")
    draft.expect("link", count(draft, "SELECT count(*) FROM db_device WHERE kind IN ('kernel', 'memcpy', 'comm_op')"))


_CANN_TO_DEVICE = "SELECT a.span_id AS src, d.span_id AS dst, a.ts_ns AS src_ts, d.ts_ns AS dst_ts FROM"
_ROUTES = {
    "host_to_device": f"{_CANN_TO_DEVICE} db_cann a JOIN db_device d USING (connectionId) WHERE a.end_ns >= a.ts_ns",
    "torch_to_npu": f"""{_CANN_TO_DEVICE} (
        SELECT * FROM db_launch l WHERE kind NOT IN ('enqueue', 'dequeue')
        AND connectionId IN (SELECT connectionId FROM db_cann)
        AND (span_id, connectionId) NOT IN (SELECT (src, connectionId) FROM db_pair)
        AND (span_id, connectionId) NOT IN (SELECT (dst, connectionId) FROM db_pair)
        ) a JOIN db_device d USING (connectionId)""",
    "task_queue": f"""{_CANN_TO_DEVICE} (SELECT * FROM db_launch WHERE kind = 'enqueue') a
        JOIN (SELECT * FROM db_launch WHERE kind = 'dequeue') d USING (connectionId)""",
    "fwdbwd": "SELECT * FROM db_pair WHERE apart",
    "connection_id": f"""{_CANN_TO_DEVICE} (SELECT * FROM db_other WHERE kind = 'annotation' AND end_ns >= ts_ns) a
        JOIN (SELECT * FROM db_task WHERE kind = 'device_annotation' AND end_ns >= ts_ns) d USING (connectionId)""",
}
