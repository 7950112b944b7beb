"""The bench page: latency, fused against unfused, batch curve, several at once, numerics; what reading one says."""

TEXT = {
    "title": ("Bench", "基准测试"),
    "question": ("Is every variant right, how long does it take, and which is faster?",
                 "各变体结果是否正确，用时多少，哪个更快？"),  # fmt: skip
    "is_one": (
        "This run is a benchmark: figures and samples, no trace. Its figures are on the Bench page.",
        "本次采集是基准测试，只有指标与样本，没有 trace。指标见“基准测试”页。",
    ),
    "none": (
        "This run is a trace, not a benchmark. A benchmark runs a workload's variants, checks them against float64, "
        "takes their latencies and compares them in interleaved pairs:",
        "本次采集是 trace，不是基准测试。基准测试会运行算子的各个变体，先与 float64 比对精度，再测量时延，"
        "并以交错配对比较："
    ),
    "others": ("Benchmarks in this store", "存储中的基准测试"),
    "what": (
        "{workload}, shape {shape}, on {device}. Evidence: {evidence}.",
        "{workload}，形状 {shape}，设备 {device}。证据级别：{evidence}。",
    ),
    "evidence_cpu": ("measured on a processor, not on an accelerator", "在 CPU 上测得，不代表加速卡"),
    "evidence_cuda": ("measured on a GPU, not on an NPU", "在 GPU 上测得，不代表 NPU"),
    "evidence_mps": ("measured on an Apple GPU, not on an NPU", "在 Apple GPU 上测得，不代表 NPU"),
    "evidence_npu": ("measured on an NPU", "在 NPU 上测得"),
    "partial": ("It did not come to its end: {why}.", "未完整结束：{why}。"),
    "faster": (
        "{variant} is {times} times as fast as {base} in {dtype}: it takes {ratio} of its time [{low}, {high}].",
        "{dtype} 下 {variant} 的速度是 {base} 的 {times} 倍：用时为其 {ratio} [{low}, {high}]。",
    ),
    "slower": (
        "{variant} is slower than {base} in {dtype}: it takes {ratio} of its time [{low}, {high}].",
        "{dtype} 下 {variant} 比 {base} 慢：用时为其 {ratio} 倍 [{low}, {high}]。",
    ),
    "same": (
        "{variant} takes as long as {base} in {dtype}, within 1 %: {ratio} of its time [{low}, {high}].",
        "{dtype} 下 {variant} 与 {base} 用时相同（差异在 1 % 以内）：{ratio} [{low}, {high}]。",
    ),
    "cannot_tell": (
        "{pairs} pairs cannot tell {variant} from {base} in {dtype}: {ratio} of its time [{low}, {high}]. About "
        "{needed} pairs would.",
        "{pairs} 对不足以区分 {dtype} 下的 {variant} 与 {base}：{ratio} [{low}, {high}]，约需 {needed} 对。",
    ),
    "too_noisy": (
        "{pairs} pairs cannot tell {variant} from {base} in {dtype}: {ratio} of its time [{low}, {high}]. The machine "
        "is too noisy: no number of pairs that anyone would take would tell.",
        "{pairs} 对不足以区分 {dtype} 下的 {variant} 与 {base}：{ratio} [{low}, {high}]。机器噪声过大，"
        "再多配对也难以区分。",
    ),
    "withheld": (
        "{variant} against {base} in {dtype} is withheld. The control, a variant against itself, came out "
        "different: this machine was not quiet enough.",
        "{dtype} 下 {variant} 与 {base} 的比较不予采信：对照组（同一变体与自身比较）也出现差异，说明机器干扰"
        "太大。",
    ),
    "withheld_wide": (
        "{variant} against {base} in {dtype} is withheld: {ratio} [{low}, {high}]. The control, the same "
        "variant twice, reaches as far from 1 in the same rounds.",
        "{dtype} 下 {variant} 与 {base} 的比较不予采信：同轮测量的对照组（同一变体自身比较）的区间已覆盖这一"
        "差异 {ratio} [{low}, {high}]。",
    ),
    "by_cpu_time": ("{said} By CPU time.", "{said}按 CPU 时间判定。"),
    "control_good": (
        "Control: {base} against itself in {dtype} shows no difference: {ratio} [{low}, {high}].",
        "对照：{dtype} 下 {base} 与自身比较没有差异：{ratio} [{low}, {high}]。",
    ),
    "control_bad": (
        "Control: {base} differs from itself in {dtype}: {ratio} [{low}, {high}]. This machine was not quiet enough.",
        "对照：{dtype} 下 {base} 与自身比较竟有差异：{ratio} [{low}, {high}]，机器干扰太大。",
    ),
    "no_versus": ("No two variants were compared.", "没有比较任何变体。"),
    "versus": ("Against the baseline", "与基线比较"),
    "versus_means": (
        "Blocks of both variants in turns, so that both meet the same drift; each ratio is one pair. The dot "
        "is the mean ratio of time, the bar its 99 % interval. Left of 1 is faster. The control is the "
        "baseline against itself in the same rounds. On a processor the verdict is by the steadier clock. The "
        "host's is what the caller waits; CPU time is what the work costs one thread.",
        "两个变体的测量块交替进行，承受同样的漂移；每对给出一个比值。点为用时比的均值，横条为 99 % 区间，1 的"
        "左侧为更快。对照为同轮测量的基线与自身比较。在 CPU 上按波动较小的时钟判定：主机时钟是调用方的等待时"
        "间，CPU 时间是单线程的计算开销。",
    ),
    "latency": ("Latency", "时延"),
    "latency_means": (
        "The share of calls that took at most so long. Every call after a cold start counts; none is left out "
        "for being slow. Bars are the 95 % intervals of P50, P90, P99 and P99.9 where there are enough calls "
        "for one.",
        "用时不超过某值的调用占比；冷启动之后的所有调用都计入，不会因为慢而剔除。横条为 P50、P90、P99、P99.9 "
        "的 95 % 区间，样本不足时不画。",
    ),
    "course": ("Call by call", "逐次调用"),
    "course_pick": ("Series", "序列"),
    "course_means": (
        "The calls in their order: a cold start, a drift or a throttled clock shows here. Of many calls the "
        "fastest and "
        "the slowest of each slice are drawn.",
        "按先后顺序的各次调用，可看出冷启动、漂移或降频。调用很多时，每段只画最快与最慢。",
    ),
    "numerics": ("Numerics against float64", "与 float64 的精度比对"),
    "numerics_means": (
        "The error's norm as a share of the result's norm decides; a variant that is wrong gets no speed-up.",
        "以误差范数与结果范数之比判定；精度不合格的变体不给出加速比。",
    ),
    "batch": ("Batch curve", "批大小曲线"),
    "batch_means": (
        "Sweet spot: the smallest batch with 95 % of the highest throughput. Knee: where doubling the batch "
        "stops giving "
        "more than it costs. Ended by {why}.",
        "甜点：达到最高吞吐 95 % 的最小批大小。拐点：再加倍得不偿失之处。结束原因：{why}。",
    ),
    "stopped_time": ("the time budget", "时间预算用尽"),
    "stopped_memory": ("memory", "内存不足"),
    "stopped_largest": ("the largest batch that is tried", "达到尝试的最大批"),
    "together": ("Several at once", "并发干扰"),
    "together_means": (
        "Efficiency = what they do together / what as many would do alone: 1 is no interference.",
        "效率 = 同时运行的总吞吐 /（个数 × 单独运行的吞吐），1 表示互不干扰。",
    ),
    "throughput": ("Throughput", "吞吐"),
    "throughput_means": (
        "At most so many steps under way, and only completed ones count.", "同时在途的步数有上限，只计已完成的步。"
    ),
    "sweep": ("Shapes", "形状扫描"),
    "sweep_means": (
        "Every shape of the workload, then all ones, odd sizes and an empty one.",
        "算子的全部形状，再加全 1、奇数与空形状。",
    ),
    "about": ("Environment and method", "环境与方法"),
    "unknown": ("not known", "未知"),
    "unbounded": ("≥ {low} (needs n ≥ {needed})", "≥ {low}（需 n ≥ {needed}）"),
    "outliers": ("{n} ({share}), {events} with a known cause", "{n} 个（{share}），其中 {events} 个有已知原因"),
    "state_steady": ("steady", "稳定"),
    "state_cold_start": ("steady after a cold start of {n} calls", "冷启动 {n} 次后稳定"),
    "state_throttled": ("slower from call {at} on: no headline number", "从第 {at} 次调用起变慢：不给出结论数值"),
    "state_drift": ("drifting: no headline number", "漂移：不给出结论数值"),
    "state_unsteady": ("unsteady: no headline number", "不稳定：不给出结论数值"),
    "state_too_few": ("too few calls to say", "调用太少，无法判断"),
    "unsettled": ("warm-up did not settle", "预热未稳定"),
    "hot": ("hot", "热"),
    "cold": ("cold", "冷"),
    "host": ("host", "主机"),
    "cpu": ("CPU time", "CPU 时间"),
    "device": ("device", "设备"),
    "streams": ("streams", "流"),
    "threads": ("threads", "线程"),
    "processes": ("processes", "进程"),
    "right": ("right", "正确"),
    "wrong": ("wrong, no speed-up", "不正确，不给加速比"),
    "not_here": ("does not run here", "此处无法运行"),
    "refused": ("refused: {why}", "拒绝：{why}"),
    "sweet_spot": ("sweet spot", "甜点"),
    "knee": ("knee", "拐点"),
    "within": ("best within the objective", "满足时延目标的最佳"),
    "objective": ("objective", "时延目标"),
    "axis_time": ("time of one call", "单次用时"),
    "axis_ratio": ("time as a multiple of the baseline's", "相对基线的用时"),
    "axis_batch": ("batch", "批大小"),
    "axis_items": ("items per second", "每秒样本数"),
    "axis_call": ("call", "第几次调用"),
    "again": ("{base} again", "{base}（对照）"),
    "again_beside": ("{base} again, beside {variant}", "{base}（与 {variant} 同轮的对照）"),
    "counted": ("counted from here", "从此处开始计入"),
    "col_variant": ("Variant", "变体"),
    "col_dtype": ("Type", "类型"),
    "col_cache": ("Cache", "缓存"),
    "col_clock": ("Clock", "时钟"),
    "col_other_clock": ("By the other clock", "另一时钟"),
    "col_samples": ("Calls", "调用数"),
    "col_mean": ("Mean", "均值"),
    "col_max": ("Largest", "最大"),
    "col_outliers": ("Outliers, all kept", "离群值（全部保留）"),
    "col_state": ("State", "状态"),
    "col_first": ("First call", "首次调用"),
    "col_intensity": ("FLOP per byte", "FLOP/字节"),
    "col_gflops": ("GFLOP/s at P50", "P50 时 GFLOP/s"),
    "col_gbytes": ("GB/s at P50", "P50 时 GB/s"),
    "col_roof": ("Of measured roof", "占实测峰值"),
    "of_roof": ("{share} ({bound})", "{share}（{bound}）"),
    "above_roof": ("{times} times: in a cache", "{times} 倍：数据在缓存中"),
    "roof_compute": ("compute", "计算"),
    "roof_memory": ("memory", "内存"),
    "col_ratio": ("Ratio of time", "用时比"),
    "col_interval": ("99 % interval", "99 % 区间"),
    "col_p": ("p", "p 值"),
    "col_pairs": ("Pairs", "对数"),
    "col_verdict": ("Verdict", "结论"),
    "col_error": ("Error", "误差"),
    "col_allowed": ("Allowed", "允许"),
    "col_ulp": ("Largest ulp", "最大 ulp"),
    "col_cosine": ("Cosine", "余弦"),
    "col_nan": ("NaN", "NaN 数"),
    "col_inf": ("Infinite", "无穷数"),
    "col_batch": ("Batch", "批大小"),
    "col_per_second": ("Items/s", "样本/秒"),
    "col_steps_per_second": ("Steps/s", "步/秒"),
    "col_chosen": ("Recommended as", "推荐"),
    "col_kind": ("Kind", "方式"),
    "col_workers": ("At once", "同时"),
    "col_solo": ("Alone, steps/s", "单独（步/秒）"),
    "col_all": ("Together, steps/s", "同时（步/秒）"),
    "col_efficiency": ("Efficiency", "效率"),
    "col_solo_p50": ("Alone, P50", "单独 P50"),
    "col_each_p50": ("Each, P50", "各自 P50"),
    "col_completed": ("Completed", "完成"),
    "col_seconds": ("Seconds", "秒"),
    "col_in_flight": ("Under way at most", "在途上限"),
    "col_shape": ("Shape", "形状"),
    "about_evidence": ("Evidence", "证据级别"),
    "about_device": ("Device", "设备"),
    "about_backend": ("Backend", "后端"),
    "about_made_at": ("Measured at", "测量时间"),
    "about_versions": ("Versions", "版本"),
    "about_python": ("Python", "Python 版本"),
    "about_platform": ("Platform", "平台"),
    "about_cann": ("CANN", "CANN 版本"),
    "about_driver": ("Driver", "驱动"),
    "about_cpu": ("Processor", "处理器"),
    "about_cores": ("Cores", "核数"),
    "about_governor": ("Governor", "调频策略"),
    "about_load": ("Load", "负载"),
    "about_commit": ("Commit", "提交"),
    "about_variables": ("Variables", "环境变量"),
    "about_sizes": ("Sizes", "尺寸"),
    "about_properties": ("Properties", "设备属性"),
    "about_method": ("Method", "方法"),
    "about_command": ("Command", "命令"),
}  # fmt: skip
