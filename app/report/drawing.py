"""The report's charts as SVG: the split of each step, what each finding gives back, where its evidence lies.

Widths are in units of a drawing 1000 wide that scales with the page. Colours are classes: those of roles.py, the
rest in report.css. Light and dark need no second drawing. Texts are escaped by HtmlText; everything else here is a
number.
"""

from __future__ import annotations

from collections.abc import Sequence

from npulens.analysis.device.strip import Strip
from npulens.analysis.finding import Evidence
from npulens.analysis.split import Row
from npulens.app.charts.parts import PARTS, lengths
from npulens.app.report.html_text import HtmlText
from npulens.app.text import i18n

_WIDTH, _LABEL, _BAR, _PITCH = 1000, 150, 20, 27
#: More bars than this are not looked at one by one. Ranks as a whole are drawn instead, then the first so many.
MOST_BARS = 40
_LEAST = 2.0  # width of a moment that would be too thin to see


def split(rows: Sequence[Row], html: HtmlText) -> tuple[str, int]:
    """Stacked bars, one a rank and step; the drawing and how many rows it leaves out."""
    known = [row for row in rows if row.dur_ns and row.computing_ns is not None]
    steps = [row for row in known if row.step is not None]
    every = steps if 0 < len(steps) <= MOST_BARS else [row for row in known if row.step is None]
    shown = every[:MOST_BARS]
    if not shown:
        return "", 0
    longest = max(row.dur_ns or 0 for row in shown)
    scale = (_WIDTH - _LABEL) / longest
    parts = [_row(row, place, scale, html) for place, row in enumerate(shown)]
    return _svg("".join(parts), _PITCH * len(shown)), len(every) - len(shown)


def _row(row: Row, place: int, scale: float, html: HtmlText) -> str:
    y = place * _PITCH
    label = "breakdown.rank_all" if row.step is None else "breakdown.rank_step"
    drawn = [html.drawn(lambda lang: i18n.say(lang, label, {"rank": row.rank, "step": row.step}),
                          f'x="{_LABEL - 8}" y="{y + 14}" text-anchor="end"')]  # fmt: skip
    x, held = float(_LABEL), lengths(row)
    for part in PARTS:
        if width := held.get(part.key, 0) * scale:
            name = f"{i18n.duration(held[part.key])} · {i18n.share(held[part.key], row.dur_ns)}"
            drawn.append(
                f'<rect class="part p-{part.css}" x="{x:.2f}" y="{y}" width="{width:.2f}" height="{_BAR}">'
                f"<title>{name}</title></rect>"
            )
            if width > 140:
                drawn.append(f'<text class="on-{part.css}" x="{x + width / 2:.2f}" y="{y + 14}" '
                             f'text-anchor="middle">{name}</text>')  # fmt: skip
            x += width
    return "".join(drawn)


def saving(share: float, most: float) -> str:
    """One bar of the ranking: this finding's share against the largest."""
    width = 200 * share / most if most > 0 else 0.0
    return (
        '<svg class="saving" viewBox="0 0 200 12" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="p-rest" width="200" height="12"/><rect class="p-saving" width="{width:.2f}" height="12"/></svg>'
    )


def timeline(strips: Sequence[Strip], evidence: Sequence[Evidence], html: HtmlText) -> str:
    """What the device did, one strip a rank, steps marked off, and the moments of the evidence across it."""
    pitch, drawn = 46, []
    for place, strip in enumerate(strips):
        y, scale = place * pitch, (_WIDTH - _LABEL) / max(1, strip.end_ns - strip.begin_ns)
        drawn.append(f'<text x="{_LABEL - 8}" y="{y + 25}" text-anchor="end">rank {strip.rank}</text>')
        drawn.append(f'<rect class="p-rest" x="{_LABEL}" y="{y}" width="{_WIDTH - _LABEL}" height="36"/>')
        for lane, (key, shares) in enumerate(
            (("computing", strip.computing), ("transferring", strip.communication), ("copying", strip.copy))
        ):
            if path := _columns(shares, y + 12 * lane, 12):
                drawn.append(f'<path class="p-{key} back" d="{path}"/>')
        for _, start, _ in strip.steps:
            if start > strip.begin_ns:
                x = _LABEL + (start - strip.begin_ns) * scale
                drawn.append(f'<path class="step" d="M{x:.2f} {y}v36"/>')
        drawn.extend(_moments(strip, evidence, y, scale))
    drawn.extend(_axis(strips, len(strips) * pitch))
    return _svg("".join(drawn), len(strips) * pitch + 12)


def _moments(strip: Strip, evidence: Sequence[Evidence], y: int, scale: float) -> list[str]:
    drawn = []
    for moment in evidence:
        begin, end = max(moment.ts_ns, strip.begin_ns), min(moment.ts_ns + moment.dur_ns, strip.end_ns)
        if moment.rank != strip.rank or end < begin:
            continue
        width = max(_LEAST, (end - begin) * scale)
        x = min(_LABEL + (begin - strip.begin_ns) * scale, _WIDTH - width)
        drawn.append(f'<rect class="moment" x="{x:.2f}" y="{y}" width="{width:.2f}" height="36"/>')
    return drawn


def _columns(shares: Sequence[float], y: int, height: int) -> str:
    """One path of columns, as high as the share of each slice; equal neighbours are one column."""
    width = (_WIDTH - _LABEL) / max(1, len(shares))
    path, first = [], 0
    for place in range(1, len(shares) + 1):
        if place < len(shares) and shares[place] == shares[first]:
            continue
        if shares[first] > 0:
            high = height * shares[first]
            across = (place - first) * width
            path.append(f"M{_LABEL + first * width:.1f} {y + height - high:.1f}h{across:.1f}v{high:.1f}h{-across:.1f}z")
        first = place
    return "".join(path)


def _axis(strips: Sequence[Strip], y: int) -> list[str]:
    if not strips:
        return []
    first = strips[0]
    return [
        f'<text class="faint" x="{_LABEL}" y="{y + 6}">{i18n.duration(first.begin_ns)}</text>',
        f'<text class="faint" x="{_WIDTH}" y="{y + 6}" text-anchor="end">{i18n.duration(first.end_ns)}</text>',
    ]


def _svg(inside: str, height: int) -> str:
    return f'<svg class="chart" viewBox="0 0 {_WIDTH} {height}" role="img">{inside}</svg>'
