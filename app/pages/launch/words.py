"""The page of launches."""

TEXT = {
    "title": ("Launch", "下发"),
    "question": (
        "Does the host launch early enough, and where does the device wait for it?",
        "主机下发得够早吗，设备在哪里等主机？",
    ),  # fmt: skip
    "none": (
        "No work on the device was recorded, so nothing was launched.",
        "没有采集到设备侧任务，因此没有下发数据。",
    ),
    "unlinked": (
        "{n} device tasks were recorded, and for none of them the host call that launched it.",
        "采集到 {n} 个设备任务，但都没有对应的主机下发调用。",
    ),
    "answer": (
        "Half of the device's tasks start within {median} of their launch, 99 % within {p99}. {late} were "
        "launched late: the device idles {idle} of {wall} for them ({share}).",
        "一半的设备任务在下发后 {median} 内开始，99% 在 {p99} 内。其中 {late} 在下发前 stream 就已空闲，设备"
        "因此在 {wall} 中空闲 {idle}（{share}）。",
    ),
    "answer_late": ("{n} of {of} tasks ({share})", "{of} 个任务中的 {n} 个（{share}）"),
    "answer_mean": ("Mean of {n} ranks.", "以上时间为 {n} 个 rank 的平均。"),
    "answer_short": (
        "{n} of {of} kernels ({share}) run shorter than their launch call.",
        "{of} 个 kernel 中有 {n} 个（{share}）比下发它的调用还短。",
    ),
    "answer_negative": (
        "{n} tasks start up to {most} before their own launch. Host and device clocks differ by that much; "
        "latencies are only that precise.",
        "{n} 个任务早于自己的下发时刻开始，最多早 {most}：主机与设备时钟至少有这么大的偏差，时延精度以此为限。",
    ),
    "answer_unlinked": ("For {n} of {of} tasks no launch was recorded.", "{of} 个任务中有 {n} 个没有下发记录。"),
    "latency": ("From launch to start", "下发到开始的时延"),
    "latency_means": (
        "Start of the device task minus start of the host call that launched it. What waits on the stream waits in "
        "here too: a long latency is good while the device is busy.",
        "设备任务开始时刻减去下发它的主机调用的开始时刻。包含在 stream 上排队的时间：设备忙碌时，时延长是好事。",
    ),
    "latency_alt": ("Latency of launches, rank by rank", "各 rank 的下发时延分布"),
    "route": ("Route", "连接方式"),
    "route_help": ("How the launch of a task was found in the capture.", "任务与其下发调用的关联依据。"),
    "route_host_to_device": ("runtime call (HostToDevice)", "运行时调用（HostToDevice）"),
    "route_torch_to_npu": ("operator (async_npu)", "算子（async_npu）"),
    "route_task_queue": ("task queue", "任务队列"),
    "route_correlation": ("runtime call (correlation)", "运行时调用（correlation）"),
    "route_connection_id": ("connection id", "connection id"),
    "route_ac2g": ("runtime call (ac2g)", "运行时调用（ac2g）"),
    "kind_kernel": ("kernel", "kernel"),
    "kind_memset": ("memset", "memset"),
    "kind_memcpy": ("copy", "拷贝"),
    "kind_comm_op": ("communication", "通信"),
    "kind_unknown": ("unknown work", "未知任务"),
    "kind_comm_task": ("communication task", "通信任务"),
    "kind_wait": ("event wait", "事件等待"),
    "kind_device_other": ("other", "其他"),
    "axis_latency": ("from launch to start", "下发到开始"),
    "ecdf_means": ("rank {rank}: {share} % start within {length}", "rank {rank}：{share}% 在 {length} 内开始"),
    "col_route": ("Route", "连接方式"),
    "col_kind": ("Task", "任务"),
    "col_rank": ("Rank", "rank"),
    "col_count": ("Count", "次数"),
    "col_min": ("Min", "最短"),
    "col_median": ("p50", "p50"),
    "col_p90": ("p90", "p90"),
    "col_p99": ("p99", "p99"),
    "col_max": ("Max", "最长"),
    "col_negative": ("Before launch", "早于下发"),
    "col_negative_help": (
        "Tasks that start before their own launch: the clocks of host and device differ.",
        "早于自己下发时刻开始的任务：主机与设备时钟有偏差。",
    ),
    "over_time": ("Over time", "随时间变化"),
    "rank": ("Rank", "rank"),
    "queue": ("Tasks launched and not yet started", "已下发未开始的任务数"),
    "queue_means": (
        "The queue of the device. At zero nothing waits: as soon as the running task ends, the device idles until the "
        "host launches again.",
        "设备侧队列深度。为 0 表示没有任务在等待：当前任务一结束，设备就会空闲，直到主机再次下发。",
    ),
    "queue_point": ("{at}: {least} to {most}, {mean} on average", "{at}：{least} 到 {most}，平均 {mean}"),
    "axis_queue": ("tasks", "任务数"),
    "lead": ("Lead of the host", "主机领先时间"),
    "lead_means": (
        "How long before its stream was free for it each task was launched. Below zero the stream stood free first: "
        "the host is late. The axis is logarithmic to both sides.",
        "任务下发时刻比 stream 空闲时刻提前多少。低于零表示 stream 先空闲，主机来不及下发。纵轴在零两侧均为对数。",
    ),
    "lead_point": ("{at}: {least} to {most}, half below {median}", "{at}：{least} 到 {most}，一半低于 {median}"),
    "lead_none": (
        "No task of this rank has a known lead: each is the first on its stream.",
        "该 rank 没有可计算领先时间的任务：每个都是其 stream 上的第一个。",
    ),
    "band": ("least to most", "最小到最大"),
    "mean": ("mean", "平均"),
    "median": ("median", "中位数"),
    "slices": (
        "{n} moments in {slices} slices; each keeps its least and its most.",
        "{n} 个时刻归入 {slices} 段，每段保留最小值与最大值。",
    ),
    "table": ("All numbers", "全部数据"),
    "col_at": ("From", "起始"),
    "col_least": ("Least", "最小"),
    "col_middle": ("Middle", "居中"),
    "col_most": ("Most", "最大"),
    "late": ("Launches that came late", "晚到的下发"),
    "late_means": (
        "Tasks whose stream stood free before their launch began, by the host operator they come from. Idle is the "
        "time in which such a launch was awaited and no stream of the device worked: a union. The same idle time can "
        "be in several rows, because several streams can wait at once. A stream may also have stood free because it "
        "had nothing to do.",
        "下发前 stream 已空闲的任务，按所属主机算子归类。空闲是等待这些下发期间设备所有 stream 均无任务的时间，取并集"
        "。多个 stream 可能同时等待，同一段空闲可能出现在多行。stream 空闲也可能只是因为本来没有工作。",
    ),
    "late_none": (
        "No launch came late: the device never idled for want of one.",
        "没有晚到的下发：设备没有因为等待下发而空闲。",
    ),
    "late_alt": ("Host operators with the largest late launches", "下发晚到最多的主机算子"),
    "col_op": ("Host operator", "主机侧算子"),
    "col_call": ("Call", "下发接口"),
    "col_late_count": ("Late", "晚到次数"),
    "col_idle": ("Device idle", "设备空闲"),
    "col_most_idle": ("Most at once", "单次最多"),
    "col_first": ("Then ran", "随后执行"),
    "origin": ("The largest comes from {op}, at {code}", "最大的一次来自 {op}，位于 {code}"),
    "short": ("Kernels shorter than their launch", "比下发还短的 kernel"),
    "short_means": (
        "Kernels that are over sooner than the host call that launched them returns. In a run of them the device "
        "waits for the host however fast the kernels are. One launch usually follows another after {pace} here.",
        "比下发它的主机调用还短的 kernel。这类 kernel 连续出现时，无论 kernel 多快，设备都要等主机。本次运行中相邻两次"
        "下发通常间隔 {pace}。",
    ),
    "short_none": ("No kernel is shorter than the call that launched it.", "没有比下发调用更短的 kernel。"),
    "short_unknown": (
        "How long launch calls take was not recorded: the launches of this capture are framework operators, not "
        "runtime calls.",
        "未采集下发调用的耗时：本次采集中的下发记录是框架算子，而不是运行时调用。",
    ),
    "short_alt": ("Kernels that are shorter than their launch, by operator type", "比下发还短的 kernel，按算子类型"),
    "col_type": ("Operator type", "算子类型"),
    "col_short": ("Shorter", "更短的个数"),
    "col_kernel": ("Kernel (p50)", "kernel（p50）"),
    "col_call_ns": ("Call (p50)", "调用（p50）"),
    "col_over": ("Call beyond kernel, added", "超出部分之和"),
    "col_over_help": (
        "How much longer the calls of the shorter ones take than their kernels, added.",
        "更短的那些 kernel，其调用比 kernel 多出的时间之和。",
    ),
    "syncs": ("Calls that wait for the device", "同步调用"),
    "syncs_means": (
        "Host calls that return only when the device has finished something. After each the device idles for as long "
        "as the next launch takes. Calls recorded on two levels appear under both names.",
        "等设备完成后才返回的主机调用。每次返回后，设备要空闲到下一次下发。两个层级都有记录的调用会以两个名称出现。",
    ),
    "syncs_none": ("No synchronising call of the host was recorded.", "没有采集到主机同步调用。"),
    "col_name": ("Call", "调用"),
    "col_blocked": ("Host waits", "主机等待"),
    "col_blocked_help": (
        "Time in which at least one such call runs: a union.",
        "至少有一个此类调用在执行的时间，取并集。",
    ),
    "col_working": ("of that, device works", "其中设备在工作"),
    "col_longest": ("Longest", "最长一次"),
}
