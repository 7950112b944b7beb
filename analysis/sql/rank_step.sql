-- Ranks times steps: the split of each, what of exposed communication is nothing but waiting for peers, and how much
-- work starts in it. One row per rank and recorded step, and one per rank for the whole capture.
-- Needs: split, step_window, device_work, device_coverage, comm_task
CREATE OR REPLACE VIEW rank_step (
    rank,             -- captured rank
    step,             -- recorded step; NULL: the whole capture
    start_ns,         -- start of the window, from run.origin_ns
    dur_ns,           -- its length
    computing_ns,     -- kernels and memsets run
    communication_ns, -- communication operators run
    communication_not_overlapped_ns, -- of that, time in which nothing computes
    only_waiting_ns,  -- of that, time in which they only wait for peers; NULL: their tasks were not recorded
    copy_ns,          -- memory copies run
    copy_not_overlapped_ns, -- of that, time in which nothing computes or communicates
    idle_ns,          -- nothing runs
    kernels,          -- kernels and memsets that start in the window; NULL: not recorded
    collectives,      -- communication operators that start in it; NULL: not recorded
    copies            -- memory copies that start in it; NULL: not recorded
) AS
WITH moment AS (
    SELECT
        rank, ts_ns, (part = 'computing')::TINYINT AS computing, (part = 'communication')::TINYINT AS communication,
        0::TINYINT AS wait, 0::TINYINT AS transfer, NULL::BIGINT AS edge_ns
    FROM device_work WHERE part <> 'copy'
    UNION ALL
    SELECT rank, end_ns, -(part = 'computing')::TINYINT, -(part = 'communication')::TINYINT, 0, 0, NULL
    FROM device_work WHERE part <> 'copy'
    UNION ALL
    SELECT rank, unnest([ts_ns, end_ns]), 0, 0, unnest([wait, -wait]), unnest([transfer, -transfer]), NULL
    FROM (
        SELECT rank, ts_ns, end_ns, (part = 'wait')::TINYINT AS wait, (part = 'transfer')::TINYINT AS transfer
        FROM comm_task WHERE part <> 'signal' AND end_ns > ts_ns
    )
    UNION ALL
    SELECT rank, unnest([start_ns, start_ns + dur_ns]) AS ts_ns, 0, 0, 0, 0, ts_ns
    FROM step_window WHERE start_ns IS NOT NULL
), running AS (
    SELECT
        rank, max(edge_ns) OVER so_far AS edge_ns, lead(ts_ns) OVER so_far - ts_ns AS dur_ns,
        sum(computing) OVER so_far = 0 AND sum(communication) OVER so_far > 0 AND sum(wait) OVER so_far > 0
            AND sum(transfer) OVER so_far = 0 AS waiting
    FROM moment WINDOW so_far AS (PARTITION BY rank ORDER BY ts_ns ROWS UNBOUNDED PRECEDING)
), pane AS (
    SELECT rank, edge_ns, coalesce(sum(dur_ns) FILTER (waiting), 0) AS waiting_ns
    FROM running WHERE edge_ns IS NOT NULL GROUP BY rank, edge_ns
), before AS (
    SELECT
        rank, edge_ns, coalesce(sum(waiting_ns) OVER (
            PARTITION BY rank ORDER BY edge_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), 0) AS waiting_ns
    FROM pane
), started AS (
    SELECT
        rank, step, count(*) FILTER (kind IN ('kernel', 'memset')) AS kernels,
        count(*) FILTER (kind = 'comm_op') AS collectives, count(*) FILTER (kind = 'memcpy') AS copies,
        grouping(step) = 1 AS whole
    FROM span WHERE kind IN ('kernel', 'memset', 'comm_op', 'memcpy') GROUP BY GROUPING SETS ((rank), (rank, step))
), typed AS (
    SELECT rank, bool_or(kind = 'comm_op') AS op FROM span GROUP BY rank
), tasks AS (
    SELECT DISTINCT rank, true AS recorded FROM comm_task
)
SELECT
    s.rank, s.step, s.start_ns, s.dur_ns, s.computing_ns, s.communication_ns, s.communication_not_overlapped_ns,
    CASE WHEN s.communication_not_overlapped_ns IS NOT NULL AND (t.recorded OR NOT coalesce(o.op, false))
        THEN (b.waiting_ns - a.waiting_ns)::BIGINT END,
    s.copy_ns, s.copy_not_overlapped_ns, s.idle_ns,
    CASE WHEN c.computing THEN coalesce(n.kernels, 0) END,
    CASE WHEN c.communication THEN coalesce(n.collectives, 0) END,
    CASE WHEN c.copy THEN coalesce(n.copies, 0) END
FROM split s
JOIN device_coverage c USING (rank)
LEFT JOIN before a ON a.rank = s.rank AND a.edge_ns = s.start_ns
LEFT JOIN before b ON b.rank = s.rank AND b.edge_ns = s.start_ns + s.dur_ns
LEFT JOIN started n ON n.rank = s.rank AND n.step IS NOT DISTINCT FROM s.step AND n.whole = (s.step IS NULL)
LEFT JOIN typed o ON o.rank = s.rank
LEFT JOIN tasks t ON t.rank = s.rank;
