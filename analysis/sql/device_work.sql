-- The spans that keep a device busy, by what they do. Kernels and memsets compute, communication operators communicate,
-- memory copies outside of them copy. A kernel that communicates as well is 'both'; work that nothing told to compute
-- or to communicate is 'unknown'. Waits on events, the tasks inside a communication operator and the profiler's own
-- marks are no work. A span without length takes no time and is not here.
CREATE OR REPLACE VIEW device_work (
    span_id,       -- the span
    rank,          -- captured rank
    track,         -- its track
    step,          -- the recorded step in which it starts
    name,          -- its name
    part,          -- 'computing', 'communication', 'both' of them, 'copy' or 'unknown'
    ts_ns,         -- start, from run.origin_ns
    end_ns         -- end, from run.origin_ns
) AS
SELECT
    span_id, rank, track, step, name,
    CASE kind WHEN 'comm_op' THEN 'communication' WHEN 'memcpy' THEN 'copy' WHEN 'unknown' THEN 'unknown'
        WHEN 'memset' THEN 'computing'
        ELSE CASE WHEN span_id IN (SELECT span_id FROM comm WHERE op_span_id = span_id) THEN 'both' ELSE 'computing' END END,
    ts_ns, ts_ns + dur_ns
FROM span
WHERE kind IN ('kernel', 'memset', 'memcpy', 'comm_op', 'unknown') AND dur_ns > 0;
