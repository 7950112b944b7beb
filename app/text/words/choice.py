"""What the choice of a plan says: plans and how they were measured, modules in types, shapes, operators and roofs."""

TEXT = {
    "head": (
        "{module} from {place}, {n} calls in the job; on {backend} ({device})",
        "{module}（{place}），作业中 {n} 次调用；运行在 {backend}（{device}）上",
    ),
    "head.one": (
        "{module} from {place}, 1 call in the job; on {backend} ({device})",
        "{module}（{place}），作业中 1 次调用；运行在 {backend}（{device}）上",
    ),
    "failed": ("Nothing can be chosen: {why}.", "无法选择：{why}。"),
    "search": (
        "{tried} plans were measured in {seconds} s by {clock}, {refused} were refused, {left} were not reached.",
        "在 {seconds} 秒内按{clock}测量了 {tried} 个方案，拒绝 {refused} 个，未及尝试 {left} 个。",
    ),
    "clock_host": ("the wall clock", "墙上时钟"),
    "clock_cpu": ("the CPU time of one thread, because this machine is not quiet", "单线程 CPU 时间（本机不够安静）"),
    "winner": ("Best plan: {plan}", "最佳方案：{plan}"),
    "nothing": (
        "No plan was faster in the search: keep the original.",
        "搜索中没有更快的方案：请保留原程序。",
    ),
    "fresh": (
        "on fresh pairs: {verdict}, {time} of the original's time; in the search it was {searched}",
        "重新配对测量：{verdict}，耗时为原程序的 {time}；搜索时为 {searched}",
    ),
    "keep": ("It is not proved faster: keep the original.", "未证明更快：请保留原程序。"),
    "accuracy": (
        "its error against float64 is {error}, {allowed} is allowed",
        "与 float64 的误差为 {error}，允许 {allowed}",
    ),
    "gate": (
        "gate {gate}: {score}; the original reaches {original}, {at_least} is asked for",
        "门槛 {gate}：{score}；原程序为 {original}，要求不低于 {at_least}",
    ),
    "peak": ("peak memory {peak}, the original {original}", "内存峰值 {peak}，原程序 {original}"),
    "naive": (
        "The fastest of one try each, {plan}, would have claimed {claimed}. Measured again: {verdict}, {time}.",
        "若每个方案只试一次，最快者 {plan} 会声称 {claimed}。重新测量：{verdict}，{time}。",
    ),
    "col_plan": ("plan", "方案"),
    "col_ratio": ("time in the search", "搜索时耗时比"),
    "col_rounds": ("rounds", "轮数"),
    "col_error": ("error", "误差"),
    "col_allowed": ("allowed", "允许"),
    "col_gates": ("gates", "门槛"),
    "col_first": ("first calls", "首次调用"),
    "more": ("{n} more are in choice.json", "其余 {n} 个见 choice.json"),
    "more.one": ("1 more is in choice.json", "其余 1 个见 choice.json"),
    "refused": ("Refused", "已拒绝"),
    "not_reached": (
        "{n} plans were not reached in the time; --time gives more. The most promising: {plans}.",
        "时间内未及尝试 {n} 个方案，可用 --time 延长。其中最有希望的：{plans}。",
    ),
    "not_reached.one": (
        "1 plan was not reached in the time; --time gives more: {plans}.",
        "时间内未及尝试 1 个方案，可用 --time 延长：{plans}。",
    ),
    "part_threads": ("{name} threads", "{name} 线程"),
    "part_threads.one": ("1 thread", "1 线程"),
    "precision": ("Types module by module", "逐模块精度"),
    "precision_not": ("No module is given another type: {why}.", "不改变任何模块的精度：{why}。"),
    "precision_none": (
        "No module gains time in a shorter type within the allowed error.",
        "在允许误差内，没有模块因更短的类型而节省时间。",
    ),
    "precision_legend": (
        "Gain is the time of a module's operators that goes where all modules are in that type. Conversions come "
        "on top, and plans are measured above. Error is that of the whole result with this module alone in the type; - "
        "is no finite one.",
        "收益为所有模块均使用该类型时该模块算子节省的时间，转换另计；方案在上面实测。"
        "误差为仅此模块使用该类型时整个结果的误差；- 表示结果非有限值。",
    ),
    "col_module": ("module", "模块"),
    "col_type": ("type", "类型"),
    "col_gain": ("gain", "收益"),
    "col_chosen": ("chosen", "选用"),
    "top": ("(top)", "（顶层）"),
    "yes": ("yes", "是"),
    "shapes": ("Ways with the shapes of the job", "作业形状的处理方式"),
    "shapes_calls": (
        "{computed} of {n} calls have one of the shapes that were computed with.",
        "{n} 次调用中有 {computed} 次属于参与计算的形状。",
    ),
    "shapes_not": ("Nothing else is done with shapes: {why}.", "不改变形状的处理方式：{why}。"),
    "axis_right": ("{sizes}: padding is right, filled with {fills}", "{sizes}：填充结果正确，填充值为 {fills}"),
    "axis_wrong": ("{sizes}: padding is refused, {why}", "{sizes}：拒绝填充，{why}"),
    "col_way": ("way", "方式"),
    "col_graphs": ("graphs", "图数"),
    "col_edges": ("sizes padded to", "填充至"),
    "col_padded": ("padded", "填充占比"),
    "col_alone": ("time alone", "单独耗时比"),
    "col_compiled": ("with {name}", "与 {name} 一起"),
    "way_captured": ("any size", "任意尺寸"),
    "way_static": ("a graph a shape", "每种形状一图"),
    "way_padded": ("padded", "填充"),
    "bounds": ("What bounds it here, one call", "本机瓶颈（一次调用）"),
    "bounds_no_roofs": (
        "No roofs of this machine were measured: npulens doctor --roofs.",
        "尚未测量本机上限：npulens doctor --roofs。",
    ),
    "bounds_legend": (
        "Bound is what takes the longest by this machine's measured roofs: multiplying, memory or launching. The share "
        "of the roof is the least time by it over the time measured.",
        "瓶颈为按本机实测上限耗时最长的一项：计算、访存或启动。上限占比为该项最短时间与实测时间之比。",
    ),
    "col_operator": ("operator", "算子"),
    "col_calls": ("calls", "次数"),
    "col_time": ("time", "耗时"),
    "col_share": ("share", "占比"),
    "col_flops": ("operations", "运算量"),
    "col_moved": ("moved", "访存量"),
    "col_bound": ("bound by", "瓶颈"),
    "col_of_roof": ("of the roof", "上限占比"),
    "bound_compute": ("compute", "计算"),
    "bound_memory": ("memory", "访存"),
    "bound_launch": ("launch", "启动"),
    "chips": ("What would bound it on other chips, by their facts", "按芯片参数推算的瓶颈"),
    "col_chip": ("chip", "芯片"),
    "col_least": ("no faster than", "不快于"),
    "col_compute": ("of it computing", "其中计算"),
    "chips_legend": (
        "The least time of the operators one by one at the chip's peaks, which no operator reaches. Nothing was run on "
        "these chips. The type is the program's, or a shorter one where the chip has no peak of that. - is not known.",
        "各算子按芯片峰值逐个计算的最短时间，实际算子达不到峰值。未在这些芯片上运行。"
        "类型为程序所用类型；若芯片无该类型峰值，则用更短的类型。- 表示未知。",
    ),
    "no_chip": (
        "Peaks and memory of {name} are not known; those of these are: {known}.",
        "没有 {name} 的峰值与内存参数；已知的有：{known}。",
    ),
    "no_time": ("--time: {text} is no time; say 60s or 5m.", "--time：{text} 不是时长；请写 60s 或 5m。"),
    "why_gate": ("a gate is not passed", "未通过门槛"),
    "why_one_shape": ("all calls have the same shapes", "所有调用形状相同"),
    "why_captured_for_one": ("the program was captured for one shape", "程序仅针对一种形状捕获"),
    "why_autocast": ("the job casts to {dtype} by itself", "作业自身已自动转换为 {dtype}"),
}
