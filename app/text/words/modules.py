"""The modules of a model: the texts of `npulens modules`."""

TEXT = {
    "none": (
        "No calls of modules were recorded. {setting} records them.",
        "未采集到 module 的调用，可用 {setting} 采集。",
    ),
    "none_of": (
        "{run}: no calls of modules were recorded. {setting} records them.",
        "{run}：未采集到 module 的调用，可用 {setting} 采集。",
    ),
    "no_kernels": (
        "No kernels were recorded, so only times of the host are shown.",
        "没有采集到算子，因此只显示 主机侧时间。",
    ),
    "sums": (
        "Kernels of a step and rank run for {device}: forward {forward}, backward {backward}, computed again {again}.",
        "每个 rank 每步的算子运行 {device}：前向 {forward}，反向 {backward}，重计算 {again}。",
    ),
    "parts": ("{modules} in modules, {outside} outside, {not_tied} backward and not tied to a module.",
              "其中 module 内占 {modules}，module 外占 {outside}，无法归到 module 的反向计算占 {not_tied}。"),
    "frames": (
        "The profiler numbered the modules by class. npulens collect --modules records their names.",
        "profiler 只按类别给 module 编号；npulens collect --modules 可采集 module 的名称。",
    ),
    "stacks": (
        "Only the stacks of operators were recorded, so a row is a place in the code. npulens collect --modules "
        "records calls of modules and their names.",
        "只采集到算子的调用栈，因此每一行是代码中的一个位置；npulens collect --modules 可采集 module 的调用及名称。",
    ),
    "col_module": ("Module", "module"),
    "col_class": ("Class", "类"),
    "col_calls": ("Calls", "调用次数"),
    "col_time": ("ms/step", "ms/步"),
    "col_own": ("Own", "自身"),
    "col_forward": ("Forward", "前向"),
    "col_backward": ("Backward", "反向"),
    "col_again": ("Again", "重计算"),
    "col_host": ("Host forward", "主机侧前向"),
    "col_kernels": ("Kernels", "算子数"),
    "col_memory": ("MB", "MB"),
    "col_flops": ("GFLOP", "GFLOP"),
    "col_intensity": ("FLOP/B", "FLOP/B"),
    "col_share": ("Of roof", "占峰值"),
    "outside": ("outside modules", "module 之外"),
    "not_tied": ("backward, not tied", "无法归属的反向计算"),
    "legend": (
        "ms/step: time of kernels of a step and rank, of two at once the one that began first. Own: without the "
        "modules that it calls. '-' is not measured.",
        "ms/步：每个 rank 每步的算子时间；两个算子同时运行时，时间计入先开始的一个。“自身”不含其调用的 module。"
        "“-” 表示未测得。",
    ),
    "hidden": ("{n} more rows: --depth and --top show them.", "另有 {n} 行，可用 --depth 和 --top 显示。"),
    "hidden.one": ("1 more row: --depth and --top show it.", "另有 1 行，可用 --depth 和 --top 显示。"),
    "wrong": ("?", "?"),
    "wrong_means": (
        "'?': faster than the roof allows. The roof or the model of an operator is wrong, or data was in a cache.",
        "“?”：快于峰值所允许的速度。说明峰值或某个算子的模型有误，或者数据已在缓存中。",
    ),
    "change": (
        "Kernels of a step and rank: {base} → {head} ({change}).",
        "每个 rank 每步的算子时间：{base} → {head}（{change}）。",
    ),
    "unlike": (
        "The runs have {base} and {head} ranks: figures are those of one rank.",
        "两次采集分别有 {base} 个和 {head} 个 rank，数值按单个 rank 计算。",
    ),
    "col_base": ("Base", "基线"),
    "col_head": ("Head", "对比"),
    "col_change": ("Change", "变化"),
    "col_own_change": ("Own change", "自身变化"),
    "col_was": ("In base", "基线中"),
    "col_how": ("", ""),
    "how_same": ("", ""),
    "how_renamed": ("renamed", "改名"),
    "how_added": ("only in head", "仅 对比侧 有"),
    "how_removed": ("only in base", "仅 基线 有"),
    "change_legend": (
        "ms of a step and rank. Own change: without the modules that it calls. The own changes of all rows are the "
        "whole change, to the nanosecond.",
        "单位为每个 rank 每步的 ms。“自身变化”不含其调用的 module。所有行的自身变化之和等于总变化，精确到纳秒。",
    ),
}  # fmt: skip
