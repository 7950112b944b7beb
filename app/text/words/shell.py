"""What every page shows, and the names of capture formats."""

TEXT = {
    "tagline": (
        "Where does the time of this NPU job go, and what gives the most of it back?",
        "这个 NPU 任务的时间花在哪里？优化哪里收益最大？",
    ),
    "language": ("Language / 语言", "语言 / Language"),
    "store_failed": ("The store could not be read.", "无法读取数据存储。"),
    "run_failed": (
        "This run could not be read. Loading its capture again usually repairs it.",
        "无法读取这次采集的数据，重新加载采集文件通常可以修复。",
    ),
    "findings": ("Findings", "发现"),
    "run": ("Run", "采集"),
    "bring_one": (
        "This page needs a run. Drop a capture anywhere on the page, or load one from the command line.",
        "此页面需要一次采集。请把采集文件拖到页面任意位置，或用命令行加载。",
    ),
    "measuring": ("Measuring…", "正在测量……"),
    "computing": ("Still being computed… {n} s", "仍在计算……已用 {n} 秒"),
    "group_look": ("Look closer", "深入查看"),
    "group_data": ("Data", "数据"),
    "not_measured": ("{what}: not measured.", "{what}：未采集。"),
    "on_timeline": ("Show on timeline", "在时间线上查看"),
    "comma": (", ", "、"),
    "format_torch_npu_text": ("torch_npu text export", "torch_npu 文本导出"),
    "format_torch_npu_db": ("torch_npu database", "torch_npu 数据库（db）"),
    "format_kineto": ("PyTorch (Kineto) trace", "PyTorch（Kineto）trace"),
    "format_training": ("series of a training", "训练过程序列"),
    "format_memory_timeline": ("memory timeline of torch.profiler", "torch.profiler 内存时间线"),
    "format_mindspore": ("MindSpore derived files", "MindSpore 解析后文件"),
    "format_cluster_analysis": ("cluster sums of msprof-analyze", "msprof-analyze 集群汇总"),
    "format_opprof": ("operator profile of msprof op", "msprof op 单算子采集"),
    "format_opprof_simulator": ("operator in the simulator of msprof op", "msprof op 仿真的单算子"),
    "format_bench": ("benchmark of npulens", "npulens 基准测试"),
}
