"""What the spans of a database were: kernels, counters, communication, copies, operators and their stacks."""

from __future__ import annotations

from ingest.ascend.db_raw import first, named, texts, unique, words
from ingest.ascend.stage import count, keep
from ingest.draft import Draft

#: Bytes of an element, by ENUM_HCCL_DATA_TYPE.
_DTYPE_BYTES = (
    "CASE dtype WHEN 'INT8' THEN 1 WHEN 'UINT8' THEN 1 WHEN 'HIF8' THEN 1 WHEN 'FP8E4M3' THEN 1 WHEN 'FP8E5M2' THEN 1 "
    "WHEN 'FP8E8M0' THEN 1 WHEN 'INT16' THEN 2 WHEN 'UINT16' THEN 2 WHEN 'FP16' THEN 2 WHEN 'BFP16' THEN 2 "
    "WHEN 'INT32' THEN 4 WHEN 'UINT32' THEN 4 WHEN 'FP32' THEN 4 WHEN 'INT64' THEN 8 WHEN 'UINT64' THEN 8 "
    "WHEN 'FP64' THEN 8 WHEN 'INT128' THEN 16 END"
)
#: ENUM_MEMCPY_OPERATION: 0 host to host ... 3 device to device, 5 by address, 6 and 7 the "ex" variants.
#: The core of a kernel by the type of its task, where the kernel itself does not say (Level0).
_CORE = (
    "CASE t.type WHEN 'KERNEL_AICORE' THEN 'AI_CORE' WHEN 'KERNEL_AIVEC' THEN 'AI_VECTOR_CORE' "
    "WHEN 'KERNEL_AICPU' THEN 'AI_CPU' ELSE t.type END"
)
_PEER = "CASE g.numbers WHEN 'listed' THEN g.ranks[small(m.{0}) + 1] WHEN 'global' THEN small(m.{0}) END"
_WAYS = {"host%to%device": "h2d", "device%to%host": "d2h", "device%to%device": "d2d", "host%to%host": "h2h"}
_DIRECTION = (
    "CASE m.memcpyOperation WHEN 0 THEN 'h2h' WHEN 1 THEN 'h2d' WHEN 2 THEN 'd2h' WHEN 3 THEN 'd2d' WHEN 5 THEN 'd2d' "
    "WHEN 6 THEN 'h2d' WHEN 7 THEN 'd2h' END"
)


def provide(draft: Draft) -> None:
    """The tables keyed by span_id."""
    _kernels(draft)
    _communication(draft)
    _transfers(draft)
    _host(draft)


def _kernels(draft: Draft) -> None:
    plain = ("opType", "taskType", "opState", "hf32Eligible")
    columns = ("inputShapes", "inputDataTypes", "inputFormats", "outputShapes", "outputDataTypes", "outputFormats")
    said = ", ".join(
        f"{column}_.value AS {name}"
        for column, name in zip(
            columns,
            ("input_shapes", "input_dtypes", "input_formats", "output_shapes", "output_dtypes", "output_formats"),
            strict=True,
        )
    )
    used = (f"raw_COMPUTE_TASK_INFO.{column}" for column in (*plain, *columns, "attrInfo"))
    words(draft, "kernel", *used, value="told(trim(value, '\"'))")
    draft.provide(
        "kernel",
        f"""SELECT t.span_id, opType_.value AS op_type, coalesce(taskType_.value, {_CORE}) AS core,
        t.type AS task_type, t.stream, t.task_id, t.model_id, t.context_id,
        CASE WHEN opType_.value IS NOT NULL THEN number(c.blockNum) END AS block_num,
        CASE WHEN opType_.value IS NOT NULL THEN number(c.mixBlockNum) END AS mix_block_num,
        opState_.value AS op_state, hf32Eligible_.value AS hf32, {said}
        FROM db_task t LEFT JOIN raw_COMPUTE_TASK_INFO c ON c.row = t.compute_row
        {texts("kernel", "c", *plain, *columns)}
        WHERE t.kind = 'kernel' AND t.end_ns >= t.ts_ns""",
    )
    draft.provide(
        "arg",
        f"""SELECT t.span_id, json_object('attrInfo', attrInfo_.value)::VARCHAR AS args FROM db_task t
        JOIN raw_COMPUTE_TASK_INFO c ON c.row = t.compute_row {texts("kernel", "c", "attrInfo")}
        WHERE t.end_ns >= t.ts_ns AND attrInfo_.value IS NOT NULL""",
    )
    # Times are ns here and us in the text export; the metric is named as there, so its unit is in its name.
    draft.provide(
        "pmu",
        f"""SELECT t.span_id, CASE name_.value WHEN 'aic_total_time' THEN 'aicore_time(us)'
            WHEN 'aiv_total_time' THEN 'aiv_time(us)'
            ELSE name_.value || CASE WHEN ends_with(name_.value, '_time') THEN '(us)' ELSE '' END END AS metric,
        CASE WHEN ends_with(name_.value, '_time') THEN r.value / 1000 ELSE r.value END AS value
        FROM raw_TASK_PMU_INFO r JOIN db_task t USING (globalTaskId) {named(draft, "TASK_PMU_INFO", "name")}
        WHERE t.kind = 'kernel' AND t.end_ns >= t.ts_ns AND name_.value IS NOT NULL AND r.value IS NOT NULL""",
    )
    unknown = "SELECT count(*) FROM raw_TASK_PMU_INFO ANTI JOIN db_task USING (globalTaskId)"
    draft.drop("pmu", "counters of a task that is not in TASK", count(draft, unknown))


def _peers(draft: Draft) -> None:
    """Make the view db_peers: what the rank numbers of a group's tasks mean in the job.

    Tasks number ranks within their group. Where the group is known its list says who is who, unless the number
    that the rank gives itself shows that they are global already. Where it is not known, they are taken for
    global only if the rank gives itself its own.
    """
    keep(
        draft,
        "db_peers",
        f"""SELECT id, ranks, CASE WHEN ranks[own + 1] = {draft.rank} OR (own IS NULL AND len(ranks) > 0) THEN 'listed'
            WHEN own = {draft.rank} THEN 'global' END AS numbers
        FROM (SELECT groupName AS id, mode(small(srcRank)) AS own FROM raw_COMMUNICATION_TASK_INFO GROUP BY 1) m
        LEFT JOIN words_group s USING (id) LEFT JOIN db_group g ON g.group_name = s.value""",
    )
    if count(draft, "SELECT count(*) FROM db_peers WHERE numbers = 'global' AND ranks IS NULL"):
        draft.note(
            "comm",
            "no metadata lists the ranks of a group: the numbers of its tasks are taken for global ranks because this "
            "rank goes by its own",
        )


def _communication(draft: Draft) -> None:
    _peers(draft)
    words(draft, "comm", *(f"raw_COMMUNICATION_TASK_INFO.{column}" for column in ("name", "groupName", "taskType")))
    enums = " ".join(
        f"LEFT JOIN {first(f'raw_ENUM_HCCL_{name}', 'id')} {alias} ON {alias}.id = {column}"
        for name, alias, column in (
            ("DATA_TYPE", "d", "m.dataType"), ("LINK_TYPE", "l", "m.linkType"),
            ("TRANSPORT_TYPE", "p", "m.transportType"), ("RDMA_TYPE", "r", "m.rdmaType"),
        )
    )  # fmt: skip
    draft.provide(
        "comm",
        f"""SELECT span_id, span_id AS op_span_id, {collective("op_type, name")} AS collective, group_name,
        TRY(count * {_DTYPE_BYTES}) AS bytes, count, dtype, algorithm, small(relay) AS relay, small(retry) AS retry,
        transit_ns, wait_ns, synchronization_ns, idle_ns
        FROM (SELECT o.*, told(e.name) AS dtype, a.transit_ns, a.wait_ns, a.synchronization_ns, a.idle_ns
            FROM db_comm_op o LEFT JOIN {first("raw_ENUM_HCCL_DATA_TYPE", "id")} e ON e.id = o.dataType
            LEFT JOIN db_comm_time a ON a.row = o.row WHERE o.end_ns >= o.ts_ns)""",
    )
    draft.provide(
        "comm",
        f"""SELECT t.span_id, o.span_id AS op_span_id, {collective("o.op_type, o.name, name_.value")} AS collective,
        coalesce(told(groupName_.value), o.group_name) AS group_name, small(m.planeId) AS plane,
        coalesce(told(taskType_.value), t.type) AS task_type, {_PEER.format("srcRank")} AS src_rank,
        {_PEER.format("dstRank")} AS dst_rank,
        small(m.srcRank) AS src_local, small(m.dstRank) AS dst_local, CASE WHEN m.size >= 0 THEN m.size END AS bytes,
        told(d.name) AS dtype, told(p.name) AS transport, told(l.name) AS link_type,
        CASE WHEN m.bandwidth >= 0 THEN m.bandwidth END AS bandwidth_bytes_per_s,
        CASE WHEN m.notifyId BETWEEN 0 AND 9223372036854775806 THEN nullif(m.notifyId, 4294967295) END AS notify_id,
        t.stream, t.task_id
        FROM db_task t LEFT JOIN raw_COMMUNICATION_TASK_INFO m ON m.row = t.comm_row
        LEFT JOIN {first("db_comm_op", "opId")} o ON o.opId = t.opId
        {texts("comm", "m", "name", "groupName", "taskType")} {enums} LEFT JOIN db_peers g ON g.id = m.groupName
        WHERE t.kind = 'comm_task' AND t.end_ns >= t.ts_ns""",
    )
    draft.provide(
        "arg",
        f"""SELECT t.span_id, json_object('rdma_type', r.name)::VARCHAR AS args FROM db_task t
        JOIN raw_COMMUNICATION_TASK_INFO m ON m.row = t.comm_row {enums}
        WHERE t.end_ns >= t.ts_ns AND told(r.name) IS NOT NULL""",
    )


def collective(names: str) -> str:
    """SQL: hcom_allReduce__586_0_1 and hcom_allReduce_ are an allreduce; the first name that is known counts."""
    return f"nullif(lower(regexp_extract(coalesce({names}), '^(?:hcom_)?([A-Za-z]+)', 1)), '')"


def _transfers(draft: Draft) -> None:
    """Copies: way and size as recorded, else the way that the call or the queue entry around it is named by."""
    keep(
        draft,
        "db_copy_call",
        """SELECT c.connectionId, min(c.name) AS call, min(CASE WHEN c.ts_ns <= q.end_ns THEN q.name END) AS entry
        FROM (SELECT * FROM db_cann WHERE connectionId IN (SELECT connectionId FROM db_task WHERE kind = 'memcpy')) c
        ASOF LEFT JOIN (SELECT x, ts_ns, end_ns, name FROM db_api WHERE kind = 'dequeue') q
            ON q.x = c.x AND c.ts_ns >= q.ts_ns GROUP BY c.connectionId""",
    )
    ways = " ".join(
        f"WHEN {text} ILIKE '%{way}%' THEN '{short}'" for text in ("a.call", "a.entry") for way, short in _WAYS.items()
    )
    draft.provide(
        "transfer",
        f"""SELECT t.span_id, coalesce({_DIRECTION}, CASE {ways} END) AS direction,
        CASE WHEN m.size >= 0 THEN m.size END AS bytes,
        CASE WHEN a.call ILIKE '%@aclrtMemcpy%' THEN a.call NOT ILIKE '%Async%' END AS blocking
        FROM db_task t LEFT JOIN {unique(draft, "raw_MEMCPY_INFO", "globalTaskId")} m USING (globalTaskId)
        LEFT JOIN db_copy_call a USING (connectionId)
        WHERE t.kind = 'memcpy' AND t.end_ns >= t.ts_ns""",
    )


def _host(draft: Draft) -> None:
    flat = "replace(replace(value, chr(13), ''), chr(10), '')"
    words(draft, "op", "raw_PYTORCH_API.inputShapes", "raw_PYTORCH_API.inputDtypes", value=flat)
    shapes, types = ("inputDtypes_", "inputShapes_") if _swapped(draft) else ("inputShapes_", "inputDtypes_")
    draft.provide(
        "host_op",
        f"""SELECT a.span_id, {shapes}.value AS input_shapes, {types}.value AS input_dtypes,
        a.sequenceNumber AS sequence, a.fwdThreadId AS fwd_thread
        FROM db_api a {texts("op", "a", "inputShapes", "inputDtypes")}
        WHERE a.kind IN ('cpu_op', 'step_mark', 'annotation') AND a.end_ns >= a.ts_ns""",
    )
    # Queue entries number their correlation from 5 << 28 on since 2025.
    draft.provide(
        "host_op",
        f"""SELECT span_id, id - CASE WHEN id >= {5 << 28} THEN {5 << 28} ELSE 0 END AS correlation FROM
        (SELECT span_id, min(connectionId) AS id FROM db_launch WHERE kind IN ('enqueue', 'dequeue')
        GROUP BY span_id)""",
    )
    draft.provide(
        "host_op",
        "SELECT span_id, connectionId AS correlation FROM db_cann WHERE end_ns >= ts_ns AND connectionId IS NOT NULL",
    )
    keep(
        draft,
        "db_stack",
        f"""SELECT r.id, string_agg(coalesce(stack_.value, '?'), chr(10) ORDER BY r.stackDepth, r.row) AS frames
        FROM raw_PYTORCH_CALLCHAINS r {named(draft, "PYTORCH_CALLCHAINS", "stack")} GROUP BY r.id""",
    )
    draft.provide(
        "stack",
        """SELECT a.span_id, c.frames FROM db_api a JOIN db_stack c ON c.id = a.callchainId
        WHERE a.end_ns >= a.ts_ns""",
    )
    draft.provide(
        "arg",
        """SELECT span_id, json_object('Task Type', type, 'Task Id', task_id)::VARCHAR AS args FROM db_task
        WHERE kind IN ('memcpy', 'wait', 'device_other') AND compute_row IS NULL AND end_ns >= ts_ns""",
    )
    draft.provide(
        "arg",
        f"""SELECT o.span_id, json_object('event_type', e.name, 'domain', domainId_.value, 'category',
            number(m.category))::VARCHAR AS args FROM db_other o JOIN raw_MSTX_EVENTS m USING (row)
        {texts("mstx", "m", "domainId")} LEFT JOIN {first("raw_ENUM_MSTX_EVENT_TYPE", "id")} e ON e.id = m.eventType
        WHERE o.kind = 'annotation' AND o.end_ns >= o.ts_ns""",
    )


def _swapped(draft: Draft) -> bool:
    """Whether shapes and types stand in each other's columns, as torch_npu wrote them in January 2025."""
    named = (
        "SELECT count(*) FROM words_op WHERE regexp_matches(value, '[a-z][a-z]') "
        "AND id IN (SELECT {0} FROM raw_PYTORCH_API)"
    )
    swapped = count(draft, named.format("inputShapes")) > count(draft, named.format("inputDtypes"))
    if swapped:
        draft.note("host_op", "shapes and types of inputs, written into each other's columns, are put right")
    return swapped
