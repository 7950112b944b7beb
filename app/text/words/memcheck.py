"""What `npulens memcheck` says: accesses outside a tensor or unaligned, and where they stand in the source."""

TEXT = {
    "looked_at": (
        "Looked at in {how}: launches {n}, kernels {kernels}, accesses {accesses}.",
        "在{how}中检查：启动 {n} 次，kernel {kernels} 个，访问 {accesses} 次。",
    ),
    "how_interpreter": ("Triton's interpreter", " Triton 解释器"),
    "how_compute-sanitizer": ("compute-sanitizer", " compute-sanitizer "),
    "how_mssanitizer": ("msSanitizer", " msSanitizer "),
    "read": ("A report of {how}: {n} places.", "{how}的报告：{n} 处。"),
    "read.one": ("A report of {how}: 1 place.", "{how}的报告：1 处。"),
    "clean": ("No access was wrong.", "没有发现错误访问。"),
    "partial": ("It ended early, so what came after is not checked: {why}", "运行提前结束，其后未检查：{why}"),
    "unknown": (
        "{n} accesses went to memory that no tensor of a launch explains; only whether it exists was checked.",
        "{n} 次访问的内存不属于任何启动参数，仅检查了其是否存在。",
    ),
    "place": ("{file}:{line}: {kernel}", "{file}:{line}：{kernel}"),
    "place_unknown": ("{kernel}, at a place that the tool does not name", "{kernel}，工具未给出位置"),
    "kind_outside": (
        "{access} outside {tensor}: the first {offset} bytes from its beginning (lanes {lanes}, programs {programs})",
        "{access}超出 {tensor}：{programs} 个 program 中的 {lanes} 个 lane，首个位于其起点 {offset} 字节处",
    ),
    "kind_beyond_view": (
        "{access} beyond the part of {tensor} that was passed, within its memory. First at {offset} bytes "
        "from its beginning (lanes {lanes}, programs {programs})",
        "{access}超出传入的 {tensor} 部分，但仍在其内存内：{programs} 个 program 中的 {lanes} 个 lane，首个位"
        "于其起点 {offset} 字节处",
    ),
    "kind_unaligned": (
        "{access} of {tensor} at an address that is no multiple of {element} bytes. First at {offset} bytes "
        "from its beginning (lanes {lanes}, programs {programs})",
        "{access} {tensor} 的地址不是 {element} 字节的整数倍：{programs} 个 program 中的 {lanes} 个 lane，首"
        "个位于其起点 {offset} 字节处",
    ),
    "kind_hint": (
        "the code promises a multiple that is none, and a device reads wider for it: {text}",
        "代码承诺的整数倍不成立，设备会因此使用更宽的访问：{text}",
    ),
    "kind_null": (
        "{access} at no address: lanes {lanes}, programs {programs}",
        "{access}空地址：{programs} 个 program 中的 {lanes} 个 lane",
    ),
    "kind_nowhere": (
        "{access} outside every tensor of the launch: lanes {lanes}, programs {programs}",
        "{access}超出本次启动的所有张量：{programs} 个 program 中的 {lanes} 个 lane",
    ),
    "kind_told": ("{text}", "{text}"),
    "first": (
        "first in program {program}, lane {lane}; from {low} to {high} bytes, the tensor has {size}",
        "首次出现在 program {program}、lane {lane}；范围 {low} 到 {high} 字节，张量共 {size} 字节",
    ),
    "called_from": ("called from {places}", "调用自 {places}"),
    "access_load": ("reads", "读取"),
    "access_store": ("writes", "写入"),
    "access_atomic": ("updates", "原子更新"),
    "access_none": ("accesses", "访问"),
    "not_run": (
        "The form of this report was read from documentation; no report of a device was seen yet.",
        "该报告格式依据文档实现，尚未见过真实设备的报告。",
    ),
}
