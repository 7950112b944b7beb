"""Spans and tracks of a torch_npu or msprof database.

Names are those of the text export of the same capture. A kernel is called like its operator, a CANN call
``AscendCL@...``, other tasks by their type.
"""

from __future__ import annotations

from collections.abc import Mapping

from npulens.ingest.messages import Message
from npulens.ingest.readers.ascend.db import tasks
from npulens.ingest.readers.ascend.db.tasks import CANN, COMM_OP, GC, MSTX, OSRT, PLANE, PYTORCH, SPLIT, TASK, span_id
from npulens.ingest.tables.draft import Draft
from npulens.ingest.tables.marks import STEP_MARK
from npulens.ingest.tables.sqltext import whens

FIRST_TRACK = 1 << 19

#: What the CANN lane of the text export puts before a name; "hccl" became "communication" in 2025.
LEVELS = {
    "acl": "AscendCL", "runtime": "Runtime", "node": "Node", "model": "Model", "hccl": "Hccl",
    "communication": "Communication",
}  # fmt: skip
_LEVELS = f"CASE type {whens(LEVELS)} ELSE 'Api' END"
#: The profiler's own lanes, by ENUM_OVERLAP_ANALYSIS_TYPE.
LANES = {0: "Computing", 1: "Communication", 2: "Communication(Not Overlapped)", 3: "Free"}
_LANES = f"CASE {{0}} {whens(LANES)} ELSE 'Unknown' END"


def make(draft: Draft, rows: Mapping[str, int]) -> None:
    """Spans and tracks; what the other modules join to are the views db_api, db_cann, db_task and db_comm_op."""
    _host(draft)
    tasks.make(draft, without_compute=rows["COMPUTE_TASK_INFO"] == 0)
    _comm_ops(draft)
    _other(draft, profiler_split=rows["ENUM_OVERLAP_ANALYSIS_TYPE"] > 0)
    views = ("db_api", "db_cann", "db_task", "db_comm_op", "db_other")
    columns = "span_id, source, x, y, kind, name, ts_ns, end_ns - ts_ns AS dur_ns"
    everything = " UNION ALL ".join(f"SELECT {columns} FROM {view}" for view in views)
    draft.view("db_span", f"SELECT * FROM ({everything}) WHERE kind <> 'container'")
    without, backwards = draft.con.execute(
        "SELECT count(*) FILTER (dur_ns IS NULL), count(*) FILTER (dur_ns < 0) FROM db_span"
    ).fetchall()[0]
    draft.drop("span", Message("rows_without_start_and_end"), without)
    draft.drop("span", Message("rows_that_end_before_they"), backwards)
    _tracks(draft)
    draft.provide(
        "span",
        "SELECT s.span_id, l.track, s.kind, s.name, s.ts_ns, s.dur_ns FROM db_span s "
        "JOIN db_lane l USING (source, x, y) WHERE s.dur_ns >= 0",
    )


def _host(draft: Draft) -> None:
    draft.view(
        "db_api",
        f"""SELECT row, {span_id(PYTORCH)} AS span_id, {PYTORCH} AS source,
        coalesce(globalTid, -1) AS x, -1 AS y, coalesce(name, '') AS name, stamp(startNs) AS ts_ns,
        stamp(endNs) AS end_ns, CASE type WHEN 'trace' THEN 'python' WHEN 'mstx' THEN 'annotation'
            WHEN 'queue' THEN CASE WHEN name LIKE 'Enqueue%' THEN 'enqueue' WHEN name LIKE 'Dequeue%' THEN 'dequeue'
                ELSE 'host_other' END
            ELSE CASE WHEN regexp_matches(name, '{STEP_MARK}') THEN 'step_mark' ELSE 'cpu_op' END END AS kind,
        connectionId, sequenceNumber, fwdThreadId, callchainId, inputShapes, inputDtypes FROM raw_PYTORCH_API""",
    )
    draft.view(
        "db_cann",
        f"""SELECT row, {span_id(CANN)} AS span_id, {CANN} AS source,
        coalesce(globalTid, -1) AS x, -1 AS y, {_LEVELS} || '@' || coalesce(name, '') AS name,
        stamp(startNs) AS ts_ns, stamp(endNs) AS end_ns, 'runtime' AS kind,
        number(connectionId) AS connectionId FROM raw_CANN_API""",
    )


def _comm_ops(draft: Draft) -> None:
    draft.view(
        "db_comm_op",
        f"""SELECT row, {span_id(COMM_OP)} AS span_id, 'comm_op' AS kind, {COMM_OP} AS source,
        coalesce(groupId, -1) AS x, -1 AS y, coalesce(opName, '') AS name, stamp(startNs) AS ts_ns,
        stamp(endNs) AS end_ns, number(connectionId) AS connectionId, opId, told(groupName) AS group_name, count,
        relay, retry, told(opType) AS op_type, told(algType) AS algorithm, told(dataType) AS dtype
        FROM raw_COMMUNICATION_OP""",
    )


def _other(draft: Draft, *, profiler_split: bool) -> None:
    """Everything with a start and an end that no task or call is.

    Overlap lanes count only where the profiler itself wrote them (it then writes the names of their types too).
    MindStudio Insight adds a table of the same name to any database that it opens.
    """
    parts = [
        f"SELECT row, {GC} AS source, globalTid AS x, -1 AS y, 'gc' AS kind, 'GC' AS name, startNs, endNs, "
        "NULL AS link FROM raw_GC_RECORD",
        f"SELECT row, {MSTX}, globalTid, -1, 'annotation', message, startNs, endNs, connectionId FROM raw_MSTX_EVENTS",
        f"SELECT row, {OSRT}, globalTid, -1, 'host_other', name, startNs, endNs, NULL FROM raw_OSRT_API",
    ]
    if profiler_split:
        parts.append(
            f"SELECT row, {SPLIT}, deviceId, type, 'profiler_split', {_LANES.format('type')}, startNs, endNs, NULL "
            "FROM raw_OVERLAP_ANALYSIS"
        )
    draft.view(
        "db_other",
        f"""SELECT row, {span_id("source")} AS span_id, source, coalesce(x, -1) AS x,
        coalesce(y, -1) AS y, kind, coalesce(name, '') AS name, stamp(startNs) AS ts_ns, stamp(endNs) AS end_ns,
        number(link) AS connectionId FROM ({" UNION ALL ".join(parts)})""",
    )


def _tracks(draft: Draft) -> None:
    draft.keep(
        "db_lane",
        f"SELECT {FIRST_TRACK} + row_number() OVER (ORDER BY source, x, y) AS track, source, x, y FROM "
        "(SELECT DISTINCT source, x, y FROM db_span WHERE dur_ns >= 0)",
    )
    draft.keep(
        "db_group_name",
        """SELECT id, told(min(name)) AS name FROM (SELECT groupId AS id, groupName AS name FROM raw_COMMUNICATION_OP
        UNION ALL SELECT groupId, groupName FROM raw_COMMUNICATION_TASK_INFO) GROUP BY id""",
    )
    threads = f"source IN ({PYTORCH}, {CANN}, {GC}, {MSTX}, {OSRT})"
    # The lane of communication is called like the level of its calls, which was renamed with it.
    hccl = "(SELECT CASE WHEN bool_or(name LIKE 'Hccl@%') THEN 'HCCL' ELSE 'Communication' END FROM db_cann)"
    draft.provide(
        "track",
        f"""SELECT l.track, CASE WHEN {threads} THEN 'host_thread' WHEN source = {TASK} THEN 'stream'
        WHEN source = {COMM_OP} THEN 'comm_group' WHEN source = {PLANE} THEN 'comm_plane' ELSE 'profiler' END AS kind,
        CASE WHEN source = {GC} THEN 'Python GC' WHEN {threads} THEN 'Thread ' || (x & 4294967295)
        WHEN source = {TASK} THEN 'Stream ' || y WHEN source = {PLANE} THEN 'Plane ' || y
        WHEN source = {COMM_OP} THEN coalesce('Group ' || g.name || ' Communication', 'Communication')
        ELSE {_LANES.format("y")} END AS name,
        CASE source WHEN {PYTORCH} THEN 'Python' WHEN {CANN} THEN 'CANN' WHEN {GC} THEN 'Python GC'
        WHEN {MSTX} THEN 'MSTX' WHEN {OSRT} THEN 'OS Runtime API' WHEN {TASK} THEN 'Ascend Hardware'
        WHEN {SPLIT} THEN 'Overlap Analysis' ELSE {hccl} END AS process,
        CASE WHEN {threads} THEN x >> 32 WHEN source = {TASK} THEN (SELECT min(globalPid) FROM raw_TASK) END AS pid,
        CASE WHEN {threads} THEN x & 4294967295 WHEN source IN ({TASK}, {SPLIT}) THEN y END AS tid,
        CASE WHEN source = {TASK} THEN y END AS stream, g.name AS group_name,
        CASE WHEN source = {PLANE} THEN y::INTEGER END AS plane, (l.track - {FIRST_TRACK})::INTEGER AS sort
        FROM db_lane l LEFT JOIN db_group_name g ON g.id = l.x AND source IN ({COMM_OP}, {PLANE})""",
    )
