-- Memory copies outside of communication, by direction and size. Their time is a union. Copies that run at the same
-- moment count once, so the bandwidth is what the group got together.
-- Needs: device_coverage, device_state
CREATE OR REPLACE VIEW transfer_group (
    rank,          -- captured rank
    direction,     -- 'h2d', 'd2h', 'd2d', 'h2h', 'p2p'; NULL: not recorded
    from_bytes,    -- size class: from this power of two up to twice as much; 0: empty copies; NULL: not recorded
    count,         -- how many
    bytes,         -- their sizes, added; NULL: not recorded
    busy_ns,       -- time in which at least one of them runs
    bytes_per_s,   -- bytes per second of busy_ns; NULL also where they took no time
    overlapped_ns, -- of busy_ns, time in which something computes or communicates; NULL: that was not recorded
    exposed_ns     -- of busy_ns, the rest
) AS
WITH copy AS (
    SELECT
        s.rank, t.direction, t.bytes, s.ts_ns, s.ts_ns + s.dur_ns AS end_ns,
        CASE WHEN t.bytes > 0 THEN (1::BIGINT << (length(bin(t.bytes)) - 1)) WHEN t.bytes = 0 THEN 0 END AS from_bytes
    FROM span s LEFT JOIN transfer t USING (span_id) WHERE s.kind = 'memcpy'
), grouped AS (
    SELECT rank, direction, from_bytes, count(*) AS count, sum(bytes)::BIGINT AS bytes FROM copy GROUP BY ALL
), reached AS (
    SELECT
        rank, direction, from_bytes, ts_ns, end_ns, max(end_ns) OVER (
            PARTITION BY rank, direction, from_bytes ORDER BY ts_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS reach_ns
    FROM copy WHERE end_ns > ts_ns
), piece AS (
    -- What each copy adds to those of its group that began before it.
    SELECT rank, direction, from_bytes, greatest(ts_ns, coalesce(reach_ns, ts_ns)) AS ts_ns, end_ns
    FROM reached WHERE end_ns > coalesce(reach_ns, ts_ns)
), covered AS (
    -- Running total of covered time; every begin and end of a copy is a cut of device_state.
    SELECT
        rank, ts_ns, ts_ns + dur_ns AS end_ns, CASE WHEN computing OR communication THEN dur_ns ELSE 0 END AS own_ns,
        sum(own_ns) OVER (PARTITION BY rank ORDER BY ts_ns ROWS UNBOUNDED PRECEDING) AS total_ns
    FROM device_state WHERE copy
), timed AS (
    SELECT
        p.rank, p.direction, p.from_bytes, sum(p.end_ns - p.ts_ns)::BIGINT AS busy_ns,
        sum(b.total_ns - a.total_ns + a.own_ns)::BIGINT AS overlapped_ns
    FROM piece p
    LEFT JOIN covered a ON a.rank = p.rank AND a.ts_ns = p.ts_ns
    LEFT JOIN covered b ON b.rank = p.rank AND b.end_ns = p.end_ns
    GROUP BY ALL
)
SELECT
    g.rank, g.direction, g.from_bytes, g.count, g.bytes, coalesce(t.busy_ns, 0),
    CASE WHEN t.busy_ns > 0 THEN g.bytes * 1e9 / t.busy_ns END,
    CASE WHEN c.computing AND (c.communication OR c.complete) THEN coalesce(t.overlapped_ns, 0) END,
    CASE WHEN c.computing AND (c.communication OR c.complete) THEN coalesce(t.busy_ns - t.overlapped_ns, 0) END
FROM grouped g
JOIN device_coverage c USING (rank)
LEFT JOIN timed t
    ON t.rank = g.rank AND t.direction IS NOT DISTINCT FROM g.direction
    AND t.from_bytes IS NOT DISTINCT FROM g.from_bytes;
