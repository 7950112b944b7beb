-- The windows that time is split over: per rank one for the whole capture (step NULL), then one per recorded step.
-- The whole capture runs from the first to the last edge of host steps and device work. A rank that recorded
-- neither has one row without times.
-- Needs: device_work
CREATE OR REPLACE VIEW step_window (
    rank,          -- captured rank
    step,          -- recorded step; NULL: the whole capture
    start_ns,      -- start, from run.origin_ns; NULL: neither steps nor device work were recorded
    dur_ns         -- length; NULL: as start_ns
) AS
WITH edge AS (
    SELECT rank, min(ts_ns) AS start_ns, max(ts_ns + coalesce(host_dur_ns, dur_ns)) AS end_ns FROM step GROUP BY rank
    UNION ALL
    SELECT rank, min(ts_ns), max(end_ns) FROM device_work GROUP BY rank
)
SELECT rank, NULL::BIGINT, min(start_ns), max(end_ns) - min(start_ns)
FROM rank LEFT JOIN edge USING (rank) GROUP BY rank
UNION ALL
SELECT rank, step, ts_ns, dur_ns FROM step;
