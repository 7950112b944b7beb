"""What is said of evidence. A key is what a check saw; `_not` says why it is not believed."""

TEXT = {
    "part_run": ("{part}: run, {seconds} s", "{part}：已运行，{seconds} 秒"),
    "part_failed": ("{part}: failed after {seconds} s: {reason}", "{part}：运行 {seconds} 秒后失败：{reason}"),
    "part_not_here": ("{part}: does not exist here: {reason}", "{part}：本机不具备：{reason}"),
    "part_no_time": ("{part}: no time: {reason}", "{part}：时间不足：{reason}"),
    "part_left_out": ("{part}: left out: {reason}", "{part}：未选择：{reason}"),
    "made": (
        "The evidence: {path} ({mb} MB). Its challenge: {word}",
        "证据归档：{path}（{mb} MB），挑战词：{word}",
    ),
    "believed": ("believed", "可信"),
    "not_believed": ("NOT BELIEVED", "不可信"),
    "not_there": ("not there", "无从核对"),
    "passes": (
        "It passes: {believed} checks believed, {not_there} had nothing to look at. It is consistent with a run on "
        "{backend} ({device}); that is no proof of where it ran.",
        "通过：{believed} 项可信，{not_there} 项无从核对。内容与在 {backend}（{device}）上运行一致，但不能证明其来源。",
    ),
    "fails": (
        "It does not pass: {not_believed} checks are not believed, {believed} are, {not_there} had nothing to look at.",
        "未通过：{not_believed} 项不可信，{believed} 项可信，{not_there} 项无从核对。",
    ),
    "whole": ("All {n} members of the archive are whole.", "归档的 {n} 个成员均完整。"),
    "whole_not": (
        "{lost} members are damaged, lost or no files that may be unpacked: {first}",
        "{lost} 个成员已损坏、缺失或不允许解包：{first}",
    ),
    "files": (
        "{n} files have the size and the SHA-256 that the manifest lists.",
        "{n} 个文件的大小和 SHA-256 与清单一致。",
    ),
    "files_not": (
        "Against the manifest {missing} files are missing, {extra} are extra and {changed} are changed: {first}",
        "与清单相比：缺少 {missing} 个文件，多出 {extra} 个，{changed} 个内容已改变：{first}",
    ),
    "rest": (
        "Nothing else was looked at, because the files are not those of the manifest.",
        "文件与清单不符，其余各项未核对。",
    ),
    "challenge": ("The challenge is the one asked for: {word}.", "挑战词与要求的一致：{word}。"),
    "challenge_not": ("The challenge is {word}, and {asked} was asked for.", "挑战词为 {word}，而要求的是 {asked}。"),
    "challenge_unasked": (
        "Its maker's own challenge: {word}. Without --challenge the archive may have been made at any time.",
        "挑战词由制作者自定：{word}。未指定 --challenge 时，无法排除归档是事先制作的。",
    ),
    "challenge_word_not": ("The challenge {word} is no word.", "挑战词 {word} 不合规。"),
    "loaded_not": ("The recording cannot be read as one whole run: {reason}", "采集无法作为一次完整运行读取：{reason}"),
    "loaded_partly": ("The recording is not whole, and was not looked at: {reason}", "采集不完整，未核对：{reason}"),
    "told_not": (
        "What its maker must say of the recording is missing or makes no sense ({n} files).",
        "制作者对该采集的说明缺失或无意义（{n} 个文件）。",
    ),
    "told_ranks_not": (
        "{n} processes say that they recorded; the capture holds {ranks} ranks.",
        "有 {n} 个进程声明了采集，而采集中有 {ranks} 个 rank。",
    ),
    "backend_untold": ("This setting records no device.", "该设置不采集设备。"),
    "backend": ("The capture is one of {held}, as is said.", "采集来自 {held}，与声明一致。"),
    "backend_not": ("The capture is one of {held}; said is {said}.", "采集来自 {held}，而声明为 {said}。"),
    "stub": ("CANN was no stub.", "CANN 不是桩库。"),
    "stub_not": ("CANN was a stub: nothing ran on a device.", "CANN 是桩库：没有任何内容在设备上运行。"),
    "exports_empty": ("Both exports hold no event.", "两种导出均无事件。"),
    "exports_one": ("There is only one export of this recording.", "该采集只有一种导出。"),
    "exports_alike": (
        "Both exports hold the same {n} events, to {within_ns} ns.",
        "两种导出包含相同的 {n} 个事件（误差不超过 {within_ns} ns）。",
    ),
    "exports_alike_not": (
        "The two exports hold {n} and {other} events; {differ} differ by more than {within_ns} ns, the first of them "
        "{name}.",
        "两种导出分别有 {n} 和 {other} 个事件；{differ} 个相差超过 {within_ns} ns，第一个是 {name}。",
    ),
    "steps_untold": ("When its steps were was not written down.", "未记录各步的时间。"),
    "steps_where": (
        "{n} steps lie where the job's own clock says, {off_ms} ms off at most.",
        "{n} 个 step 的位置与作业自己的时钟一致，最多相差 {off_ms} ms。",
    ),
    "steps_where_not": (
        "{n} steps are marked where the job says {told}; they lie {off_ms} ms off, {within_ms} are allowed.",
        "标记了 {n} 个 step，作业声明 {told} 个；位置相差 {off_ms} ms，允许 {within_ms} ms。",
    ),
    "repeated_untold": ("There are no two steps to compare.", "没有两个可比较的 step。"),
    "repeated_alike": (
        "{steps} steps each make the same {n} calls and kernels.",
        "{steps} 个 step 各自执行相同的 {n} 个调用和算子。",
    ),
    "repeated_alike_not": (
        "{unlike} of {steps} steps do other work than the rest: step {step} differs in {name}.",
        "{steps} 个 step 中有 {unlike} 个与其余不同：第 {step} 步的 {name} 不一致。",
    ),
    "cycles_untold": (
        "{n} cores counted both time and cycles: too few.",
        "只有 {n} 个核同时记录了时间和周期数，过少。",
    ),
    "cycles_agree": (
        "Time and cycles of {n} cores give one clock of {mhz} MHz ({same} of them), and {inside} end within their "
        "kernel.",
        "{n} 个核的时间与周期数给出同一频率 {mhz} MHz（占 {same}），{inside} 在所属算子内结束。",
    ),
    "cycles_agree_not": (
        "Of {n} counted cores only {same} give the clock of {mhz} MHz and {inside} end within their kernel; {least} "
        "is the least.",
        "{n} 个核中只有 {same} 给出频率 {mhz} MHz，{inside} 在所属算子内结束；至少应为 {least}。",
    ),
    "events_cpu": ("A CPU has no clock of a device's own.", "CPU 没有独立的设备时钟。"),
    "events_untold": (
        "No step has kernels to hold against the device's events.",
        "没有带算子的 step 可与设备事件比较。",
    ),
    "events": (
        "A step takes {event_us} us by the device's events, its kernels {busy_us} us within {span_us} us.",
        "按设备事件每步 {event_us} us，其算子在 {span_us} us 内占用 {busy_us} us。",
    ),
    "events_not": (
        "A step takes {event_us} us by the device's events. Its kernels take {busy_us} us and span {span_us} us: it "
        "should lie between {less} of the one and {more} of the other.",
        "按设备事件每步 {event_us} us，不在其算子 {busy_us} us 的 {less} 倍与跨度 {span_us} us 的 {more} 倍之间。",
    ),
    "planned": ("What was planted is what the challenge decides.", "植入内容与挑战词决定的一致。"),
    "planned_not": ("What was planted is not what the challenge decides.", "植入内容与挑战词决定的不一致。"),
    "planted_told_not": (
        "{told} sleeps are told for {steps} steps, and {early} end before they should.",
        "{steps} 个 step 声明了 {told} 次休眠，其中 {early} 次提前结束。",
    ),
    "planted_slept": (
        "{cause}: {planted_ns} ns were slept, {found_ns} ns idle for it are in the capture, step by step.",
        "{cause}：休眠 {planted_ns} ns，采集中因此空闲 {found_ns} ns，逐步吻合。",
    ),
    "planted_slept_not": (
        "{cause}: {planted_ns} ns are said to have been slept. The capture is idle for {found_ns} ns. {off} "
        "of {steps} steps do not fit.",
        "{cause}：声明休眠 {planted_ns} ns，采集中因此空闲 {found_ns} ns；{steps} 步中有 {off} 步不吻合。",
    ),
    "planted_span": (
        "{spans} spans of {name} hold the sleeps: {found_ns} for {planted_ns} ns.",
        "{spans} 个 {name} 包含休眠：{found_ns} 对 {planted_ns} ns。",
    ),
    "planted_span_not": (
        "{spans} spans of {name} last {found_ns} ns; they should hold sleeps of {planted_ns} ns.",
        "{spans} 个 {name} 共 {found_ns} ns；应包含 {planted_ns} ns 的休眠。",
    ),
    "named": ("Our own analysis names the planted cause: {found}.", "我们自己的分析指出了植入的原因：{found}。"),
    "named_not": (
        "Our own analysis names {found}, and {wanted} was planted.",
        "我们自己的分析指出 {found}，而植入的是 {wanted}。",
    ),
    "copied_untold": ("Sizes of copies were not recorded.", "未采集拷贝的大小。"),
    "copied": (
        "All {planted} planted copies are there, {found_bytes} bytes, each with its size.",
        "{planted} 次植入的拷贝全部存在，共 {found_bytes} 字节，大小逐一相符。",
    ),
    "copied_not": (
        "{planted} copies of {planted_bytes} bytes were planted, {found} of {found_bytes} bytes are there, not each "
        "with its size.",
        "植入 {planted} 次共 {planted_bytes} 字节的拷贝，采集中为 {found} 次 {found_bytes} 字节，大小不能逐一相符。",
    ),
    "reduced": (
        "Rank {rank} made {found} all-reduces of {found_bytes} bytes ({planted_bytes} planted).",
        "rank {rank} 执行了 {found} 次 all-reduce，共 {found_bytes} 字节（植入 {planted_bytes}）。",
    ),
    "reduced_not": (
        "Rank {rank}: {planted} all-reduces of {planted_bytes} bytes were planted, {found} of {found_bytes} are there.",
        "rank {rank}：植入 {planted} 次共 {planted_bytes} 字节的 all-reduce，采集中为 {found} 次 {found_bytes} 字节。",
    ),
    "numerics_untold": ("No case of the numerics ran.", "没有运行任何数值用例。"),
    "numerics_no_torch": (
        "{n} cases were not checked: torch is not installed here (--python names another interpreter).",
        "{n} 个用例未核对：此处未安装 torch（可用 --python 指定其他解释器）。",
    ),
    "numerics": (
        "{values} values of {n} cases equal float64 for this seed. The largest difference is {worst} times "
        "the tolerance; {most} is allowed for one value.",
        "{n} 个用例的 {values} 个数值与该种子的 float64 结果一致：最多为容差的 {worst} 倍，单个数值允许 {most} 倍。",
    ),
    "numerics_not": (
        "{wrong} of {n} cases do not have the values of float64 for this seed: {first}; {worst} times the tolerance, "
        "{most} allowed.",
        "{n} 个用例中有 {wrong} 个与该种子的 float64 结果不符：{first}；为容差的 {worst} 倍，允许 {most} 倍。",
    ),
    "stamps_untold": ("The capture has no stamp.", "采集中没有时间戳。"),
    "stamps": (
        "The capture's stamps lie within its recording, by process {told}.",
        "采集的时间戳位于其采集区间内，进程 {told}。",
    ),
    "stamps_not": (
        "The capture's stamps lie {off_ms} ms outside of its recording ({within_ms} allowed), or its profiler started "
        "at another time.",
        "采集的时间戳超出其采集区间 {off_ms} ms（允许 {within_ms}），或其 Profiler 在其他时间启动。",
    ),
    "stamps_process_not": (
        "The capture is of process {pid}, and {told} is said.",
        "采集来自进程 {pid}，而声明为 {told}。",
    ),
    "order_untold": ("There is no recording.", "没有任何采集。"),
    "order": (
        "{n} recordings lie within the run, one after another; wall clock and machine clock keep to {drift_ms} ms.",
        "{n} 个采集依次位于运行区间内；墙钟与开机时钟的偏差为 {drift_ms} ms。",
    ),
    "order_not": (
        "Recordings overlap or lie outside of the run ({wrong}), or the two clocks are {drift_ms} ms apart ({most_ms} "
        "allowed).",
        "采集重叠或超出运行区间（{wrong}），或两个时钟相差 {drift_ms} ms（允许 {most_ms}）。",
    ),
    "process": ("Each of {n} parts was recorded by one process.", "{n} 个部分各由一个进程采集。"),
    "process_not": (
        "Recordings of one part are of several processes: {several}.",
        "同一部分的采集来自多个进程：{several}。",
    ),
    "listed": ("All {n} recordings are listed, each once.", "{n} 个采集均已列出，且仅一次。"),
    "listed_not": (
        "A recording is not listed, not there, or listed twice: {first}",
        "有采集未列出、不存在或重复列出：{first}",
    ),
    "jitter_untold": (
        "{n} calls of the host are often enough repeated: too few.",
        "重复次数足够的主机调用只有 {n} 个，过少。",
    ),
    "jitter": (
        "{n} repeated calls of the host spread by {spread} of their mean.",
        "{n} 个重复的主机调用，离散度为均值的 {spread}。",
    ),
    "jitter_not": (
        "{n} repeated calls of the host spread by only {spread} of their mean; no real host stays below {least}.",
        "{n} 个重复的主机调用，离散度仅为均值的 {spread}；真实主机不低于 {least}。",
    ),
    "grid_untold": ("{n} kernels are too few to see the device's counter.", "只有 {n} 个算子，不足以看出设备计数器。"),
    "grid": (
        "Of {n} kernels {share} last a multiple of {ns} ns, as a device's counter makes them.",
        "{n} 个算子中有 {share} 的时长为 {ns} ns 的整数倍，符合设备计数器。",
    ),
    "grid_not": (
        "Of {n} kernels only {share} last a multiple of {ns} ns: no counter of a device made them ({least} at least).",
        "{n} 个算子中只有 {share} 的时长为 {ns} ns 的整数倍：并非设备计数器产生（至少 {least}）。",
    ),
    "equal_untold": (
        "{n} kernels are repeated and finely timed: too few.",
        "重复且计时足够细的算子只有 {n} 个，过少。",
    ),
    "equal": (
        "Of {n} repeated kernels {same} always take the same time.",
        "{n} 个重复算子中有 {same} 个每次耗时相同。",
    ),
    "equal_not": (
        "Of {n} repeated kernels {same} always take the same nanoseconds; a share of {most} is the most.",
        "{n} 个重复算子中有 {same} 个每次耗时完全相同；比例最多为 {most}。",
    ),
    "busy_cores_untold": ("{n} counted cores are too few.", "有计数的核只有 {n} 个，过少。"),
    "busy_cores": (
        "{n} cores are busy for {low} to {high} of their kernels.",
        "{n} 个核的忙碌时间占所属算子的 {low} 至 {high}。",
    ),
    "busy_cores_not": (
        "{n} cores are all busy for {low} to {high} of their kernels; real ones differ by more than {least}.",
        "{n} 个核的忙碌时间都占所属算子的 {low} 至 {high}；真实设备的差异大于 {least}。",
    ),
    "raw_kept": (
        "{full} slices of the device's raw data are there, {bytes} bytes, and {host} files of the host.",
        "有 {full} 个设备原始数据切片，共 {bytes} 字节，以及 {host} 个主机文件。",
    ),
    "raw_kept_not": (
        "The device's raw data is missing: {slices} slices, {full} of them not empty, {host} files of the host.",
        "缺少设备原始数据：{slices} 个切片，其中 {full} 个非空，主机文件 {host} 个。",
    ),
    "part": ("{outcome}: {reason}", "{outcome}：{reason}"),
    "enough": ("Enough is believed to believe the rest.", "可信的项目已足够。"),
    "enough_not": (
        "Too little is there to believe anything; missing: {missing}",
        "内容过少，不足以采信；缺少：{missing}",
    ),
}
