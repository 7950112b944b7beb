-- The tasks inside communication operators and what each of them is. It waits for a peer, tells a peer something, or
-- moves data.
CREATE OR REPLACE VIEW comm_task (
    span_id,       -- the task
    rank,          -- captured rank
    step,          -- the recorded step in which it starts
    op_id,         -- span_id of its operator; NULL: which one it belongs to was not recorded
    plane,         -- communication plane
    part,          -- 'wait', 'signal' or 'transfer'
    peer,          -- the other rank of the job, where it could be told
    peer_local,    -- the other rank, as numbered within the group
    bytes,         -- what it moves
    ts_ns,         -- start, from run.origin_ns
    end_ns         -- end, from run.origin_ns
) AS
SELECT
    span_id, rank, s.step, c.op_span_id, c.plane,
    CASE
        WHEN c.task_type ILIKE '%wait%' THEN 'wait'  -- Notify_Wait, Notify Wait
        -- Notify_Record, Write Value, RDMA_SEND_NOTIFY
        WHEN c.task_type ILIKE '%record%' OR c.task_type ILIKE '%value%' OR c.task_type ILIKE '%notify%' THEN 'signal'
        ELSE 'transfer'
    END,
    c.dst_rank, c.dst_local, c.bytes, s.ts_ns, s.ts_ns + s.dur_ns
FROM comm c JOIN span s USING (rank, span_id) WHERE c.task_type IS NOT NULL AND s.kind <> 'comm_op';
