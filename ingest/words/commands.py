"""What a command refuses; English, then Chinese."""

from __future__ import annotations

TEXT: dict[str, tuple[str, str]] = {
    "result_could_not_be_loaded": ("the result could not be loaded, so no file is made of it",
        "结果无法加载，因此没有生成文件"),
    "was_never_measured": ("{metric} was never measured; there are {known}", "没有测量过 {metric}；已有 {known}"),
    "identities_begin_with": ("{n} identities begin with {wanted}; `npulens history` lists what there is",
        "有 {n} 个任务标识以 {wanted} 开头；`npulens history` 列出全部"),
    "night_cannot_go_on": ("the night cannot go on: {error}", "夜间任务无法继续：{error}"),
    "night_is_done": ("the night of {label} is done and its report is gone; --again makes another",
        "{label} 的夜间任务已完成，但报告已不在；用 --again 重新生成"),
    "file_must_end_in": ("the file must end in {known}, not {suffix}", "文件名必须以 {known} 结尾，而不是 {suffix}"),
    "cannot_write_the_report": ("cannot write the report: {error}", "无法写入报告：{error}"),
    "run_is_a_trace": ("run {run} is a trace, not a benchmark", "运行 {run} 是 trace，不是基准测试"),
    "no_truth_here": ("no {file} here: see `npulens simulate`", "这里没有 {file}：见 `npulens simulate`"),
    "runs_were_loaded": ("{n} runs were loaded, one was expected", "加载了 {n} 个运行，应为一个"),
    "more_than_a_token_may_allow": ("that is more than a token may allow: up to {limits}",
        "超出令牌允许的上限：最多 {limits}"),
    "cannot_read_the_configuration": ("cannot read the configuration: {why}", "无法读取配置：{why}"),
    "this_is_no_toml": ("this is no TOML: {error}", "不是 TOML：{error}"),
    "nights_belong_to": (
        "the nights called {name} belong to {config}; give one of the two another name under [night]",
        "名为 {name} 的夜间结果属于 {config}；请在 [night] 中为其中一个改名",
    ),
    "night_not_ready": ("the night did not begin: {why}", "夜间任务未开始：{why}"),
    "no_such_regression": (
        "there is no regression {number}; there are {known}", "没有编号为 {number} 的变差；已有 {known}",
    ),
    "regressions_are_damaged": (
        "the file of open regressions is damaged: {error}", "记录未解决变差的文件已损坏：{error}",
    ),
    "there_is_no_task": ("there is no task {name}; there are {known}", "没有任务 {name}；已有 {known}"),
    "is_a_watched_folder": ("{name} is a watched folder: it has no base and head",
        "{name} 是被监视的目录，没有 base 与 head"),
    "is_no_name_value": ("{word} is no NAME=VALUE: commit=..., python=... or a variable",
        "{word} 不是 NAME=VALUE：应为 commit=...、python=... 或环境变量"),
    "is_no_date": ("{text} is no date such as 2026-11-22", "{text} 不是日期（例如 2026-11-22）"),
    "on_line": ("line {line}, {place}: {message}", "第 {line} 行，{place}：{message}"),
    "no_utf_8_text": ("it is no UTF-8 text", "不是 UTF-8 文本"),
    "run_was_deleted_meanwhile": ("run {run} was deleted while the night looked at it",
        "夜间任务处理期间，运行 {run} 被删除"),
    "collector_ended_with_status": ("the collector ended with status {status} and no answer",
        "采集进程以状态 {status} 退出，没有结果"),
    "has_no_time_to_compare": (
        "{name} has no time to compare: no such rank or step, or no step and no device activity was recorded",
        "{name} 没有可比较的时间：没有该 rank 或 step，或既没有 step 也没有设备活动"),
}  # fmt: skip
