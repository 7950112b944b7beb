"""Runs, ranks or steps side by side."""

TEXT = {
    "title": ("Compare", "对比"),
    "question": (
        "Is it slower, is that real, and what does the change consist of?",
        "是否变慢，变化是否真实，由什么构成？",
    ),  # fmt: skip
    "by": ("Compare", "对比对象"),
    "by_runs": ("Runs", "采集"),
    "by_ranks": ("Ranks", "rank"),
    "by_steps": ("Steps", "step"),
    "base": ("Base", "基线"),
    "head": ("Compared with it", "对比"),
    "several_help": (
        "One, or several that are captures of the same thing. With several runs a side, drift from capture to capture "
        "is known and counts.",
        "可选一个，也可选同一对象的多个。每侧选多次采集时，会计入各次采集之间的波动。",
    ),
    "several": ("{name} and {more} more", "{name} 及另外 {more} 次采集"),
    "choose": ("Choose one or several", "选择一个或多个"),
    "none_chosen": ("Choose at least one on each side.", "每侧至少选择一个。"),
    "overlap": (
        "A run stands on both sides: what it has in common with itself hides part of the change.",
        "有采集同时出现在两侧：它与自身相同的部分会掩盖一部分变化。",
    ),
    "in_turns": ("The n-th runs of both sides were recorded next to each other", "两侧的第 n 次采集是相邻采集的"),
    "in_turns_help": (
        "Then pairs are compared, in the order in which they are chosen above, and drift hits both sides alike. Where "
        "captures know their time of day, runs recorded in turns are found without this.",
        "此时按上面选择的顺序逐对比较，波动对两侧影响相同。若采集记录了时刻，交替进行的采集会自动识别。",
    ),
    "narrow": ("Only some ranks or steps", "只取部分 rank 或 step"),
    "narrow_help": ("Write 3, 0-7 or 1,4. Empty takes all of them.", "可写 3、0-7 或 1,4，留空表示全部。"),
    "narrow_all": ("all", "全部"),
    "base_ranks": ("Ranks of the base", "基线的 rank"),
    "head_ranks": ("Ranks compared with it", "对比侧的 rank"),
    "base_steps": ("Steps of the base", "基线的 step"),
    "head_steps": ("Steps compared with it", "对比侧的 step"),
    "no_numbers": (
        "{text} is no list of numbers: write 3, 0-7 or 1,4.",
        "{text} 不是数字列表：请写 3、0-7 或 1,4。",
    ),
    "swap": ("Swap", "互换"),
    "rank": ("rank {rank}", "rank {rank}"),
    "rank_option": ("rank {rank} · computes {length}", "rank {rank} · 计算 {length}"),
    "step_option": ("step {step} · {length}", "step {step} · {length}"),
    "step": ("step {step}", "step {step}"),
    "one_run": (
        "The store holds one run. Load another to compare runs, or compare the ranks or steps of this one.",
        "当前存储只有一次采集。可再加载一次采集进行对比，或对比这次采集的 rank 或 step。",
    ),
    "one_rank": (
        "This run holds one rank, so there is no other to compare it with.",
        "这次采集只有一个 rank，无法对比。",
    ),
    "one_step": (
        "This run has fewer than two recorded steps. prof.step() after each step records them.",
        "这次采集记录的 step 少于两个。每步之后调用 prof.step() 即可记录。",
    ),
    "empty": (
        "There is nothing to compare yet: load two captures, or one with several ranks or steps.",
        "还没有可对比的数据：请加载两次采集，或一次包含多个 rank 或 step 的采集。",
    ),
    "unknown": (
        "The link names something this store does not hold: {name}. Something else is chosen instead.",
        "链接中的对象不在当前存储中：{name}。已改选其他对象。",
    ),
    "no_time": (
        "One side has no time to compare. It has no such rank or step, or neither steps nor device activity "
        "were recorded.",
        "有一侧没有可对比的时间段：没有这样的 rank 或 step，或者既没有采集到 step，也没有设备侧活动。",
    ),
    "scope": (
        "{side}: {n} windows, steps {steps} of rank {ranks}. Figures are of the mean window.",
        "{side}：{n} 个窗口，rank {ranks} 的 step {steps}。数值为窗口均值。",
    ),
    "scope.one": (
        "{side}: 1 window, step {steps} of rank {ranks}.",
        "{side}：1 个窗口，rank {ranks} 的 step {steps}。",
    ),
    "scope_runs": (
        "{side}: {runs} runs, {n} windows of rank {ranks}. Figures are of the mean window of all of them.",
        "{side}：{runs} 次采集，rank {ranks} 的 {n} 个窗口。数值为全部窗口的均值。",
    ),
    "scope_whole": (
        "{side}: {n} windows, the whole captures of rank {ranks}. Figures are of the mean window.",
        "{side}：{n} 个窗口，rank {ranks} 的全程。数值为窗口均值。",
    ),
    "scope_whole.one": (
        "{side}: 1 window, the whole capture of rank {ranks}.",
        "{side}：1 个窗口，rank {ranks} 的全程。",
    ),
    "note_same": ("Both sides are the same windows of the same run.", "两侧是同一次采集的同一批窗口。"),
    "note_whole": (
        "At least one side has no recorded steps, so whole captures are compared.",
        "至少有一侧没有 step 标记，因此对比全程。",
    ),
    "note_unsplit": (
        "Not recorded on at least one side: {parts}. What cannot be told apart on one side is told apart on neither.",
        "至少有一侧未采集：{parts}。一侧无法区分的部分，两侧都不区分。",
    ),
    "note_partial_base": ("The capture of the base is partial.", "基线的采集不完整。"),
    "note_partial_head": ("The capture compared with it is partial.", "对比侧的采集不完整。"),
    "note_world": (
        "The jobs are of different size: {base} and {head} ranks.",
        "任务规模不同：{base} 个与 {head} 个 rank。",
    ),
    "note_ranks": (
        "Different ranks were captured: {base} and {head}.",
        "采集的 rank 不同：{base} 与 {head}。",
    ),
    "note_formats": (
        "Recorded in different formats: {base} and {head}. Names and counts of the same work may differ.",
        "采集格式不同：{base} 与 {head}。同样的工作可能名称和数量不同。",
    ),
    "note_levels": (
        "Recorded at different profiler levels: {base} and {head}. The profiler's own cost differs too.",
        "profiler level 不同：{base} 与 {head}。采集本身的开销也不同。",
    ),
    "note_backends": ("Different kinds of device: {base} and {head}.", "设备类型不同：{base} 与 {head}。"),
    "note_devices": ("Different devices: {base} and {head}.", "设备型号不同：{base} 与 {head}。"),
    "note_version": ("Different version of {name}: {base} and {head}.", "{name} 版本不同：{base} 与 {head}。"),
    "note_only_base": (
        "Only the base recorded: {tables}. Recording costs time too.",
        "只有基线采集了：{tables}。采集本身也耗时。",
    ),
    "note_only_head": (
        "Only the new side recorded {tables}. Recording itself may slow it.",
        "只有对比侧采集了 {tables}。采集本身可能使其变慢。",
    ),
    "none": ("not recorded", "未采集"),
    "more": ("{n} more", "另外 {n} 项"),
    "split": ("The mean step on both sides", "两侧的平均 step"),
    "split_help": (
        "The exact split of each window, averaged. The parts of a side sum to its step to the nanosecond.",
        "每个窗口的精确拆分取平均。每侧各部分之和精确等于其 step 时长。",
    ),
    "waterfall": ("What the change is made of", "变化的构成"),
    "waterfall_help": (
        "Each bar starts where the one above ended. The parts sum exactly to the change of the step.",
        "每一条从上一条的末端开始。各部分之和精确等于 step 的变化。",
    ),
    "unchanged": ("Nothing changed here, to the nanosecond.", "没有任何变化（精确到纳秒）。"),
    "whole_step": ("The step", "整个 step"),
    "axis": ("change against the base", "相对基线的变化"),
    "col_part": ("Part", "部分"),
    "col_base": ("{side}, ns", "{side}，ns"),
    "col_change": ("Change, ns", "变化，ns"),
    "col_share": ("Change of the part", "该部分变化"),
    "col_of_step": ("Of the base's step", "占基线 step"),
    "gaps": ("Why the device idled", "设备空闲的原因"),
    "gaps_help": (
        "Idle time of the mean window by cause. The causes sum exactly to the idle time of each side.",
        "窗口平均空闲时间按原因划分。各原因之和精确等于该侧的空闲时间。",
    ),
    "gaps_none": ("The device did not idle in these windows.", "这些窗口内设备没有空闲。"),
    "gaps_unmeasured": (
        "Idle time was not measured on at least one side: kernels, communication or copies were not recorded there.",
        "至少有一侧无法测得空闲时间：该侧未采集算子、通信或拷贝。",
    ),
    "cause": ("Cause", "原因"),
    "beyond": ("before the first step or after the last", "首个 step 之前或最后一个 step 之后"),
    "kernels": ("Kernels", "算子（kernel）"),
    "kernels_help": (
        "Kernels and memsets that start in the windows, per window. Times are lengths added: kernels of several "
        "streams overlap, so this is no share of the step.",
        "在窗口内开始的算子与 memset，按每窗口计。时间为时长之和：多个 stream 的算子会重叠，因此不是 step 的占比。",
    ),
    "kernels_none": ("No kernel ran in these windows.", "这些窗口内没有算子执行。"),
    "kernels_untyped": (
        "One side recorded operator types and the other only names, so hardly any kernel matches. "
        "profiler_level=Level1 records types.",
        "一侧采集了算子类型，另一侧只有名称，因此几乎无法对应。profiler_level=Level1 可采集类型。",
    ),
    "group": ("Group by", "归类方式"),
    "group_type": ("Type", "类型"),
    "group_shape": ("Type and shape", "类型与形状"),
    "states": (
        "{new} new, {gone} gone, {count} more or less often, {time} as often but not as long, {same} the same.",
        "新增 {new} 种，消失 {gone} 种，次数变化 {count} 种，次数相同但时长变化 {time} 种，完全相同 {same} 种。",
    ),
    "only_changed": ("Only what changed", "只看有变化的"),
    "state": ("What changed", "变化"),
    "short_new": ("new", "新增"),
    "short_gone": ("gone", "消失"),
    "short_fused": ("fused", "融合"),
    "short_split": ("split", "拆分"),
    "state_new": ("new", "新增"),
    "state_gone": ("gone", "消失"),
    "state_count": ("how often", "次数"),
    "state_time": ("how long", "时长"),
    "state_same": ("nothing", "无"),
    "col_op": ("Type", "类型"),
    "col_core": ("Core", "核"),
    "col_shapes": ("Input shapes", "输入形状"),
    "col_dtypes": ("Input types", "输入数据类型"),
    "col_count": ("{side}, count", "{side}，次数"),
    "col_time": ("{side}, {unit}", "{side}，{unit}"),
    "col_change_in": ("Change, {unit}", "变化，{unit}"),
    "host": ("Host calls", "主机调用"),
    "host_help": (
        "Operators, runtime calls and garbage collections that start in the windows, per window. Calls nest: the time "
        "of one includes those inside it, so these do not add up.",
        "在窗口内开始的框架算子、runtime 调用与垃圾回收，按每窗口计。调用会嵌套：外层时间包含内层，因此不能相加。",
    ),
    "host_none": ("No host call was recorded in these windows.", "这些窗口内没有采集到主机调用。"),
    "host_cut": (
        "Only the {most} names that take longest are compared.",
        "只对比耗时最长的 {most} 个名称。",
    ),
    "col_kind": ("Kind", "种类"),
    "col_name": ("Name", "名称"),
    "findings": ("Findings of each side", "两侧的发现"),
    "findings_help": (
        "What each detector says of the whole run of either side: what a fix would give back per step, at most. "
        "Not measured is not clean.",
        "各检查项对两侧整次采集的结论：修复后每步最多可省多少。未采集不等于无问题。",
    ),
    "findings_same_run": (
        "Findings are of a run as a whole. These are the ones with evidence on each side.",
        "发现针对整次采集。这里列出在各侧有证据的发现。",
    ),
    "findings_first": (
        "Of {side}, these are the findings of the first run: {run}.",
        "{side} 只列出第一次采集的发现：{run}。",
    ),
    "findings_working": ("The detectors are at work, {n} s so far.", "检查正在进行，已用 {n} 秒。"),
    "findings_none": ("No detector found anything on either side.", "两侧均没有发现。"),
    "col_detector": ("Detector", "检查项"),
    "col_saving": ("{side}", "{side}"),
    "col_title": ("In words", "说明"),
    "outcome_masked": ("masked", "被掩盖"),
    "outcome_clean": ("clean", "无问题"),
    "outcome_not_measured": ("not measured", "无法检查"),
    "outcome_failed": ("failed", "出错"),
    "outcome_found": ("found", "有发现"),
    "outcome_elsewhere": ("elsewhere in the run", "在该采集的其他位置"),
    "base_moment": ("Base on the timeline", "在时间线上查看基线"),
    "head_moment": ("The other side on the timeline", "在时间线上查看对比侧"),
    "together": ("Timelines, aligned at the step", "按步对齐的时间线"),
    "together_means": (
        "Both start at their step; moving one moves the other. Red: the other side takes longer. Green: it is faster.",
        "两侧均从各自训练步的起点开始，移动一侧时另一侧随之移动。红色处对比侧更慢，绿色处更快。",
    ),
    "too_many_pieces": (
        "Too much device work to match piece by piece; no differences are painted.",
        "设备任务过多，无法逐个匹配，未标出差异。",
    ),
    "no_spots": ("The device's work takes the same time on both sides.", "两侧设备任务耗时相同。"),
    "spots": ("Where the time differs ({n} places)", "耗时差异所在（{n} 处）"),
    "spots.one": ("Where the time differs (one place)", "耗时差异所在（1 处）"),
    "spot_name": ("Device work", "设备任务"),
    "spot_change": ("Change", "变化"),
    "spot_change_means": (
        "From the end of everything before it to its own end, the gap before it included.",
        "从其之前所有任务结束到自身结束，含其之前的空隙。",
    ),
    "spot_at": ("At, {side}", "位置，{side}"),
    "flame_per": (
        "Means of a window: base {base}, head {head}.",
        "每个窗口的平均值：基线 {base}，对比侧 {head}。",
    ),
}
