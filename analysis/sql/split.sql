-- Where the time of each rank and step goes, exactly: the same numbers as `npulens breakdown`. Spans are clipped to the
-- window, so work counts where it runs. Every kind is a union over the rank's streams. Idle time is the time in which
-- nothing runs, found on its own and not as what is left over. It is summed when a rank is loaded.
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
    unknown_ns,       -- work runs that nothing told to compute or to communicate
    unknown_not_overlapped_ns, -- of that, time in which nothing computes, communicates or copies
    idle_ns,          -- nothing runs
    residual_ns       -- dur less computing, the three parts that are not overlapped, and idle: 0; NULL: not all known
) AS
SELECT
    rank, step, ts_ns, dur_ns, computing_ns, communication_ns, communication_not_overlapped_ns, overlapped_ns, copy_ns,
    copy_not_overlapped_ns, unknown_ns, unknown_not_overlapped_ns, idle_ns,
    dur_ns - computing_ns - coalesce(communication_not_overlapped_ns, 0) - copy_not_overlapped_ns
    - unknown_not_overlapped_ns - idle_ns
FROM device_time;
