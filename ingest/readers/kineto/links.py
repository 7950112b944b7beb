"""Launch arrows: which host span caused which device span, and which forward operator a backward one answers.

Kineto says it up to three times. It has the same correlation on call and task, a flow drawn between them, and the
operator's External id on the task. The first that tells is stored; one call may launch many tasks.
"""

from __future__ import annotations

from npulens.ingest.messages import Message
from npulens.ingest.readers.kineto import cpu
from npulens.ingest.readers.kineto.answers import answers
from npulens.ingest.readers.kineto.lanes import CATEGORIES
from npulens.ingest.readers.kineto.raw import count
from npulens.ingest.readers.kineto.shape import LAUNCHED
from npulens.ingest.readers.kineto.spools import Spools
from npulens.ingest.tables.draft import Draft

_TASK = f"""
CREATE VIEW task AS SELECT d.*, s.text, s.kind, s.fused, s.collective AS told
FROM device_raw d JOIN sort s USING (shape)
WHERE s.kind IN {LAUNCHED} AND s.cat <> 'cuda_profiler_range'
"""

#: A correlation of 0 is what tools write when they do not know it.
_CORRELATED = """
SELECT h.row AS src, t.row AS dst, h.shape AS call, 'correlation' AS route, t.ts - h.ts AS late
FROM task t JOIN host_raw h USING (correlation)
WHERE t.correlation <> 0
"""
_EARLIEST = """SELECT arg_max(src, late) AS src, dst, arg_max(call, late) AS call, any_value(route) AS route,
    max(late) AS late FROM linked_1 GROUP BY dst"""

#: Ids that are no numbers have a code, or several: the first of those of one text.
_SAME_ID = """
CREATE TABLE same_id AS SELECT code, min(code) OVER (PARTITION BY text) AS first
FROM strings_raw SEMI JOIN (SELECT id FROM flow_raw WHERE id >= 0) ON id = code
"""

#: Flow ends of one kind as (track, time, id). 115 is s, 102 is f.
_FLOW = """
SELECT f.ph, f.ts, coalesce(i.first, f.id) AS id, l.track
FROM flow_raw f JOIN strings c ON c.code = f.cat AND lower(c.text) IN {cats} LEFT JOIN same_id i ON i.code = f.id
JOIN lane l ON l.lane = f.lane + CASE WHEN f.ph = 115 THEN 0 ELSE {far} END
"""

_ARROWS = """
WITH s AS (
    SELECT f.id, arg_min(e.row, e.dur) AS row, arg_min(e.shape, e.dur) AS call, arg_min(e.ts, e.dur) AS ts
    FROM launch f
    JOIN ev e ON e.ts = f.ts JOIN lane l ON l.lane = e.lane AND l.track = f.track WHERE f.ph = 115 GROUP BY f.id
), f AS (
    SELECT f.id, u.row, u.ts FROM launch f JOIN unlinked u ON u.ts = f.ts
    JOIN lane l ON l.lane = u.lane AND l.track = f.track WHERE f.ph = 102
)
SELECT min(s.row) AS src, f.row AS dst, arg_min(s.call, s.row) AS call, 'ac2g' AS route,
    any_value(f.ts) - arg_min(s.ts, s.row) AS late
FROM s JOIN f USING (id) GROUP BY f.row
"""

#: The operator of each task by its External id: it holds also where the launching call ends after the operator.
#: Some versions number tasks apart from operators, and few ids meet by chance: then none is believed. The nodes of a
#: graph are of the graph: the operator around its launch did not ask for each of them. Where most tasks share a
#: correlation with a call, one that shares it with none was launched before the recording, which numbered anew.
_EARLIER = """{task}.correlation <> 0 AND {task}.row NOT IN (SELECT dst FROM linked_1)
    AND (SELECT count(DISTINCT dst) FROM linked_1) * 2 >= (SELECT count(*) FROM task)"""
_OPERATOR = f"""
WITH op AS (
    SELECT h.external_id, max(h.row) AS op FROM host_raw h JOIN sort s USING (shape)
    WHERE s.kind = 'cpu_op' AND h.external_id IS NOT NULL GROUP BY h.external_id
), told AS (
    SELECT t.row, o.op, c.text LIKE '%GraphLaunch%' AS node FROM task t LEFT JOIN op o USING (external_id)
    LEFT JOIN linked_1 l ON l.dst = t.row LEFT JOIN strings c ON c.code = (l.call >> 16) - 1
    WHERE t.external_id <> 0 AND NOT ({_EARLIER.format(task="t")})
)
SELECT row, op FROM told WHERE op IS NOT NULL AND node IS NOT TRUE AND (SELECT 2 * count(op) >= count(*) FROM told)
"""

_BY_OPERATOR = """
SELECT o.op AS src, u.row AS dst, NULL::BIGINT AS call, 'external_id' AS route, u.ts - h.ts AS late
FROM unlinked u JOIN of_operator o ON o.row = u.row JOIN host_raw h ON h.row = o.op
ANTI JOIN linked_2 ON linked_2.dst = u.row
"""

#: An autograd flow leaves the forward operator and ends at the backward one, each known by thread and start.
#: Several operators can start in one microsecond: the one with a sequence number is meant, forward the innermost.
_ANSWERS = """
WITH ends AS (
    SELECT f.ph, f.id, f.ts, f.track, e.row, e.dur, h.sequence FROM autograd f JOIN ev e ON e.ts = f.ts
    JOIN lane l ON l.lane = e.lane AND l.track = f.track JOIN sort s ON s.shape = e.shape AND s.kind = 'cpu_op'
    LEFT JOIN host_raw h ON h.row = e.row
), chosen AS (
    SELECT ph, id, row, ts FROM ends QUALIFY row_number() OVER (
        PARTITION BY ph, id, ts, track ORDER BY sequence IS NULL, CASE ph WHEN 115 THEN dur ELSE -dur END, row) = 1
)
SELECT DISTINCT s.row AS src, f.row AS dst, f.ts - s.ts AS late
FROM chosen s JOIN chosen f ON f.id = s.id AND s.ph = 115 AND f.ph = 102 WHERE s.row <> f.row
"""

#: Whether the file has categories of such flows, or more categories than are told apart.
_ANSWERED = f"""SELECT count(*) FROM category_raw JOIN strings USING (code)
    WHERE lower(text) IN ('fwdbwd', 'fwd_bwd') OR number = {CATEGORIES - 1}"""

#: When and on which lane each task was launched.
_AT = "SELECT k.dst, e.ts, e.lane FROM linked k JOIN ev e ON e.row = k.src"
_PLACED = "SELECT dst, begun AS ts, lane FROM linked_1"

_LINK = "SELECT src AS src_span_id, dst AS dst_span_id, late AS latency_ns"


def link(draft: Draft, *, flows: bool, on_cpu: bool, spools: Spools) -> int:
    """Make ``task`` (device spans a call asked for), ``of_operator`` and ``linked``, and provide the links.

    Returns the number of tasks that no call shares a correlation with.
    """
    calls, numbered = spools.calls, False
    draft.make(_TASK)
    draft.make(_SAME_ID)
    if on_cpu:
        cpu.link(draft)
    elif not (numbered := calls is not None and calls.link(draft)):
        _correlate(draft)
    draft.make("CREATE VIEW unlinked AS FROM task ANTI JOIN linked_1 ON linked_1.dst = task.row")
    tasks = count(draft, "SELECT count(*) FROM task")
    missing = tasks - count(draft, "SELECT count(*) FROM linked_1")
    made = ["linked_1"]
    placed = numbered and (on_cpu or not missing)
    if not placed and spools.spans is not None:
        spools.spans.whole(draft)
    if missing and not on_cpu:
        draft.keep("launch", _FLOW.format(cats="('ac2g', 'async_cpu_to_gpu', 'async')", far=1))
        draft.keep("linked_2", _ARROWS)
        draft.keep("linked_3", _BY_OPERATOR)
        made += ["linked_2", "linked_3"]
    draft.make("CREATE VIEW linked AS " + " UNION ALL BY NAME ".join(f"FROM {name}" for name in made))
    draft.make(f"CREATE VIEW launched_at AS {_PLACED if placed else _AT}")
    if placed and calls is not None:
        calls.links(draft)
    else:
        draft.provide("link", f"{_LINK}, route FROM linked")
    draft.expect("link", tasks)
    lost = tasks - count(draft, "SELECT count(*) FROM linked")
    if lost:
        draft.note("link", Message("device_spans_have_no_launching", {"lost": lost, "n": tasks}))
    if flows and count(draft, _ANSWERED):
        autograd = _FLOW.format(cats="('fwdbwd', 'fwd_bwd')", far=0)
        found = answers(draft, spools.spans, autograd) if spools.spans is not None else None
        if found is not None:
            draft.table("answers", found.rows)
        else:
            if spools.spans is not None:
                spools.spans.whole(draft)
            draft.keep("autograd", autograd)
            draft.keep("answers", _ANSWERS)
        draft.provide("link", f"{_LINK}, 'fwdbwd' AS route FROM answers")
        asked = "SELECT count(DISTINCT id) FROM autograd WHERE ph = 102"
        draft.expect("link", found.asked if found is not None else count(draft, asked))
    return missing


def _correlate(draft: Draft) -> None:
    draft.keep("linked_1", _CORRELATED)
    if count(draft, "SELECT count(*) - count(DISTINCT dst) FROM linked_1"):  # a correlation used by several calls
        draft.keep("linked_0", _EARLIEST)
        draft.make("CREATE OR REPLACE VIEW linked_1 AS FROM linked_0")
    draft.keep("of_operator", _OPERATOR)
