"""Numbers of a night as people write them."""

from __future__ import annotations

from npulens.analysis.regression.families import OTHERS
from npulens.app.nightly.night import Row
from npulens.app.text.i18n import duration, known, say, size
from npulens.app.text.wording import plain as safe

_MINUS, _WIDE = "−", 10.0


def number(value: float | None, unit: str) -> str:
    """A value in the unit that reads best."""
    if value is None:
        return "–"
    if unit == "ns":
        return duration(round(value))
    if unit == "bytes":
        return size(round(value))
    return f"{plain(value)} {unit}".strip()


def signed(ns: int) -> str:
    """A difference of times: +1.2 ms."""
    return ("+" if ns > 0 else "") + number(ns, "ns")


def plain(value: float) -> str:
    """Four digits, and no powers of ten where people need none."""
    if 1e4 <= abs(value) < 1e12:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def change(ratio: float | None) -> str:
    """A ratio as a change: +5.2 %."""
    if ratio is None:
        return "–"
    share = 100 * (ratio - 1)
    digits = 2 if abs(share) < 1 else 1 if abs(share) < 100 else 0
    text = f"{abs(share):.{digits}f} %"
    return text if float(text[:-2]) == 0 else f"{'+' if share > 0 else _MINUS}{text}"


def interval(row: Row) -> str:
    """The interval of a row's change: +4.1 % … +6.3 %."""
    return "" if row.low is None or row.high is None else f"{change(row.low)} … {change(row.high)}"


def metric(lang: str, name: str) -> str:
    """What a metric is called; its own name where it has no other. Names of kernels and modules come from captures."""
    kind, _, of = name.partition(" ")
    if of and known(f"nightly.metric_{kind}"):
        called = say(lang, "nightly.others_of") if of == OTHERS else safe(of)
        return say(lang, f"nightly.metric_{kind}", {"name": called})
    return say(lang, f"nightly.metric_{name}") if known(f"nightly.metric_{name}") else name


def worse(row: Row) -> bool:
    """Whether a row's ratio is a change for the worse."""
    return row.ratio is not None and (row.ratio > 1) == (row.better == "lower")


def length(seconds: float) -> str:
    """A time for people: 3 h 12 min."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
