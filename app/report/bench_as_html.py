"""A benchmark as one HTML page that needs nothing else, in both languages."""

from __future__ import annotations

from importlib.resources import files

import duckdb

from npulens.analysis.look import bench as look
from npulens.app.pages.bench import sentences
from npulens.app.report.html_text import HtmlText, text
from npulens.app.text import i18n

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_WIDTH, _HEIGHT, _LEFT = 1000, 300, 60
#: A figure is read on one line; a table that is wider than the page scrolls.
_ONE_LINE = ".wide th,.wide td{white-space:nowrap;overflow-wrap:normal}"
_SWITCH = (
    '<input class="switch" type="radio" name="lang" id="lang-en" checked>'
    '<input class="switch" type="radio" name="lang" id="lang-zh">'
    '<nav><label for="lang-en">English</label><label for="lang-zh">中文</label></nav>'
)


def write(found: look.Bench, con: duckdb.DuckDBPyConnection) -> str:
    """The page."""
    html = HtmlText(("en", "zh"))
    name = text(found.about.get("workload") or "")
    style = files("npulens.app.report").joinpath("report.css").read_text("utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{name}</title><style>{style}{_ONE_LINE}</style></head><body>{_SWITCH}<main>"
        f"<h1>{name}</h1>{_head(found, html)}{''.join(_part(found, con, part, html) for part in sentences.PARTS)}"
        f"{_about(found, html)}</main></body></html>\n"
    )


def _head(found: look.Bench, html: HtmlText) -> str:
    best = look.headline(found)
    answer = html.of(lambda lang: sentences.sentence(best, lang)) if best else html.say("bench.no_versus")
    what = html.of(lambda lang: i18n.say(lang, "bench.what", {
        "workload": found.about.get("workload"), "shape": found.about.get("shape"),
        "device": found.device or i18n.say(lang, "bench.unknown"),
        "evidence": i18n.say(lang, f"bench.evidence_{found.about.get('evidence')}"),
    }))  # fmt: skip
    return f'<p class="answer">{answer}</p><p>{what}</p>'


def _part(found: look.Bench, con: duckdb.DuckDBPyConnection, part: str, html: HtmlText) -> str:
    """One table, with the drawing it has."""
    made = {lang: {table.part: table for table in sentences.tables(found, lang)}.get(part) for lang in html.langs}
    shown = made["en"]
    if shown is None:
        return ""
    cells = {lang: [table.heads, *table.rows] for lang, table in made.items() if table is not None}
    rows = []
    for y in range(len(shown.rows) + 1):
        mark = "th" if y == 0 else "td"
        rows.append("<tr>" + "".join(
            f"<{mark}{' class=n' if right else ''}>"
            f"{html.about((y, x), lambda at, lang: cells[lang][at[0]][at[1]])}</{mark}>"
            for x, right in enumerate(shown.right)
        ) + "</tr>")  # fmt: skip
    picture = _ratios(found) if part == "versus" else _curves(found, con) if part == "latency" else ""
    return (f"<h2>{html.say(f'bench.{part}')}</h2>{picture}"
            f'<div class="wide"><table>{"".join(rows)}</table></div>')  # fmt: skip


def _ratios(found: look.Bench) -> str:
    """Ratio and interval of each comparison, drawn from half to twice the time."""
    drawn, figures = [], found.part("versus")
    low = min([0.5, *(figure["low"] for figure in figures)])
    high = max([2.0, *(figure["high"] for figure in figures)])

    def place(ratio: float) -> float:
        from math import log

        return 220 + (_WIDTH - 260) * log(ratio / low) / log(high / low)

    for row, figure in enumerate(figures):
        y = 24 + 30 * row
        name = f"{figure['variant']} / {figure['base']} {figure['dtype']}"
        drawn.append(
            f'<text x="210" y="{y + 4}" text-anchor="end">{text(name)}</text>'
            f'<path class="step" d="M{place(figure["low"]):.1f} {y}H{place(figure["high"]):.1f}" stroke-width="3"/>'
            f'<circle class="p-computing" cx="{place(figure["ratio"]):.1f}" cy="{y}" r="5"/>'
        )
    drawn.append(f'<path class="step" d="M{place(1):.1f} 6V{30 * len(figures) + 12}"/>')
    return f'<figure><svg viewBox="0 0 {_WIDTH} {30 * len(figures) + 20}" role="img">{"".join(drawn)}</svg></figure>'


def _curves(found: look.Bench, con: duckdb.DuckDBPyConnection) -> str:
    """The distributions, logarithmic in time."""
    from math import log10

    figures = found.part("latency")
    rows = look.distribution(con, [each["series"] for each in figures],
                             [each["steadiness"]["kept_from"] for each in figures])  # fmt: skip
    rows = rows[rows["ns"] > 0]
    if rows.empty:
        return ""
    low, high = log10(float(rows["ns"].min())), log10(float(rows["ns"].max()) * 1.01)
    scale = (_WIDTH - _LEFT - 20) / max(high - low, 1e-9)
    drawn = []
    for order, figure in enumerate(figures):
        mine = rows[rows["series"] == figure["series"]]
        points = " ".join(
            f"{_LEFT + (log10(ns) - low) * scale:.1f},{_HEIGHT - 30 - share * (_HEIGHT - 50):.1f}"
            for ns, share in zip(mine["ns"], mine["share"], strict=True)
        )
        dash = ("", "6 3", "2 3", "8 3 2 3", "12 4")[order % 5]
        drawn.append(f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="1.5" '
                     f'stroke-dasharray="{dash}" opacity="{1 - 0.12 * (order % 6):.2f}"><title>{text(figure["series"])}'
                     "</title></polyline>")  # fmt: skip
        if len(mine):  # each name beside the middle of its curve, one below the other
            middle = _LEFT + (log10(mine["ns"].iloc[len(mine) // 2]) - low) * scale
            drawn.append(f'<text x="{middle + 14:.1f}" y="{70 + 22 * order}">{text(figure["series"])}</text>')
    for decade in range(int(low), int(high) + 2):
        if low <= decade <= high:
            x = _LEFT + (decade - low) * scale
            drawn.append(f'<path class="step" d="M{x:.1f} {_HEIGHT - 30}v6"/><text x="{x:.1f}" y="{_HEIGHT - 8}" '
                         f'text-anchor="middle">{text(i18n.duration(10**decade))}</text>')  # fmt: skip
    return f'<figure><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">{"".join(drawn)}</svg></figure>'


def _about(found: look.Bench, html: HtmlText) -> str:
    told = {lang: sentences.about(found, lang) for lang in html.langs}
    rows = "".join(
        f"<tr><td>{html.about(y, lambda y, lang: told[lang][y][0])}</td>"
        f"<td>{html.about(y, lambda y, lang: told[lang][y][1])}</td></tr>"
        for y in range(len(told["en"]))
    )
    return f"<h2>{html.say('bench.about')}</h2><table>{rows}</table>"
