"""Thousands of ranks from their summaries: the texts of `npulens fleet`."""

TEXT = {
    "head": (
        "Ranks: {ranks}. Hosts that are named: {hosts}. Steps: {steps}, the median of all ranks takes {step}.",
        "rank 数：{ranks}；有名称的主机：{hosts} 台；步数：{steps}，各 rank 每步中位数为 {step}。",
    ),
    "unmeasured": (
        "No collectives of several ranks were recorded in the same order, so nobody can say who waits.",
        "没有采集到多个 rank 以相同顺序执行的集合通信，无法判断谁在等待。",
    ),
    "matched": (
        "Told by {share} of the time in collectives; the rest was not the same sequence on all ranks of its group.",
        "依据集合通信时间的 {share} 得出；其余部分在通信域各 rank 上的执行顺序不一致。",
    ),
    "in_part": (
        "{n} groups were captured in part. Who was not captured is not named here: `npulens check` may name it.",
        "{n} 个通信域只采集了部分 rank。未采集的 rank 不会在此列出，可用 `npulens check` 查看。",
    ),
    "in_part.one": (
        "One group was captured in part. Who was not captured is not named here: `npulens check` may name it.",
        "有 1 个通信域只采集了部分 rank。未采集的 rank 不会在此列出，可用 `npulens check` 查看。",
    ),
    "waited_for": (
        "Waited for: how much later than the last but one a rank came to its collectives",
        "被等待的 rank：到达集合通信的时间比倒数第二个晚多少",
    ),
    "waiting": (
        "Waiting: in collectives, for captured ranks to come; and what their tasks wait for anybody, nothing computing",
        "等待的 rank：在集合通信中等待已采集 rank 的时间，以及通信任务在无计算时等待任意 rank 的时间",
    ),
    "hosts": (
        "Hosts: how much later than the last rank of another host their ranks came",
        "主机：其 rank 比其他主机最后一个 rank 晚到多少",
    ),
    "groups": (
        "Groups: how long their ranks wait, and for whom most",
        "通信域：各 rank 的等待时间，以及等待最多的 rank",
    ),
    "links": (
        "Links: {slow} of {compared} are slower than their likes. A row compares the same task, kind of link and size",
        "链路：{compared} 条中有 {slow} 条慢于同类。每行在相同任务、链路类型和数据量之间比较",
    ),
    "nobody": ("No rank is waited for longer than can be told.", "没有哪个 rank 被等待的时间超过可分辨的范围。"),
    "no_links": (
        "No links can be compared: transfers with their peers were not recorded (profiler_level=Level1).",
        "没有可比较的链路：未采集到带对端信息的传输（profiler_level=Level1）。",
    ),
    "per_step": (
        "Times are means of a step. Computing may hide a part of a wait; `npulens check` says what a fix gives back.",
        "时间均为每步平均值。部分等待可能被计算掩盖；可节省的时间见 `npulens check`。",
    ),
    "col_rank": ("Rank", "rank"),
    "col_host": ("Host", "主机"),
    "col_gain": ("Later by", "晚到"),
    "col_last": ("Last", "最后到达"),
    "col_lost": ("Others wait, added up", "其他 rank 等待合计"),
    "col_computing": ("Computes more", "计算多用"),
    "col_idle": ("Idle more", "空闲多出"),
    "col_waits": ("Waits", "等待"),
    "col_tasks": ("Its tasks wait", "任务等待"),
    "col_ranks": ("Ranks", "rank 数"),
    "col_group": ("Group", "通信域"),
    "col_kind": ("Kind", "类型"),
    "col_of": ("Of", "共"),
    "col_collectives": ("Collectives", "集合通信"),
    "col_for": ("For rank", "等待 rank"),
    "col_peer": ("Peer", "对端"),
    "col_link": ("Link", "链路"),
    "col_transfers": ("Transfers", "传输次数"),
    "col_rate": ("Rate", "带宽"),
    "col_usual": ("Usual", "同类带宽"),
    "col_times": ("Slower", "慢"),
    "col_slow": ("Slow", "慢链路"),
    "yes": ("yes", "是"),
}
