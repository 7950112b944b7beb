"""One operator alone: the texts of `npulens replay`."""

TEXT = {
    "several": (
        "{name} means {n} operators, longest first:",
        "{name} 对应 {n} 个算子，按耗时从长到短：",
    ),
    "choose": (
        "Name one: OPERATOR#1, or OPERATOR --shapes SHAPES.",
        "请指定其中一个：算子名#1，或 算子名 --shapes SHAPE。",
    ),
    "more": ("{n} more are not shown.", "另有 {n} 个未列出。"),
    "col_number": ("", ""),
    "col_operator": ("Operator", "算子"),
    "col_shapes": ("Shapes", "shape"),
    "col_given": ("Values", "参数值"),
    "col_calls": ("Calls", "调用次数"),
    "col_time": ("Time", "总耗时"),
    "comma": (", ", "、"),
    "times": (
        "In the capture: median {median}, {least} to {most}, {n} calls on {device}",
        "采集中：中位数 {median}，范围 {least} 到 {most}，共 {n} 次调用，设备 {device}",
    ),
    "times.one": ("In the capture: {median}, one call on {device}", "采集中：{median}，只有 1 次调用，设备 {device}"),
    "mapped": (
        "The script calls {operator}, which does the work of the kernel {kernel}.",
        "脚本调用 {operator}，它与算子 {kernel} 的计算相同。",
    ),
    "layouts": (
        "Its calls had {n} sets of strides; the script has the most frequent one.",
        "各次调用共有 {n} 种 stride，脚本采用最常见的一种。",
    ),
    "note_no_values": (
        "Plain values were not recorded: arguments with a default take it. Record with torch 2.1 or newer.",
        "未采集普通参数值：有默认值的参数取默认值。请用 torch 2.1 或更新版本采集。",
    ),
    "note_no_strides": (
        "Strides were not recorded: tensors lie in one piece.",
        "未采集 stride：张量按连续内存处理。",
    ),
    "note_library": (
        "Its operator is of a library other than torch: the script needs that library.",
        "该算子属于 torch 以外的库：运行脚本需要安装该库。",
    ),
    "note_list_types": (
        "The types of a list of tensors were not recorded: they are taken from the other tensors, else float32.",
        "张量列表的数据类型未采集：取其他张量的类型，否则取 float32。",
    ),
    "beside": ("What may make it slower in the job than alone:", "在作业中可能比单独运行更慢的原因："),
    "beside_none": (
        "The capture shows nothing that makes it slower in the job than alone.",
        "采集数据中没有发现会让它在作业中变慢的因素。",
    ),
    "beside_conversion": (
        "{kernel} runs right before {calls} of {of} calls and only converts data ({conversion}): {each} each.",
        "{of} 次调用中有 {calls} 次，前面紧接着只做转换的 {kernel}（{conversion}），每次 {each}。",
    ),
    "beside_inside": (
        "{share} of its own time is conversion, most of it in {kernel}.",
        "它自身时间的 {share} 是数据转换，主要在 {kernel}。",
    ),
    "beside_contention": (
        "Other streams of its device work during {share} of its time.",
        "它运行时间的 {share} 内，设备的其他流也在工作。",
    ),
    "beside_contention_apart": (
        "Other streams of its device work during {share} of its time: {beside} a call beside them, {alone} without.",
        "它运行时间的 {share} 内，设备的其他流也在工作：同时运行时每次 {beside}，单独时 {alone}。",
    ),
    "beside_first": (
        "The first call took {first}, the later ones {later}.",
        "首次调用用了 {first}，之后每次 {later}。",
    ),
    "beside_first_use": (
        "The host spent {ns} on the first use of it or of its library.",
        "主机在首次使用该算子或其库时用了 {ns}。",
    ),
    "beside_clock": (
        "Its kernels ran at {share} of the rated clock.",
        "它的算子运行在额定频率的 {share}。",
    ),
    "beside_spread": (
        "{calls} of {of} calls took at least 1.5 times the usual {usual}.",
        "{of} 次调用中有 {calls} 次达到通常耗时（{usual}）的 1.5 倍以上。",
    ),
    "looked": ("Looked for, and not there: {what}.", "已检查，未发现：{what}。"),
    "unknown": ("Not measured: {what}.", "未测得：{what}。"),
    "name_conversion": ("a conversion right before it", "紧邻其前的转换"),
    "name_inside": ("conversions of its own", "自身的转换"),
    "name_contention": ("other streams at work", "其他流同时工作"),
    "name_first": ("a slow first call", "首次调用变慢"),
    "name_first_use": ("first use of a library", "库的首次使用"),
    "name_clock": ("a clock below its rating", "频率低于额定值"),
    "name_spread": ("single slow calls", "个别调用变慢"),
    "how": (
        "-o FILE writes a script that runs it alone; '-o -' prints it.",
        "-o FILE 写出单独运行它的脚本；“-o -” 直接打印。",
    ),
    "written": (
        "{path} is written. It runs the operator alone: python {path} --help",
        "已写出 {path}，可单独运行该算子：python {path} --help",
    ),
    "refused": ("It cannot be run alone: {why}.", "无法单独运行：{why}。"),
    "why_no_operator": (
        "nothing recorded says which operator launched this kernel",
        "没有记录说明该 kernel 由哪个算子下发",
    ),
    "why_no_shapes": (
        "shapes were not recorded (record_shapes=True; on Ascend profiler_level=Level1)",
        "未采集 shape（请设 record_shapes=True；昇腾请设 profiler_level=Level1）",
    ),
    "why_odd_shapes": (
        "its shapes or values are symbolic, cut off or damaged",
        "其 shape 或参数值是符号、被截断或已损坏",
    ),
    "why_list": (
        "the shapes of its list of tensors were not recorded",
        "张量列表的 shape 未采集",
    ),
    "why_no_types": ("the types of its tensors are not known", "张量的数据类型未知"),
    "why_generated": (
        "a compiler made this kernel for one job, and the capture does not hold its code",
        "该 kernel 由编译器为该作业生成，采集数据中没有其代码",
    ),
    "why_collective": ("a collective needs the other ranks", "集合通信需要其他 rank 参与"),
    "why_odd_name": ("its name is no name of an operator of torch", "其名称不是 torch 算子名"),
    "why_attributes": (
        "the kernel has attributes that no capture holds (strides, axes, heads)",
        "该算子的属性（如 stride、axis、head 数）不在采集数据中",
    ),
    "why_format": (
        "it only converts between formats of the device",
        "它只在设备的内部格式之间转换",
    ),
    "why_data": ("its work depends on data, which no capture holds", "其工作量取决于数据，而采集数据不含张量内容"),
    "why_not_mapped": (
        "no operator of torch is known that surely does the work of this kernel",
        "没有确定与该算子计算相同的 torch 算子",
    ),
    "why_do_not_fit": ("its shapes do not fit together", "其各个 shape 互相不符"),
    "why_private_format": (
        "its tensors lie in a private format, whose blocks do not tell the operator's shapes",
        "其张量为私有格式，分块后的 shape 无法还原算子的 shape",
    ),
    "why_memset": ("it only sets memory", "它只设置内存"),
}
