"""What agents, those who let them in, and those who send spans elsewhere are told."""

TEXT = {
    "no_finding_is_called": (
        "no finding or detector is called {name}; `check` lists the findings of a run",
        "没有名为 {name} 的发现或检查项；`check` 会列出一次运行的发现",
    ),
    "no_schema_is_called": (
        "there is no schema {name} of that version; `npulens schema` lists them",
        "没有名为 {name} 的该版本模式；`npulens schema` 可列出全部",
    ),
    "token_may_last_hours": ("a token lasts up to {hours} hours", "令牌的有效期最长为 {hours} 小时"),
    "this_needs_the_extra": (
        "this needs more packages: pip install 'npulens[{extra}]'",
        "此功能需要更多软件包：pip install 'npulens[{extra}]'",
    ),
    "folder_holds_no_night": ("the folder holds no night", "该目录中没有夜间任务的记录"),
    "receiver_took_no_spans": ("the receiver took no spans: {error}", "接收端没有接收任何 span：{error}"),
    "the_token_has_ended": ("the token has ended", "令牌已失效"),
}  # fmt: skip
