-- Whether the capture could record each kind of device work of a rank. Where it could not, every number that follows
-- from it is NULL. Without a recorded device, an empty table of copies or collectives means nothing either. In a job of
-- several ranks none of the work may have been told to be communication. Then its table is absent and the device's work
-- is complete all the same.
CREATE OR REPLACE VIEW device_coverage (
    rank,          -- captured rank
    computing,     -- kernels were recorded: there are some, or the capture says that there were none
    communication, -- as computing, for communication operators
    copy,          -- as computing, for memory copies
    complete       -- no work is missing: what runs in no span did not run
) AS
WITH seen AS (
    SELECT
        rank, bool_or(kind IN ('kernel', 'memset')) AS kernel,
        bool_or(kind = 'comm_op' OR (kind = 'kernel' AND span_id IN (
            SELECT span_id FROM comm WHERE op_span_id = span_id
        ))) AS comm,
        bool_or(kind = 'memcpy') AS transfer
    FROM span GROUP BY rank
), absent AS (
    SELECT
        rank, bool_or(table_name = 'kernel') AS kernel, bool_or(table_name = 'comm') AS comm,
        bool_or(table_name = 'transfer') AS transfer
    FROM coverage WHERE status = 'absent' GROUP BY rank
), told AS (
    SELECT
        rank.rank, coalesce(seen.kernel, false) OR NOT coalesce(absent.kernel, false) AS computing,
        coalesce(seen.comm, false) AS comm, coalesce(absent.comm, false) AS no_comm,
        coalesce(seen.transfer, false) AS transfer, coalesce(absent.transfer, false) AS no_transfer
    FROM rank LEFT JOIN seen USING (rank) LEFT JOIN absent USING (rank)
)
SELECT
    told.rank, computing, comm OR (computing AND NOT no_comm), transfer OR (computing AND NOT no_transfer),
    coalesce(device_time.idle_ns IS NOT NULL, false)
FROM told LEFT JOIN device_time ON device_time.rank = told.rank AND device_time.step IS NULL;
