"""The manual: detectors, words, how to collect, and what this program is."""

TEXT = {
    "title": ("Learn", "使用手册"),
    "part": ("Part", "内容"),
    "part_detectors": ("Detectors", "检查项"),
    "part_words": ("Words", "术语"),
    "part_collect": ("How to collect", "如何采集"),
    "part_about": ("About", "关于"),
    "detector": ("Detector", "检查项"),
    "unknown": (
        "The link names a detector that there is not: {name}.",
        "链接中的检查项不存在：{name}。",
    ),
    "broken": ("The detectors could not be listed.", "无法列出检查项。"),
    "off": ("npulens.toml switches this detector off.", "npulens.toml 已关闭此检查项。"),
    "plugin": (
        "This is a detector of yours; its text is shown as it is.",
        "这是自定义检查项，说明按原文显示。",
    ),
    "undocumented": ("It has no documentation.", "没有说明文档。"),
    "english": (
        "There is no text in this language; it is shown as its author wrote it.",
        "没有中文说明（检查项旁的 .zh.md 文件），以下为作者原文。",
    ),
    "blames": ("It blames: {cause}.", "归因：{cause}。"),
    "outcome_found": ("In this run: found. {reason}", "本次运行：有发现。{reason}"),
    "outcome_masked": ("In this run: masked. {reason}", "本次运行：被掩盖。{reason}"),
    "outcome_clean": ("In this run: clean, {reason}.", "本次运行：无问题，{reason}。"),
    "outcome_not_measured": ("In this run: not measured. {reason}", "本次运行：无法检查。{reason}"),
    "outcome_failed": ("In this run: failed. {reason}", "本次运行：检查出错。{reason}"),
    "needs": ("What it needs", "所需数据"),
    "needs_nothing": ("It needs nothing that a capture may lack.", "不需要采集中可能缺少的数据。"),
    "col_need": ("Needs", "数据"),
    "col_npu": ("torch_npu.profiler records it with", "torch_npu.profiler 采集方法"),
    "col_torch": ("torch.profiler records it with", "torch.profiler 采集方法"),
    "no_setting": ("no setting", "没有对应设置"),
    "limits": ("Its limits", "阈值"),
    "limits_help": (
        "What counts as bad. npulens.toml changes them: [limits.{name}].",
        "超过多少算问题。可在 npulens.toml 的 [limits.{name}] 中修改。",
    ),
    "col_limit": ("Limit", "阈值"),
    "col_value": ("Value", "值"),
    "col_unit": ("Unit", "单位"),
    "col_source": ("Where it comes from", "来源"),
    "changed": ("{value} (npulens.toml; usually {usual})", "{value}（npulens.toml；默认 {usual}）"),
    "says": ("What it says", "结论与建议的写法"),
    "says_help": (
        "The sentences of its findings. Words in braces stand for numbers of the run; what stands in double brackets "
        "is left out where its numbers are not known.",
        "发现的句式。花括号中的名称代表运行中的数值；双方括号中的内容在数值未知时省略。",
    ),
    "accuracy": ("How well it finds planted faults", "对已知故障的检出情况"),
    "accuracy_is": (
        "{cases} simulated captures with this fault. Recall {recall}, precision {precision}, median error of the "
        "saving {error}. Simulated jobs are not real ones: this measures the detector, not the world.",
        "在 {cases} 个植入该故障的仿真采集中：召回率 {recall}，精确率 {precision}，收益误差中位数 {error}。"
        "仿真任务不等于真实任务，这里衡量的是检查项本身。",
    ),
    "words_lead": (
        "One word per idea, the same in files, functions, columns, documents and on the screen.",
        "一个概念只用一个词，文件、函数、列名、文档和界面保持一致。",
    ),
    "col_word": ("Word", "术语"),
    "col_chinese": ("In Chinese", "英文"),
    "col_meaning": ("Meaning", "含义"),
    "parts": ("The parts of the split", "时间拆分的各部分"),
    "causes": ("Causes", "原因"),
    "causes_lead": (
        "What a finding can blame: the device loses time because …",
        "发现可以归因于以下原因：",
    ),
    "gap_causes": (
        "A gap of the device can also be one of these.",
        "设备空隙还可能是以下情况。",
    ),
    "term_run": ("run", "运行"),
    "means_run": (
        "One session of a job as a profiler saw it, with one rank or many. One upload can hold several.",
        "profiler 采集到的一次任务会话，包含一个或多个 rank。一次上传可包含多次运行。",
    ),
    "term_rank": ("rank", "rank"),
    "means_rank": (
        "One process of the job. Never the device id: ranks 0 to 3 may sit on devices 0, 1, 4 and 5.",
        "任务中的一个进程。不是 device id：rank 0–3 可能在 0、1、4、5 号卡上。",
    ),
    "term_span": ("span", "区间（span）"),
    "means_span": ("An interval on a track, with a start and a length.", "泳道上的一段时间，有开始和时长。"),
    "term_track": ("track", "泳道（track）"),
    "means_track": (
        "One lane of the timeline: a host thread, a device stream, a communication plane.",
        "时间线上的一行：主机线程、设备 stream 或通信平面。",
    ),
    "term_link": ("link", "连线（link）"),
    "means_link": (
        "The launch arrow from a host span to the device span it started.",
        "从主机区间指向其下发的设备区间的箭头。",
    ),
    "term_step": ("step", "step（训练步）"),
    "means_step": (
        "A recorded training or inference step. Its window runs to the mark of the next step.",
        "采集到的一个训练或推理 step，其窗口到下一个 step 的标记为止。",
    ),
    "term_coverage": ("coverage", "采集覆盖（coverage）"),
    "means_coverage": (
        "What a run recorded, partly recorded or did not record, and why.",
        "一次运行采集了什么、部分采集了什么、未采集什么，以及原因。",
    ),
    "term_view": ("view", "视图（view）"),
    "means_view": (
        "A documented SQL measurement over the tables: what happened, without judging it.",
        "基于表的有文档的 SQL 测量：只说发生了什么，不作判断。",
    ),
    "term_detector": ("detector", "检查项（detector）"),
    "means_detector": (
        "One judgement over views: is it bad, what does it cost, what to do.",
        "基于视图的一项判断：是否有问题、代价多大、怎么做。",
    ),
    "term_finding": ("finding", "发现（finding）"),
    "means_finding": (
        "What a detector says: saving, advice, numbers, evidence.",
        "检查项给出的结论：收益、建议、数值、证据。",
    ),
    "term_evidence": ("evidence", "证据（evidence）"),
    "means_evidence": (
        "Time windows that show the cause at work: rank, start, length.",
        "能看到该原因起作用的时间窗口：rank、开始、时长。",
    ),
    "term_saving": ("saving", "收益（saving）"),
    "means_saving": (
        "The most that a fix gives back, in time of a step. A ceiling, never a promise.",
        "修复后每步最多可省的时间。这是上限，不是承诺。",
    ),
    "term_workload": ("workload", "负载（workload）"),
    "means_workload": ("Something a collector runs.", "采集器运行的任务。"),
    "term_verdict": ("verdict", "结论（verdict）"),
    "means_verdict": (
        "Of a comparison: regressed, improved, same or ambiguous.",
        "对比的结论：变慢、变快、不变或无法确定。",
    ),
    "term_null": ("NULL and 0", "NULL 与 0"),
    "means_null": (
        "NULL is not recorded; 0 is recorded, and none. What follows from a NULL is NULL.",
        "NULL 表示未采集；0 表示已采集且没有。由 NULL 推出的也是 NULL。",
    ),
    "collect_lead": (
        "What a capture lacks no tool can show. Put this around the training loop; the profiler writes "
        "./npulens_capture, and npulens load takes it in.",
        "采集中没有的数据，任何工具都无法显示。把下面的代码放在训练循环外层，profiler 会写入 ./npulens_capture，"
        "再用 npulens load 加载。",
    ),
    "collect_unchanged": ("Without a change to the job", "不修改任务"),
    "collect_unchanged_text": (
        "The job runs as it is; a step is a step of its first optimiser, or a call of the outermost module where "
        "nothing is trained. Every process of torchrun becomes a rank. What was written is opened, loaded and checked.",
        "任务照常运行；一步即第一个优化器的一次 step，没有训练时为最外层模块的一次调用。"
        "torchrun 的每个进程是一个 rank。采集结果会被打开验证、加载并检查。",
    ),
    "collect_later": ("In a job that runs already", "对正在运行的任务"),
    "collect_later_text": (
        "Start it armed, and say begin from another terminal when it is worth looking at. An NPU job that was started "
        "with PROF_CONFIG_PATH=DIR needs no arming: say begin with --watched DIR.",
        "以 armed 方式启动，需要时在另一个终端发出 begin。以 PROF_CONFIG_PATH=DIR 启动的 NPU 任务无需 armed，"
        "发出 begin 时加 --watched DIR。",
    ),
    "collect_lines": ("Three lines around your own loop", "在自己的循环外加三行"),
    "collect_lines_text": (
        "step() after every step; after the wanted steps it costs nothing. Where a framework owns the loop, hand it "
        "step as the callback of its steps. An empty recording is an error.",
        "每步之后调用 step()，采集完成后不再有开销。由框架控制循环时，把 step 作为每步结束的回调。空的采集会报错。",
    ),
    "collect_zip": ("On a machine where nothing may be installed", "在不允许安装软件的机器上"),
    "collect_zip_text": (
        "One file for Python 3.9 and up with the torch that is there; its result is a directory to copy back and load.",
        "单个文件，Python 3.9 及以上，使用已有的 torch；结果是一个目录，拷回后加载。",
    ),
    "collect_code": ("Code for the profiler itself", "直接使用 profiler 的代码"),
    "collect_run": ("For this very job", "针对当前任务"),
    "collect_working": (
        "Looking at what this run lacks, {n} s so far.",
        "正在分析这次运行缺少什么，已用 {n} 秒。",
    ),
    "collect_none": (
        "Load a capture, and this page says what it lacks and how to record it.",
        "加载一次采集后，这里会说明缺少什么以及如何采集。",
    ),
    "collect_npu": ("For any job on an NPU (torch_npu.profiler)", "任意 NPU 任务（torch_npu.profiler）"),
    "collect_cuda": ("For any job on CUDA or ROCm (torch.profiler)", "任意 CUDA 或 ROCm 任务（torch.profiler）"),
    "collect_load": ("Then load it", "然后加载"),
    "level": ("Evidence level of this run", "当前运行的证据级别"),
    "level_simulated": (
        "Simulated: written by npulens simulate (its files name the host sim-node). It ran on no device.",
        "仿真（simulated）：由 npulens simulate 生成（文件中主机名为 sim-node），没有在任何设备上运行。",
    ),
    "level_npu": (
        "NPU: the capture says it was recorded on an NPU. npulens has not checked that.",
        "NPU：采集数据标明在 NPU 上采集，npulens 未作核实。",
    ),
    "level_cuda": (
        "CUDA: the capture says it was recorded on a CUDA device. npulens has not checked that.",
        "CUDA：采集数据标明在 CUDA 设备上采集，npulens 未作核实。",
    ),
    "level_rocm": (
        "ROCm: the capture says it was recorded on a ROCm device. npulens has not checked that.",
        "ROCm：采集数据标明在 ROCm 设备上采集，npulens 未作核实。",
    ),
    "level_cpu": ("CPU: the capture holds no device, only the host.", "CPU：采集数据中没有设备，只有主机。"),
    "level_unknown": (
        "Unknown: the capture does not say on what kind of device it was recorded.",
        "未知：采集数据未说明在何种设备上采集。",
    ),
    "level_device": ("Device, as the profiler names it: {name}", "设备（profiler 中的名称）：{name}"),
    "about_what": (
        "npulens {version} answers one question: where does the time of this job go, and what gives the most of it "
        "back?",
        "npulens {version} 回答一个问题：这个任务的时间花在哪里，优化哪里收益最大？",
    ),
    "about_license": (
        "Licence: Apache-2.0. It comes without warranty of any kind.",
        "许可证：Apache-2.0，不提供任何担保。",
    ),
    "about_data": (
        "No data leaves the machine it runs on: it asks nothing of the network, sends no statistics, and keeps what "
        "you load in its own store until you delete it.",
        "数据不会离开运行它的机器：不访问外部网络，不上报统计，加载的数据只保存在自己的存储中，直到你删除。",
    ),
    "about_store": ("Store: {path}", "存储位置：{path}"),
    "not": ("What it does not do", "它不做什么"),
    "not_change": (
        "It changes nothing in your job; it only reads what a profiler left.",
        "不修改你的任务，只读取 profiler 留下的数据。",
    ),
    "not_promise": (
        "A saving is a ceiling found by replaying the run without the cause. It is no promise.",
        "收益是去掉该原因后重放得到的上限，不是承诺。",
    ),
    "not_guess": (
        "What was not recorded is said to be not recorded. It is never guessed, and never counted as fine.",
        "未采集的内容会明确说明，不猜测，也不当作没有问题。",
    ),
    "not_npu": (
        "npulens itself has not run on an NPU yet. Its readers are tested on real captures, its detectors on "
        "simulated ones.",
        "npulens 本身尚未在 NPU 上运行过。读取器用真实采集测试，检查项用仿真采集测试。",
    ),
}

#: Units and sources of our detectors' limits, which the detectors say in English.
LIMITS = {
    "times as fast as fp32": "倍（相对 fp32 的速度）",
    "below this the conversion costs what the faster units save": "低于此值，更快单元省下的时间会被类型转换抵消",
    "share of the step": "占步长的比例",
    "below 1 % of the step a fix is not worth reading about": "低于步长的 1 %，修复不值得一读",
    "share of the device's memory": "占设备内存的比例",
    "above it the next larger batch does not fit": "高于此值，再大一档的 batch 就放不下",
    "most reserved by most allocated": "最多预留量与最多分配量之比",
    "below it, rounding of blocks explains the rest": "低于此值，可由内存块取整解释",
    "steps in a row": "连续的 step 数",
    "fewer may be a warm-up": "更少可能只是预热",
    "share of the most allocated": "占最多分配量的比例",
    "less may be caches that fill up once": "更少可能只是缓存首次填满",
    "ns between two calls": "两次调用间隔的 ns",
    "share of the launches": "占下发次数的比例",
    "the rest launch graphs or several kernels at once": "其余为整图下发或一次下发多个算子",
    "launches of long kernels": "长算子的下发次数",
    "fewer may all be waited for by chance": "更少则可能只是碰巧都在等待",
    "ns of a kernel": "算子的 ns",
    "a launch on a slow driver takes as long without waiting": "慢驱动上的下发即使不等待也要这么久",
    "with 2 nobody knows whether the second is the odd one": "只有 2 个时，无法知道第二个是否只是例外",
    "new shapes of an operator after its first step": "算子在其首个 step 之后遇到的新形状数",
    "one may be the last short batch": "一个可能只是最后不满的 batch",
    "times what the host takes before the operator at known shapes": "与已知形状下该算子之前主机耗时之比",
    "less is its usual spread": "更小属于正常波动",
    "ns of a gap": "空隙的 ns",
    "shorter ones are launches": "更短的是下发本身",
    "below 5 % the gaps between launches of any job are as long": "5 % 以下，任何任务的下发间隙都有这么长",
    "a launch and the first and last accesses take some us; below this more cores change little":
        "下发与首尾访存需要若干 us，低于此值时增加核数作用不大",
    "share of the cores": "占核数的比例",
    "43 of 48 cores are a good tiling of an odd shape: nothing to gain by hand":
        "48 个核用到 43 个，对不规整的形状已是很好的切分，手工调整没有收益",
    "share of a rank's computing": "占该卡计算时间的比例",
    "five times the 0.4 % by which two real ranks with the same work differ":
        "负载相同的两张卡在真实采集中相差 0.4 %，取其五倍",
    "unequal work shows in most of what a rank computes": "负载不均会体现在该卡的大部分计算上",
    "ns of a kernel that does nothing": "ns（空算子耗时）",
    "shortest of the real captures: 1.5 to 2.5 us": "真实采集中的最短值：1.5–2.5 us",
    "ns from a free to the allocation": "ns（从释放到申请）",
    "both are in one call of the allocator": "两者在分配器的同一次调用内",
    "a transfer between two stages alone takes up to 1 to 2 %": "仅相邻阶段间的一次传输就可占 1–2 %",
    "share of the median": "占中位数的比例",
    "healthy kernels vary by a few per cent": "正常算子有百分之几的波动",
    "robust standard deviations": "倍稳健标准差",
    "beyond chance for thousands of kernels": "对数千个算子而言已不可能是偶然",
    "device stamps have steps of 20 ns, launches jitter by 1 us": "设备时间戳步进 20 ns，下发抖动约 1 us",
    "share of a kind's kernels": "占同类算子的比例",
    "more is a second mode, not a tail": "超过则是第二个峰，不是长尾",
    "steps": "步",
    "with fewer nobody knows which one is ordinary": "步数再少就无法判断哪一步是正常的",
    "share of the median step": "占中位步的比例",
    "healthy steps differ by less (real captures)": "正常训练步的差异小于此值（真实采集）",
    "beyond chance for hundreds of steps": "对数百步而言已不可能是偶然",
    "launches and streams vary by some us; a pause is longer": "下发与流间有若干 us 的波动，停顿比这更长",
    "times usual": "倍（相对平时）",
    "share of the group's mean": "占通信域平均值的比例",
    "tiles of 128 tokens: equal shares still differ by some": "按 128 个 token 分块，均分时也会有少量差异",
    "times its kind": "倍（相对同类）",
    "links of one kind agree within 10 % on real captures (8 x 910B)": "真实采集（8 x 910B）中同类链路相差不到 10 %",
    "transfers": "次传输",
    "fewer can be slow by chance": "更少则可能是偶然",
    "share of its transfers": "占该链路传输次数的比例",
    "where packets are sent again, the others are not slow": "若是重传，其余传输并不慢",
    "bytes": "字节",
    "msprof-analyze: below 16 MB SDMA does not reach its bandwidth": "msprof-analyze：小于 16 MB 时 SDMA 达不到带宽",
    "msprof-analyze: below 1 MB RDMA does not reach its bandwidth": "msprof-analyze：小于 1 MB 时 RDMA 达不到带宽",
    "msprof-analyze: SDMA moves whole lines of 512 bytes fastest": "msprof-analyze：SDMA 按 512 字节整行传输最快",
    "share of the time of transfers": "占传输时间的比例",
    "msprof-analyze: more than 20 % of small packets": "msprof-analyze：小包超过 20 %",
    "HCCL's unit of the RDMA time-out; msprof-analyze uses the same": "HCCL 的 RDMA 超时单位，msprof-analyze 也用此值",
    "times its like": "倍（相对同类传输）",
    "congestion makes transfers several times slower, not 20 times": "拥塞会使传输慢几倍，不会慢 20 倍",
    "times the same alone": "倍（相对单独运行）",
    "healthy kernels of one shape stay within some per cent": "正常情况下同形状算子只有百分之几的波动",
    "msprof-analyze: below 80 % of the usual bandwidth beside a matrix product":
        "msprof-analyze：与矩阵乘同时进行时低于正常带宽的 80 %",
    "samples of each": "个样本（每种情况）",
    "quartiles of fewer say nothing": "样本更少时四分位数没有意义",
    "share of the mean stage": "占各阶段平均值的比例",
    "stages that differ by less are an even split of layers": "差异小于此值时，层的划分已是均匀的",
    "the median kernel of a healthy step stays within 3 %": "正常训练步的中位算子波动在 3 % 以内",
}
