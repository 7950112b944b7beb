"""The page of efficiency."""

TEXT = {
    "title": ("Efficiency", "效率"),
    "question": (
        "How much of what the device can do is used, and where does the rest go?",
        "设备能力用了多少，差距在哪里？",
    ),
    "comma": (", ", "，"),
    "of_steps": ("the step", "step"),
    "of_whole": ("the capture", "采集区间"),
    "answer_mfu": (
        "At their peak the matrix units need {mfu} of {of}.",
        "按峰值算力，矩阵单元只需要{of}时间的 {mfu}。",
    ),
    "answer_gain": (
        "With every slow operator at {good} of its roof, the {step} of {of} are at most {gain} less ({share}).",
        "若低于峰值 {good} 倍的算子都达到该水平，{of}的 {step} 最多缩短 {gain}（{share}）。",
    ),
    "unknown": (
        "For {share} of device time the work is not known: {reasons}.",
        "设备时间的 {share} 工作量未知：{reasons}。",
    ),
    "because": ("{why} ({share})", "{why}（{share}）"),
    "least": (
        "No source gives the memory bandwidth of this device, or the peak of a precision in use. Shares are the least.",
        "该设备的内存带宽或所用精度的峰值没有来源，占峰值比例为下限。",
    ),
    "figure_mfu": ("Matrix units", "矩阵单元利用率"),
    "figure_mfu_means": (
        "Time that the matrix units need for their operations at their peak, over the window. What is computed again "
        "counts as well, so papers call it HFU.",
        "矩阵单元按峰值完成其运算所需时间占窗口的比例。重计算也计入，即论文中的 HFU。",
    ),
    "figure_roof": ("Operators, of their roofs", "算子占峰值"),
    "figure_roof_means": (
        "Time that the operators need at their roofs, over the time that they took. Only operators with a share count.",
        "算子按各自峰值所需的时间之和，除以实际用时之和。只统计占峰值比例已知的算子。",
    ),
    "figure_rate": ("Achieved", "实际算力"),
    "figure_rate_means": (
        "Known operations of a step and rank, over the length of the step.",
        "每个 rank 每步已知的运算量除以单步耗时。",
    ),
    "figure_gain": ("At {good} of the roofs", "达到峰值 {good} 倍可省"),
    "figure_gain_means": (
        "What a step and rank would save at most if every operator below {good} of its roof reached that. Only "
        "operators whose roofs are all known count.",
        "若低于峰值 {good} 倍的算子都达到该水平，每个 rank 每步最多可节省的时间。只统计峰值完整已知的算子。",
    ),
    "figure_known": ("Known work", "工作量已知"),
    "figure_known_means": (
        "Device time of the operators whose operations or bytes are known.",
        "运算量或数据量已知的算子占设备时间的比例。",
    ),
    "plot": ("Operators below their roofs", "算子与 roofline"),
    "plot_means": (
        "A dot is an operator, its area the time that it takes. The lines are what the device can do at most: memory "
        "on the left, arithmetic on the right. The further below a line, the more there is to gain.",
        "每个点是一个算子，面积表示耗时。折线是设备的上限：左侧为内存带宽，右侧为算力。点离折线越远，提升空间越大。",
    ),
    "plot_alt": (
        "Operations per byte against operations per second of every operator, below the roofs of the device",
        "各算子的计算强度与每秒运算次数，以及设备的 roofline",
    ),
    "plot_none": (
        "No operator of this device has both known operations and known bytes, so none has a place here.",
        "该设备上没有运算量与数据量都已知的算子，无法绘制。",
    ),
    "plot_moving": (
        "{n} operators only move data or their operations are not known ({share} of device time). They are in the "
        "table below.",
        "另有 {n} 个算子只搬运数据或运算量未知（设备时间的 {share}），见下表。",
    ),
    "plot_moving.one": (
        "One operator only moves data or its operations are not known ({share} of device time). It is in the table "
        "below.",
        "另有 1 个算子只搬运数据或运算量未知（设备时间的 {share}），见下表。",
    ),
    "plot_no_memory": (
        "The line of memory is missing: no source gives the bandwidth of this device.",
        "没有内存斜线：该设备的内存带宽没有来源。",
    ),
    "no_chip": ("A device of which nothing is known: no roofs", "未知设备：没有峰值数据"),
    "axis_intensity": ("FLOP per byte", "计算强度（FLOP/字节）"),
    "axis_rate": ("FLOP per second", "每秒运算次数"),
    "roof_memory": ("memory {rate}", "内存 {rate}"),
    "roof_vector": ("ordinary cores", "普通核"),
    "dots_compute": ("bound by compute", "受限于计算"),
    "dots_memory": ("bound by memory", "受限于内存"),
    "dots_launch": ("bound by launch", "受限于下发"),
    "dots_unknown": ("a roof is not known", "峰值不全"),
    "dots_above": ("above its roof: the roof or the model is wrong", "高于峰值：峰值或模型有误"),
    "hover": (
        "{time} a step ({part} of device time) · {flops} · {bytes} · {intensity} FLOP a byte",
        "每步 {time}（设备时间的 {part}）· {flops} · {bytes} · {intensity} FLOP/字节",
    ),
    "hover_share": ("{share} of its roof", "占峰值 {share}"),
    "hover_share_least": ("at least {share} of its roof", "至少占峰值 {share}"),
    "hover_above": (
        "{times} times its roof: the roof or the model is wrong, or the data was in a cache",
        "为峰值的 {times} 倍：峰值或模型有误，或数据在缓存中",
    ),
    "hover_none": ("no roof is known", "峰值未知"),
    "table": ("Operators, by the time that they take", "按耗时排列的算子"),
    "table_means": (
        "An operator is what was called with the same shapes, types and values; all kernels that it launched are its "
        "time. Click a row to read about it below.",
        "算子指以相同 shape、数据类型和参数调用的操作，其下发的全部 kernel 计入其时间。点击一行查看详情。",
    ),
    "col_operator": ("Operator", "算子"),
    "col_shapes": ("Shapes", "shape"),
    "col_calls": ("Calls", "调用次数"),
    "col_calls_help": ("In the whole capture, ranks added.", "整个采集区间，各 rank 相加。"),
    "col_time": ("Time a step", "每步时间"),
    "col_time_help": ("Mean of steps and ranks.", "按 step 与 rank 平均。"),
    "col_share": ("Of its roof", "占峰值"),
    "col_share_least": ("Of its roof, at least", "占峰值（下限）"),
    "col_share_help": (
        "The least time that its work needs on this device, over the time that it took.",
        "其工作量在该设备上至少需要的时间，除以实际用时。",
    ),
    "col_bound": ("Bound by", "受限于"),
    "col_bound_help": (
        "The roof that is the lowest. Launch: under 5 µs and below half of its roof.",
        "最低的那个峰值。下发：单次不足 5 µs 且低于峰值一半。",
    ),
    "col_gain": ("Could save", "可节省"),
    "col_gain_help": (
        "Of a step and rank, at {good} of its roof. A ceiling.",
        "达到峰值 {good} 倍时每 rank 每步可节省的时间，为上限。",
    ),
    "col_tflops": ("TFLOP/s", "TFLOP/s"),
    "col_tflops_help": ("Operations over time.", "运算次数除以时间。"),
    "col_gbs": ("GB/s", "GB/s"),
    "col_gbs_help": (
        "Least bytes over time: each input read once, each output written once.",
        "最少数据量除以时间：每个输入读一次，每个输出写一次。",
    ),
    "col_pipe": ("Busiest pipe", "最忙流水"),
    "col_pipe_help": ("By the hardware counters, by time.", "按硬件计数器，以时间加权。"),
    "col_device": ("Device", "设备"),
    "col_note": ("Note", "备注"),
    "note_unknown": ("not measured: {why}", "未测得：{why}"),
    "note_above": ("{times} times its roof: the roof or the model is wrong", "为峰值的 {times} 倍：峰值或模型有误"),
    "note_disagree": ("the counters say another bound: {pipe}", "硬件计数器与此不一致：{pipe}"),
    "chosen": ("Chosen operator", "所选算子"),
    "kernel_line": ("kernel {kernel}", "kernel {kernel}"),
    "calls_line": (
        "{calls} calls of {each} · {kernels} kernels · {time} in all",
        "调用 {calls} 次，每次 {each} · {kernels} 个 kernel · 共 {time}",
    ),
    "unknown_line": ("What it has to do is not measured: {why}.", "工作量未测得：{why}。"),
    "work_line": (
        "One call computes {flops}{precision} and moves at least {bytes}: {intensity} FLOP a byte.",
        "单次调用计算 {flops}{precision}，至少搬运 {bytes}：{intensity} FLOP/字节。",
    ),
    "at_matrix": ("matrix units {time}", "矩阵单元 {time}"),
    "at_vector": ("other units {time}", "其他单元 {time}"),
    "at_memory": ("memory {time}", "内存 {time}"),
    "least_line": ("At the peaks of this device that takes: {times}.", "按该设备的峰值需要：{times}。"),
    "share_line": ("It took {each}: {share} of its roof, {bound}.", "实际 {each}：占峰值 {share}，{bound}。"),
    "share_line_least": (
        "It took {each}: at least {share} of its roof. The other roof is not known.",
        "实际 {each}：至少占峰值 {share}，另一个峰值未知。",
    ),
    "bound_compute": ("bound by compute", "受限于计算"),
    "bound_memory": ("bound by memory", "受限于内存"),
    "bound_launch": (
        "bound by its launch: it is so short that starting it costs as much",
        "受限于下发：时间太短，启动开销与之相当",
    ),
    "bound_none": ("and what bounds it is not known", "受限因素未知"),
    "above_line": (
        "It took {each}, and its roof is {roof}: {times} times as fast as possible. The roof or the model is wrong, or "
        "the data was in a cache.",
        "实际 {each}，而按峰值至少需 {roof}：为可能速度的 {times} 倍。峰值或模型有误，或数据在缓存中。",
    ),
    "no_roof_line": (
        "No roof of this device is known for it, so there is no share.",
        "该设备没有可用的峰值，无法给出占比。",
    ),
    "gain_line": (
        "At {good} of its roof a step would be at most {gain} shorter.",
        "若达到峰值的 {good} 倍，每步最多缩短 {gain}。",
    ),
    "pipes_line": ("Busy by the hardware counters: {pipes}.", "硬件计数器显示的忙碌比例：{pipes}。"),
    "disagree_line": (
        "Shapes and counters disagree: by its work it is bound by {bound}, and {pipe} is the busiest.",
        "shape 与计数器不一致：按工作量应受限于{bound}，而最忙的是 {pipe}。",
    ),
    "counted_line": (
        "The hardware counted {counted} a call on the matrix units.",
        "硬件计数：矩阵单元每次调用 {counted}。",
    ),
    "on_timeline": ("Show its longest kernel on the timeline", "在时间线中查看其最长的 kernel"),
}
