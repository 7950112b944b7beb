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
}
