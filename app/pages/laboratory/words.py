"""The Laboratory page: what was tried on a module, what is right, what is faster, what was replaced."""

TEXT = {
    "title": ("Laboratory", "实验室"),
    "question": ("Which rewrites of this module are right, and which are faster?", "该模块的哪些改写正确，哪些更快？"),
    "none": (
        "This run holds no trials. The laboratory tries fixes on the module, weights and batches of your own job:",
        "本次采集不含试验。实验室在您自己作业的模块、权重与 batch 上尝试各种改写：",
    ),
    "command_0": ("Hear your job, which needs no change:", "捕获您的作业，无需改动："),
    "command_1": ("Try rewrites on what was heard; the result comes into this store:",
                  "在捕获的模块上尝试改写，结果载入当前存储："),
    "command_2": ("Or ask which rewrites the findings of a run name:", "或查看某次采集的发现对应哪些改写："),
    "is_one": (
        "This run is a result of the laboratory: trials, no trace. They are on the Laboratory page.",
        "本次采集是实验室结果，只有试验，没有 trace。见“实验室”页。",
    ),
    "others": ("Results in this store", "存储中的实验室结果"),
    "fastest": (
        "{rewrite} is {times} times as fast: it takes {ratio} of the original's time {interval}, with an error of "
        "{error} against float64. {n} of {of} rewrites are right and faster.",
        "{rewrite} 的速度是原程序的 {times} 倍：用时为其 {ratio} {interval}，与 float64 的误差为 {error}。"
        "{of} 项改写中有 {n} 项正确且更快。",
    ),
    "fastest.one": (
        "{rewrite} is {times} times as fast: it takes {ratio} of the original's time {interval}, with an error of "
        "{error} against float64. Of {of} rewrites it is the only one that is right and faster.",
        "{rewrite} 的速度是原程序的 {times} 倍：用时为其 {ratio} {interval}，与 float64 的误差为 {error}。"
        "{of} 项改写中只有这一项正确且更快。",
    ),
    "none_faster": ("None of {n} rewrites is shown to be faster.", "{n} 项改写均未证明更快。"),
    "none_faster.one": ("The rewrite that was tried is not shown to be faster.", "所尝试的改写未证明更快。"),
    "refused": ("{n} are refused because they are wrong.", "{n} 项因结果错误被拒绝。"),
    "refused.one": ("1 is refused because it is wrong.", "1 项因结果错误被拒绝。"),
    "nothing_tried": ("Nothing could be tried: {why}.", "无法尝试：{why}。"),
    "what": (
        "{module}, captured by {engine}, {mode}, on {device}. Evidence: {evidence}. The original itself is {error} of "
        "its result away from float64.",
        "{module}，由 {engine} 捕获，{mode}，设备 {device}。证据级别：{evidence}。原程序自身与 float64 相差其结果的 "
        "{error}。",
    ),
    "partial": ("It did not come to its end: {why}.", "未完整结束：{why}。"),
    "trials": ("Rewrites", "改写"),
    "trials_means": (
        "Time as a multiple of the original's, in interleaved rounds; the bar is the 99 % interval. Left of 1 is "
        "faster. The grey band is 1 %. A hollow mark is what theory claimed before anything was timed. What is wrong "
        "gets no time.",
        "用时为原程序的倍数，轮次交错；横条为 99 % 区间。1 的左侧为更快，灰带为 1 %。"
        "空心标记为计时之前理论给出的预测。结果错误的改写不计时。",
    ),
    "columns": (
        "Errors are shares of the result: the largest against float64 and what rounding allows; then the distance to "
        "the original. Peak memory is what one call needs besides the weights, rewrite / original. A finding's saving "
        "is a ceiling of the job's step, not of this module.",
        "误差为占结果的比例：与 float64 的最大误差与舍入允许的误差；其后为与原程序的差距。内存峰值为一次调用在权重之外"
        "所需，改写 / 原程序。发现的收益是作业单步的上限，不是该模块的。",
    ),
    "col_rewrite": ("Rewrite", "改写"),
    "col_verdict": ("Verdict", "结论"),
    "col_time": ("Time, 99 % interval", "用时比，99 % 区间"),
    "col_predicted": ("Predicted", "预测"),
    "col_error": ("Error / allowed", "误差 / 允许"),
    "col_against": ("To original", "与原程序"),
    "col_peak": ("Peak memory", "内存峰值"),
    "col_finding": ("Named by finding", "来自发现"),
    "col_why": ("Why", "原因"),
    "not_predicted": ("not predicted", "未预测"),
    "not_claimed": ("{guess}, not claimed", "{guess}，不作断言"),
    "ceiling": ("(at most {saving} a step)", "（每步最多 {saving}）"),
    "named_by": ("Named by the finding {finding}", "来自发现：{finding}"),
    "axis_ratio": ("time as a multiple of the original's", "相对原程序的用时"),
    "axis_nodes": ("operators", "算子数"),
    "measured": ("measured", "实测"),
    "predicted": ("predicted", "预测"),
    "one": ("One rewrite", "单项改写"),
    "pick": ("Rewrite", "改写"),
    "paste": ("What to type into the job", "粘贴到作业中的代码"),
    "paste_slower": ("It is slower here; this is what it would be.", "此处更慢；代码仅供参考。"),
    "paste_same": ("It changes nothing here; this is what it would be.", "此处没有差别；代码仅供参考。"),
    "paste_cannot_tell": (
        "It is right, but not shown to be faster yet.", "结果正确，但尚未证明更快。",
    ),
    "paste_does_not_apply": ("It does not apply here.", "此处不适用。"),
    "no_paste": (
        "There is no line to paste for it. The difference of both programs below says what has to be written.",
        "没有可直接粘贴的代码。需要改写的内容见下方两个程序的差异。",
    ),
    "source": ("It is about {place} ({ops}):", "涉及 {place}（{ops}）："),
    "graphs": ("What it replaced", "替换了什么"),
    "graph_means": (
        "A replaced place with what stands beside it. − goes, ~ is changed, + comes; grey stays.",
        "被替换之处及其相邻算子。− 删除，~ 改变，+ 新增；灰色保持不变。",
    ),
    "counts": (
        "{before} operators before, {after} after; {n} places of {kinds} kinds.",
        "改写前 {before} 个算子，改写后 {after} 个；共 {n} 处，{kinds} 种。",
    ),
    "counts_alike": (
        "{before} operators before, {after} after; {n} places, all alike.",
        "改写前 {before} 个算子，改写后 {after} 个；共 {n} 处，形式相同。",
    ),
    "counts_alike.one": ("{before} operators before, {after} after; 1 place.",
                   "改写前 {before} 个算子，改写后 {after} 个；共 1 处。"),  # fmt: skip
    "left_out": (
        "{count} operators are not in the file: those near a replacement were kept first.",
        "文件中省略了 {count} 个算子：优先保留替换处附近的算子。",
    ),
    "side_left_out": ("{count} more operators stand beside it.", "另有 {count} 个相邻算子未画出。"),
    "not_drawn": (
        "There is no drawing of it: it does not apply, the module was kept whole, or drawn/ was not loaded with "
        "result.json.",
        "没有程序图：改写不适用、模块以整体保存，或载入 result.json 时没有 drawn/ 目录。",
    ),
    "not_replaced": (
        "No operator is another one: it changes types, the order in memory, or what happens below the operators.",
        "没有替换任何算子：它改变的是类型、内存排布，或算子之下的实现。",
    ),
    "place": ("Kind of place", "替换处类型"),
    "place_of": ("{n} places alike: {modules}", "{n} 处相同：{modules}"),
    "place_of.one": ("1 place: {modules}", "1 处：{modules}"),
    "and_more": ("{what} and {n} more", "{what}，另有 {n} 处"),
    "whole": ("the whole module", "整个模块"),
    "before": ("Before", "改写前"),
    "after": ("After", "改写后"),
    "parts": ("The program by its modules", "按模块查看程序"),
    "state_kept": ("stays", "不变"),
    "state_gone": ("goes", "删除"),
    "state_changed": ("is changed", "改变"),
    "state_new": ("comes", "新增"),
    "difference": ("Both programs as code", "两个程序的代码差异"),
    "recorded": ("Both recorded", "两者的录制"),
    "not_recorded": (
        "Neither is recorded yet. This records both under the same profiler, as two runs of this store:",
        "尚未录制。以下命令用同一 profiler 录制两者，作为当前存储 的两次采集：",
    ),
    "compare": ("Compare both recordings", "比较两次录制"),
    "timelines": ("Both timelines, one under the other", "上下对照两条时间线"),
    "loaded": ("The result is run {run} in {store}; the page Laboratory shows it.",
               "结果为 {store} 中的运行 {run}；见“实验室”页。"),  # fmt: skip
    "compare_with": ("Compare them: npulens compare {base} {head}", "比较两者：npulens compare {base} {head}"),
    "about": ("Environment and method", "环境与方法"),
    "about_subject": ("Subject", "捕获目录"),
    "about_shapes": ("Calls and shapes", "调用与形状"),
    "about_calls": ("Calls in the job", "作业中的调用数"),
    "about_made_at": ("Tried at", "试验时间"),
    "about_device": ("Device", "设备"),
    "about_versions": ("Versions", "版本"),
    "about_python": ("Python", "Python 版本"),
    "about_platform": ("Platform", "平台"),
    "about_cpu": ("Processor", "处理器"),
    "about_cores": ("Cores", "核数"),
    "about_load": ("Load", "负载"),
    "about_method": ("Method", "方法"),
}  # fmt: skip
