"""The page of operators on an NPU; what is said of each is in text/words/compat.py."""

TEXT = {
    "title": ("Compatibility", "兼容性"),
    "question": (
        "Which operators of this job have a kernel for an NPU, and which run on the host?",
        "这个作业的哪些算子有 NPU kernel，哪些会回退到主机？",
    ),
    "release": ("Release of torch_npu", "torch_npu 版本"),
    "release_help": (
        "The one this run names, or the newest for its torch; without either the newest whose wheels were read.",
        "默认为该运行记录的版本，或与其 torch 配套的最新版本；都没有时为已读取 wheel 的最新版本。",
    ),
    "release_named": ("{torch_npu} (torch {torch})", "{torch_npu}（torch {torch}）"),
    "table": ("Operators", "算子"),
    "one": ("{name}: {status}", "{name}：{status}"),
    "by_release": ("By release", "按版本"),
    "by_release_about": (
        "Operators that need something done, in every release whose wheels were read.",
        "在每个已读取 wheel 的版本中，需要处理的算子。",
    ),
    "source": ("Read from {npu} of {packed} and {torch}.", "取自 {npu}（{packed} 打包）与 {torch}。"),
    "subject": (
        "A captured module is told overload by overload: npulens lab DIR --compat {release}",
        "捕获的模块可按 overload 逐一判断：npulens lab DIR --compat {release}",
    ),
}
