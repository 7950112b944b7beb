"""The list of runs and the sentence that says what a run is."""

TEXT = {
    "title": ("Runs", "采集列表"),
    "pick": ("Pick a run to see where its time goes.", "选择一次采集，查看时间去向。"),
    "label": ("Run", "采集"),
    "loaded": ("Loaded (UTC)", "加载时间（UTC）"),
    "status": ("Capture", "采集状态"),
    "complete": ("complete", "完整"),
    "partial": ("partial", "不完整"),
    "damaged": ("damaged", "已损坏"),
    "ranks": ("Ranks captured", "已采集 rank"),
    "missing": ("Not captured", "未采集 rank"),
    "wall": ("Length", "时长"),
    "steps": ("Steps", "step 数"),
    "events": ("Events", "事件数"),
    "format": ("Recorded as", "采集格式"),
    "reason": ("Why partial", "不完整的原因"),
    "id": ("Run id", "采集 ID"),
    "of": ("{have} of {world}", "{have} / {world}"),
    "world_unknown": ("{have}, job size not recorded", "{have}，总数未采集"),
    "none": ("none", "无"),
    "unknown": ("not known", "未知"),
    "unnamed": ("{formats}, {when}", "{formats}，{when}"),
    "origin": ("Origin", "来源"),
    "origin_simulated": ("simulated", "模拟"),
    "origin_cpu": ("recorded on a CPU", "在 CPU 上采集"),
    "unknown_run": (
        "The link names a run this store does not hold: {id}. The newest run is shown instead.",
        "链接中的采集不在当前存储中：{id}。下面显示最新的一次采集。",
    ),
    "holds_of.one": (
        "This run holds 1 of the job's {world} ranks (rank {ranks}), recorded as {formats}",
        "本次采集包含任务 {world} 个 rank 中的 1 个（rank {ranks}），采集格式为 {formats}",
    ),
    "holds_of": (
        "This run holds {n} of the job's {world} ranks (ranks {ranks}), recorded as {formats}",
        "本次采集包含任务 {world} 个 rank 中的 {n} 个（rank {ranks}），采集格式为 {formats}",
    ),
    "holds_all": (
        "This run holds all {world} ranks of the job, recorded as {formats}",
        "本次采集包含任务的全部 {world} 个 rank，采集格式为 {formats}",
    ),
    "holds_only": (
        "This run holds the only rank of its job, recorded as {formats}",
        "本次采集包含任务唯一的一个 rank，采集格式为 {formats}",
    ),
    "holds": (
        "This run holds {n} ranks (ranks {ranks}) of a job whose size was not recorded, as {formats}",
        "本次采集包含 {n} 个 rank（rank {ranks}），任务规模未采集，采集格式为 {formats}",
    ),
    "holds.one": (
        "This run holds rank {ranks} of a job whose size was not recorded, as {formats}",
        "本次采集包含 rank {ranks}，任务规模未采集，采集格式为 {formats}",
    ),
    "holds_requests": (
        "This run holds requests of a serving engine, recorded as {formats}",
        "本次采集包含推理服务的请求，采集格式为 {formats}",
    ),
    "holds_stages": (
        "This run holds the stages of a job with rollouts, recorded as {formats}",
        "本次采集包含强化学习任务的各阶段，采集格式为 {formats}",
    ),
    "holds_logs": (
        "This run holds what a job's log says of its steps, recorded as {formats}",
        "本次采集包含任务日志对各步的记录，采集格式为 {formats}",
    ),
    "and": (" and ", "、"),
    "with_steps": (
        ". {n} steps, {length} from first to last event",
        "。共 {n} 个 step，从首个事件到最后一个事件历时 {length}",
    ),
    "with_steps.one": (
        ". 1 step, {length} from first to last event",
        "。共 1 个 step，从首个事件到最后一个事件历时 {length}",
    ),
    "no_steps": (
        ". {length} from first to last event, without step marks",
        "。从首个事件到最后一个事件历时 {length}，没有 step 标记",
    ),
    "long": (". {length} from first to last event", "。从首个事件到最后一个事件历时 {length}"),
    "no_length": (", without a single stamped event", "，没有任何带时间戳的事件"),
    "since": (", starting {when}.", "，开始于 {when}。"),
    "stop": (".", "。"),
    "missing_ranks": (
        "Ranks {ranks} of {world} were not captured. Only the waiting for them is visible.",
        "共 {world} 个 rank，其中 rank {ranks} 未采集，因此只能从已采集的一侧看到对它们的等待。",
    ),
    "missing_ranks.one": (
        "Rank {ranks} of {world} was not captured. Only the waiting for it is visible.",
        "共 {world} 个 rank，其中 rank {ranks} 未采集，因此只能从已采集的一侧看到对它的等待。",
    ),
    "partial_because": ("The capture is partial: {reason}", "采集不完整：{reason}"),
    "partial_unsaid": ("The capture is partial.", "采集不完整。"),
    "empty_title": ("This store is empty.", "当前存储为空。"),
    "empty_how": ("Fill it in any of these ways:", "可用以下任一方式添加数据："),
    "empty_drop": (
        "Drop a profiler's output above: one file, or the whole directory of all ranks.",
        "把 profiler 的输出拖到上方：单个文件，或包含所有 rank 的整个目录。",
    ),
    "empty_load": ("Or load it from the command line of this machine:", "或在本机命令行中加载："),
    "empty_watch": (
        "Or let a folder be watched, so that every capture copied into it is loaded:",
        "或监视一个文件夹，自动加载复制到其中的采集数据：",
    ),
    "empty_demo": ("Or look at the samples that come with npulens:", "或查看 npulens 自带的样例："),
    "empty_store": ("The store is {path}.", "存储位置：{path}"),
}
