"""What is said of commits.

There is the gate for a change that is not merged yet, and the search for the one that slowed a task.
"""

TEXT = {
    "gate_title": ("{name}: {base} → {head}", "{name}：{base} → {head}"),
    "gate_regressed": ("{n} metrics regressed", "{n} 项指标变差"),
    "gate_regressed.one": ("1 metric regressed", "1 项指标变差"),
    "gate_passed": ("Nothing regressed", "没有指标变差"),
    "gate_broken": (
        "Nothing regressed in what was measured; a part could not be measured",
        "已测的指标没有变差；有一部分无法测量",
    ),
    "gate_unmeasured": ("Nothing was measured", "没有测得任何数据"),
    "gate_and_broken": ("; a part could not be measured", "；有一部分无法测量"),
    "gate_left_out": (
        "Not measured, since no command of a commit can be run for it: {names}.",
        "未测量（没有可按提交运行的命令）：{names}。",
    ),
    "gate_more": ("{n} more metrics were measured and did not move.", "另有 {n} 项已测的指标没有变化。"),
    "gate_more.one": ("1 more metric was measured and did not move.", "另有 1 项已测的指标没有变化。"),
    "gate_open": ("Compare the two runs", "对比两次采集"),
    "gate_parts": ("Of the change of the step, {change}, are:", "单步时间的变化 {change} 由以下组成："),
    "gate_rest": ("everything else", "其余部分"),
    "gate_residual": ("not explained", "未能解释"),
    "col_base": ("Base", "基线"),
    "col_head": ("Head", "对比"),
    "col_pairs": ("Pairs", "配对数"),
    "bisect_title": (
        "{task}, {metric}: {n} commits after {good} up to {bad}",
        "{task}，{metric}：{good} 之后至 {bad} 共 {n} 个提交",
    ),
    "bisect_title.one": (
        "{task}, {metric}: 1 commit after {good} up to {bad}",
        "{task}，{metric}：{good} 之后至 {bad} 共 1 个提交",
    ),
    "col_commit": ("Commit", "提交"),
    "col_said": ("Is", "判定"),
    "col_change": ("Change from good", "相对正常提交的变化"),
    "col_interval": ("Interval", "区间"),
    "col_subject": ("Subject", "标题"),
    "said_good": ("good", "正常"),
    "said_bad": ("bad", "异常"),
    "said_skipped": ("skipped", "跳过"),
    "said_unclear": ("cannot tell", "无法判定"),
    "bisect_found": ("{commit} is the first bad commit: {subject}", "首个异常提交是 {commit}：{subject}"),
    "bisect_one": ("{commit}: {subject}", "{commit}：{subject}"),
    "bisect_by": ("by {author} on {date}", "作者 {author}，日期 {date}"),
    "bisect_nothing": (
        "Nothing between differs: {bad} is not shown to be worse than {good}.",
        "两者之间没有差异：没有证据表明 {bad} 比 {good} 差。",
    ),
    "bisect_unclear": (
        "The first bad commit is one of these {n}; the others among them cannot be run or told apart:",
        "首个异常提交是以下 {n} 个之一；其余的无法运行或无法区分：",
    ),
}
