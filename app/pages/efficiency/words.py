"""The page of efficiency."""

TEXT = {
    "title": ("Efficiency", "效率"),
    "question": (
        "How much of what the device can do is used, and where does the rest go?",
        "设备能力用了多少，差距在哪里？",
    ),
    "comma": (", ", "，"),
    "of_steps": ("the step", "单步"),
    "of_whole": ("the capture", "采集区间"),
    "answer_mfu": (
        "At their peak the matrix units need {mfu} of {of}.",
        "按峰值算力，矩阵单元只需要{of}时间的 {mfu}。",
    ),
    "answer_gain": (
        "With every slow operator at {good} of its roof, the {step} of {of} are at most {gain} less ({share}).",
        "若低于峰值 {good} 倍的算子都达到该水平，{of} {step} 最多缩短 {gain}（{share}）。",
    ),
    "unknown": (
        "For {share} of device time the work is not known:",
        "设备时间的 {share} 工作量未知：",
    ),
    "because": ("{why} ({share})", "{why}（{share}）"),
    "least": (
        "No source gives the memory bandwidth of this device, or the peak of a precision in use. Shares are the least.",
        "该设备的内存带宽或所用精度的峰值没有来源，占峰值比例为下限。",
    ),
    "measure_roofs": (
        "Missing roofs can be measured: npulens doctor --roofs on that machine, then record with npulens collect.",
        "缺少的峰值可以实测：在该机器上运行 npulens doctor --roofs，再用 npulens collect 采集。",
    ),
    "figure_mfu": ("MFU", "MFU"),
    "figure_mfu_means": (
        "Time that the matrix units need at their peak for the operations of the model, over the window. What is "
        "computed again for the backward pass does not count.",
        "矩阵单元按峰值完成模型运算所需时间占窗口的比例，不计为反向传播重新计算的部分。",
    ),
    "figure_hfu": ("HFU", "HFU"),
    "figure_hfu_means": (
        "Time that the matrix units need for all of their operations at their peak, over the window. Nothing tells "
        "what of that is computed again, so there is no MFU.",
        "矩阵单元按峰值完成全部运算所需时间占窗口的比例。无法判断哪些是重计算，因此没有 MFU。",
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
    "untold": ("not known", "未知"),
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
        "{n} operators have no dot: they only move data, are very short, or their operations are not known "
        "({share} of device time). The table below has them.",
        "另有 {n} 个算子不在图中：只搬运数据、耗时极短或运算量未知（设备时间的 {share}），见下表。",
    ),
    "plot_moving.one": (
        "One operator has no dot: it only moves data, is very short, or its operations are not known "
        "({share} of device time). The table below has it.",
        "另有 1 个算子不在图中：只搬运数据、耗时极短或运算量未知（设备时间的 {share}），见下表。",
    ),
    "plot_no_memory": (
        "The line of memory is missing: no source gives the bandwidth of this device.",
        "没有内存斜线：该设备的内存带宽没有来源。",
    ),
    "unnamed": ("a device without a name", "未记录型号的设备"),
    "no_chip": ("A device of which nothing is known: no roofs", "未知设备：没有峰值数据"),
    "axis_intensity": ("FLOP per byte", "计算强度（FLOP/字节）"),
    "axis_rate": ("FLOP per second", "每秒运算次数"),
    "roof_memory": ("memory {rate}", "内存 {rate}"),
    "roof_vector": ("ordinary cores", "普通核"),
    "dots_compute": ("bound by compute", "受限于计算"),
    "dots_memory": ("bound by memory", "受限于内存"),
    "dots_launch": ("bound by launch", "受限于下发"),
    "dots_compute_counted": ("compute, by the counters", "计算（按计数器）"),
    "dots_memory_counted": ("memory, by the counters", "内存（按计数器）"),
    "dots_scalar_counted": ("scalar unit, by the counters", "标量单元（按计数器）"),
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
    "hover_pipe": ("busiest pipe: {pipe}, {share} of its time", "最忙流水：{pipe}，占其时间 {share}"),
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
    "whole": ("Where a step goes", "单步时间的构成"),
    "whole_means": (
        "From the time that the matrix units need at their peak down to idle time. Each ns counts once, and the bars "
        "sum to the whole. Mean of steps and ranks.",
        "从矩阵单元按峰值所需的时间到空闲时间。每一纳秒只计一次，各项之和等于整体。按 step 与 rank 平均。",
    ),
    "whole_none": (
        "Not measured: this capture does not hold when kernels ran.",
        "未测得：该采集没有算子的执行时刻。",
    ),
    "whole_table": ("As a table", "表格"),
    "whole_sums": (
        "Mean of {n} windows: {dur} ns. Not covered by the parts: {residual} ns.",
        "{n} 个窗口的平均：{dur} ns。各项未覆盖：{residual} ns。",
    ),
    "whole_sums.one": (
        "One window of {dur} ns. Not covered by the parts: {residual} ns.",
        "1 个窗口，{dur} ns。各项未覆盖：{residual} ns。",
    ),
    "of": ("Of", "范围"),
    "of_all": ("all ranks and steps", "全部 rank 与 step"),
    "phase_prefill": ("prefill", "prefill"),
    "phase_decode": ("decode", "decode"),
    "phase_mixed": ("prefill and decode together", "prefill 与 decode 混合"),
    "part_at_peak": ("Matrix units at their peak", "矩阵单元（按峰值）"),
    "part_at_peak_means": (
        "What products of matrices, convolutions and attention need at the peak of the matrix units.",
        "矩阵乘、卷积和 attention 按矩阵单元峰值所需的时间。",
    ),
    "part_matrix_roof": ("Matrix operators: memory", "矩阵算子：内存所限"),
    "part_matrix_roof_means": (
        "What the same operators need beyond that, because memory or the other units are slower.",
        "同样的算子因内存或其他单元较慢而必须多用的时间。",
    ),
    "part_matrix_slow": ("Matrix operators: below their roof", "矩阵算子：未达峰值"),
    "part_matrix_slow_means": ("What they take beyond their roof.", "超出峰值所需的时间。"),
    "part_other_roof": ("Other operators at their roof", "其他算子（按峰值）"),
    "part_other_roof_means": (
        "What operators without products of matrices need at their roof, mostly memory.",
        "不含矩阵运算的算子按峰值（多为内存带宽）所需的时间。",
    ),
    "part_other_slow": ("Other operators: below their roof", "其他算子：未达峰值"),
    "part_other_slow_means": ("What they take beyond their roof.", "超出峰值所需的时间。"),
    "part_unfused": ("Could be fused", "可融合"),
    "part_unfused_means": (
        "What fusing neighbouring operators would give back: values that are written and read again.",
        "融合相邻算子可省下的时间：中间结果写出后又读入。",
    ),
    "part_above_roof": ("Faster than their roof", "高于峰值"),
    "part_above_roof_means": (
        "Operators that are faster than their roof allows: the roof or the model is wrong, or the data was in a cache.",
        "快于峰值所允许速度的算子：峰值或模型有误，或数据在缓存中。",
    ),
    "part_no_roof": ("Roof not known", "峰值未知"),
    "part_no_roof_means": (
        "Operators whose work is known, on a device whose peak is not.",
        "工作量已知但设备峰值未知的算子。",
    ),
    "part_no_work": ("Work not known", "工作量未知"),
    "part_no_work_means": (
        "Operators whose work is not known; the table of operators says why.",
        "工作量未知的算子，原因见算子表。",
    ),
    "part_communication": ("Exposed communication", "未掩盖的通信"),
    "part_communication_means": ("Communication while nothing computes.", "没有计算同时进行的通信。"),
    "part_copies": ("Exposed copies", "未掩盖的拷贝"),
    "part_copies_means": (
        "Copies while nothing computes or communicates.",
        "没有计算或通信同时进行的拷贝。",
    ),
    "part_unknown": ("Unknown work", "未知任务"),
    "part_unknown_means": (
        "Device work that nothing told to be computing or communication.",
        "无法判断是计算还是通信的设备任务。",
    ),
    "part_idle": ("Idle", "空闲"),
    "part_idle_means": ("The device does nothing.", "设备空闲。"),
    "part_whole": ("Whole", "整体"),
    "part_whole_means": ("All parts together.", "各项之和。"),
    "col_part": ("Part", "组成"),
    "col_of_whole": ("Of the whole", "占比"),
    "col_means": ("Meaning", "含义"),
    "modules": ("Modules of the model", "模型的模块"),
    "modules_means": (
        "Each box is a module, in the order of the first call. Its width is the device time of the module and "
        "those in it.",
        "每个方块是一个模块，宽度为该模块及其子模块占用的设备时间，按首次调用排序。",
    ),
    "modules_hint": (
        "Orange is far below the roof, blue near it, grey where no roof is known. A click on a module shows what it "
        "calls; a click on the bar above leads back.",
        "橙色远低于峰值，蓝色接近峰值，灰色表示峰值未知。点击模块查看其内部，点击上方路径返回。",
    ),
    "modules_none": (
        "Modules were not recorded: nothing says which module a kernel belongs to.",
        "未采集模块信息，无法判断 kernel 属于哪个模块。",
    ),
    "modules_all": ("all", "全部"),
    "modules_cut": (
        "The first {shown} of {n} modules are listed.",
        "仅列出 {n} 个模块中的前 {shown} 个。",
    ),
    "place_outside": ("outside modules", "模块之外"),
    "place_outside_means": ("Kernels that no module launched.", "不由任何模块下发的 kernel。"),
    "place_not_tied": ("backward pass, module not known", "反向传播，模块未知"),
    "place_not_tied_means": (
        "Kernels of the backward pass whose module is not known.",
        "反向传播中无法确定所属模块的 kernel。",
    ),
    "module_hover": (
        "{time} a step ({part}) · forward {forward}, backward {backward}, recomputed {again} · {share} of the roof",
        "每步 {time}（{part}）· 前向 {forward}，反向 {backward}，重计算 {again} · 占峰值 {share}",
    ),
    "col_module": ("Module", "模块"),
    "col_class": ("Class", "类"),
    "col_device_time": ("Device, with its parts", "设备时间（含子模块）"),
    "col_device_time_help": (
        "Time of the device a step and rank. Of two kernels at the same moment the first counts.",
        "每个 rank 每步的设备时间。同一时刻有多个 kernel 时，只计最先开始的。",
    ),
    "col_own": ("Device, its own", "设备时间（自身）"),
    "col_own_help": ("Without the modules that it calls.", "不含其调用的子模块。"),
    "col_forward": ("Forward", "前向"),
    "col_backward": ("Backward", "反向"),
    "col_again": ("Recomputed", "重计算"),
    "col_module_share_help": (
        "Time that its operators need at their roofs, over the time that they took; those with known roofs.",
        "其算子按峰值所需时间除以实际用时，只统计峰值已知的算子。",
    ),
    "col_gflop": ("GFLOP", "GFLOP"),
    "col_memory": ("Allocated", "分配内存"),
    "col_memory_help": (
        "Asked of the allocator in its forward pass, whether or not it was given back.",
        "向分配器申请的内存，无论是否已归还。",
    ),
    "replay": ("A script that runs this call alone:", "生成单独运行该调用的脚本："),
    "on_timeline": ("Show its longest kernel on the timeline", "在时间线中查看其最长的 kernel"),
}
