-- Every gap of a device: time within the capture's window in which none of its recorded work runs, on any stream.
-- Gaps of one rank never touch; together they are the idle time of the split. Ranks whose kernels were not recorded
-- have no rows.
-- Needs: device_work, device_coverage, step_window
CREATE OR REPLACE VIEW device_gap (
    rank,          -- captured rank
    step,          -- the recorded step in which the gap begins
    ts_ns,         -- start, from run.origin_ns
    dur_ns,        -- length
    previous_id,   -- span_id of the work whose end begins the gap; NULL: the gap begins the capture
    previous_name, -- its name
    next_id,       -- span_id of the work whose start ends the gap; NULL: the gap ends the capture
    next_name,     -- its name
    complete       -- false: communication or copies were not recorded and may run in the gap
) AS
WITH busy AS (
    SELECT rank, ts_ns, end_ns FROM device_work
    UNION ALL
    SELECT rank, unnest([start_ns, start_ns + dur_ns]) AS ts_ns, ts_ns FROM step_window WHERE step IS NULL
), reached AS (
    SELECT
        rank, ts_ns AS end_ns,
        max(end_ns) OVER (PARTITION BY rank ORDER BY ts_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS ts_ns
    FROM busy
), gap AS (
    SELECT r.rank, r.ts_ns, r.end_ns, c.complete
    FROM reached r JOIN device_coverage c USING (rank) WHERE r.end_ns > r.ts_ns AND c.computing
), previous AS (
    SELECT rank, end_ns, min(span_id) AS span_id, arg_min(name, span_id) AS name
    FROM device_work SEMI JOIN gap ON gap.rank = device_work.rank AND gap.ts_ns = device_work.end_ns
    GROUP BY rank, end_ns
), following AS (
    SELECT rank, ts_ns, min(span_id) AS span_id, arg_min(name, span_id) AS name
    FROM device_work SEMI JOIN gap ON gap.rank = device_work.rank AND gap.end_ns = device_work.ts_ns
    GROUP BY rank, ts_ns
)
SELECT
    g.rank, CASE WHEN g.ts_ns < s.ts_ns + s.dur_ns THEN s.step END, g.ts_ns, g.end_ns - g.ts_ns, p.span_id, p.name,
    f.span_id, f.name, g.complete
FROM gap g
LEFT JOIN previous p ON p.rank = g.rank AND p.end_ns = g.ts_ns
LEFT JOIN following f ON f.rank = g.rank AND f.ts_ns = g.end_ns
ASOF LEFT JOIN (SELECT rank, step, ts_ns, dur_ns FROM step WHERE dur_ns > 0) s
    ON s.rank = g.rank AND s.ts_ns <= g.ts_ns;
