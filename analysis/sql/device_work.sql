-- The spans that keep a device busy, by what they do: kernels and memsets compute, communication operators
-- communicate, memory copies outside of them copy. Waits on events, the tasks inside a communication operator and
-- the profiler's own marks are no work. A span without length takes no time and is not here.
CREATE OR REPLACE VIEW device_work (
    span_id,       -- the span
    rank,          -- captured rank
    track,         -- its track
    step,          -- the recorded step in which it starts
    name,          -- its name
    part,          -- 'computing', 'communication' or 'copy'
    ts_ns,         -- start, from run.origin_ns
    end_ns         -- end, from run.origin_ns
) AS
SELECT
    span_id, rank, track, step, name,
    CASE kind WHEN 'comm_op' THEN 'communication' WHEN 'memcpy' THEN 'copy' ELSE 'computing' END,
    ts_ns, ts_ns + dur_ns
FROM span
WHERE kind IN ('kernel', 'memset', 'memcpy', 'comm_op') AND dur_ns > 0;
