-- How far ahead of the device the host was with each task. A task's stream is free from when everything before it on
-- the stream has ended, event waits included. If the launch came before that, the host was ahead by the difference. If
-- it came later the lead is negative, and the stream stood free for so long with nothing to do.
-- Needs: launch
CREATE OR REPLACE VIEW host_lead (
    span_id,       -- the device task; only tasks with a recorded launch
    rank,          -- captured rank
    step,          -- the recorded step in which it starts
    track,         -- its track
    ts_ns,         -- its start, from run.origin_ns
    launch_ns,     -- start of the host call that launched it, from run.origin_ns
    free_ns,       -- when its stream was free for it, from run.origin_ns; NULL: it is the first on its stream
    lead_ns        -- free_ns - launch_ns
) AS
WITH task AS (
    SELECT span_id, track, ts_ns, ts_ns + dur_ns AS end_ns
    FROM span WHERE kind IN ('kernel', 'memset', 'memcpy', 'comm_op', 'comm_task', 'unknown', 'wait', 'device_other')
), before AS (
    SELECT
        span_id, max(end_ns) OVER (
            PARTITION BY track ORDER BY ts_ns, span_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS end_ns
    FROM task
), free AS (
    -- What overlaps a task on its own stream cannot have kept it from starting.
    SELECT l.*, CASE WHEN b.end_ns IS NOT NULL THEN least(l.ts_ns, b.end_ns) END AS free_ns
    FROM launch l JOIN before b USING (span_id) WHERE l.launch_id IS NOT NULL
)
SELECT span_id, rank, step, track, ts_ns, launch_ns, free_ns, free_ns - launch_ns FROM free;
