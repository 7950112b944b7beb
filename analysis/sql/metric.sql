-- What can be compared between runs, one number a row: per rank and step, and per rank for the whole capture.
-- Numbers that were not recorded are here too, as NULL.
-- Needs: rank_step, launch
CREATE OR REPLACE VIEW metric (
    name,          -- what it is
    rank,          -- captured rank
    step,          -- recorded step; NULL: the whole capture
    value,         -- the number; NULL: not recorded
    unit           -- 'ns', 'bytes' or 'count'
) AS
WITH latency AS (
    SELECT rank, unnest([false, true]) AS whole, CASE WHEN NOT whole THEN step END AS step, launch_id, latency_ns
    FROM launch WHERE kind IN ('kernel', 'memset', 'memcpy', 'comm_op', 'unknown')
), launched AS (
    SELECT
        rank, whole, step, quantile_disc(latency_ns, 0.5) AS median_ns, count(launch_id) AS launches
    FROM latency GROUP BY rank, whole, step
), linked AS (
    SELECT DISTINCT rank, true AS recorded FROM link WHERE route <> 'fwdbwd'
), moved AS (
    SELECT s.rank, s.step, sum(t.bytes)::BIGINT AS copied, grouping(s.step) = 1 AS whole
    FROM span s JOIN transfer t USING (span_id) WHERE s.kind = 'memcpy'
    GROUP BY GROUPING SETS ((s.rank), (s.rank, s.step))
), wide AS (
    SELECT
        r.rank, r.step, r.dur_ns AS step_ns, r.computing_ns, r.communication_ns, r.communication_not_overlapped_ns,
        r.only_waiting_ns, r.copy_ns, r.copy_not_overlapped_ns,
        r.unknown_not_overlapped_ns, r.idle_ns, r.kernels AS kernel_count, r.collectives AS collective_count,
        r.copies AS copy_count, l.median_ns AS launch_latency_median_ns,
        CASE WHEN k.recorded THEN coalesce(l.launches, 0) END AS launch_count,
        CASE WHEN r.copies = 0 THEN 0 ELSE m.copied END AS copied_bytes
    FROM rank_step r
    LEFT JOIN linked k ON k.rank = r.rank
    LEFT JOIN launched l ON l.rank = r.rank AND l.step IS NOT DISTINCT FROM r.step AND l.whole = (r.step IS NULL)
    LEFT JOIN moved m ON m.rank = r.rank AND m.step IS NOT DISTINCT FROM r.step AND m.whole = (r.step IS NULL)
)
SELECT
    name, rank, step, value,
    CASE WHEN name LIKE '%\_ns' ESCAPE '\' THEN 'ns' WHEN name LIKE '%\_bytes' ESCAPE '\' THEN 'bytes' ELSE 'count' END
FROM wide UNPIVOT INCLUDE NULLS (value FOR name IN (
    step_ns, computing_ns, communication_ns, communication_not_overlapped_ns, only_waiting_ns, copy_ns,
    copy_not_overlapped_ns, unknown_not_overlapped_ns, idle_ns, kernel_count, collective_count, copy_count,
    launch_latency_median_ns, launch_count,
    copied_bytes
));
