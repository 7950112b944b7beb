"""What is said of operators on an NPU: kernels by release, what runs on the host, what to do."""

TEXT = {
    "head": (
        "{what} on torch_npu {torch_npu}, which goes with torch {torch}",
        "{what}，torch_npu {torch_npu}（配套 torch {torch}）",
    ),
    "answer_all": (
        "All {n} operators have a kernel or are made of others that have one.",
        "全部 {n} 个算子都有 NPU kernel，或由有 kernel 的算子组合而成。",
    ),
    "answer_all.one": (
        "Its only operator has a kernel or is made of others that have one.",
        "唯一的算子有 NPU kernel，或由有 kernel 的算子组合而成。",
    ),
    "answer_host": (
        "{n} of {all} operators run on the host, entirely or in part (calls: {calls}).",
        "{all} 个算子中有 {n} 个全部或部分回退到主机执行，共 {calls} 次调用。",
    ),
    "answer_host.one": (
        "1 of {all} operators runs on the host, entirely or in part (calls: {calls}).",
        "{all} 个算子中有 1 个全部或部分回退到主机执行，共 {calls} 次调用。",
    ),
    "answer_open": (
        "Nothing is known to run on the host, but {n} of {all} operators are not told or not there.",
        "未发现回退到主机的算子，但 {all} 个算子中有 {n} 个无法判断或该版本没有。",
    ),
    "answer_none": (
        "No operator of PyTorch's was recorded. A trace with host activities has them, and so has a subject.",
        "没有采集到 PyTorch 算子。带主机侧活动的 trace 或 lab 捕获的 subject 才包含算子。",
    ),
    "status_absent": ("not in this release", "该版本没有"),
    "status_fails": ("fails", "会报错"),
    "status_host": ("on the host", "回退到主机"),
    "status_part_on_host": ("partly on the host", "部分回退到主机"),
    "status_unknown": ("not told", "无法判断"),
    "status_sometimes": ("kernel, at times the host", "有 kernel，有时回退"),
    "status_composite": ("made of kernels", "由有 kernel 的算子组成"),
    "status_kernel": ("kernel", "有 kernel"),
    "said_absent": (
        "torch {torch} with torch_npu {torch_npu} does not have it.",
        "torch {torch} 与 torch_npu {torch_npu} 中没有该算子。",
    ),
    "said_fails": (
        "It has no kernel, and the host has none either: a call ends with an error.",
        "它没有 kernel，主机上也没有实现：调用会报错。",
    ),
    "said_host": (
        "It has no kernel, and torch makes it of nothing else: its tensors are copied to the host and back.",
        "它没有 kernel，torch 也不能用其他算子组成它：张量会拷到主机计算再拷回。",
    ),
    "said_part_on_host": (
        "It is made of others; of these run on the host: {ops}.",
        "它由其他算子组成，其中回退到主机的有：{ops}。",
    ),
    "said_sometimes": (
        "Its kernel hands the work to the host in some cases, by shape, type or CANN, and warns of it.",
        "它的 kernel 在某些情况下（取决于形状、类型或 CANN 版本）会转到主机执行，并打印告警。",
    ),
    "said_sometimes_parts": (
        "It is made of others; of these hand their work to the host in some cases: {ops}.",
        "它由其他算子组成，其中在某些情况下会转到主机执行的有：{ops}。",
    ),
    "said_composite": ("It is made of {ops}.", "它由 {ops} 组成。"),
    "said_composite_host_only": ("torch does it without calling a kernel.", "torch 不调用 kernel 即可完成。"),
    "said_kernel": ("torch_npu has a kernel for it.", "torch_npu 有它的 kernel。"),
    "said_library": (
        "It is an operator of the library {space}, which has to bring a kernel for an NPU itself.",
        "它是 {space} 库的算子，需要该库自己提供 NPU kernel。",
    ),
    "said_elsewhere": (
        "It was recorded going a way that only another device has: {ops}. Which way it goes on an NPU was not seen.",
        "采集时它走的是其他设备才有的路径：{ops}。在 NPU 上走哪条路径，未采集到。",
    ),
    "said_unseen": (
        "torch makes it of others, and which was not recorded: {ops}.",
        "torch 用其他算子组成它，但具体是哪些未采集到：{ops}。",
    ),
    "said_overload": (
        "Some overloads have a kernel and some have none, and only its name was recorded: {ops}. A subject of npulens "
        "lab tells.",
        "部分 overload 有 kernel，部分没有，而这里只采集到算子名：{ops}。用 npulens lab 捕获的 subject 可以判断。",
    ),
    "said_other_torch": (
        "Recorded with another torch, it is made of what torch {torch} does not have: {ops}.",
        "采集时的 torch 版本不同，它由 torch {torch} 中没有的算子组成：{ops}。",
    ),
    "do_later": ("In torch_npu {release} it has kernels.", "torch_npu {release} 中它有 kernel。"),
    "do_since": ("torch_npu {release} is the first to have it.", "从 torch_npu {release} 起才有。"),
    "do_never": ("The same holds for all {n} releases that were read.", "所读的 {n} 个版本都是如此。"),
    "do_earlier": ("In torch_npu {release} it had kernels.", "torch_npu {release} 中它曾有 kernel。"),
    "do_forms": ("Other forms of it have a kernel: {ops}.", "它的其他形式有 kernel：{ops}。"),
    "do_instead": (
        "torch_npu has operators of its own for this purpose: {ops}.",
        "torch_npu 有同样用途的自有算子：{ops}。",
    ),
    "forbid": (
        "With TORCH_NPU_FALLBACK_CPU_DISABLE=1 this release stops with an error instead of going to the host.",
        "设置 TORCH_NPU_FALLBACK_CPU_DISABLE=1 后，该版本不再回退到主机，而是直接报错。",
    ),
    "warns": (
        "torch_npu warns once of each operator that it takes to the host.",
        "torch_npu 会对每个回退到主机的算子告警一次。",
    ),
    "limits": (
        "This is what the wheels register for dense tensors. They say nothing of types, shapes and chips, so a kernel "
        "may still refuse a call. Nothing was run on an NPU.",
        "以上依据 wheel 中对稠密张量的注册信息。其中不含类型、形状和芯片的限制，因此 kernel 仍可能拒绝某次调用。"
        "没有在 NPU 上运行过。",
    ),
    "limits_subject": (
        "What an operator is made of was seen with torch {torch} on {device}.",
        "算子的组成是在 torch {torch}、{device} 上观察到的。",
    ),
    "limits_run": (
        "A trace has names without overloads. What an operator is made of was seen on the device that was recorded.",
        "trace 中只有算子名，没有 overload。算子的组成是在被采集的设备上观察到的。",
    ),
    "limits_backward": ("The operators of the gradients are those of a CPU.", "反向的算子是在 CPU 上观察到的。"),
    "unknown_release": (
        "nothing is known of torch_npu {asked}; of these it is: {releases}",
        "没有 torch_npu {asked} 的信息；已有的版本：{releases}",
    ),
    "unknown_release_near": (
        "nothing is known of torch_npu {asked}; for the same torch there is {near}. All: {releases}",
        "没有 torch_npu {asked} 的信息；同一 torch 版本有 {near}。全部：{releases}",
    ),
    "releases": (
        "Releases whose wheels were read. Of torch's operators, and of torch_npu's own:",
        "已读取 wheel 的版本，以及其中 torch 算子与 torch_npu 自有算子的数目：",
    ),
    "col_release": ("torch_npu", "torch_npu"),
    "col_torch": ("torch", "torch"),
    "col_packed": ("packed", "打包日期"),
    "col_kernels": ("with a kernel", "有 kernel"),
    "col_all": ("of", "总数"),
    "col_own": ("its own", "自有"),
    "col_operator": ("operator", "算子"),
    "col_calls": ("calls", "调用次数"),
    "col_dtypes": ("types", "类型"),
    "col_where": ("first in", "首见于"),
    "col_status": ("on the NPU", "在 NPU 上"),
    "col_why": ("why", "原因"),
    "col_do": ("what to do", "建议"),
    "and_more": ("and {n} more", "等，另有 {n} 个"),
    "module": ("{module} from {place}", "{module}（{place}）"),
    "run": ("Run {run}", "运行 {run}"),
    "whole": ("{n} more need nothing; --all lists them.", "另有 {n} 个无需处理；--all 可全部列出。"),
    "whole.one": ("1 more needs nothing; --all lists it.", "另有 1 个无需处理；--all 可全部列出。"),
    "one": (
        "name one subject or one run: npulens lab DIR --compat 2.7.1",
        "请指定一个 subject 或一次采集：npulens lab DIR --compat 2.7.1",
    ),
    "title": ("Compatibility", "兼容性"),
    "written": ("The report lies in {path}.", "报告已写入 {path}。"),
}
