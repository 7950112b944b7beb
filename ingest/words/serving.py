"""What is said of files of serving engines, their clients and RL jobs; English, then Chinese."""

from __future__ import annotations

TEXT: dict[str, tuple[str, str]] = {
    "serving_file_holds_nothing": (
        "{file} holds no request, no iteration and no figure that could be read",
        "{file} 中没有可读取的请求、迭代或指标",
    ),
    "serving_files_are_joined_in_one_load": (
        "the captures of {run} were not kept, so nothing can join it: load all of its files together with these",
        "运行 {run} 的原始文件未保留，无法再并入文件：请把它的全部文件与这些文件一起加载",
    ),
    "msserviceprofiler_drawing": (
        "what msServiceProfiler draws for a browser; load its tables (request.csv, batch.csv, tx_data_df.csv) or "
        "ms_service_*.db, which hold the same",
        "msServiceProfiler 供浏览器显示的文件；请导入内容相同的表（request.csv、batch.csv、tx_data_df.csv）"
        "或 ms_service_*.db",
    ),
    "serving_line_too_long": ("a line is longer than {n} MB and is left out", "有一行超过 {n} MB，已跳过"),
    "serving_json_damaged": ("the JSON is damaged: {error}", "JSON 已损坏：{error}"),
    "serving_line_cannot_be_read": ("a line that cannot be read", "无法读取的行"),
    "serving_table_damaged": ("the table is damaged: {error}", "表格已损坏：{error}"),
    "serving_request_without_stamp": ("a request without a time since 1970", "请求没有 1970 年以来的时间戳"),
    "serving_span_without_stamp": ("a span without a time since 1970", "区间没有 1970 年以来的时间戳"),
    "serving_span_twice": ("a span that came before", "重复的 span"),
    "serving_spans_of_no_request": ("spans that belong to no finished request", "不属于任何已结束请求的 span"),
    "serving_protobuf_ends_early": ("the protobuf ends within a message", "protobuf 在一条消息中间结束"),
    "serving_counter_without_clock": (
        "the database does not say how its counter becomes time (Meta)",
        "数据库没有说明如何把计数器换算为时间（Meta）",
    ),
    "bench_serve_not_detailed": (
        "the result holds sums only: record it with vllm bench serve --save-result --save-detailed",
        "结果中只有汇总值：请用 vllm bench serve --save-result --save-detailed 重新记录",
    ),
    "serving_members_derived": (
        "who was in which iteration is derived: of the iterations {share} % have as many requests as recorded",
        "迭代成员为推导所得；{share} % 的迭代与记录的生成请求数一致",
    ),
    "serving_members_not_known": ("who was in which iteration is not known: {reason}", "迭代成员未知：{reason}"),
    "serving_counts_do_not_fit": ("the engine's counts and the requests do not fit together", "引擎的计数与请求不相符"),
    "serving_times_of_tokens": (
        "iterations of the log are placed by tokens: nine of ten tokens came within {error} ms of their end",
        "日志中的迭代按 token 时间定位：九成 token 在迭代结束后 {error} ms 内到达",
    ),
    "role_clocks_do_not_fit": (
        "step {step}: its captures cannot be of one clock, so nothing is said of how its roles follow each other",
        "step {step}：各次采集的时钟对不上，因此无法判断各角色的先后",
    ),
    "role_folders_do_not_fit": (
        "how the roles in {folder} follow each other cannot be told: no step has captures of one clock",
        "无法判断 {folder} 中各角色的先后：没有任何一步的采集处于同一时钟",
    ),
    "run_holds_no_requests": ("run {run} holds no requests", "运行 {run} 中没有请求"),
    "no_such_request": ("{n} requests are called {id}", "名为 {id} 的请求有 {n} 个"),
    "serving_without_clock": (
        "the log's stamps have no year and no zone, and nothing else tells the time",
        "日志时间戳没有年份和时区，也没有其他来源可确定时间",
    ),
}
