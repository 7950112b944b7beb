"""Requests of two serving runs beside each other."""

TEXT = {
    "answer": ("{word}: {figure} {base} → {head}, {change}.", "{word}：{figure} {base} → {head}，{change}。"),
    "nothing": (
        "Cannot tell: no percentile and no goodput differs for sure.",
        "无法判断：没有任何分位数或 goodput 的差异是确定的。",
    ),
    "load": (
        "{side}: {n} requests, {rate} a second, mean prompt {prompt} tokens, mean output {output}.",
        "{side}：{n} 个请求，每秒 {rate} 个，平均 prompt {prompt} 个 token，平均输出 {output} 个。",
    ),
    "left_out": (
        "{side}: {n} requests were open while a profiler wrote its trace, and are left out.",
        "{side}：{n} 个请求在 profiler 写 trace 时尚未结束，不计入。",
    ),
    "same_requests": (
        "Both sides were asked the very same requests, in the same order.",
        "两侧的请求及其顺序完全相同。",
    ),
    "unlike": (
        "The loads differ in {what}. A change may come from the load and not from the build.",
        "两侧负载不同：{what}。变化可能来自负载，而非版本。",
    ),
    "unlike_requests": ("the number of requests", "请求数"),
    "unlike_per_second": ("requests a second", "每秒请求数"),
    "unlike_prompt_tokens": ("tokens of prompts", "prompt token 数"),
    "unlike_output_tokens": ("tokens of outputs", "输出 token 数"),
    "method_blocks": (
        "One capture a side, judged by {n} blocks of neighbouring requests. Other captures of the same builds may "
        "differ: give several a side, or --drift.",
        "每侧一次采集，按 {n} 块相邻请求判断。同一版本的其他采集可能不同：请每侧给出多次采集，或用 --drift。",
    ),
    "method_pairs": (
        "{n} pairs of captures in turns: drift hits both sides alike.",
        "{n} 对交替采集：漂移对两侧影响相同。",
    ),
    "method_sets": (
        "Captures of each side, {n} on the smaller side, a value each.",
        "每次采集取一个值，较少的一侧 {n} 次。",
    ),
    "each": (
        "Each of the {n} figures by itself is called changed by chance in at most {share} of cases.",
        "{n} 项指标各自误判为变化的概率至多 {share}。",
    ),
    "few": (
        "Fewer than 5 requests lie beyond: {which}. Such a figure is that of single requests.",
        "以下指标之外不足 5 个请求，取决于个别请求：{which}。",
    ),
    "made_of": ("What the changes are made of", "变化的构成"),
    "no_part": ("no part differs", "各部分均无差异"),
    "goodput": ("goodput", "goodput"),
    "points": ("{n} points", "{n} 个百分点"),
    "title": ("Requests of both sides", "两侧的请求"),
    "around": (
        "Mean parts of the requests around {figure}, base against head.",
        "{figure} 附近请求的平均组成，基线与对比之差。",
    ),
    "col_verdict": ("Verdict", "结论"),
    "col_figure": ("Requests", "请求"),
    "col_base": ("base", "基线"),
    "col_head": ("head", "对比"),
    "col_change": ("change", "变化"),
    "col_interval": ("{sure} interval", "{sure} 区间"),
    "col_class": ("Iterations", "迭代"),
    "col_base_count": ("base", "基线"),
    "col_head_count": ("head", "对比"),
    "col_base_mean": ("mean, base", "基线均值"),
    "col_head_mean": ("mean, head", "对比均值"),
}
