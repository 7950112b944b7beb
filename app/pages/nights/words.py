"""The page of nights."""

TEXT = {
    "title": ("Nights", "夜间"),
    "question": ("Did last night get slower, and why?", "昨夜是否变慢，原因是什么？"),
    "empty_title": ("No night was run yet", "还没有夜间结果"),
    "empty_what": (
        "Every night npulens collects or loads what a file names and compares it with the nights before. Here "
        "it says what regressed, by how much, and what changed with it.",
        "npulens 每夜按配置文件采集或加载，与此前各夜比较，并在此说明哪些指标变差、变了多少、同时有什么变化。",
    ),
    "empty_how": ("Write nightly.toml, and let cron or a timer run:", "编写 nightly.toml，并由 cron 或定时器运行："),
    "configuration": ("Configuration", "配置"),
    "calendar": ("Calendar of nights", "夜间日历"),
    "calendar_note": (
        "One square a night; choose one to read it. Nights without a square were not run.",
        "每夜一格，点选查看；没有格子的日期未运行。",
    ),
    "night": ("Night", "夜"),
    "option": ("{label} · {word}", "{label} · {word}"),
    "hover": ("{label}: {word}", "{label}：{word}"),
    "hover_moved": ("{label}: {word} ({what})", "{label}：{word}（{what}）"),
    "unfinished": (
        "This night has no report: it was interrupted, is running, or its disk was full. Its journal holds {done} "
        "finished steps of {planned}; running `npulens nightly` for this date goes on with it.",
        "本夜没有报告：可能已中断、正在运行或磁盘已满。日志中 {planned} 步已完成 {done} 步；"
        "对该日期再次运行 `npulens nightly` 会接着做。",
    ),
    "decide": ("Accept or mute", "接受或静音"),
    "who": ("Who decides", "决定人"),
    "why": ("Why", "原因"),
    "until": ("Until (last day, empty: for good)", "截止日期（留空表示长期）"),
    "accept": ("Accept: the new baseline", "接受为新基线"),
    "mute": ("Mute", "静音"),
    "reopen": ("Reopen", "重新打开"),
    "took": ("Began {began}, took {took} of {budget}.", "开始于 {began}，用时 {took}，预算 {budget}。"),
    "download": ("The report to forward (HTML)", "下载可转发的报告（HTML）"),
    "series": ("{metric} of {task}, night by night", "{task} 的 {metric}，逐夜"),
    "table": ("Every metric of the night", "本夜全部指标"),
    "mon": ("Mon", "周一"),
    "thu": ("Thu", "周四"),
    "sun": ("Sun", "周日"),
}
