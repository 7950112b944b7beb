"""What unpacking, look-alikes, quotas and the ledger of an upload say; English, then Chinese."""

from __future__ import annotations

TEXT: dict[str, tuple[str, str]] = {
    # Archives.
    "file_nothing": ("a {kind} file of nothing", "空的 {kind} 文件"),
    "packed_data_is_cut_short": ("the packed data is cut short", "压缩数据不完整"),
    "packed_data_is_damaged": ("the packed data is damaged: {error}", "压缩数据已损坏：{error}"),
    "archive_could_not_be_unpacked": ("the archive could not be unpacked", "压缩包无法解开"),
    "archive_within_archive_within_archive": (
        "an archive within an archive within an archive; unpack one of them",
        "压缩包套了三层，请先解开其中一层",
    ),
    "nothing_in_it_can_be": ("nothing in it can be read: {reason}", "其中没有可读的内容：{reason}"),
    "in_it_is_not_read": ("{member} in it is not read: {reason}", "其中的 {member} 未读取：{reason}"),
    "archive_is_incomplete": ("the archive {name} is incomplete: {reason}", "压缩包 {name} 不完整：{reason}"),
    "in_archive": ("{member} in the archive {name}: {reason}", "压缩包 {name} 中的 {member}：{reason}"),
    "sparse_file_which_is_not": (
        "a sparse file, which is not unpacked; make the archive without --sparse",
        "稀疏文件，不解包；请不带 --sparse 重新打包",
    ),
    "tar_archive_is_damaged_before": ("the tar archive is damaged before byte {n}", "tar 归档在第 {n} 字节之前损坏"),
    "tar_archive_is_damaged_at": (
        "the tar archive is damaged at byte {n}: {error}",
        "tar 归档在第 {n} 字节处损坏：{error}",
    ),
    "more_data_follows_end_mark": (
        "more data follows the end mark of the tar archive and is not read",
        "tar 归档结束标记之后还有数据，未读取",
    ),
    "tar_archive_is_cut_short": ("the tar archive is cut short", "tar 归档不完整"),
    "archive_is_cut_short": ("the archive is cut short", "压缩包不完整"),
    "file_and_directory_have_same": ("a file and a directory have the same name", "文件与目录同名"),
    "hard_link_to_file_that": (
        "a hard link to a file that is not in the archive before it",
        "硬链接指向的文件不在其之前",
    ),
    "which_is_not_followed": ("{what}, which is not followed", "{what}，不跟随"),
    "link_which_is_not_followed": ("a link, which is not followed", "链接，不跟随"),
    "device_or_pipe": ("a device or a pipe", "设备或管道"),
    "header_of_bytes": ("a header of {n} bytes", "大小为 {n} 字节的头"),
    "it_has_negative_size": ("it has a negative size", "大小为负"),
    "member_negative_size": ("a member of negative size", "成员大小为负"),
    "its_name_holds_nul": ("its name holds a NUL", "名称中含有 NUL"),
    "its_name_leads_out_archive": ("its name leads out of the archive", "名称指向压缩包之外"),
    "its_name_has_characters": ("its name has {n} characters", "名称有 {n} 个字符"),
    "it_lies_directories_deep": ("it lies {n} directories deep", "目录层级有 {n} 层"),
    "archive_more_than_files_load": (
        "an archive of more than {n} files; load a part of it",
        "压缩包超过 {n} 个文件，请只加载其中一部分",
    ),
    "archive_more_than_files_next": (
        "an archive of more than {n} files of next to nothing: no capture",
        "压缩包含有超过 {n} 个几乎为空的文件，不是采集结果",
    ),
    "more_than_archives_next_to": (
        "more than {n} archives of next to nothing; load a part of it",
        "超过 {n} 个几乎为空的压缩包，请只加载其中一部分",
    ),
    "archive_files_more_than_load": (
        "an archive of {n} files, more than {most}; load a part of it",
        "压缩包有 {n} 个文件，超过 {most} 个，请只加载其中一部分",
    ),
    "archive_members_listed_one_by": (
        "an archive of {n} members, listed one by one",
        "含 {n} 个成员的压缩包，逐一列出",
    ),
    "it_unpacks_to_more_than": (
        "it unpacks to more than {size}; load a part of it",
        "解开后超过 {size}，请只加载其中一部分",
    ),
    "it_unpacks_to_more_than_bytes": ("it unpacks to more than the {n} bytes it claims", "解开后超过其声明的 {n} 字节"),
    "it_unpacks_to_bytes_where": (
        "it unpacks to {n} bytes where it claims {claimed}",
        "解开后为 {n} 字节，声明为 {claimed} 字节",
    ),
    "that_unpack_to_more_than": (
        "{size} that unpack to more than {n} times as much: no capture does; unpack it yourself if you trust it",
        "{size} 的数据解开后超过 {n} 倍，采集数据不会如此；如确认可信，请自行解开",
    ),
    "members_archive_share_their_bytes": (
        "members of the archive share their bytes: it was made to swell; it is refused",
        "压缩包成员共用数据，是恶意膨胀的压缩包，已拒绝",
    ),
    "one_several_parts_zip_archive": (
        "one of several parts of a zip archive; join them: `zip -s 0 last.zip --out whole.zip`",
        "分卷 zip 的其中一卷，请先合并：`zip -s 0 last.zip --out whole.zip`",
    ),
    "one_part_archive_several_join": (
        "one part of an archive of several; join them (`zip -s 0 last.zip --out whole.zip`, or `cat whole.* > whole` "
        "for parts that `split` made) and load the whole",
        "分卷压缩包的其中一卷，请先合并（`zip -s 0 last.zip --out whole.zip`；"
        "split 生成的分卷用 `cat whole.* > whole`）再加载",
    ),
    "one_its_files_is_larger": (
        "one of its files is larger than a load may write",
        "其中有文件超过单次加载允许写入的大小",
    ),
    "it_is_in_archive_more": (
        "it is in the archive more than once; the last one counts",
        "在压缩包中出现多次，以最后一个为准",
    ),
    "what_there_is_it_is": ("what there is of it is read", "已有部分照常读取"),
    "java_archive_no_capture": ("a Java archive, no capture", "Java 归档，不是采集数据"),
    "android_package_no_capture": ("an Android package, no capture", "Android 安装包，不是采集数据"),
    "office_document_load_trace_itself": (
        "an Office document; load the trace itself, not a report about it",
        "Office 文档，请加载 trace 本身而不是报告",
    ),
    "pytorch_checkpoint_torch_save_which": (
        "a PyTorch checkpoint (torch.save), which is never opened: loading one can run code",
        "PyTorch checkpoint（torch.save），加载它可能执行代码，因此从不打开",
    ),
    "it_is_encrypted_unpack_it": (
        "it is encrypted; unpack it with its password and load what comes out",
        "已加密，请用密码解开后加载",
    ),
    "it_is_packed_with_deflate64": (
        "it is packed with Deflate64, as Windows Explorer does from 2 GB on; pack it with tar, 7-Zip or zip",
        "使用 Deflate64 压缩（Windows 资源管理器对 2 GB 以上文件如此），请用 tar、7-Zip 或 zip 重新打包",
    ),
    "it_is_packed_with_method": (
        "it is packed with method {method}, which npulens does not know; pack it with tar or zip",
        "使用 npulens 不支持的压缩方法 {method}，请用 tar 或 zip 重新打包",
    ),
    "its_length_stands_only_in": (
        "its length stands only in the missing end of the archive",
        "其长度只记录在缺失的压缩包末尾",
    ),
    "end_zip_archive_is_missing": (
        "the end of the zip archive is missing: what lay there is lost",
        "zip 末尾缺失，该部分内容已丢失",
    ),
    "its_checksum_does_not_fit": ("its checksum does not fit its bytes", "校验和与内容不符"),
    "its_lzma_header_is_damaged": ("its LZMA header is damaged", "LZMA 头已损坏"),
    "its_lzma_header_asks_for": ("its LZMA header asks for too much memory", "LZMA 头要求的内存过大"),
    "its_header_is_not_where": ("its header is not where the archive's directory says", "文件头不在目录所述位置"),
    "its_header_names_another_file": (
        "its header names another file than the archive's directory",
        "文件头与目录中的名称不一致",
    ),
    "member_zip_archive_lies_outside": ("a member of the zip archive lies outside of it", "zip 成员超出文件范围"),
    "directory_zip_archive_is_damaged": ("the directory of the zip archive is damaged", "zip 目录已损坏"),
    "directory_zip_archive_lies_outside": (
        "the directory of the zip archive lies outside of it",
        "zip 目录超出文件范围",
    ),
    "64_bit_directory_zip_archive": (
        "the 64-bit directory of the zip archive is not where it says",
        "zip64 目录不在所述位置",
    ),
    # Room and time.
    "store_s_disk_is_full": (
        "the store's disk is full; free some or use another --store",
        "存储所在磁盘已满，请清理或用 --store 换一个位置",
    ),
    "store_s_disk_has_free": (
        "the store's disk has {free} free, too little to load this; free some or use another --store",
        "存储所在磁盘只剩 {free}，不足以加载，请清理或用 --store 换一个位置",
    ),
    "there_is_no_space_left": (
        "there is no space left where the store lies; free some and load again",
        "存储所在磁盘已满，请清理后重新加载",
    ),
    "quota_disk_where_store_lies": (
        "the quota of the disk where the store lies is used up; free some and load again",
        "存储所在磁盘的配额已用完，请清理后重新加载",
    ),
    "load_took_longer_than_s": (
        "the load took longer than {n} s and was stopped; --max-time allows more",
        "加载超过 {n} 秒，已停止；可用 --max-time 放宽",
    ),
    "load_needs_more_than_disk": (
        "the load needs more than {size} of disk while it works and was stopped; --max-disk allows more",
        "加载过程占用磁盘超过 {size}，已停止；可用 --max-disk 放宽",
    ),
    "captures_load_part_it_or": (
        "{size} of captures; load a part of it, or allow more with --max-disk",
        "采集数据共 {size}，请只加载一部分，或用 --max-disk 放宽",
    ),
    "is_not": ("{text} is not {wanted}", "{text} 不是{wanted}"),
    "time_such_as_90s_30m": ("a time such as 90s, 30m or 2h", "时间（例如 90s、30m 或 2h）"),
    "size_such_as_500m_20g": ("a size such as 500M, 20G or a number of bytes", "大小（例如 500M、20G 或字节数）"),
    "there_is_not_enough_memory": (
        "there is not enough memory to read anything: a limit on this process is too low",
        "内存不足，无法读取任何内容：该进程的内存限制过低",
    ),
    "there_is_not_enough_memory_to": ("there is not enough memory to put the run together", "内存不足，无法拼合该运行"),
    "run_cannot_be_put_together": ("the run cannot be put together: {error}", "该运行无法拼合：{error}"),
    "run_is_older_version_load": (
        "run {run} is of an older version: load it again",
        "运行 {run} 由旧版本存储，请重新加载",
    ),
    "cannot_read_or_write_labels": ("cannot read or write labels and notes: {error}", "标签与备注无法读写：{error}"),
    # What lies in an upload and is not read.
    "note_file_manager_s_own": ("a note of the file manager's own", "文件管理器自己的文件"),
    "mark_that_profiler_leaves_when": ("a mark that the profiler leaves when it ends", "profiler 结束时留下的标记"),
    "raw_data_framework_read_by": (
        "raw data of the framework, read by its own tools only",
        "框架侧原始数据，只能由其自带工具读取",
    ),
    "raw_data_device_read_by": (
        "raw data of the device, read by its own tools only",
        "设备侧原始数据，只能由其自带工具读取",
    ),
    "description_capture": ("a description of the capture", "采集说明"),
    "report_made_from_capture": ("a report made from the capture", "由采集数据生成的报告"),
    "script_or_settings": ("a script or settings", "脚本或配置"),
    "part_database_beside_it_that": (
        "a part of the database beside it that holds nothing more",
        "旁边数据库的附属文件，没有更多内容",
    ),
    "packed_beside_what_was_read": (
        "packed beside what was read of the capture; unpack it there and load again",
        "与已读取的采集数据放在一起的压缩包，请就地解开后重新加载",
    ),
    "table_that_npulens_does_not": ("a table that npulens does not read", "npulens 不读取的表"),
    "json_that_npulens_does_not": ("JSON that npulens does not read", "npulens 不读取的 JSON"),
    "no_format_that_npulens_reads": ("no format that npulens reads", "不是 npulens 支持的格式"),
    "more_than_files_rest_is": ("more than {n} files; the rest is not listed", "超过 {n} 个文件，其余未列出"),
    "its_rank_was_not_loaded": ("its rank was not loaded", "所属 rank 未加载"),
    # Look-alikes.
    "nothing_but_zeros_copy_that": (
        "nothing but zeros: a copy that was cut off or a full disk; copy it again",
        "内容全为零：拷贝中断或磁盘已满，请重新拷贝",
    ),
    "unpack_it_and_load_what": (
        "unpack it and load what comes out, or pack it as .zip or .tar.gz",
        "请解开后加载，或改用 .zip、.tar.gz 打包",
    ),
    "record_job_with_torch_profiler": (
        "record the job with torch.profiler (or torch_npu.profiler) and load its trace",
        "请用 torch.profiler（或 torch_npu.profiler）采集后加载其 trace",
    ),
    "git_lfs_pointer_not_file": (
        "a Git LFS pointer, not the file itself; run `git lfs pull` where it came from and load it again",
        "Git LFS 指针而非文件本身，请在来源处运行 `git lfs pull` 后重新加载",
    ),
    "web_page_perhaps_error_or": (
        "a web page, perhaps an error or log-in page saved in place of the file; download it again",
        "网页，可能是错误页或登录页，请重新下载",
    ),
    "xml_perhaps_error_message_storage": (
        "XML, perhaps an error message of a storage service saved in place of the file; download it again",
        "XML，可能是存储服务的错误信息，请重新下载",
    ),
    "which_is_not_opened_here": ("{what}, which is not opened here", "{what}，此处不打开"),
    "zip_archive_whose_beginning_is": ("a zip archive whose beginning is damaged", "zip 压缩包的开头已损坏"),
    "core_dump_program_that_crashed": (
        "a core dump of a program that crashed, no capture",
        "程序崩溃的 core dump，不是采集数据",
    ),
    "program_or_library_no_capture": ("a program or library, no capture", "程序或库，不是采集数据"),
    "picture_or_pdf_no_capture": ("a picture or PDF, no capture", "图片或 PDF，不是采集数据"),
    "arrays_or_tables_another_program": (
        "arrays or tables of another program, no capture",
        "其他程序的数组或表，不是采集数据",
    ),
    "a_7z_archive": ("a 7z archive", "7z 压缩包"),
    "a_rar_archive": ("a rar archive", "rar 压缩包"),
    "a_cpio_archive": ("a cpio archive", "cpio 归档"),
    "an_lz4_file": ("an LZ4 file", "LZ4 文件"),
    "a_lzip_or_z_file": ("a lzip or .Z file", "lzip 或 .Z 文件"),
    "a_lzma_file": ("a .lzma file", ".lzma 文件"),
    "a_package_or_disk_image": ("a package or disk image", "软件包或磁盘映像"),
    "an_xla_profile": ("an XLA profile (xplane.pb)", "XLA profile（xplane.pb）"),
    "json_of_rocprofv3": ("the JSON of rocprofv3 (rocprofiler-sdk)", "rocprofv3（rocprofiler-sdk）的 JSON"),
    "a_perfetto_trace": ("a Perfetto trace (protobuf)", "Perfetto trace（protobuf）"),
    "an_nsight_systems_export": ("an Nsight Systems export", "Nsight Systems 导出文件"),
    "a_database_of_rocprofv3": ("a database of rocprofv3 (rocpd)", "rocprofv3（rocpd）的数据库"),
    "chakra_execution_trace_protobuf": (
        "a Chakra execution trace (protobuf): {reason}",
        "Chakra execution trace（protobuf）：{reason}",
    ),
    "nsight_compute_report_single_kernels": (
        "an Nsight Compute report: single kernels, no time line",
        "Nsight Compute 报告，只有单个 kernel，没有时间线",
    ),
    "which_npulens_does_not_read": ("{what}, which npulens does not read", "{what}，npulens 不支持"),
    "which_npulens_does_not_read_yet": ("{what}, which npulens does not read yet", "{what}，npulens 暂不支持"),
    "pytorch_or_chakra_execution_trace": (
        "a PyTorch or Chakra execution trace: {reason}",
        "PyTorch 或 Chakra execution trace：{reason}",
    ),
    "operators_and_their_order_without": (
        "operators and their order, without times; load the trace that torch.profiler's export_chrome_trace writes",
        "只有算子及其顺序，没有时间；请加载 torch.profiler 的 export_chrome_trace 输出",
    ),
    "tensorboard_event_file_curves_no": (
        "a TensorBoard event file: curves, no trace; load the *.pt.trace.json beside it",
        "TensorBoard 事件文件，只有曲线，没有 trace；请加载旁边的 *.pt.trace.json",
    ),
    "snapshot_pytorch_s_memory_allocator": (
        "a snapshot of PyTorch's memory allocator; record with profile_memory=True and load that trace",
        "PyTorch 内存分配器快照，请用 profile_memory=True 采集后加载 trace",
    ),
    "speedscope_profile_cpu_sampler": ("a speedscope profile of a CPU sampler", "CPU 采样的 speedscope 文件"),
    "cpu_profile_javascript_engine": ("a CPU profile of a JavaScript engine", "JavaScript 引擎的 CPU profile"),
    "file_mindstudio_insight_s_own": (
        "a file of MindStudio Insight's own; load the profiler's output that it was made from",
        "MindStudio Insight 自己的文件，请加载生成它的 profiler 输出",
    ),
    "table_csv_that_no_profiler": (
        "a table (CSV) that no profiler exports under this name, or a report made from a capture; load the "
        "capture itself",
        "不是 profiler 以此名称导出的 CSV 表，或由采集数据生成的报告；请加载采集数据本身",
    ),
    "python_pickle_memory_snapshot_which": (
        "a Python pickle (a memory snapshot?), which is never opened: loading one can run code; for memory, "
        "record with profile_memory=True",
        "Python pickle（可能是内存快照），加载它可能执行代码，因此从不打开；内存请用 profile_memory=True 采集",
    ),
    "json_ascend_tool_2020_status": (
        "JSON of an Ascend tool of 2020 (status, info, data): a server's answer, no trace; load the "
        "profiler's own output",
        "2020 年 Ascend 工具的 JSON（status、info、data），是服务返回而不是 trace；请加载 profiler 自身的输出",
    ),
}
