-- What each plane did in each communication operator.
-- Needs: comm_task
CREATE OR REPLACE VIEW collective_plane (
    op_id,         -- span_id of the operator
    rank,          -- captured rank
    plane,         -- communication plane; NULL: which one was not recorded
    tasks,         -- tasks of the operator on the plane
    bytes,         -- what its transfers move, added; NULL: not recorded
    transfer_ns,   -- time in which a transfer runs on the plane
    wait_ns,       -- time in which a wait for a peer runs on the plane
    only_waiting_ns -- of wait_ns, time in which the plane moves nothing
) AS
WITH moment AS (
    SELECT
        op_id, rank, plane, ts_ns, (part = 'wait')::TINYINT AS wait, (part = 'transfer')::TINYINT AS transfer,
        1 AS task, CASE WHEN part = 'transfer' THEN bytes END AS bytes
    FROM comm_task WHERE op_id IS NOT NULL
    UNION ALL
    SELECT op_id, rank, plane, end_ns, -(part = 'wait')::TINYINT, -(part = 'transfer')::TINYINT, 0, NULL
    FROM comm_task WHERE op_id IS NOT NULL
), running AS (
    SELECT
        op_id, rank, plane, task, bytes, lead(ts_ns) OVER so_far - ts_ns AS dur_ns, sum(wait) OVER so_far > 0 AS wait,
        sum(transfer) OVER so_far > 0 AS transfer
    FROM moment WINDOW so_far AS (PARTITION BY op_id, plane ORDER BY ts_ns ROWS UNBOUNDED PRECEDING)
)
SELECT
    op_id, rank, plane, sum(task)::BIGINT, sum(bytes)::BIGINT, coalesce(sum(dur_ns) FILTER (transfer), 0)::BIGINT,
    coalesce(sum(dur_ns) FILTER (wait), 0)::BIGINT, coalesce(sum(dur_ns) FILTER (wait AND NOT transfer), 0)::BIGINT
FROM running GROUP BY op_id, rank, plane;
