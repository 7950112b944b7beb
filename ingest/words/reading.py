"""What reading says of a capture: why something is absent, partial, dropped or worth a note; English, then Chinese.

{names} stand for what differs from file to file; both languages have the same ones.
"""

from __future__ import annotations

TEXT: dict[str, tuple[str, str]] = {
    # How sentences are put together.
    "dropped": ("{n} dropped: {reason}", "丢弃 {n} 条：{reason}"),
    "expected": ("{rows} of {expected} expected", "应有 {expected} 条，实有 {rows} 条"),
    "bytes_lost": ("{reason}, {n} bytes lost", "{reason}，丢失 {n} 字节"),
    "this_format_does_not_carry": ("this format does not carry it", "该格式不包含此项"),
    "events_are_lost": ("{n} events are lost: {reasons}", "丢失 {n} 个事件：{reasons}"),
    "one_its_formats_could_not": ("one of its formats could not be read: {reason}", "其中一种格式无法读取：{reason}"),
    "spans_share_last_lane_crowded": (
        "{n} spans share the last lane of a crowded track",
        "泳道过于拥挤，{n} 个区间共用最后一层",
    ),
    # Text and database of the same rank.
    "database": ("the database", "db"),
    "text": ("the text", "text"),
    "spans_only_has": ("spans only {which} has: {listed}", "仅 {which} 含有的区间：{listed}"),
    "spans_are_another_kind_in": (
        "{n} spans are of another kind in the text; the database's is kept",
        "{n} 个区间在 text 与 db 中类型不同，以 db 为准",
    ),
    "text_and_database_differ_in": (
        "text and database differ in {listed}; the database's value is kept",
        "text 与 db 的以下取值不一致，以 db 为准：{listed}",
    ),
    "database_has_rows_text_database": (
        "the database has {mine} rows, the text {theirs}; the database's are kept",
        "db 有 {mine} 行，text 有 {theirs} 行，以 db 为准",
    ),
    # Files as such.
    "is_cut_off_in_its": ("{file} is cut off in its last row", "{file} 的最后一行不完整"),
    "opens_quote_that_it_never": ("{file} opens a quote that it never closes", "{file} 中有未闭合的引号"),
    "is_damaged_its_rows_were": ("{file} is damaged; its rows were read one by one", "{file} 已损坏，已逐行读取"),
    "is_damaged_from_row_on": ("{file} is damaged from row {row} on: {error}", "{file} 从第 {row} 行起损坏：{error}"),
    "is_empty": ("{file} is empty", "{file} 为空"),
    "cannot_be_read": ("{file} cannot be read: {error}", "{file} 无法读取：{error}"),
    "is_no_file": ("{file} is no file", "{file} 不是文件"),
    "is_larger_than_mb": ("{file} is larger than {n} MB", "{file} 超过 {n} MB"),
    "is_larger_than_mb_and": ("{file} is larger than {n} MB and was not read", "{file} 超过 {n} MB，未读取"),
    "holds_no_json_object": ("{file} holds no JSON object", "{file} 中没有 JSON 对象"),
    "holds_no_number": ("{file} holds no number", "{file} 中没有数值"),
    "rows_have_too_few_or": ("{n} rows of {file} have too few or too many cells", "{file} 有 {n} 行的列数不符"),
    "rows_that_lack_what_names": ("rows of {file} that lack what names or times them", "{file} 中缺少名称或时间的行"),
    "is_truncated_pages_are_left": (
        "{file} is truncated: {left} of {all} pages are left",
        "{file} 被截断：{all} 页中只剩 {left} 页",
    ),
    "no_rows_for_seconds": ("{table}: no rows for {n} seconds", "{table}：{n} 秒内没有读到数据"),
    "text_cannot_be_decoded": ("{table}: a text cannot be decoded", "{table}：有文本无法解码"),
    "holds_more_than_mb_texts": ("{table} holds more than {n} MB of texts", "{table} 中的文本超过 {n} MB"),
    "texts_are_cut_after_letters": (
        "{n} texts of {table} are cut after {letters} letters",
        "{table} 中有 {n} 条文本在 {letters} 个字符处截断",
    ),
    "long_texts_that_are_used": (
        "long texts of {table} that are used often are cut after {letters} letters",
        "{table} 中频繁引用的长文本在 {letters} 个字符处截断",
    ),
    # The streaming reader of JSON events.
    "damaged_at_byte": ("damaged at byte {offset}", "在第 {offset} 字节处损坏"),
    "file_ends_before_its_event": ("the file ends before its event array is closed", "文件在事件数组结束之前中断"),
    "file_ends_before_its_root": ("the file ends before its root object is closed", "文件在最外层对象结束之前中断"),
    "file_is_utf_16_or": ("the file is UTF-16 or binary, not UTF-8 text", "文件是 UTF-16 或二进制，不是 UTF-8 文本"),
    "file_is_neither_json_array": (
        "the file is neither a JSON array nor a JSON object",
        "文件既不是 JSON 数组也不是 JSON 对象",
    ),
    "json_object_has_no_event": (
        "the JSON object has no event array 'traceEvents'",
        "JSON 对象中没有事件数组 traceEvents",
    ),
    "no_event_array_found": ("no event array found: {error}", "没有找到事件数组：{error}"),
    "file_cannot_be_read_on": ("the file cannot be read on: {error}", "文件读到一半失败：{error}"),
    "gzip_stream_is_damaged": ("the gzip stream is damaged: {error}", "gzip 数据损坏：{error}"),
    "gzip_stream_is_cut_short": ("the gzip stream is cut short", "gzip 数据不完整"),
    "begin_or_end_without_its": ("begin or end without its partner", "开始与结束不成对"),
    "event_kind_unknown_here_ph": ("event of a kind unknown here (ph {code})", "未知类型的事件（ph {code}）"),
    "event_without_ph": ("event without ph", "事件没有 ph"),
    "event_phase": ("event of phase {code}", "ph 为 {code} 的事件"),
    "no_time_stamp": ("no time stamp", "没有时间戳"),
    "no_stamp_or_one_no": ("no stamp, or one of no time near ours", "没有时间戳，或时间戳明显不合理"),
    "no_duration": ("no duration", "没有时长"),
    "negative_duration": ("negative duration", "时长为负"),
    "of_rank": ("rank {ranks}: {reason}", "rank {ranks}：{reason}"),
    "of_ranks": ("ranks {ranks}: {reason}", "rank {ranks}：{reason}"),
    "at_step": (" (step {n})", "（step {n}）"),
    "time_out_range": ("time out of range", "时间超出范围"),
    "duration_out_range": ("duration out of range", "时长超出范围"),
    "duration_more_than_century": ("duration of more than a century", "时长超过一百年"),
    # torch_npu, text.
    "there_is_no_trace_view": ("there is no trace_view.json", "没有 trace_view.json"),
    "and_no_other_file_names": ("{reason}, and no other file names copies", "{reason}，其他文件也没有拷贝信息"),
    "no_device_tasks_were_recorded": ("no device tasks were recorded", "未采集设备任务"),
    "no_operators_were_recorded": ("no operators were recorded", "未采集框架算子"),
    "no_framework_operators_were_recorded": ("no framework operators were recorded", "未采集框架算子"),
    "no_cann_calls_were_recorded_at": ("no CANN calls were recorded at {level}", "{level} 下未采集 CANN 调用"),
    "no_cann_calls_were_recorded": ("no CANN calls were recorded", "未采集 CANN 调用"),
    "no_call_stacks_were_recorded": ("no call stacks were recorded", "未采集调用栈"),
    "no_counters_were_recorded": ("no counters were recorded", "未采集计数器"),
    "no_memory_was_recorded": ("no memory was recorded", "未采集内存"),
    "no_l2_cache_rates_were": ("no L2 cache rates were recorded", "未采集 L2 Cache 命中率"),
    "no_bandwidth_between_ranks_was_at": (
        "no bandwidth between ranks was recorded at {level}",
        "{level} 下未采集 rank 间带宽",
    ),
    "no_bandwidth_between_ranks_was": ("no bandwidth between ranks was recorded", "未采集 rank 间带宽"),
    "no_step_trace_time_csv": ("no step_trace_time.csv", "没有 step_trace_time.csv"),
    "no_statistics_were_exported_at": ("no statistics were exported at {level}", "{level} 下未导出统计数据"),
    "no_statistics_were_exported": ("no statistics were exported", "未导出统计数据"),
    "no_ai_core_counters_were_at": ("no AI core counters were recorded at {level}", "{level} 下未采集 AI Core 计数器"),
    "no_ai_core_counters_were": ("no AI core counters were recorded", "未采集 AI Core 计数器"),
    "no_steps_were_marked": ("no steps were marked", "没有 step 标记"),
    "nothing_marks_steps": ("nothing marks steps", "没有 step 标记"),
    "profiler_info_says_nothing_about": ("profiler_info says nothing about clocks", "profiler_info 中没有时钟信息"),
    "export_lacks_its_analysis_did": (
        "the export lacks {files}: its analysis did not finish",
        "导出缺少 {files}：解析没有完成",
    ),
    "arguments_that_repeat_span_s": (
        "{n} arguments that repeat a span's thread, name or nesting are not kept",
        "{n} 个与区间的线程、名称或嵌套重复的参数未保留",
    ),
    "trace_names_no_process_for": (
        "the trace names no process for pid {pids}: its spans are taken for what they look like",
        "trace 没有给出 pid {pids} 的进程名，按其形态归类",
    ),
    "profiler_metadata_json_names_no": (
        "profiler_metadata.json names no parallel_group_info",
        "profiler_metadata.json 中没有 parallel_group_info",
    ),
    "profiler_info_has_no_end": (
        "profiler_info has no end_info: the profiler did not stop in order",
        "profiler_info 没有 end_info：profiler 未正常结束",
    ),
    "profiler_s_log_has_errors": ("the profiler's log has errors: {errors}", "profiler 日志中有错误：{errors}"),
    "profiler_logged_errors_first": (
        "the profiler logged {n} errors, first: {error}",
        "profiler 记录了 {n} 个错误，第一个是：{error}",
    ),
    "no_profilerstep_marks_steps_are": (
        "no ProfilerStep marks: steps are the device windows of kernel_details",
        "没有 ProfilerStep 标记：step 取自 kernel_details 的设备时间窗",
    ),
    "tasks_that_are_shown_on": (
        "{n} tasks that are shown on a stream and on a plane are stored once, on the plane",
        "{n} 个任务同时出现在 stream 与 plane 上，只在 plane 上保存一次",
    ),
    "tasks_that_nothing_launches_run": (
        "{n} tasks that nothing launches run on streams of their own while operators communicate: they are taken for "
        "parts of these operators",
        "{n} 个没有下发记录的任务在通信算子执行期间运行于独立的 stream：视为这些通信算子的一部分",
    ),
    "says_ms_computing_kernels_read": (
        "{source} says {file} ms of computing{step}, the kernels read here make {ours} ms",
        "{source} 中的计算时间为 {file} ms{step}，按读入的 kernel 计为 {ours} ms",
    ),
    "says_ms_communication_operators_read": (
        "{source} says {file} ms of communication{step}, the operators read here make {ours} ms",
        "{source} 中的通信时间为 {file} ms{step}，按读入的通信算子计为 {ours} ms",
    ),
    "lists_kernels_ms_together_those": (
        "{source} lists kernels of {file} ms together, those read here make {ours} ms",
        "{source} 列出的 kernel 合计 {file} ms，读入的 kernel 合计 {ours} ms",
    ),
    "lists_operators_ms_together_those": (
        "{source} lists operators of {file} ms together, those read here make {ours} ms",
        "{source} 列出的通信算子合计 {file} ms，读入的通信算子合计 {ours} ms",
    ),
    "operators_come_from_communication_json": (
        "{n} operators come from communication.json alone, whose stamps are exact to 1 us",
        "{n} 个通信算子只见于 communication.json，其时间戳精确到 1 us",
    ),
    "tasks_ai_cpu_only_schedule": (
        "{n} tasks of the AI CPU only schedule operators of the AI cores: no computing",
        "{n} 个 AI CPU 任务只为 AI Core 上的算子做调度，不计入计算",
    ),
    "arrows_between_profiler_s_own": (
        "{n} arrows between the profiler's own marks launch nothing",
        "{n} 个连线只连接 profiler 自身的标记，不代表下发",
    ),
    "no_rule_in_use_reproduces": ("no rule in use reproduces the file", "现有规则均不能复现该文件"),
    "file_counts_union_their_tasks": ("the file counts the union of their tasks", "该文件取通信任务的并集"),
    "file_counts_communication_operators_as": (
        "the file counts communication operators as well",
        "该文件把通信算子也计入",
    ),
    "file_counts_no_kernels_ai": ("the file counts no kernels of the AI CPU", "该文件不计 AI CPU 上的 kernel"),
    "tasks_come_from_kernel_details": (
        "{n} tasks come from kernel_details alone: the trace does not show them",
        "{n} 个任务只见于 kernel_details，trace 中没有",
    ),
    "kernels_trace_are_not_in": (
        "{n} kernels of the trace are not in kernel_details: told by their task type",
        "trace 中有 {n} 个 kernel 不在 kernel_details 中，按任务类型识别",
    ),
    "row_without_name_start_or": ("row without a name, start or duration", "缺少名称、开始时间或时长的行"),
    "ends_flows_at_no_span": ("ends of flows at no span", "连线端点不在任何区间上"),
    "flows_that_end_and_never": ("flows that end and never start", "只有终点没有起点的连线"),
    "analysis_operator_that_is_not": (
        "analysis of an operator that is not in the trace",
        "通信解析中的算子不在 trace 中",
    ),
    "ranks_group_are_listed_nowhere": (
        "the ranks of a group are listed nowhere: the numbers of its tasks are taken for ranks of the job, because "
        "this rank goes by its own",
        "没有文件列出通信域成员：本 rank 在任务中使用全局编号，因此任务中的编号按全局 rank 处理",
    ),
    "operator_communication_json_that_is": (
        "operator of communication.json that is not understood",
        "communication.json 中无法识别的算子",
    ),
    "entry_communication_matrix_json_that": (
        "entry of communication_matrix.json that is not understood",
        "communication_matrix.json 中无法识别的条目",
    ),
    "part_that_is_not_understood": ("part of {file} that is not understood", "{file} 中无法识别的部分"),
    # torch_npu and msprof, db.
    "db_export_does_not_hold": ("the db export does not hold it", "db 导出不包含此项"),
    "db_export_does_not_hold_it": (
        "the db export does not hold it; it follows from the spans",
        "db 导出不包含此项，可由区间推出",
    ),
    "analysis_db_is_missing_or_at": (
        "{source} of analysis.db is missing or empty at {level}",
        "{level} 下 analysis.db 的 {source} 不存在或为空",
    ),
    "analysis_db_is_missing_or": (
        "{source} of analysis.db is missing or empty",
        "analysis.db 的 {source} 不存在或为空",
    ),
    "communication_tasks_without_plane_peer_at": (
        "{n} communication tasks without plane, peer and size at {level}",
        "{level} 下 {n} 个通信任务没有 plane、对端与大小",
    ),
    "communication_tasks_without_plane_peer": (
        "{n} communication tasks without plane, peer and size",
        "{n} 个通信任务没有 plane、对端与大小",
    ),
    "types_shapes_and_block_counts_at": (
        "types, shapes and block counts of operators are not recorded at {level}",
        "{level} 下不采集算子的类型、shape 与 block 数",
    ),
    "types_shapes_and_block_counts": (
        "types, shapes and block counts of operators are not recorded",
        "未采集算子的类型、shape 与 block 数",
    ),
    "this_version_does_not_record": (
        "this version does not record bytes and direction of copies in a db",
        "该版本的 db 不包含拷贝的字节数与方向",
    ),
    "input_shapes_and_types_were": ("input shapes and types were not recorded", "未采集输入的 shape 与数据类型"),
    "no_metadata_lists_ranks_group": (
        "no metadata lists the ranks of a group: the numbers of its tasks are taken for global ranks because this rank "
        "goes by its own",
        "元数据没有列出通信域成员：本 rank 在任务中使用全局编号，因此任务中的编号按全局 rank 处理",
    ),
    "shapes_and_types_inputs_written": (
        "shapes and types of inputs, written into each other's columns, are put right",
        "输入的 shape 与数据类型写反了列，已纠正",
    ),
    "counters_task_that_is_not": ("counters of a task that is not in TASK", "计数器所属任务不在 TASK 表中"),
    "analyses_operators_that_communication_op": (
        "analyses of operators that COMMUNICATION_OP does not hold",
        "通信解析中的算子不在 COMMUNICATION_OP 表中",
    ),
    "values_that_are_no_numbers": ("values of {column} that are no numbers", "{column} 中不是数值的值"),
    "rows_table_which_has_no": (
        "rows of the table {table}, which has no place here",
        "{table} 表的行，这里没有对应的表",
    ),
    "rows_npu_op_mem_repeat": (
        "{n} rows of NPU_OP_MEM repeat what OP_MEMORY says",
        "NPU_OP_MEM 有 {n} 行与 OP_MEMORY 重复",
    ),
    "rows_without_start_and_end": ("rows without a start and an end", "没有开始与结束时间的行"),
    "rows_that_end_before_they": ("rows that end before they start", "结束早于开始的行"),
    "rows": ("rows {reason}", "行：{reason}"),
    "ffts_tasks_are_shown_by": ("{n} FFTS+ tasks are shown by their sub-tasks only", "{n} 个 FFTS+ 任务只显示其子任务"),
    # torch.profiler.
    "torch_profiler_does_not_write": ("torch.profiler does not write it", "torch.profiler 不输出此项"),
    "file_gives_no_addresses_allocations": (
        "the file gives no addresses: allocations and releases are told apart, not paired",
        "文件没有地址：能区分申请与释放，但无法配对",
    ),
    "memory_and_metadata_events_which": (
        "{n} memory and metadata events, which are no spans, had further arguments",
        "{n} 个非区间的内存或元数据事件带有其他参数",
    ),
    "no_communication_ran_on_device": ("no communication ran on the device", "设备上没有通信"),
    "job_has_ranks_and_none": (
        "the job has {ranks} ranks, and none of the device's work was told to be communication",
        "任务有 {ranks} 个 rank，但设备上没有任务被识别为通信",
    ),
    "some_device_s_work_speaks": (
        "some of the device's work speaks of communication, and nothing tells what it is",
        "设备上有名称与通信有关的任务，但无法判断其类别",
    ),
    "device_tasks_speak_communication_and": (
        "{suspected} device tasks speak of communication, and nothing tells what they are",
        "有 {suspected} 个设备任务的名称与通信有关，但无法判断其类别",
    ),
    "file_names_no_process_groups": ("the file names no process groups", "文件没有给出 process group"),
    "device_spans_have_no_launching": (
        "{lost} of {n} device spans have no launching call in the file",
        "{n} 个设备区间中有 {lost} 个在文件里找不到下发它的调用",
    ),
    "file_has_no_counters": ("the file has no counters", "文件中没有计数器"),
    "no_hardware_metrics_in_file": ("no hardware metrics in the file", "文件中没有硬件指标"),
    "input_shapes_were_not_recorded": ("input shapes were not recorded", "未采集输入 shape"),
    "no_step_was_marked": ("no step was marked", "没有 step 标记"),
    "no_device_activity_in_file": ("no device activity in the file", "文件中没有设备活动"),
    "memory_was_not_recorded": ("memory was not recorded", "未采集内存"),
    "totals_pools_were_not_recorded": ("the totals of the pools were not recorded", "未采集内存池总量"),
    "python_frames_are_spans_kind": ("Python frames are spans of kind python", "Python 帧以 python 类型的区间保存"),
    "python_frames_were_not_recorded": ("Python frames were not recorded", "未采集 Python 帧"),
    "sizes_and_groups_collectives_were": (
        "sizes and groups of collectives were not recorded",
        "未采集集合通信的大小与通信域",
    ),
    "of": ("{name}: {said}", "{name}：{said}"),
    "listed_and_more": ("{files} and {n} more", "{files} 等，另有 {n} 个"),
    "in_path": ("{said} ({path})", "{said}（{path}）"),
    "in_path_at_byte": ("{said} ({path} at byte {offset})", "{said}（{path}，第 {offset} 字节）"),
    "rows_without_name_or_duration": ("rows of {file} without a name or a duration", "{file} 中缺少名称或时长的行"),
    "rows_of_another_time": (
        "rows of {file}, which is of another time than the trace",
        "{file} 的行，其时间与 trace 不符",
    ),
    # What records it, where that is no code.
    "pytorch_or_later": ("PyTorch {version} or later", "PyTorch {version} 或更高版本"),
    "distributed_job": ("a distributed job", "分布式任务"),
    "torch_distributed_initialised_before_profiling": (
        "torch.distributed, initialised before profiling",
        "在采集之前初始化 torch.distributed",
    ),
    "after_each_step": ("{setting} after each step", "每个 step 之后调用 {setting}"),
    "and_prof_step_after_every": (
        "{setting}, and prof.step() after every iteration",
        "{setting}，并在每次迭代后调用 prof.step()",
    ),
}
