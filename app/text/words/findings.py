"""What the detectors say of a run, and what they could not see: on the screen, in the terminal and in reports."""

TEXT = {
    "title": ("Where you can save time", "优化哪里收益最大"),
    "all": ("All findings and limits", "全部发现与阈值"),
    "next": ("Record again for a full answer. {how}", "建议重新采集。{how}"),
    "limits": ("Limits", "阈值"),
    "limits_how": (
        "Try other thresholds: this run is judged again at once, here only. To keep them, copy the lines into "
        "npulens.toml.",
        "可在此试用其他阈值：立即重新判断本次采集，仅在此处生效。若要保留，请将下面几行复制到 npulens.toml。",
    ),
    "limits_of": ("Detector", "检查项"),
    "limits_source": ("{unit}. {source}", "{unit}。{source}"),
    "limits_default": ("As shipped: {value}", "默认值：{value}"),
    "limits_working": ("Judging again…", "正在重新判断……"),
    "limits_same": ("These are the limits in force.", "当前即为生效的阈值。"),
    "outcome_found": ("Found", "有发现"),
    "outcome_masked": ("Masked by another limit", "被其他瓶颈掩盖"),
    "outcome_clean": ("Checked, no problem", "已检查，无问题"),
    "outcome_not_measured": ("Could not be measured", "无法检查"),
    "outcome_failed": ("Failed", "检查出错"),
    "working": (
        "Looking for what costs time in this run, {n} s so far. The rest of the page is ready.",
        "正在分析这次采集的耗时原因，已用 {n} 秒。页面其余部分可以先看。",
    ),
    "failed": ("This run could not be judged.", "无法分析这次采集。"),
    "answer": (
        "{title}. Fixing it saves at most {saving} of the {whole} ({share}).",
        "{title}。修复后{whole}最多可省 {saving}（{share}）。",
    ),
    "answer_between": (
        "{title}. Fixing it saves {saving} to {most} of the {whole} ({share} to {most_share}).",
        "{title}。修复后{whole}可省 {saving} 至 {most}（{share} 至 {most_share}）。",
    ),
    "whole": ("{step} step", "每步（{step}）"),
    "whole_steady": ("{step} step without start-up", "每步（不含启动阶段，{step}）"),
    "whole_recorded": ("{step} recorded", "在采集的 {step} 中"),
    "whole_recorded_steady": ("{step} recorded without start-up", "在采集的 {step}（不含启动阶段）中"),
    "whole_outside": ("{step} with device work", "在设备工作的 {step} 中"),
    "whole_outside_steady": (
        "{step} with device work, start-up left out", "在设备工作的 {step}（不含启动阶段）中",
    ),
    "answer_once": (
        "{title}. Fixing it saves at most {saving}, once ({share} of the recorded time).",
        "{title}。修复后最多可省 {saving}，仅此一次（占采集时长 {share}）。",
    ),
    "answer_once_outside": (
        "{title}. Fixing it saves at most {saving}, once ({share} of the time with device work).",
        "{title}。修复后最多可省 {saving}，仅此一次（占设备工作时段 {share}）。",
    ),
    "answer_measure": (
        "{title}. Fixing it saves at most {saving} ({share}).",
        "{title}。修复后最多可省 {saving}（{share}）。",
    ),
    "answer_serving": (
        "No problem worth {least} of a percentile was found. {clean} checks found none, {masked}{blind} could not "
        "look.",
        "没有发现影响分位数 {least} 以上的问题：{clean} 项检查未发现问题，{masked}{blind} 项无法检查。",
    ),
    "saved_of": ("{saving} of {measure}", "{measure} 的 {saving}"),
    "serving": (
        "{requests} requests. TTFT P50 {ttft_p50}, P99 {ttft_p99}; TPOT P50 {tpot_p50}, P99 {tpot_p99}. Goodput {good} "
        "of {requests} (TTFT {ttft_slo}, TPOT {tpot_slo}).",
        "{requests} 个请求：TTFT P50 {ttft_p50}、P99 {ttft_p99}；TPOT P50 {tpot_p50}、P99 {tpot_p99}；"
        "goodput {good}/{requests}（TTFT {ttft_slo}、TPOT {tpot_slo}）。",
    ),
    "serving_left_out": (
        "The profiler's own export stopped the engine for {export}; {n} requests were open then and are left out.",
        "采集器导出数据时引擎停了 {export}；当时未完成的 {n} 个请求不计入。",
    ),
    "serving_replay": (
        "A replay of this run misses these by {error} at most.",
        "对本次运行的重放与这些值最多相差 {error}。",
    ),
    "answer_none": (
        "No problem worth 1 % of the {whole} was found. {clean} checks found none, {masked}{blind} could not look.",
        "没有发现{whole}能省下 1% 的问题：{clean} 项检查未发现问题，{masked}{blind} 项无法检查。",
    ),
    "answer_none_but": (
        "No problem worth 1 % of the {whole} was found, but how well kernels use the device could not be judged. "
        "They take {kernels} of that time. {clean} checks found none, {masked}{blind} could not look.",
        "没有发现{whole}能省下 1% 的问题，但算子占其中 {kernels}，其效率无法判断。"
        "{clean} 项检查未发现问题，{masked}{blind} 项无法检查。",
    ),
    "answer_little": (
        "Too little was recorded to call this run fine. Of {all} checks {clean} found nothing worth 1 %, "
        "{masked}{blind} could not look.",
        "采集数据不足以说明没有问题：{all} 项检查中 {clean} 项未发现能省下 1% 的问题，{masked}{blind} 项无法检查。",
    ),
    "answer_blind": (
        "Nothing could be judged: this capture does not hold what the detectors need ({blind} of them).",
        "无法判断：采集数据缺少检查所需的内容（{blind} 项检查）。",
    ),
    "answer_no_device": (
        "No device activity was recorded: this capture holds the host only, and none of the {blind} detectors can "
        "speak of it. Recorded together with its NPU or GPU, the job can be judged.",
        "没有采集到设备活动：采集数据只有主机部分，{blind} 项检查均无法判断。"
        "连同 NPU 或 GPU 一起采集后即可检查。",
    ),
    "answer_launched": (
        "Device work was launched ({call} was recorded), and this capture holds none of it. Either the device's "
        "activities were not asked for, or the profiler's tracer lost them. None of the {blind} detectors can speak of "
        "the device; what the host did is known.",
        "主机下发了设备任务（采到 {call}），但采集数据中没有这些任务。"
        "可能没有设置采集设备活动，也可能采集器没有取到数据。{blind} 项检查均无法判断设备部分，只能说明主机部分。",
    ),
    "answer_lost": (
        "Device work was launched ({call} was recorded) and asked for, but the profiler's tracer lost all of it. Check "
        "that the tracer fits the driver and that no other profiler ran. None of the {blind} detectors can speak of "
        "the device; what the host did is known.",
        "主机下发了设备任务（采到 {call}），也设置了采集设备活动，但采集器没有取到任何设备任务。"
        "请检查其版本与驱动是否匹配，是否同时运行了其他采集工具。{blind} 项检查均无法判断设备部分，只能说明主机部分。",
    ),
    "answer_and": ("{answer} {host}", "{answer}{host}"),
    "host": (
        "Operators ran on the host for {ran} of the steps' {whole} ({share}). Of {own} of their own time, without the "
        "operators they call: {operators}.",
        "各步共 {whole}，其中主机算子运行 {ran}（{share}）。算子自身耗时（不含其调用的算子）共 {own}：{operators}。",
    ),
    "host_recorded": (
        "Operators ran on the host for {ran} of the {whole} from the first recorded call to the last ({share}). Of "
        "{own} of their own time, without the operators they call: {operators}.",
        "从采集到的第一次调用到最后一次共 {whole}，其中主机算子运行 {ran}（{share}）。"
        "算子自身耗时（不含其调用的算子）共 {own}：{operators}。",
    ),
    "calls": (
        "Operators and calls of the runtime library ran for {ran} of the steps' {whole} ({share}). Of {own} of their "
        "own time, without what they call: {operators}.",
        "各步共 {whole}，其中主机算子与 runtime 调用运行 {ran}（{share}）。"
        "自身耗时（不含其调用的内容）共 {own}：{operators}。",
    ),
    "calls_recorded": (
        "Operators and calls of the runtime library ran for {ran} of the {whole} from the first of them to the last "
        "({share}). Of {own} of their own time, without what they call: {operators}.",
        "从第一次调用到最后一次共 {whole}，其中主机算子与 runtime 调用运行 {ran}（{share}）。"
        "自身耗时（不含其调用的内容）共 {own}：{operators}。",
    ),
    "host_operator": ("{name} {share} (calls: {n})", "{name} {share}（{n} 次调用）"),
    "host_operator_from": (
        "{name} {share} (calls: {n}, the longest from {code})",
        "{name} {share}（{n} 次调用，最长一次来自 {code}）",
    ),
    "host_operator_alone": (
        "{name} {share} (calls: {n}, no launch in them)", "{name} {share}（{n} 次调用，其中没有下发）",
    ),
    "host_operator_alone_from": (
        "{name} {share} (calls: {n}, no launch in them, the longest from {code})",
        "{name} {share}（{n} 次调用，其中没有下发，最长一次来自 {code}）",
    ),
    "host_loads": (
        "The data loader held the host for {ns} of the time ({share}), with the operators that it calls. Load in more "
        "workers, or make each sample cheaper.",
        "其中主机有 {ns}（{share}）停在数据加载中（含其调用的算子）。"
        "请增加数据加载的工作进程，或降低单个样本的处理开销。",
    ),
    "host_draws": (
        "Drawing random numbers ({name}) took the host {ns} of that ({share}). Made-up inputs can be drawn once before "
        "the loop, those of data in the workers of the data loader.",
        "其中生成随机数（{name}）占用主机 {ns}（{share}）。人造输入可在循环之前生成一次。"
        "数据所需的随机数可放到数据加载的工作进程中生成。",
    ),
    "host_draws_alone": (
        "Random numbers are drawn on the host, not on the device: {ns} of that ({share}, {name}). Draw made-up inputs "
        "once before the loop, or on the device. Draw those of data in the workers of the data loader.",
        "随机数在主机而不是设备上生成：占其中 {ns}（{share}，{name}）。"
        "人造输入请在循环之前生成一次，或直接在设备上生成。数据所需的随机数请放到数据加载的工作进程中生成。",
    ),
    "host_others": ("other operators ({n}) {share}", "其他 {n} 种算子 {share}"),
    "kernels": (
        "Kernels that compute add up to {ns} in each step of a rank. Most of it: {types}.",
        "每卡每步的计算算子共 {ns}，其中 {types}。",
    ),
    "kernels_recorded": (
        "Kernels that compute add up to {ns} on a rank. Most of it: {types}.", "每卡的计算算子共 {ns}，其中 {types}。",
    ),
    "kernels_unjudged": (
        "They take {kernels} of the {whole}, and how well they use the device could not be judged.",
        "{whole}算子占 {kernels}，其效率无法判断。",
    ),
    "kernels_others": ("other types ({n}) {share}", "其他 {n} 类 {share}"),
    "kernels_other": ("another type {share}", "其他 1 类 {share}"),
    "answer_no_detectors": ("No detector was asked.", "没有运行任何检查。"),
    "together_between": (
        "Fixing everything saves {saving} to {most} of the {whole} ({share} to {most_share}).",
        "全部修复后{whole}可省 {saving} 至 {most}（{share} 至 {most_share}）。",
    ),
    "together": (
        "Fixing everything saves at most {saving} of the {whole} ({share}). The problems overlap, so that "
        "is less than their sum.",
        "全部修复后{whole}最多可省 {saving}（{share}）；各项有重叠，因此小于它们之和。",
    ),
    "together_more": (
        "Fixing everything saves at most {saving} of the {whole} ({share}). That is more than the sum: "
        "some problems only show once others are fixed.",
        "全部修复后{whole}最多可省 {saving}（{share}）；修复一项后另一项才显露，因此大于它们之和。",
    ),
    "together_sum": (
        "Fixing everything saves at most {saving} of the {whole} ({share}).",
        "全部修复后{whole}最多可省 {saving}（{share}）。",
    ),
    "ceiling": (
        "A saving is a ceiling: the run is replayed without the cause, everything else as it was recorded.",
        "收益是上限：去掉该原因、其余保持采集时的样子后重放得到。",
    ),
    "quality": ("Capture quality: {score} of 100.", "采集质量：{score} / 100。"),
    "quality_lacks": ("Capture quality: {score} of 100. Missing: {what}.", "采集质量：{score} / 100。缺少：{what}。"),
    "and_more": ("{what} and {n} more", "{what}等另外 {n} 项"),
    "share_of": ("{share} of {measure}", "{measure} 的 {share}"),
    "gives_back_of": ("{saving} · {share}", "{saving} · {share}"),
    "gives_back": ("{saving} · {share} of the step", "{saving} · 占单步耗时 {share}"),
    "gives_back_steady": (
        "{saving} · {share} of the step without start-up", "{saving} · 占单步耗时（不含启动阶段）{share}",
    ),
    "gives_back_recorded": ("{saving} · {share} of the recorded time", "{saving} · 占采集时长 {share}"),
    "gives_back_recorded_steady": (
        "{saving} · {share} of the recorded time without start-up", "{saving} · 占采集时长（不含启动阶段）{share}",
    ),
    "gives_back_outside": ("{saving} · {share} of the time with device work", "{saving} · 占设备工作时段 {share}"),
    "gives_back_outside_steady": (
        "{saving} · {share} of the time with device work, start-up left out",
        "{saving} · 占设备工作时段（不含启动阶段）{share}",
    ),
    "interval": (
        "Not all of this was recorded: a fix gives back between {least} and {most}.",
        "相关信息没有全部采集到：修复可省 {least} 至 {most}。",
    ),
    "severity_high": ("high", "高"),
    "severity_medium": ("medium", "中"),
    "severity_low": ("low", "低"),
    "severity": ("Severity: {value}", "严重程度：{value}"),
    "confidence": ("Confidence: {value}", "可信度：{value}"),
    "confidence_high": ("high", "高"),
    "confidence_medium": ("medium", "中"),
    "confidence_low": ("low", "低"),
    "cause": ("The device loses time because {cause}.", "耗时原因：{cause}。"),
    "advice": ("What to do", "怎么做"),
    "advice_is": ("What to do: {advice}", "怎么做：{advice}"),
    "reason_remedy": ("{reason}. {remedy}", "{reason}。{remedy}"),
    "wide_comma": ("; ", "；"),
    "evidence": ("Evidence: {n} moments", "证据：{n} 处"),
    "evidence.one": ("Evidence: 1 moment", "证据：1 处"),
    "evidence_means": (
        "Framed: moments in which the cause acts. Behind them: when the device computed, communicated or copied.",
        "框内：该原因起作用的时刻。背景：设备在计算、通信或拷贝的时间。",
    ),
    "lane_computing": ("Computing", "计算"),
    "lane_communication": ("Communication", "通信"),
    "lane_copy": ("Copies", "拷贝"),
    "moment": ("The cause acts", "该原因起作用"),
    "more": ("{n} more findings", "另外 {n} 项发现"),
    "more.one": ("1 more finding", "另外 1 项发现"),
    "evidence_first": (
        "Rank {rank}, {length} from {start} on: {note}",
        "rank {rank}，从 {start} 起 {length}：{note}",
    ),
    "evidence_first_bare": ("Rank {rank}, {length} from {start} on", "rank {rank}，从 {start} 起 {length}"),
    "evidence_more": ("{text} (and {n} more)", "{text}（另有 {n} 处）"),
    "col_rank": ("rank", "rank"),
    "col_start": ("Start", "开始"),
    "col_length": ("Length", "时长"),
    "col_note": ("What", "内容"),
    "col_span": ("Span", "区间编号"),
    "col_number": ("Number", "数值名"),
    "col_value": ("Value", "值"),
    "numbers": ("Its numbers", "相关数值"),
    "masked": ("Lost, and masked by another limit", "有损失，但被其他瓶颈掩盖"),
    "clean": ("Checked, no problem", "已检查，无问题"),
    "not_measured": ("Could not be measured", "无法检查"),
    "broken": ("Failed", "检查出错"),
    "outcomes_count": (
        "{all} checks: {found} with problems, {masked}{clean} fine, {blind} not possible with this capture.",
        "共 {all} 项检查：{found} 项有发现，{masked}{clean} 项无问题，{blind} 项无法检查。",
    ),
    "outcomes_failed": (
        "{all} checks: {found} with problems, {masked}{clean} fine, {blind} not possible with this capture, "
        "{failed} failed.",
        "共 {all} 项检查：{found} 项有发现，{masked}{clean} 项无问题，{blind} 项无法检查，{failed} 项出错。",
    ),
    "masked_and": ("{n} masked by another limit, ", "{n} 项被其他瓶颈掩盖，"),
    "not_looked_for": ("Not looked for", "没有检查"),
    "not_looked_for_means": (
        "No detector speaks of these causes: {causes}.",
        "以下原因没有对应的检查项：{causes}。",
    ),
    "recorded_by": ("To record it: {setting}", "采集方法：{setting}"),
    "no_setting": ("No setting of this profiler records it.", "此 profiler 没有可采集它的设置。"),
    "detector": ("Detector", "检查项"),
    "reason": ("Why", "说明"),
    "collect": ("What to record next", "建议的采集配置"),
    "collect_how": (
        "Record {steps} steps of {ranks} with these settings.",
        "用以下 profiler 配置采集 {ranks} 的 {steps} 步。",
    ),
    "collect_by_command": ("Record {ranks} with this command.", "用以下命令采集 {ranks}。"),
    "collect_all": ("every rank", "所有 rank"),
    "collect_some": ("ranks {ranks}", "rank {ranks}"),
    "missing": ("What this capture cannot answer", "本次采集无法回答什么"),
    "doubts": ("What may mislead", "哪些可能误导"),
    "score": ("How the score comes about", "质量分的由来"),
    "score_rule": (
        "{got} of {of} points = {score} of 100. Each line has points and the share of them it gets.",
        "{of} 分中得 {got} 分，即 {score} / 100。每行列出分值和得分比例。",
    ),
    "col_part": ("Part", "项目"),
    "col_points": ("Points", "分值"),
    "col_share": ("Share", "比例"),
    "ranks": ("ranks {ranks}", "rank {ranks}"),
}
