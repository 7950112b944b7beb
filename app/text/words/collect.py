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
}
