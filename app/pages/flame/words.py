"""What flame graphs say, here and where two runs are compared."""

TEXT = {
    "title": ("Flame graph", "火焰图"),
    "question": ("Flame graph: which code takes the time?", "火焰图：时间花在哪些代码上？"),
    "weight": ("Width", "宽度"),
    "weight_device": ("Device time", "设备时间"),
    "weight_host": ("Host time", "主机时间"),
    "weight_means": (
        "Device time belongs to the code that launched it. Host time is the time of the calls themselves.",
        "设备时间计入下发它的代码；主机时间为调用本身的耗时。",
    ),
    "answer": (
        "{total} in all. Most of it by itself: {name}, {own} ({share}).",
        "合计 {total}。自身耗时最多的是 {name}：{own}（{share}）。",
    ),
    "unlinked": (
        "{time} of device work has no recorded launch and is in no frame.",
        "有 {time} 的设备任务没有下发记录，未计入图中。",
    ),
    "too_many": (
        "There are too many calls for one graph. Select a rank, steps or a window.",
        "调用数量过多，无法绘制。请选择 rank、训练步或时间窗。",
    ),
    "none": ("No host calls were recorded.", "未记录主机侧调用。"),
    "left_out": ("{n} frames are too thin to draw.", "有 {n} 个过窄的帧未绘制。"),
    "all": ("All", "全部"),
    "step": ("Step", "训练步"),
    "frame_means": (
        "{name}: {total} ({share}), {own} of it by itself; {n} times",
        "{name}：{total}（{share}），其中自身 {own}；{n} 次",
    ),
    "table": ("Table ({n} names)", "表格（{n} 个名称）"),
    "table.one": ("Table (one name)", "表格（1 个名称）"),
    "col_name": ("Name", "名称"),
    "col_self": ("Self", "自身"),
    "col_self_means": ("Without what it calls.", "不含其调用的部分。"),
    "col_share": ("Share", "占比"),
    "col_total": ("Total", "总计"),
    "col_total_means": ("With what it calls, at the place where that is most.", "含其调用的部分，取最大的一处。"),
    "col_count": ("Count", "次数"),
    "differs": ("Flame graph of the difference", "差异火焰图"),
    "differs_means": (
        "{name}: base {base}, head {head}, change {change}",
        "{name}：基线 {base}，对比侧 {head}，变化 {change}",
    ),
    "differs_all": ("base {base}, head {head}", "基线 {base}，对比侧 {head}"),
    "differs_help": (
        "Warm frames take longer in head, green ones less. The width is the longer of both.",
        "暖色表示对比侧更慢，绿色表示更快。宽度取两侧中较长者。",
    ),
}
