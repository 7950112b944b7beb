"""What a benchmark says, as sentences and tables: the same for the page, the HTML file and the CSV."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from npulens.analysis.look.bench import Bench, Figure
from npulens.analysis.regression.verdict import MOST_PAIRS
from npulens.app.text import i18n

LEVELS = ((0.5, "P50"), (0.9, "P90"), (0.99, "P99"), (0.999, "P99.9"))
PARTS = ("versus", "latency", "numerics", "batch", "together", "throughput", "sweep")
ABSENT = "–"


@dataclass(frozen=True)
class Table:
    """Cells as people read them; ``right`` are the columns of numbers."""

    part: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: tuple[bool, ...]


def tables(found: Bench, lang: str) -> list[Table]:
    """One table a part that was measured."""
    return [_table(part, figures, lang) for part in PARTS if (figures := _rows(found.part(part)))]


def _rows(figures: Sequence[Figure]) -> list[Figure]:
    """A batch curve is one figure with a row a batch; everything else is a row itself."""
    return [
        {**figure, **point} for figure in figures for point in (figure["points"] if figure["part"] == "batch" else [{}])
    ]


def _table(part: str, figures: Sequence[Figure], lang: str) -> Table:
    columns = _COLUMNS[part]
    rows = tuple(tuple(make(figure, lang) for _, make in columns) for figure in figures)
    heads = tuple(head if head.startswith("P") else i18n.say(lang, f"bench.col_{head}") for head, _ in columns)
    return Table(part, heads, rows, tuple(head not in _LEFT for head, _ in columns))


def sentence(figure: Figure, lang: str) -> str:
    """What a comparison says."""
    values = {
        "variant": figure["variant"], "base": figure["base"], "dtype": figure["dtype"], "pairs": figure["pairs"],
        "ratio": f"{figure['ratio']:.3f}", "low": f"{figure['low']:.3f}", "high": f"{figure['high']:.3f}",
        "times": f"{max(figure['ratio'], 1 / figure['ratio']):.2f}", "needed": f"{figure['pairs_needed'] or 0:,}",
    }  # fmt: skip
    said = i18n.say(lang, f"bench.{verdict(figure)}", values)
    return i18n.say(lang, "bench.by_cpu_time", {"said": said}) if figure.get("clock") == "cpu" else said


def other_clock(figure: Figure, lang: str) -> str:
    """What the clock says that the verdict is not taken from."""
    other = figure.get("other_clock")
    if other is None:
        return ABSENT
    name = i18n.say(lang, f"bench.{other['clock']}")
    return f"{name}: {other['ratio']:.3f} [{other['low']:.3f}, {other['high']:.3f}]"


def verdict(figure: Figure) -> str:
    """Which of the sentences it is."""
    if figure["control"]:
        return "control_bad" if figure["said"] == "different" else "control_good"
    if figure.get("withheld"):
        return "withheld_wide" if figure.get("withheld_by") == "wide" else "withheld"
    if figure["said"] == "cannot_tell" and (figure["pairs_needed"] or 0) > MOST_PAIRS:
        return "too_noisy"
    return figure["said"] if figure["said"] != "different" else "faster" if figure["ratio"] < 1 else "slower"


def quantile(figure: Figure, level: float, lang: str) -> str:
    """A percentile with its interval, or from how many samples on it has one."""
    each = next((each for each in figure["quantiles"] if each["level"] == level), None)
    if each is None:
        return ABSENT
    if each["high"] is None:
        return i18n.say(lang, "bench.unbounded", {"low": i18n.duration(each["low"]), "needed": f"{each['needed']:,}"})
    return f"{i18n.duration(each['value'])} [{i18n.duration(each['low'])}, {i18n.duration(each['high'])}]"


def state(figure: Figure, lang: str) -> str:
    """Whether a series was steady, and what else is to be known of it."""
    steady = figure["steadiness"]
    said = [i18n.say(lang, f"bench.state_{steady['state']}", {"n": steady["kept_from"], "at": steady["changed_at"]})]
    said += [] if figure["warm_up"]["settled"] else [i18n.say(lang, "bench.unsettled")]
    said += [] if figure["numerics"] else [i18n.say(lang, "bench.wrong")]
    return i18n.say(lang, "shell.comma").join([*said, *filter(None, [figure.get("throttled")])])


def _outliers(figure: Figure, lang: str) -> str:
    found = figure["outliers"]
    values = {"n": found["count"], "share": f"{100 * found['share']:.1f} %", "events": found["with_events"]}
    return i18n.say(lang, "bench.outliers", values)


def _verdict(figure: Figure, lang: str) -> str:
    key = "not_here" if figure["ok"] is None else "right" if figure["ok"] else "wrong"
    return i18n.say(lang, f"bench.{key}") + (f": {figure['why']}" if figure.get("why") else "")


def _swept(figure: Figure, lang: str) -> str:
    if figure.get("refused"):
        return i18n.say(lang, "bench.refused", {"why": figure["refused"]})
    return _verdict(figure, lang) if figure.get("ok") is not None else ABSENT


def _chosen(figure: Figure, lang: str) -> str:
    names = [name for name in ("sweet_spot", "knee", "within") if figure.get(name) == figure["batch"]]
    return i18n.say(lang, "shell.comma").join(i18n.say(lang, f"bench.{name}") for name in names)


Make = Callable[[Figure, str], str]


def _text(key: str) -> Make:
    return lambda figure, _: str(figure[key])


def _number(key: str, form: str) -> Make:
    return lambda figure, _: ABSENT if figure.get(key) is None else format(figure[key], form)


def _time(key: str) -> Make:
    return lambda figure, _: ABSENT if figure.get(key) is None else i18n.duration(round(figure[key]))


def _middle(key: str) -> Make:
    return lambda figure, _: i18n.duration(sorted(figure[key])[len(figure[key]) // 2]) if figure[key] else ABSENT


def _model(key: str, scale: float, form: str) -> Make:
    return lambda figure, _: (
        ABSENT if figure["model"].get(key) is None else format(figure["model"][key] / scale, form)
    )


def _roof(figure: Figure, lang: str) -> str:
    roof = figure.get("roof")
    if not roof:
        return ABSENT
    if roof["share"] > 1:
        return i18n.say(lang, "bench.above_roof", {"times": f"{roof['share']:.2f}"})
    bound = i18n.say(lang, f"bench.roof_{roof['bound']}")
    return i18n.say(lang, "bench.of_roof", {"share": f"{100 * roof['share']:.1f} %", "bound": bound})


def _level(level: float) -> Make:
    return lambda figure, lang: quantile(figure, level, lang)


_CASE: tuple[tuple[str, Make], ...] = (("variant", _text("variant")), ("dtype", _text("dtype")))
_LEFT = ("variant", "dtype", "cache", "clock", "other_clock", "verdict", "state", "outliers", "shape", "kind", "chosen")
_COLUMNS: dict[str, tuple[tuple[str, Make], ...]] = {
    "versus": (*_CASE, ("ratio", _number("ratio", ".3f")),
               ("interval", lambda figure, _: f"[{figure['low']:.3f}, {figure['high']:.3f}]"),
               ("clock", lambda figure, lang: i18n.say(lang, f"bench.{figure.get('clock', 'host')}")),
               ("other_clock", other_clock), ("p", _number("p", ".2g")), ("pairs", _number("pairs", ",")),
               ("verdict", sentence)),
    "latency": (*_CASE, ("cache", lambda figure, lang: i18n.say(lang, f"bench.{figure['cache']}")),
                ("clock", lambda figure, lang: i18n.say(lang, f"bench.{figure['clock']}")),
                ("samples", _number("samples", ",")), ("state", state),
                *((name, _level(level)) for level, name in LEVELS), ("mean", _time("mean")), ("max", _time("max")),
                ("outliers", _outliers),
                ("first", lambda figure, _: i18n.duration(figure["warm_up"]["first_ns"])),
                ("intensity", _model("flops_per_byte", 1, ",.1f")), ("gflops", _model("flops_per_s", 1e9, ",.1f")),
                ("gbytes", _model("bytes_per_s", 1e9, ",.1f")), ("roof", _roof)),
    "numerics": (*_CASE, ("error", _number("relative_error", ".1e")), ("allowed", _number("tolerance", ".1e")),
                 ("ulp", _number("max_ulp", ".3g")), ("cosine", _number("cosine", ".9f")), ("nan", _number("nan", ",")),
                 ("inf", _number("inf", ",")), ("verdict", _verdict)),
    "batch": (*_CASE, ("batch", _number("batch", ",")), ("per_second", _number("per_second", ",.1f")),
              ("P50", _time("p50_ns")), ("P99", _time("p99_ns")), ("samples", _number("samples", ",")),
              ("chosen", _chosen)),
    "together": (*_CASE, ("kind", lambda figure, lang: i18n.say(lang, f"bench.{figure['kind']}")),
                 ("workers", _number("workers", ",")), ("solo", _number("solo_per_second", ",.1f")),
                 ("all", _number("per_second", ",.1f")), ("efficiency", _number("efficiency", ".2f")),
                 ("solo_p50", _time("solo_p50_ns")), ("each_p50", _middle("p50_ns"))),
    "throughput": (*_CASE, ("steps_per_second", _number("per_second", ",.1f")),
                   ("completed", _number("completed", ",")),
                   ("seconds", _number("seconds", ".1f")), ("in_flight", _number("in_flight", ","))),
    "sweep": (("shape", _text("shape")), *_CASE, ("P50", _time("p50")), ("samples", _number("samples", ",")),
              ("verdict", _swept)),
}  # fmt: skip


def about(found: Bench, lang: str) -> list[tuple[str, str]]:
    """What it was measured on and how, as pairs of a name and a value."""
    told, environment = found.about, _mapping(found.about.get("environment"))
    cpu, backend = _mapping(environment.get("cpu")), _mapping(told.get("backend"))
    pairs = {
        "evidence": told.get("evidence"), "device": found.device, "backend": _fallback(backend),
        "made_at": told.get("made_at"),
        "versions": ", ".join(f"{name} {value}" for name, value in found.versions.items()),
        "python": environment.get("python"), "platform": environment.get("platform"), "cann": environment.get("cann"),
        "driver": environment.get("driver"), "cpu": cpu.get("model"), "cores": cpu.get("cores"),
        "governor": cpu.get("governor"), "load": cpu.get("load"), "commit": environment.get("commit"),
        "variables": ", ".join(f"{name}={value}" for name, value in found.variables.items()),
        "sizes": ", ".join(f"{name} {value}" for name, value in _mapping(told.get("sizes")).items()),
        "properties": ", ".join(f"{name} {value}" for name, value in _mapping(told.get("device")).items()),
        "method": ", ".join(f"{name} {value}" for name, value in _mapping(told.get("method")).items()),
        "command": " ".join(map(str, told.get("command") or [])),
    }  # fmt: skip
    unknown = i18n.say(lang, "bench.unknown")
    return [(i18n.say(lang, f"bench.about_{name}"), unknown if value in (None, "") else str(value))
            for name, value in pairs.items()]  # fmt: skip


def _fallback(backend: dict[str, Any]) -> str:
    reason = f" ({backend['reason']})" if backend.get("reason") else ""
    return f"{backend.get('actual') or ''}{reason}"


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
