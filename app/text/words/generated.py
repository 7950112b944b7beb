"""What `npulens compile` says: the kernel that was made of a function, how right it is, and which choices are kept."""

TEXT = {
    "head": ("{function} on {backend} ({device})", "{function}，运行在 {backend}（{device}）上"),
    "before": (
        "As it is written it runs {n} kernels: {names}.",
        "按原写法运行 {n} 个 kernel：{names}。",
    ),
    "after": (
        "Inductor makes {n} of it: {generated} generated, {library} from a library.",
        "Inductor 将其变为 {n} 个：生成 {generated} 个，调用库 {library} 个。",
    ),
    "one_kernel": ("Inductor makes one generated kernel of it.", "Inductor 将其变为一个生成的 kernel。"),
    "right": (
        "It is right: its error against float64 is {error}, {allowed} is what rounding explains. As it is written the "
        "error is {own}.",
        "结果正确：与 float64 的误差为 {error}，舍入可解释的上限为 {allowed}；原写法的误差为 {own}。",
    ),
    "wrong": ("It is not kept: {why}", "未保存：{why}"),
    "tuned": (
        "{tries} of {space} combinations of choices were tried; {wrong} of them do not compile or are wrong.",
        "在 {space} 种选项组合中尝试了 {tries} 种，其中 {wrong} 种无法编译或结果错误。",
    ),
    "col_choices": ("choices", "选项"),
    "col_kernels": ("kernels", "kernel 数"),
    "col_error": ("error", "误差"),
    "col_rounds": ("lower quartile of each round", "各轮下四分位数"),
    "defaults": ("the defaults", "默认值"),
    "out": ("out: {why}", "淘汰：{why}"),
    "against_written": (
        "Measured afresh, {choices} against the function as it is written: {ratio} [{low}, {high}] of its time, "
        "{pairs} pairs: {verdict}",
        "重新测量，{choices} 与原写法相比：耗时为其 {ratio} [{low}, {high}]，{pairs} 对：{verdict}",
    ),
    "against_defaults": (
        "Measured afresh, {choices} against the defaults: {ratio} [{low}, {high}] of their time, {pairs} pairs: "
        "{verdict}",
        "重新测量，{choices} 与默认值相比：耗时为其 {ratio} [{low}, {high}]，{pairs} 对：{verdict}",
    ),
    "kept_winner": ("Kept: {choices}", "保留：{choices}"),
    "kept_defaults": (
        "Kept: the defaults. No other choices are proved to be faster.",
        "保留默认值：没有其他选项被证明更快。",
    ),
    "where": (
        "{place}: the code is {code}. Measure it again: npulens bench {place}",
        "{place}：生成的代码见 {code}。再次测量：npulens bench {place}",
    ),
    "not_run": (
        "Kernels for CUDA and NPUs are made in the same way; this has been run on processors only.",
        "CUDA 与 NPU 的 kernel 以相同方式生成；目前只在 CPU 上运行过。",
    ),
}
