"""The closed vocabulary of what a finding blames, and of what a gap of the device is made of.

A planted fault names one of these too, so that a detector can be measured against it.
"""

from __future__ import annotations

#: cause -> (the device loses time because ..., the same in Chinese)
CAUSES: dict[str, tuple[str, str]] = {
    "host_late": ("the host has not issued work yet", "主机尚未下发任务"),
    "sync_stall": ("the host sat in a synchronising call", "主机停在同步调用里"),
    "launch_overhead": ("kernels are shorter than the cost of launching them", "算子比下发它的开销还短"),
    "unfused": (
        "neighbouring kernels pass data through memory that one kernel would keep",
        "相邻算子经显存传递本可融合的数据",
    ),
    "copy_exposed": ("a copy between host and device is not hidden behind compute", "主机与设备间的拷贝没有被计算掩盖"),
    "dataloader": ("the step waits for its input", "训练步在等输入数据"),
    "gc": ("Python collects garbage", "Python 在做垃圾回收"),
    "compile": ("operators are compiled or tuned while running", "算子在运行中编译或调优"),
    "memory_alloc": ("device memory is allocated, freed or defragmented", "设备内存在申请、释放或整理"),
    "aicpu": ("an operator runs on the AI CPU", "算子运行在 AI CPU 上"),
    "layout_conversion": ("data is only converted between formats or types", "数据只是在做格式或类型转换"),
    "full_precision": ("matrix work runs in a slower precision than it needs", "矩阵运算使用了不必要的高精度"),
    "idle_cores": ("a kernel uses too few cores", "算子使用的核太少"),
    "pipe_stall": (
        "a kernel is bound by one pipe far below what its shape allows",
        "算子受限于单一流水，远低于其形状应有的性能",
    ),
    "low_efficiency": ("a kernel stays far below its own roof", "算子远低于自身的性能上限"),
    "random_numbers": ("a CPU draws random numbers in every step", "CPU 在每一步中生成随机数"),
    "device_copies": ("data is copied from device memory to device memory", "数据在设备内存之间来回拷贝"),
    "shape_churn": (
        "ever new shapes make operators compile, allocate or plan again",
        "形状不断变化，算子反复编译、申请内存或重新规划",
    ),
    "first_use": (
        "an operator or a library is used for the first time in the process; it does not come back",
        "算子或库在进程中首次使用，之后不再出现",
    ),
    "slow_tail": ("the same kernel on the same shape is sometimes slow", "同一算子同一形状有时变慢"),
    "frequency_drop": ("the clock is below its rating", "频率低于额定值"),
    "comm_exposed": ("transfers are not hidden behind compute", "通信传输没有被计算掩盖"),
    "late_rank": ("a collective waits for a peer that comes late", "集合通信在等迟到的卡"),
    "slow_link": ("one link is slower than its kind", "某条链路慢于同类"),
    "retransmission": ("packets are sent again", "数据包被重传"),
    "small_packets": ("transfers are too small or unaligned for the link", "传输包过小或未对齐"),
    "contention": ("compute and communication fight for bandwidth", "计算与通信争抢带宽"),
    "pipeline_bubble": ("a pipeline stage waits for its neighbour", "流水线阶段在等相邻阶段"),
    "stage_balance": ("pipeline stages have unequal work", "流水线各阶段负载不均"),
    "expert_imbalance": ("experts get unequal numbers of tokens", "各专家分到的 token 数不均"),
    "imbalance": ("ranks have unequal work for another reason", "各卡因其他原因负载不均"),
    "memory_pressure": ("memory is nearly full, fragmented or growing", "内存将满、碎片化或持续增长"),
    "environment": ("a setting costs time", "某项环境设置在耗时"),
    "profiler_overhead": ("the profiler itself takes time", "采集器自身耗时"),
    "step_jitter": ("some steps take longer and nothing else explains it", "个别步变慢且没有其他解释"),
    "idle_unexplained": ("the device idles and nothing recorded says why", "设备空闲，已采集的数据说明不了原因"),
    "queueing": ("requests wait for a slot or for tokens of an iteration", "请求在等待槽位或 token 预算"),
    "prefill_interference": ("a long prompt holds decoders and new requests up", "长提示拖慢解码和新请求"),
    "iteration_gap": (
        "the engine's host code lets the device wait between iterations",
        "引擎主机代码使设备在迭代之间等待",
    ),
    "engine_stall": ("the engine stops", "引擎停顿"),
    "graph_miss": ("iterations of decoders run without a graph", "解码迭代没有使用图"),
    "graph_padding": ("graphs pad iterations to more tokens", "图把迭代填充到更多 token"),
    "kv_pressure": ("the KV cache is full", "KV 缓存已满"),
    "prefix_miss": ("a prefix that the cache could give is computed again", "缓存本可提供的前缀被重新计算"),
    "speculation_loss": ("speculative decoding costs more than it gives", "投机解码得不偿失"),
    "kv_transfer": ("requests wait for their KV cache from another instance", "请求在等另一实例传来的 KV 缓存"),
    "dp_imbalance": ("data parallel engines have unequal work", "数据并行各引擎负载不均"),
    "frontend": ("the front end holds requests up", "前端拖慢了请求"),
    "rollout_tail": ("the last rollouts let everybody wait", "最后的 rollout 让所有人等待"),
    "weight_sync": ("the weights of the replicas are updated", "更新生成副本的权重"),
    "role_idle": ("no role of a step works", "一步中没有任何角色在工作"),
}

#: What a gap can hold besides: it waited for work on another stream, or for work that was not recorded; a CPU was in
#: operators; nothing recorded says why.
GAP_ONLY: dict[str, tuple[str, str]] = {
    "dependency": (
        "the device waited for work on another of its streams, or for an earlier node of a graph",
        "设备在等自己另一条流上的任务，或图中靠前的节点",
    ),
    "backlog": (
        "launched work waited for the device, which had work from before the recording",
        "已下发的任务在等设备：它还在执行采集开始之前的任务",
    ),
    "calling": (
        "the CPU was in operators that only make views or call others", "CPU 处于只建视图或只调用其他算子的算子中"
    ),
    "unknown": ("nothing recorded says why", "已采集的数据说明不了原因"),
}

#: Why transfers that are exposed take as long as they do.
OF_EXPOSED = frozenset({"slow_link", "retransmission", "small_packets", "contention"})
#: Causes that a piece of idle time can have: what an unexplained gap may hide.
OF_IDLE = (
    "host_late", "sync_stall", "launch_overhead", "dataloader", "gc", "compile", "memory_alloc", "profiler_overhead",
    "first_use", "shape_churn",
)  # fmt: skip
