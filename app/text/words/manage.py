"""Managing runs: search, names, notes, tags, deleting and having back, and the way in for somebody else."""

TEXT = {
    "search": ("Find runs", "查找采集"),
    "search_example": ("night, tag:release, format:kineto, ranks:8", "夜间任务、tag:release、format:kineto、ranks:8"),
    "search_help": (
        "Every word has to fit: in the label, note, tags or format, or at the beginning of the id. label:, note:, "
        "tag:, format:, status: and id: ask one of them; ranks:8 means that 8 ranks were captured.",
        "所有词都要匹配：名称、备注、标签、格式或运行 ID 的开头。label:、note:、tag:、format:、status:、id: "
        "只查对应字段；ranks:8 表示采集了 8 个 rank。",
    ),
    "count_all": ("{n} runs", "共 {n} 次采集"),
    "count_all.one": ("1 run", "共 1 次采集"),
    "count": ("{shown} of {n} runs", "{shown} / {n} 次采集"),
    "none_found": ("No run fits this search.", "没有符合条件的采集。"),
    "table": ("The runs of this store; mark rows to act on them", "当前存储中的采集；勾选行后可进行操作"),
    "changed": (
        "The store has changed since this was drawn: {new} new, {gone} gone.",
        "存储内容已变化：新增 {new}，移除 {gone}。",
    ),
    "refresh": ("Show", "刷新"),
    "tags": ("Tags", "标签"),
    "note": ("Note", "备注"),
    "ranks": ("Ranks", "rank 数"),
    "world": ("World size", "总 rank 数"),
    "world_help": (
        "How many ranks the whole job had; empty where the capture does not say.",
        "整个任务的 rank 总数；采集数据未记录时为空。",
    ),
    "ranks_help": ("How many ranks this run holds.", "本次采集包含的 rank 数。"),
    "wall_help": ("From the first event of any rank to the last.", "从任一 rank 的首个事件到最后一个事件。"),
    "size": ("Read", "读取量"),
    "size_help": ("The size of the files it was read from.", "读取的原始文件大小。"),
    "mark": (
        "Mark a run in the table to open, name, tag or delete it; mark two to compare them.",
        "在表格中勾选一次采集，可打开、命名、加标签或删除；勾选两次采集可进行对比。",
    ),
    "open": ("Open", "打开"),
    "compare": ("Compare the two marked runs", "对比勾选的两次采集"),
    "compare_help": ("Mark exactly two runs.", "请勾选两次采集。"),
    "compare_which": ("{head} against {base}", "{head} 对比 {base}"),
    "delete": ("Delete {n} runs", "删除 {n} 次采集"),
    "delete.one": ("Delete this run", "删除该采集"),
    "delete_help": (
        "It can be had back for a day, here or with npulens rm --undo.",
        "一天之内可在此处或用 npulens rm --undo 恢复。",
    ),
    "label": ("Name", "名称"),
    "label_help": (
        "Commands may use it in place of the id: npulens check NAME. Two runs cannot have the same name.",
        "命令行中可用名称代替 ID：npulens check 名称。名称不能重复。",
    ),
    "tags_placeholder": ("Choose tags, or type new ones", "选择标签，或输入新标签"),
    "tags_help": (
        "Words to find this run by: release, before the fix, 910B.",
        "便于查找的词：发布版本、修复前、910B。",
    ),
    "note_placeholder": (
        "What was different about this run?",
        "这次采集有什么不同？",
    ),
    "save": ("Save", "保存"),
    "problem_label_taken": (
        "Another run has this name. Everything else was saved; choose another name.",
        "已有其他采集使用该名称。其余内容已保存，请换一个名称。",
    ),
    "problem_label_long": ("A name may have 200 characters.", "名称最多 200 个字符。"),
    "problem_note_long": ("A note may have 10,000 characters.", "备注最多 10,000 个字符。"),
    "problem_tag_long": (
        "A run may have 20 tags of 40 characters each.",
        "每次采集最多 20 个标签，每个不超过 40 个字符。",
    ),
    "deleted": ("Deleted: {names}", "已删除：{names}"),
    "deleted_more": ("Deleted: {names} and {more} more", "已删除：{names} 等，另有 {more} 次"),
    "undo": ("Undo", "撤销"),
    "trash": ("Deleted runs that can be had back: {n}", "可恢复的已删除采集：{n}"),
    "trash_how": (
        "They are kept for a day at least, then removed when the next capture is loaded.",
        "至少保留一天，之后在下一次加载采集数据时清除。",
    ),
    "until": ("kept until {when}", "保留至 {when}"),
    "restore": ("Have it back", "恢复"),
    "invite": ("Let somebody else bring a capture", "让他人上传采集数据"),
    "invite_what": (
        "Makes a link for a colleague. It opens a page on which a capture can be dropped into this store.",
        "生成一个链接，同事打开后只能把采集数据拖入当前存储。",
    ),
    "invite_hours": ("Hours it is valid", "有效时间（小时）"),
    "invite_captures": ("Captures", "采集数量"),
    "invite_size": ("GB in all", "总大小（GB）"),
    "invite_make": ("Make the link", "生成链接"),
    "invite_link": ("The link to hand over:", "可转发的链接："),
    "invite_curl": ("Or, from a machine without a browser:", "或在没有浏览器的机器上执行："),
    "invite_allows": (
        "It allows {n} captures, {size} in all; {left} are left.",
        "允许 {n} 次采集，总计 {size}；剩余 {left} 次。",
    ),
    "invite_allows.one": (
        "It allows 1 capture of {size}; {left} is left.",
        "允许 1 次采集，最大 {size}；剩余 {left} 次。",
    ),
    "invite_honest": (
        "Copy it now: it is not kept anywhere. It limits what may be brought, not who may look: whoever "
        "reaches this address sees the dashboard. npulens token --revoke ends every link.",
        "请立即复制，链接不会保存。它限制的是可上传的内容，而不是访问权限：能访问该地址的人都能看到仪表盘。"
        "npulens token --revoke 可使所有链接失效。",
    ),
    "courier_title": ("Bring a capture", "上传采集数据"),
    "courier_what": (
        "Somebody asked you for a profiler's output. {n} more captures can be dropped here, {size} in all, "
        "until {when}.",
        "有人请你提供 profiler 的输出。此处还可拖入 {n} 次采集，总计 {size}，截止 {when}。",
    ),
    "courier_what.one": (
        "Somebody asked you for a profiler's output. One capture can be dropped here, up to {size}, until {when}.",
        "有人请你提供 profiler 的输出。此处可拖入 1 次采集，最大 {size}，截止 {when}。",
    ),
}
