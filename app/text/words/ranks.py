"""Ranks beside each other: the grid, how each stands, one step, the clocks."""

TEXT = {
    "title": ("Ranks", "各 rank 对比"),
    "question": ("Ranks: who is slow?", "各 rank：谁慢？"),
    "none": ("The capture holds no time to compare.", "采集数据中没有可比较的时间。"),
    "sums": (
        "Only the profiler's own sums are here, without spans. A step is its computing, exposed communication "
        "and free time added. Load the rank directories to see inside a step.",
        "这里只有采集器自己的汇总，没有区间：一个 step 的时长为其计算、未掩盖通信与空闲（Free）之和。要看 ste"
        "p 内部，请加载各 rank 目录。",
    ),
    "whole": ("all", "全程"),
    "spread": (
        "{n} ranks, steps recorded: {steps}. The median rank's step takes {middle}. Step times differ by "
        "{apart}: rank {low} is fastest, rank {high} slowest.",
        "{n} 个 rank，{steps} 个 step：中位 rank 的 step 为 {middle}；最短的 rank {low} 与最长的 rank {high} "
        "相差 {apart}。",
    ),
    "spread.one": (
        "One rank, steps recorded: {steps}; its median step takes {middle}.",
        "1 个 rank，{steps} 个 step：step 中位数为 {middle}。",
    ),
    "spread_whole": (
        "{n} ranks, no steps recorded. The median rank's capture takes {middle}. The ranks differ by {apart}: "
        "rank {low} is shortest, rank {high} longest.",
        "{n} 个 rank，未采集 step：中位 rank 全程 {middle}；最短的 rank {low} 与最长的 rank {high} 相差 {apart}"
        "。",
    ),
    "spread_whole.one": (
        "One rank, no steps recorded: its capture takes {middle}.",
        "1 个 rank，未采集 step：全程 {middle}。",
    ),
    "missed": (
        "They wait longest for rank {rank}, which was not captured: up to {wait} in the whole run.",
        "它们等得最久的是未采集的 rank {rank}：全程最多 {wait}。",
    ),
    "waited": (
        "The others wait longest for rank {rank}: up to {wait} in the whole run.",
        "其他 rank 等得最久的是 rank {rank}：全程最多 {wait}。",
    ),
    "computes": (
        "Rank {rank} computes longest: {more} more a step than the median.",
        "rank {rank} 计算最久：每个 step 比中位数多 {more}。",
    ),
    "grid": ("Ranks and steps", "rank × step"),
    "grid_means": (
        "One cell is one step of one rank. Only lengths are compared, so no common clock is needed. From the median: "
        "the "
        "distance from the median of all ranks in the same step.",
        "一格是一个 rank 的一个 step。只比较时长，因此不需要统一时钟。与中位数之差：与同一 step 所有 rank 的中位数之差"
        "。",
    ),
    "grid_alt": ("{what} of every rank and step, as a heat map", "每个 rank 每个 step 的{what}热力图"),
    "grid_table": ("Table: every cell, ms", "表格：每一格，ms"),
    "each": ("{each} steps a column, as their mean.", "每列为 {each} 个 step 的平均。"),
    "lacking": (
        "Not measured in this capture: {what}. What was recorded, and how to record more, stands on the run's page.",
        "本次采集无法测量：{what}。采集内容及采集方法见运行页面。",
    ),
    "metric": ("Show", "显示"),
    "metric_dur": ("Step time", "step 时间"),
    "metric_computing": ("Computing", "计算"),
    "metric_exposed": ("Exposed communication", "未掩盖的通信"),
    "metric_waiting": ("Waiting", "等待"),
    "metric_idle": ("Idle", "空闲"),
    "metric_start": ("Work start", "开始工作"),
    "means_dur": (
        "From one step mark of the host to the next. Ranks that synchronise in every step all take as long as "
        "the slowest. Computing, idle and waiting tell them apart.",
        "主机侧相邻两个 step 标记之间的时间。每步同步的任务中所有 rank 都与最慢的一样长，要区分请看计算、空闲"
        "与等待。",
    ),
    "means_computing": ("At least one kernel or memset runs.", "至少有一个算子或 memset 在执行。"),
    "means_exposed": (
        "A communication operator runs and nothing computes, waits for peers included.",
        "有通信算子在执行且没有计算，包括等待对端。",
    ),
    "means_waiting": (
        "Exposed communication in which nothing is moved: only waits for peers. The rank that waits least is the one "
        "that comes last.",
        "未掩盖通信中没有数据搬运的部分：只在等待对端。等得最少的 rank 就是最后到的。",
    ),
    "means_idle": ("Nothing runs on the device.", "设备上没有任何工作。"),
    "means_start": (
        "From the step's mark on the host to the first device work of the step.",
        "从主机侧 step 标记到该 step 第一个设备任务的时间。",
    ),
    "how": ("As", "数值"),
    "how_time": ("Time", "时间"),
    "how_apart": ("From the median", "与中位数之差"),
    "order": ("Order", "排序"),
    "order_rank": ("By rank", "按 rank"),
    "order_far": ("Most first", "最大的在前"),
    "hover": (
        "%{{y}} · step %{{x}}<br>%{{z:.6~g}} ms<extra></extra>",
        "%{{y}} · step %{{x}}<br>%{{z:.6~g}} ms<extra></extra>",
    ),
    "hover_apart": (
        "%{{y}} · step %{{x}}<br>%{{z:+.6~g}} ms from the median<extra></extra>",
        "%{{y}} · step %{{x}}<br>与中位数差 %{{z:+.6~g}} ms<extra></extra>",
    ),
    "axis_step": ("Step", "step"),
    "axis_rank": ("Rank", "rank"),
    "standing": ("How each rank stands", "各 rank 的位置"),
    "standing_means": (
        'The rank that others waited longest for comes first. "From median" is the distance from the median '
        "rank of the same step, as the median over steps. Kernels: the rank's kernel time less that of the "
        "median rank, and the kernel that differs most. Equal work on every rank makes that small.",
        "被等得最久的 rank 在前。“差”指每个 step 与中位 rank 之差，再取各 step 的中位数。算子：该 rank 算子总"
        "时间减去中位 rank 的，以及相差最大的算子；各 rank 工作量相同时很小。",
    ),
    "col_rank": ("Rank", "rank"),
    "col_waited": ("Waited for, ms", "被等待，ms"),
    "col_last": ("Came last, times", "最后到，次"),
    "col_dur": ("Median step, ms", "step 中位数，ms"),
    "col_apart_dur": ("Step, from median, ms", "step 差，ms"),
    "col_apart_computing": ("Computing, ms", "计算差，ms"),
    "col_apart_exposed": ("Exposed comm., ms", "未掩盖通信差，ms"),
    "col_apart_waiting": ("Waiting, ms", "等待差，ms"),
    "col_apart_idle": ("Idle, ms", "空闲差，ms"),
    "col_apart_start": ("Work start, ms", "开始差，ms"),
    "col_kernels": ("Kernels, ms", "算子差，ms"),
    "col_kernel": ("Differs most", "差别最大的算子"),
    "col_kernel_ns": ("By, ms", "差，ms"),
    "step": ("One step, rank by rank", "单个 step，逐 rank"),
    "step_means": (
        "Every rank in the same step, on one clock. Each slice has the colour of what the rank did for most of it; the "
        "shares are on hover. Only waiting and idle are time in which the device brings nothing forward.",
        "所有 rank 的同一个 step，按统一时钟对齐。每一小格取占比最大的状态着色，悬停可看比例。仅等待与空闲是设备没有推"
        "进的时间。",
    ),
    "pipeline": ("The pipeline in one step", "单个 step 的流水线"),
    "pipeline_means": (
        "Every rank (stage) in the same step, on one clock. Between blocks of computing lie the bubbles, in "
        "which a stage waits for its neighbour or idles. Each slice has the colour of what the rank did for "
        "most of it; the shares are on hover.",
        "所有 rank（流水级）的同一个 step，按统一时钟对齐：计算块以及它们之间的气泡（等待相邻流水级或空闲）。"
        "每一小格取占比最大的状态着色，悬停可看比例。",
    ),
    "draw": ("Draw it", "绘制"),
    "no_lanes": ("No device work of this step was recorded.", "该 step 没有采集到设备侧工作。"),
    "bubbles": (
        "Stages compute {computing} of this step; bubbles, waiting or idle, are {lost}. Rank {rank} has most: "
        "{most_ns} "
        "({most}).",
        "该 step 中各级计算占 {computing}，气泡（等待或空闲）占 {lost}。rank {rank} 最多：{most_ns}（{most}）。",
    ),
    "shares": (
        "Ranks compute {computing} of this step and wait or idle for {lost}. Rank {rank} most: {most_ns} ({most}).",
        "该 step 中各 rank 计算占 {computing}，等待或空闲占 {lost}。rank {rank} 最多：{most_ns}（{most}）。",
    ),
    "untold": (
        "Waits inside communication were not recorded: all of it counts as communicating.",
        "未采集通信内部的等待，全部计为通信。",
    ),
    "step_alt": ("What each rank does over the step", "各 rank 在该 step 内的状态"),
    "step_table": ("Table: this step, ms", "表格：该 step，ms"),
    "one_step": ("this step", "该 step"),
    "state_computing": ("Computing", "计算"),
    "state_moving": ("Communicating", "通信"),
    "state_waiting": ("Only waiting", "仅等待"),
    "state_idle": ("Idle or copying", "空闲或拷贝"),
    "lane_rank": ("rank", "rank"),
    "lane_dur": ("Step, ms", "step，ms"),
    "lane_computing": ("Computing, ms", "计算，ms"),
    "lane_moving": ("Communicating, ms", "通信，ms"),
    "lane_waiting": ("Only waiting, ms", "仅等待，ms"),
    "lane_idle": ("Idle, ms", "空闲，ms"),
    "clocks": ("The ranks' clocks", "各 rank 的时钟"),
    "clocks_means": (
        "Stamps of two ranks come from two clocks. Their distance is measured from the collectives that both took part "
        "in: nobody leaves before the last has come. What is smaller than the uncertainty says nothing.",
        "两个 rank 的时间戳来自两个时钟。其偏差由共同参与的集合通信测得：最后一个到达之前没有人能离开。小于不确定度的"
        "差别没有意义。",
    ),
    "clocks_known": (
        "{n} clocks were put on that of rank {reference}. The farthest, rank {far}, was {offset} away and is "
        "corrected. What remains unsure is at most ±{unsure} (rank {worst}); smaller differences between "
        "ranks say nothing.",
        "{n} 个时钟已对齐到 rank {reference}。偏差最大的是 rank {far}，差 {offset}，已校正；剩余不确定度最大 "
        "±{unsure}（rank {worst}），rank 间小于此值的时间差没有意义。",
    ),
    "clocks_lost": (
        "Ranks {ranks} share no collective that could compare their clocks. Their stamps are drawn as they "
        "are; which came first is not known.",
        "rank {ranks} 没有可用于比较时钟的集合通信：时间戳按原样绘制，无法判断先后。",
    ),
    "clocks_lost.one": (
        "Rank {ranks} shares no collective that could compare its clock. Its stamps are drawn as they are; "
        "whether it came first is not known.",
        "rank {ranks} 没有可用于比较时钟的集合通信：时间戳按原样绘制，无法判断先后。",
    ),
    "clocks_table": ("Table: clocks, µs", "表格：时钟，µs"),
    "clock_hover": ("rank {rank}: {offset} ± {unsure}", "rank {rank}：{offset} ± {unsure}"),
    "clock_above": ("To add to its stamps", "时间戳校正量"),
    "clock_below": ("How far off that may be", "不确定度"),
    "clock_rank": ("rank", "rank"),
    "clock_offset": ("To add to its stamps, µs", "校正量，µs"),
    "clock_unsure": ("Uncertain by, µs", "不确定度，µs"),
}  # fmt: skip
