"""Flow events as links: each end bound to the span it belongs to, each end paired with its start.

An end belongs to the span of its lane that starts where it stands, else to the innermost span around it. A launch
from a lane that has no spans (CANN at Level0) belongs to whatever the same thread was doing then.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from npulens.ingest.messages import Message
from npulens.ingest.readers.ascend.stage import count
from npulens.ingest.readers.ascend.text.arrows import arrows
from npulens.ingest.readers.ascend.text.ordered import Traced
from npulens.ingest.tables.draft import Draft
from npulens.ingest.tables.in_order import Spans, in_order, stretches
from npulens.ingest.tables.nest import Nest
from npulens.ingest.tables.sqltext import whens

#: What routes are called here; any other by its own name.
ROUTES = {
    "HostToDevice": "host_to_device", "async_task_queue": "task_queue", "enqueue_to_dequeue": "task_queue",
    "async_npu": "torch_to_npu",
}  # fmt: skip
_ROUTES = f"CASE text {whens(ROUTES)} ELSE lower(text) END"
#: Of spans that start together, a flow means an operator or launch rather than a Python call, and the innermost.
MEANT = ("cpu_op", "enqueue", "dequeue")
#: Numbers of events stay below 2^40.
_LAST_ROW = (1 << 40) - 1
#: Above this the scanner may have forgotten a text and given it a second code; every further file does.
_FEW_BYTES = 32 << 20
_BATCH = 40_960
#: Ends that are joined and grouped at once.
_STRETCH = 300_000
_WITHIN = pa.schema([("row", pa.int64()), ("span", pa.int64())])


def provide(draft: Draft, *, several: bool = False, traced: Traced | None = None) -> None:
    """Provide ``link``; ``x``, ``lane``, ``merged`` and ``dev`` must be there. ``several``: the trace was in slices."""
    _ends(draft, several=several)
    ends = count(draft, "SELECT count(*) FROM flow_end")
    bound = None
    if traced is not None:
        bound = arrows(draft, traced, ends, _meant(draft))
    if bound is None:
        bound = _bind(draft, ends)
        _pair(draft)
    draft.drop("link", Message("ends_flows_at_no_span"), ends - bound)
    draft.keep("mark", "SELECT x.row FROM x JOIN lane l ON l.lane = x.lane AND l.class = 'steps'")
    draft.provide(
        "link",
        """SELECT src AS src_span_id, dst AS dst_span_id, name AS route FROM arrow
        JOIN (SELECT DISTINCT route, name FROM route) USING (route)
        WHERE src <> dst AND src NOT IN (SELECT row FROM mark)""",
    )
    if marks := count(draft, "SELECT count(*) FROM arrow WHERE src IN (SELECT row FROM mark)"):
        draft.note("link", Message("arrows_between_profiler_s_own", {"n": marks}))
    lonely = count(draft, "SELECT count(*) FROM arrow WHERE src IS NULL")
    draft.drop("link", Message("flows_that_end_and_never"), lonely)
    launched = "SELECT count(*) FROM dev WHERE kind IN ('kernel', 'memset', 'memcpy')"
    draft.expect("link", count(draft, f"SELECT ({launched}) + (SELECT count(*) FROM op)"))


def _ends(draft: Draft, *, several: bool) -> None:
    """The view flow_end: flow events, on lanes that have spans, with one number for each route and id."""
    draft.make(f"""
        CREATE TEMP TABLE route AS SELECT code, name, dense_rank() OVER (ORDER BY name) AS route FROM (
            SELECT code, {_ROUTES} AS name FROM str WHERE code IN (SELECT DISTINCT route FROM flow))""")
    draft.make("""
        CREATE TEMP TABLE moved AS
        SELECT bare.lane, min(l.lane) AS home FROM (
            SELECT lane, t.text AS tid FROM (SELECT DISTINCT lane FROM flow) JOIN str t ON t.code = lane & 4294967295
            WHERE lane NOT IN (SELECT lane FROM lane)) bare
        JOIN lane l ON l.tid = bare.tid AND l.class = 'host' GROUP BY bare.lane""")
    known = "flow"
    coded = count(draft, "SELECT count(*) FROM flow WHERE id >= 0")  # the others are numbers themselves
    if coded and (several or count(draft, "SELECT sum(strlen(text)) FROM str") > _FEW_BYTES):
        same = "min(code) OVER (PARTITION BY text) AS first"
        draft.keep("same_id", f"SELECT code, {same} FROM str WHERE code IN (SELECT id FROM flow)")
        known = "(SELECT flow.* REPLACE (coalesce(first, id) AS id) FROM flow LEFT JOIN same_id ON code = id)"
    draft.make(f"""
        CREATE VIEW flow_end AS SELECT f.row, coalesce(m.home, f.lane) AS lane, f.ts, r.route, f.id, f.starts
        FROM {known} f JOIN route r ON r.code = f.route LEFT JOIN moved m ON m.lane = f.lane""")


def _meant(draft: Draft) -> list[int]:
    return [row[0] for row in draft.con.execute(f"SELECT code FROM word WHERE text IN {MEANT}").fetchall()]


def _bind(draft: Draft, ends: int) -> int:
    """The view bound: each flow event with its span, of tasks shown twice the one that is kept; their number."""
    python = f"CASE WHEN x.cat IN ({', '.join(map(str, [*_meant(draft), -1]))}) THEN 0 ELSE 1 END"
    # the least of: is Python, duration, row from the end; all in one number, of which the row is the lower half
    choice = f"min(({python}::HUGEINT << 110) + (x.dur::HUGEINT << 40) + {_LAST_ROW} - x.row)"
    exact = draft.keep(
        "exact",
        f"""SELECT f.row, f.route, f.id, f.ts, f.starts, ({_LAST_ROW} - ({choice} & {_LAST_ROW}))::BIGINT AS span
        FROM (FROM flow_end WHERE {{part}}) f JOIN (FROM x WHERE {{part}}) x ON x.lane = f.lane AND x.ts = f.ts
        GROUP BY ALL""",
        stretches(draft.con, "flow_end", "ts", ends, _STRETCH),
    )
    _around(draft, inexact=exact < ends)
    return draft.keep(
        "bound",
        """SELECT b.* EXCLUDE (span), coalesce(t.plane, b.span) AS span
        FROM (FROM exact UNION ALL BY NAME FROM around) b LEFT JOIN merged t ON t.hw = b.span""",
    )


def _around(draft: Draft, *, inexact: bool) -> None:
    """The view around: the innermost span around each end that stands at the start of none.

    The ends lie among the spans as spans without length, a nanosecond early: at the end of a span counts as within.
    """
    if not inexact:
        draft.make("CREATE VIEW around AS FROM exact WHERE false")
        return
    draft.keep("inexact", "FROM flow_end WHERE row NOT IN (SELECT row FROM exact)")
    draft.keep(
        "asked",
        """SELECT lane, ts, dur, row, false AS asked FROM x WHERE lane IN (SELECT DISTINCT lane FROM inexact)
        UNION ALL SELECT lane, ts - 1, 0, row, true FROM inexact""",
    )
    spans = Spans("asked", "lane", "ts", "dur DESC, row")
    nest = Nest()
    with draft.spool("within", _WITHIN) as spool:
        for batch in in_order(draft.con, spans, _BATCH):
            lane, ts, dur, row, asked = (np.ascontiguousarray(column.to_numpy(False)) for column in batch.columns)
            _, parent = nest.place(lane, ts, dur, row)
            found = asked & (parent >= 0)
            spool.write(pa.Table.from_arrays([pa.array(row[found]), pa.array(parent[found])], schema=_WITHIN))
    draft.make("CREATE VIEW around AS SELECT i.* EXCLUDE (lane), span FROM inexact i JOIN within USING (row)")


def _pair(draft: Draft) -> None:
    """One start may have many ends. Where ids repeat, an end belongs to the latest start before it."""
    starts = "SELECT route, id, count(*) AS many, arg_min(span, ts) AS first FROM bound WHERE starts GROUP BY route, id"
    draft.keep("start", starts)
    repeated = "SELECT b.* FROM bound b JOIN start USING (route, id) WHERE many > 1"
    draft.keep(
        "latest",
        f"""SELECT f.row, s.span FROM ({repeated} AND NOT starts) f ASOF JOIN ({repeated} AND starts) s
            ON s.route = f.route AND s.id = f.id AND f.ts >= s.ts""",
    )
    draft.keep(
        "arrow",
        """SELECT f.row AS flow, coalesce(l.span, s.first) AS src, f.span AS dst, f.route
        FROM bound f LEFT JOIN start s USING (route, id) LEFT JOIN latest l ON l.row = f.row WHERE NOT f.starts""",
    )
