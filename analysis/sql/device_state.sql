-- The time of each rank, cut wherever a span of device work or a step window begins or ends. A piece says what the
-- device does in between. The pieces of a rank tile its windows, so sums over them are exact however streams overlap.
-- Needs: device_work, step_window
CREATE OR REPLACE VIEW device_state (
    rank,          -- captured rank
    ts_ns,         -- start of the piece, from run.origin_ns
    dur_ns,        -- its length, never 0
    computing,     -- a kernel or memset runs
    communication, -- a communication operator runs, or a kernel that communicates as well
    copy,          -- a memory copy runs
    unknown,       -- work runs that nothing told to compute or to communicate
    edge_ns        -- the latest begin or end of a step window up to here
) AS
WITH told AS (
    SELECT
        rank, ts_ns, end_ns, (part IN ('computing', 'both'))::TINYINT AS computing,
        (part IN ('communication', 'both'))::TINYINT AS communication, (part = 'copy')::TINYINT AS copy,
        (part = 'unknown')::TINYINT AS unknown
    FROM device_work
), moment AS (
    SELECT rank, ts_ns, computing, communication, copy, unknown, NULL::BIGINT AS edge_ns FROM told
    UNION ALL
    SELECT rank, end_ns, -computing, -communication, -copy, -unknown, NULL FROM told
    UNION ALL
    SELECT rank, unnest([start_ns, start_ns + dur_ns]) AS ts_ns, 0, 0, 0, 0, ts_ns
    FROM step_window WHERE start_ns IS NOT NULL
), running AS (
    -- Of moments at the same time only the last has a length, and it has counted them all.
    SELECT
        rank, ts_ns, lead(ts_ns) OVER so_far - ts_ns AS dur_ns, sum(computing) OVER so_far > 0 AS computing,
        sum(communication) OVER so_far > 0 AS communication, sum(copy) OVER so_far > 0 AS copy,
        sum(unknown) OVER so_far > 0 AS unknown, max(edge_ns) OVER so_far AS edge_ns
    FROM moment WINDOW so_far AS (PARTITION BY rank ORDER BY ts_ns ROWS UNBOUNDED PRECEDING)
)
SELECT rank, ts_ns, dur_ns, computing, communication, copy, unknown, edge_ns FROM running WHERE dur_ns > 0;
