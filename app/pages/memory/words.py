"""Device memory: pools, peak, growth, blocks."""

TEXT = {
    "title": ("Memory", "内存"),
    "question": (
        "How much device memory does the job hold, what holds it at the peak, and does it grow?",
        "任务占用多少设备内存，峰值由什么构成，是否在增长？",
    ),
    "none": ("The capture could record memory, and no pool held any.", "采集包含内存数据，但所有内存池都为空。"),
    "from_events": ("allocations and releases", "申请与释放"),
    "answer_peak": (
        "Pool {pool}: peak {allocated} allocated (rank {rank}, {at}).",
        "内存池 {pool} 峰值 {allocated}（已分配），在 rank {rank} 的 {at} 处。",
    ),
    "answer_reserved_only": (
        "Pool {pool}: peak {reserved} reserved (rank {rank}, {at}). What of it is allocated was not recorded.",
        "内存池 {pool} 峰值 {reserved}，在 rank {rank} 的 {at} 处；未采集其中已分配的部分。",
    ),
    "answer_relative": (
        "At {at}, rank {rank} holds {allocated} more than at the first allocation of the capture: the most of all.",
        "rank {rank} 在 {at} 处比采集到的首次申请时多占用 {allocated}，为最高点。",
    ),
    "answer_reserved": (
        "{reserved} are reserved then, {unused} of it ({share}) unused.",
        "此时预留 {reserved}，其中 {unused}（{share}）未使用。",
    ),
    "answer_holder": ("Largest holder: {name}, {bytes} in {n} blocks.", "占用最多的是 {name}：{n} 块共 {bytes}。"),
    "answer_holder.one": ("Largest holder: {name}, {bytes} in one block.", "占用最多的是 {name}：1 块共 {bytes}。"),
    "pool": ("Pool", "内存池"),
    "relative": (
        "No pool was sampled. The curve adds allocations and releases up from 0; what was allocated before the capture "
        "is not in it.",
        "没有内存池采样。曲线由申请与释放从 0 累加得到，不含采集开始前已分配的部分。",
    ),
    "thinned": (
        "{shown} of {all} states are drawn: the first, last, lowest and highest of every slice of time.",
        "共 {all} 个状态，绘制 {shown} 个：每个时间片保留首、末、最低与最高。",
    ),
    "curve_alt": ("Pool {pool} of rank {rank} over time", "rank {rank} 内存池 {pool} 随时间变化"),
    "curve_table": ("Table: the drawn states", "表格：绘制的状态"),
    "line_allocated_bytes": ("Allocated", "已分配"),
    "line_reserved_bytes": ("Reserved", "已预留"),
    "line_active_bytes": ("Active", "活跃"),
    "line_peak_bytes": ("Highest in the step", "step 内最高"),
    "line_end_bytes": ("At the end of the step", "step 结束时"),
    "line_low_bytes": ("Lowest in the step", "step 内最低"),
    "col_ts_ns": ("Time, ms", "时间，ms"),
    "col_allocated_bytes": ("Allocated, MB", "已分配，MB"),
    "col_reserved_bytes": ("Reserved, MB", "已预留，MB"),
    "col_active_bytes": ("Active, MB", "活跃，MB"),
    "fragmented": (
        "Reserved and not allocated: {peak} at the peak, at most {unused} (at {at}).",
        "已预留未分配：峰值时 {peak}，最多 {unused}（{at} 处）。",
    ),
    "fragmented_means": (
        "Reserved minus allocated: blocks that the caching allocator keeps and that nothing uses. At the peak it is "
        "what "
        "fragmentation costs; elsewhere it is mostly memory kept for reuse.",
        "预留减去已分配：缓存分配器保留但未被使用的内存块。在峰值处是碎片的代价，其他时刻多为留待复用的内存。",
    ),
    "the_peak": ("the peak", "峰值"),
    "the_unused": ("most unused", "未使用最多"),
    "holders": ("What holds the peak", "峰值构成"),
    "holders_means": (
        "Blocks alive at the peak: allocated before it in this capture and not yet released, by the operator that "
        "allocated them. The rest was allocated before the capture (weights, optimizer state) or not recorded block by "
        "block.",
        "峰值时存活的内存块：在采集期间、峰值之前申请且尚未释放，按申请的算子汇总。其余为采集开始前申请（权重、优化器"
        "状态）或未逐块记录的"
        "部分。",
    ),
    "holders_alt": ("Bytes alive at the peak, by operator", "峰值时按算子的存活字节数"),
    "holders_table": ("Table: {n} operators", "表格：{n} 个算子"),
    "held_name": ("Operator", "算子"),
    "held_blocks": ("Blocks", "块数"),
    "held_bytes": ("MB", "MB"),
    "others": ("all other operators", "其他算子"),
    "before": ("before the capture, or not seen", "采集前已有或未记录"),
    "unnamed": ("operator not recorded", "未记录算子"),
    "no_pairs": (
        "Releases were recorded without saying which allocation they end, so what is alive at a moment is not known. "
        "Newer versions of the profiler record addresses.",
        "释放事件没有说明对应哪次申请，无法判断某一时刻存活的内存块。新版本 profiler 会记录地址。",
    ),
    "no_events": (
        "No single allocations were recorded at this peak. torch_npu and torch.profiler record them with "
        "profile_memory=True.",
        "峰值处没有逐次申请的记录。torch_npu 与 torch.profiler 设置 profile_memory=True 即可采集。",
    ),
    "other_pool": (
        "The blocks are those of the framework's allocator; this pool may hold others too.",
        "这里的内存块来自框架的分配器，该内存池可能还包含其他内存。",
    ),
    "growth": ("Step by step", "逐 step 变化"),
    "growth_means": (
        "The level of the pool in each step. In steady training every step ends where it began; a level that rises "
        "step "
        "after step is memory that something keeps.",
        "每个 step 的内存池水位。稳定训练中每个 step 结束时回到起点；持续升高说明有内存未释放。",
    ),
    "growth_table": ("Table: steps, MB", "表格：各 step，MB"),
    "too_few_steps": (
        "Fewer than two recorded steps hold a sample, so there is no trend.",
        "有采样的 step 少于两个，没有趋势可言。",
    ),
    "trend": (
        "Over {steps} steps the level at the end of a step goes from {first} to {last} ({change}). A straight "
        "line through all of them changes by {slope} a step.",
        "经过 {steps} 个 step，step 结束时的水位从 {first} 变为 {last}（{change}）；拟合直线每个 step 变化 {slope}"
        "。",
    ),
    "step_step": ("step", "step"),
    "step_end_bytes": ("At the end", "结束时"),
    "step_peak_bytes": ("Highest", "最高"),
    "step_low_bytes": ("Lowest", "最低"),
    "largest": ("The largest blocks", "最大的内存块"),
    "largest_means": (
        "Single allocations, the largest first. No length: not released within the capture.",
        "单次申请，最大的在前。没有时长表示采集期间未释放。",
    ),
    "block_name": ("Operator", "算子"),
    "block_bytes": ("MB", "MB"),
    "block_ts_ns": ("Allocated at, ms", "申请时刻，ms"),
    "block_dur_ns": ("Held for, ms", "持有，ms"),
    "block_allocated_bytes": ("Pool then, MB", "当时已分配，MB"),
    "block_reserved_bytes": ("Reserved then, MB", "当时已预留，MB"),
    "pools": ("Every pool of every rank: {n}", "所有 rank 的内存池：{n} 个"),
    "pools_means": (
        "The highest value of each. Pools that stay empty are left out. PTA: PyTorch's allocator; GE: the graph "
        "engine; "
        "APP: the whole process; HCCL, RUNTIME and others: modules of CANN.",
        "各内存池的最高值，始终为空的不列出。PTA：PyTorch 分配器；GE：图引擎；APP：整个进程；HCCL、RUNTIME 等：CANN 各"
        "模块。",
    ),
    "pool_rank": ("rank", "rank"),
    "pool_pool": ("Pool", "内存池"),
    "pool_allocated": ("Allocated, MB", "已分配，MB"),
    "pool_reserved": ("Reserved, MB", "已预留，MB"),
    "pool_samples": ("Samples", "采样数"),
}  # fmt: skip
