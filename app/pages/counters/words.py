"""Hardware counters over time."""

TEXT = {
    "title": ("Counters", "硬件计数"),
    "question": (
        "What did the hardware count over time, and how does that go with the work?",
        "硬件计数随时间如何变化，与计算负载有什么关系？",
    ),
    "none": ("The capture could record counters, and holds no sample.", "采集包含硬件计数，但没有任何采样。"),
    "answer": (
        "{n} counters were sampled on {ranks} ranks, {samples} samples in all; {moving} of them change.",
        "{ranks} 个 rank 上采集了 {n} 个计数器，共 {samples} 个采样，其中 {moving} 个有变化。",
    ),
    "answer.one": (
        "One counter was sampled on {ranks} ranks, {samples} samples in all.",
        "{ranks} 个 rank 上采集了 1 个计数器，共 {samples} 个采样。",
    ),
    "clock": (
        "The AI Core clock lies between {low} and {high} MHz, {mean} MHz on average over time.",
        "AI Core 频率在 {low} 到 {high} MHz 之间，按时间平均 {mean} MHz。",
    ),
    "clock_steady": ("The AI Core clock stays at {high} MHz.", "AI Core 频率保持在 {high} MHz。"),
    "at_rating": (
        "No kernel was slowed by a clock below the rated {rated} MHz.",
        "没有算子因频率低于额定 {rated} MHz 而变慢。",
    ),
    "below_rating": (
        "On rank {rank}, {n} kernels ran below the rated {rated} MHz and took {lost} longer for it.",
        "rank {rank} 上有 {n} 个算子在低于额定 {rated} MHz 的频率下执行，因此多用 {lost}。",
    ),
    "families": ("Counters", "计数器"),
    "behind": ("Computing behind", "叠加计算状态"),
    "behind_means": (
        "The background of each panel is the share of time in which the device computes or communicates. Full "
        "height is 100 %, empty is idle.",
        "在每个小图背景上填充设备计算、通信的时间占比：满高为 100 %，空白为空闲。",
    ),
    "behind_computing": ("Computing", "计算"),
    "behind_communication": ("Communication", "通信"),
    "cut": (
        "A panel draws at most {most} series, those with the widest range; {n} more are in the table.",
        "每个小图最多绘制 {most} 条（变化范围最大的），其余 {n} 条见表格。",
    ),
    "alt": ("Counters of rank {rank} over time", "rank {rank} 的硬件计数曲线"),
    "points": ("Table: {n} drawn samples", "表格：绘制的 {n} 个采样"),
    "lowest": ("lowest, {value}", "最低 {value}"),
    "highest": ("highest, {value}", "最高 {value}"),
    "table": ("Every counter", "全部计数器"),
    "table_means": (
        "Lowest, highest and mean of the samples. A sample holds until the next one, so the mean weighs each by that "
        "time.",
        "采样的最低、最高与平均。一个采样保持到下一个为止，平均按该时间加权。",
    ),
    "still": (
        "{n} of {all} series never change, {zero} of them stay 0.",
        "{all} 条序列中 {n} 条没有变化，其中 {zero} 条始终为 0。",
    ),
    "col_rank": ("Rank", "rank"),
    "col_counter": ("Counter", "计数器"),
    "col_series": ("Series, unit", "序列，单位"),
    "col_samples": ("Samples", "采样数"),
    "col_low": ("Lowest", "最低"),
    "col_mean": ("Mean over time", "时间平均"),
    "col_high": ("Highest", "最高"),
    "col_ts_ns": ("Time, ms", "时间，ms"),
    "col_value": ("Value", "值"),
}  # fmt: skip
