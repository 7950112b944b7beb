"""What the doctor found, and what to do about it. A key is the check and its outcome."""

TEXT = {
    "usable": (
        "Usable: {FAIL} to mend, {WARN} to know, {PASS} fine, {SKIP} with nothing to look at.",
        "可用：{FAIL} 项需修复，{WARN} 项需留意，{PASS} 项正常，{SKIP} 项无检查对象。",
    ),
    "unusable": (
        "Not usable yet: {FAIL} to mend, {WARN} to know, {PASS} fine, {SKIP} with nothing to look at.",
        "尚不可用：{FAIL} 项需修复，{WARN} 项需留意，{PASS} 项正常，{SKIP} 项无检查对象。",
    ),
    "skipped": ("Left out, nothing here to look at: {names}.", "未检查（本机无此对象）：{names}。"),
    "dated": (
        "Versions are judged by {source}, as read on {date}.",
        "版本配套依据 {source}，读取日期 {date}。",
    ),
    "backend_uses": ("Runs on {name} ({device}).", "运行在 {name}（{device}）上。"),
    "backend_uses_instead": (
        "Runs on {name} ({device}), because {reasons}.",
        "运行在 {name}（{device}）上，原因：{reasons}。",
    ),
    "backend_none": ("There is no device to run on: {reasons}.", "没有可用的设备：{reasons}。"),
    "python_is": (
        "Python {version}; the collectors need 3.9 or newer.",
        "Python {version}；采集器需要 3.9 或更高版本。",
    ),
    "torch_starts": ("torch {version} starts.", "torch {version} 可以导入。"),
    "torch_missing": (
        "torch is not installed in this Python. Captures can be looked at without it; recording and measuring need it.",
        "此 Python 未安装 torch。查看采集数据不需要它，采集和测量需要它。",
    ),
    "torch_broken": (
        "torch {version} is installed and does not start: {reason}. The command below shows the whole error.",
        "已安装 torch {version}，但无法导入：{reason}。下面的命令会显示完整错误。",
    ),
    "torch_npu_starts": ("torch_npu {version} starts.", "torch_npu {version} 可以导入。"),
    "torch_npu_no_npu": ("Nothing of Ascend is on this machine.", "本机没有任何昇腾软硬件。"),
    "torch_npu_missing": (
        "This machine has something of Ascend, and torch_npu is not installed.",
        "本机有昇腾软件或硬件，但未安装 torch_npu。",
    ),
    "torch_npu_library": (
        "torch_npu {version} does not start: {library} is not found. CANN is not installed, or this shell does not "
        "know it. Until then every import of torch fails too, unless TORCH_DEVICE_BACKEND_AUTOLOAD=0 is set.",
        "torch_npu {version} 无法导入：找不到 {library}。CANN 未安装，或当前 shell 未加载其环境。"
        "在此之前 import torch 也会失败，除非设置 TORCH_DEVICE_BACKEND_AUTOLOAD=0。",
    ),
    "torch_npu_broken": (
        "torch_npu {version} is installed and does not start: {reason}. The command below shows the whole error.",
        "已安装 torch_npu {version}，但无法导入：{reason}。下面的命令会显示完整错误。",
    ),
    "versions_no_torch_npu": ("torch_npu is not installed.", "未安装 torch_npu。"),
    "versions_torch": (
        "torch_npu {torch_npu} needs torch {wants_torch}; here is {torch}.",
        "torch_npu {torch_npu} 需要 torch {wants_torch}，当前为 {torch}。",
    ),
    "versions_python": (
        "torch_npu {torch_npu} is built for Python {first} to {last}.",
        "torch_npu {torch_npu} 仅支持 Python {first} 至 {last}。",
    ),
    "versions_unlisted": (
        "torch_npu {torch_npu} and torch {torch} belong together. Which CANN belongs to them is not in the table of "
        "{date}; here is {cann}.",
        "torch_npu {torch_npu} 与 torch {torch} 配套。{date} 的配套表中没有对应的 CANN，当前为 {cann}。",
    ),
    "versions_cann_unknown": (
        "torch_npu {torch_npu} was released with CANN {wants_cann}; this shell knows no CANN to compare.",
        "torch_npu {torch_npu} 配套 CANN {wants_cann}；当前 shell 未加载 CANN，无法比较。",
    ),
    "versions_cann": (
        "torch_npu {torch_npu} was released with CANN {wants_cann}; here is {cann}. Neighbouring versions often work. "
        "If the profiler shows no NPU, this is the first thing to change.",
        "torch_npu {torch_npu} 配套 CANN {wants_cann}，当前为 {cann}。相邻版本通常可用；"
        "若 Profiler 看不到 NPU，请先统一版本。",
    ),
    "versions_match": (
        "torch_npu {torch_npu}, torch {torch} and CANN {cann} belong together.",
        "torch_npu {torch_npu}、torch {torch} 与 CANN {cann} 配套。",
    ),
    "profiler_no_torch_npu": ("torch_npu is not installed.", "未安装 torch_npu。"),
    "profiler_unlisted": (
        "What the profiler of torch_npu {torch_npu} takes is not in the table of {date}. It is asked when a job is "
        "recorded. The oldest release in the table is {oldest}.",
        "{date} 的表中没有 torch_npu {torch_npu} 的 profiler 参数信息，采集时会直接查询。表中最旧的版本为 {oldest}。",
    ),
    "profiler_all": (
        "The profiler of torch_npu {torch_npu} has every setting of a recording.",
        "torch_npu {torch_npu} 的 profiler 支持全部采集设置。",
    ),
    "profiler_lacks": (
        "The profiler of torch_npu {torch_npu} records, but lacks these settings, which are left out: {missing}. The "
        "oldest release that records is {oldest}.",
        "torch_npu {torch_npu} 的 profiler 可以采集，但不支持以下设置（将被忽略）：{missing}。"
        "可采集的最旧版本为 {oldest}。",
    ),
    "torch_build_no_torch_npu": ("torch_npu is not installed.", "未安装 torch_npu。"),
    "torch_build_torch_unknown": ("torch does not start.", "torch 无法导入。"),
    "torch_build_cpu": (
        "torch is built for the CPU, as torch_npu wants it.",
        "torch 为 CPU 版，符合 torch_npu 的要求。",
    ),
    "torch_build_cuda": (
        "torch is built for another accelerator ({built}), and torch_npu refuses to start beside it: it needs the CPU "
        "build.",
        "torch 是为其他加速器（{built}）构建的，torch_npu 拒绝与之共存，需要 CPU 版 torch。",
    ),
    "cann_no_npu": ("Nothing of Ascend is on this machine.", "本机没有任何昇腾软硬件。"),
    "cann_stub": (
        "CANN is a stub here: libascendcl.so only pretends. There is no NPU behind it, and nothing measured with it "
        "is a measurement. For a real device put the real CANN first on LD_LIBRARY_PATH.",
        "这里的 CANN 是桩库：libascendcl.so 只是模拟，背后没有 NPU，其测量结果无效。"
        "要使用真实设备，请让真实的 CANN 排在 LD_LIBRARY_PATH 最前。",
    ),
    "cann_not_sourced": (
        "CANN is installed, and this shell does not know it: ASCEND_HOME_PATH is not set.",
        "已安装 CANN，但当前 shell 未加载：ASCEND_HOME_PATH 未设置。",
    ),
    "cann_missing": (
        "No CANN is found: ASCEND_HOME_PATH is not set and no set_env.sh lies where installers put it. Source the one "
        "that the command below finds; if it finds none, install CANN {wants}.",
        "未找到 CANN：ASCEND_HOME_PATH 未设置，默认位置也没有 set_env.sh。"
        "请 source 下面命令找到的文件；若找不到，请安装 CANN {wants}。",
    ),
    "cann_gone": (
        "ASCEND_HOME_PATH names {home}, which is not there.",
        "ASCEND_HOME_PATH 指向 {home}，但该目录不存在。",
    ),
    "cann_library": (
        "CANN lies in {home}, and its library does not load: {library}.",
        "CANN 位于 {home}，但其库无法加载：{library}。",
    ),
    "cann_is": ("CANN {version} in {home}.", "CANN {version}，位于 {home}。"),
    "devices_no_npu": ("Nothing of Ascend is on this machine.", "本机没有任何昇腾软硬件。"),
    "devices_none": (
        "There is no /dev/davinci*: no NPU, or its driver is not loaded.",
        "没有 /dev/davinci*：没有 NPU，或驱动未加载。",
    ),
    "devices_not_passed": (
        "There is no /dev/davinci* in this container ({container}): no NPU was passed into it.",
        "此容器（{container}）内没有 /dev/davinci*：未将 NPU 映射进来。",
    ),
    "devices_denied": (
        "This user may not open {closed}. It has to be in the group {group}; a new login makes that count.",
        "当前用户无权打开 {closed}，需要加入 {group} 组，重新登录后生效。",
    ),
    "devices_manager": (
        "The devices are here and /dev/davinci_manager is not: it has to be passed into the container too.",
        "设备在，但缺少 /dev/davinci_manager：它也必须映射进容器。",
    ),
    "devices_open": ("{count} devices, all may be opened.", "{count} 个设备，均可打开。"),
    "npu_smi_no_npu": ("Nothing of Ascend is on this machine.", "本机没有任何昇腾软硬件。"),
    "npu_smi_silent": (
        "npu-smi does not answer: {reason}. Clocks, health and other processes are unknown without it.",
        "npu-smi 没有响应：{reason}。没有它就无法得知频率、健康状态和其他进程。",
    ),
    "npu_smi_occupied": (
        "Another container holds the device: {reason}. Stop that one, give each its own devices, or run this one "
        "privileged.",
        "设备被其他容器占用：{reason}。请停止该容器、为各容器分配不同的设备，或以特权模式运行。",
    ),
    "npu_smi_denied": (
        "npu-smi may not open the device: {reason}. The user has to be in the group of /dev/davinci*.",
        "npu-smi 无权打开设备：{reason}。用户需要属于 /dev/davinci* 的属组。",
    ),
    "npu_smi_failed": ("npu-smi fails: {reason}.", "npu-smi 执行失败：{reason}。"),
    "npu_smi_ill": ("Not healthy: chips {chips} say {health}.", "设备不健康：芯片 {chips} 的状态为 {health}。"),
    "npu_smi_well": (
        "{count} chips ({names}), all healthy, driver {driver}.",
        "{count} 个芯片（{names}），均健康，驱动 {driver}。",
    ),
    "msprof_no_npu": ("Nothing of Ascend is on this machine.", "本机没有任何昇腾软硬件。"),
    "msprof_is": ("msprof is on PATH: {path}.", "msprof 在 PATH 中：{path}。"),
    "msprof_missing": (
        "msprof is not on PATH. The profiler would end without an error and without a single kernel.",
        "msprof 不在 PATH 中。Profiler 会不报错地结束，但没有任何算子数据。",
    ),
    "user_no_npu": ("Nothing of Ascend is on this machine.", "本机没有任何昇腾软硬件。"),
    "user_root": (
        "You are root. torch_npu's manual advises against profiling as root; a user of the device's group will do.",
        "当前用户是 root。torch_npu 手册不建议以 root 采集，使用设备属组内的普通用户即可。",
    ),
    "user_is": ("An ordinary user.", "普通用户。"),
    "umask_no_npu": ("Nothing of Ascend is on this machine.", "本机没有任何昇腾软硬件。"),
    "umask_open": (
        "The umask is {umask}: torch_npu's manual asks for 0027 or stricter.",
        "umask 为 {umask}：torch_npu 手册要求 0027 或更严格。",
    ),
    "umask_is": ("The umask is {umask}.", "umask 为 {umask}。"),
    "log_level_no_npu": ("Nothing of Ascend is on this machine.", "本机没有任何昇腾软硬件。"),
    "log_level_verbose": (
        "ASCEND_GLOBAL_LOG_LEVEL={level} is {name}: CANN logs more the lower the number, and logging costs host time. "
        "The default, 3, logs errors only.",
        "ASCEND_GLOBAL_LOG_LEVEL={level} 即 {name}：数字越小日志越多，会占用主机时间。默认值 3 只记录错误。",
    ),
    "log_level_stdout": (
        "ASCEND_SLOG_PRINT_TO_STDOUT=1 prints CANN's log between the job's own lines.",
        "ASCEND_SLOG_PRINT_TO_STDOUT=1 会把 CANN 日志打印到作业输出中。",
    ),
    "log_level_quiet": ("The log level is {level}: errors only.", "日志级别为 {level}：仅错误。"),
    "variables_costly": (
        "Set in this shell, and it changes what is measured: {variables}.",
        "当前 shell 设置了会影响测量结果的变量：{variables}。",
    ),
    "variables_none": ("No variable for debugging is set.", "未设置调试用变量。"),
    "triton_both": (
        "triton {triton} and triton-ascend {triton_ascend} are both installed. Both bring a package named triton: "
        "whichever came last has overwritten the other.",
        "同时安装了 triton {triton} 和 triton-ascend {triton_ascend}。"
        "二者都提供名为 triton 的包，后安装的覆盖了先安装的。",
    ),
    "triton_pybind11": (
        "triton-ascend {triton_ascend} needs pybind11 and does not say so.",
        "triton-ascend {triton_ascend} 需要 pybind11，但未声明该依赖。",
    ),
    "triton_numpy": (
        "The interpreter of triton-ascend {triton_ascend} fails with numpy {numpy}.",
        "triton-ascend {triton_ascend} 的解释器与 numpy {numpy} 不兼容。",
    ),
    "triton_plain": (
        "triton {triton} knows no Ascend: kernels for the NPU need triton-ascend in its place.",
        "triton {triton} 不支持昇腾：NPU 上的 Triton 算子需要改用 triton-ascend。",
    ),
    "triton_one": (
        "One distribution of triton is installed: triton {triton}, triton-ascend {triton_ascend}.",
        "只安装了一个 triton 发行包：triton {triton}，triton-ascend {triton_ascend}。",
    ),
    "triton_none": ("No triton is installed.", "未安装 triton。"),
    "processes_others": (
        "Others are at work on the device: {processes}. A measurement beside them is noise.",
        "设备上有其他进程：{processes}。与之同时进行的测量没有意义。",
    ),
    "processes_load": (
        "The host is busy: a load of {load} on {cores} cores. Host times will vary.",
        "主机繁忙：{cores} 核上的负载为 {load}，主机侧时间会波动。",
    ),
    "processes_alone": (
        "Nobody else is at work: a load of {load} on {cores} cores.",
        "没有其他进程：{cores} 核负载 {load}。",
    ),
    "clocks_held_back": (
        "Busy and slower than rated, by heat or power: {chips}. npu-smi has no switch that raises a clock; cooling "
        "and the power limit decide.",
        "忙碌时低于额定频率（温度或功耗限制）：{chips}。npu-smi 没有提高频率的开关，取决于散热和功耗上限。",
    ),
    "clocks_governor": (
        "The processor's clock follows its load (governor {governor}): short host work runs slow at first.",
        "处理器频率随负载变化（调频策略 {governor}）：短时主机任务开始时较慢。",
    ),
    "clocks_free": ("No clock is held back.", "没有频率受限。"),
    "memory_device": ("Device memory is more than half full: {chips}.", "设备内存已使用过半：{chips}。"),
    "memory_host": (
        "{available_gib} of {total_gib} GiB of memory are available.",
        "可用内存 {available_gib} GiB，共 {total_gib} GiB。",
    ),
    "memory_free": (
        "{available_gib} of {total_gib} GiB of memory are available.",
        "可用内存 {available_gib} GiB，共 {total_gib} GiB。",
    ),
    "memory_unknown": ("This system does not tell its memory.", "系统未提供内存信息。"),
    "disk_full": (
        "{free_gib} GiB are free here. torch_npu wants twenty times the raw data of a recording.",
        "此处剩余 {free_gib} GiB。torch_npu 要求剩余空间为原始数据的二十倍。",
    ),
    "disk_free": ("{free_gib} GiB are free here.", "此处剩余 {free_gib} GiB。"),
    "roofs_head": (
        "Roofs of {device} ({backend}{on}, torch {torch}), measured for {seconds} s",
        "{device} 的实测峰值（{backend}{on}，torch {torch}），测量 {seconds} 秒",
    ),
    "roofs_threads": (", {threads} threads", "，{threads} 线程"),
    "roofs_name": ("Roof", "项目"),
    "roofs_best": ("Best", "最好"),
    "roofs_median": ("Median [95 % interval]", "中位数 [95 % 区间]"),
    "roofs_size": ("Size", "规模"),
    "roofs_agree": ("Best three within 2 %", "最好三次相差 2 % 以内"),
    "roofs_yes": ("yes", "是"),
    "roofs_no": ("no", "否"),
    "roofs_of_matmul": ("products of matrices, {name}", "矩阵乘，{name}"),
    "roofs_of_memory": ("memory, {name}", "内存，{name}"),
    "roofs_of_launch": ("start of an operator", "启动一个算子"),
    "roofs_unquiet": (
        "The best shots of some roofs differ: others were at work here. Measure again when the machine is quiet.",
        "部分项目最好的几次相差较大：测量时机器上有其他负载。请在空闲时重新测量。",
    ),
    "roofs_left_out_no_kernel": (
        "Not measured: {name}. torch has no fast kernel for such products on this device.",
        "未测得：{name}。torch 在该设备上没有这类矩阵乘的快速算子。",
    ),
    "roofs_left_out_short_products": (
        "Not measured: {name}. This process is set to multiply it in a shorter type.",
        "未测得：{name}。当前进程设置为用更短的类型做乘法。",
    ),
    "roofs_left_out_no_memory": (
        "Not measured: {name}. Three arrays far beyond the last cache do not fit into what is free.",
        "未测得：{name}。剩余空间放不下三个远大于末级缓存的数组。",
    ),
    "roofs_kept": (
        "Kept in {path}: `npulens collect` puts them into the manifest of what it records.",
        "已保存到 {path}：`npulens collect` 会把它们写入采集结果的 manifest。",
    ),
}
