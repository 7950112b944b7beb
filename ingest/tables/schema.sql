-- THE CONTRACT. Every table npulens stores, every column, its unit and its meaning.
-- Readers fill these tables, views and detectors read them, docs/tables.md is generated from them.
--
-- Rules that hold everywhere:
--   * every time is a whole number of nanoseconds (_ns); every ts_ns counts from run.origin_ns;
--   * NULL means "not recorded"; 0 means "recorded, and none";
--   * span_id, track and link ends are unique within the run;
--   * what a reader met and no column holds is kept verbatim in arg, or counted in coverage.
-- schema-version: 5

-- One session of a job as a profiler saw it. One row.
CREATE TABLE run (
    run_id          VARCHAR NOT NULL,  -- content hash of (path within the capture, bytes) of every file read
    schema_version  INTEGER NOT NULL,  -- version of this file; another version means "load again"
    origin_ns       BIGINT NOT NULL,   -- the earliest stamp of any rank, in ns since 1970 (of an unknown epoch if clock says so)
    clock           VARCHAR NOT NULL,  -- 'unix' if stamps are wall clock, 'monotonic' if their zero is unknown, 'none' if there is not one
    status          VARCHAR NOT NULL,  -- 'complete' or 'partial'
    reason          VARCHAR,           -- why it is partial, in one sentence
    said            VARCHAR,           -- JSON: the reason as the name of a message and its values
    formats         VARCHAR[] NOT NULL,-- readers that contributed
    world_size      INTEGER,           -- ranks the job had, as its metadata says; NULL where nothing says
    missing_ranks   INTEGER[]          -- ranks the job had, as its metadata or its communication says, and this run does not hold; NULL when neither does
);

-- One row per captured rank.
CREATE TABLE rank (
    rank            INTEGER NOT NULL,  -- process of the job; never the device id
    rank_source     VARCHAR NOT NULL,  -- where the number comes from: 'file name', 'metadata', 'directory name', 'database', 'device id', 'assumed'
    path            VARCHAR NOT NULL,  -- path within the capture
    formats         VARCHAR[] NOT NULL,-- readers that contributed to this rank
    status          VARCHAR NOT NULL,  -- 'complete' or 'partial'
    reason          VARCHAR,           -- why it is partial
    said            VARCHAR,           -- JSON: the reason as the name of a message and its values
    backend         VARCHAR,           -- 'npu', 'cuda', 'rocm', 'mtia', 'cpu'
    device_id       INTEGER,           -- device the rank ran on
    device_name     VARCHAR,           -- as the profiler names it, e.g. Ascend910B
    host            VARCHAR,           -- host name or id
    pid             BIGINT,            -- process id of the rank
    first_ns        BIGINT,            -- first stamp of the rank, from run.origin_ns
    last_ns         BIGINT,            -- last stamp of the rank, from run.origin_ns
    events          BIGINT NOT NULL,   -- events and rows kept from its files
    dropped         BIGINT NOT NULL,   -- events and rows not kept, with reasons in coverage
    profiler_level  VARCHAR,           -- torch_npu profiler level
    settings        VARCHAR,           -- JSON: the profiler's own configuration; of msprof only that it was msprof
    versions        VARCHAR,           -- JSON: torch, torch_npu, cann, driver... as recorded
    environment     VARCHAR            -- JSON: environment variables the profiler recorded
);

-- What each rank recorded, table by table. One row per rank and table, always.
CREATE TABLE coverage (
    rank            INTEGER NOT NULL,  -- rank of the job
    table_name      VARCHAR NOT NULL,  -- a table of this file
    status          VARCHAR NOT NULL,  -- 'recorded', 'partial' or 'absent'
    rows            BIGINT NOT NULL,   -- rows stored
    expected        BIGINT,            -- rows there would be if nothing were missing (for link: device spans a host call must have launched)
    dropped         BIGINT NOT NULL,   -- rows or events met but not kept
    reason          VARCHAR,           -- what is missing or was dropped, and why
    said            VARCHAR,           -- JSON: the reason as the name of a message and its values
    collect_with    VARCHAR,           -- the collector setting that records it
    collect_said    VARCHAR            -- JSON: the same as a message, where it is more than a setting
);

-- One lane of the timeline.
CREATE TABLE track (
    track           BIGINT NOT NULL,   -- unique within the run
    rank            INTEGER NOT NULL,  -- rank of the job
    kind            VARCHAR NOT NULL,  -- 'host_thread', 'stream', 'comm_group', 'comm_plane', 'profiler', 'other'
    name            VARCHAR NOT NULL,  -- text to draw
    process         VARCHAR,           -- process the profiler filed it under, e.g. 'CANN', 'Ascend Hardware'
    pid             VARCHAR,           -- as written in the file
    tid             VARCHAR,           -- as written in the file
    stream          BIGINT,            -- device stream id
    group_name      VARCHAR,           -- communication group
    plane           INTEGER,           -- communication plane
    sort            INTEGER            -- order in which the profiler shows it
);

-- An interval on a track. Sorted by track, ts_ns, longest first.
CREATE TABLE span (
    span_id         BIGINT NOT NULL,   -- unique within the run
    rank            INTEGER NOT NULL,  -- rank of the job
    track           BIGINT NOT NULL,   -- the track it lies on
    kind            VARCHAR NOT NULL,  -- host: 'cpu_op','python','annotation','step_mark','runtime','enqueue','dequeue','gc','host_other'; device: 'kernel','memset','memcpy','comm_op','comm_task','unknown' (work that nothing told to compute or to communicate),'wait','device_annotation','device_other'; 'profiler_split' for the profiler's own overlap lanes
    name            VARCHAR NOT NULL,  -- as the profiler names it
    ts_ns           BIGINT NOT NULL,   -- start, from run.origin_ns
    dur_ns          BIGINT NOT NULL,   -- never negative; instants have 0
    step            BIGINT,            -- the recorded step in whose window it starts
    parent_id       BIGINT,            -- innermost span of the same track that contains it
    depth           INTEGER NOT NULL   -- lane within the track: spans of one lane never overlap; children lie below their parent
);

-- A device task that computes (also memsets), keyed by span_id. One that has a row in comm as well communicates at the
-- same time (Ascend: MatmulAllReduce and its like). It counts as computing and as communication, so it is not exposed.
CREATE TABLE kernel (
    span_id         BIGINT NOT NULL,   -- the span this row is of
    rank            INTEGER NOT NULL,  -- rank of the job
    op_span_id      BIGINT,            -- the host operator that launched it, where the profiler says so itself (Kineto: External id)
    op_type         VARCHAR,           -- MatMulV2, Conv2D...
    core            VARCHAR,           -- AI_CORE, AI_VECTOR_CORE, MIX_AIV, AI_CPU, DSA_SQE...
    task_type       VARCHAR,           -- hardware task type
    stream          BIGINT,            -- device stream id
    task_id         BIGINT,            -- number of the task in its stream, as the device counts
    model_id        BIGINT,            -- model the task belongs to, as CANN numbers it
    context_id      BIGINT,            -- sub-task of a task, as CANN numbers it
    block_num       BIGINT,            -- cores or blocks it was split over
    mix_block_num   BIGINT,            -- cores of the other kind, where a kernel uses both
    op_state        VARCHAR,           -- static or dynamic
    hf32            VARCHAR,           -- HF32 eligible
    input_shapes    VARCHAR,           -- tensors separated by ';'
    input_dtypes    VARCHAR,           -- types of the input tensors, separated by ';'
    input_formats   VARCHAR,           -- memory layouts of the input tensors, separated by ';'
    output_shapes   VARCHAR,           -- shapes of the output tensors, separated by ';'
    output_dtypes   VARCHAR,           -- types of the output tensors, separated by ';'
    output_formats  VARCHAR,           -- memory layouts of the output tensors, separated by ';'
    wait_ns         BIGINT,            -- wait before it started, as the profiler says
    grid            VARCHAR,           -- CUDA and ROCm: launch grid
    block           VARCHAR,           -- CUDA and ROCm: thread block
    registers       BIGINT,            -- CUDA: registers per thread
    shared_bytes    BIGINT,            -- CUDA: shared memory
    occupancy_percent DOUBLE           -- CUDA: estimated achieved occupancy
);

-- Counters of the AI cores per kernel, long: one row per kernel and metric (which metrics depends on aic_metrics).
CREATE TABLE pmu (
    span_id         BIGINT NOT NULL,   -- the span this row is of
    rank            INTEGER NOT NULL,  -- rank of the job
    metric          VARCHAR NOT NULL,  -- as the profiler names it, e.g. aic_mac_ratio
    value           DOUBLE NOT NULL    -- its value; the unit is in the metric's name
);

-- A memory copy, keyed by span_id.
CREATE TABLE transfer (
    span_id         BIGINT NOT NULL,   -- the span this row is of
    rank            INTEGER NOT NULL,  -- rank of the job
    direction       VARCHAR,           -- 'h2d','d2h','d2d','h2h','p2p'
    bytes           BIGINT,            -- bytes copied
    bandwidth_bytes_per_s DOUBLE,      -- as the profiler says
    blocking        BOOLEAN            -- the host waited for it
);

-- A communication operator or one of its tasks, or a kernel that communicates while it computes, keyed by span_id.
CREATE TABLE comm (
    span_id         BIGINT NOT NULL,   -- the span this row is of
    rank            INTEGER NOT NULL,  -- rank of the job
    op_span_id      BIGINT,            -- for a task: its operator; for an operator and for a kernel: itself
    collective      VARCHAR,           -- allreduce, allgather, send, receive, batchsendrecv...
    group_name      VARCHAR,           -- group as the profiler names it
    plane           INTEGER,           -- communication plane
    task_type       VARCHAR,           -- Notify_Wait, Notify_Record, Memcpy, Reduce_Inline, RDMASend...
    src_rank        INTEGER,           -- global rank, where it could be told
    dst_rank        INTEGER,           -- global rank it sends to, where it could be told
    src_local       INTEGER,           -- rank within the group, as written
    dst_local       INTEGER,           -- receiving rank within the group, as written
    bytes           BIGINT,            -- bytes sent or received, as the profiler says
    count           BIGINT,            -- elements
    dtype           VARCHAR,           -- type of the elements
    algorithm       VARCHAR,           -- algorithm of the collective, as the profiler names it
    transport       VARCHAR,           -- SDMA, RDMA, LOCAL...
    link_type       VARCHAR,           -- HCCS, PCIE, ON_CHIP...
    bandwidth_bytes_per_s DOUBLE,      -- as the profiler says
    notify_id       VARCHAR,           -- notification that a task records or waits for
    stream          BIGINT,            -- device stream id
    task_id         BIGINT,            -- number of the task in its stream, as the device counts
    relay           INTEGER,           -- 1: another link stood in, as the profiler says
    retry           INTEGER,           -- 1: data was sent again, as the profiler says
    transit_ns      BIGINT,            -- the profiler's own analysis of the operator
    wait_ns         BIGINT,            -- the profiler's own analysis of the operator
    synchronization_ns BIGINT,         -- the profiler's own analysis of the operator
    idle_ns         BIGINT,            -- the profiler's own analysis of the operator
    by_stream       BOOLEAN            -- true: a task that neither its name nor a launch ties to communication, told by its stream
);

-- Bandwidth between ranks as the profiler summarised it (communication_matrix.json, CommAnalyzerMatrix).
CREATE TABLE comm_link (
    rank            INTEGER NOT NULL,  -- rank of the job
    step            VARCHAR,           -- as written
    scope           VARCHAR,           -- 'p2p' or 'collective'
    collective      VARCHAR,           -- e.g. allreduce-top1
    group_name      VARCHAR,           -- communication group
    op_name         VARCHAR,           -- communication operator, as the profiler names it
    src_rank        INTEGER,           -- as written; may be group-local
    dst_rank        INTEGER,           -- as written; may be group-local
    transport       VARCHAR,           -- SDMA, RDMA, LOCAL...
    bytes           BIGINT,            -- bytes sent or received, as the profiler says
    transit_ns      BIGINT,            -- time spent transferring, as the profiler says
    bandwidth_bytes_per_s DOUBLE       -- as the profiler says
);

-- Ranks that communicate with each other.
CREATE TABLE parallel_group (
    group_name      VARCHAR NOT NULL,  -- as communication operators name it
    rank            INTEGER NOT NULL,  -- the captured rank that reported it
    kind            VARCHAR,           -- tp, pp, dp, ep..., default_group
    ranks           INTEGER[],         -- global ranks in group order
    source          VARCHAR NOT NULL   -- where it was read
);

-- The launch arrow from a host span to a device span, or between host spans.
CREATE TABLE link (
    rank            INTEGER NOT NULL,  -- rank of the job
    src_span_id     BIGINT NOT NULL,   -- the span the arrow starts at
    dst_span_id     BIGINT NOT NULL,   -- the span the arrow ends at
    route           VARCHAR NOT NULL,  -- how it was found: 'host_to_device', 'task_queue', 'torch_to_npu', 'fwdbwd', 'correlation', 'connection_id', 'ac2g', 'external_id'; of a job on a CPU 'itself' (an operator is its own task) and 'order' (the n-th call is the n-th collective)
    latency_ns      BIGINT NOT NULL    -- destination start minus source start; may be negative: clocks differ
);

-- What a host operator was called with.
CREATE TABLE host_op (
    span_id         BIGINT NOT NULL,   -- the span this row is of
    rank            INTEGER NOT NULL,  -- rank of the job
    input_shapes    VARCHAR,           -- shapes of the input tensors, separated by ';'
    input_dtypes    VARCHAR,           -- types of the input tensors, separated by ';'
    sequence        BIGINT,            -- autograd sequence number
    fwd_thread      BIGINT,            -- thread of the forward operator
    external_id     BIGINT,            -- Kineto: External id
    correlation     BIGINT             -- Kineto: correlation; torch_npu: correlation_id or connection_id
);

-- The Python frames above a host span.
CREATE TABLE stack (
    span_id         BIGINT NOT NULL,   -- the span this row is of
    rank            INTEGER NOT NULL,  -- rank of the job
    frames          VARCHAR NOT NULL   -- innermost first, one frame a line
);

-- Arguments of a span that no column holds, verbatim.
CREATE TABLE arg (
    span_id         BIGINT NOT NULL,   -- the span this row is of
    rank            INTEGER NOT NULL,  -- rank of the job
    args            VARCHAR NOT NULL   -- JSON object, as written
);

-- A counter: one value at one time.
CREATE TABLE sample (
    rank            INTEGER NOT NULL,  -- rank of the job
    counter         VARCHAR NOT NULL,  -- e.g. 'AI Core Freq', 'HBM 0/Read', 'APP/DDR'
    series          VARCHAR NOT NULL,  -- e.g. 'MHz', 'KB'
    ts_ns           BIGINT NOT NULL,   -- moment of the value, from run.origin_ns
    value           DOUBLE NOT NULL    -- its value; the unit is in series
);

-- State of the memory pools over time.
CREATE TABLE memory_sample (
    rank            INTEGER NOT NULL,  -- rank of the job
    component       VARCHAR NOT NULL,  -- PTA, GE, PTA+GE, APP, WORKSPACE, or a module of npu_module_mem
    ts_ns           BIGINT NOT NULL,   -- moment of the value, from run.origin_ns
    allocated_bytes BIGINT,            -- bytes that tensors hold
    reserved_bytes  BIGINT,            -- bytes that the allocator took from the device
    active_bytes    BIGINT,            -- bytes in use, or freed and still waited for by a stream
    stream_ptr      VARCHAR,           -- address of the stream
    device          VARCHAR            -- the device, as written
);

-- A block of device memory from allocation to release.
CREATE TABLE memory_event (
    rank            INTEGER NOT NULL,  -- rank of the job
    ts_ns           BIGINT,            -- allocation; NULL: before the capture
    dur_ns          BIGINT,            -- until release; NULL: not released in the capture
    active_dur_ns   BIGINT,            -- until no stream uses it any more
    name            VARCHAR,           -- operator that allocated
    bytes           BIGINT NOT NULL,   -- negative for a release reported on its own
    address         VARCHAR,           -- address of the block
    allocated_bytes BIGINT,            -- pool totals at the allocation
    reserved_bytes  BIGINT,            -- pool totals at the allocation
    active_bytes    BIGINT,            -- pool totals at the allocation
    release_allocated_bytes BIGINT,    -- pool totals at the release
    release_reserved_bytes  BIGINT,    -- pool totals at the release
    release_active_bytes    BIGINT,    -- pool totals at the release
    stream_ptr      VARCHAR,           -- address of the stream
    device          VARCHAR            -- the device, as written
);

-- A recorded training or inference step. Windows tile: each runs to the next mark.
CREATE TABLE step (
    rank            INTEGER NOT NULL,  -- rank of the job
    step            BIGINT NOT NULL,   -- its number, as the profiler counts
    ts_ns           BIGINT NOT NULL,   -- host mark
    dur_ns          BIGINT NOT NULL,   -- to the next mark; the last to the later of its host end and its last device span
    host_dur_ns     BIGINT,            -- length of the host mark itself
    device_ts_ns    BIGINT,            -- the profiler's device-side start of the step
    device_dur_ns   BIGINT,            -- the profiler's device-side length of the step
    phase           VARCHAR,           -- what a serving engine's step did: 'prefill', 'decode' or 'mixed'
    source          VARCHAR NOT NULL   -- 'ProfilerStep', 'engine annotation' (vLLM, SGLang), 'STEP_TIME', 'kernel_details', 'device annotation', 'step_trace': the device's own marks
);

-- The profiler's own split per step, as its file says.
CREATE TABLE profiler_step (
    rank            INTEGER NOT NULL,  -- rank of the job
    step            BIGINT,            -- NULL: the file gives no step
    computing_ns    BIGINT,            -- as the file says
    communication_ns BIGINT,           -- as the file says
    communication_not_overlapped_ns BIGINT, -- as the file says
    overlapped_ns   BIGINT,            -- as the file says
    free_ns         BIGINT,            -- as the file says
    stage_ns        BIGINT,            -- as the file says
    bubble_ns       BIGINT,            -- as the file says
    communication_not_overlapped_exclude_receive_ns BIGINT, -- as the file says
    preparing_ns    BIGINT,            -- as the file says
    source          VARCHAR NOT NULL   -- 'step_trace_time.csv', 'StepTraceTime', 'cluster_step_trace_time.csv', 'ClusterStepTraceTime'
);

-- What the profiler summed itself beside the same sum over the spans of this run: a check of what reading decided.
CREATE TABLE checked (
    rank            INTEGER NOT NULL,  -- rank of the job
    source          VARCHAR NOT NULL,  -- where the sum was read: 'step_trace_time.csv', 'Overlap Analysis', 'op_statistic.csv'...
    step            BIGINT,            -- NULL: the whole capture
    quantity        VARCHAR NOT NULL,  -- 'computing', 'communication' (unions), 'kernels', 'operators' (added up)
    file_ns         BIGINT NOT NULL,   -- as the file says
    ours_ns         BIGINT NOT NULL,   -- as the spans give it
    rule            VARCHAR            -- what the file counts, to 1 %: 'kernels', 'operators', 'tasks'...; NULL: no rule in use reproduces it
);

-- Sums the profiler made itself, kept because a partial capture may have nothing else.
CREATE TABLE summary (
    rank            INTEGER NOT NULL,  -- rank of the job
    source          VARCHAR NOT NULL,  -- 'op_statistic', 'api_statistic', 'operator_details', 'communication_statistic', 'fusion_op', 'static_op_mem', 'cluster_communication', 'OPPROF' (an operator alone), 'OPPROF PipeUtilization' and other files of its blocks, 'OPPROF line', 'OPPROF instruction'; MindSpore: 'step_trace', 'aicore_intermediate_type'...
    name            VARCHAR NOT NULL,  -- as the profiler names it
    category        VARCHAR,           -- core type or API level
    count           BIGINT,            -- how often it ran
    total_ns        BIGINT,            -- time of all of them
    min_ns          BIGINT,            -- time of the shortest
    max_ns          BIGINT,            -- time of the longest
    args            VARCHAR            -- JSON: the other columns, verbatim
);

-- Hit rates of the L2 cache per task.
CREATE TABLE l2_cache (
    rank            INTEGER NOT NULL,  -- rank of the job
    span_id         BIGINT,            -- the kernel, where stream, task id and name tell it
    stream          BIGINT,            -- device stream id
    task_id         BIGINT,            -- number of the task in its stream, as the device counts
    name            VARCHAR,           -- as the profiler names it
    hit_share       DOUBLE,            -- share of accesses that hit
    victim_share    DOUBLE             -- share of accesses that missed and replaced data in the cache
);

-- How the clocks of a rank map to each other, as recorded.
CREATE TABLE clock (
    rank            INTEGER NOT NULL,  -- rank of the job
    host_start_monotonic_ns BIGINT,    -- profiler_info start_info.start_monotonic
    device_start_count BIGINT,         -- device counter at start
    device_freq_mhz DOUBLE,            -- counts of the device's clock in a microsecond
    collection_end_unix_ns BIGINT,     -- end of the collection, wall clock
    collection_end_monotonic_ns BIGINT, -- end of the collection, monotonic clock
    offset_ns       BIGINT,            -- estimated against the other ranks; NULL: not estimated
    uncertainty_ns  BIGINT             -- how far offset_ns may be off
);

-- What a rank's device did in each window, summed when the rank was loaded. One row is for the whole capture (step
-- NULL), then comes one per recorded step. Spans are clipped to the window; every kind is a union over the rank's
-- streams. The whole capture runs from the first to the last edge of host steps and device work. A rank that recorded
-- neither has one row without times.
CREATE TABLE device_time (
    rank            INTEGER NOT NULL,  -- rank of the job
    step            BIGINT,            -- NULL: the whole capture
    ts_ns           BIGINT,            -- start of the window; NULL: neither steps nor device work were recorded
    dur_ns          BIGINT,            -- its length; NULL: as ts_ns
    computing_ns    BIGINT,            -- kernels and memsets run; NULL: the rank's kernels were not recorded
    communication_ns BIGINT,           -- communication operators run, or kernels that communicate as well; NULL: not recorded, or the job has several ranks and none of its work was told to be communication
    communication_not_overlapped_ns BIGINT, -- of that, time in which nothing computes
    overlapped_ns   BIGINT,            -- of communication_ns, time in which something computes
    copy_ns         BIGINT,            -- memory copies run
    copy_not_overlapped_ns BIGINT,     -- of that, time in which nothing computes or communicates
    unknown_ns      BIGINT,            -- work runs that nothing told to compute or to communicate
    unknown_not_overlapped_ns BIGINT,  -- of that, time in which nothing computes, communicates or copies
    idle_ns         BIGINT,            -- nothing runs
    only_waiting_ns BIGINT,            -- of communication_not_overlapped_ns, time in which its tasks only wait for peers; NULL: tasks were not recorded
    kernels         BIGINT,            -- kernels and memsets that start in the window
    collectives     BIGINT,            -- communication operators that start in it, and kernels that communicate as well
    copies          BIGINT,            -- memory copies that start in it
    work_ts_ns      BIGINT             -- start of the first of them that takes time
);

-- A request to a serving engine, put together from all that tells of it. One row each, in order of ts_ns.
CREATE TABLE request (
    request         BIGINT NOT NULL,   -- unique within the run
    request_id      VARCHAR NOT NULL,  -- as the client calls it; what a server puts around it (cmpl-ID-0) is left out
    source          VARCHAR NOT NULL,  -- what told of it, joined by ', ': 'client', 'otlp', 'bench', 'aiperf', 'sglang', 'msserviceprofiler', 'ascend_trace'
    engine          VARCHAR,           -- server or engine that took it
    dp_rank         INTEGER,           -- data parallel rank of the engine
    ts_ns           BIGINT,            -- its first known moment
    dur_ns          BIGINT,            -- until its last known moment
    send_ts_ns      BIGINT,            -- the client sent it
    client_first_ts_ns BIGINT,         -- the client got the first token
    client_end_ts_ns BIGINT,           -- the client got all of the answer
    arrival_ts_ns   BIGINT,            -- the server took it
    queued_ts_ns    BIGINT,            -- the engine put it into its queue
    scheduled_ts_ns BIGINT,            -- the engine began with it
    first_token_ts_ns BIGINT,          -- the server had its first token
    last_token_ts_ns BIGINT,           -- the server had its last token
    end_ts_ns       BIGINT,            -- the server was done with it
    queue_ns        BIGINT,            -- it waited in the queue, as the engine says
    prefill_ns      BIGINT,            -- from its scheduling to its first token, as the engine says
    decode_ns       BIGINT,            -- from its first to its last token, as the engine says
    prompt_tokens   BIGINT,            -- prompt tokens
    cached_tokens   BIGINT,            -- prompt tokens found in the prefix cache
    output_tokens   BIGINT,            -- tokens of the answer
    max_tokens      BIGINT,            -- as asked for
    finish          VARCHAR,           -- why it ended: 'stop', 'length', 'abort'...
    error           VARCHAR,           -- what went wrong, as the source says
    trace_id        VARCHAR            -- of its OpenTelemetry trace
);

-- Something that happened to a request. Sorted by request, ts_ns.
CREATE TABLE request_event (
    request         BIGINT NOT NULL,   -- the request it happened to
    ts_ns           BIGINT NOT NULL,   -- its start, from run.origin_ns
    dur_ns          BIGINT NOT NULL,   -- instants have 0
    kind            VARCHAR NOT NULL,  -- 'token' (the client got some), 'state', 'queue', 'schedule', 'preempt', 'resume', 'transfer', 'front_end', 'phase', 'span'
    value           BIGINT,            -- how many tokens; the batch id of a 'schedule'; bytes or tokens of a 'transfer'
    name            VARCHAR            -- as the source calls it
);

-- An iteration of a serving engine: one forward pass of a batch. In order of engine and time.
CREATE TABLE iteration (
    iteration       BIGINT NOT NULL,   -- unique within the run
    source          VARCHAR NOT NULL,  -- what told of it, joined by ', ': 'annotation' (a trace's), 'log', 'batch' (msServiceProfiler), 'schedule' (SGLang), 'fpm' (Dynamo), 'stats'
    engine          VARCHAR,           -- server or engine that ran it
    dp_rank         INTEGER,           -- data parallel rank of the engine
    number          BIGINT,            -- the engine's own; each engine counts by itself
    rank            INTEGER,           -- rank whose step it is
    step            BIGINT,            -- that step; NULL: no trace holds it
    ts_ns           BIGINT,            -- start; NULL: nothing tells when
    dur_ns          BIGINT,            -- how long it took; NULL: only its submission was recorded
    ts_error_ns     BIGINT,            -- how far ts_ns may be off; 0: recorded; NULL: ts_ns is NULL
    logged_ts_ns    BIGINT,            -- stamp of its line in a log, of whole seconds
    class           VARCHAR,           -- 'prefill', 'decode', 'mixed' or 'dummy'
    ctx_requests    BIGINT,            -- requests whose prompt was worked on
    ctx_tokens      BIGINT,            -- prompt tokens
    gen_requests    BIGINT,            -- requests that generate
    gen_tokens      BIGINT,            -- their tokens; more than requests: recomputed after a preemption, or speculated
    graph           VARCHAR,           -- how it ran: 'full', 'piecewise', 'eager'
    padded_tokens   BIGINT,            -- tokens with padding
    kv_used         DOUBLE,            -- share of the KV cache in use
    running         BIGINT,            -- requests that run, as the engine says
    waiting         BIGINT             -- requests that wait
);

-- Which request was in which iteration. Sorted by iteration, request.
CREATE TABLE member (
    iteration       BIGINT NOT NULL,   -- the iteration, a row of that table
    request         BIGINT NOT NULL,   -- the request, a row of that table
    phase           VARCHAR NOT NULL,  -- 'prefill', 'decode', or 'recompute' after a preemption
    tokens          BIGINT,            -- tokens of the request that were worked on; NULL: not known
    token           BIGINT,            -- the output token that came of it, from 0; NULL: none, or not known
    how             VARCHAR NOT NULL,  -- 'recorded', 'counts' (the engine's counts replayed in order of arrival) or 'times' (counted back from the last token)
    confidence      DOUBLE NOT NULL    -- share of the iterations of its engine in which as many requests generate as recorded; 1 if recorded
);

-- A figure of a server or of a training step: Prometheus, msServiceProfiler, the step log of verl.
CREATE TABLE serving_sample (
    ts_ns           BIGINT,            -- NULL: the source has no time
    step            BIGINT,            -- training step of an RL job
    name            VARCHAR NOT NULL,  -- as the source calls it
    labels          VARCHAR,           -- JSON
    value           DOUBLE NOT NULL,   -- its value
    source          VARCHAR NOT NULL   -- 'prometheus', 'msserviceprofiler', 'verl'...
);

-- What a role of an RL job did, and when.
CREATE TABLE stage (
    ts_ns           BIGINT NOT NULL,   -- its start, from run.origin_ns
    dur_ns          BIGINT NOT NULL,   -- its length
    name            VARCHAR NOT NULL,  -- as the source calls it, e.g. actor_compute_log_prob
    role            VARCHAR NOT NULL,  -- 'rollout', 'log_prob', 'reward', 'update', 'weights' or 'other'
    replica         INTEGER,           -- of a rollout
    role_rank       INTEGER,           -- of the role's own ranks
    step            BIGINT,            -- training step
    source          VARCHAR NOT NULL   -- 'role spans', 'role folder', 'ray timeline'
);

-- How the clocks of a serving run's sources were joined. One row a pair.
CREATE TABLE clock_join (
    source          VARCHAR NOT NULL,  -- placed on the axis of the other
    target          VARCHAR NOT NULL,  -- what the source was placed on
    pairs           BIGINT NOT NULL,   -- what both tell of
    offset_ns       BIGINT,            -- what was added to the source's stamps
    low_ns          BIGINT,            -- least delay seen from target to source; for other hosts the least offset that causality allows
    median_ns       BIGINT,            -- median delay
    high_ns         BIGINT,            -- greatest
    how             VARCHAR NOT NULL   -- 'unix' (both on this host's clock), 'causality', 'sequence', 'tokens'
);
