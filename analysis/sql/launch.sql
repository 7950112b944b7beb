-- Each device task with the host call that launched it. Of several links it is the most specific one, and of equals the
-- latest. A call of the runtime is preferred to a step of the task queue, and that to a framework operator. Tasks are
-- all device work, and whatever else on the device a link leads to (event waits, notifications).
CREATE OR REPLACE VIEW launch (
    span_id,       -- the device task
    rank,          -- captured rank
    step,          -- the recorded step in which it starts
    track,         -- its track
    kind,          -- its kind, as span.kind
    name,          -- its name
    ts_ns,         -- its start, from run.origin_ns
    dur_ns,        -- its length
    launch_id,     -- span_id of the host call; NULL: no link was recorded, and so for all that follows
    launch_kind,   -- kind of the host call, as span.kind
    launch_ns,     -- its start, from run.origin_ns
    latency_ns,    -- start of the task minus start of the host call; what waits on the stream waits in here too
    negative       -- the task starts before its own launch: the clocks of host and device differ
) AS
WITH host AS (
    SELECT
        span_id, ts_ns,
        list_position([
            'runtime', 'dequeue', 'enqueue', 'cpu_op', 'python', 'annotation', 'gc', 'host_other', 'step_mark'
        ], kind)::TINYINT AS distance
    FROM span
    WHERE kind IN ('runtime', 'dequeue', 'enqueue', 'cpu_op', 'python', 'annotation', 'gc', 'host_other', 'step_mark')
), task AS NOT MATERIALIZED (
    SELECT span_id, rank, step, track, kind, name, ts_ns, dur_ns
    FROM span WHERE kind IN ('kernel', 'memset', 'memcpy', 'comm_op', 'comm_task', 'unknown', 'wait', 'device_other')
), call AS (
    -- The kind is repeated so that asking for one kind of task reads the links of no other.
    SELECT task.span_id, task.kind, min((host.distance, -host.ts_ns, host.span_id)) AS nearest
    FROM link JOIN task ON task.span_id = link.dst_span_id JOIN host ON host.span_id = link.src_span_id
    GROUP BY task.span_id, task.kind
), launched AS (
    SELECT
        task.*, nearest[3] AS launch_id, -nearest[2] AS launch_ns,
        ['runtime', 'dequeue', 'enqueue', 'cpu_op', 'python', 'annotation', 'gc', 'host_other', 'step_mark'][nearest[1]]
            AS launch_kind
    FROM task LEFT JOIN call ON call.span_id = task.span_id AND call.kind = task.kind
)
SELECT
    span_id, rank, step, track, kind, name, ts_ns, dur_ns, launch_id, launch_kind, launch_ns, ts_ns - launch_ns,
    ts_ns < launch_ns
FROM launched WHERE launch_id IS NOT NULL OR kind IN ('kernel', 'memset', 'memcpy', 'comm_op', 'unknown');
