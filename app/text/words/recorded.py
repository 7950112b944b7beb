"""What was recorded, what was not, and the setting that records it."""

TEXT = {
    "title": ("What was recorded", "采集了什么"),
    "summary": (
        "{recorded} of {n} tables are fully recorded on every captured rank; {absent} are on none. ● recorded   ◐ "
        "partly   – not recorded; the number is rows.",
        "{n} 张表中有 {recorded} 张在所有已采集 rank 上完整，{absent} 张完全没有。● 已采集   ◐ 部分   – 未采集；数字为"
        "行数。",
    ),
    "gaps": ("What is missing, and how to record it next time", "缺少什么，下次如何采集"),
    "notices": ("About this recording", "关于本次采集"),
    "notes": ("How it was recorded", "采集说明"),
    "no_gaps": ("Nothing is missing on the captured ranks.", "已采集的 rank 上没有缺失。"),
    "rank": ("ranks {ranks}", "rank {ranks}"),
    "rank.one": ("rank {ranks}", "rank {ranks}"),
    "ranks_missing": (
        "Ranks {ranks} of {world}: not captured. Load their directories together with these, or add them with npulens "
        "load --join.",
        "共 {world} 个 rank，rank {ranks} 未采集。请与现有目录一起加载，或用 npulens load --join 补充。",
    ),
    "ranks_missing.one": (
        "Rank {ranks} of {world}: not captured. Load its directory together with these, or add it with npulens load "
        "--join.",
        "共 {world} 个 rank，rank {ranks} 未采集。请与现有目录一起加载，或用 npulens load --join 补充。",
    ),
    "not_captured": ("not captured", "未采集"),
    "rank_missing": (
        "The job had these ranks, and the capture holds no files of theirs.",
        "任务包含这些 rank，但采集数据中没有它们的文件。",
    ),
    "state_recorded": ("recorded", "已采集"),
    "state_partial": ("partly recorded", "部分采集"),
    "state_absent": ("not recorded", "未采集"),
    "rows": ("{rows} rows", "{rows} 行"),
    "rows.one": ("1 row", "1 行"),
    "record_with": ("To record it: {setting}", "采集方法：{setting}"),
    "col_ranks": ("Ranks", "rank"),
    "for_example": ("{reason} (rank {rank}; the others alike)", "{reason}（rank {rank}，其余类似）"),
    "reason_unsaid": ("The capture does not say.", "采集数据未说明。"),
    "table_step": ("Steps", "step"),
    "table_span": ("Timeline spans", "时间线区间"),
    "table_track": ("Timeline tracks", "时间线泳道"),
    "table_kernel": ("Kernels", "算子（kernel）"),
    "table_host_op": ("Host operators", "主机侧算子"),
    "table_link": ("Launch arrows, host to device", "主机到设备的下发连线"),
    "table_comm": ("Communication operators", "通信算子"),
    "table_comm_link": ("Bandwidth between ranks", "rank 间带宽"),
    "table_parallel_group": ("Communication groups", "通信域"),
    "table_transfer": ("Memory copies", "内存拷贝"),
    "table_pmu": ("AI Core counters", "AI Core 计数器"),
    "table_l2_cache": ("L2 cache hit rates", "L2 Cache 命中率"),
    "table_sample": ("Hardware counters over time", "硬件计数曲线"),
    "table_memory_sample": ("Memory pools over time", "内存池曲线"),
    "table_memory_event": ("Memory allocations", "内存申请与释放"),
    "table_stack": ("Python call stacks", "Python 调用栈"),
    "table_profiler_step": ("Profiler's own split", "profiler 自带拆分"),
    "table_summary": ("Profiler's own summaries", "profiler 自带汇总"),
    "table_clock": ("Clock alignment", "时钟对齐"),
    "table_arg": ("Other span arguments", "其他区间参数"),
}
