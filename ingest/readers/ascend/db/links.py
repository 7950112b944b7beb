"""Launch arrows of a database: PyTorch operator -> CANN call -> device, enqueue -> dequeue, forward -> backward.

One id space holds the ids of CANN calls, of queue entries and of forward-backward pairs, and in old versions they
collide. So queue entries are paired only with each other, and forward and backward operators also by their sequence
number. An id that pairs two operators so is no launch of theirs.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from npulens.ingest.readers.ascend.stage import count
from npulens.ingest.tables.draft import Draft
from npulens.ingest.tables.nest import Nest
from npulens.ingest.tables.sqltext import literal

_ARROW = "SELECT a.span_id AS src, d.span_id AS dst, a.ts_ns AS src_ts, d.ts_ns AS dst_ts FROM"
_ROUTES = {
    "host_to_device": f"{_ARROW} db_cann a JOIN db_device d USING (connectionId) WHERE a.end_ns >= a.ts_ns",
    "torch_to_npu": f"{_ARROW} db_launch a JOIN db_device d USING (connectionId) UNION ALL SELECT * FROM db_copy_arrow",
    "task_queue": "SELECT * FROM db_queue",
    "fwdbwd": "SELECT src, dst, src_ts, dst_ts FROM db_pair WHERE apart",
    "connection_id": f"""{_ARROW} (SELECT * FROM db_other WHERE kind = 'annotation' AND end_ns >= ts_ns) a
        JOIN (SELECT * FROM db_task WHERE kind = 'device_annotation' AND end_ns >= ts_ns) d USING (connectionId)""",
}
_BATCH = 122_880
_NESTED = pa.schema([("span_id", pa.int64()), ("parent", pa.int64())])


def provide(draft: Draft) -> None:
    """Provide ``link``; the views of db_spans must be there."""
    draft.view(
        "db_device",
        """SELECT span_id, kind, connectionId, ts_ns FROM db_task
        WHERE kind IN ('kernel', 'memcpy', 'comm_op', 'wait', 'device_other') AND end_ns >= ts_ns
        UNION ALL SELECT span_id, kind, connectionId, ts_ns FROM db_comm_op WHERE end_ns >= ts_ns""",
    )
    _connections(draft)
    _copies(draft)
    for route, select in _ROUTES.items():
        columns = f"src AS src_span_id, dst AS dst_span_id, {literal(route)} AS route, dst_ts - src_ts AS latency_ns"
        draft.keep(f"db_link_{route}", f"SELECT DISTINCT {columns} FROM ({select})")
        draft.provide("link", f"SELECT * FROM db_link_{route}")
    draft.expect("link", count(draft, "SELECT count(*) FROM db_device WHERE kind IN ('kernel', 'memcpy', 'comm_op')"))


def _connections(draft: Draft) -> None:
    """What each framework call is connected to: queue entries, pairs and launches."""
    draft.keep(
        "db_connected",
        """SELECT a.span_id, a.kind, a.sequenceNumber, a.x, coalesce(a.fwdThreadId, 0) <> 0 AS backward, a.ts_ns,
        number(i.connectionId) AS connectionId FROM db_api a JOIN raw_CONNECTION_IDS i ON i.id = a.connectionId
        WHERE a.end_ns >= a.ts_ns AND number(i.connectionId) IS NOT NULL""",
    )
    draft.keep(
        "db_queue",
        f"""{_ARROW} (SELECT * FROM db_connected WHERE kind = 'enqueue') a
        JOIN (SELECT * FROM db_connected WHERE kind = 'dequeue') d USING (connectionId)""",
    )
    draft.keep(
        "db_pair",
        """SELECT f.span_id AS src, b.span_id AS dst, f.connectionId, f.ts_ns AS src_ts, b.ts_ns AS dst_ts,
        f.x <> b.x AS apart FROM db_connected f JOIN db_connected b USING (connectionId, sequenceNumber)
        WHERE NOT f.backward AND b.backward AND f.sequenceNumber >= 0""",
    )
    draft.keep(
        "db_launch",
        """SELECT c.* FROM (SELECT * FROM db_connected WHERE kind NOT IN ('enqueue', 'dequeue')
            AND connectionId IN (SELECT connectionId FROM db_cann)) c
        ANTI JOIN (SELECT src AS span_id, connectionId FROM db_pair UNION ALL SELECT dst, connectionId FROM db_pair)
        USING (span_id, connectionId)""",
    )


def _copies(draft: Draft) -> None:
    """Arrows from operators to copies, which the file does not connect but trace_view does.

    The call of a copy lies within a queue entry, whose other half lies within the operator. Without the queue the call
    lies within the operator itself.
    """
    draft.keep(
        "db_copy",
        """SELECT c.span_id, c.x, c.ts_ns, c.name, d.span_id AS copy, d.ts_ns AS copy_ts
        FROM db_cann c JOIN (SELECT * FROM db_device WHERE kind = 'memcpy') d USING (connectionId)
        WHERE c.end_ns >= c.ts_ns""",
    )
    _nest(draft)
    draft.keep(
        "db_copy_call",
        """SELECT c.copy, c.copy_ts, c.name AS call, n.parent FROM db_copy c
        LEFT JOIN (SELECT DISTINCT * FROM db_nested) n ON n.span_id = c.span_id""",
    )
    draft.keep(
        "db_copy_op",
        """SELECT c.copy, c.copy_ts, CASE WHEN q.dst IS NULL THEN c.parent ELSE n.parent END AS op FROM db_copy_call c
        LEFT JOIN db_queue q ON q.dst = c.parent LEFT JOIN (SELECT DISTINCT * FROM db_nested) n ON n.span_id = q.src""",
    )
    draft.keep(
        "db_copy_arrow",
        """SELECT a.span_id AS src, c.copy AS dst, a.ts_ns AS src_ts, c.copy_ts AS dst_ts
        FROM db_copy_op c JOIN db_api a ON a.span_id = c.op
        WHERE a.kind NOT IN ('enqueue', 'dequeue')""",
    )


def _nest(draft: Draft) -> None:
    """Make the view db_nested: the operator or queue entry around the start of each enqueued entry and each copy call.

    These starts have no length, so that nothing can lie within them.
    """
    spans = draft.con.sql(
        """SELECT * FROM (
        SELECT x, ts_ns, CASE kind WHEN 'enqueue' THEN 0 ELSE end_ns - ts_ns END AS dur, span_id FROM db_api
        WHERE kind IN ('cpu_op', 'annotation', 'enqueue', 'dequeue') AND end_ns >= ts_ns
        AND (SELECT count(*) FROM db_copy) > 0
        UNION ALL SELECT x, ts_ns, 0, span_id FROM db_copy) ORDER BY x, ts_ns, dur DESC, span_id"""
    )
    nest = Nest()
    with draft.spool("db_nested", _NESTED) as spool:
        for batch in spans.to_arrow_reader(_BATCH):
            x, ts, dur, span = (np.ascontiguousarray(column.to_numpy(False)) for column in batch.columns)
            _, parent = nest.place(x, ts, dur, span)
            asked = (dur == 0) & (parent >= 0)
            spool.write(pa.Table.from_arrays([pa.array(span[asked]), pa.array(parent[asked])], schema=_NESTED))
