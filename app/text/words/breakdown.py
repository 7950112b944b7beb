"""The exact split of time."""

TEXT = {
    "title": ("Where the time goes", "时间去向"),
    "computing": ("Computing", "计算"),
    "communication": ("Exposed communication", "未掩盖的通信"),
    "copy": ("Exposed copies", "未掩盖的拷贝"),
    "unknown": ("Unknown work", "未知任务"),
    "unknown_means": (
        "Work runs of which nothing tells whether it computes or communicates, and nothing else runs. Its name speaks "
        "of communication, but no known library has it and no communication operator launched it.",
        "有任务在执行，但无法判断是计算还是通信，同时没有其他工作。其名称与通信有关，但不属于已知通信库，也不由通信算子下发。",
    ),
    "unknown_note": (
        "Unknown work counts neither as computing nor as communication. Its kind in the table span is 'unknown'.",
        "未知任务既不计入计算也不计入通信。相应任务在 span 表中的 kind 为 'unknown'。",
    ),
    "untold": (
        "Rank {ranks}: the job communicates, but none of the device's work was told to be communication. Communication "
        "is not measured, and computing may hold some of it.",
        "rank {ranks}：任务包含通信，但设备上没有任务被识别为通信。因此通信未测得，计算中可能包含通信时间。",
    ),
    "idle": ("Idle", "空闲"),
    "unsplit": ("Not told apart", "无法区分"),
    "unsplit_means": (
        "The rest of the window: a part of the split was not recorded, so this cannot be told apart.",
        "窗口的其余部分：拆分所需的某一项未采集，因此无法区分。",
    ),
    "residual": ("Unexplained", "未解释"),
    "computing_means": (
        "At least one kernel or memset runs on the device: the union over all streams, so overlapping work counts "
        "once.",
        "设备上至少有一个算子或 memset 在执行：对所有 stream 取并集，重叠部分只计一次。",
    ),
    "communication_means": (
        "A communication operator runs and no kernel does: communication that computing does not hide.",
        "有通信算子在执行，同时没有计算：没有被计算掩盖的通信。",
    ),
    "copy_means": (
        "A memory copy runs and neither a kernel nor a communication operator does.",
        "有内存拷贝在执行，同时既没有计算也没有通信。",
    ),
    "idle_means": (
        "Nothing runs on the device. The gaps are measured themselves; they are not what is left over. "
        "Waiting for an event is no work.",
        "设备上没有任何工作：直接测得的所有空隙之和，而不是由其他部分相减得到。事件等待不算工作。",
    ),
    "residual_means": (
        "The parts do not add up to the length of the window. This is a fault of npulens: please report it.",
        "各部分之和与窗口长度不一致，这是 npulens 的错误，请反馈。",
    ),
    "profiler_means": (
        "The profiler's own figure by its own rule, shown for comparison.",
        "profiler 按自身规则给出的数值，供对照。",
    ),
    "rank_step": ("rank {rank} · step {step}", "rank {rank} · step {step}"),
    "rank_all": ("rank {rank} · whole capture", "rank {rank} · 全程"),
    "profiler": ("profiler", "profiler"),
    "profiler_says": ("as the profiler says", "profiler 口径"),
    "axis_share": ("%", "%"),
    "as": ("Show", "显示"),
    "as_time": ("Time", "时间"),
    "as_share": ("Share", "占比"),
    "over": ("Over", "范围"),
    "over_steps": ("Each step", "每个 step"),
    "over_all": ("Whole capture", "全程"),
    "ranks": ("Ranks", "rank"),
    "beside": ("Profiler's own split", "显示 profiler 口径"),
    "cut": (
        "{shown} of {n} bars are shown. Choose ranks or steps above to see others.",
        "共 {n} 条，显示其中 {shown} 条，可在上方选择 rank 或 step。",
    ),
    "steps_from": ("Steps", "step 范围"),
    "headline": (
        "{part} is the largest part: {length} of {whole}, {share}.",
        "占比最大的是{part}：{whole} 中的 {length}，占 {share}。",
    ),
    "headline_idle": (
        "The device is idle most of all: {length} of {whole}, {share}.",
        "设备空闲占比最大：{whole} 中的 {length}，占 {share}。",
    ),
    "headline_unsplit": (
        "The device computes {length} of {whole}, {share}. The rest cannot be told apart: {parts} not recorded.",
        "计算占 {whole} 中的 {length}（{share}）。其余时间无法区分，未采集：{parts}。",
    ),
    "lack_communication": ("communication was", "通信"),
    "lack_copy": ("memory copies were", "内存拷贝"),
    "mean": ("Mean over {n} ranks: ", "{n} 个 rank 平均："),
    "mean.one": ("", ""),
    "hidden": (
        "Of {total} of communication, {hidden} ({share}) is hidden behind computing.",
        "通信共 {total}，其中 {hidden}（{share}）被计算掩盖。",
    ),
    "nothing": (
        'No device activity was recorded, so there is no time to split. "What was recorded" below says which '
        "setting records it.",
        "没有采集到设备侧活动，因此无法拆分时间。请看下方“采集了什么”中对应的采集设置。",
    ),
    "cut_short": (
        "Rank {ranks}: not every event is here ({reason}), so time shown as idle may be work that is missing.",
        "rank {ranks}：事件不完整（{reason}），显示为空闲的时间可能是缺失的工作。",
    ),
    "not_split": (
        "Rank {ranks}: no device activity was recorded, so its time cannot be split.",
        "rank {ranks}：没有采集到设备侧活动，无法拆分时间。",
    ),
    "differ": ("Where the two splits differ", "两种口径的差异"),
    "differ_note": (
        "Thin bars: the profiler's own split. {n} bars differ, because each side counts by its own rule.",
        "细条：profiler 自己的拆分。有 {n} 条与本工具不同，因为两者的统计规则不同。",
    ),
    "differ_note.one": (
        "Thin bar: the profiler's own split. It differs, because each side counts by its own rule.",
        "细条：profiler 自己的拆分。与本工具不同，因为两者的统计规则不同。",
    ),
    "differ_why": (
        "npulens clips every span to the step's window, from its host mark to the next one. The profiler "
        "counts a span in the step it starts in. It leaves out the time before the first and after the last "
        "device span. Exposed copies have a part of their own here; the profiler has none.",
        "npulens 把每个区间按 step 窗口（从主机侧标记到下一个标记）裁剪。profiler 把区间整体归入其开始时所在"
        "的 step，并且不计首个设备任务之前和最后一个设备任务之后的时间。未掩盖的拷贝在这里单列，profiler 没有"
        "这一项。",
    ),
    "free_is": (
        "The profiler's free time is defined here as: {definition}.",
        "此处 profiler 的 free 定义为：{definition}。",
    ),
    "free_between_busy": (
        "the gaps strictly between the first and the last busy moment",
        "首个与最后一个繁忙时刻之间的空隙",
    ),
    "free_from_first_task": (
        "the gaps from the first to the last task of any kind, copies and events included",
        "从首个到最后一个任意设备任务（含拷贝与事件）之间的空隙",
    ),
    "free_minus_copies": (
        "the gaps between the first and the last busy moment, less the exposed copies",
        "首个与最后一个繁忙时刻之间的空隙，减去未掩盖的拷贝",
    ),
    "same": (
        "The profiler's own split agrees with ours to the nanosecond.",
        "profiler 自己的拆分与本工具完全一致（精确到纳秒）。",
    ),
    "numbers": ("All numbers", "全部数值"),
    "col_rank": ("rank", "rank"),
    "col_step": ("step", "step"),
    "col_part": ("Part", "部分"),
    "col_ours": ("npulens, ms", "npulens，ms"),
    "col_theirs": ("Profiler, ms", "profiler，ms"),
    "col_delta": ("Difference, ms", "差值，ms"),
    "col_start": ("Start, ms", "开始，ms"),
    "col_dur": ("Length, ms", "时长，ms"),
    "col_computing": ("Computing, ms", "计算，ms"),
    "col_communication": ("Exposed communication, ms", "未掩盖通信，ms"),
    "col_communication_all": ("All communication, ms", "全部通信，ms"),
    "col_overlapped": ("Hidden communication, ms", "被掩盖通信，ms"),
    "col_copy": ("Exposed copies, ms", "未掩盖拷贝，ms"),
    "col_copy_all": ("All copies, ms", "全部拷贝，ms"),
    "col_unknown": ("Unknown, ms", "未知，ms"),
    "col_unknown_all": ("All unknown work, ms", "全部未知任务，ms"),
    "col_idle": ("Idle, ms", "空闲，ms"),
    "col_residual": ("Unexplained, ms", "未解释，ms"),
    "whole": ("all", "全程"),
}
