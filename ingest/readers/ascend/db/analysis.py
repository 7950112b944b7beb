"""analysis.db: the profiler's own sums of communication and of steps.

Its manuals say ms for all times; the step times are in fact us (they equal those of step_trace_time.csv).
"""

from __future__ import annotations

import pyarrow as pa

from npulens.ingest.messages import Message
from npulens.ingest.readers.ascend.rankdir import double_hash
from npulens.ingest.readers.ascend.stage import count
from npulens.ingest.tables.draft import Draft

#: A longer name is not that of a group.
LONG = 4096
_MS, _US, _MB, _GB = 1_000_000, 1_000, 1_000_000, 1_000_000_000
_STEP_COLUMNS = (
    ("computing", "computing_ns"),
    ("communication", "communication_ns"),
    ("communication_not_overlapped", "communication_not_overlapped_ns"),
    ("overlapped", "overlapped_ns"),
    ("free", "free_ns"),
    ("stage", "stage_ns"),
    ("bubble", "bubble_ns"),
    ("communication_not_overlapped_and_exclude_receive", "communication_not_overlapped_exclude_receive_ns"),
    ("preparing", "preparing_ns"),
)


def provide(draft: Draft) -> None:
    """comm_link, profiler_step, and db_comm_time: the analysis of each communication operator."""
    _group_names(draft)
    _match(draft)
    draft.provide(
        "comm_link",
        f"""SELECT m.step, m.type AS scope, m.hccl_op_name AS collective, coalesce(g.name, m.group_name) AS group_name,
        told(m.op_name) AS op_name, small(m.src_rank) AS src_rank, small(m.dst_rank) AS dst_rank,
        told(m.transport_type) AS transport, times(m.transit_size, {_MB}) AS bytes,
        times(m.transit_time, {_MS}) AS transit_ns, m.bandwidth * {_GB} AS bandwidth_bytes_per_s
        FROM raw_CommAnalyzerMatrix m LEFT JOIN db_group_hash g ON g.hash = m.group_name""",
    )
    columns = ", ".join(f"times({theirs}, {_US}) AS {ours}" for theirs, ours in _STEP_COLUMNS)
    draft.provide(
        "profiler_step",
        f"SELECT TRY_CAST(regexp_extract(step, '(\\d+)$', 1) AS BIGINT) AS step, {columns}, 'StepTraceTime' AS source "
        "FROM raw_StepTraceTime",
    )


def _group_names(draft: Draft) -> None:
    """Groups go by a number that is computed from their name."""
    names = draft.con.execute("SELECT DISTINCT group_name FROM db_comm_op WHERE group_name IS NOT NULL").fetchall()
    rows = [{"hash": double_hash(name), "name": name} for (name,) in names if len(name) < LONG]
    draft.table("db_group_hash", rows, pa.schema([("hash", pa.string()), ("name", pa.string())]))


def _match(draft: Draft) -> None:
    """To each analysed operator its span: the same name and group, and where a name repeats, the nearest start."""
    draft.keep(
        "db_analysed",
        f"""SELECT DISTINCT ON (t.row) t.row AS analysis, o.row, o.span_id, t.hccl_op_name, t.group_name, t.step,
        times(t.transit_time, {_MS}) AS transit_ns, times(t.wait_time, {_MS}) AS wait_ns,
        times(t.synchronization_time, {_MS}) AS synchronization_ns, times(t.idle_time, {_MS}) AS idle_ns
        FROM raw_CommAnalyzerTime t LEFT JOIN db_group_hash g ON g.hash = t.group_name
        JOIN db_comm_op o ON o.name = t.hccl_op_name AND o.end_ns >= o.ts_ns
            AND (o.group_name = g.name OR g.name IS NULL)
        ORDER BY t.row, abs(times(t.start_timestamp, {_US}) - o.ts_ns), o.row""",
    )
    draft.con.execute(
        "CREATE VIEW db_comm_time AS SELECT * FROM db_analysed WHERE analysis IN "
        "(SELECT min(analysis) FROM db_analysed GROUP BY row)"
    )
    unmatched = (
        "SELECT count(*) FROM raw_CommAnalyzerTime WHERE hccl_op_name NOT LIKE 'Total%' "
        "AND row NOT IN (SELECT analysis FROM db_comm_time)"
    )
    draft.drop("comm", Message("analyses_operators_that_communication_op"), count(draft, unmatched))
    draft.provide(
        "arg",
        """SELECT a.span_id, json_object('Communication Bandwidth Info', json_group_array(json_object(
            'transport_type', b.transport_type, 'transit_size', b.transit_size, 'transit_time', b.transit_time,
            'bandwidth', b.bandwidth, 'large_packet_ratio', b.large_packet_ratio, 'package_size', b.package_size,
            'count', b.count, 'total_duration', b.total_duration)))::VARCHAR AS args
        FROM raw_CommAnalyzerBandwidth b JOIN db_comm_time a ON b.hccl_op_name = a.hccl_op_name
            AND b.group_name IS NOT DISTINCT FROM a.group_name AND b.step IS NOT DISTINCT FROM a.step
        GROUP BY a.span_id""",
    )
