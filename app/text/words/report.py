"""What only reports say."""

TEXT = {
    "title": ("npulens report: {names}", "npulens 报告：{names}"),
    "made": (
        "Made by npulens {version} from recorded files. No measurement was taken to make this report.",
        "由 npulens {version} 根据已采集的文件生成；生成报告时没有进行任何测量。",
    ),
    "findings": ("Problems", "诊断结果"),
    "ranking": ("What each gives back", "各项收益"),
    "no_findings": ("No check found a problem.", "所有检查均未发现问题。"),
    "split": ("Where the time goes", "时间去向"),
    "split_none": (
        "No device activity was recorded, so there is no time to split.",
        "没有采集到设备侧活动，因此无法拆分时间。",
    ),
    "split_rest": ("{n} more bars are not drawn.", "另有 {n} 条未画出。"),
    "others": ("Everything else that was looked at", "其他检查结果"),
    "quality": ("The capture itself", "采集本身"),
    "thresholds": ("Thresholds", "阈值"),
    "thresholds_note": (
        "What each detector counts as bad. npulens.toml overrides them; those are marked.",
        "每个检查项的判断阈值，可在 npulens.toml 中修改，已修改的有标记。",
    ),
    "col_limit": ("Limit", "阈值"),
    "col_unit": ("Unit", "单位"),
    "col_source": ("Where it comes from", "来源"),
    "overridden": ("{value} (npulens.toml; {default} by default)", "{value}（npulens.toml；默认 {default}）"),
    "definitions": ("Definitions", "定义"),
    "whole_run": ("The whole run", "整个运行"),
    "near": ("The largest moment, from near", "最大的一处，放大"),
    "col_saving": ("Gives back at most", "最多可省"),
    "col_finding": ("Problem", "问题"),
    "none_missing": ("Nothing is missing on the captured ranks.", "已采集的 rank 上没有缺失。"),
    "step": ("step", "单步耗时"),
    "step_means": (
        "The mean step: from the first step's start to the last one's end on the slowest rank, divided by the "
        "steps. Without step marks the whole capture counts as one.",
        "平均单步耗时：各 rank 中最长的窗口（第一步开始到最后一步结束）除以步数。没有 step 标记时，整个采集算作一步。",
    ),
    "saving": ("saving", "收益"),
    "saving_means": (
        "What a fix gives back of the mean step, at most. The run is replayed without the cause, everything "
        "else as recorded. All findings together never promise more than the step.",
        "修复后平均每步最多省下的时间：去掉该原因后重放，其余保持采集时的样子；所有发现合计不会超过一步。",
    ),
    "share": ("share", "占比"),
    "share_means": ("A saving divided by the mean step.", "收益除以平均单步耗时。"),
    "severity": ("severity", "严重程度"),
    "severity_means": (
        "high from 10 % of the step on, medium from 3 % on, low below.",
        "占单步耗时 10% 起为高，3% 起为中，其余为低。",
    ),
    "evidence": ("evidence", "证据"),
    "evidence_means": (
        "Moments in which the cause acts, on the clock of their rank, from the first stamp of the run. At "
        "most the twenty largest.",
        "该原因起作用的时刻，使用各 rank 自己的时钟，从运行的首个时间戳算起；最多列出最大的二十处。",
    ),
    "clean": ("clean", "无问题"),
    "clean_means": (
        "A detector had what it needs, looked, and found nothing that reaches its limit.",
        "检查所需的数据齐全，已检查，没有发现达到阈值的问题。",
    ),
    "masked": ("masked", "被掩盖"),
    "masked_means": (
        "Time is lost to this cause, but removing it alone gives nothing back: another limit has to fall first.",
        "该原因确实造成了时间损失，但单独消除它没有收益：须先消除另一处瓶颈（已知时会指出）。",
    ),
    "unmeasured": ("not measured", "无法检查"),
    "unmeasured_means": (
        "The capture does not hold what the detector needs. This says nothing about whether there is a problem.",
        "采集数据缺少检查所需的内容，不代表没有问题。",
    ),
}
