-- How many device tasks the host had launched and the device not yet started, over time and per rank. A task whose
-- start lies before its launch counts as launched when it starts; tasks without a recorded launch do not count.
-- Needs: launch
CREATE OR REPLACE VIEW queue_depth (
    rank,          -- captured rank
    ts_ns,         -- a moment at which something is launched or starts, from run.origin_ns
    launched,      -- tasks launched up to here
    started,       -- of those, tasks that started up to here
    depth          -- launched - started
) AS
WITH moment AS (
    SELECT
        rank, unnest([least(launch_ns, ts_ns), ts_ns]) AS ts_ns, unnest([1::TINYINT, 0::TINYINT]) AS launched,
        unnest([0::TINYINT, 1::TINYINT]) AS started
    FROM launch WHERE launch_id IS NOT NULL
), running AS (
    -- Of moments at the same time only the last has counted them all.
    SELECT
        rank, ts_ns, (sum(launched) OVER so_far)::BIGINT AS launched, (sum(started) OVER so_far)::BIGINT AS started,
        lead(ts_ns) OVER so_far IS NOT DISTINCT FROM ts_ns AS more
    FROM moment WINDOW so_far AS (PARTITION BY rank ORDER BY ts_ns ROWS UNBOUNDED PRECEDING)
)
SELECT rank, ts_ns, launched, started, launched - started FROM running WHERE NOT more;
