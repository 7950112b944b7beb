"""The night's charts as SVG without a script: the series of a metric with its changes, and who moved most.

Colours are classes of night.css, so that light and dark need no second drawing; texts are escaped by HtmlText.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from npulens.app.nightly.night import Row
from npulens.app.nightly.written import figures
from npulens.app.report.html_text import HtmlText, text

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 1000, 190, 96, 14, 26
_LABEL, _PITCH = 330, 26
#: Units that say themselves how large they are; of others the axis shows the bare number.
_SHORT = ("ns", "bytes", "ms", "s", "us", "%")
#: A mover beyond this share is drawn at the edge, with its number beside it.
_MOST_SHARE = 0.5


def series(row: Row, html: HtmlText) -> str:
    """Every night of a metric: one dot a night, the level of each stretch, and where it changed."""
    spots = row.series
    if len(spots) < 2:
        return ""
    values = [spot.value for spot in spots]
    low, high = min(values), max(values)
    room = (high - low) * 0.12 or abs(high) * 0.05 or 1.0
    low, high = low - room, high + room
    step = (_WIDTH - _LEFT - 12) / max(1, len(spots) - 1)

    def x(place: int) -> float:
        return _LEFT + step * place

    def y(value: float) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (high - value) / (high - low)

    drawn = [_scale(row, low, high, y), *_levels(row, x, y)]
    for place, spot in enumerate(spots):
        last = place == len(spots) - 1
        css = "tonight" if last else "spot" if spot.usable else "spot left-out"
        name = f"{text(spot.night)}: {text(figures.number(spot.value, row.unit))}"
        drawn.append(f'<circle class="{css}" cx="{x(place):.1f}" cy="{y(spot.value):.1f}" r="{5 if last else 3.2}">'
                     f"<title>{name}</title></circle>")  # fmt: skip
    drawn.append(f'<text class="faint" x="{_LEFT}" y="{_HEIGHT - 6}">{text(spots[0].night)}</text>')
    drawn.append(f'<text class="faint" x="{_WIDTH - 12}" y="{_HEIGHT - 6}" text-anchor="end">'
                 f"{text(spots[-1].night)}</text>")  # fmt: skip
    label = html.langs[0]
    name = f"{figures.metric(label, row.metric)}, {row.task}"
    return (f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{text(name)}">'
            f"{''.join(drawn)}</svg>")  # fmt: skip


def _scale(row: Row, low: float, high: float, y: Callable[[float], float]) -> str:
    lines = []
    for share in (0.15, 0.5, 0.85):
        value = low + (high - low) * share
        said = figures.number(value, row.unit) if row.unit in _SHORT else figures.plain(value)
        lines.append(f'<path class="grid" d="M{_LEFT} {y(value):.1f}H{_WIDTH}"/>'
                     f'<text class="faint" x="{_LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end">'
                     f"{text(said)}</text>")  # fmt: skip
    return "".join(lines)


def _levels(row: Row, x: Callable[[int], float], y: Callable[[float], float]) -> list[str]:
    """The median of every stretch between two changes, with the noise around it."""
    nights = [spot.night for spot in row.series]
    edges = sorted({nights.index(night) for night in row.changes if night in nights} | {0, len(nights)})
    drawn = []
    for first, last in zip(edges, edges[1:], strict=False):
        values = sorted(spot.value for spot in row.series[first:last] if spot.usable)
        if not values:
            continue
        level = values[len(values) // 2]
        begin, end = x(first) - 4, x(last - 1) + 4
        if row.floor:
            top, bottom = y(level * (1 + row.floor)), y(level * (1 - row.floor))
            drawn.append(f'<rect class="band" x="{begin:.1f}" y="{top:.1f}" width="{end - begin:.1f}" '
                         f'height="{max(bottom - top, 1):.1f}"/>')  # fmt: skip
        drawn.append(f'<path class="level" d="M{begin:.1f} {y(level):.1f}H{end:.1f}"/>')
        if first:
            middle = (x(first) + x(first - 1)) / 2
            drawn.append(f'<path class="change" d="M{middle:.1f} {_TOP - 8}V{_HEIGHT - _BOTTOM}"/>')
            side, anchor = (-5, "end") if middle > 0.85 * _WIDTH else (5, "start")
            drawn.append(f'<text class="faint" x="{middle + side:.1f}" y="{_TOP}" text-anchor="{anchor}">'
                         f"{text(nights[first])}</text>")  # fmt: skip
    return drawn


def movers(rows: Sequence[Row], html: HtmlText) -> str:
    """Each change with its interval, on one axis: right of the middle is more, left is less."""
    known = [row for row in rows if row.ratio is not None]
    if not known:
        return ""
    reach = max(abs(edge - 1) for row in known for edge in (row.ratio, row.low, row.high) if edge is not None)
    reach = min(max(reach, 0.01), _MOST_SHARE)
    middle = _LABEL + (_WIDTH - _LABEL - 110) / 2
    scale = (_WIDTH - _LABEL - 110) / 2 / reach

    def x(ratio: float) -> float:
        return middle + max(-reach, min(reach, ratio - 1)) * scale

    drawn = [f'<path class="axis" d="M{middle:.1f} 0V{len(known) * _PITCH}"/>']
    for place, row in enumerate(known):
        at = place * _PITCH + _PITCH / 2
        drawn.append(_mover(row, at, x, html))
    return (f'<svg class="chart" viewBox="0 0 {_WIDTH} {len(known) * _PITCH}" role="img">'
            f"{''.join(drawn)}</svg>")  # fmt: skip


def _mover(row: Row, at: float, x: Callable[[float], float], html: HtmlText) -> str:
    assert row.ratio is not None
    name = html.drawn(lambda lang: _cut(f"{row.task} · {figures.metric(lang, row.metric)}"),
                        f'x="{_LABEL - 10}" y="{at + 4}" text-anchor="end"')  # fmt: skip
    reach = "" if row.low is None or row.high is None else (
        f'<path class="reach v-{row.verdict}" d="M{x(row.low):.1f} {at}H{x(row.high):.1f}"/>')  # fmt: skip
    dot = f'<circle class="v-{row.verdict}" cx="{x(row.ratio):.1f}" cy="{at}" r="5"/>'
    said = f'<text x="{_WIDTH - 4}" y="{at + 4}" text-anchor="end">{text(figures.change(row.ratio))}</text>'
    return name + reach + dot + said


def _cut(name: str, most: int = 46) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


def part(delta_ns: int, most: int) -> str:
    """One bar of where a change comes from: to the right what was added, to the left what was saved."""
    width = 100 * abs(delta_ns) / most if most else 0.0
    x = 100 if delta_ns > 0 else 100 - width
    css = "v-regressed" if delta_ns > 0 else "v-improved"
    return (f'<svg class="saving" viewBox="0 0 200 12" preserveAspectRatio="none" aria-hidden="true">'
            f'<rect class="p-rest" width="200" height="12"/>'
            f'<rect class="{css}" x="{x:.2f}" width="{width:.2f}" height="12"/></svg>')  # fmt: skip
