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
    "unlike_steps": (
        "Warning: {who}: the recorded steps ({steps}) take {shortest} to {longest}, so they are not alike; --steps-by "
        "says otherwise.",
        "警告：{who}：采集的 step（{steps}）耗时 {shortest} 到 {longest}，彼此不同；可用 --steps-by 另行指定。",
    ),
    "deferred": (
        "The data is raw. npulens collect --analyse {home} makes it readable, here or on any machine with torch_npu.",
        "数据尚未解析。在本机或任一装有 torch_npu 的机器上运行 npulens collect --analyse {home} 即可解析。",
    ),
    "rank": ("rank {rank}", "rank {rank}"),
    "process": ("process {pid}", "进程 {pid}"),
    "by_optimizer": ("optimiser steps", "优化器 step"),
    "by_forward": ("forwards", "前向计算"),
    "by_rollout": ("rollouts with their updates", "rollout 及其更新"),
    "by_time": ("slices of time", "时间片"),
}
