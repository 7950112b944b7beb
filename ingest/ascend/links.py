"""Flow events as links: each end bound to the span it belongs to, each end paired with its start.

An end belongs to the span of its lane that starts where it stands, else to the innermost span around it. A launch
from a lane that has no spans (CANN at Level0) belongs to whatever the same thread was doing then.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ingest.ascend.stage import count, keep
from ingest.draft import Draft
from ingest.nest import Nest

_ROUTES = (
    "CASE c.text WHEN 'HostToDevice' THEN 'host_to_device' WHEN 'async_task_queue' THEN 'task_queue' "
    "WHEN 'enqueue_to_dequeue' THEN 'task_queue' WHEN 'async_npu' THEN 'torch_to_npu' ELSE lower(c.text) END"
)
#: Of spans that start together, a flow means the operator rather than the Python call, and the innermost.
_CHOICE = f"{1 << 62} * CASE WHEN c.text IN ('cpu_op', 'enqueue', 'dequeue') THEN 0 ELSE 1 END + x.dur"
#: Above this the scanner may have forgotten a text and given it a second code.
_FEW_BYTES = 32 << 20
_BATCH = 122_880


def provide(draft: Draft) -> None:
    """Provide ``link``; ``x``, ``lane``, ``merged`` and ``dev`` must be there."""
    _ends(draft)
    _bind(draft)
    _pair(draft)
    draft.provide("link", "SELECT src AS src_span_id, dst AS dst_span_id, route FROM arrow")
    unbound = count(draft, "SELECT count(*) FROM flow_end ANTI JOIN bound USING (row)")
    draft.drop("link", "ends of flows at no span", unbound)
    lonely = count(draft, "SELECT count(*) FROM bound ANTI JOIN start USING (route, id) WHERE NOT starts")
    draft.drop("link", "flows that end and never start", lonely)
    launched = "SELECT count(*) FROM dev WHERE kind IN ('kernel', 'memset', 'memcpy')"
    draft.expect("link", count(draft, f"SELECT ({launched}) + (SELECT count(*) FROM op)"))


def _ends(draft: Draft) -> None:
    """Flow events, on lanes that have spans."""
    known = "FROM flow f"
    if count(draft, "SELECT sum(strlen(text)) FROM str") > _FEW_BYTES:
        same = "min(code) OVER (PARTITION BY text) AS first"
        keep(draft, "same_id", f"SELECT code, {same} FROM str WHERE code IN (SELECT id FROM flow)")
        known = "FROM (SELECT flow.* REPLACE (first AS id) FROM flow JOIN same_id ON code = id) f"
    draft.con.execute("""
        CREATE TEMP TABLE moved AS
        SELECT bare.lane, min(l.lane) AS home FROM (
            SELECT DISTINCT lane, t.text AS tid FROM flow JOIN str t ON t.code = lane & 4294967295
            WHERE lane NOT IN (SELECT lane FROM lane)) bare
        JOIN lane l ON l.tid = bare.tid AND l.class = 'host' GROUP BY bare.lane""")
    keep(
        draft,
        "flow_end",
        f"""SELECT f.row, coalesce(m.home, f.lane) AS lane, f.ts, {_ROUTES} AS route, f.id, f.starts
        {known} LEFT JOIN moved m ON m.lane = f.lane JOIN str c ON c.code = f.route""",
    )


def _bind(draft: Draft) -> None:
    """Make the view ``bound``: each flow event with its span; of tasks shown twice, the one that is kept."""
    keep(
        draft,
        "exact",
        f"""SELECT f.row, arg_min(x.row, {_CHOICE}) AS span FROM flow_end f JOIN x ON x.lane = f.lane AND x.ts = f.ts
        LEFT JOIN word c ON c.code = x.cat GROUP BY f.row""",
    )
    keep(draft, "inexact", "SELECT * FROM flow_end ANTI JOIN exact USING (row)")
    _around(draft)
    keep(
        draft,
        "bound",
        """SELECT f.row, f.route, f.id, f.ts, f.starts, coalesce(t.plane, b.span) AS span
        FROM (FROM exact UNION ALL FROM around) b JOIN flow_end f USING (row)
        LEFT JOIN merged t ON t.hw = b.span""",
    )


def _around(draft: Draft) -> None:
    """Make the view ``around``: the innermost span around each end that stands at the start of none.

    The latest span that starts before it, or the first of that span's parents that is not over yet.
    """
    if not count(draft, "SELECT count(*) FROM inexact"):
        draft.con.execute("CREATE VIEW around AS SELECT 0::BIGINT AS row, 0::BIGINT AS span WHERE false")
        return
    nest, schema = Nest(), pa.schema([("row", pa.int64()), ("till", pa.int64()), ("parent", pa.int64())])
    spans = draft.con.sql(
        "SELECT lane, ts, dur, row FROM x WHERE lane IN (SELECT lane FROM inexact) ORDER BY lane, ts, dur DESC, row"
    )
    with draft.spool("nested", schema) as spool:
        for batch in spans.to_arrow_reader(_BATCH):
            lane, ts, dur, row = (np.ascontiguousarray(column.to_numpy(False)) for column in batch.columns)
            _, parent = nest.place(lane, ts, dur, row)
            spool.write(pa.Table.from_arrays([pa.array(a) for a in (row, ts + dur, parent)], schema=schema))
    keep(
        draft,
        "around",
        """WITH RECURSIVE climb AS (
            SELECT f.row, f.ts, n.row AS span, n.till, n.parent
            FROM inexact f ASOF JOIN x ON x.lane = f.lane AND f.ts >= x.ts JOIN nested n ON n.row = x.row
            UNION ALL
            SELECT c.row, c.ts, n.row, n.till, n.parent
            FROM climb c JOIN nested n ON n.row = c.parent WHERE c.till < c.ts)
        SELECT row, span FROM climb WHERE till >= ts""",
    )


def _pair(draft: Draft) -> None:
    """One start may have many ends. Where ids repeat, an end belongs to the latest start before it."""
    starts = "SELECT route, id, count(*) AS many, arg_min(span, ts) AS first FROM bound WHERE starts GROUP BY route, id"
    keep(draft, "start", starts)
    repeated = "SELECT b.* FROM bound b JOIN start USING (route, id) WHERE many > 1"
    keep(
        draft,
        "latest",
        f"""SELECT f.row, s.span FROM ({repeated} AND NOT starts) f ASOF JOIN ({repeated} AND starts) s
            ON s.route = f.route AND s.id = f.id AND f.ts >= s.ts""",
    )
    keep(
        draft,
        "arrow",
        """SELECT f.row AS flow, coalesce(l.span, s.first) AS src, f.span AS dst, f.route
        FROM bound f JOIN start s USING (route, id) LEFT JOIN latest l ON l.row = f.row
        WHERE NOT f.starts AND coalesce(l.span, s.first) <> f.span""",
    )
