-- For whom each communication operator waits and how long. Per peer it is the time in which at least one of its planes
-- waits for that peer. An operator may wait for several peers at once, so rows of one operator overlap.
-- Needs: comm_task
CREATE OR REPLACE VIEW peer_wait (
    op_id,         -- span_id of the operator
    rank,          -- captured rank that waits
    step,          -- the recorded step in which the operator starts
    name,          -- name of the operator
    group_name,    -- its group
    peer,          -- rank of the job it waits for, captured or not; NULL: only peer_local is known
    peer_local,    -- the same rank, as numbered within the group
    waits,         -- waiting tasks
    wait_ns,       -- time in which at least one of them runs
    longest_ns,    -- the longest of them
    ts_ns,         -- start of the longest, from run.origin_ns
    captured       -- the peer is a captured rank, so that why it came late can be seen; NULL: peer is not known
) AS
WITH wait AS (
    SELECT op_id, rank, peer, peer_local, ts_ns, end_ns
    FROM comm_task
    WHERE part = 'wait' AND op_id IS NOT NULL AND peer IS DISTINCT FROM rank AND coalesce(peer, peer_local) IS NOT NULL
), reached AS (
    SELECT
        op_id, rank, peer, peer_local, ts_ns, end_ns, max(end_ns) OVER (
            PARTITION BY op_id, peer, peer_local ORDER BY ts_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS reach_ns
    FROM wait
), summed AS (
    SELECT
        op_id, rank, peer, peer_local, count(*) AS waits,
        sum(greatest(0, end_ns - greatest(ts_ns, coalesce(reach_ns, ts_ns))))::BIGINT AS wait_ns,
        max(end_ns - ts_ns) AS longest_ns, min_by(ts_ns, (ts_ns - end_ns, ts_ns)) AS ts_ns
    FROM reached GROUP BY op_id, rank, peer, peer_local
)
SELECT
    w.op_id, w.rank, s.step, s.name, c.group_name, w.peer, w.peer_local, w.waits, w.wait_ns, w.longest_ns, w.ts_ns,
    CASE WHEN w.peer IS NOT NULL THEN w.peer IN (SELECT rank FROM rank) END
FROM summed w JOIN span s ON s.span_id = w.op_id LEFT JOIN comm c ON c.span_id = w.op_id;
