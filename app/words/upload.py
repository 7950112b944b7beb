"""Dropping a capture and watching it load."""

TEXT = {
    "title": ("Drop a capture here", "将采集数据拖到这里"),
    "hint": (
        "files, or whole directories with all ranks, up to {limit}; several one after the other queue up",
        "文件，或包含所有 rank 的整个目录，最大 {limit}；可连续拖入多个，依次加载",
    ),
    "files": ("Choose files", "选择文件"),
    "directory": ("Choose a directory", "选择目录"),
    "cancel": ("Cancel", "取消"),
    "reading": ("Looking through the directory: {files} files", "正在读取目录：{files} 个文件"),
    "sending": ("Sending {name}: {done} of {total}", "正在上传 {name}：{done} / {total}"),
    "sent": ("Arrived. Starting to load.", "上传完成，开始加载。"),
    "queued": ("Waiting to be sent: {files} more", "等待上传：还有 {files} 项"),
    "cancelled": ("Cancelled. Nothing was kept.", "已取消，未保留任何数据。"),
    "nothing": ("There was no file in what was dropped.", "拖入的内容中没有文件。"),
    "too_many_files": (
        "That is more than {files} files at once. Drop fewer directories, or use npulens load on the server.",
        "一次超过 {files} 个文件。请减少目录，或在服务器上使用 npulens load。",
    ),
    "too_large": (
        "That is more than the {limit} this server takes at once. Load it with npulens load on the server instead.",
        "超过本服务一次可接收的 {limit}。请在服务器上使用 npulens load 加载。",
    ),
    "disk_full": (
        "The disk of the store is too full for this capture. Remove runs with npulens rm, or load it elsewhere.",
        "存储所在磁盘空间不足。请用 npulens rm 删除部分运行，或在其他机器加载。",
    ),
    "bad_name": (
        "A file name in this capture cannot be stored safely. Rename it, or use npulens load on the server.",
        "采集数据中有文件名无法安全保存。请改名，或在服务器上使用 npulens load。",
    ),
    "name_taken": (
        "Two files of this drop have the same path. Drop them one after the other.",
        "拖入的文件中有两个路径相同，请分别拖入。",
    ),
    "bad_token": ("This upload is no longer open. Drop the capture again.", "本次上传已失效，请重新拖入。"),
    "no_length": (
        "The browser did not say how long a file is. Drop the capture again.",
        "浏览器没有给出文件长度，请重新拖入。",
    ),
    "length_lies": (
        "A file changed while it was being sent. Drop the capture again.",
        "文件在上传过程中发生变化，请重新拖入。",
    ),
    "more_than_granted": (
        "More arrived than was announced. Drop the capture again.",
        "收到的数据多于声明的数量，请重新拖入。",
    ),
    "incomplete": ("Not every file arrived. Drop the capture again.", "有文件未上传完成，请重新拖入。"),
    "interrupted": ("The connection broke while sending. Drop the capture again.", "上传过程中连接中断，请重新拖入。"),
    "unreachable": (
        "The server did not answer. Check that it still runs, then drop the capture again.",
        "服务器没有响应，请确认服务仍在运行后重新拖入。",
    ),
    "waiting": (
        "Waiting for its turn: other captures are being loaded.",
        "正在排队：其他采集数据正在加载。",
    ),
    "loading": ("Loading {name}", "正在加载 {name}"),
    "starting": ("starting", "正在启动"),
    "stage_find": ("looking for captures", "正在查找采集数据"),
    "stage_hash": ("checking what the store holds already", "正在核对存储中已有的数据"),
    "stage_read": ("reading {what}", "正在读取 {what}"),
    "stage_tables": ("building the tables", "正在生成数据表"),
    "of": ("{done} of {total}", "{done} / {total}"),
    "rows": ("{n} rows so far", "已生成 {n} 行"),
    "stop": ("Stop loading", "停止加载"),
    "loaded": ("Loaded {name}: {events} events in {seconds} s.", "已加载 {name}：{events} 个事件，用时 {seconds} 秒。"),
    "exists": ("{name} is already in the store; nothing changed.", "{name} 已在存储中，没有变化。"),
    "refused": ("Not loaded, {name}: {reason}", "未加载 {name}：{reason}"),
    "failed": ("Loading {name} failed: {reason}", "加载 {name} 失败：{reason}"),
    "and_more": ("and {n} more", "还有 {n} 项"),
    "close": ("Close", "关闭"),
    "remedy": ("What to do: {remedy}", "处理方法：{remedy}"),
    "detail": ("The reader said: {message}", "读取器原文：{message}"),
    "ticket_over": (
        "This link has expired. Ask whoever gave it to you for a new one.",
        "该链接已过期，请向提供者索取新的链接。",
    ),
    "ticket_used": (
        "This link has brought as many captures as it allows. Ask for a new one.",
        "该链接允许的采集数量已用完，请索取新的链接。",
    ),
    "bad_ticket": (
        "That is more than a token may allow: up to {files} files, {limit} and 744 hours.",
        "超出令牌允许的范围：最多 {files} 个文件、{limit}、744 小时。",
    ),
    "kind_zip_archive": ("a zip archive", "zip 压缩包"),
    "remedy_zip_archive": (
        "Unpack it and drop the directory; nothing is unpacked on the server yet.",
        "请先解压，再把目录拖进来；目前服务端不解压压缩包。",
    ),
    "kind_raw_msprof": ("raw msprof data that has not been exported", "尚未导出的 msprof 原始数据"),
    "remedy_raw_msprof": (
        "Run msprof --export=on --output=DIR on the NPU host, then drop the result.",
        "请在 NPU 主机上执行 msprof --export=on --output=DIR，再拖入导出结果。",
    ),
    "kind_raw_torch_npu": ("raw torch_npu data that has not been analysed", "尚未解析的 torch_npu 原始数据"),
    "remedy_raw_torch_npu": (
        "Run torch_npu.profiler.profiler.analyse('DIR') on the NPU host, then drop the result.",
        "请在 NPU 主机上执行 torch_npu.profiler.profiler.analyse('DIR')，再拖入解析结果。",
    ),
    "kind_raw_mindspore": ("raw MindSpore data that has not been analysed", "尚未解析的 MindSpore 原始数据"),
    "remedy_raw_mindspore": (
        "Run mindspore.profiler.profiler.analyse('DIR') on the NPU host, then drop the result.",
        "请在 NPU 主机上执行 mindspore.profiler.profiler.analyse('DIR')，再拖入解析结果。",
    ),
    "kind_failed_analysis": ("a capture whose analysis failed", "解析失败的采集数据"),
    "remedy_failed_analysis": (
        "Analyse it again where it was recorded and look at logs/*.log, then drop the result.",
        "请在采集所在主机上重新解析并查看 logs/*.log，再拖入解析结果。",
    ),
    "kind_aborted": ("only the directory of a profiler run that was aborted", "被中止的采集，只留下空目录"),
    "remedy_aborted": (
        "Profile again and let the schedule run to its end.",
        "请重新采集，并让 schedule 运行到结束。",
    ),
    "kind_pickle": ("a Python pickle", "Python pickle 文件"),
    "remedy_pickle": (
        "It is never opened: loading one can run code. Drop the trace itself.",
        "出于安全考虑不会打开 pickle（加载时可能执行代码）。请拖入 trace 本身。",
    ),
    "kind_nsight_systems": ("an Nsight Systems report", "Nsight Systems 报告"),
    "remedy_nsight_systems": (
        "Record the job with torch.profiler and drop its trace.",
        "请用 torch.profiler 采集该任务，并拖入其 trace。",
    ),
    "kind_xplane": ("an XLA profile (xplane.pb)", "XLA profile（xplane.pb）"),
    "remedy_xplane": ("This format is not read yet.", "目前还不支持该格式。"),
    "kind_utf16": ("UTF-16 text", "UTF-16 文本"),
    "remedy_utf16": (
        "Convert it with iconv -f UTF-16 -t UTF-8; profilers write UTF-8.",
        "请用 iconv -f UTF-16 -t UTF-8 转换；profiler 写出的是 UTF-8。",
    ),
    "kind_empty": ("empty, or without a file of any profiler", "空文件，或没有任何 profiler 的文件"),
    "remedy_empty": (
        "Drop the directory that the profiler wrote, or the file itself.",
        "请拖入 profiler 写出的目录，或其中的文件。",
    ),
    "kind_unknown_json": ("JSON, but not the trace of a profiler", "JSON 文件，但不是 profiler 的 trace"),
    "kind_unknown_format": ("no capture that npulens knows", "npulens 不认识的文件"),
    "kind_unknown_database": ("an SQLite database without profiler tables", "没有 profiler 数据表的 SQLite 数据库"),
    "remedy_unknown_json": (
        "Drop trace_view.json, a *_ascend_pt directory, an ascend_pytorch_profiler*.db or a torch.profiler trace.",
        "请拖入 trace_view.json、*_ascend_pt 目录、ascend_pytorch_profiler*.db 或 torch.profiler 的 trace。",
    ),
    "remedy_unknown_format": (
        "Drop trace_view.json, a *_ascend_pt directory, an ascend_pytorch_profiler*.db or a torch.profiler trace.",
        "请拖入 trace_view.json、*_ascend_pt 目录、ascend_pytorch_profiler*.db 或 torch.profiler 的 trace。",
    ),
    "remedy_unknown_database": (
        "Drop the ascend_pytorch_profiler*.db that torch_npu writes.",
        "请拖入 torch_npu 写出的 ascend_pytorch_profiler*.db。",
    ),
    "kind_not_a_trace": ("a file that ends before its first event", "在第一个事件之前就结束的文件"),
    "remedy_not_a_trace": ("Profile again, or copy the file again.", "请重新采集，或重新拷贝该文件。"),
    "kind_bad_sqlite": ("a damaged SQLite database", "损坏的 SQLite 数据库"),
    "remedy_bad_sqlite": (
        "Copy it again after the profiler has ended, or drop the text export of the same run.",
        "请在 profiler 结束后重新拷贝，或拖入同一次采集的文本导出。",
    ),
    "kind_too_large": ("more than reading it may use of this machine's memory", "读取所需内存超出限制"),
    "remedy_too_large": (
        "Profile fewer steps, or load the ranks one by one.",
        "请减少采集的 step 数，或逐个 rank 加载。",
    ),
    "kind_too_slow": ("slower to read than is allowed", "读取时间超出限制"),
    "remedy_too_slow": (
        "Profile fewer steps, or load the ranks one by one.",
        "请减少采集的 step 数，或逐个 rank 加载。",
    ),
    "kind_crashed": ("damaged in a way that ended its reader", "数据损坏，导致读取进程退出"),
    "remedy_crashed": (
        "Copy it again; if that does not help, report it with the file's format and version.",
        "请重新拷贝；若仍失败，请附上文件格式与版本反馈该问题。",
    ),
}
