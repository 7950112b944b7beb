"""Communication: operators, groups, links and peers; and the words that all closer looks share."""

TEXT = {
    "title": ("Communication", "通信"),
    "question": (
        "What does communication cost, over which links, and who keeps whom waiting?",
        "通信花了多少时间，走哪些链路，谁在等谁？",
    ),
    "none": ("No communication was recognised in this capture.", "未识别到通信。"),
    "busy": (
        "Mean over {n} ranks: {operators} communication operators in all keep a rank busy for {busy} of {whole} "
        "({share}).",
        "{n} 个 rank 平均：共 {operators} 个通信算子，每个 rank 通信 {busy}，占全程 {whole} 的 {share}。",
    ),
    "busy.one": (
        "{operators} communication operators keep the rank busy for {busy} of {whole} ({share}).",
        "共 {operators} 个通信算子，通信 {busy}，占全程 {whole} 的 {share}。",
    ),
    "exposed": (
        "{exposed} ({exposed_share} of the time) is not overlapped by computing.",
        "其中 {exposed}（占全程 {exposed_share}）没有被计算掩盖。",
    ),
    "fused": (
        "{fused} of the operators are kernels that compute at the same time. They count as computing too, so they are "
        "not exposed.",
        "其中 {fused} 个是通算融合算子，同时计入计算，因此不算未掩盖通信。",
    ),
    "of_that_waiting": ("{waiting} of that is waiting for other ranks.", "其中 {waiting} 只是在等待其他 rank。"),
    "no_tasks": (
        "The tasks inside the operators were not recorded, so transferring cannot be told from waiting. On Ascend, "
        "profiler_level Level0 or above records them.",
        "未采集通信算子内部的任务，无法区分传输与等待。昇腾上 profiler_level 设为 Level0 及以上即可采集。",
    ),
    "kinds": ("By type and group", "按算子类型与通信域"),
    "kinds_means": (
        "Operators of one type in one group. Times are means over the ranks that ran them; on each rank they are "
        "unions, "
        "so operators that overlap count once. Transferring: a task of them moves data. Only waiting: a task of them "
        "waits for a peer and none moves data. Exposed: nothing computes on that device meanwhile.",
        "同一通信域中同类算子。时间为各 rank 的平均；单个 rank 上取并集，重叠只计一次。传输：有任务在搬运数据。"
        "仅等待：有任务在等待对端，且没有任务在搬运。未掩盖：此时该设备上没有计算。",
    ),
    "kinds_alt": ("Time of each type of communication operator, in parts", "各类通信算子的时间构成"),
    "kinds_cut": (
        "The {shown} longest of {all} are drawn; the table has all.",
        "图中为最长的 {shown} 类，共 {all} 类，表中为全部。",
    ),
    "unnamed": ("not named", "未命名"),
    "part_moving": ("Transferring", "传输"),
    "part_waiting": ("Only waiting", "仅等待"),
    "part_neither": ("Other", "其他"),
    "part_untold": ("Not told apart", "无法区分"),
    "part_moving_means": ("At least one task moves data.", "至少有一个任务在搬运数据。"),
    "part_waiting_means": (
        "A task waits for a peer, and nothing is moved.",
        "有任务在等待对端，同时没有数据搬运。",
    ),
    "part_neither_means": (
        "The operator runs, and no task of it moves data or waits: notifications and the time between tasks.",
        "算子在执行，但没有搬运或等待任务：通知以及任务之间的间隙。",
    ),
    "part_untold_means": (
        "The tasks inside were not recorded.",
        "未采集算子内部的任务。",
    ),
    "col_collective": ("Type", "类型"),
    "col_group": ("Group", "通信域"),
    "col_group_name": ("Group", "通信域"),
    "col_ranks": ("Ranks", "rank 数"),
    "col_rank": ("rank", "rank"),
    "col_step": ("step", "step"),
    "col_name": ("Operator", "算子"),
    "col_operators": ("Operators", "算子数"),
    "col_bytes": ("Per rank, MB", "每 rank，MB"),
    "col_busy_ns": ("Busy, ms", "通信，ms"),
    "col_exposed_ns": ("Exposed, ms", "未掩盖，ms"),
    "col_transfer_ns": ("Transferring, ms", "传输，ms"),
    "col_only_waiting_ns": ("Only waiting, ms", "仅等待，ms"),
    "col_late_launch_ns": ("Launched late, ms", "下发偏晚，ms"),
    "col_longest_ns": ("Longest, ms", "最长，ms"),
    "col_ts_ns": ("Start, ms", "开始，ms"),
    "col_dur_ns": ("Length, ms", "时长，ms"),
    "groups": ("Groups", "通信域"),
    "groups_means": (
        "Ranks that communicate with each other, as the job lists them.",
        "互相通信的 rank，按任务元数据列出。",
    ),
    "groups_seen": (
        "Groups whose source is \"communication\" are listed nowhere: their members are those seen in operators and "
        "tasks, and there may be more.",
        "来源为 communication 的通信域没有元数据：成员来自观察到的算子和任务，可能还有其他成员。",
    ),
    "no_groups": ("No operator names its group.", "没有算子给出通信域。"),
    "group_name": ("Group", "通信域"),
    "group_kind": ("Kind", "类型"),
    "group_size": ("Members", "成员数"),
    "group_members": ("Ranks", "rank"),
    "group_captured": ("Captured", "已采集"),
    "group_source": ("Source", "来源"),
    "longest": ("The longest operators", "最长的算子"),
    "longest_means": (
        "Single operators, the longest first. Launched late: how long the device had been out of work when the host "
        "launched the operator.",
        "单个算子，最长的在前。下发偏晚：主机下发该算子时，设备已经空闲了多久。",
    ),
    "longest_alt": ("The {n} longest operators, each cut into its parts", "最长的 {n} 个算子及其时间构成"),
    "none_of_rank": ("This rank ran no communication operator.", "该 rank 没有通信算子。"),
    "rank": ("Rank", "rank"),
    "table": ("Table: {n} rows", "表格：{n} 行"),
    "moment": ("Event", "事件"),
    "moment_said": ("rank {rank}, at {start}, {length}: {name}", "rank {rank}，{start} 处，{length}：{name}"),
    "planes": ("Planes", "通信平面"),
    "planes_means": (
        "Means over ranks. A plane is one stream of a communication group.",
        "各 rank 的平均。平面（plane）是通信域内的一条 stream。",
    ),
    "plane_plane": ("Plane", "平面"),
    "plane_ranks": ("Ranks", "rank 数"),
    "plane_tasks": ("Tasks", "任务数"),
    "plane_bytes": ("Moved, MB", "搬运，MB"),
    "plane_transfer_ns": ("Transferring, ms", "传输，ms"),
    "plane_only_waiting_ns": ("Only waiting, ms", "仅等待，ms"),
    "links": ("Links between ranks", "rank 间链路"),
    "links_means": (
        "What each rank sent to each other rank. The bandwidth is bytes over the time in which at least one transfer "
        "of "
        "that link runs. Transfers within a rank are in the table only.",
        "每个 rank 发往其他 rank 的数据。带宽为字节数除以该链路至少有一个传输在进行的时间。rank 内部的搬运只列在表中。",
    ),
    "links_alt": ("Sender by receiver: bytes or bandwidth of every link", "发送方与接收方矩阵：每条链路的字节数或带宽"),
    "links_table": ("Table: {n} links", "表格：{n} 条链路"),
    "links_summary_note": (
        "As the profiler summed it up in its communication matrix; rank numbers are as written there and may count "
        "within a group.",
        "取自 profiler 的通信矩阵；rank 编号按文件原样，可能是通信域内的编号。",
    ),
    "no_links": (
        "No transfer names both of its ranks, and there is no communication matrix. On Ascend, profiler_level Level1 "
        "or "
        "above records both.",
        "没有传输任务给出两端的 rank，也没有通信矩阵。昇腾上 profiler_level 设为 Level1 及以上即可采集。",
    ),
    "only_local": ("Data only moves within ranks.", "只有 rank 内部的数据搬运。"),
    "link_range": (
        "{transport}: {n} links, median {median} GB/s; the slowest, {src} to {dst}, {low} GB/s, the fastest {high} "
        "GB/s.",
        "{transport}：{n} 条链路，中位数 {median} GB/s；最慢 {src} → {dst} {low} GB/s，最快 {high} GB/s。",
    ),
    "value": ("Show", "显示"),
    "value_bytes": ("Bytes", "字节数"),
    "value_bytes_per_s": ("Bandwidth", "带宽"),
    "source": ("From", "来源"),
    "source_tasks": ("Transfer tasks", "传输任务"),
    "source_summary": ("Profiler's matrix", "profiler 矩阵"),
    "link_hover": (
        "from %{{y}} to %{{x}}: %{{z:.4~g}} {unit}<extra></extra>",
        "%{{y}} → %{{x}}：%{{z:.4~g}} {unit}<extra></extra>",
    ),
    "link_src": ("From rank", "发送 rank"),
    "link_dst": ("To rank", "接收 rank"),
    "link_transport": ("Transport", "传输方式"),
    "link_bytes": ("MB", "MB"),
    "link_transit_ns": ("Time, ms", "时间，ms"),
    "link_bytes_per_s": ("GB/s", "GB/s"),
    "peers": ("Who came last", "谁最后到"),
    "peers_means": (
        "In a collective everybody waits for the last member. Waiting: of the rank that waited most, in the whole run. "
        "Would be saved: what remains of it if the peer came with the second latest. A peer that was not captured is "
        "named from the waits of those that were.",
        "集合通信中所有成员都要等最后一个。等待：等得最久的 rank 在全程的等待时间。可省：若该对端与倒数第二个同时到，"
        "可以省下的部分。未采集的对端由已采集 rank 的等待推断。",
    ),
    "no_peers": (
        "Nobody was waited for in a collective, or the capture cannot tell. With one captured rank and no "
        "tasks inside operators there is nothing to compare.",
        "集合通信中没有等待，或采集数据无法判断：只采集了一个 rank 且没有算子内部任务时无从比较。",
    ),
    "most_waits": (
        "No peer stands out as the last to come. Of all waits, sends and receives included, the longest are "
        "those of rank {rank} for rank {peer}: {wait} in the whole run.",
        "没有明显的慢卡。全部等待（含点对点收发）中 rank {rank} 等 rank {peer} 最久：全程 {wait}。",
    ),
    "last_held": (
        "{waiting} longest for {who}: {wait} in the whole run. {gain} would be saved if it came with the "
        "second latest.",
        "{waiting}等 {who} 最久：全程 {wait}，若它与倒数第二个同时到，可省 {gain}。",
    ),
    "last_unknown": (
        "{waiting} longest for {who}: {wait} in the whole run. {gain} would be saved if it came with the "
        "second latest. Whether that peer was captured is not known.",
        "{waiting}等{who}最久：全程 {wait}，若它与倒数第二个同时到，可省 {gain}。该对端是否已采集未知。",
    ),
    "last_not_held": (
        "{waiting} longest for {who}, which was not captured: {wait} in the whole run. {gain} would be saved "
        "if it came with the second latest.",
        "{waiting}等 {who} 最久（该对端未采集）：全程 {wait}，若它与倒数第二个同时到，可省 {gain}。",
    ),
    "waiting": ("Ranks {ranks} wait", "rank {ranks} "),
    "waiting.one": ("Rank {ranks} waits", "rank {ranks} "),
    "local_peer": ("rank {local} of group {group}", "通信域 {group} 内的 rank {local}"),
    "some_peer": ("a peer that nothing names", "未能确定的对端"),
    "peer_peer": ("Last to come", "最后到的"),
    "peer_captured": ("Captured", "已采集"),
    "peer_operators": ("Operators", "算子数"),
    "peer_waiting": ("Waiting ranks", "等待的 rank"),
    "peer_wait_ns": ("Waiting, ms", "等待，ms"),
    "peer_gain_ns": ("Would be saved, ms", "可省，ms"),
    "peer_how": ("Known from", "依据"),
    "held": ("yes", "是"),
    "not_held": ("no", "否"),
    "unknown": ("not known", "未知"),
    "how_tasks": ("waits inside the operators", "算子内部的等待任务"),
    "how_clock": ("starts, on one clock", "对齐时钟后的开始时刻"),
    "how_guessed": ("lengths of like operators", "同类算子的时长"),
    "peer_waits_means": (
        "All waits for each peer, also those that run beside a longer wait for somebody else. Stronger is more; an "
        "empty cell is no wait.",
        "对每个对端的全部等待，包括与更长的等待同时进行的部分。颜色越深等待越长，空白为没有等待。",
    ),
    "peer_waits_alt": ("Who waits, and for whom: milliseconds", "谁在等、等谁：毫秒"),
    "wait_hover": (
        "rank %{{y}} waits for %{{x}}: %{{z:.4~g}} ms<extra></extra>",
        "rank %{{y}} 等 %{{x}}：%{{z:.4~g}} ms<extra></extra>",
    ),
    "wait_rank": ("Waiting rank", "等待的 rank"),
    "wait_peer": ("Waits for", "等待对象"),
    "wait_captured": ("Captured", "已采集"),
    "wait_waits": ("Waits", "次数"),
    "wait_wait_ns": ("Waiting, ms", "等待，ms"),
    "wait_longest_ns": ("Longest, ms", "最长，ms"),
}  # fmt: skip
