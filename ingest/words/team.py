"""What the file of a team's server and its book say; English, then Chinese."""

from __future__ import annotations

TEXT: dict[str, tuple[str, str]] = {
    "team_cannot_be_read": ("the team's file cannot be read: {error}", "无法读取团队配置文件：{error}"),
    "team_is_no_toml": ("the team's file is no TOML: {error}", "团队配置文件不是有效的 TOML：{error}"),
    "team_has_unknown_key": ("{key} is not known in a team's file; known here are {known}",
        "团队配置文件中不认识 {key}；此处可用的有 {known}"),
    "team_key_is_wrong": ("{key} in the team's file has to look like {wanted}",
        "团队配置文件中 {key} 的写法应为 {wanted}"),
    "team_lacks_key": ("the team's file lacks {key}", "团队配置文件缺少 {key}"),
    "team_secret_cannot_be_read": ("a secret that the team's file names cannot be read: {error}",
        "无法读取团队配置文件所指的密钥文件：{error}"),
    "team_secret_is_empty": ("a secret that the team's file names is an empty file",
        "团队配置文件所指的密钥文件是空的"),
    "team_book_cannot_be_used": ("tokens and the audit cannot be read or written: {error}",
        "无法读写令牌和审计记录：{error}"),
    "team_has_no_project": ("the team has no project {name}; it has {known}",
        "团队中没有项目 {name}；现有项目：{known}"),
    "team_has_no_token": ("no token {name} is there to end", "没有可吊销的令牌 {name}"),
}
