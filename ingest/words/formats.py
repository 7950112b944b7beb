"""What further formats and states of Ascend directories say; English, then Chinese."""

from __future__ import annotations

TEXT: dict[str, tuple[str, str]] = {
    # States of a rank directory.
    "analyse_it_again_on_npu": ("analyse it again on the NPU host: {command}", "请在 NPU 主机上重新解析：{command}"),
    "analyse_it_on_npu_host": ("analyse it on the NPU host: {command}", "请在 NPU 主机上解析：{command}"),
    "device_part_can_be_exported": (
        "the device part can be exported again on the NPU host: {command}",
        "设备部分可在 NPU 主机上重新导出：{command}",
    ),
    "its_raw_data_is_not": (
        "its raw data is not here: analyse it again where it was recorded, or record again",
        "这里没有原始数据：请在采集处重新解析，或重新采集",
    ),
    "raw_msprof_data_interrupted_collection": (
        "raw msprof data of an interrupted collection",
        "采集中断的 msprof 原始数据",
    ),
    "raw_data_not_analysed_yet": ("raw {tool} data, not analysed yet", "{tool} 原始数据，尚未解析"),
    "raw_device_data_without_framework": (
        "raw device data without the framework's part (FRAMEWORK), so only the device can be exported",
        "只有设备侧原始数据，没有框架侧（FRAMEWORK），只能导出设备部分",
    ),
    "prof_directory_without_data_msprof": (
        "a PROF directory without data: msprof was stopped before it recorded anything",
        "PROF 目录没有数据：msprof 在采集到内容之前就已停止",
    ),
    "profiler_left_its_settings_profiler": (
        "the profiler left its settings (profiler_info) and no data: the job ended before it recorded anything",
        "profiler 只留下配置（profiler_info），没有数据：任务在采集到内容之前就已结束",
    ),
    "profiler_left_no_data_in": (
        "the profiler left no data in its directory: the run was aborted",
        "profiler 目录中没有数据：采集被中止",
    ),
    "holds_nothing_analysis_failed_done": (
        "{file} holds nothing to load: the analysis failed (analyse.done is written also when it fails)",
        "{file} 中没有可加载的内容：解析失败（失败时也会写 analyse.done）",
    ),
    "holds_nothing_to_load_analysis": (
        "{file} holds nothing to load: the analysis failed",
        "{file} 中没有可加载的内容：解析失败",
    ),
    "log_s_last_errors": ("the log's last errors: {errors}", "日志中最后的错误：{errors}"),
    "is_older_export_same": ("{file} is an older export of the same", "{file} 是同一内容较早的导出"),
    "task_time_csv_lists_tasks": (
        "task_time.csv lists the tasks of the trace again",
        "task_time.csv 重复列出了 trace 中的任务",
    ),
    "says_again_what_says": ("{file} says again what {other} says", "{file} 与 {other} 内容重复"),
    "is_another_time_than_trace": (
        "{file} is of another time than the trace, so of another capture or clock, and is not read",
        "{file} 的时间与 trace 不符，属于另一次采集或另一时钟，未读取",
    ),
    "no_profilerstep_marks_steps_are": (
        "no ProfilerStep marks: steps are the iterations that msprof marks on the device",
        "没有 ProfilerStep 标记：step 取自 msprof 在设备侧标记的迭代",
    ),
    "not_read_no_table_holds": ("not read, no table holds them: {files}", "未读取，没有对应的表：{files}"),
    "not_read": ("not read: {reason}", "未读取：{reason}"),
    "one_process_drove_devices_its": (
        "one process drove the devices {devices}: its host calls are shown with each of them",
        "一个进程使用了设备 {devices}：其主机侧调用在每个设备下都会显示",
    ),
    "export_holds_nothing_device": ("the export holds nothing of device {device}", "导出中没有设备 {device} 的内容"),
    "its_files_hold_no_bytes": ("its files hold no bytes", "其文件均为空"),
    "text_does_not_say_which": (
        "the text does not say which lanes belong to which device",
        "text 没有说明泳道属于哪个设备",
    ),
    "msprof_records_no_operators_framework": ("msprof records no operators of the framework", "msprof 不采集框架算子"),
    "communication_op_is_empty_beside": (
        "COMMUNICATION_OP is empty beside {n} tasks of communication: its operators are lost",
        "COMMUNICATION_OP 为空，而通信任务有 {n} 个：通信算子已丢失",
    ),
    # Cluster analyses.
    "cluster_analysis_rank_directories_it": (
        "a cluster analysis: the rank directories it was made from say more",
        "集群分析：生成它的 rank 目录信息更全",
    ),
    "cluster_analysis_more_than_ranks": ("a cluster analysis of more than {n} ranks", "集群分析超过 {n} 个 rank"),
    "is_damaged_from_line_on": ("{file} is damaged from line {n} on: {error}", "{file} 从第 {n} 行起损坏：{error}"),
    "spans_were_not_recorded_here": (
        "spans were not recorded here: load the rank directories the analysis was made from",
        "这里没有区间：请加载生成该分析的 rank 目录",
    ),
    "cluster_analysis_without_row_that": (
        "a cluster analysis without a row that can be read",
        "集群分析中没有可读的行",
    ),
    "times_are_taken_as_us": (
        "times are taken as us, which real files hold, not as the ms of the manuals",
        "时间按 us 处理（实际文件如此），而不是手册所写的 ms",
    ),
    "analysis_holds_no_step_times": ("the analysis holds no step times", "分析中没有 step 时间"),
    "no_communication_matrix_in_analysis": ("no communication matrix in the analysis", "分析中没有通信矩阵"),
    "rows_whole_stage_which_are": (
        "rows of a whole stage, which are means over its ranks",
        "整个 stage 的行，是各 rank 的均值",
    ),
    "rows_without_single_time": ("rows without a single time", "没有任何时间的行"),
    "rows_without_rank": ("rows without a rank", "没有 rank 的行"),
    "rank_directories": ("the rank directories", "rank 目录"),
    # MindSpore's derived files.
    "raw_slices_of_mindspore": (
        "raw slices ({n} files) of MindSpore's older profiler, not analysed yet: let the job that recorded them call "
        "`Profiler.analyse()`, then load the directory with timeline_display_*.json and "
        "step_trace_raw_*_detail_time.csv",
        "MindSpore 旧版 profiler 的原始分片（{n} 个文件），尚未解析：请让采集任务调用 `Profiler.analyse()`，"
        "再加载含有 timeline_display_*.json 和 step_trace_raw_*_detail_time.csv 的目录",
    ),
    "raw_slice_of_mindspore": (
        "a raw slice of MindSpore's older profiler, not analysed yet: let the job that recorded them call "
        "`Profiler.analyse()`, then load the directory with timeline_display_*.json and "
        "step_trace_raw_*_detail_time.csv",
        "MindSpore 旧版 profiler 的原始分片，尚未解析：请让采集任务调用 `Profiler.analyse()`，"
        "再加载含有 timeline_display_*.json 和 step_trace_raw_*_detail_time.csv 的目录",
    ),
    "operators_and_communication_steps_whose": (
        "operators and communication of steps whose operators the files do not hold as a whole",
        "文件中算子不完整的 step 的算子与通信",
    ),
    "steps_whose_operators_files_do": (
        "steps whose operators the files do not hold as a whole; their lengths are counters",
        "文件中算子不完整的 step，其时长为计数器值",
    ),
    "min_cycle_counter_is_not": (
        "min_cycle_counter is not used: output_timeline_data puts the timeline's zero elsewhere",
        "未使用 min_cycle_counter：output_timeline_data 的时间零点不同",
    ),
    "steps_without_place_no_min": (
        "steps without a place: no min_cycle_counter says where the timeline's zero lies",
        "无法定位的 step：没有 min_cycle_counter 给出时间零点",
    ),
    "operators_that_names_did_not": (
        "{n} of {all} operators that {file} names did not run in the timeline",
        "{file} 列出的 {all} 个算子中有 {n} 个没有出现在时间线中",
    ),
    "timeline_holds_no_operators": ("the timeline holds no operators", "时间线中没有算子"),
    "communication_step_trace_without_beginning": (
        "communication of the step trace without a beginning and an end",
        "step trace 中没有起止时间的通信",
    ),
    "rows_step_trace_without_number": (
        "rows of the step trace without a number or its points",
        "step trace 中缺少编号或时间点的行",
    ),
    "entries_that_are_not_understood": ("entries of {file} that are not understood", "{file} 中无法识别的条目"),
    "lines_that_do_not_fit": ("lines of {file} that do not fit its header", "{file} 中与表头不符的行"),
    "rows_without_name": ("rows of {file} without a name", "{file} 中没有名称的行"),
    "rows_without_name_time_or": (
        "rows of {file} without a name, a time or a duration",
        "{file} 中缺少名称、时间或时长的行",
    ),
    "events_without_usable_time_and": ("events without a usable time and duration", "没有可用时间与时长的事件"),
    "events_kind_not_read_here": ("events of a kind not read here", "此处不读取的事件类型"),
    "arrows_timeline_which_are_not": ("arrows of the timeline, which are not read", "时间线的连线，未读取"),
    "mindspore_s_derived_files_hold": (
        "MindSpore's derived files hold no memory copies",
        "MindSpore 的解析结果中没有内存拷贝",
    ),
    "mindspore_s_derived_files_hold_nothing": (
        "MindSpore's derived files hold nothing of the host",
        "MindSpore 的解析结果中没有主机侧数据",
    ),
    "not_in_mindspore_s_derived": ("not in MindSpore's derived files", "MindSpore 的解析结果中没有此项"),
    "mindspore_s_notes_about_capture": (
        "MindSpore's notes about a capture without the capture; load the whole profiler directory",
        "只有 MindSpore 的采集说明，没有采集数据；请加载整个 profiler 目录",
    ),
    "mindspore_s_files_give_no": (
        "MindSpore's files give no tables: {error}",
        "MindSpore 的文件没有得到任何表：{error}",
    ),
    "step_trace_raw_detail_time": (
        "step_trace_raw_*_detail_time.csv is not here",
        "没有 step_trace_raw_*_detail_time.csv",
    ),
    "neither_timeline_nor_step_trace": (
        "neither the timeline nor step_trace_raw is here",
        "时间线与 step_trace_raw 均不存在",
    ),
    "neither_timeline_display_nor_output": (
        "neither timeline_display nor output_timeline_data is here",
        "timeline_display 与 output_timeline_data 均不存在",
    ),
    "only_steps_and_their_communication": (
        "only steps and their communication: {reason}",
        "只有 step 及其通信：{reason}",
    ),
    "only_sums_and_averages": ("only sums and averages: {reason}", "只有汇总与均值：{reason}"),
    "mindspore_profiler_then_load_its": (
        "mindspore.Profiler, then load its ascend_ms directory or keep the derived files together",
        "用 mindspore.Profiler 采集，再加载其 ascend_ms 目录，或保持解析结果在同一目录",
    ),
    # torch.profiler: memory timelines, several ranks in one file.
    "memory_timeline_without_entry": ("a memory timeline without an entry", "内存时间线中没有任何记录"),
    "memory_timeline_with_something_else": (
        "a memory timeline with something else among its numbers",
        "内存时间线的数字中混有其他内容",
    ),
    "memory_timeline_is_one_device": (
        "a memory timeline is of one device, which it does not name",
        "内存时间线只含一个设备，且未注明是哪一个",
    ),
    "memory_timeline_holds_no_events": (
        "a memory timeline holds no events: load the trace of the same recording as well",
        "内存时间线不含事件：请同时加载同一次采集的 trace",
    ),
    "it_names_more_than_ranks": (
        "it names more than {n} ranks; load a part of it",
        "其中的 rank 超过 {n} 个，请加载其中一部分",
    ),
    "host_records_graph_times_what": (
        "the host records a graph {n} times: what it launches meanwhile is not run",
        "主机录制了 {n} 次图：其间下发的任务不会执行",
    ),
    # msprof op.
    "no_opbasicinfo_csv_which_names": (
        "no OpBasicInfo.csv, which names the operator and its duration",
        "没有 OpBasicInfo.csv，无法得知算子及其时长",
    ),
    "opbasicinfo_csv_holds_no_operator": (
        "OpBasicInfo.csv holds no operator with a name and a duration",
        "OpBasicInfo.csv 中没有同时带名称与时长的算子",
    ),
    "opbasicinfo_csv_names_operators_without": (
        "OpBasicInfo.csv names {n} operators without a time of day: only sums are read",
        "OpBasicInfo.csv 中有 {n} 个算子没有时刻，只读取汇总",
    ),
    "operator_measured_alone_msprof_op": (
        "an operator measured alone: msprof op records nothing around it",
        "单算子采集：msprof op 不采集其前后内容",
    ),
    "no_file_counters_is_here": ("no file of counters is here", "没有计数器文件"),
    "operator_stands_at_zero_its": (
        "the operator stands at zero: its length was recorded, its time of day was not",
        "算子放在零点：只采集了时长，没有时刻",
    ),
    "operators_without_time_day": ("operators without a time of day", "没有时刻的算子"),
    "operator_s_files_give_no": ("the operator's files give no tables: {error}", "算子文件没有得到任何表：{error}"),
    "means_over_blocks_every_block": (
        "{metric}: means over {n} blocks; every block's values are in summary",
        "{metric}：{n} 个 block 的均值，各 block 的值见 summary",
    ),
    "torch_npu_profiler_profile_around": (
        "torch_npu.profiler.profile(...) around the job that runs it",
        "用 torch_npu.profiler.profile(...) 采集运行它的任务",
    ),
    "raw_data_without_prof_directory": (
        "raw {tool} data, not analysed yet, without a PROF directory: nothing of the device is in it",
        "{tool} 原始数据，尚未解析，且没有 PROF 目录：不含任何设备侧数据",
    ),
    "raw_data_that_did_not_stop": (
        "raw {tool} data, not analysed yet, of a collection that did not stop in order",
        "{tool} 原始数据，尚未解析，且采集未正常结束",
    ),
    "only_the_device_s_export_is_here": (
        "only the device's export is here, what the framework recorded is raw",
        "这里只有设备侧导出，框架侧数据尚未解析",
    ),
    "only_sums_of_a_cluster_analysis": ("only sums of a cluster analysis", "只有集群分析的汇总"),
    # Benchmarks.
    "benchmark_ended_before_figure": (
        "the benchmark was ended before it had a figure",
        "基准测试在得到任何指标之前就已结束",
    ),
    "benchmark_figure_not_trusted": (
        "the benchmark's figure of {name} is not to be trusted: {why}",
        "基准测试中 {name} 的指标不可信：{why}",
    ),
    "benchmark_ratio_differs": ("its ratio is not that of its pairs", "比值与各对不符"),
    "benchmark_lacks_samples": ("samples.json does not hold its samples", "samples.json 中没有其样本"),
    "benchmark_other_samples": ("samples.json holds other samples", "samples.json 中的样本与指标不符"),
    "benchmark_quantile_differs": ("its P{level} is not that of its samples", "P{level} 与样本不符"),
    "benchmark_interrupted": ("interrupted during {what}, after {n} s", "{n} 秒后在 {what} 期间被中断"),
    "benchmark_cut_short": ("it was cut short during {what}", "在 {what} 期间中断"),
    "benchmark_failed": ("{what} failed: {error}", "{what} 失败：{error}"),
    "benchmark_runs_nothing": ("no variant runs here", "此处没有可运行的实现"),
    "benchmark_did_not_end": ("the benchmark did not come to its end", "基准测试未完整结束"),
    "benchmark_holds_no_trace": (
        "a benchmark holds figures and samples, no trace",
        "基准测试只有指标与样本，没有 trace",
    ),
    "benchmark_manifest_cannot_be_read": (
        "the manifest of a benchmark cannot be read: {error}",
        "基准测试的清单无法读取：{error}",
    ),
    "benchmark_samples_missing": (
        "samples.json is missing: its figures cannot be made again",
        "缺少 samples.json：无法由样本重算指标",
    ),
    "benchmark_figures_that_cannot": ("figures of a benchmark that cannot be read", "基准测试中无法读取的指标"),
    "benchmark_figures_cannot_be_read": (
        "{n} figures of the benchmark cannot be read",
        "基准测试中有 {n} 个指标无法读取",
    ),
    "benchmark_samples_without_time": ("no sample of the benchmark has its time of day", "基准测试的样本都没有时间"),
    "benchmark_warm_ups_without_time": (
        "{n} samples of warm-ups and pairs have no time of day; they are in samples.json",
        "预热与配对的 {n} 个样本没有时间，保存在 samples.json 中",
    ),
}
