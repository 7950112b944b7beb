"""The page of memory copies."""

TEXT = {
    "title": ("Copies", "内存拷贝"),
    "question": (
        "What do copies cost, how fast are they, and which does the device wait for?",
        "拷贝花了多少时间，有多快，设备在等哪些拷贝？",
    ),  # fmt: skip
    "none": ("The capture recorded the device, and it copied nothing.", "采集数据包含设备侧信息，其中没有内存拷贝。"),
    "answer": (
        "Copies run for {copy} of {wall} on each of {n} ranks. {exposed} of that ({share} of the time) is "
        "exposed: nothing computes or communicates meanwhile.",
        "{n} 个 rank 平均：{wall} 中有 {copy} 在拷贝，其中 {exposed}（占总时间 {share}）未被掩盖，即期间没有"
        "计算或通信。",
    ),
    "answer.one": (
        "Copies run for {copy} of {wall}. {exposed} of that ({share} of the time) is exposed: nothing computes or "
        "communicates meanwhile.",
        "{wall} 中有 {copy} 在拷贝，其中 {exposed}（占总时间 {share}）未被掩盖，即期间没有计算或通信。",
    ),
    "answer_worst": ("Most exposed is rank {rank} with {exposed}.", "未掩盖最多的是 rank {rank}：{exposed}。"),
    "answer_unknown": (
        "{n} copies were recorded. How much of the step they take is not known: no kernels or no "
        "communication were recorded.",
        "采集到 {n} 次拷贝；由于没有 kernel 或通信数据，无法判断其中多少未被掩盖。",
    ),
    "answer_way": (
        "{way}: {bytes} in {count} copies at {speed}{link}.",
        "{way}：{count} 次共 {bytes}，{speed}{link}。",
    ),
    "answer_way_bare": (
        "{way}: {count} copies, {busy}; sizes were not recorded.",
        "{way}：{count} 次，共 {busy}；未采集大小。",
    ),
    "answer_link": (", {share} of what {link} carries", "，达到 {link} 能力的 {share}"),
    "way_h2d": ("host to device", "主机到设备（H2D）"),
    "way_d2h": ("device to host", "设备到主机（D2H）"),
    "way_d2d": ("within the device", "设备内（D2D）"),
    "way_p2p": ("device to device", "设备间（P2P）"),
    "way_h2h": ("within the host", "主机内（H2H）"),
    "way_unknown": ("direction not recorded", "方向未采集"),
    "link_pcie": ("PCIe", "PCIe"),
    "link_nvlink": ("NVLink", "NVLink"),
    "link_infinity_fabric": ("Infinity Fabric", "Infinity Fabric"),
    "link_hccs": ("HCCS", "HCCS"),
    "link_memory": ("the device's memory", "设备内存"),
    "ways": ("By direction", "按方向"),
    "col_way": ("Direction", "方向"),
    "col_count": ("Copies", "次数"),
    "col_bytes": ("Moved", "总量"),
    "col_bytes_help": (
        "Their sizes added; nothing where one of them is not recorded.",
        "大小之和；有任何一次未采集大小时为空。",
    ),
    "col_busy": ("Time", "时间"),
    "col_busy_help": (
        "Time in which at least one of them runs, ranks added: a union.",
        "至少有一个在执行的时间（各 rank 相加），取并集。",
    ),
    "col_exposed": ("Exposed", "未掩盖"),
    "col_exposed_help": (
        "Of that, time in which the rank's device neither computes nor communicates. Exposed is not blocking: the "
        "device may have had nothing else to do.",
        "其中该 rank 的设备既没有计算也没有通信的时间。未掩盖不等于阻塞：设备当时可能本来就无事可做。",
    ),
    "col_speed": ("Speed", "速率"),
    "col_speed_help": ("Bytes of the time in which at least one runs.", "总字节数除以执行时间（并集）。"),
    "col_best": ("Fastest copy", "最快一次"),
    "col_link": ("Link carries", "链路能力"),
    "col_link_help": (
        "In one direction, by the data sheet of the device (analysis/device/device_facts.toml). A copy within the "
        "device reads and writes its memory, so half of that is its ceiling.",
        "单方向速率，来自设备规格（analysis/device/device_facts.toml）。设备内拷贝同时读写内存，上限约为其一半。",
    ),
    "col_of_link": ("Of the link", "占链路"),
    "col_blocking": ("Blocking", "阻塞"),
    "col_blocking_help": (
        "Copies the host waited for. Empty: the capture does not say.",
        "主机等待其完成的拷贝次数。为空表示采集数据未说明。",
    ),
    "col_pageable": ("Pageable", "非锁页"),
    "col_pageable_help": (
        "Copies whose name says that the host memory was not pinned.",
        "名称表明主机内存非锁页的拷贝次数。",
    ),
    "no_link": (
        "The link bandwidth of {device} is unknown (analysis/device/device_facts.toml). Speeds are relative "
        "to the fastest copy of this run.",
        "{device}的链路能力未知（analysis/device/device_facts.toml 未收录），只能以本次运行中最快的一次拷贝作参照。",
    ),
    "this_device": ("this device", "该设备"),
    "sources": ("Speeds of links are from:", "链路速率来源："),
    "groups": ("By direction and size", "按方向与大小"),
    "groups_alt": (
        "Time of copies by direction and size, hidden and exposed",
        "各方向、各大小拷贝的时间：已掩盖与未掩盖",
    ),
    "hidden": ("beside compute or communication", "被计算或通信掩盖"),
    "exposed": ("exposed", "未掩盖"),
    "busy": ("time", "时间"),
    "size_from": ("{from} to {to}", "{from} 至 {to}"),
    "size_empty": ("empty", "空拷贝"),
    "size_unknown": ("size not recorded", "大小未采集"),
    "col_size": ("Size", "大小"),
    "cut": (
        "The {shown} longest of {n} groups are drawn; the table holds all.",
        "图中为 {n} 组中最长的 {shown} 组，表中为全部。",
    ),
    "table": ("All numbers", "全部数据"),
    "scatter": ("Speed by size", "速率与大小"),
    "scatter_alt": ("Speed of copies by their size", "拷贝速率与大小的关系"),
    "scatter_points": (
        "Each mark is one copy. Small ones are slow because each costs some microseconds whatever its size.",
        "每个点为一次拷贝。小拷贝速率低，是因为每次拷贝都有数微秒的固定开销。",
    ),
    "scatter_cells": (
        "{n} copies in cells of a quarter decade: the larger the mark, the more copies. Small ones are slow because "
        "each costs some microseconds whatever its size.",
        "{n} 次拷贝按四分之一数量级分格，标记越大表示次数越多。小拷贝速率低，是因为每次拷贝都有数微秒的固定开销。",
    ),
    "scatter_without": (
        "{n} copies have no recorded size or no length and are not drawn.",
        "{n} 次拷贝没有大小或时长，未绘出。",
    ),
    "scatter_none": (
        "No copy has a recorded size, so no speed can be told. torch_npu records sizes at profiler_level=Level2.",
        "没有任何拷贝采集了大小，无法得出速率。torch_npu 在 profiler_level=Level2 时采集大小。",
    ),
    "line": ("{link}: {speed}", "{link}：{speed}"),
    "axis_size": ("size", "大小"),
    "axis_speed": ("speed", "速率"),
    "point_means": ("{way}: {size} in {time}, {speed}", "{way}：{size}，用时 {time}，{speed}"),
    "cell_means": (
        "{way}: {n} copies around {size} and {speed}, {time} together",
        "{way}：{n} 次，约 {size}、{speed}，合计 {time}",
    ),
    "worst": ("The most exposed copies", "未掩盖最多的拷贝"),
    "worst_some": (
        "Of {count} copies {n} are exposed, in part at least. Choose one to see where it comes from.",
        "{count} 次拷贝中有 {n} 次至少部分未被掩盖。选择一行可查看来源。",
    ),
    "worst_none": ("Every copy runs beside compute or communication.", "所有拷贝都被计算或通信掩盖。"),
    "worst_cut": ("The {shown} worst are listed.", "仅列出最严重的 {shown} 次。"),
    "col_rank": ("Rank", "rank"),
    "col_step": ("Step", "step"),
    "col_start": ("Start", "开始"),
    "col_start_help": ("From the earliest stamp of any rank.", "从所有 rank 中最早的时间戳算起。"),
    "col_dur": ("Duration", "时长"),
    "col_name": ("Name", "名称"),
    "origin": ("It comes from {op}, at {code}", "来自 {op}，位于 {code}"),
    "origin_op": ("It comes from {op}; no line of code was recorded.", "来自 {op}；未采集代码行。"),
    "origin_none": ("Which call launched it was not recorded.", "未采集到下发它的调用。"),
}
