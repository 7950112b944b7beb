"""The second witness beside a kernel's name: who launched it, and what else runs on its stream.

A name that no line of comm_facts.toml knows may be communication as well. Every launch of it that an operator could
have made must lie below a communication operator. Launches of a graph say nothing: the name was told where it was
launched plainly. A name that only speaks of communication is communication as well where its streams run nothing but
communication.
"""

from __future__ import annotations

from npulens.ingest.readers.kineto.raw import count
from npulens.ingest.readers.kineto.tables import COLLECTIVE, ELEMENT_BYTES
from npulens.ingest.tables import comm_facts
from npulens.ingest.tables.draft import Draft

_CALLED = """
WITH e AS (
    SELECT l.track, e.row, e.ts, e.ts + e.dur AS until, s.text
    FROM marked e JOIN sort s USING (shape) JOIN lane l USING (lane)
    WHERE NOT s.device AND s.kind IN ('cpu_op', 'annotation') AND e.dur > 0 AND {launches}
), outer_first AS (
    SELECT *, coalesce(ts >= max(until) OVER before, true) AS opens FROM e
    WINDOW before AS (PARTITION BY track ORDER BY ts, until DESC, row ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
)
SELECT *, sum(opens::INTEGER) OVER (PARTITION BY track ORDER BY ts, until DESC, row) AS place FROM outer_first
"""
#: Every launch below a communication operator, which may be the launch itself.
_BELOW = """
WITH source AS (SELECT k.dst, k.ts, l.track FROM launched_at k JOIN lane l USING (lane)),
top AS (SELECT track, place, ts, max(until) OVER (PARTITION BY track, place) AS until FROM called WHERE opens)
SELECT s.dst, t.track, t.place FROM source s ASOF JOIN
    (SELECT track, place, ts, until FROM top) t ON t.track = s.track AND t.ts <= s.ts WHERE s.ts < t.until
"""
_JUDGED = """
WITH asked AS (
    SELECT t.row, t.shape, t.text, c.text LIKE '%GraphLaunch%' AS graph, b.dst IS NOT NULL AS below, b.track, b.place
    FROM task t LEFT JOIN linked k ON k.dst = t.row LEFT JOIN strings c ON c.code = (k.call >> 16) - 1
        LEFT JOIN below b ON b.dst = t.row
    WHERE t.kind IN ('kernel', 'unknown') AND NOT t.fused AND t.shape IN (
        SELECT shape FROM task SEMI JOIN below ON below.dst = task.row
        WHERE kind IN ('kernel', 'unknown') AND NOT fused AND NOT {computes}
    )
), named AS (
    SELECT a.shape, min(lower(o.text)) AS operator FROM asked a
    JOIN called o ON o.track = a.track AND o.place = a.place AND o.opens GROUP BY a.shape
)
SELECT shape, any_value(n.operator) AS operator FROM asked JOIN named n USING (shape)
GROUP BY shape HAVING bool_and(below OR coalesce(graph, false))
"""
_ALONE = """
WITH streams AS (
    SELECT l.track, bool_or(t.kind = 'comm_op') AS talks, bool_or(t.kind IN ('kernel', 'memset')) AS computes
    FROM task t JOIN lane l USING (lane) GROUP BY l.track
)
SELECT t.shape, NULL::VARCHAR AS operator FROM task t JOIN lane l USING (lane) JOIN streams USING (track)
WHERE t.kind = 'unknown' GROUP BY t.shape HAVING bool_and(talks AND NOT computes)
"""
#: The operator's name says the kind of collective where the kernel's does not.
_KIND = f"""
WITH w AS (
    SELECT shape, regexp_replace(operator, '[^a-z]', '', 'g') AS word, NULL::VARCHAR AS said FROM ({{judged}})
) SELECT shape, {COLLECTIVE} AS collective FROM w
"""
_TOLD = """
UPDATE sort SET kind = 'comm_op', collective = coalesce(sort.collective, j.collective)
FROM {judged} j WHERE j.shape = sort.shape
"""
#: What the operators above a launch say of it: group, elements and type where they were recorded.
_SAID = f"""
WITH b AS (
    FROM below SEMI JOIN (SELECT row FROM task WHERE kind IN ('comm_op', 'unknown') OR fused) t ON t.row = below.dst
), heard AS (
    FROM called SEMI JOIN b USING (track, place)
), o AS (
    SELECT c.track, c.place, json_extract_string(r.rest, '$."Process Group Name"') AS team,
        json_extract_string(r.rest, '$."dtype"') AS dtype,
        greatest(try_cast(json_extract_string(r.rest, '$."In msg nelems"') AS BIGINT),
            try_cast(json_extract_string(r.rest, '$."Out msg nelems"') AS BIGINT)) AS elements
    FROM heard c JOIN host_rest_raw r ON r.row = c.row WHERE c.text = 'record_param_comms'
), one AS (
    SELECT track, place, any_value(team) AS team, any_value(dtype) AS dtype, any_value(elements) AS elements
    FROM o GROUP BY track, place HAVING count(*) = 1
), tensor AS (
    SELECT c.track, c.place, unnest(json_extract(h.shapes, '$[*]')) AS dims,
        unnest(json_extract_string(h.dtypes, '$[*]')) AS dtype
    FROM heard c JOIN host_text h ON h.row = c.row
    WHERE c.opens AND json_valid(h.shapes) AND json_valid(h.dtypes)
), typed AS (
    SELECT track, place, replace(lower(dtype), 'c10::', '') AS dtype,
        try_cast(list_product(try_cast(dims AS BIGINT[])) AS BIGINT) AS elements FROM tensor
), largest AS (
    SELECT track, place, arg_max(dtype, elements) AS dtype, max(elements) AS elements FROM typed
    WHERE elements > 0 AND CASE {ELEMENT_BYTES} END IS NOT NULL GROUP BY track, place
)
SELECT b.dst AS row, any_value(one.team) AS team, any_value(coalesce(one.dtype, largest.dtype)) AS dtype,
    any_value(coalesce(one.elements, largest.elements)) AS elements, any_value(one.elements IS NULL) AS by_shape,
    NULL::INTEGER AS peer
FROM b LEFT JOIN one USING (track, place) LEFT JOIN largest USING (track, place)
WHERE coalesce(one.elements, largest.elements) IS NOT NULL OR one.team IS NOT NULL GROUP BY b.dst
"""

_NOTHING_SAID = """
CREATE TABLE operator_said (row BIGINT, team VARCHAR, dtype VARCHAR, elements BIGINT, by_shape BOOLEAN, peer INTEGER)
"""


def witness(draft: Draft) -> None:
    """Tell more communication by launches and streams; ``operator_said`` is what operators say of their launches."""
    facts = comm_facts.facts()
    called = draft.keep("called", _CALLED.format(launches=facts.launches("s.text")))
    if called and draft.keep("below", _BELOW):
        _tell(draft, "by_launch", _JUDGED.format(computes=facts.computes("text")))
        draft.keep("operator_said", _SAID)
    else:
        draft.make(_NOTHING_SAID)
    if count(draft, "SELECT count(*) FROM sort WHERE kind = 'unknown'"):
        _tell(draft, "by_stream", _ALONE)


def _tell(draft: Draft, name: str, judged: str) -> None:
    draft.keep(name, _KIND.format(judged=judged))
    draft.con.execute(_TOLD.format(judged=name))
