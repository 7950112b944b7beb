"""The choice of a plan, as `npulens lab SUBJECT --choose` tells it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from npulens.analysis.device import bounding
from npulens.analysis.device.abilities import Model
from npulens.app.console import filled, print_json, table
from npulens.app.run_collectors import ask
from npulens.app.text import i18n
from npulens.app.text.i18n import duration, known, size
from npulens.app.text.wording import plain

_WIDEST = 110
_MOST = 16
_UNITS, _MOST_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}, 1e6
#: As torch calls a type -> as the facts of chips do.
_PRECISIONS = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
Answer = Mapping[str, Any]


def command(
    place: Path, own: Sequence[Path], gates: Sequence[str], chips: Sequence[str], search: str | None,
    given: Sequence[str], as_json: bool, lang: str,
) -> None:  # fmt: skip
    """Chooses a plan for a subject and tells it; ``given`` are options that go on as they are."""
    models = _models(chips, lang)
    given = [*given, *([] if search is None else ["--time", str(_seconds(search, lang))])]
    options = [word for path in own for word in ("--own", str(path.absolute()))]
    for name in gates:
        path = Path(name)
        options += ["--gate", str(path.absolute()) if path.is_file() else name]
    answer = ask(["lab-choose", str(place.absolute()), *options, *given])
    if models and answer["status"] != "failed":
        answer["chips"] = list(_on_chips(answer, models))
    if as_json:
        print_json(answer)
    else:
        click.echo("\n".join(lines(answer, lang)))
    sys.exit(1 if answer["status"] == "failed" else 0)


def _seconds(text: str, lang: str) -> float:
    """60, 60s, 5m or 1h in seconds."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "s")
    try:
        found = float(number) * _UNITS[unit]
    except ValueError:
        found = 0.0
    if not 0 < found < _MOST_SECONDS:
        raise click.UsageError(_say(lang, "no_time", {"text": plain(text)}))
    return found


def _models(names: Sequence[str], lang: str) -> list[Model]:
    """The chips that were asked for; ``all`` asks for all of them."""
    if "all" in names:
        return bounding.chips()
    found = {name: bounding.chip(name) for name in names}
    if unknown := [name for name, model in found.items() if model is None]:
        there = ", ".join(model.model for model in bounding.chips())
        raise click.UsageError(_say(lang, "no_chip", {"name": plain(unknown[0]), "known": there}))
    return [model for model in found.values() if model is not None]


def _on_chips(answer: Answer, models: Sequence[Model]) -> Iterator[dict[str, Any]]:
    """What would bound the program on each chip; nothing for one without a peak of its type."""
    work = [bounding.Work(one["flops"], one["moved"]) for one in answer["bounds"]]
    precision = str(_PRECISIONS.get(answer["dtype"], answer["dtype"]))
    for model in models:
        found = bounding.bounded(work, precision, model)
        yield {"chip": model.model, "source": model.source, "bound": None if found is None else vars(found)}


def lines(answer: Answer, lang: str) -> Iterator[str]:
    """The whole answer for people."""
    yield _say(lang, "head", {
        "module": plain(answer["module"]), "place": plain(answer["subject"]), "n": answer["calls"],
        "backend": answer["backend"], "device": plain(str(answer["device"])),
    })  # fmt: skip
    if answer["status"] == "failed":
        yield _say(lang, "failed", {"why": plain(answer["reason"])})
        return
    yield from _searched(answer, lang)
    for part in (_winner, _plans, _precision, _shapes, _bounds, *([_chips] if answer.get("chips") else [])):
        yield ""
        yield from part(answer, lang)


def _searched(answer: Answer, lang: str) -> Iterator[str]:
    said = [arm["said"] for arm in answer["plans"]]
    yield _say(lang, "search", {
        "tried": said.count("tried"), "refused": said.count("refused"), "left": said.count("not_reached"),
        "seconds": round(answer["took_s"]), "clock": _say(lang, f"clock_{answer['clock']}"),
    })  # fmt: skip


def _winner(answer: Answer, lang: str) -> Iterator[str]:
    won, naive = answer["winner"], answer["naive"]
    if won is None:
        yield _say(lang, "nothing")
    else:
        speed = won["speed"]
        yield _say(lang, "winner", {"plan": plan_words(won["plan"], lang)})
        told = {"verdict": _verdict(speed, lang), "time": _interval(speed), "searched": f"{won['searched_ratio']:.3f}"}
        yield "  " + _say(lang, "fresh", told)
        yield "  " + _say(lang, "accuracy", _accuracy(won["errors"]))
        for gate in won["gates"]:
            scores = {name: f"{gate[name]:.4g}" for name in ("score", "original", "at_least")}
            yield "  " + _say(lang, "gate", {"gate": plain(gate["gate"]), **scores})
        if won["peak_bytes"] is not None and won["peak_bytes_of_original"] is not None:
            peaks = {"peak": size(won["peak_bytes"]), "original": size(won["peak_bytes_of_original"])}
            yield "  " + _say(lang, "peak", peaks)
        if speed["said"] != "faster":
            yield _say(lang, "keep")
    if naive is not None:
        told = {"plan": plan_words(naive["plan"], lang), "claimed": f"{naive['claimed']:.3f}",
                "verdict": _verdict(naive["speed"], lang), "time": _interval(naive["speed"])}  # fmt: skip
        yield from filled(_say(lang, "naive", told), _WIDEST)


def _plans(answer: Answer, lang: str) -> Iterator[str]:
    tried = sorted((arm for arm in answer["plans"] if arm["ratio"] is not None), key=lambda arm: float(arm["ratio"]))
    columns = ("plan", "ratio", "rounds", "error", "allowed", "gates", "first")
    rows = [_plan_row(arm, lang) for arm in tried[:_MOST]]
    if rows:
        yield table([_say(lang, f"col_{name}") for name in columns], rows, 1)
    if len(tried) > _MOST:
        yield _say(lang, "more", {"n": len(tried) - _MOST})
    lost = [arm for arm in answer["plans"] if arm["said"] in ("refused", "does_not_apply")]
    if lost:
        yield ""
        yield _say(lang, "refused")
        for arm in lost:
            yield from filled(f"{plan_words(arm['plan'], lang)}: {_why(arm['why'], lang)}", _WIDEST, "  ")
    left = [plan_words(arm["plan"], lang) for arm in answer["plans"] if arm["said"] == "not_reached"]
    if left:
        yield ""
        told = {"plans": "; ".join(left[:_MOST]), "n": len(left)}
        yield from filled(_say(lang, "not_reached", told), _WIDEST)


def _plan_row(arm: Answer, lang: str) -> list[str]:
    errors = _accuracy(arm["errors"])
    gates = ", ".join(f"{plain(gate['gate'])} {gate['score']:.4g}" for gate in arm["gates"])
    return [
        plan_words(arm["plan"], lang), f"{arm['ratio']:.3f}", str(arm["rounds"]), errors["error"], errors["allowed"],
        gates or "-", duration(round(arm["first_call_s"] * 1e9)),
    ]  # fmt: skip


def _precision(answer: Answer, lang: str) -> Iterator[str]:
    told = answer["precision"]
    if told["why"] is not None:
        yield _say(lang, "precision_not", {"why": _why(told["why"], lang)})
        return
    yield _say(lang, "precision")
    if not told["chosen"]:
        yield _say(lang, "precision_none")
    rows = [
        [plain(item["unit"]) or _say(lang, "top"), item["dtype"], _signed(item["gain_ns"]),
         "-" if item["error"] is None else f"{item['error']:.1e}",
         _say(lang, "yes") if told["chosen"].get(item["unit"]) == item["dtype"] else ""]
        for item in told["modules"]
    ]  # fmt: skip
    rows.sort(key=lambda row: not row[-1])
    if rows:
        yield table([_say(lang, f"col_{name}") for name in ("module", "type", "gain", "error", "chosen")],
                    rows[: 2 * _MOST], 2)  # fmt: skip
        if len(rows) > 2 * _MOST:
            yield _say(lang, "more", {"n": len(rows) - 2 * _MOST})
        yield from filled(_say(lang, "precision_legend"), _WIDEST)


def _signed(ns: float) -> str:
    return ("-" if ns < 0 else "") + duration(round(abs(ns)))


def _shapes(answer: Answer, lang: str) -> Iterator[str]:
    told = answer["shapes"]
    if told["why"] is not None:
        yield _say(lang, "shapes_not", {"why": _why(told["why"], lang)})
        return
    yield _say(lang, "shapes")
    yield _say(lang, "shapes_calls", {"computed": told["calls_computed"], "n": told["calls"]})
    for axis in told["axes"]:
        sizes = ", ".join(f"{at} ({calls})" for at, calls in axis["sizes"])
        if axis["fills"] is None:
            yield from filled(_say(lang, "axis_wrong", {"sizes": sizes, "why": plain(str(axis["refused"]))}), _WIDEST)
        else:
            fills = ", ".join(f"{axis['fills'][tensor]:g}" for tensor, _ in axis["places"])
            yield from filled(_say(lang, "axis_right", {"sizes": sizes, "fills": fills}), _WIDEST)
    ratios = {tuple(part["name"] for part in arm["plan"]): arm["ratio"] for arm in answer["plans"]}
    compilers = sorted({part["name"] for arm in answer["plans"] for part in arm["plan"] if part["kind"] == "compiler"})
    header = [_say(lang, f"col_{name}") for name in ("way", "graphs", "edges", "padded", "alone")]
    header += [_say(lang, "col_compiled", {"name": name}) for name in compilers]
    rows = [[_say(lang, "way_captured"), "1", "", "", "1", *(_ratio(ratios.get((name,))) for name in compilers)]]
    for name, way in told["ways"].items():
        edges = " x ".join(", ".join(map(str, at)) for at in way["edges"])
        with_them = [_ratio(ratios.get((name, compiler))) for compiler in compilers]
        called, padded = _say(lang, f"way_{name.partition('-')[0]}"), _percent(way["padded"])
        rows.append([called, str(way["graphs"]), edges, padded, _ratio(ratios.get((name,))), *with_them])
    yield table(header, rows, 1)


def _bounds(answer: Answer, lang: str) -> Iterator[str]:
    told = answer["bounds"]
    if not told:
        return
    yield _say(lang, "bounds")
    columns = ("operator", "calls", "time", "share", "flops", "moved", "bound", "of_roof")
    rows = [_bound_row(one, lang) for one in told[:_MOST]]
    yield table([_say(lang, f"col_{name}") for name in columns], rows, 1)
    no_roofs = all(one["bound"] is None for one in told)
    yield from filled(_say(lang, "bounds_no_roofs" if no_roofs else "bounds_legend"), _WIDEST)


def _chips(answer: Answer, lang: str) -> Iterator[str]:
    """Every chip by its facts, with where they come from."""
    yield _say(lang, "chips")
    rows = []
    for one in answer["chips"]:
        bound = one["bound"]
        if bound is None:
            rows.append([one["chip"], "-", "-", "-"])
            continue
        share = _percent(bound["compute_ns"] / bound["least_ns"] if bound["least_ns"] else None)
        rows.append([one["chip"], bound["precision"], duration(bound["least_ns"]), share])
    yield table([_say(lang, f"col_{name}") for name in ("chip", "type", "least", "compute")], rows, 2)
    yield from filled(_say(lang, "chips_legend"), _WIDEST)
    for source in dict.fromkeys(one["source"] for one in answer["chips"]):
        yield from filled(source, _WIDEST, "  ")


def _bound_row(one: Answer, lang: str) -> list[str]:
    bound = "-" if one["bound"] is None else _say(lang, f"bound_{one['bound']}")
    return [
        plain(one["operator"]), str(one["calls"]), duration(round(one["ns"])), _percent(one["share"]),
        f"{one['flops']:.3g}", size(one["moved"]), bound, _percent(one["of_roof"]),
    ]  # fmt: skip


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f} %"


def plan_words(plan: Sequence[Mapping[str, str]], lang: str) -> str:
    """The parts of a plan in the order in which they are applied."""
    return " + ".join(_part(part, lang) for part in plan)


def _part(part: Mapping[str, str], lang: str) -> str:
    if part["kind"] == "threads":
        return _say(lang, "part_threads", {"name": part["name"], "n": int(part["name"])})
    return plain(part["name"])


def _accuracy(errors: Answer | None) -> dict[str, str]:
    found = errors or {}
    return {name: "-" if found.get(of) is None else f"{found[of]:.1e}"
            for name, of in (("error", "of_rewrite"), ("allowed", "allowed"))}  # fmt: skip


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _interval(speed: Answer) -> str:
    return f"{speed['ratio']:.3f} [{speed['low']:.3f}, {speed['high']:.3f}]"


def _verdict(speed: Answer, lang: str) -> str:
    return i18n.say(lang, f"lab.verdict_{speed['said']}")


def _why(why: Answer, lang: str) -> str:
    """A reason in words; one that a rewrite of somebody's own brings is shown as it is."""
    values = {key: plain(str(value)) for key, value in why["values"].items()}
    if "where" in values:
        values["where"] = i18n.say(lang, f"lab.where_{values['where']}")
    for key in (f"choice.why_{why['name']}", f"lab.why_{why['name']}"):
        if known(key):
            return i18n.say(lang, key, values)
    return plain(str(why["name"]))


def _say(lang: str, key: str, values: Mapping[str, object] | None = None) -> str:
    return i18n.say(lang, f"choice.{key}", values or {})
