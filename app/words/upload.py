"""Dropping a capture and watching it load."""

TEXT = {
    "title": ("Drop a capture here", "将采集数据拖到这里"),
    "hint": (
        "files, or whole directories with all ranks, up to {limit}",
        "文件，或包含所有 rank 的整个目录，最大 {limit}",
    ),
    "files": ("Choose files", "选择文件"),
    "directory": ("Choose a directory", "选择目录"),
    "cancel": ("Cancel", "取消"),
    "reading": ("Looking through the directory: {files} files", "正在读取目录：{files} 个文件"),
    "sending": ("Sending {name}: {done} of {total}", "正在上传 {name}：{done} / {total}"),
    "sent": ("Arrived. Starting to load.", "上传完成，开始加载。"),
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
    "waiting": ("{name} waits until another capture is loaded.", "{name} 正在等待其他采集加载完成。"),
    "loading": ("Loading {name}", "正在加载 {name}"),
    "starting": ("starting", "正在启动"),
    "stage_find": ("looking for captures", "正在查找采集数据"),
    "stage_hash": ("checking what the store holds already", "正在核对存储中已有的数据"),
    "stage_read": ("reading {what}", "正在读取 {what}"),
    "stage_tables": ("building the tables", "正在生成数据表"),
    "of": ("{done} of {total}", "{done} / {total}"),
    "stop": ("Stop loading", "停止加载"),
    "loaded": ("Loaded {name}: {events} events in {seconds} s.", "已加载 {name}：{events} 个事件，用时 {seconds} 秒。"),
    "exists": ("{name} is already in the store; nothing changed.", "{name} 已在存储中，没有变化。"),
    "refused": ("Not loaded, {name}: {reason}", "未加载 {name}：{reason}"),
    "failed": ("Loading {name} failed: {reason}", "加载 {name} 失败：{reason}"),
    "close": ("Close", "关闭"),
}
