-- Where the time of each rank and step goes, exactly: the same numbers as `npulens breakdown`. Spans are clipped to
-- the window, so work counts where it runs; every kind is a union over the rank's streams; idle time is the time in
-- which nothing runs, found on its own and not as what is left over.
-- Needs: device_state, device_coverage, step_window
CREATE OR REPLACE VIEW split (
    rank,             -- captured rank
    step,             -- recorded step; NULL: the whole capture
    start_ns,         -- start of the window, from run.origin_ns
    dur_ns,           -- its length
    computing_ns,     -- kernels and memsets run
    communication_ns, -- communication operators run
    communication_not_overlapped_ns, -- of that, time in which nothing computes
    overlapped_ns,    -- of that, time in which something computes
    copy_ns,          -- memory copies run
    copy_not_overlapped_ns, -- of that, time in which nothing computes or communicates
    idle_ns,          -- nothing runs
    residual_ns       -- dur - computing - communication_not_overlapped - copy_not_overlapped - idle: 0
) AS
WITH pane AS (
    SELECT
        rank, edge_ns, sum(dur_ns) FILTER (computing) AS computing, sum(dur_ns) FILTER (communication) AS communication,
        sum(dur_ns) FILTER (communication AND NOT computing) AS bare_communication,
        sum(dur_ns) FILTER (communication AND computing) AS overlapped, sum(dur_ns) FILTER (copy) AS copy,
        sum(dur_ns) FILTER (copy AND NOT computing AND NOT communication) AS bare_copy,
        sum(dur_ns) FILTER (NOT computing AND NOT communication AND NOT copy) AS idle
    FROM device_state GROUP BY rank, edge_ns
), edge AS (
    SELECT DISTINCT rank, unnest([start_ns, start_ns + dur_ns]) AS edge_ns FROM step_window WHERE start_ns IS NOT NULL
), before AS (
    SELECT
        rank, edge_ns, sum(computing) OVER past AS computing, sum(communication) OVER past AS communication,
        sum(bare_communication) OVER past AS bare_communication, sum(overlapped) OVER past AS overlapped,
        sum(copy) OVER past AS copy, sum(bare_copy) OVER past AS bare_copy, sum(idle) OVER past AS idle
    FROM edge LEFT JOIN pane USING (rank, edge_ns)
    WINDOW past AS (PARTITION BY rank ORDER BY edge_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
), within AS (
    SELECT
        w.rank, w.step, w.start_ns, w.dur_ns,
        (coalesce(b.computing, 0) - coalesce(a.computing, 0))::BIGINT AS computing,
        (coalesce(b.communication, 0) - coalesce(a.communication, 0))::BIGINT AS communication,
        (coalesce(b.bare_communication, 0) - coalesce(a.bare_communication, 0))::BIGINT AS bare_communication,
        (coalesce(b.overlapped, 0) - coalesce(a.overlapped, 0))::BIGINT AS overlapped,
        (coalesce(b.copy, 0) - coalesce(a.copy, 0))::BIGINT AS copy,
        (coalesce(b.bare_copy, 0) - coalesce(a.bare_copy, 0))::BIGINT AS bare_copy,
        (coalesce(b.idle, 0) - coalesce(a.idle, 0))::BIGINT AS idle
    FROM step_window w
    LEFT JOIN before a ON a.rank = w.rank AND a.edge_ns = w.start_ns
    LEFT JOIN before b ON b.rank = w.rank AND b.edge_ns = w.start_ns + w.dur_ns
), known AS (
    SELECT
        w.rank, w.step, w.start_ns, w.dur_ns,
        CASE WHEN c.computing THEN w.computing END AS computing,
        CASE WHEN c.communication THEN w.communication END AS communication,
        CASE WHEN c.computing AND c.communication THEN w.bare_communication END AS bare_communication,
        CASE WHEN c.computing AND c.communication THEN w.overlapped END AS overlapped,
        CASE WHEN c.copy THEN w.copy END AS copy,
        CASE WHEN c.computing AND c.communication AND c.copy THEN w.bare_copy END AS bare_copy,
        CASE WHEN c.computing AND c.communication AND c.copy THEN w.idle END AS idle
    FROM within w JOIN device_coverage c USING (rank)
)
SELECT
    rank, step, start_ns, dur_ns,
    CASE WHEN start_ns IS NOT NULL THEN computing END, CASE WHEN start_ns IS NOT NULL THEN communication END,
    CASE WHEN start_ns IS NOT NULL THEN bare_communication END, CASE WHEN start_ns IS NOT NULL THEN overlapped END,
    CASE WHEN start_ns IS NOT NULL THEN copy END, CASE WHEN start_ns IS NOT NULL THEN bare_copy END,
    CASE WHEN start_ns IS NOT NULL THEN idle END,
    dur_ns - computing - bare_communication - bare_copy - idle
FROM known;
