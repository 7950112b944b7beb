"""Requests of serving engines: parts of their time, and what their command says."""

TEXT = {
    "kind_send": ("Send", "发送"),
    "kind_front_end_in": ("Front end, in", "前端（入）"),
    "kind_queue_slots": ("Queue: slots", "排队：并发上限"),
    "kind_queue_kv": ("Queue: KV cache", "排队：KV cache"),
    "kind_queue_budget": ("Queue: token budget", "排队：token 预算"),
    "kind_queue": ("Queue", "排队"),
    "kind_own_prefill": ("Own prefill", "自身 prefill"),
    "kind_between_chunks": ("Between chunks", "分块之间"),
    "kind_decode": ("Decode", "decode"),
    "kind_others_prefill": ("Prefill of others", "其他请求的 prefill"),
    "kind_longer_batch": ("Longer iteration", "迭代变长"),
    "kind_stall": ("Slow iteration", "异常慢的迭代"),
    "kind_gap": ("Gap", "迭代间隙"),
    "kind_preempted": ("Preempted", "被抢占"),
    "kind_recompute": ("Recompute", "重新计算"),
    "kind_export": ("Profiler's export", "profiler 导出"),
    "kind_front_end_out": ("Front end, out", "前端（出）"),
    "kind_unexplained": ("Unexplained", "原因未知"),
    "about": (
        "{n} requests that ended. The parts of each one add up to its time.",
        "共 {n} 个已结束的请求。每个请求的各部分相加即为其总时长。",
    ),
    "about.one": (
        "One request that ended. Its parts add up to its time.",
        "共 1 个已结束的请求，各部分相加即为其总时长。",
    ),
    "export": (
        "The profiler's export stopped the engine for {time}. The {n} requests open then are left out of percentiles.",
        "profiler 导出使引擎停顿 {time}，当时未结束的 {n} 个请求不计入分位数。",
    ),
    "export.one": (
        "The profiler's export stopped the engine for {time}. The request open then is left out of percentiles.",
        "profiler 导出使引擎停顿 {time}，当时未结束的 1 个请求不计入分位数。",
    ),
    "clock_unix": (
        "{source} and {target}: one clock, {n} pairs, {target} {low} to {high} ms after {source}, median {median} ms.",
        "{source} 与 {target}：同一时钟，{n} 对；{target} 晚于 {source} {low} 至 {high} ms，中位数 {median} ms。",
    ),
    "clock_causality": (
        "{source} and {target}: other clocks, {n} pairs; causality puts the offset between {low} and {high} ms.",
        "{source} 与 {target}：时钟不同，{n} 对；按因果关系，偏移在 {low} 至 {high} ms 之间。",
    ),
    "clock_sequence": (
        "{source} and {target}: {n} iterations have the same counts; lengths differ by {median} ms, at most {high}.",
        "{source} 与 {target}：按计数对上 {n} 次迭代；时长相差中位数 {median} ms，最多 {high} ms。",
    ),
    "clock_tokens": (
        "Iterations are placed by {n} tokens: half came within {median} ms of their end, nine of ten within {high} ms.",
        "迭代按 {n} 个 token 定位：半数在迭代结束后 {median} ms 内到达，九成在 {high} ms 内。",
    ),
    "how_recorded": ("Who was in which iteration was recorded.", "每次迭代包含哪些请求为采集所得。"),
    "how_counts": (
        "Who was in which iteration is derived from the engine's counts; {share} % of the iterations agree.",
        "每次迭代包含哪些请求由引擎计数推导；{share} % 的迭代相符。",
    ),
    "how_times": (
        "Who was in which iteration is counted back from last tokens; {share} % of the iterations agree.",
        "每次迭代包含哪些请求由最后一个 token 向前推算；{share} % 的迭代相符。",
    ),
    "percentiles": (
        "Percentiles, and the mean parts of the requests around each",
        "分位数，以及各分位数附近请求的平均组成",
    ),
    "goodput": (
        "Goodput: {good} of {of} requests kept both objectives.",
        "Goodput：{of} 个请求中有 {good} 个同时满足两项目标。",
    ),
    "lost": ("The others by the part that grew most: {listed}.", "其余请求按增加最多的部分：{listed}。"),
    "slowest": ("The slowest requests", "最慢的请求"),
    "left_out": ("left out", "不计入"),
    "one": (
        "Request {id}: {prompt} prompt tokens, {output} output tokens, {ttft} to the first token, {whole} in all.",
        "请求 {id}：prompt {prompt} 个 token，输出 {output} 个 token，首 token {ttft}，总时长 {whole}。",
    ),
    "col_id": ("Request", "请求"),
    "col_parts": ("Largest parts, ms", "最大的部分，ms"),
    "col_part": ("Part", "部分"),
    "col_start": ("Start, ms", "开始，ms"),
    "col_time": ("Time, ms", "时间，ms"),
    "col_iteration": ("Iteration", "迭代"),
}
