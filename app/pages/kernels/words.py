"""The page of kernels."""

TEXT = {
    "title": ("Kernels", "Kernel"),
    "question": (
        "Which kernels take the time, how evenly do they run, and what bounds them?",
        "哪些 kernel 占用时间最多，运行是否稳定，受什么限制？",
    ),  # fmt: skip
    "none": (
        "The capture recorded the device, and no kernel ran on it.",
        "采集数据包含设备侧信息，但其中没有执行任何 kernel。",
    ),
    "answer": (
        "Kernels run for {computing} of {wall} on each of {n} ranks ({share}). Kernels: {count}, kinds: {groups}. The "
        "largest kind, {name}, runs for {busy}: {top}.",
        "{n} 个 rank 平均：{wall} 中有 {computing}（{share}）在执行 kernel，共 {count} 个、{groups} 类。占用最多的是 "
        "{name}，{busy}，{top}。",
    ),
    "answer.one": (
        "Kernels run for {computing} of {wall} ({share}). Kernels: {count}, kinds: {groups}. The largest kind, {name}"
        ", runs for {busy}: {top}.",
        "{wall} 中有 {computing}（{share}）在执行 kernel，共 {count} 个、{groups} 类。占用最多的是 {name}，{busy}，"
        "{top}。",
    ),
    "answer_top": ("{share} of the time in which the device is busy", "占设备忙碌时间的 {share}"),
    "answer_no_match": ("No kernel fits this filter.", "没有符合筛选条件的 kernel。"),
    "rank": ("Rank", "rank"),
    "ranks": ("Ranks", "rank"),
    "step": ("Step", "step"),
    "cores": ("Cores", "核类型"),
    "all_cores": ("all cores", "全部核类型"),
    "text": ("Name, type or shape contains", "名称、类型或 shape 包含"),
    "level": ("Group by", "归类方式"),
    "level_help": (
        "What makes two kernels one kind. Type: operator type and core. Shape: also shapes and element types of "
        "inputs and outputs. Name: the kernel's name and core.",
        "两个 kernel 归为一类的条件。类型：算子类型与核类型相同；shape：输入输出的 shape 与数据类型也相同；名称："
        "kernel 名与核类型相同。",
    ),
    "level_type": ("type", "类型"),
    "level_shape": ("type and shape", "类型 + shape"),
    "level_name": ("name", "名称"),
    "chart": (
        "The longest kinds, by their share of the device's busy time; times are of all ranks together",
        "占用最多的类别：占设备忙碌时间的比例；时间为各 rank 之和",
    ),
    "table": ("Kinds of kernels; choose a row to look into it", "kernel 类别；点选一行查看详情"),
    "cut": (
        "The {shown} longest of {n} kinds are listed; the filter finds the others.",
        "仅列出 {n} 类中最长的 {shown} 类，其余可用筛选条件查找。",
    ),
    "bar_means": (
        "runs for {busy} ({share} of the busy time) · {count} kernels · {mean} each",
        "运行 {busy}（占忙碌时间 {share}）· {count} 个 · 平均 {mean}",
    ),
    "col_op": ("Operator type", "算子类型"),
    "col_name": ("Kernel", "kernel 名"),
    "col_host_op": ("Launched by", "下发算子"),
    "col_host_op_help": (
        "The operator that launches most of them. A CUDA or ROCm profiler gives kernels no type of their own.",
        "下发其中大多数的主机侧算子。CUDA 与 ROCm 的 profiler 不给出 kernel 的算子类型。",
    ),
    "col_core": ("Core", "核类型"),
    "col_count": ("Count", "次数"),
    "col_busy": ("Time", "时间"),
    "col_busy_help": (
        "Time in which at least one of them runs, ranks added: a union, so kernels that overlap count once. "
        "Of a selection, what runs within it.",
        "至少有一个在执行的时间（各 rank 相加）：取并集，重叠部分只计一次。有选择时只计选择范围内的部分。",
    ),
    "col_share": ("Share of busy time", "占忙碌时间"),
    "col_share_help": (
        "Time, of the time in which anything at all runs on these ranks' devices: kernels, communication or copies.",
        "该时间占这些 rank 的设备有任何任务（kernel、通信或拷贝）执行的时间的比例。",
    ),
    "col_roof_share": ("Of the roof", "占峰值"),
    "col_roof_share_help": (
        "The least time that their work needs on this device, over the time that they took. Of those whose roof is "
        "known, at least half of the time. A call of several kernels counts where all of them are in the row. "
        "Where one of the two roofs is not known, it is the least.",
        "其工作量在该设备上至少需要的时间除以实际用时。只统计峰值已知者，且须占时间的一半以上。"
        "一次调用包含多个 kernel 时，仅当全部在同一行才计入。两个峰值中有一个未知时为下限。",
    ),
    "col_tflops": ("TFLOP/s", "TFLOP/s"),
    "col_tflops_help": (
        "Their operations over the time that they took; the page Efficiency has every operator.",
        "运算次数除以用时；各算子详见“效率”页。",
    ),
    "col_total": ("Sum of lengths", "时长之和"),
    "col_total_help": (
        "Their lengths added. Not a share of the step: kernels on several streams overlap, and then this is more than "
        "the time.",
        "各次时长直接相加。多个 stream 上的 kernel 会重叠，此值可能大于实际时间，不能当作占比。",
    ),
    "col_mean": ("Mean", "平均"),
    "col_min": ("Min", "最短"),
    "col_median": ("p50", "p50"),
    "col_median_help": ("Half are at most this long.", "一半不超过此值。"),
    "col_p90": ("p90", "p90"),
    "col_p90_help": ("90 % are at most this long.", "90% 不超过此值。"),
    "col_p99": ("p99", "p99"),
    "col_p99_help": ("99 % are at most this long.", "99% 不超过此值。"),
    "col_max": ("Max", "最长"),
    "col_shapes": ("Input shapes", "输入 shape"),
    "col_shapes_help": (
        "Tensors separated by ';'. Where the profiler gives kernels no shapes (CUDA, ROCm), those of the operator "
        "that launched it.",
        "以 ';' 分隔的张量。若 profiler 未给出 kernel 的 shape（CUDA、ROCm），则为下发它的算子的 shape。",
    ),
    "col_dtypes": ("Input types", "输入数据类型"),
    "col_out_shapes": ("Output shapes", "输出 shape"),
    "col_out_dtypes": ("Output types", "输出数据类型"),
    "col_start": ("Start", "开始"),
    "col_start_help": ("From the earliest stamp of any rank.", "从所有 rank 中最早的时间戳算起。"),
    "col_dur": ("Duration", "时长"),
    "col_usual": ("Usual", "通常"),
    "col_usual_help": (
        "The median of kernels that do the same work: same type, core, shapes, types and block count.",
        "做相同工作（类型、核、shape、数据类型、block 数均相同）的 kernel 的中位数。",
    ),
    "col_excess": ("Beyond that", "超出"),
    "col_track": ("Stream", "stream"),
    "col_blocks": ("Blocks", "block 数"),
    "detail": ("Selected kernel", "所选算子"),
    "detail_line": (
        "{count} kernels · {busy} · mean {mean} · p50 {median} · p99 {p99} · longest {most}",
        "{count} 个 · {busy} · 平均 {mean} · p50 {median} · p99 {p99} · 最长 {most}",
    ),
    "shapes_line": ("inputs {shapes} ({dtypes})", "输入 {shapes}（{dtypes}）"),
    "not_recorded": ("not recorded", "未采集"),
    "view": ("Look at", "查看"),
    "view_durations": ("Durations", "时长分布"),
    "view_slow": ("Slow tail", "慢尾"),
    "view_pipes": ("Pipes and cores", "流水与核"),
    "view_source": ("Where it comes from", "来源"),
    "view_instances": ("One by one", "逐个查看"),
    "as": ("Drawn as", "绘制方式"),
    "as_histogram": ("histogram", "直方图"),
    "as_ecdf": ("cumulative", "累积分布"),
    "axis_count": ("kernels", "个数"),
    "bin_means": ("rank {rank}: {n} kernels from {from} to {to}", "rank {rank}：{n} 个在 {from} 到 {to} 之间"),
    "ecdf_means": ("rank {rank}: {share} % take at most {length}", "rank {rank}：{share}% 不超过 {length}"),
    "bin_together": ("{ranks} ranks: {n} kernels from {from} to {to}", "{ranks} 个 rank：{n} 个在 {from} 到 {to} 之间"),
    "ecdf_together": (
        "{share} %: within {middle} on the middle rank, {least} to {most} on all",
        "{share}%：中位 rank 在 {middle} 内，所有 rank 为 {least} 到 {most}",
    ),
    "ranks_band": ("all ranks", "所有 rank"),
    "ranks_middle": ("the middle rank", "中位 rank"),
    "durations_alt": ("Distribution of the durations, rank by rank", "各 rank 的时长分布"),
    "slow_none": (
        "None of these kernels is an outlier: none takes far longer than others that do the same work.",
        "这些 kernel 中没有离群值：没有一个比做相同工作的 kernel 慢很多。",
    ),
    "slow_some": (
        "{n} of these kernels take far longer than others that do the same work, {excess} too long together. Choose "
        "one to open it on the timeline.",
        "其中 {n} 个比做相同工作的 kernel 慢很多，合计多用 {excess}。选择一行可在时间线上查看。",
    ),
    "slow_some.one": (
        "One of these kernels takes far longer than others that do the same work, {excess} too long. It opens on the "
        "timeline.",
        "其中 1 个比做相同工作的 kernel 慢很多，多用 {excess}。可在时间线上查看。",
    ),
    "slow_alt": ("Slow instances, the worst first", "慢实例，最慢的在前"),
    "pipes_none": ("No counters of the cores were recorded for these kernels.", "这些 kernel 没有采集核内计数器。"),
    "pipes_alt": ("How busy each pipe of the cores is", "核内各流水的忙碌比例"),
    "pipes_means": (
        "Share of the kernels' time in which each pipe is busy. The mean weighs each kernel by its length; "
        "the thin line runs from the least to the most of single kernels. Pipes work side by side, so these "
        "do not add up to 100 %.",
        "各流水忙碌时间占 kernel 时间的比例：均值按时长加权，细线表示单个 kernel 的最小到最大。各流水并行工作"
        "，比例之和不为 100%。",
    ),
    "pipes_all": ("All counters", "全部计数器"),
    "col_metric": ("Counter", "计数器"),
    "col_meaning": ("Meaning", "含义"),
    "col_mean_weighted": ("Mean by time", "按时长加权平均"),
    "col_least": ("Least", "最小"),
    "col_middle": ("p50", "p50"),
    "col_most": ("Most", "最大"),
    "pipe_mac": ("Matrix unit (Cube): multiplies and adds.", "矩阵计算单元（Cube）。"),
    "pipe_vec": ("Vector unit: element-wise arithmetic.", "向量计算单元（Vector）。"),
    "pipe_scalar": (
        "Scalar unit: addresses, loops and issuing instructions. A high share means that control holds up the rest.",
        "标量单元：地址计算、循环控制、指令发射。占比高说明控制逻辑拖慢了其他流水。",
    ),
    "pipe_mte1": ("Moves data within the core, from L1 to the matrix unit's L0A and L0B.", "核内搬运：L1 到 L0A/L0B。"),
    "pipe_mte2": (
        "Moves data from memory (HBM, L2) into the core. A high share means bound by reading memory.",
        "从外部存储（HBM、L2）搬入核内。占比高说明受读带宽限制。",
    ),
    "pipe_mte3": (
        "Moves data from the core back to memory. A high share means bound by writing memory.",
        "从核内写回外部存储。占比高说明受写带宽限制。",
    ),
    "pipe_fixpipe": (
        "Takes results out of the matrix unit (L0C), converting them on the way.",
        "把矩阵计算结果从 L0C 搬出，同时做格式或精度转换。",
    ),
    "pipe_icache_miss": ("Instruction fetches that miss the cache.", "指令缓存未命中比例。"),
    "pipe_total_cycles": ("Cycles, all cores added.", "所有核的周期数之和。"),
    "pipe_cube_utilization": (
        "Use of the matrix units of the whole device, in percent.",
        "整个设备的 Cube 利用率（百分比）。",
    ),
    "pipe_time": ("Time the cores of this kind run the kernel.", "该类核执行该 kernel 的时间。"),
    "pipe_other": (
        "As the profiler names it; its documentation says what it counts.",
        "含义见 profiler 文档中的同名指标。",
    ),
    "pipe_core_aic": ("cube core", "Cube 核"),
    "pipe_core_aiv": ("vector core", "Vector 核"),
    "blocks": ("Blocks against cores", "block 数与核数"),
    "blocks_none": (
        "Into how many blocks these kernels were split was not recorded (profiler_level=Level1 records it).",
        "未采集这些 kernel 的 block 数（profiler_level=Level1 可采集）。",
    ),
    "blocks_alt": ("Block counts of these kernels against the cores of the device", "block 数与设备核数对比"),
    "col_device": ("Device", "设备"),
    "col_cores": ("Cores of the device", "设备核数"),
    "col_cores_help": (
        "Cores of this kind. For a known model it is a fact of the device; else the largest block count that "
        "several kernels share.",
        "该类核的数量：型号已知时取设备规格，否则取本次采集中多个 kernel 共有的最大 block 数。",
    ),
    "col_waves": ("Rounds", "轮数"),
    "col_waves_help": ("How often every core takes a block.", "所有核轮流处理 block 的次数。"),
    "col_used": ("Cores used", "核占用"),
    "col_used_help": (
        "Blocks of the places there are in all rounds: 48 blocks on 40 cores take two rounds and use 60 % of them. On "
        "CUDA and ROCm blocks share a multiprocessor, so this is 100 % from as many blocks as multiprocessors on.",
        "block 数占所有轮次可用核位的比例：40 个核执行 48 个 block 需两轮，占用 60%。CUDA 与 ROCm 上多个 block 可共享"
        "一个多处理器，block 数不少于多处理器数即为 100%。",
    ),
    "unnamed_device": ("not named", "未记录型号"),
    "source_line": ("The longest of them: {op}, at {code}", "其中最长的一个：{op}，位于 {code}"),
    "source_no_code": (
        "No line of code was recorded for these kernels: neither call stacks nor Python frames (with_stack=True "
        "records them).",
        "未采集这些 kernel 对应的代码行：既没有调用栈也没有 Python 帧（with_stack=True 可采集）。",
    ),
    "source_ops": ("Host operators that launched them", "下发它们的主机侧算子"),
    "source_unlinked": (
        "For {n} of {count} kernels no launch was recorded.",
        "{count} 个 kernel 中有 {n} 个没有下发记录。",
    ),
    "col_host": ("Host operator", "主机侧算子"),
    "col_call": ("Launched by", "下发接口"),
    "col_host_ns": ("Host time (p50)", "主机耗时（p50）"),
    "col_host_ns_help": (
        "How long the operator takes on the host, launches included.",
        "算子在主机侧的耗时，包含下发。",
    ),
    "stacks": ("Call stacks, the most frequent first", "调用栈，出现最多的在前"),
    "stack": ("{n} kernels · {frame}", "{n} 个 kernel · {frame}"),
    "stack.one": ("1 kernel · {frame}", "1 个 kernel · {frame}"),
    "order": ("Order", "排序"),
    "order_longest": ("longest first", "最长优先"),
    "order_first": ("earliest first", "最早优先"),
    "page": ("Page of {n}", "页（共 {n} 页）"),
    "instances_alt": ("Every kernel of the chosen kind, page by page", "所选类别的每个 kernel，分页显示"),
    "sequences": ("Which kernels follow each other", "kernel 序列"),
    "sequences_means": (
        "Pairs and runs of three on one stream with no copy, collective or wait in between, over the whole capture. "
        "The gap between neighbours is what launching them together, or fusing them, could save. A stream that is "
        "seldom used has long gaps whatever runs on it.",
        "同一 stream 上连续的两个或三个 kernel，中间没有拷贝、通信或等待，统计整个采集区间。相邻间隙是合并下发或融合可"
        "能省下的时间。",
    ),
    "sequences_none": ("No two kernels follow each other directly.", "没有直接相邻的 kernel。"),
    "sequences_order": ("Sorted by", "排序依据"),
    "sequences_gap": ("gap", "间隙"),
    "sequences_total": ("length", "时长"),
    "sequences_count": ("count", "次数"),
    "sequences_alt": ("Sequences of kernels", "kernel 序列"),
    "col_ops": ("In order", "先后顺序"),
    "col_gap": ("Gaps on the stream, added", "所在 stream 的间隙之和"),
    "col_gap_help": (
        "Time between the end of one and the start of the next, added.",
        "前一个结束到后一个开始的时间之和。",
    ),
    "col_median_gap": ("Gap of one (p50)", "单次间隙（p50）"),
}
