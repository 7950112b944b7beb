"""One HTML page of a night that needs nothing else: no network, no script; made to be forwarded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from importlib.resources import files

from npulens.analysis.say import share
from npulens.app.nightly.events import Event, events
from npulens.app.nightly.night import ORDER, Night, Row, Share, by_kernel
from npulens.app.nightly.written import drawing, figures, night_text
from npulens.app.report.as_html import framed
from npulens.app.report.html_text import HtmlText, text
from npulens.app.text.i18n import say

#: Rows of the chart of movers, and parts of a change that are drawn.
_MOVERS, _PARTS = 16, 8
#: A page of more rows than this leaves out charts of what did not move; the table holds everything.
_DEFINED = ("regressed", "open", "likely", "fixed", "machine", "same", "ambiguous", "young")


def write(night: Night, langs: tuple[str, ...]) -> str:
    """The page."""
    html = HtmlText(langs)
    title = text(say(langs[0], "nightly.title", night_text.named(night)))
    style = files("npulens.app.nightly.written").joinpath("night.css").read_text("utf-8")
    return framed(title, langs, "".join(_body(night, html)), style)


def _body(night: Night, html: HtmlText) -> Iterator[str]:
    yield f"<h1>{html.say('nightly.title', night_text.named(night))}</h1>"
    yield f'<p class="answer o-{night.outcome}">{html.of(lambda lang: night_text.headline(night, lang))}</p>'
    yield f"<p>{html.of(lambda lang: night_text.counts(night, lang))}</p>"
    if link := night_text.link(night, "Nights", {"night": night.label, "name": night.name}):
        yield f"<p>{_link(link, html.say('nightly.open_night'))}</p>"
    yield from _lost(night, html)
    found = events(night)
    yield f"<h2>{html.say('nightly.moved')}</h2>"
    yield _events(found, html) if found else f"<p>{html.say('nightly.moved_none')}</p>"
    for event in found:
        if len(event.rows) > 1:
            yield f"<h3>{html.about(event, night_text.event_named)}</h3>"
        yield "".join(_article(night, event.lead, html))
        if others := "".join(part for row in event.rows[1:] for part in _article(night, row, html)):
            label = html.say("nightly.more_metrics", {"n": len(event.rows) - 1})
            yield f"<details><summary>{label}</summary>{others}</details>"
    yield from _movers(night, html)
    yield f"<h2>{html.say('nightly.everything')}</h2>{_table(night, html)}"
    yield f"<h2>{html.say('nightly.tasks')}</h2>{_tasks(night, html)}"
    yield _definitions(html)
    made = {"version": night.made_by, "took": figures.length(night.seconds), "budget": figures.length(night.budget_s)}
    yield f"<footer>{html.say('nightly.made', made)}</footer>"


def _lost(night: Night, html: HtmlText) -> Iterator[str]:
    wrong = [task for task in night.tasks if task.status != "done"]
    if not wrong and not night.notices:
        return
    yield f"<h2>{html.say('nightly.lost')}</h2><ul>"
    for task in wrong:
        yield f"<li>{html.about(task, lambda t, lang: night_text.failure(t, lang))}</li>"
    for notice in night.notices:
        yield f"<li>{html.about(notice, lambda n, lang: night_text.said(n, lang))}</li>"
    yield "</ul>"


def _events(found: Sequence[Event], html: HtmlText) -> str:
    """One line an event, with its metrics below it."""
    heads = (("verdict", 0), ("event", 0), ("change", 1), ("since", 0))
    lines = []
    for event in found:
        count = range(len(night_text.event_lines(event, "en")))
        rows = "".join(f"<li>{html.of(partial(_line, event, place))}</li>" for place in count)
        lines.append(
            f'<tr><td class="t-{event.verdict}">{html.about(event.lead, night_text.tagged)}</td>'
            f"<td><b>{html.about(event, night_text.event_named)}</b><ul>{rows}</ul></td>"
            f'<td class="n">{text(night_text.event_change(event))}</td><td>{text(event.lead.since or "")}</td></tr>'
        )
    return f'<div class="wide"><table class="events">{_head(html, heads)}{"".join(lines)}</table></div>'


def _line(event: Event, place: int, lang: str) -> str:
    return night_text.event_lines(event, lang)[place]


def _article(night: Night, row: Row, html: HtmlText) -> Iterator[str]:
    name = html.of(lambda lang: f"{row.task} · {figures.metric(lang, row.metric)}")
    yield (f'<article><header><b class="t-{row.verdict}">{text(figures.change(row.ratio))}</b>'
           f'<span class="tag t-{row.verdict}">{html.of(lambda lang: night_text.tagged(row, lang))}</span>'
           f'<span class="quiet">{text(figures.interval(row))}</span>'
           f'<span class="quiet">{html.of(lambda lang: night_text.judged_by(row, lang))}</span>'
           "</header>")  # fmt: skip
    since = f", {html.say('nightly.since', {'night': row.since})}" if row.since else ""
    yield f"<h3>{name}</h3><p>{html.of(lambda lang: night_text.was(row, lang))}{since}</p>"
    yield f'<p class="quiet">{text(row.where)}</p>'
    if picture := drawing.series(row, html):
        yield f"<figure>{picture}</figure>"
    count = len(night_text.why(row, "en"))
    reasons = [html.about(place, lambda at, lang: night_text.why(row, lang)[at]) for place in range(count)]
    if reasons:
        yield f"<h4>{html.say('nightly.why')}</h4><ul>{''.join(f'<li>{reason}</li>' for reason in reasons)}</ul>"
    for key, command in (("confirm", row.confirm), ("next", row.next)):
        if command:
            yield f"<p>{html.say(f'nightly.{key}')}</p><pre><code>{text(command)}</code></pre>"
    yield _parts(row, html)
    links = _links(night, row, html)
    yield (f'<p class="links">{" ".join(links)}</p>' if links else "") + "</article>"


def _parts(row: Row, html: HtmlText) -> str:
    """Kernels, gaps, copies and transfers that the change consists of; with the rest they are the change."""
    if not row.parts:
        return ""
    kernels = by_kernel(row.parts)
    most = max(abs(sum(part.delta_ns for part in kernel)) for kernel in kernels) or 1
    lines = "".join(_kernel(kernel, most, html) for kernel in kernels[:_PARTS])
    rest = sum(part.delta_ns for kernel in kernels[_PARTS:] for part in kernel) + row.rest_ns
    sums = (("others", rest), ("residual", row.residual_ns or 0), ("whole", row.parts_ns or 0))
    lines += "".join(f'<tr><td colspan="3">{html.say(f"nightly.{name}")}</td><td class="n">{_signed(ns)}</td></tr>'
                     for name, ns in sums)  # fmt: skip
    return f'<h4>{html.say("nightly.parts")}</h4><div class="wide"><table>{lines}</table></div>'


def _kernel(kernel: Sequence[Share], most: int, html: HtmlText) -> str:
    """A kernel with the sum of its shapes, and the shapes below it; a gap or a copy in one line."""
    whole = sum(part.delta_ns for part in kernel)
    line = (
        f"<tr><td>{html.about(kernel[0], night_text.part)}</td>"
        f'<td class="quiet kind">{html.say(f"verdict.kind_{kernel[0].kind}")}</td>'
        f'<td class="bar">{drawing.part(whole, most)}</td><td class="n">{_signed(whole)}</td></tr>'
    )
    shapes = (
        f'<tr class="shape"><td colspan="3">{text(part.shapes)}</td><td class="n">{_signed(part.delta_ns)}</td></tr>'
        for part in kernel if part.shapes
    )  # fmt: skip
    return line + "".join(shapes)


def _signed(ns: int) -> str:
    return text(figures.signed(ns))


def _links(night: Night, row: Row, html: HtmlText) -> list[str]:
    wanted = [("History", "open_history", {"identity": row.identity, "metric": row.metric})]
    if row.run_id:
        wanted.append(("", "open_run", {"run": row.run_id}))
    if row.run_id and row.base_run:
        wanted.append(("Compare", "open_compare", {"head": row.run_id, "base": row.base_run}))
    found = ((night_text.link(night, page, query), key) for page, key, query in wanted)
    return [_link(link, html.say(f"nightly.{key}")) for link, key in found if link]


def _link(link: str, label: str) -> str:
    return f'<a href="{text(link)}" rel="noreferrer">{label}</a>'


def _movers(night: Night, html: HtmlText) -> Iterator[str]:
    known = [row for row in night.rows if row.ratio is not None]
    shown = sorted(known, key=lambda row: -abs((row.ratio or 1) - 1))[:_MOVERS]
    if shown:
        yield f"<h2>{html.say('nightly.movers')}</h2><figure>{drawing.movers(shown, html)}</figure>"
        yield f'<p class="quiet">{html.say("nightly.movers_note")}</p>'


def _table(night: Night, html: HtmlText) -> str:
    rows = sorted(night.rows, key=lambda row: (ORDER.index(row.verdict), row.task, row.metric))
    heads = (("task", 0), ("metric", 0), ("verdict", 0), ("change", 1), ("interval", 1), ("tonight", 1), ("before", 1),
             ("noise", 1), ("by", 0))  # fmt: skip
    body = "".join(
        f"<tr><td>{text(row.task)}</td><td>{html.about(row, lambda r, lang: figures.metric(lang, r.metric))}</td>"
        f'<td class="t-{row.verdict}">{html.about(row, lambda r, lang: night_text.tagged(r, lang))}</td>'
        f'<td class="n">{text(figures.change(row.ratio))}</td><td class="n">{text(figures.interval(row))}</td>'
        f'<td class="n">{text(figures.number(row.value, row.unit))}</td>'
        f'<td class="n">{text(figures.number(row.level, row.unit))}</td>'
        f'<td class="n">{"–" if row.floor is None else share(row.floor)}</td>'
        f"<td>{html.about(row, lambda r, lang: night_text.judged_by(r, lang))}</td></tr>"
        f"{_reasons(row, html, len(heads))}"
        for row in rows
    )
    return f'<div class="wide"><table class="rows">{_head(html, heads)}{body}</table></div>'


def _reasons(row: Row, html: HtmlText, width: int) -> str:
    """Why, below the figures of a metric over the whole width: beside them it was cut off."""
    if not night_text.why(row, "en"):
        return ""
    reasons = html.about(row, lambda r, lang: " ".join(night_text.why(r, lang)))
    return f'<tr class="why"><td colspan="{width}">{reasons}</td></tr>'


def _tasks(night: Night, html: HtmlText) -> str:
    heads = (("task", 0), ("status", 0), ("sessions", 1), ("took", 1), ("why", 0))
    body = "".join(
        f"<tr><td>{text(task.name)}</td><td>{html.say(f'nightly.status_{task.status}')}</td>"
        f'<td class="n">{task.done}/{task.planned}</td><td class="n">{figures.length(task.seconds)}</td>'
        f"<td>{html.about(task, lambda t, lang: night_text.said(t.reason, lang) if t.reason else '')}</td></tr>"
        for task in night.tasks
    )
    return f'<div class="wide"><table>{_head(html, heads)}{body}</table></div>'


def _head(html: HtmlText, heads: tuple[tuple[str, int], ...]) -> str:
    cells = (f'<th{" class=n" if right else ""}>{html.say(f"nightly.col_{name}")}</th>' for name, right in heads)
    return f"<tr>{''.join(cells)}</tr>"


def _definitions(html: HtmlText) -> str:
    terms = "".join(
        f"<dt><b>{html.say(f'nightly.verdict_{word}')}</b></dt><dd>{html.say(f'nightly.def_{word}')}</dd>"
        for word in _DEFINED
    )
    return f"<h2>{html.say('nightly.definitions')}</h2><dl>{terms}</dl>"
