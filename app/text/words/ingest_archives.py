"""What unpacking, look-alikes, quotas and the ledger of an upload say; as in app/text/words/ingest.py."""

TEXT: dict[str, tuple[str, str]] = {}

MESSAGES = (
    # Archives.
    ("a {kind} file of nothing", "空的 {kind} 文件"),
    ("{what} is cut short", "{what} 不完整"),
    ("is cut short", "不完整"),
    ("the packed data is cut short", "压缩数据不完整"),
    ("the packed data is damaged: {error}", "压缩数据已损坏：{error}"),
    ("the archive could not be unpacked", "压缩包无法解开"),
    ("an archive within an archive within an archive; unpack one of them", "压缩包套了三层，请先解开其中一层"),
    ("nothing in it can be read: {reason}", "其中没有可读的内容：{reason}"),
    ("{member} in it is not read: {reason}", "其中的 {member} 未读取：{reason}"),
    ("the archive {name} is incomplete: {reason}", "压缩包 {name} 不完整：{reason}"),
    ("{member} in the archive {name}: {reason}", "压缩包 {name} 中的 {member}：{reason}"),
    (
        "a sparse file, which is not unpacked; make the archive without --sparse",
        "稀疏文件，不解包；请不带 --sparse 重新打包",
    ),
    ("the tar archive is damaged before byte {n}", "tar 归档在第 {n} 字节之前损坏"),
    ("the tar archive is damaged at byte {n}: {error}", "tar 归档在第 {n} 字节处损坏：{error}"),
    ("more data follows the end mark of the tar archive and is not read", "tar 归档结束标记之后还有数据，未读取"),
    ("the tar archive is cut short", "tar 归档不完整"),
    ("the archive is cut short", "压缩包不完整"),
    ("a file and a directory have the same name", "文件与目录同名"),
    ("a hard link to a file that is not in the archive before it", "硬链接指向的文件不在其之前"),
    ("{what}, which is not followed", "{what}，不跟随"),
    ("a link, which is not followed", "链接，不跟随"),
    ("a device or a pipe", "设备或管道"),
    ("it has a negative size", "大小为负"),
    ("a member of negative size", "成员大小为负"),
    ("its name holds a NUL", "名称中含有 NUL"),
    ("its name leads out of the archive", "名称指向压缩包之外"),
    ("its name has {n} characters", "名称有 {n} 个字符"),
    ("it lies {n} directories deep", "目录层级有 {n} 层"),
    ("an archive of more than {n} files; load a part of it", "压缩包超过 {n} 个文件，请只加载其中一部分"),
    (
        "an archive of more than {n} files of next to nothing: no capture",
        "压缩包含有超过 {n} 个几乎为空的文件，不是采集结果",
    ),
    (
        "more than {n} archives of next to nothing; load a part of it",
        "超过 {n} 个几乎为空的压缩包，请只加载其中一部分",
    ),
    (
        "an archive of {n} files, more than {most}; load a part of it",
        "压缩包有 {n} 个文件，超过 {most} 个，请只加载其中一部分",
    ),
    ("an archive of {n} members, listed one by one", "含 {n} 个成员的压缩包，逐一列出"),
    ("it unpacks to more than {size}; load a part of it", "解开后超过 {size}，请只加载其中一部分"),
    ("it unpacks to more than the {n} bytes it claims", "解开后超过其声明的 {n} 字节"),
    ("it unpacks to {n} bytes where it claims {claimed}", "解开后为 {n} 字节，声明为 {claimed} 字节"),
    (
        "{size} that unpack to more than {n} times as much: no capture does; unpack it yourself if you trust it",
        "{size} 的数据解开后超过 {n} 倍，采集数据不会如此；如确认可信，请自行解开",
    ),
    (
        "members of the archive share their bytes: it was made to swell; it is refused",
        "压缩包成员共用数据，是恶意膨胀的压缩包，已拒绝",
    ),
    (
        "one of several parts of a zip archive; join them: `zip -s 0 last.zip --out whole.zip`",
        "分卷 zip 的其中一卷，请先合并：`zip -s 0 last.zip --out whole.zip`",
    ),
    (
        "one part of an archive of several; join them {how} and load the whole",
        "分卷压缩包的其中一卷，请先合并 {how} 再加载",
    ),
    ("one of its files is larger than a load may write", "其中有文件超过单次加载允许写入的大小"),
    ("it is in the archive more than once; the last one counts", "在压缩包中出现多次，以最后一个为准"),
    ("what there is of it is read", "已有部分照常读取"),
    ("a Java archive, no capture", "Java 归档，不是采集数据"),
    ("an Android package, no capture", "Android 安装包，不是采集数据"),
    ("an Office document; load the trace itself, not a report about it", "Office 文档，请加载 trace 本身而不是报告"),
    (
        "a PyTorch checkpoint (torch.save), which is never opened: loading one can run code",
        "PyTorch checkpoint（torch.save），加载它可能执行代码，因此从不打开",
    ),
    ("it is encrypted; unpack it with its password and load what comes out", "已加密，请用密码解开后加载"),
    (
        "it is packed with Deflate64, as Windows Explorer does from 2 GB on; pack it with tar, 7-Zip or zip",
        "使用 Deflate64 压缩（Windows 资源管理器对 2 GB 以上文件如此），请用 tar、7-Zip 或 zip 重新打包",
    ),
    (
        "it is packed with method {method}, which npulens does not know; pack it with tar or zip",
        "使用 npulens 不支持的压缩方法 {method}，请用 tar 或 zip 重新打包",
    ),
    ("its length stands only in the missing end of the archive", "其长度只记录在缺失的压缩包末尾"),
    ("the end of the zip archive is missing: what lay there is lost", "zip 末尾缺失，该部分内容已丢失"),
    ("its checksum does not fit its bytes", "校验和与内容不符"),
    ("its LZMA header is damaged", "LZMA 头已损坏"),
    ("its LZMA header asks for too much memory", "LZMA 头要求的内存过大"),
    ("its header is not where the archive's directory says", "文件头不在目录所述位置"),
    ("its header names another file than the archive's directory", "文件头与目录中的名称不一致"),
    ("a member of the zip archive lies outside of it", "zip 成员超出文件范围"),
    ("the directory of the zip archive is damaged", "zip 目录已损坏"),
    ("the directory of the zip archive lies outside of it", "zip 目录超出文件范围"),
    ("the 64-bit directory of the zip archive is not where it says", "zip64 目录不在所述位置"),
    # Room and time.
    ("the store's disk is full; free some or use another --store", "存储所在磁盘已满，请清理或用 --store 换一个位置"),
    (
        "the store's disk has {free} free, too little to load this; free some or use another --store",
        "存储所在磁盘只剩 {free}，不足以加载，请清理或用 --store 换一个位置",
    ),
    ("there is no space left where the store lies; free some and load again", "存储所在磁盘已满，请清理后重新加载"),
    (
        "the quota of the disk where the store lies is used up; free some and load again",
        "存储所在磁盘的配额已用完，请清理后重新加载",
    ),
    ("a file made from it would be larger than the limit on files allows", "生成的文件会超过单文件大小限制"),
    (
        "the load took longer than {n} s and was stopped; --max-time allows more",
        "加载超过 {n} 秒，已停止；可用 --max-time 放宽",
    ),
    (
        "the load needs more than {size} of disk while it works and was stopped; --max-disk allows more",
        "加载过程占用磁盘超过 {size}，已停止；可用 --max-disk 放宽",
    ),
    (
        "{size} of captures; load a part of it, or allow more with --max-disk",
        "采集数据共 {size}，请只加载一部分，或用 --max-disk 放宽",
    ),
    ("{text} is not {wanted}", "{text} 不是{wanted}"),
    ("a time such as 90s, 30m or 2h", "时间（例如 90s、30m 或 2h）"),
    ("a size such as 500M, 20G or a number of bytes", "大小（例如 500M、20G 或字节数）"),
    (
        "there is not enough memory to read anything: a limit on this process is too low",
        "内存不足，无法读取任何内容：该进程的内存限制过低",
    ),
    ("there is not enough memory to put the run together", "内存不足，无法拼合该运行"),
    ("the run cannot be put together: {error}", "该运行无法拼合：{error}"),
    ("the run was deleted while it was opened", "打开时该运行已被删除"),
    ("run {run} is of an older version: load it again", "运行 {run} 由旧版本存储，请重新加载"),
    ("cannot read or write labels and notes: {error}", "标签与备注无法读写：{error}"),
    # What lies in an upload and is not read.
    ("a note of the file manager's own", "文件管理器自己的文件"),
    ("a mark that the profiler leaves when it ends", "profiler 结束时留下的标记"),
    ("raw data of the framework, read by its own tools only", "框架侧原始数据，只能由其自带工具读取"),
    ("raw data of the device, read by its own tools only", "设备侧原始数据，只能由其自带工具读取"),
    ("a description of the capture", "采集说明"),
    ("a report made from the capture", "由采集数据生成的报告"),
    ("a script or settings", "脚本或配置"),
    ("a part of the database beside it that holds nothing more", "旁边数据库的附属文件，没有更多内容"),
    (
        "packed beside what was read of the capture; unpack it there and load again",
        "与已读取的采集数据放在一起的压缩包，请就地解开后重新加载",
    ),
    ("a table that npulens does not read", "npulens 不读取的表"),
    ("JSON that npulens does not read", "npulens 不读取的 JSON"),
    ("no format that npulens reads", "不是 npulens 支持的格式"),
    ("more than {n} files; the rest is not listed", "超过 {n} 个文件，其余未列出"),
    ("its rank was not loaded", "所属 rank 未加载"),
    # Look-alikes.
    (
        "nothing but zeros: a copy that was cut off or a full disk; copy it again",
        "内容全为零：拷贝中断或磁盘已满，请重新拷贝",
    ),
    ("unpack it and load what comes out, or pack it as .zip or .tar.gz", "请解开后加载，或改用 .zip、.tar.gz 打包"),
    (
        "record the job with torch.profiler (or torch_npu.profiler) and load its trace",
        "请用 torch.profiler（或 torch_npu.profiler）采集后加载其 trace",
    ),
    (
        "a Git LFS pointer, not the file itself; run `git lfs pull` where it came from and load it again",
        "Git LFS 指针而非文件本身，请在来源处运行 `git lfs pull` 后重新加载",
    ),
    (
        "a web page, perhaps an error or log-in page saved in place of the file; download it again",
        "网页，可能是错误页或登录页，请重新下载",
    ),
    (
        "XML, perhaps an error message of a storage service saved in place of the file; download it again",
        "XML，可能是存储服务的错误信息，请重新下载",
    ),
    ("{what}, which is not opened here", "{what}，此处不打开"),
    ("a zip archive whose beginning is damaged", "zip 压缩包的开头已损坏"),
    ("a core dump of a program that crashed, no capture", "程序崩溃的 core dump，不是采集数据"),
    ("a program or library, no capture", "程序或库，不是采集数据"),
    ("a picture or PDF, no capture", "图片或 PDF，不是采集数据"),
    ("arrays or tables of another program, no capture", "其他程序的数组或表，不是采集数据"),
    (
        "an Nsight Compute report: single kernels, no time line",
        "Nsight Compute 报告，只有单个 kernel，没有时间线",
    ),
    ("{what}, which npulens does not read", "{what}，npulens 不支持"),
    ("{what}, which npulens does not read yet", "{what}，npulens 暂不支持"),
    ("a PyTorch or Chakra execution trace: {reason}", "PyTorch 或 Chakra execution trace：{reason}"),
    (
        "operators and their order, without times; load the trace that torch.profiler's export_chrome_trace writes",
        "只有算子及其顺序，没有时间；请加载 torch.profiler 的 export_chrome_trace 输出",
    ),
    (
        "a TensorBoard event file: curves, no trace; load the {file} beside it",
        "TensorBoard 事件文件，只有曲线，没有 trace；请加载旁边的 {file}",
    ),
    (
        "a snapshot of PyTorch's memory allocator; record with profile_memory=True and load that trace",
        "PyTorch 内存分配器快照，请用 profile_memory=True 采集后加载 trace",
    ),
    ("a speedscope profile of a CPU sampler", "CPU 采样的 speedscope 文件"),
    ("a CPU profile of a JavaScript engine", "JavaScript 引擎的 CPU profile"),
    (
        "a file of MindStudio Insight's own; load the profiler's output that it was made from",
        "MindStudio Insight 自己的文件，请加载生成它的 profiler 输出",
    ),
    ("an SQLite database without profiler tables that npulens knows, without any table", "SQLite 数据库，没有任何表"),
    ("{what}, without any table", "{what}，没有任何表"),
    (
        "a TensorBoard event file: curves, no trace; load the {file} beside it, which torch.profiler's "
        "tensorboard_trace_handler writes",
        "TensorBoard 事件文件，只有曲线，没有 trace；请加载旁边由 tensorboard_trace_handler 写出的 {file}",
    ),
    (
        "a table (CSV) that no profiler exports under this name, or a report made from a capture; load the "
        "capture itself",
        "不是 profiler 以此名称导出的 CSV 表，或由采集数据生成的报告；请加载采集数据本身",
    ),
    (
        "a Python pickle (a memory snapshot?), which is never opened: loading one can run code; for memory, "
        "record with profile_memory=True",
        "Python pickle（可能是内存快照），加载它可能执行代码，因此从不打开；内存请用 profile_memory=True 采集",
    ),
    (
        "JSON of an Ascend tool of 2020 (status, info, data): a server's answer, no trace; load the "
        "profiler's own output",
        "2020 年 Ascend 工具的 JSON（status、info、data），是服务返回而不是 trace；请加载 profiler 自身的输出",
    ),
)
