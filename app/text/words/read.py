"""How a run was read: ranks, tables and files with what was kept and lost."""

TEXT = {
    "title": ("How it was read", "读取情况"),
    "partial": (
        "This capture is partial, so what it shows may be less than what happened: {reason}",
        "采集不完整，看到的可能少于实际发生的：{reason}",
    ),
    "baseline": (
        "Nothing of what was recorded got lost, so other runs may be measured against it.",
        "采集到的内容没有丢失，可以作为其他运行的对比基线。",
    ),
    "no_baseline": (
        "A run that lost something is never a baseline: other runs would look slower or faster than they are.",
        "有内容丢失的运行不会作为基线，否则其他运行的快慢会失真。",
    ),
    "redacted": (
        "Host names, user names, paths, addresses and secrets were taken out before it was stored.",
        "存储前已脱敏：主机名、用户名、路径、地址与密钥均已替换。",
    ),
    "ranks": ("Ranks as they were read", "各 rank 的读取情况"),
    "tables": ("What became of each table", "各表的读取情况"),
    "files": ("Files that were read", "读取的文件"),
    "more_files": ("and {n} more", "另有 {n} 个文件"),
    "col_rank": ("Rank", "rank"),
    "col_state": ("State", "状态"),
    "col_formats": ("Recorded as", "采集格式"),
    "col_files": ("Files", "文件数"),
    "col_size": ("Size", "大小"),
    "col_seconds": ("Reading took", "读取耗时"),
    "col_kept": ("Rows kept", "保留行数"),
    "col_dropped": ("Dropped", "丢弃"),
    "col_expected": ("Expected", "应有"),
    "col_versions": ("Versions", "版本"),
    "col_reason": ("Why", "原因"),
    "col_table": ("Table", "表"),
    "col_remedy": ("Recorded by", "采集方法"),
}
