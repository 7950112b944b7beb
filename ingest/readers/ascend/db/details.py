"""What the spans of a database were: kernels, counters, communication, copies, operators and their stacks."""

from __future__ import annotations

from npulens.ingest.messages import Message
from npulens.ingest.readers.ascend.db.raw import unique
from npulens.ingest.readers.ascend.db.tasks import MSTX, span_id
from npulens.ingest.readers.ascend.device import OWN_KERNELS
from npulens.ingest.readers.ascend.helpers import core, said
from npulens.ingest.readers.ascend.stage import count
from npulens.ingest.tables import comm_facts
from npulens.ingest.tables.draft import Draft
from npulens.ingest.tables.sqltext import whens

#: Bytes of an element, by ENUM_HCCL_DATA_TYPE.
DTYPE_BYTES = {
    **dict.fromkeys(("INT8", "UINT8", "HIF8", "FP8E4M3", "FP8E5M2", "FP8E8M0"), 1),
    **dict.fromkeys(("INT16", "UINT16", "FP16", "BFP16"), 2), **dict.fromkeys(("INT32", "UINT32", "FP32"), 4),
    **dict.fromkeys(("INT64", "UINT64", "FP64"), 8), "INT128": 16,
}  # fmt: skip
_DTYPE_BYTES = f"CASE dtype {whens(DTYPE_BYTES)} END"
#: ENUM_MEMCPY_OPERATION: 0 host to host ... 3 device to device, 5 by address, 6 and 7 the "ex" variants.
DIRECTION = {0: "h2h", 1: "h2d", 2: "d2h", 3: "d2d", 5: "d2d", 6: "h2d", 7: "d2h"}
_DIRECTION = f"CASE m.memcpyOperation {whens(DIRECTION)} END"
WAYS = {"host%to%device": "h2d", "device%to%host": "d2h", "device%to%device": "d2d", "host%to%host": "h2h"}
TENSORS = {
    f"{ours}_{what}": f"{ours}{theirs}"
    for ours in ("input", "output")
    for what, theirs in (("shapes", "Shapes"), ("dtypes", "DataTypes"), ("formats", "Formats"))
}
_PEER = "CASE g.numbers WHEN 'listed' THEN g.ranks[small(m.{0}) + 1] WHEN 'global' THEN small(m.{0}) END"


def provide(draft: Draft) -> None:
    """The tables keyed by span_id."""
    _kernels(draft)
    _communication(draft)
    _transfers(draft)
    _host(draft)
    _arguments(draft)


def _kernels(draft: Draft) -> None:
    tensors = ", ".join(f"told(trim(c.{theirs}, '\"')) AS {ours}" for ours, theirs in TENSORS.items())
    draft.provide(
        "kernel",
        f"""SELECT t.span_id, told(c.opType) AS op_type, coalesce({core("told(c.taskType)")}, {core("t.type")}) AS core,
        t.type AS task_type, t.stream, t.task_id, t.model_id, t.context_id,
        CASE WHEN told(c.opType) IS NOT NULL THEN number(c.blockNum) END AS block_num,
        CASE WHEN told(c.opType) IS NOT NULL THEN number(c.mixBlockNum) END AS mix_block_num,
        told(c.opState) AS op_state, told(c.hf32Eligible) AS hf32, {tensors}
        FROM db_task t LEFT JOIN raw_COMPUTE_TASK_INFO c ON c.row = t.compute_row
        WHERE t.kind = 'kernel' AND t.end_ns >= t.ts_ns""",
    )
    # Times are ns here and us in the text export. The metric is named as there, so its unit is in its name.
    draft.provide(
        "pmu",
        """SELECT t.span_id, CASE name WHEN 'aic_total_time' THEN 'aicore_time(us)'
            WHEN 'aiv_total_time' THEN 'aiv_time(us)' ELSE name
            || CASE WHEN ends_with(name, '_time') THEN '(us)' ELSE '' END END AS metric,
        CASE WHEN ends_with(name, '_time') THEN r.value / 1000 ELSE r.value END AS value
        FROM (SELECT * FROM raw_TASK_PMU_INFO WHERE name IS NOT NULL AND value IS NOT NULL) r
        JOIN (SELECT span_id, globalTaskId FROM db_task WHERE kind = 'kernel' AND end_ns >= ts_ns) t
        USING (globalTaskId)""",
    )
    unknown = "SELECT count(*) FROM raw_TASK_PMU_INFO ANTI JOIN db_task USING (globalTaskId)"
    draft.drop("pmu", Message("counters_task_that_is_not"), count(draft, unknown))


def _peers(draft: Draft) -> None:
    """Make the view db_peers: what the rank numbers of a group's tasks mean in the job.

    Tasks number ranks within their group. Where the group is known its list says who is who. It does not where the
    number that the rank gives itself shows that they are global already. Where it is not known, they are taken for
    global only if the rank gives itself its own.
    """
    draft.keep(
        "db_peers",
        f"""SELECT id, ranks, CASE WHEN ranks[own + 1] = {draft.rank} OR (own IS NULL AND len(ranks) > 0) THEN 'listed'
            WHEN own = {draft.rank} THEN 'global' END AS numbers
        FROM (SELECT groupId AS id, min(groupName) AS name, mode(small(srcRank)) AS own FROM raw_COMMUNICATION_TASK_INFO
            GROUP BY groupId) LEFT JOIN db_group ON group_name = name""",
    )
    if count(draft, "SELECT count(*) FROM db_peers WHERE numbers = 'global' AND ranks IS NULL"):
        draft.note("comm", Message("no_metadata_lists_ranks_group"))


def _communication(draft: Draft) -> None:
    _peers(draft)
    draft.provide(
        "comm",
        f"""SELECT span_id, span_id AS op_span_id, {collective("op_type, name")} AS collective, group_name,
        TRY(count * {_DTYPE_BYTES}) AS bytes, count, dtype, algorithm, small(relay) AS relay, small(retry) AS retry,
        transit_ns, wait_ns, synchronization_ns, idle_ns
        FROM (SELECT o.*, a.transit_ns, a.wait_ns, a.synchronization_ns, a.idle_ns
            FROM db_comm_op o LEFT JOIN db_comm_time a ON a.row = o.row WHERE o.end_ns >= o.ts_ns)""",
    )
    talking = "SELECT span_id, stream, called FROM db_task WHERE talks AND end_ns >= ts_ns"
    draft.provide("comm", comm_facts.of(*OWN_KERNELS).operators(talking, "called"))
    draft.keep(
        "db_comm_part",
        f"""SELECT t.span_id, t.comm_row, {said("t.type")} AS type, t.helps, t.stream, t.task_id,
        coalesce(o.span_id, h.span_id) AS op_span_id, coalesce(o.op_type, h.op_type) AS op_type,
        coalesce(o.name, h.name) AS op_name, coalesce(o.group_name, h.group_name) AS group_name
        FROM (SELECT * FROM db_task WHERE kind = 'comm_task' AND end_ns >= ts_ns) t
        LEFT JOIN {unique(draft, "db_comm_op", "opId")} o USING (opId) LEFT JOIN db_comm_op h ON h.row = t.op_row""",
    )
    draft.provide(
        "comm",
        f"""SELECT t.span_id, t.op_span_id, {collective("t.op_type, t.op_name, m.name")} AS collective,
        coalesce(told(m.groupName), t.group_name) AS group_name, small(m.planeId) AS plane,
        coalesce(told(m.taskType), t.type) AS task_type, {_PEER.format("srcRank")} AS src_rank,
        {_PEER.format("dstRank")} AS dst_rank, small(m.srcRank) AS src_local, small(m.dstRank) AS dst_local,
        CASE WHEN m.size >= 0 THEN m.size END AS bytes, told(m.dataType) AS dtype, told(m.transportType) AS transport,
        told(m.linkType) AS link_type, CASE WHEN m.bandwidth >= 0 THEN m.bandwidth END AS bandwidth_bytes_per_s,
        CASE WHEN m.notifyId BETWEEN 0 AND 9223372036854775806 THEN nullif(m.notifyId, 4294967295) END AS notify_id,
        t.stream, t.task_id, CASE WHEN t.helps THEN true END AS by_stream
        FROM db_comm_part t LEFT JOIN raw_COMMUNICATION_TASK_INFO m ON m.row = t.comm_row
        LEFT JOIN db_peers g ON g.id = m.groupId""",
    )


def collective(names: str) -> str:
    """SQL: hcom_allReduce__586_0_1 and hcom_allReduce_ are an allreduce; the first name that is known counts."""
    return f"nullif(lower(regexp_extract(coalesce({names}), '^(?:hcom_)?([A-Za-z]+)', 1)), '')"


def _transfers(draft: Draft) -> None:
    """Copies: way and size as recorded, else the way that the call or the queue entry around it is named by."""
    ways = " ".join(
        f"WHEN {text} ILIKE '%{way}%' THEN '{short}'" for text in ("a.call", "a.entry") for way, short in WAYS.items()
    )
    draft.keep(
        "db_copy_named",
        """SELECT copy AS span_id, min(call) AS call, min(d.name) AS entry FROM db_copy_call
        LEFT JOIN (SELECT span_id, name FROM db_api WHERE kind = 'dequeue') d ON d.span_id = parent GROUP BY copy""",
    )
    draft.provide(
        "transfer",
        f"""SELECT t.span_id, coalesce({_DIRECTION}, CASE {ways} END) AS direction,
        CASE WHEN m.size >= 0 THEN m.size END AS bytes,
        CASE WHEN a.call ILIKE '%@aclrtMemcpy%' THEN a.call NOT ILIKE '%Async%' END AS blocking
        FROM (SELECT * FROM db_task WHERE kind = 'memcpy' AND end_ns >= ts_ns) t
        LEFT JOIN {unique(draft, "raw_MEMCPY_INFO", "globalTaskId")} m USING (globalTaskId)
        LEFT JOIN db_copy_named a USING (span_id)""",
    )


def _host(draft: Draft) -> None:
    flat = "replace(replace({0}, chr(13), ''), chr(10), '')"
    shapes, types = ("inputDtypes", "inputShapes") if _swapped(draft) else ("inputShapes", "inputDtypes")
    draft.provide(
        "host_op",
        f"""SELECT span_id, {flat.format(shapes)} AS input_shapes, {flat.format(types)} AS input_dtypes,
        sequenceNumber AS sequence, fwdThreadId AS fwd_thread FROM db_api
        WHERE kind IN ('cpu_op', 'step_mark', 'annotation') AND end_ns >= ts_ns""",
    )
    # Queue entries number their correlation from 5 << 28 on since 2025.
    draft.provide(
        "host_op",
        f"""SELECT span_id, id - CASE WHEN id >= {5 << 28} THEN {5 << 28} ELSE 0 END AS correlation FROM
        (SELECT span_id, min(connectionId) AS id FROM db_connected WHERE kind IN ('enqueue', 'dequeue')
        GROUP BY span_id)""",
    )
    draft.provide(
        "host_op",
        "SELECT span_id, connectionId AS correlation FROM db_cann WHERE end_ns >= ts_ns AND connectionId IS NOT NULL",
    )
    draft.keep(
        "db_stack",
        """SELECT id, string_agg(coalesce(stack, '?'), chr(10) ORDER BY stackDepth, row) AS frames
        FROM raw_PYTORCH_CALLCHAINS GROUP BY id""",
    )
    draft.provide(
        "stack",
        "SELECT a.span_id, c.frames FROM db_api a JOIN db_stack c ON c.id = a.callchainId WHERE a.end_ns >= a.ts_ns",
    )


def _swapped(draft: Draft) -> bool:
    """Whether shapes and types stand in each other's columns, as torch_npu wrote them in January 2025."""
    named = "count(*) FILTER (regexp_matches({}, '[a-z][a-z]'))"
    shapes, types = draft.con.execute(
        f"SELECT {named.format('inputShapes')}, {named.format('inputDtypes')} "
        "FROM (SELECT inputShapes, inputDtypes FROM raw_PYTORCH_API LIMIT 100000)"
    ).fetchall()[0]
    swapped: bool = shapes > types
    if swapped:
        draft.note("host_op", Message("shapes_and_types_inputs_written"))
    return swapped


def _arguments(draft: Draft) -> None:
    """What no column holds."""
    draft.provide(
        "arg",
        """SELECT t.span_id, json_object('attrInfo', c.attrInfo)::VARCHAR AS args
        FROM (SELECT row, attrInfo FROM raw_COMPUTE_TASK_INFO WHERE told(attrInfo) IS NOT NULL) c
        JOIN (SELECT span_id, compute_row FROM db_task WHERE end_ns >= ts_ns) t ON t.compute_row = c.row""",
    )
    draft.provide(
        "arg",
        """SELECT t.span_id, json_object('rdma_type', m.rdmaType)::VARCHAR AS args
        FROM (SELECT row, rdmaType FROM raw_COMMUNICATION_TASK_INFO WHERE told(rdmaType) IS NOT NULL) m
        JOIN (SELECT span_id, comm_row FROM db_task WHERE end_ns >= ts_ns) t ON t.comm_row = m.row""",
    )
    draft.provide(
        "arg",
        """SELECT span_id, json_object('Task Type', type, 'Task Id', task_id)::VARCHAR AS args FROM db_task
        WHERE kind IN ('memcpy', 'wait', 'device_other') AND compute_row IS NULL AND end_ns >= ts_ns""",
    )
    draft.provide(
        "arg",
        f"""SELECT {span_id(MSTX)} AS span_id, json_object('event_type', eventType, 'domain', domainId, 'category',
        number(category))::VARCHAR AS args FROM raw_MSTX_EVENTS WHERE stamp(endNs) >= stamp(startNs)""",
    )
