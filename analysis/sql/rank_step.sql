-- Ranks times steps: the split of each, and how much work starts in it. It also says what of exposed communication is
-- nothing but waiting for peers. One row per rank and recorded step, and one per rank for the whole capture. It is
-- summed when a rank is loaded.
CREATE OR REPLACE VIEW rank_step (
    rank,             -- captured rank
    step,             -- recorded step; NULL: the whole capture
    start_ns,         -- start of the window, from run.origin_ns
    dur_ns,           -- its length
    computing_ns,     -- kernels and memsets run
    communication_ns, -- communication operators run
    communication_not_overlapped_ns, -- of that, time in which nothing computes
    only_waiting_ns,  -- of that, time in which they only wait for peers; NULL: their tasks were not recorded
    copy_ns,          -- memory copies run
    copy_not_overlapped_ns, -- of that, time in which nothing computes or communicates
    unknown_not_overlapped_ns, -- work runs of which nobody knows what it does, and nothing else does
    idle_ns,          -- nothing runs
    kernels,          -- kernels and memsets that start in the window; NULL: not recorded
    collectives,      -- communication operators that start in it; NULL: not recorded
    copies            -- memory copies that start in it; NULL: not recorded
) AS
SELECT
    rank, step, ts_ns, dur_ns, computing_ns, communication_ns, communication_not_overlapped_ns, only_waiting_ns,
    copy_ns, copy_not_overlapped_ns, unknown_not_overlapped_ns, idle_ns, kernels, collectives, copies
FROM device_time;
