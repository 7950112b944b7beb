"""What `collect` says of a recording besides its result. A key is a notice of the collectors."""

TEXT = {
    "first_start": (
        "The profiler's first start took {took}, before the job's first step.",
        "profiler 首次启动耗时 {took}，发生在作业第一个 step 之前。",
    ),
    "own_profiler": (
        "The job has a profiler of its own, and this one stood aside while that was on. Its traces: {traces}.",
        "作业自带 profiler，它工作期间本次采集已让位。它写出的 trace：{traces}。",
    ),
    "own_profiler_no_traces": (
        "The job has a profiler of its own, and this one stood aside while that was on.",
        "作业自带 profiler，它工作期间本次采集已让位。",
    ),
    "left_out": (
        "This torch_npu does not have these settings, and they were left out: {settings}.",
        "当前 torch_npu 不支持以下设置，已忽略：{settings}。",
    ),
    "automatic_slices": (
        "Nothing told the steps of {processes} of the job's processes, so slices of {took} were recorded; --steps-by "
        "says otherwise.",
        "作业中有 {processes} 个进程无从判断 step，因此按 {took} 的时间片采集；可用 --steps-by 另行指定。",
    ),
    "unlike_steps": (
        "Warning: {who}: the recorded steps ({steps}) take {shortest} to {longest}, so they are not alike; --steps-by "
        "says otherwise.",
        "警告：{who}：采集的 step（{steps}）耗时 {shortest} 到 {longest}，彼此不同；可用 --steps-by 另行指定。",
    ),
    "others": (
        "Other nodes still collect into this directory ({others}); the one that ends last judges and loads what all of "
        "them left.",
        "仍有其他节点在向该目录采集（{others} 个）；由最后结束的节点统一检查并加载全部结果。",
    ),
    "limit_disk": (
        "The recording ended early. It came to {bytes}, and --max-disk allows {limit_bytes}. {kept} of "
        "{wanted} steps are kept, and the job went on.",
        "采集提前结束：数据量达到 {bytes}，而 --max-disk 只允许 {limit_bytes}；已保留 {wanted} 个 step 中的 {kept}"
        " 个，作业继续运行。",
    ),
    "limit_free": (
        "The recording ended early. {bytes} would stay free on the disk of {place}, and --keep-free wants "
        "{limit_bytes}. {kept} of {wanted} steps are kept, and the job went on.",
        "采集提前结束：{place} 所在磁盘只会剩余 {bytes}，而 --keep-free 要求保留 {limit_bytes}；已保留 {wanted}"
        " 个 step 中的 {kept} 个，作业继续运行。",
    ),
    "limit_memory": (
        "The recording ended early. Writing the trace may take {bytes} of memory, and {limit_bytes} are "
        "there. {kept} of {wanted} steps are kept, and the job went on.",
        "采集提前结束：写出 trace 可能需要 {bytes} 内存，而可用内存只有 {limit_bytes}；已保留 {wanted} 个 ste"
        "p 中的 {kept} 个，作业继续运行。",
    ),
    "deferred": (
        "The data is raw. npulens collect --analyse {home} makes it readable, here or on any machine with torch_npu.",
        "数据尚未解析。在本机或任一装有 torch_npu 的机器上运行 npulens collect --analyse {home} 即可解析。",
    ),
    "rank": ("rank {rank}", "rank {rank}"),
    "process": ("process {pid}", "进程 {pid}"),
    "by_optimizer": ("optimiser steps", "优化器 step"),
    "by_forward": ("forwards", "前向计算"),
    "by_backward": ("backwards", "反向计算"),
    "by_scheduler": ("scheduler steps", "学习率调度器 step"),
    "by_rollout": ("rollouts with their updates", "rollout 及其更新"),
    "by_time": ("slices of time", "时间片"),
    "serve_done": (
        "{done} of {of} requests ended well. None was sent more than {late} late.",
        "{of} 个请求中有 {done} 个正常结束；发送最多晚了 {late}。",
    ),
    "serve_window_taken": (
        "The profiler's window holds {iterations} iterations. Its start took {start}, its stop and export {export}.",
        "profiler 窗口包含 {iterations} 次迭代；启动耗时 {start}，停止及导出耗时 {export}。",
    ),
    "serve_cost_itl": (
        "Between two tokens, in the middle: {itl_without} without the profiler, {itl_with} with it.",
        "相邻 token 间隔的中位数：未开启 profiler 时 {itl_without}，开启时 {itl_with}。",
    ),
    "serve_cost_calls": (
        "While it was started and stopped, a request waited {silence} for a token; without it {silence_without} at "
        "most. Requests that were open then: {n}.",
        "启动与停止期间，请求最长 {silence} 没有收到 token；其他时间最长 {silence_without}。受影响的请求：{n} 个。",
    ),
    "serve_not_measured": ("not measured", "未测得"),
    "serve_failed_requests": (
        "{failed} of {of} requests failed. The first: {reason}",
        "{of} 个请求中有 {failed} 个失败。第一个的原因：{reason}",
    ),
    "serve_no_spans": (
        "No spans came to port {port}. The server needs --otlp-traces-endpoint http://127.0.0.1:{port}/v1/traces",
        "端口 {port} 没有收到 span。服务端需要 --otlp-traces-endpoint http://127.0.0.1:{port}/v1/traces",
    ),
    "serve_spans_by_grpc": (
        "The server exports spans by gRPC, which is not received here. It needs "
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf",
        "服务端用 gRPC 导出 span，此处无法接收。请为其设置 OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf",
    ),
    "serve_spans_missing": (
        "The spans of {missing} of {of} requests have not come.",
        "{of} 个请求中有 {missing} 个的 span 没有到达。",
    ),
    "serve_no_iterations": (
        "No log told of iterations: --log FILE, and vLLM with --enable-logging-iteration-details",
        "没有迭代日志：请使用 --log FILE，并为 vLLM 加上 --enable-logging-iteration-details",
    ),
    "serve_window": ("The profiler's window: {reason}", "profiler 窗口：{reason}"),
}
