"""Operators beside their roofs: the texts of `npulens roofline`."""

TEXT = {
    "title": ("Operators beside their roofs", "算子与 roofline"),
    "none": ("No kernels were recorded.", "没有采集到算子。"),
    "of_time": (
        "{modelled} of {whole} device time has known work ({share}); for {flops} of it the operations are known.",
        "设备时间 {whole} 中有 {modelled} 的工作量已知（{share}）；其中 {flops} 知道运算次数。",
    ),
    "step": (
        "A step of one rank: {flops} as far as they are known.",
        "每个 rank 每步：已知的运算量为 {flops}。",
    ),
    "mfu_least": (
        "That is the least: the work of {unknown} of device time is not known.",
        "这是下限：还有 {unknown} 设备时间的工作量未知。",
    ),
    "clock": (
        "Kernels ran at {share} of the rated clock on average. Roofs are those at the rating.",
        "算子平均运行在额定频率的 {share}；峰值按额定频率计算。",
    ),
    "no_mfu": (
        "MFU is not measured: no source gives the peak of {device} in {precisions}.",
        "MFU 未测得：没有来源给出 {device} 在 {precisions} 下的峰值。",
    ),
    "no_mfu_device": (
        "MFU and shares are not measured: nothing is known of the device. `npulens doctor --roofs` measures it; what "
        "is collected after that has them.",
        "MFU 和占峰值未测得：对该设备一无所知。`npulens doctor --roofs` 可测量其峰值，之后采集的数据即可给出。",
    ),
    "no_mfu_work": (
        "MFU is not measured: no products of matrices are known.",
        "MFU 未测得：没有已知的矩阵运算。",
    ),
    "roofs": ("Roofs of {device}: {peaks}", "{device} 的峰值：{peaks}"),
    "roofs_memory": ("memory {rate}", "内存 {rate}"),
    "roofs_unknown": ("memory: no source", "内存：无来源"),
    "roofs_launch": ("start of an operator {time}", "启动一个算子 {time}"),
    "roofs_measured": (
        "Measured on the machine that recorded it ({device}, {date}): {peaks}",
        "在采集所用的机器上实测（{device}，{date}）：{peaks}",
    ),
    "roofs_own": (
        "No source gives these, so the measured ones count: {names}.",
        "以下项目没有来源，按实测值计算：{names}。",
    ),
    "roofs_rated": (
        "The rated ones count. The measured ones say what torch reaches of them.",
        "按额定峰值计算；实测值说明 torch 能达到其中多少。",
    ),
    "memory_name": ("memory", "内存"),
    "source": ("Source: {source}", "来源：{source}"),
    "rows": ("Operators with most time, by call", "耗时最多的算子（按单次调用）"),
    "col_operator": ("Operator", "算子"),
    "col_shapes": ("Shapes", "shape"),
    "col_calls": ("Calls", "调用次数"),
    "col_time": ("ms/step", "ms/步"),
    "col_flops": ("GFLOP", "GFLOP"),
    "col_bytes": ("MB", "MB"),
    "col_tflops": ("TFLOP/s", "TFLOP/s"),
    "col_gbs": ("GB/s", "GB/s"),
    "col_share": ("Of roof", "占峰值"),
    "col_bound": ("Bound by", "受限于"),
    "col_pipe": ("Busiest pipe", "最忙流水"),
    "bound_compute": ("compute", "计算"),
    "bound_memory": ("memory", "内存"),
    "bound_launch": ("launch", "下发"),
    "wrong": ("?", "?"),
    "legend": (
        "'-' is not measured. '>' means that one roof of the two is not known, so the share is at least this.",
        "“-” 表示未测得。“>” 表示两个峰值中有一个未知，占比至少为此值。",
    ),
    "wrong_title": (
        "'?': faster than its roof allows. So the roof or the model is wrong, or the data was in a cache.",
        "“?”：快于峰值所允许的速度。说明峰值或模型有误，或者数据已在缓存中。",
    ),
    "wrong_row": (
        "{operator} {shapes}: {times} times its roof ({time} for {bytes} and {flops}; the roof says {roof})",
        "{operator} {shapes}：为峰值的 {times} 倍（{bytes}、{flops} 用时 {time}；按峰值至少需 {roof}）",
    ),
    "disagree_title": (
        "Shapes and hardware counters disagree. The work should bind one unit, and another is the busiest:",
        "shape 与硬件计数器不一致：按工作量应受限于一个单元，而最忙的是另一个：",
    ),
    "disagree_row": (
        "{operator} {shapes}: {bound} by its shapes, {pipe} busy for {busy} of its time",
        "{operator} {shapes}：按 shape 受限于{bound}，而 {pipe} 在 {busy} 的时间内忙碌",
    ),
    "counted_title": (
        "The hardware counted other operations than the shapes say:",
        "硬件计数的运算次数与按 shape 计算的不一致：",
    ),
    "counted_row": (
        "{operator} {shapes}: {flops} by its shapes, {counted} counted",
        "{operator} {shapes}：按 shape 为 {flops}，计数为 {counted}",
    ),
    "gain": (
        "At 0.7 of their roofs the operators below that would take {gain} of each step less. That is a ceiling.",
        "若低于峰值 0.7 的算子都达到 0.7，每步最多可减少 {gain}。这是上限。",
    ),
    "missing_title": ("Not measured", "未测得"),
    "missing_row": ("{share} of device time: {why} ({operators})", "设备时间的 {share}：{why}（{operators}）"),
    "collect": ("Record them with {setting}.", "请使用 {setting} 采集。"),
    "why_no_shapes": ("shapes were not recorded", "未采集 shape"),
    "why_odd_shapes": ("shapes cannot be read", "shape 无法解析"),
    "why_no_types": ("types were not recorded", "未采集数据类型"),
    "why_no_values": (
        "stride, padding or other plain arguments were not recorded (torch before 2.1)",
        "未采集 stride、padding 等普通参数（torch 2.1 之前）",
    ),
    "why_not_known": ("npulens has no model of the operator", "npulens 没有该算子的模型"),
    "why_no_operator": ("the operator that launched it was not recorded", "未采集到下发它的算子"),
    "why_do_not_fit": ("the shapes do not fit together", "shape 之间不一致"),
    "why_lengths": ("how long the sequences are lies in their data", "序列长度只在数据中"),
    "why_mask": ("whether its mask is causal was not recorded", "未采集掩码是否为 causal"),
    "why_data": ("how much it reads depends on its data", "读取量取决于数据"),
    "why_links": ("it moves data over links", "数据经由链路传输"),
    "why_part": ("a part of its shapes was not recorded", "部分 shape 未采集"),
}
