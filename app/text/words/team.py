"""A server for a team: signing in, projects, roles, tokens and the audit."""

TEXT = {
    "sign_in": ("Sign in", "登录"),
    "sign_in_what": ("Sign in to see the captures of your projects.", "登录后可查看所属项目的采集。"),
    "sign_out": ("Sign out", "退出登录"),
    "sign_in_first": ("Sign in first.", "请先登录。"),
    "nobody_said": (
        "The sign-in did not say who you are: it gave no name, or a mail address that it has not verified.",
        "登录服务未说明您的身份：缺少名称，或邮箱地址未经验证。",
    ),
    "unknown_host": (
        "npulens does not answer under this name. Whoever runs it can allow the name: "
        "npulens serve --server.allowedHosts NAME, or in the team's file.",
        "npulens 不响应此名称。管理员可用 npulens serve --server.allowedHosts NAME 或在团队配置文件中允许它。",
    ),
    "foreign_page": ("A page of another site may not ask this.", "其他网站的页面不能发起此请求。"),
    "no_such_place": ("There is nothing here.", "此处没有内容。"),
    "not_for_you": ("There is nothing here for this address.", "此地址无权访问。"),
    "token_first": (
        "This takes a token: Authorization: Bearer npulens_...",
        "此处需要令牌：Authorization: Bearer npulens_...",
    ),
    "bad_bearer": (
        "This token is unknown, over or revoked. Make a new one on the page Team.",
        "此令牌未知、已过期或已吊销。请在“团队”页面新建。",
    ),
    "bad_token": ("This link or token is not valid here.", "此链接或令牌在这里无效。"),
    "not_your_project": (
        "There is no such project, or it is not yours. An owner can add you to it.",
        "没有这个项目，或您不属于该项目。项目所有者可以添加您。",
    ),
    "not_your_role": ("Your role in this project does not allow that.", "您在此项目中的角色不允许此操作。"),
    "no_project": (
        "You are signed in as {name}, and no project is yours yet. Whoever runs this server can add you to one.",
        "您已登录为 {name}，但还不属于任何项目。服务器管理员可以添加您。",
    ),
    "over": ("Your sign-in is over.", "登录已失效。"),
    "project": ("Project", "项目"),
}
