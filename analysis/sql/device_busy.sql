-- How long each stream and the device as a whole is busy, per rank and step. Busy is the time in which at least one
-- piece of its work runs. Waits on events are not busy time.
-- Needs: device_work, device_state, device_coverage, step_window
CREATE OR REPLACE VIEW device_busy (
    rank,          -- captured rank
    step,          -- recorded step; NULL: the whole capture
    track,         -- the stream's track; NULL: the device, all streams together
    dur_ns,        -- length of the window
    busy_ns,       -- time in it in which work runs; NULL: the rank's kernels were not recorded
    share          -- busy_ns of dur_ns; NULL also where the window has no length
) AS
WITH edge AS (
    SELECT DISTINCT rank, unnest([start_ns, start_ns + dur_ns]) AS ts_ns FROM step_window WHERE start_ns IS NOT NULL
), moment AS (
    SELECT rank, track, ts_ns, 1::TINYINT AS work, NULL::BIGINT AS edge_ns FROM device_work
    UNION ALL
    SELECT rank, track, end_ns, -1, NULL FROM device_work
    UNION ALL
    SELECT rank, track, ts_ns, 0, ts_ns FROM edge JOIN (SELECT DISTINCT rank, track FROM device_work) USING (rank)
), running AS (
    SELECT
        rank, track, max(edge_ns) OVER so_far AS edge_ns, lead(ts_ns) OVER so_far - ts_ns AS dur_ns,
        sum(work) OVER so_far > 0 AS busy
    FROM moment WINDOW so_far AS (PARTITION BY track ORDER BY ts_ns ROWS UNBOUNDED PRECEDING)
), pane AS (
    SELECT rank, track, edge_ns, coalesce(sum(dur_ns) FILTER (busy), 0) AS busy_ns
    FROM running GROUP BY rank, track, edge_ns
    UNION ALL
    -- No track stands for all of them.
    SELECT rank, NULL, ts_ns, coalesce(busy_ns, 0)
    FROM edge LEFT JOIN (
        SELECT rank, edge_ns AS ts_ns, sum(dur_ns) FILTER (computing OR communication OR copy OR unknown) AS busy_ns
        FROM device_state GROUP BY ALL
    ) USING (rank, ts_ns)
), before AS (
    SELECT
        rank, track, edge_ns,
        coalesce(sum(busy_ns) OVER (
            PARTITION BY rank, track ORDER BY edge_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), 0) AS busy_ns
    FROM pane
), within AS (
    SELECT w.rank, w.step, a.track, w.dur_ns, (b.busy_ns - a.busy_ns)::BIGINT AS busy_ns
    FROM step_window w
    LEFT JOIN before a ON a.rank = w.rank AND a.edge_ns = w.start_ns
    LEFT JOIN before b ON b.rank = w.rank AND b.edge_ns = w.start_ns + w.dur_ns AND b.track IS NOT DISTINCT FROM a.track
    WHERE w.start_ns IS NOT NULL
), known AS (
    SELECT w.rank, w.step, w.track, w.dur_ns, CASE WHEN w.track IS NOT NULL OR c.computing THEN w.busy_ns END AS busy_ns
    FROM within w JOIN device_coverage c USING (rank)
)
SELECT rank, step, track, dur_ns, busy_ns, CASE WHEN dur_ns > 0 THEN busy_ns / dur_ns END FROM known;
