"""What the bar of a selection says, and what a page says of what does not follow it."""

TEXT = {
    "ranks": ("Ranks", "rank"),
    "steps": ("Steps", "训练步"),
    "all_ranks": ("All ranks", "全部 rank"),
    "all_steps": ("All steps", "全部训练步"),
    "typed": ("Numbers and ranges, such as 0,2-7.", "可填数字和区间，例如 0,2-7。"),
    "all_time": ("Whole time", "全部时间"),
    "window_said": ("{length} from {start}", "{start} 起 {length}"),
    "from": ("From, in ns", "起点（ns）"),
    "to": ("To, in ns", "终点（ns）"),
    "clear_window": ("Clear the window", "清除时间窗"),
    "problem_said": ("Problem: {name}", "问题：{name}"),
    "span_said": ("Span: {name}", "片段：{name}"),
    "let_go": ("Remove from the selection", "从选择中移除"),
    "on_timeline": ("Timeline", "时间线"),
    "clear": ("Clear", "清除选择"),
    "select": ("Select", "选中"),
    "select_means": (
        "Selects this rank and window here and on every other page.",
        "在此页和所有其他页面上选中该 rank 和时间窗。",
    ),
    "whole": ("Whole capture: this part does not follow the selection.", "整个采集：此部分不随选择变化。"),
    "nothing": ("Nothing of this lies in the selection.", "选择范围内没有此类数据。"),
}
