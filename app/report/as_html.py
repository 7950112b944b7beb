"""One HTML page that needs nothing else: no network, no script, styles and drawings inside, light and dark.

Both languages are in it; two radio buttons and CSS show one. Whatever comes from a trace passes HtmlText or `text`,
which escape it, and the page's own policy forbids scripts and requests besides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files

from npulens.analysis.engine import Check
from npulens.analysis.finding import Finding
from npulens.analysis.say import Whole, duration, number
from npulens.app.charts import roles
from npulens.app.charts.parts import PARTS
from npulens.app.report import drawing
from npulens.app.report.html_text import HtmlText, text
from npulens.app.report.subject import Scene, Subject
from npulens.app.text import wording
from npulens.app.text.i18n import count, ranges, say

_TERMS = ("step", "saving", "share", "severity", "evidence", "masked", "clean", "unmeasured")


def thresholds(subject: Subject, html: HtmlText) -> str:
    """Each detector's limits: value, unit, where the number comes from, and whether npulens.toml changed it."""
    rows = []
    for detector in subject.detectors:
        changed = subject.limits.get(detector.name, {})
        for limit in fields(detector.limits):
            value = f"{limit.default:g}"
            if limit.name in changed:
                values = {"value": f"{changed[limit.name]:g}", "default": value}
                value = html.say("report.overridden", values)
            rows.append(
                f"<tr><td>{text(detector.name)}</td>"
                f"<td>{html.about(limit.name, wording.limit_name)} <code>{text(limit.name)}</code></td>"
                f'<td class="n">{value}</td><td>{text(limit.metadata.get("unit", ""))}</td>'
                f"<td>{text(limit.metadata.get('source', ''))}</td></tr>"
            )
    head = (
        f"<tr><th>{html.say('findings.detector')}</th><th>{html.say('report.col_limit')}</th>"
        f"<th class=n>{html.say('findings.col_value')}</th><th>{html.say('report.col_unit')}</th>"
        f"<th>{html.say('report.col_source')}</th></tr>"
    )
    note = html.say("report.thresholds_note")
    return (
        f"<h2>{html.say('report.thresholds')}</h2><details><summary>{note}</summary>"
        f'<div class="wide"><table>{head}{"".join(rows)}</table></div></details>'
    )


def definitions(html: HtmlText) -> str:
    """What the words of the report mean."""
    terms = "".join(
        f"<dt><b>{html.say(f'report.{term}')}</b></dt><dd>{html.say(f'report.{term}_means')}</dd>" for term in _TERMS
    )
    return f"<h2>{html.say('report.definitions')}</h2><dl>{terms}</dl>"


_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_SWITCH = (
    '<input class="switch" type="radio" name="lang" id="lang-en" {en}>'
    '<input class="switch" type="radio" name="lang" id="lang-zh" {zh}>'
    '<nav><label for="lang-en">English</label><label for="lang-zh">中文</label></nav>'
)


def write(subjects: Sequence[Subject], langs: tuple[str, ...]) -> str:
    """The page for one or more runs."""
    html = HtmlText(langs)
    names = ", ".join(subject.name for subject in subjects)
    title = text(say(langs[0], "report.title", {"names": names}))
    body = _contents(subjects, html) + "".join(part for subject in subjects for part in _run(subject, html))
    made = html.say("report.made", {"version": made_by()})
    return framed(title, langs, f"{body}{definitions(html)}<footer>{made}</footer>")


def framed(title: str, langs: tuple[str, ...], body: str, more_style: str = "") -> str:
    """A whole page around a body: its policy, its styles, the switch of languages."""
    style = files("npulens.app.report").joinpath("report.css").read_text("utf-8") + roles.css() + more_style
    switch = _SWITCH.format(en="checked", zh="") if len(langs) > 1 else ""
    return (
        f'<!doctype html>\n<html lang="{langs[0]}"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="referrer" content="no-referrer">'
        f"<title>{title}</title><style>{style}</style></head><body>{switch}<main>{body}</main></body></html>\n"
    )


def made_by() -> str:
    """The version of the installed distribution; a bare checkout has none."""
    try:
        return version("npulens")
    except PackageNotFoundError:
        return "(checkout)"


def _contents(subjects: Sequence[Subject], html: HtmlText) -> str:
    """Of several runs, each with its one sentence."""
    if len(subjects) < 2:
        return ""
    entries = "".join(
        f'<li><a href="#{subject.info.run_id}">{text(subject.name)}</a>: '
        f"{html.about(subject, lambda s, lang: wording.answer(s.check, lang))}</li>"
        for subject in subjects
    )
    return f"<ul>{entries}</ul>"


def _run(subject: Subject, html: HtmlText) -> Iterator[str]:
    check = subject.check
    yield f'<h1 id="{text(subject.info.run_id)}">{text(subject.name)}</h1>'
    yield f"<p>{html.of(lambda lang: _what(subject, lang))}</p>"
    yield f'<p class="answer">{html.of(lambda lang: wording.answer(check, lang))}</p>'
    if check.kernels is not None:
        yield f"<p>{html.of(lambda lang: wording.kernels(check, lang)[0])}</p>"
    yield f"<p>{html.of(lambda lang: wording.quality(check, lang))}</p>"
    yield f"<h2>{html.say('report.ranking')}</h2>"
    yield _ranking(check, html)
    yield _split(subject, html)
    if check.findings:
        yield f"<h2>{html.say('report.findings')}</h2>"
    for place, (finding, scene) in enumerate(zip(check.findings, subject.scenes, strict=True), 1):
        yield "".join(_finding(place, finding, scene, check.whole, html))
    yield from _others(check, html)
    yield from _quality(check, html)
    yield thresholds(subject, html)


def _what(subject: Subject, lang: str) -> str:
    """Which run this is: ranks, formats, steps."""
    info = subject.info
    known = {f"shell.format_{name}": name for name in info.formats}
    values = {
        "n": len(info.ranks), "ranks": ranges(info.ranks), "world": count(info.world_size),
        "formats": say(lang, "runs.and").join(wording.text_of(lang, key, name) for key, name in known.items()),
    }  # fmt: skip
    only = info.world_size == 1 and len(info.ranks) == 1
    every = info.world_size == len(info.ranks)
    key = "holds" if info.world_size is None else "holds_only" if only else "holds_all" if every else "holds_of"
    steps = say(lang, "runs.with_steps" if info.steps else "runs.no_steps",
                {"n": info.steps, "length": duration(info.dur_ns or 0)})  # fmt: skip
    return say(lang, f"runs.{key}", values) + steps + say(lang, "runs.stop")


def _ranking(check: Check, html: HtmlText) -> str:
    if not check.findings:
        return f"<p>{html.say('report.no_findings')}</p>"
    most = max(finding.saving_share for finding in check.findings)
    rows = "".join(
        f'<tr><td class="n">{place}</td><td>{html.about(finding, lambda f, lang: f.words[lang].title)}</td>'
        f'<td class="bar">{drawing.saving(finding.saving_share, most)}</td>'
        f'<td class="n">{html.about(finding, wording.saved)}</td>'
        f'<td class="n">{wording.share(finding.saving_share)}</td></tr>'
        for place, finding in enumerate(check.findings, 1)
    )
    head = (f'<tr><th class="n">#</th><th>{html.say("report.col_finding")}</th><th colspan="3">'
            f"{html.say('report.col_saving')}</th></tr>")  # fmt: skip
    said = html.of(lambda lang: wording.together(check, lang) or "")
    note = html.say("findings.ceiling")
    return f'<div class="wide"><table>{head}{rows}</table></div><p>{said}</p><p class="quiet">{note}</p>'


def _split(subject: Subject, html: HtmlText) -> str:
    picture, left_out = drawing.split(subject.rows, html)
    head = f"<h2>{html.say('report.split')}</h2>"
    if not picture:
        return f"{head}<p>{html.say('report.split_none')}</p>"
    used = [part for part in PARTS if f'class="part p-{part.css}"' in picture]
    legend = _legend([(f"p-{part.css}", html.say(f"breakdown.{part.key}")) for part in used])
    rest = f"<p>{html.say('report.split_rest', {'n': left_out})}</p>" if left_out else ""
    meanings = "".join(
        f"<dt>{html.say(f'breakdown.{part.key}')}</dt><dd>{html.say(f'breakdown.{part.key}_means')}</dd>"
        for part in used
    )
    more = f"<details><summary>{html.say('report.definitions')}</summary><dl>{meanings}</dl></details>"
    return f"{head}{legend}<figure>{picture}</figure>{rest}{more}"


def _legend(entries: Sequence[tuple[str, str]]) -> str:
    box = '<svg viewBox="0 0 10 10" aria-hidden="true"><rect class="{}" width="10" height="10"/></svg>'
    return '<div class="legend">' + "".join(f"<span>{box.format(css)}{name}</span>" for css, name in entries) + "</div>"


def _finding(place: int, finding: Finding, scene: Scene, of_what: Whole, html: HtmlText) -> Iterator[str]:
    given = html.about(finding, lambda one, lang: wording.gives_back(one, lang, of_what))
    severity = html.say(f"findings.severity_{finding.severity}")
    sure = html.of(lambda lang: say(lang, "findings.confidence", {
        "value": say(lang, f"findings.confidence_{finding.confidence}")}))  # fmt: skip
    yield (
        f'<article><header><b>{place}. {given}</b><span class="tag {finding.severity}">{severity}</span>'
        f'<span class="quiet">{text(finding.detector)}</span><span class="quiet">{sure}</span></header>'
    )
    yield f"<h3>{html.of(lambda lang: finding.words[lang].title)}</h3>"
    yield f'<p class="quiet">{html.of(lambda lang: wording.cause(finding, lang))}</p>'
    yield f"<h4>{html.say('findings.advice')}</h4><p>{html.of(lambda lang: finding.words[lang].advice)}</p>"
    if wording.interval(finding, "en"):
        yield f"<p>{html.of(lambda lang: wording.interval(finding, lang) or '')}</p>"
    yield f"<h4>{html.say('findings.evidence', {'n': len(finding.evidence)})}</h4>"
    if scene.whole:
        yield _figure(drawing.timeline(scene.whole, finding.evidence, html), html.say("report.whole_run"))
    if scene.near:
        yield _figure(drawing.timeline([scene.near], finding.evidence, html), html.say("report.near"))
    yield f'<p class="quiet">{html.say("findings.evidence_means")}</p>'
    yield _evidence(finding, html) + _numbers(finding, html) + "</article>"


def _figure(picture: str, caption: str) -> str:
    return f"<figure><figcaption>{caption}</figcaption>{picture}</figure>"


def _evidence(finding: Finding, html: HtmlText) -> str:
    rows = "".join(
        f'<tr><td class="n">{e.rank}</td><td class="n">{duration(e.ts_ns)}</td>'
        f'<td class="n">{duration(e.dur_ns)}</td><td>{text(e.note)}</td>'
        f'<td class="n">{"" if e.span_id is None else e.span_id}</td></tr>'
        for e in finding.evidence
    )
    head = _head(html, ("rank", 1), ("start", 1), ("length", 1), ("note", 0), ("span", 1))
    summary = html.of(lambda lang: wording.first_moment(finding, lang))
    return f'<details><summary>{summary}</summary><div class="wide"><table>{head}{rows}</table></div></details>'


def _numbers(finding: Finding, html: HtmlText) -> str:
    rows = "".join(
        f'<tr><td>{html.about(name, wording.number_name)}</td><td class="n">{text(number(name, value))}</td></tr>'
        for name, value in wording.shown_numbers(finding)
    )
    return f"<details><summary>{html.say('findings.numbers')}</summary><table>{rows}</table></details>"


def _others(check: Check, html: HtmlText) -> Iterator[str]:
    yield f"<h2>{html.say('report.others')}</h2><p>{html.of(lambda lang: wording.outcomes(check, lang))}</p>"
    titles = (("masked", "masked"), ("clean", "clean"), ("not_measured", "not_measured"), ("failed", "broken"))
    for outcome, title in titles:
        ended = [found for found in check.outcomes if found.outcome == outcome]
        if not ended:
            continue
        told = wording.unmeasured if outcome == "not_measured" else wording.reason
        rows = "".join(f"<tr><td>{text(found.detector)}</td><td>{html.about(found, told)}</td></tr>" for found in ended)
        head = _head(html, ("detector", 0), ("reason", 0), words="findings.")
        yield f"<h3>{html.say(f'findings.{title}')}</h3><table>{head}{rows}</table>"
    if check.not_looked_for:
        unseen = html.of(lambda lang: wording.not_looked_for(check, lang) or "")
        yield f"<h3>{html.say('findings.not_looked_for')}</h3><p>{unseen}</p>"


def _quality(check: Check, html: HtmlText) -> Iterator[str]:
    quality = check.quality
    yield f"<h2>{html.say('report.quality')}</h2><p>{html.of(lambda lang: wording.quality(check, lang))}</p>"
    if quality.missing:
        yield f"<h3>{html.say('findings.missing')}</h3><table>"
        for entry in quality.missing:
            yield (
                f"<tr><td>{html.about(entry, lambda e, lang: wording.of(lang, e.what))}</td>"
                f"<td>{html.about(entry, lambda e, lang: wording.why(e, lang))}</td>"
                f"<td>{html.about(entry, lambda e, lang: wording.remedy(e.collect_with, lang))}</td></tr>"
            )
        yield "</table>"
    if quality.doubts:
        entries = "".join(f"<li>{html.about(doubt, lambda d, lang: wording.of(lang, d.text))}</li>"
                          for doubt in quality.doubts)  # fmt: skip
        yield f"<h3>{html.say('findings.doubts')}</h3><ul>{entries}</ul>"
    yield f"<h3>{html.say('findings.collect')}</h3><p>{html.of(lambda lang: wording.collect(check, lang))}</p>"
    for lang in html.langs:
        yield f'<pre class="{lang}" lang="{lang}"><code>{_code(check, lang)}</code></pre>'
    rows = "".join(
        f"<tr><td>{html.about(part, lambda p, lang: wording.of(lang, p.text))}</td>"
        f'<td class="n">{part.points}</td><td class="n">{wording.share(part.share)}</td></tr>'
        for part in quality.parts
    )
    head = _head(html, ("part", 0), ("points", 1), ("share", 1))
    rule = html.of(lambda lang: wording.points(check, lang))
    yield (f"<details><summary>{html.say('findings.score')}</summary><p>{rule}</p>"
           f"<table>{head}{rows}</table></details>")  # fmt: skip


def _code(check: Check, lang: str) -> str:
    return "\n".join(text(line) for line in check.quality.collect.code(lang).split("\n"))


def _head(html: HtmlText, *columns: tuple[str, int], words: str = "findings.col_") -> str:
    cells = (f"<th{' class=n' if right else ''}>{html.say(words + name)}</th>" for name, right in columns)
    return f"<tr>{''.join(cells)}</tr>"
