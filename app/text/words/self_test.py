"""What the self-test measured. A key is the check and its outcome; `any` stands for whatever was recorded."""

TEXT = {
    "archive": ("The evidence: {path}", "证据归档：{path}"),
    "broke": ("It broke: {reason}", "执行出错：{reason}"),
    "probe_uses": ("Tested on {name} ({device}, {count} there).", "测试设备：{name}（{device}，共 {count} 个）。"),
    "probe_stub": (
        "A stub of CANN is on the path: what was tested is {name}, and no NPU.",
        "路径上的 CANN 是桩库：实际测试的是 {name}，而非 NPU。",
    ),
    "machine_visited": (
        "The visit found to mend: {failed}; to know: {warned}. It is in visit.json.",
        "环境检查需修复：{failed}；需留意：{warned}。详见 visit.json。",
    ),
    "operators_right": (
        "{count} workloads are right against float64, within {allowed} of the norm.",
        "{count} 个算子用例与 float64 结果一致，误差在范数的 {allowed} 以内。",
    ),
    "operators_wrong": ("Wrong against float64: {wrong}.", "与 float64 结果不一致：{wrong}。"),
    "operators_none": ("No workload runs here: {left_out}.", "没有可运行的用例：{left_out}。"),
    "event_and_wall_ratio": (
        "The device's clock counts {share} of the wall's time around it ({low} to {high} expected).",
        "设备计时为墙钟时间的 {share}（预期 {low} 至 {high}）。",
    ),
    "twice_the_work_ratio": (
        "Twice the work takes {ratio} times as long.",
        "两倍工作量耗时为 {ratio} 倍。",
    ),
    "twice_the_work_noisy": (
        "Twice the work took {ratio} times as long, anything from {low} to {high}: this machine is too noisy to tell.",
        "两倍工作量耗时为 {ratio} 倍（区间 {low} 至 {high}）：本机噪声过大，无法判断。",
    ),
    "same_twice_alike": (
        "A step against itself: {ratio} times, {low} to {high}, in {pairs} pairs.",
        "同一步骤与自身比较：{ratio} 倍，区间 {low} 至 {high}，共 {pairs} 对。",
    ),
    "same_twice_noisy": (
        "A step against itself took {low} to {high} times as long: small changes cannot be seen on this machine now.",
        "同一步骤与自身比较的区间为 {low} 至 {high}：本机当前看不出小的变化。",
    ),
    "same_twice_different": (
        "The same step against itself came out different, {low} to {high} times: measurements here cannot be believed.",
        "同一步骤与自身比较却不同（{low} 至 {high} 倍）：这里的测量不可信。",
    ),
    "clocks_under_load_rated": ("Under load {clock_mhz} of {rated_mhz} MHz.", "负载下 {clock_mhz} / {rated_mhz} MHz。"),
    "clocks_under_load_slow": (
        "Under load {clock_mhz} of {rated_mhz} MHz: held back.",
        "负载下 {clock_mhz} / {rated_mhz} MHz：频率受限。",
    ),
    "clocks_under_load_held_by": ("Held back under load by {held_by}.", "负载下受限于：{held_by}。"),
    "clocks_under_load_untold": (
        "This device does not tell its clock or its rating.",
        "该设备未提供当前频率或额定频率。",
    ),
    "memory_account_grew": (
        "{asked} bytes asked for, {allocated} accounted for.",
        "申请 {asked} 字节，记账 {allocated} 字节。",
    ),
    "memory_account_none": ("This device keeps no account.", "该设备没有内存记账。"),
    "triton_kernel_right": (
        "A fused kernel runs and is right ({error} of the norm).",
        "融合算子可运行且正确（误差 {error}）。",
    ),
    "triton_kernel_wrong": ("A fused kernel is wrong by {error} of the norm.", "融合算子结果错误，误差 {error}。"),
    "triton_kernel_not_here": ("{reason}", "{reason}"),
    "any_recorded_whole": (
        "{name}: {steps} steps, {host_ops} host operators, {kernels} kernels on disk.",
        "{name}：磁盘上有 {steps} 步、{host_ops} 个主机算子、{kernels} 个设备算子。",
    ),
    "any_recorded_lacking": (
        "{name}: {status}, {steps} of {wanted} steps: {reason}.",
        "{name}：{status}，{steps}/{wanted} 步：{reason}。",
    ),
    "recorded_own_script_ended": ("The script ended with status {status}.", "脚本退出码为 {status}。"),
    "any_loaded_steps": (
        "{name} loads ({formats}): {steps} of {wanted} steps, {events} events.",
        "{name} 可加载（{formats}）：{steps}/{wanted} 步，{events} 个事件。",
    ),
    "any_loaded_refused": ("{name} is refused: {reason}.", "{name} 被拒绝：{reason}。"),
    "any_split_adds_up": (
        "The parts of {rows} windows add up with a residual of {residual_ns} ns; {longer} compute longer than they "
        "last.",
        "{rows} 个窗口的各部分之和残差为 {residual_ns} ns；计算超过时长的有 {longer} 个。",
    ),
    "any_split_host_only": ("No device was recorded, so nothing is split.", "未采集设备，无可拆分内容。"),
    "any_clocks_ratio": (
        "The profiler's kernels last {ratio} times what the device's events say.",
        "Profiler 的算子时长为设备事件计时的 {ratio} 倍。",
    ),
    "any_clocks_host_only": ("There is no second clock on {backend}.", "{backend} 上没有第二个时钟。"),
    "any_text_sums": (
        "Text {text}, database {db} ns of computing a step.",
        "每步计算时间：文本 {text}，数据库 {db} ns。",
    ),
    "any_text_one_export": ("Only torch_npu writes text and a database.", "只有 torch_npu 同时写文本和数据库。"),
}
