-- Every gap of a stream: time between two pieces of work on one track in which none runs there. What comes before
-- the first and after the last is no gap.
-- Needs: device_work
CREATE OR REPLACE VIEW stream_gap (
    rank,          -- captured rank
    track,         -- the stream's track
    step,          -- the recorded step in which the work after the gap starts
    ts_ns,         -- start, from run.origin_ns
    dur_ns,        -- length
    waiting_ns,    -- of that, time in which the stream sits in an event wait; NULL: the rank recorded no waits
    previous_id,   -- span_id of the work whose end begins the gap
    previous_name, -- its name
    next_id,       -- span_id of the work whose start ends the gap
    next_name      -- its name
) AS
WITH wait AS (
    SELECT rank, track, ts_ns, ts_ns + dur_ns AS end_ns FROM span WHERE kind = 'wait' AND dur_ns > 0
), moment AS (
    SELECT rank, track, ts_ns, 1::TINYINT AS work, 0::TINYINT AS wait, 1::TINYINT AS start FROM device_work
    UNION ALL
    SELECT rank, track, end_ns, -1, 0, 0 FROM device_work
    UNION ALL
    SELECT rank, track, ts_ns, 0, 1, 0 FROM wait
    UNION ALL
    SELECT rank, track, end_ns, 0, -1, 0 FROM wait
), running AS (
    SELECT
        rank, track, ts_ns, lead(ts_ns) OVER so_far - ts_ns AS dur_ns, sum(work) OVER so_far AS work,
        sum(wait) OVER so_far AS wait, sum(start) OVER so_far AS started,
        sum(start) OVER (PARTITION BY track) AS total
    FROM moment WINDOW so_far AS (PARTITION BY track ORDER BY ts_ns ROWS UNBOUNDED PRECEDING)
), gap AS (
    -- Between two pieces of work the number of those started stands still.
    SELECT
        rank, track, min(ts_ns) AS ts_ns, max(ts_ns + dur_ns) AS end_ns,
        coalesce(sum(dur_ns) FILTER (wait > 0), 0)::BIGINT AS waiting_ns
    FROM running WHERE work = 0 AND started BETWEEN 1 AND total - 1 AND dur_ns > 0 GROUP BY rank, track, started
), previous AS (
    SELECT track, end_ns, min(span_id) AS span_id, arg_min(name, span_id) AS name
    FROM device_work SEMI JOIN gap ON gap.track = device_work.track AND gap.ts_ns = device_work.end_ns
    GROUP BY track, end_ns
), following AS (
    SELECT track, ts_ns, min(span_id) AS span_id, arg_min(name, span_id) AS name, arg_min(step, span_id) AS step
    FROM device_work SEMI JOIN gap ON gap.track = device_work.track AND gap.end_ns = device_work.ts_ns
    GROUP BY track, ts_ns
), waits AS (
    SELECT DISTINCT rank, true AS recorded FROM span WHERE kind = 'wait'
)
SELECT
    g.rank, g.track, f.step, g.ts_ns, g.end_ns - g.ts_ns, CASE WHEN w.recorded THEN g.waiting_ns END, p.span_id, p.name,
    f.span_id, f.name
FROM gap g
LEFT JOIN previous p ON p.track = g.track AND p.end_ns = g.ts_ns
LEFT JOIN following f ON f.track = g.track AND f.ts_ns = g.end_ns
LEFT JOIN waits w ON w.rank = g.rank;
