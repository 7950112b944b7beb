"""What a fleet view needs of every rank and step, as three small tables: at most 3 KB a rank and step.

`fleet_rank` is how a step went on a rank. `fleet_team` is when each collective of a group began on it and how long it
took. Where a step has more than 160 of them, neighbours in their order are added up: the same ones on every rank.
`fleet_link` is how fast a rank's transfers to another were, by what moved them and how large they were.

Nothing in them needs a common clock, and no table of the run is needed beside them.
"""

from __future__ import annotations

from npulens.analysis.ranks.collectives import MEETING, OPERATORS, UNEVEN

#: Collectives that a rank's summary of a step tells apart, all its groups together.
CELLS = 160
#: Links of a rank by task and size that it keeps: those that took most time.
LINKS = 48
#: A notification by RDMA is a send of up to so many bytes.
_NOTIFICATION_BYTES = 8


def _listed(names: frozenset[str]) -> str:
    return ", ".join(f"'{name}'" for name in sorted(names))


RANK = """
SELECT t.rank, coalesce(t.step, -1) AS step, r.host, r.device_name, t.dur_ns, t.computing_ns,
    t.communication_not_overlapped_ns AS exposed_ns, t.copy_not_overlapped_ns AS copying_ns, t.idle_ns,
    t.only_waiting_ns
FROM device_time t JOIN rank r USING (rank)
WHERE t.dur_ns IS NOT NULL AND (t.step IS NOT NULL OR t.rank NOT IN (SELECT rank FROM step))
ORDER BY ALL
"""

TEAM = f"""
WITH meeting AS (
    SELECT o.rank, o.step, o.team, o.ts_ns, o.span_id, o.dur_ns,
        hash(o.collective, CASE WHEN o.collective IN ({_listed(UNEVEN)}) THEN 0 ELSE o.bytes END) AS what,
        row_number() OVER in_order - 1 AS place, count(*) OVER (PARTITION BY o.rank, o.step, o.team) AS count
    FROM ({OPERATORS}) o WHERE o.collective IN ({_listed(MEETING)})
    WINDOW in_order AS (PARTITION BY o.rank, o.step, o.team ORDER BY o.ts_ns, o.span_id)
), most AS (
    SELECT greatest(1, {CELLS} // max(teams)) AS cells
    FROM (SELECT count(DISTINCT team) AS teams FROM meeting GROUP BY rank, step)
), cell AS (
    SELECT rank, step, team, count, place * least(count, cells) // count AS cell, sum(dur_ns)::BIGINT AS dur_ns,
        min(ts_ns) AS ts_ns, bit_xor(hash(what, place)) AS what
    FROM meeting, most GROUP BY ALL
), named AS (
    SELECT group_name AS team, rank, min(kind) AS kind, max(len(ranks)) AS size, min(hash(ranks)) AS members
    FROM parallel_group WHERE len(ranks) > 0 GROUP BY ALL
)
SELECT c.rank, c.step, c.team, named.kind, named.size::INTEGER AS size, named.members, c.count,
    bit_xor(c.what) AS sequence, list(c.dur_ns ORDER BY c.cell) AS durs, list(c.ts_ns ORDER BY c.cell) AS begins
FROM cell c LEFT JOIN named USING (team, rank) GROUP BY ALL ORDER BY c.rank, c.step, c.team
"""

LINK = f"""
WITH packet AS (
    SELECT s.rank, s.dur_ns, c.bytes, coalesce(c.task_type, s.name) AS what,
        coalesce(c.link_type, c.transport, '') AS link,
        CASE WHEN c.dst_rank = s.rank AND c.src_rank <> s.rank THEN c.src_rank
            WHEN c.dst_rank IS NULL THEN g.ranks[c.dst_local + 1] ELSE c.dst_rank END AS peer
    FROM comm c JOIN span s USING (span_id) JOIN comm_task t USING (span_id)
    LEFT JOIN (
        SELECT rank, group_name, any_value(ranks) AS ranks FROM parallel_group
        WHERE group_name IN (SELECT group_name FROM comm WHERE dst_rank IS NULL AND dst_local IS NOT NULL) GROUP BY ALL
    ) g
        ON g.rank = s.rank AND g.group_name = c.group_name
    WHERE t.part = 'transfer' AND c.op_span_id IS NOT NULL AND c.bytes > {_NOTIFICATION_BYTES} AND s.dur_ns > 0
        AND NOT regexp_matches(coalesce(c.link_type, c.transport, ''), '^(ON_CHIP|LOCAL)$')
), summed AS (
    SELECT rank, peer, link, what, floor(log2(bytes))::INTEGER AS size, count(*) AS count,
        sum(bytes)::BIGINT AS bytes, sum(dur_ns)::BIGINT AS dur_ns,
        median(bytes / dur_ns)::FLOAT AS rate
    FROM packet WHERE peer IS NOT NULL AND peer <> rank GROUP BY ALL
)
SELECT rank, peer, link, what, size, count, bytes, dur_ns, rate FROM summed
QUALIFY row_number() OVER (PARTITION BY rank ORDER BY dur_ns DESC, peer, link, what, size) <= {LINKS}
ORDER BY ALL
"""

#: The tables of a summary by name, and what makes each of a run with its views.
SUMMARY = {"fleet_rank": RANK, "fleet_team": TEAM, "fleet_link": LINK}
