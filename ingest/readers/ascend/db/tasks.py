"""Hardware tasks of a database: each once, as a kernel, a copy, a wait or a part of a communication operator.

A task of the FFTS+ engine is listed beside the sub-tasks that do its work. It has the same task id without a context.
Like in the text export only the sub-tasks stay. A task that belongs to a communication operator is part of that
operator, whatever it does.
"""

from __future__ import annotations

from npulens.ingest.messages import Message
from npulens.ingest.readers.ascend import helpers
from npulens.ingest.readers.ascend.db.raw import unique
from npulens.ingest.readers.ascend.device import OWN_KERNELS
from npulens.ingest.readers.ascend.stage import count
from npulens.ingest.tables import comm_facts
from npulens.ingest.tables.draft import Draft

#: Span ids of this reader lie above those of any reader that numbers from 0.
FIRST_SPAN, ROW_BITS = 1 << 39, 34

#: Where spans come from; the number is part of the span id and of the key of the track.
PYTORCH, CANN, TASK, COMM_OP, GC, MSTX, OSRT, SPLIT, PLANE = range(9)

#: What the type of a task says by itself, whatever its case; None: a kernel, where kernels are not listed.
BY_TYPE = (
    ("^mstx$", "device_annotation"), ("^(MEMCPY|PCIE_DMA|SDMA)", "memcpy"), ("wait", "wait"),
    ("^(KERNEL_|MIX_|AI_CORE|AI_CPU|AI_VECTOR|AIV|DSA|FFTS|STARS_COMMON)", None),
)  # fmt: skip
NOT_COMPUTING = ("COMMUNICATION", "HCCL", "HCCL_AI_CPU", "WRITE_BACK", "INVALID")


def span_id(source: int | str, row: str = "row") -> str:
    """SQL for the id of the span that a row of a source becomes."""
    return f"({FIRST_SPAN} + (({source})::BIGINT << {ROW_BITS}) + {row})"


def make(draft: Draft, *, without_compute: bool) -> None:
    """Make the view db_task. Joined in stages, so that no more than one long table is held at a time."""
    _join(draft)
    _helpers(draft)
    known = comm_facts.of(*OWN_KERNELS)
    talks, fused = known.known("called"), known.fused("called")
    core = "kernel" if without_compute else "device_other"
    cases = (f"WHEN regexp_matches(type, '{pattern}', 'i') THEN '{kind or core}'" for pattern, kind in BY_TYPE)
    by_type = f"CASE {' '.join(cases)} ELSE 'device_other' END"
    draft.keep(
        "db_task",
        f"""WITH sorted AS (
            SELECT *, CASE
                WHEN is_parent AND coalesce(compute_row, comm_row) IS NULL AND {by_type} <> 'memcpy' THEN 'container'
                WHEN comm_row IS NOT NULL THEN 'comm_task'
                WHEN core IN {NOT_COMPUTING} OR {helpers.schedules("kernel", "core")} THEN 'device_other'
                WHEN compute_row IS NOT NULL THEN CASE WHEN {talks} AND NOT {fused} THEN 'comm_op' ELSE 'kernel' END
                WHEN planned IS NOT NULL THEN 'device_other'
                WHEN of_comm_op OR helps THEN 'comm_task' ELSE {by_type} END AS kind
            FROM (SELECT t.*, coalesce(t.taskType, '') AS type, h.row IS NOT NULL AS helps, h.op AS op_row
                FROM db_task_info t LEFT JOIN helped h USING (row)))
        SELECT row, {span_id(TASK)} AS span_id, kind,
        CASE WHEN on_plane THEN {PLANE} ELSE {TASK} END AS source,
        coalesce(CASE WHEN on_plane THEN groupId ELSE deviceId END, -1) AS x,
        coalesce(CASE WHEN on_plane THEN plane ELSE streamId END, -1) AS y,
        coalesce(kernel, part, planned, type) AS name, stamp(startNs) AS ts_ns, stamp(endNs) AS end_ns,
        type, globalTaskId, number(connectionId) AS connectionId, number(streamId) AS stream, number(taskId) AS task_id,
        number(modelId) AS model_id, number(contextId) AS context_id, compute_row, comm_row, opId, helps, op_row,
        called, compute_row IS NOT NULL AND kind IN ('kernel', 'comm_op') AND {talks} AS talks
        FROM (SELECT *, kind = 'comm_task' AND plane IS NOT NULL AS on_plane FROM sorted)""",
    )
    if containers := count(draft, "SELECT count(*) FROM db_task WHERE kind = 'container'"):
        draft.note("span", Message("ffts_tasks_are_shown_by", {"n": containers}))


def _helpers(draft: Draft) -> None:
    """The view helped: tasks of the streams that help communication operators."""
    helpers.find(
        draft,
        """SELECT row, streamId AS stream, stamp(startNs) AS ts, stamp(endNs) AS till, coalesce(taskType, '') AS says,
            coalesce(compute_row, comm_row) IS NOT NULL OR planned IS NOT NULL OR of_comm_op
            OR number(connectionId) IS NOT NULL AS own FROM db_task_info WHERE stamp(endNs) >= stamp(startNs)""",
        """SELECT row, stamp(startNs) AS ts, stamp(endNs) AS till, coalesce(groupId, -1) AS named
        FROM raw_COMMUNICATION_OP WHERE stamp(endNs) >= stamp(startNs)""",
    )


def _join(draft: Draft) -> None:
    """Make the view db_task_info: every task with what the tables of its kind say about it."""
    draft.keep(
        "db_task_compute",
        f"""SELECT t.*, c.row AS compute_row, c.name AS kernel, c.taskType AS core,
            concat_ws(' ', told(c.opType), c.name) AS called
        FROM raw_TASK t LEFT JOIN {unique(draft, "raw_COMPUTE_TASK_INFO", "globalTaskId")} c USING (globalTaskId)""",
    )
    draft.keep(
        "db_parent",
        """SELECT t.row FROM raw_TASK t SEMI JOIN
        (SELECT deviceId, streamId, taskId, connectionId FROM raw_TASK WHERE contextId <> 4294967295) s
        USING (deviceId, streamId, taskId, connectionId) WHERE t.contextId = 4294967295""",
    )
    draft.keep(
        "db_task_comm",
        f"""SELECT t.*, m.row AS comm_row, told(m.taskType) AS part, small(m.planeId) AS plane, m.groupId, m.opId,
        coalesce(t.connectionId IN (SELECT connectionId FROM raw_COMMUNICATION_OP
            WHERE number(connectionId) IS NOT NULL), false) AS of_comm_op
        FROM db_task_compute t
        LEFT JOIN {unique(draft, "raw_COMMUNICATION_TASK_INFO", "globalTaskId")} m USING (globalTaskId)""",
    )
    draft.keep(
        "db_task_info",
        f"""SELECT t.*, s.name AS planned, t.row IN (SELECT row FROM db_parent) AS is_parent FROM db_task_comm t
        LEFT JOIN {unique(draft, "raw_COMMUNICATION_SCHEDULE_TASK_INFO", "globalTaskId")} s USING (globalTaskId)""",
    )
