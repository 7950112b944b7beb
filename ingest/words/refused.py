"""What reading and the store say when something cannot be done; English, then Chinese."""

from __future__ import annotations

TEXT: dict[str, tuple[str, str]] = {
    "more_files_in_these_directories": ("{count} more files in these directories", "这些目录还有 {count} 个文件"),
    "more_files_in_these_directories_for_reason": (
        "{count} more files in these directories: {reason}",
        "这些目录还有 {count} 个文件：{reason}",
    ),
    "more_files_this_directory": ("{count} more files of this directory", "该目录还有 {count} 个文件"),
    "more_files_this_directory_for_reason": (
        "{count} more files of this directory: {reason}",
        "该目录还有 {count} 个文件：{reason}",
    ),
    # A capture that is none, or not yet.
    "there_is_no_such_file": ("there is no such file or directory", "没有这个文件或目录"),
    "file_run_is_missing_it": (
        "a file of the run is missing: it was deleted meanwhile, or the store is damaged",
        "运行缺少文件：可能刚刚被删除，或 store 已损坏",
    ),
    "cannot_be_read": ("cannot be read: {error}", "无法读取：{error}"),
    "file_is_empty": ("the file is empty", "文件为空"),
    "nothing_to_load_here_no": (
        "nothing to load here: no file of any profiler",
        "没有可加载的内容：没有任何 profiler 的文件",
    ),
    "no_capture_that_npulens_knows": (
        "no capture that npulens knows; see `npulens load --help` for the formats",
        "不是 npulens 支持的采集数据；格式见 `npulens load --help`",
    ),
    "more_files_are_no_capture": (
        "{n} more files are no capture npulens knows",
        "另有 {n} 个文件不是 npulens 支持的采集数据",
    ),
    "more_than_directories_outside_captures": (
        "more than {n} directories outside of captures; load a part of it",
        "采集结果之外的目录超过 {n} 个，请只加载其中一部分",
    ),
    "more_than_files_load_part": ("more than {n} files; load a part of it", "超过 {n} 个文件，请只加载其中一部分"),
    "raw_msprof_data_not_exported": ("raw msprof data, not exported yet", "msprof 原始数据，尚未导出"),
    "on_npu_host_run": ("on the NPU host run {command}", "请在 NPU 主机上运行 {command}"),
    "utf_16_text_profilers_write": (
        "UTF-16 text; profilers write UTF-8, convert it with {command}",
        "UTF-16 文本；profiler 输出 UTF-8，请用 {command} 转换",
    ),
    "json_but_no_trace_torch": (
        "JSON, but no trace of torch_npu, msprof or torch.profiler",
        "是 JSON，但不是 torch_npu、msprof 或 torch.profiler 的 trace",
    ),
    "nsight_systems_report": ("an Nsight Systems report", "Nsight Systems 报告"),
    "sqlite_database_without_any_table": (
        "an SQLite database without profiler tables that npulens knows, without any table",
        "SQLite 数据库，没有任何表",
    ),
    "sqlite_database_without_profiler_tables": (
        "an SQLite database without profiler tables that npulens knows ({tables})",
        "SQLite 数据库，但没有 npulens 支持的 profiler 表（{tables}）",
    ),
    "python_pickle_memory_snapshot_which": (
        "a Python pickle (a memory snapshot?), which is never opened: loading one can run code",
        "Python pickle（可能是内存快照），加载它可能执行代码，因此从不打开",
    ),
    "not_trace": ("not a trace: {reason}", "不是 trace：{reason}"),
    "nothing_to_show_in_this": ("nothing to show in this trace: {reason}", "该 trace 没有可显示的内容：{reason}"),
    "it_holds_no_events_with": ("it holds no events with time and duration", "没有带时间与时长的事件"),
    "no_database_to_read": ("no database to read", "没有可读的数据库"),
    "its_tables_cannot_be_put": ("its tables cannot be put together: {error}", "各表无法拼合：{error}"),
    "database_holds_no_tables_they": (
        "the database holds no tables: they were dropped or never written",
        "数据库中没有表：已被删除或从未写入",
    ),
    "none_its_tables_holds_row": ("none of its tables holds a row that can be read", "没有任何表含有可读的行"),
    "text_export_gives_no_tables": ("the text export gives no tables: {error}", "text 导出没有得到任何表：{error}"),
    "is_not_sqlite_database": ("is not an SQLite database", "不是 SQLite 数据库"),
    "cannot_be_opened": ("cannot be opened: {error}", "无法打开：{error}"),
    "cannot_be_read_as_sqlite": (
        "cannot be read as an SQLite database: {error}",
        "无法作为 SQLite 数据库读取：{error}",
    ),
    "its_log_cannot_be_applied": ("its log cannot be applied: {error}", "其日志（WAL）无法应用：{error}"),
    # The process that reads.
    "its_reader_ended_with_status": (
        "its reader ended with status {status} and no answer",
        "读取进程以状态 {status} 退出，没有结果",
    ),
    "reading_it_took_longer_than": ("reading it took longer than {n} s and was stopped", "读取超过 {n} 秒，已停止"),
    "reading_it_used_more_than": (
        "reading it used more than {n} s of processor time and was stopped",
        "读取占用处理器超过 {n} 秒，已停止",
    ),
    "its_reader_was_stopped_by": (
        "its reader was stopped by {signal}; the file may be damaged or hostile",
        "读取进程被 {signal} 终止，文件可能已损坏或带有恶意",
    ),
    "reading_it_needs_more_than": ("reading it needs more than {n} GiB of memory", "读取需要超过 {n} GiB 内存"),
    "npulens_failed_on_it_please": (
        "npulens failed on it, please report: {what}",
        "npulens 处理时出错，请反馈：{what}",
    ),
    "system_refused_limit_on_files": (
        "the system refused: {error}; a limit on files is too low for it",
        "系统拒绝：{error}；对文件的限制太小",
    ),
    "system_refused": ("the system refused: {error}", "系统拒绝：{error}"),
    "loading_process_ended_with_status": (
        "the loading process ended with status {status}: {error}",
        "加载进程以状态 {status} 退出：{error}",
    ),
    # The store.
    "there_is_no_such_run": ("there is no such run", "没有这次运行"),
    "manifest_run_cannot_be_read": (
        "the manifest of the run cannot be read: load its capture again, or delete the run",
        "该运行的清单（manifest）无法读取：请重新加载采集数据，或删除该运行",
    ),
    "stored_in_schema_version_this": (
        "stored in schema version {found}, this program reads {known}: load again",
        "存储的结构版本为 {found}，本程序读取 {known}：请重新加载",
    ),
    "there_is_no_table_docs": (
        "there is no table {table}; docs/tables.md lists them",
        "没有表 {table}，表的清单见 docs/tables.md",
    ),
    "there_is_such_file_already": ("there is such a file already; it is not overwritten", "文件已存在，不会覆盖"),
    "name_duckdb_parquet_or_csv": (
        "name a .duckdb, .parquet or .csv file, or a directory",
        "请给出 .duckdb、.parquet 或 .csv 文件，或一个目录",
    ),
    "cannot_write": ("cannot write: {error}", "无法写入：{error}"),
    "cannot_arrange_run_for_timeline": (
        "cannot arrange the run for the timeline: {error}",
        "无法为时间线整理该运行：{error}",
    ),
    "cannot_make_store": ("cannot make the store: {error}", "无法创建存储：{error}"),
    "label_may_have_characters_this": (
        "a label may have {most} characters, this has {n}",
        "标签最多 {most} 个字符，现有 {n} 个",
    ),
    "note_may_have_characters_this": (
        "a note may have {most} characters, this has {n}",
        "备注最多 {most} 个字符，现有 {n} 个",
    ),
    "run_may_have_tags_characters": (
        "a run may have {n} tags of {most} characters each",
        "一次运行最多 {n} 个标记，每个最多 {most} 个字符",
    ),
    "run_is_called_already_give": (
        "run {run} is called {label} already; give it another name first",
        "运行 {run} 已使用标签 {label}，请先给它改名",
    ),
    "run_already_holds_rank": ("run {run} already holds rank {rank}", "运行 {run} 中已有 rank {rank}"),
    "no_run_is_called_npulens": (
        "no run is called {name}; `npulens runs` lists what there is",
        "没有名为 {name} 的运行；`npulens runs` 列出现有运行",
    ),
    "begins_run_ids_give_more": (
        "{name} begins {n} run ids; give more of it",
        "{name} 是 {n} 个运行 ID 的开头，请多给几位",
    ),
    "no_deleted_run_is_called": ("no deleted run is called {name}", "没有名为 {name} 的已删除运行"),
    "run_is_not_in_store": ("run {run} is not in the store any more", "运行 {run} 已不在存储中"),
    "run_was_collected_meanwhile": ("run {run} was collected meanwhile", "运行 {run} 已被彻底清除"),
    # A visitor's own SELECT.
    "query_ended_without_answer": ("the query ended without an answer", "查询没有返回结果就结束了"),
    "more_than_rows_add_limit": (
        "more than {n} rows; add a LIMIT, or use `npulens export`",
        "超过 {n} 行，请加 LIMIT，或使用 `npulens export`",
    ),
    "only_one_select_is_run": ("only one SELECT is run, nothing else", "只能执行一条 SELECT"),
    "cannot_read_or_write_history": ("cannot read or write the history: {error}", "无法读写历史：{error}"),
    "move_the_history_away": (
        "move it away, and a new one is filled from the runs of the store",
        "请将其移走，新的历史会由 store 中的运行重建",
    ),
    "history_is_of_version": (
        "the history is of version {found}, this program knows {known}: update npulens",
        "历史的版本为 {found}，本程序支持 {known}：请更新 npulens",
    ),
    "point_belongs_to_identity": (
        "{name}: the point belongs to identity {one}, not to {other}",
        "{name}：该点属于 {one}，而不是 {other}",
    ),
    "is_not_a_measurement": ("{name}: {value} is not a measurement", "{name}：{value} 不是有效的测量值"),
    "point_cannot_be_kept": (
        "{name}: better={better} at {at} ns cannot be kept",
        "{name}：better={better}、{at} ns 无法保存",
    ),
    "it_holds_no_events": ("it holds no events", "没有任何事件"),
}
