"""What is said of head against base: the verdict, how it came about, what would settle it, what moved."""

TEXT = {
    "regressed": ("Regressed", "变慢"),
    "improved": ("Improved", "变快"),
    "same": ("The same", "相同"),
    "ambiguous": ("Cannot tell", "无法判断"),
    "change": (
        "{word}: {base} → {head}, {change} ({share}).",
        "{word}：{base} → {head}，{change}（{share}）。",
    ),
    "interval": (
        "{sure} interval of the change: {low} to {high}.",
        "变化的 {sure} 区间：{low} 至 {high}。",
    ),
    "no_interval": (
        "Only {n} to compare on a side: too few for a confidence interval.",
        "某一侧只有 {n} 个值，不足以给出置信区间。",
    ),
    "means_same": ("All of it lies within ±{margin}.", "整个区间在 ±{margin} 之内。"),
    "means_ambiguous": (
        "It neither leaves out 0 nor lies within ±{margin}, or there are too few values for a verdict.",
        "区间既不排除 0，也不在 ±{margin} 之内，或者值太少，无法下结论。",
    ),
    "method_captures": (
        "Two captures, judged by their steps, in {n} blocks or more. With one capture a side, normal "
        "run-to-run variation cannot be ruled out.",
        "这是两次采集，按 step 判断（至少 {n} 块）。每侧只有一次采集，无法排除正常波动。",
    ),
    "method_captures.one": (
        "Two captures, at least one with a single step. With one capture a side, normal run-to-run variation cannot "
        "be ruled out.",
        "这是两次采集，其中至少一次只有一个 step。每侧只有一次采集，无法排除正常波动。",
    ),
    "method_captures_whole": (
        "Two captures, each as a whole. With one capture a side, normal run-to-run variation cannot be ruled out.",
        "这是两次采集，各按全程比较。每侧只有一次采集，无法排除正常波动。",
    ),
    "method_captures_given": (
        "Two captures, judged by their steps, in {n} blocks or more, with the drift you gave: {drift} from capture to "
        "capture.",
        "两次采集，按 step 判断（至少 {n} 块），并计入给定的漂移：每次采集之间 {drift}。",
    ),
    "method_captures_history": (
        "Two captures, judged by their steps, in {n} blocks or more. The drift from capture to capture is taken from "
        "{captures} earlier captures of {workload} in the history: {drift}. --drift 0 leaves it out.",
        "两次采集，按 step 判断（至少 {n} 块）。采集之间的漂移取自历史中 {workload} 的 {captures} 次采集：{drift}。"
        "用 --drift 0 可不计入。",
    ),
    "drift_off": (
        "Drift from capture to capture is not counted, as asked.",
        "按要求不计入采集之间的漂移。",
    ),
    "method_pairs": (
        "{n} pairs of captures recorded in turns: drift hits both sides alike.",
        "{n} 对交替采集：漂移对两侧影响相同。",
    ),
    "method_sets": (
        "Captures of each side taken as independent, {n} on the smaller side.",
        "两侧的采集视为相互独立，较少的一侧 {n} 次。",
    ),
    "method_ranks": (
        "Two ranks of one capture, step by step, in {n} blocks.",
        "同一次采集的两个 rank，逐 step 比较（{n} 块）。",
    ),
    "batches": (
        "All captures of one side were recorded before those of the other: drift between the batches counts as change.",
        "一侧的采集全部早于另一侧：两批之间的漂移会被算作变化。",
    ),
    "method_ranks.one": ("Two ranks in one step.", "两个 rank 的同一个 step。"),
    "method_ranks_whole": (
        "Two ranks of one capture, each as a whole.",
        "同一次采集的两个 rank，各按全程比较。",
    ),
    "ranks_even": (
        "Ranks wait for each other, so both take about equally long; what differs is what fills that time.",
        "各 rank 互相等待，用时大致相同，差异在于时间的组成。",
    ),
    "ranks_uneven": (
        "They do not take equally long. By the recorded clock, rank {head} begins {begins} and ends {ends} than rank "
        "{base}, in the mean of what is compared.",
        "两者用时不同：按采集的时钟，参与对比的部分中，rank {head} 平均比 rank {base} 开始{begins}、结束{ends}。",
    ),
    "later": ("{time} later", "晚 {time}"),
    "earlier": ("{time} earlier", "早 {time}"),
    "method_steps": (
        "Steps of one capture, in {n} blocks or more on each side.",
        "同一次采集的 step，每侧至少 {n} 块。",
    ),
    "method_steps.one": (
        "Single steps cannot tell a change from chance. Take this as where to look, not as proof.",
        "仅凭单个 step 无法区分真实变化与偶然。请把结果当作排查方向，而不是结论。",
    ),
    "settles_steps": (
        "To be sure, record several captures of each: about {n} pairs in turns.",
        "要得出结论，请交替采集约 {n} 对，每种配置各采集多次。",
    ),
    "settles_captures": (
        "To be sure, record about {n} pairs of captures in turns (base, head, head, base, …).",
        "要对任务下结论，请交替采集约 {n} 对（基线、对比、对比、基线……）。",
    ),
    "settles_ranks": (
        "Whether it stays so in other captures: about {n} captures would tell.",
        "其他采集是否也如此：约 {n} 次采集可以回答。",
    ),
    "settles_pairs": (
        "To be sure, record about {n} pairs in turns (base, head, head, base, …).",
        "要得出结论，请交替采集约 {n} 对（基线、对比、对比、基线……）。",
    ),
    "settles_never": (
        "It would take more than {most} pairs to settle it: the noise is too large for a change this small.",
        "需要 {most} 对以上才能得出结论：相对于如此小的变化，噪声太大。",
    ),
    "warm_left": (
        "Left out as warm-up: step {steps} of {side}.",
        "已作为预热略去：{side} 的 step {steps}。",
    ),
    "made_of": ("What the change of the mean step is made of", "平均 step 的变化由什么构成"),
    "kind_kernel": ("kernel", "算子"),
    "kind_communication": ("exposed comm", "未掩盖通信"),
    "kind_copy": ("exposed copy", "未掩盖拷贝"),
    "kind_unknown": ("unknown work", "未知任务"),
    "kind_request": ("part of a request", "请求的组成"),
    "kind_gap": ("gap", "空闲"),
    "kinds_kernel": ("Kernels", "算子"),
    "kinds_communication": ("Exposed communication", "未掩盖的通信"),
    "kinds_copy": ("Exposed copies", "未掩盖的拷贝"),
    "kinds_unknown": ("Unknown work", "未知任务"),
    "kinds_gap": ("Gaps", "空闲"),
    "kinds_residual": ("Residual", "残差"),
    "memcpy": ("all copies", "全部拷贝"),
    "h2d": ("host to device", "主机到设备"),
    "d2h": ("device to host", "设备到主机"),
    "d2d": ("within the device", "设备内"),
    "h2h": ("within the host", "主机内"),
    "p2p": ("between devices", "设备之间"),
    "beyond": ("before the first step or after the last", "首个 step 之前或最后一个 step 之后"),
    "launching": ("what launching a task usually takes", "下发一个任务通常所需的时间"),
    "now_pageable": ("now pageable memory of the host, was pinned", "主机内存由锁页变为非锁页"),
    "now_pinned": ("now pinned memory of the host, was pageable", "主机内存由非锁页变为锁页"),
    "hidden": (
        "takes {base} → {head} in all, of which hidden behind other work {base_hidden} → {head_hidden}",
        "总时长 {base} → {head}，其中被其他任务掩盖 {base_hidden} → {head_hidden}",
    ),
    "state_new": ("new", "新增"),
    "state_gone": ("gone", "消失"),
    "kernels_alike": ("all kernels alike", "所有算子同幅变化"),
    "kernels_alike_share": ("all kernels alike: {share}", "所有算子同幅变化：{share}"),
    "kernels_alike_by": ("all {n} kernels alike: {share} each", "全部 {n} 种算子同幅变化：各 {share}"),
    "clock": ("AI Core clock {base} → {head} MHz", "AI Core 频率 {base} → {head} MHz"),
    "clock_unknown": (
        "as a different clock would do; the clock was not recorded",
        "表现与频率变化一致，但未采集频率",
    ),
    "parts_within": (
        "Kernels below a line of all kernels are part of it and not counted again.",
        "“全部算子”一行下方的各算子已包含在该行中，不重复计入。",
    ),
    "late": (
        "The change is a wait for rank {rank}: its own work takes {own} per step, mostly in: {kind}. The other ranks "
        "wait {wait} in exposed communication.",
        "变化源于等待 rank {rank}：其自身每步多用 {own}，主要在：{kind}。其余 rank 未掩盖的通信因此多出 {wait}。",
    ),
    "late_no_longer": (
        "The change is a wait for rank {rank} that is over: its own work takes {own} per step, mostly in: {kind}. The "
        "other ranks wait {wait} in exposed communication.",
        "变化源于不再等待 rank {rank}：其自身每步用时变化 {own}，主要在：{kind}。其余 rank 未掩盖的通信变化 {wait}。",
    ),
    "state_count": ("{base} → {head} times", "{base} → {head} 次"),
    "others": ("{n} others together", "其余 {n} 项合计"),
    "others.one": ("1 other", "其余 1 项"),
    "residual": ("residual", "残差"),
    "replay": ("Each changed kernel alone, as a script:", "单独运行每个变化的算子（生成脚本）："),
    "sums": (
        "Contributions and residual sum to {delta} ns, the change of the mean step.",
        "各项与残差之和为 {delta} ns，即平均 step 的变化。",
    ),
    "each_interval": (
        "Beside each is its 99 % interval, from what was repeated: captures, else blocks of steps, and then of these "
        "captures only. A dash: too few repetitions, or it does not occur in enough of them.",
        "每项旁为其 99 % 区间，依据重复的采集得出；每侧只有一次采集时依据 step 分块，且仅针对这两次采集。"
        "短横线表示重复次数太少，或该项出现的次数不够。",
    ),
    "no_intervals": (
        "No intervals of the parts: too little was repeated. Five captures or steps a side would give them, or eight "
        "pairs.",
        "各项没有区间：重复次数太少。每侧至少需要五次采集或五个 step，成对比较则需要八对。",
    ),
    "untold": (
        "Not recorded on at least one side, and so part of the residual: {kinds}.",
        "至少有一侧未采集，因此计入残差：{kinds}。",
    ),
    "scope": (
        "{side}: {n} steps of rank {ranks}",
        "{side}：rank {ranks} 的 {n} 个 step",
    ),
    "scope.one": ("{side}: 1 step of rank {ranks}", "{side}：rank {ranks} 的 1 个 step"),
    "scope_whole": ("{side}: whole capture of rank {ranks}", "{side}：rank {ranks} 的全程"),
    "scope_runs": (
        "{side}: {runs} captures, {n} steps of rank {ranks}",
        "{side}：{runs} 次采集，rank {ranks} 的 {n} 个 step",
    ),
    "most_of_it": ("Largest part: {what}, {change}.", "变化最大的一项：{what}，{change}。"),
    "left_out_before": (
        "Not compared is what was recorded before the first {task}: {base} → {head}, {change}. The recordings as they "
        "are take {base_all} → {head_all}.",
        "首个{task}之前的时间不参与对比：{base} → {head}，{change}。整个采集的时长为 {base_all} → {head_all}。",
    ),
    "left_out_after": (
        "Not compared is what was recorded after the last {task}: {base} → {head}, {change}. The recordings as they "
        "are take {base_all} → {head_all}.",
        "最后一个{task}之后的时间不参与对比：{base} → {head}，{change}。整个采集的时长为 {base_all} → {head_all}。",
    ),
    "task_device": ("device task", "设备任务"),
    "task_cpu": ("operator", "算子"),
    "task_either": ("device task or operator", "设备任务或算子"),
    "leave_out": ("Leave out warm-up: {what}", "略去预热：{what}"),
    "leave_out_which": ("step {steps} of {side}", "{side} 的 step {steps}"),
    "leave_out_help": (
        "Leading steps longer than the median of the steps after them by a fifth: compiling, tuning, allocating.",
        "比其后各 step 的中位数长五分之一以上的开头 step：编译、调优、分配内存。",
    ),
    "not_exact": (
        "The pieces of this capture do not add up, so no change is shown.",
        "这次采集的各部分加不起来，因此不显示变化的构成。",
    ),
    "waterfall": ("Where the change comes from", "变化从哪里来"),
    "waterfall_help": (
        "Each bar starts where the one above ended. Every nanosecond of a step belongs to one thing. That is "
        "the running kernel that started first; else exposed communication, an exposed copy, or a gap with "
        "its cause. So the bars and the residual sum exactly to the change of the step.",
        "每一条从上一条的末端开始。step 的每一纳秒只归于一项：首先是正在执行的算子中最先开始的那个。其次是未"
        "掩盖的通信，再次是未掩盖的拷贝，否则是某一原因的空闲。因此各条与残差之和精确等于 step 的变化。",
    ),
    "movers": ("Everything that moved", "所有变化项"),
    "movers_help": (
        "Time that each thing owns in the mean step of either side, the largest change first. A kernel beside another "
        "owns only what the other does not cover.",
        "每一项在两侧平均 step 中所占的时间，变化最大的在前。与其他算子并行的算子只占未被覆盖的部分。",
    ),
    "by": ("Kernels by", "算子归并方式"),
    "by_kernel": ("Kernel", "算子"),
    "by_operator": ("Operator", "框架算子"),
    "by_module": ("Module", "模块"),
    "col_kind": ("Kind", "种类"),
    "col_what": ("What", "名称"),
    "col_shapes": ("Input shapes", "输入形状"),
    "col_state": ("What changed", "变化"),
    "col_change": ("Change, {unit}", "变化，{unit}"),
    "col_interval": ("Its interval", "变化的区间"),
    "col_time": ("{side}, {unit}", "{side}，{unit}"),
    "col_count": ("{side}, count", "{side}，次数"),
    "mark_time": ("how long", "时长"),
    "mark_count": ("how often", "次数"),
    "mark_new": ("new", "新增"),
    "mark_gone": ("gone", "消失"),
    "mark_renamed": ("renamed, was {before}", "更名，原为 {before}"),
    "mark_fused": ("fused from {before}", "由 {before} 融合而成"),
    "mark_split": ("split, was {before}", "由 {before} 拆分而成"),
    "mark_alike": ("all alike", "同幅变化"),
    "mark_same": ("nothing", "无"),
}
