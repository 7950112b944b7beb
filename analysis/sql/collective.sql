-- Every communication operator: what it moves, and of its time how long it transfers and how long it waits for peers.
-- Transfers and waits are unions over all planes, so they may overlap. `only_waiting_ns` is the time in which a wait
-- runs and no transfer.
-- Needs: comm_task, launch
CREATE OR REPLACE VIEW collective (
    span_id,       -- the operator
    rank,          -- captured rank
    step,          -- the recorded step in which it starts
    ordinal,       -- its place among the operators of its group on its rank, from 0
    name,          -- its name
    collective,    -- allreduce, allgather, send, receive...
    group_name,    -- its group, as the profiler names it
    bytes,         -- bytes, as the profiler says
    ts_ns,         -- start, from run.origin_ns
    dur_ns,        -- length
    transfer_ns,   -- time in which a task of it moves data; NULL: its tasks were not recorded
    wait_ns,       -- time in which a task of it waits for a peer; NULL: as transfer_ns
    only_waiting_ns, -- of wait_ns, time in which nothing is moved; NULL: as transfer_ns
    launch_ns,     -- start of the host call that launched it, from run.origin_ns; NULL: no link was recorded
    late_launch_ns -- how long the device had been out of work when the host launched it; NULL also for first work
) AS
WITH moment AS (
    SELECT op_id, ts_ns, (part = 'wait')::TINYINT AS wait, (part = 'transfer')::TINYINT AS transfer FROM comm_task
    UNION ALL
    SELECT op_id, end_ns, -(part = 'wait')::TINYINT, -(part = 'transfer')::TINYINT FROM comm_task
), running AS (
    SELECT
        op_id, lead(ts_ns) OVER so_far - ts_ns AS dur_ns, sum(wait) OVER so_far > 0 AS wait,
        sum(transfer) OVER so_far > 0 AS transfer
    FROM moment WHERE op_id IS NOT NULL
    WINDOW so_far AS (PARTITION BY op_id ORDER BY ts_ns ROWS UNBOUNDED PRECEDING)
), part AS (
    SELECT
        op_id, coalesce(sum(dur_ns) FILTER (transfer), 0)::BIGINT AS transfer_ns,
        coalesce(sum(dur_ns) FILTER (wait), 0)::BIGINT AS wait_ns,
        coalesce(sum(dur_ns) FILTER (wait AND NOT transfer), 0)::BIGINT AS only_waiting_ns
    FROM running GROUP BY op_id
), busy AS (
    SELECT
        span_id, kind, max(ts_ns + dur_ns) OVER (
            PARTITION BY rank ORDER BY ts_ns, span_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS until_ns
    FROM span WHERE kind IN ('kernel', 'memset', 'memcpy', 'comm_op', 'unknown')
), op AS (
    SELECT
        s.span_id, s.rank, s.step, s.name, c.collective, c.group_name, c.bytes, s.ts_ns, s.dur_ns,
        row_number() OVER (PARTITION BY s.rank, c.group_name ORDER BY s.ts_ns, s.span_id) - 1 AS ordinal
    FROM span s LEFT JOIN comm c USING (span_id) WHERE s.kind = 'comm_op'
)
SELECT
    o.span_id, o.rank, o.step, o.ordinal, o.name, o.collective, o.group_name, o.bytes, o.ts_ns, o.dur_ns,
    p.transfer_ns, p.wait_ns, p.only_waiting_ns, l.launch_ns,
    CASE WHEN l.launch_ns IS NOT NULL AND b.until_ns IS NOT NULL
        THEN greatest(0, least(l.launch_ns, o.ts_ns) - b.until_ns) END
FROM op o
LEFT JOIN part p ON p.op_id = o.span_id
LEFT JOIN launch l ON l.span_id = o.span_id AND l.kind = 'comm_op'
LEFT JOIN busy b ON b.span_id = o.span_id AND b.kind = 'comm_op';
