"""What reading and the store say when something cannot be done; English, then Chinese, as in
app/text/words/ingest.py."""

TEXT: dict[str, tuple[str, str]] = {}

MESSAGES = (
    ("{count} more files in these directories", "这些目录还有 {count} 个文件"),
    ("{count} more files in these directories: {reason}", "这些目录还有 {count} 个文件：{reason}"),
    ("{count} more files of this directory", "该目录还有 {count} 个文件"),
    ("{count} more files of this directory: {reason}", "该目录还有 {count} 个文件：{reason}"),
    # A capture that is none, or not yet.
    ("there is no such file or directory", "没有这个文件或目录"),
    (
        "a file of the run is missing: it was deleted meanwhile, or the store is damaged",
        "运行缺少文件：可能刚刚被删除，或 store 已损坏",
    ),
    ("cannot be read: {error}", "无法读取：{error}"),
    ("the file is empty", "文件为空"),
    ("nothing to load here: no file of any profiler", "没有可加载的内容：没有任何 profiler 的文件"),
    (
        "no capture that npulens knows; see `npulens load --help` for the formats",
        "不是 npulens 支持的采集数据；格式见 `npulens load --help`",
    ),
    ("{n} more files are no capture npulens knows", "另有 {n} 个文件不是 npulens 支持的采集数据"),
    (
        "more than {n} directories outside of captures; load a part of it",
        "采集结果之外的目录超过 {n} 个，请只加载其中一部分",
    ),
    ("more than {n} files; load a part of it", "超过 {n} 个文件，请只加载其中一部分"),
    ("raw msprof data, not exported yet", "msprof 原始数据，尚未导出"),
    ("raw torch_npu data, not analysed yet", "torch_npu 原始数据，尚未解析"),
    ("on the NPU host run {command}", "请在 NPU 主机上运行 {command}"),
    ("the profiler left nothing here but its directory: the run was aborted", "profiler 只留下了目录：采集被中止"),
    ("an Nsight Systems report; export it with {command}", "Nsight Systems 报告，请用 {command} 导出"),
    ("an Nsight Systems stream; export it with {command}", "Nsight Systems 数据流，请用 {command} 导出"),
    ("an XLA profile (xplane.pb), which npulens does not read yet", "XLA profile（xplane.pb），npulens 暂不支持"),
    (
        "UTF-16 text; profilers write UTF-8, convert it with {command}",
        "UTF-16 文本；profiler 输出 UTF-8，请用 {command} 转换",
    ),
    (
        "JSON, but no trace of torch_npu, msprof or torch.profiler",
        "是 JSON，但不是 torch_npu、msprof 或 torch.profiler 的 trace",
    ),
    ("a zip archive; unpack it and load the directory", "zip 压缩包，请解压后加载目录"),
    ("a tar archive; unpack it and load the directory", "tar 归档，请解包后加载目录"),
    (
        "an SQLite database without profiler tables that npulens knows",
        "SQLite 数据库，但没有 npulens 支持的 profiler 表",
    ),
    (
        "a Python pickle (a memory snapshot?), which is never opened: loading one can run code",
        "Python pickle（可能是内存快照），加载它可能执行代码，因此从不打开",
    ),
    (
        "a Python pickle, which is never opened: loading one can run code",
        "Python pickle，加载它可能执行代码，因此从不打开",
    ),
    ("not a trace: {reason}", "不是 trace：{reason}"),
    ("nothing to show in this trace: {reason}", "该 trace 没有可显示的内容：{reason}"),
    ("it holds no events with time and duration", "没有带时间与时长的事件"),
    ("no database to read", "没有可读的数据库"),
    ("its tables cannot be put together: {error}", "各表无法拼合：{error}"),
    ("the database holds no tables: they were dropped or never written", "数据库中没有表：已被删除或从未写入"),
    ("none of its tables holds a row that can be read", "没有任何表含有可读的行"),
    ("the text export gives no tables: {error}", "text 导出没有得到任何表：{error}"),
    ("is not an SQLite database", "不是 SQLite 数据库"),
    ("cannot be opened: {error}", "无法打开：{error}"),
    ("cannot be read as an SQLite database: {error}", "无法作为 SQLite 数据库读取：{error}"),
    ("cannot be read as an SQLite database", "无法作为 SQLite 数据库读取"),
    ("its log cannot be applied: {error}", "其日志（WAL）无法应用：{error}"),
    # The process that reads.
    ("its reader ended with status {status} and no answer", "读取进程以状态 {status} 退出，没有结果"),
    ("reading it took longer than {n} s and was stopped", "读取超过 {n} 秒，已停止"),
    ("reading it used more than {n} s of processor time and was stopped", "读取占用处理器超过 {n} 秒，已停止"),
    (
        "its reader was stopped by {signal}; the file may be damaged or hostile",
        "读取进程被 {signal} 终止，文件可能已损坏或带有恶意",
    ),
    ("reading it needs more than {n} GiB of memory", "读取需要超过 {n} GiB 内存"),
    ("npulens failed on it, please report: {what}", "npulens 处理时出错，请反馈：{what}"),
    (
        "the system refused: {error}; a limit on files is too low for it",
        "系统拒绝：{error}；对文件的限制太小",
    ),
    ("the system refused: {error}", "系统拒绝：{error}"),
    ("the loading process ended with status {status}: {error}", "加载进程以状态 {status} 退出：{error}"),
    # The store.
    ("there is no such run", "没有这次运行"),
    (
        "the manifest of the run cannot be read: load its capture again, or delete the run",
        "该运行的清单（manifest）无法读取：请重新加载采集数据，或删除该运行",
    ),
    (
        "stored in schema version {found}, this program reads {known}: load again",
        "存储的结构版本为 {found}，本程序读取 {known}：请重新加载",
    ),
    ("there is no table {table}; docs/tables.md lists them", "没有表 {table}，表的清单见 docs/tables.md"),
    ("there is such a file already; it is not overwritten", "文件已存在，不会覆盖"),
    ("name a .duckdb, .parquet or .csv file, or a directory", "请给出 .duckdb、.parquet 或 .csv 文件，或一个目录"),
    ("cannot write: {error}", "无法写入：{error}"),
    ("cannot arrange the run for the timeline: {error}", "无法为时间线整理该运行：{error}"),
    ("cannot make the store: {error}", "无法创建存储：{error}"),
    ("a label may have {most} characters, this has {n}", "标签最多 {most} 个字符，现有 {n} 个"),
    ("a note may have {most} characters, this has {n}", "备注最多 {most} 个字符，现有 {n} 个"),
    ("a run may have {n} tags of {most} characters each", "一次运行最多 {n} 个标记，每个最多 {most} 个字符"),
    (
        "run {run} is called {label} already; give it another name first",
        "运行 {run} 已使用标签 {label}，请先给它改名",
    ),
    ("run {run} already holds rank {rank}", "运行 {run} 中已有 rank {rank}"),
    (
        "no run is called {name}; `npulens runs` lists what there is",
        "没有名为 {name} 的运行；`npulens runs` 列出现有运行",
    ),
    ("{name} begins {n} run ids; give more of it", "{name} 是 {n} 个运行 ID 的开头，请多给几位"),
    ("no deleted run is called {name}", "没有名为 {name} 的已删除运行"),
    ("run {run} is not in the store any more", "运行 {run} 已不在存储中"),
    ("run {run} was collected meanwhile", "运行 {run} 已被彻底清除"),
    # A visitor's own SELECT.
    ("the query ended without an answer", "查询没有返回结果就结束了"),
    ("more than {n} rows; add a LIMIT, or use `npulens export`", "超过 {n} 行，请加 LIMIT，或使用 `npulens export`"),
    ("only one SELECT is run, nothing else", "只能执行一条 SELECT"),
)
