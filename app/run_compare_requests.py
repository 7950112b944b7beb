"""The requests of two serving runs, or of several a side: what is said of them in a terminal and to scripts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from npulens.analysis.regression.verdict import Rule
from npulens.analysis.serving.compared import FEW, GOODPUT, Compared, Delta, Line, Load, OfClass, Side, compared, side
from npulens.analysis.serving.slo import Slo
from npulens.app import run_open
from npulens.app.console import table
from npulens.app.run_compare import named, percent, signed
from npulens.app.text import i18n
from npulens.app.text.i18n import say
from npulens.app.text.wording import plain
from npulens.ingest.store.runs import RunInfo

_COLOURS = {"regressed": "red", "improved": "green", "same": "green", "ambiguous": "yellow"}
#: What the first line speaks of, the first that fits.
FIRST = ("ttft_p99", "tpot_p99", GOODPUT, "ttft_p90", "tpot_p90", "ttft_p50", "tpot_p50")
#: Parts of a change that are named.
_PARTS = 4


def judged(
    store: Path, names: tuple[str, str], slo: Slo, rule: Rule, drift: float | None, in_turns: bool
) -> Compared | None:
    """None: a run holds no requests."""
    found: list[list[Side]] = []
    for text in names:
        sides = [_side(store, run) for run in named(store, text)]
        if any(one is None for one in sides):
            return None
        found.append([one for one in sides if one is not None])
    return compared(found[0], found[1], slo, rule, drift or 0.0, in_turns)


def _side(store: Path, run: RunInfo) -> Side | None:
    con = run_open.requests(store, run.run_id)
    try:
        return side(con)
    finally:
        con.close()


def as_dict(found: Compared) -> dict[str, Any]:
    """The part of `npulens compare --json` that speaks of requests."""
    return {
        "verdict": found.said, "slo": asdict(found.slo), "same_requests": found.same_requests,
        "unlike": list(found.unlike), "base": [_load(one) for one in found.base],
        "head": [_load(one) for one in found.head],
        "figures": [_figure(line) for line in found.lines],
        "iterations": [
            {"class": one.kind, "base_count": one.base_count, "head_count": one.head_count,
             "base_ns": one.base_ns, "head_ns": one.head_ns, "verdict": one.verdict.said, "p": one.verdict.p,
             "interval": _edges(_change(one)[1:])}
            for one in found.classes
        ],
    }  # fmt: skip


def _load(one: Load) -> dict[str, float | int | None]:
    values = {**asdict(one), "per_second": one.per_second}
    return {name: None if math.isnan(value) else value for name, value in values.items()}


def _figure(line: Line) -> dict[str, Any]:
    change, low, high = line.change
    return {
        "name": line.name, "unit": "share" if line.name == GOODPUT else "ns", "base": line.base, "head": line.head,
        "change": None if math.isnan(change) else change, "interval": _edges((low, high)),
        "verdict": line.verdict.said, "p": line.verdict.p, "blocks": line.verdict.n, "method": line.verdict.method,
        "beyond": line.beyond,
        "parts": [{"kind": one.kind, "base": one.base, "head": one.head} for one in line.parts],
    }  # fmt: skip


def _edges(found: tuple[float | None, float | None]) -> list[float] | None:
    low, high = found
    return None if low is None or high is None else [low, high]


def lines(found: Compared, names: tuple[str, str], lang: str, rule: Rule) -> Iterator[str]:
    """Everything for people."""
    yield click.style(answer(found, lang), bold=True, fg=_COLOURS[found.said])
    for text in about(found, names, lang):
        yield f"  {text}"
    yield ""
    head = [say(lang, f"requests_compared.col_{name}", {"sure": f"{100 * (1 - rule.alpha):g} %"})
            for name in ("figure", "base", "head", "change", "interval")]  # fmt: skip
    rows = [
        [*cells_of(line, found, lang), say(lang, f"verdict.{line.verdict.said}")] for line in found.lines
    ]  # fmt: skip
    yield table([*head, ""], rows, 1)
    for text in notes(found, lang, rule):
        yield f"  {text}"
    yield ""
    yield click.style(say(lang, "requests_compared.made_of"), bold=True)
    for line in told(found):
        yield f"  {figure(line, lang)}  {made_of(line, lang)}"
    if found.classes:
        yield ""
        yield table([say(lang, f"requests_compared.col_{name}") for name in (
            "class", "base_count", "head_count", "base_mean", "head_mean", "change")] + [""],
            [of_class(one, lang) for one in found.classes], 1)  # fmt: skip


def notes(found: Compared, lang: str, rule: Rule) -> Iterator[str]:
    """How far each figure can be believed."""
    yield say(lang, "requests_compared.each", {"n": len(found.lines), "share": f"{100 * rule.alpha:g} %"})
    few = [line for line in found.lines if line.beyond is not None and line.beyond < FEW]
    if few:
        comma = say(lang, "shell.comma")
        yield say(lang, "requests_compared.few", {"which": comma.join(figure(one, lang) for one in few)})


def answer(found: Compared, lang: str) -> str:
    """The sentence to take away."""
    fitting = [line for name in FIRST for line in found.lines if line.name == name and line.verdict.said == found.said]
    if not fitting:
        return say(lang, "requests_compared.nothing")
    line = fitting[0]
    return say(lang, "requests_compared.answer", {
        "word": say(lang, f"verdict.{found.said}"), "figure": figure(line, lang), "base": _value(line, line.base),
        "head": _value(line, line.head), "change": _moved(line, line.change[0], lang),
    })  # fmt: skip


def about(found: Compared, names: tuple[str, str], lang: str) -> Iterator[str]:
    """What both sides were asked, and how they are judged."""
    for name, side_ in zip(names, (found.base, found.head), strict=True):
        first = side_[0]
        values: dict[str, Any] = {
            "side": plain(name), "n": first.requests, "rate": _number(first.per_second),
            "prompt": _number(first.prompt_tokens), "output": _number(first.output_tokens),
        }  # fmt: skip
        yield say(lang, "requests_compared.load", values)
        if left := sum(one.left_out for one in side_):
            yield say(lang, "requests_compared.left_out", {"side": plain(name), "n": left})
    if found.same_requests:
        yield say(lang, "requests_compared.same_requests")
    elif found.unlike:
        comma = say(lang, "shell.comma")
        yield "◐ " + say(lang, "requests_compared.unlike", {
            "what": comma.join(say(lang, f"requests_compared.unlike_{one}") for one in found.unlike)})  # fmt: skip
    if not found.lines:
        return
    said = found.lines[0].verdict
    key = "blocks" if said.method == "requests" else said.method
    yield say(lang, f"requests_compared.method_{key}", {"n": said.n})


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3g}" if value < 100 else f"{value:,.0f}"


def cells_of(line: Line, found: Compared, lang: str) -> list[str]:
    """A figure: what it is called, base, head, change and interval."""
    change, low, high = line.change
    interval = "–" if low is None or high is None else f"{_moved(line, low, lang)} … {_moved(line, high, lang)}"
    if line.name != GOODPUT:
        return [figure(line, lang), _value(line, line.base), _value(line, line.head), _moved(line, change, lang),
                interval]  # fmt: skip
    return [figure(line, lang), *(_of(value, side_) for value, side_ in
            ((line.base, found.base), (line.head, found.head))), _moved(line, change, lang), interval]  # fmt: skip


def _of(share: float, side_: Sequence[Load]) -> str:
    return f"{share * side_[0].requests:.0f} / {side_[0].requests}" if len(side_) == 1 else f"{100 * share:.1f} %"


def figure(line: Line, lang: str) -> str:
    """What a figure is called."""
    if line.name == GOODPUT:
        return say(lang, "requests_compared.goodput")
    measure, percentile = line.name.split("_")
    return f"{measure.upper()} {percentile.upper()}"


def _value(line: Line, value: float) -> str:
    return f"{100 * value:.1f} %" if line.name == GOODPUT else i18n.duration(round(value))


def _moved(line: Line, change: float, lang: str) -> str:
    if line.name == GOODPUT:
        return say(lang, "requests_compared.points", {"n": f"{100 * change:+.1f}".replace("-", "−")})
    return percent(None if math.isnan(change) else change)


def told(found: Compared) -> list[Line]:
    """Figures whose change is made of something: those that are sure, else the P99s and goodput."""
    sure = [line for line in found.lines if line.verdict.said in ("regressed", "improved")]
    return sure or [line for line in found.lines if line.name in FIRST[:3]]


def made_of(line: Line, lang: str) -> str:
    """The largest parts of a change."""
    parts = [part for part in line.parts if abs(part.head - part.base) >= (0.5 if line.name == GOODPUT else 1000)]
    comma = say(lang, "shell.comma")
    spoken = [f"{say(lang, f'serving.kind_{part.kind}')} {_part(line, part)}" for part in parts[:_PARTS]]
    return comma.join(spoken) or say(lang, "requests_compared.no_part")


def _part(line: Line, part: Delta) -> str:
    delta = part.head - part.base
    return f"{delta:+.0f}".replace("-", "−") if line.name == GOODPUT else signed(delta)


def _change(one: OfClass) -> tuple[float, float | None, float | None]:
    said = one.verdict
    low, high = (None if edge is None else edge - 1 for edge in (said.low, said.high))
    return (one.head_ns / one.base_ns - 1 if one.base_ns else math.nan), low, high


def of_class(one: OfClass, lang: str) -> list[str]:
    """Iterations of a class: its name, counts, means, change and verdict."""
    kind = say(lang, f"requests.class_{one.kind}") if i18n.known(f"requests.class_{one.kind}") else plain(one.kind)
    return [
        kind, f"{one.base_count:,}", f"{one.head_count:,}", i18n.duration(round(one.base_ns)),
        i18n.duration(round(one.head_ns)), percent(_change(one)[0]), say(lang, f"verdict.{one.verdict.said}"),
    ]  # fmt: skip
