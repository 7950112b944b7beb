"""What of a program runs on an NPU, release by release, as one HTML page that needs nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.resources import files

from npulens.analysis.compat.answers import Answer, Compatibility
from npulens.app.report.html_text import HtmlText, text
from npulens.app.text import compatible, i18n

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_SWITCH = (
    '<input class="switch" type="radio" name="lang" id="lang-en" checked>'
    '<input class="switch" type="radio" name="lang" id="lang-zh">'
    '<nav><label for="lang-en">English</label><label for="lang-zh">中文</label></nav>'
)
_HEADS = ("operator", "status", "calls", "dtypes", "where", "why", "do")


def write(
    what: Callable[[str], str], found: Sequence[Compatibility], limits: Callable[[str], Sequence[str]]
) -> str:  # fmt: skip
    """The page; ``what`` and ``limits`` are said in a language."""
    html = HtmlText(("en", "zh"))
    style = files("npulens.app.report").joinpath("report.css").read_text("utf-8")
    said = "".join(
        f"<p>{html.about(at, lambda at, lang: limits(lang)[at])}</p>" for at in range(len(limits("en")))
    )  # fmt: skip
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(what('en'))}</title><style>{style}</style></head><body>{_SWITCH}<main>"
        f"<h1>{html.of(what)}</h1>{''.join(_release(each, html) for each in found)}{said}</main></body></html>\n"
    )


def _release(found: Compatibility, html: HtmlText) -> str:
    """One release: the answer, every operator, and where the numbers come from."""
    release = found.release
    heads = "".join(f"<th>{html.say(f'compat.col_{name}')}</th>" for name in _HEADS)
    rows = "".join(_row(answer, found, html) for answer in found.answers)
    host = "" if compatible.host_words(found, "en") is None else (
        f"<p>{html.of(lambda lang: compatible.host_words(found, lang) or '')}</p>"
    )  # fmt: skip
    wheels = "".join(
        f"<tr><td>{text(name)}</td><td>{text(packed)}</td><td><code>{text(sha)}</code></td></tr>"
        for name, packed, sha in (
            (release.npu_wheel, release.npu_packed, release.npu_sha256),
            (release.torch_wheel, release.torch_packed, release.torch_sha256),
        )
    )
    return (
        f"<h2>torch_npu {text(release.torch_npu)}, torch {text(release.torch)}</h2>"
        f'<p class="answer">{html.of(lambda lang: compatible.headline(found, lang))}</p>'
        f'<div class="wide"><table><tr>{heads}</tr>{rows}</table></div>{host}'
        f'<div class="wide"><table>{wheels}</table></div>'
    )


def _row(answer: Answer, found: Compatibility, html: HtmlText) -> str:
    cells = (
        text(answer.name), html.of(lambda lang: i18n.say(lang, f"compat.status_{answer.status}")),
        f"{answer.calls:,}", text(", ".join(answer.dtypes)), text(answer.where or ""),
        html.of(lambda lang: compatible.why(answer, found, lang)),
        html.of(lambda lang: compatible.advice(answer, found, lang)),
    )  # fmt: skip
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
