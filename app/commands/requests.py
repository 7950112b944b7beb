"""Requests of a serving run: their percentiles taken apart, and one of them piece by piece."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import click
import numpy as np

from npulens.analysis.serving.exported import exports
from npulens.analysis.serving.parts import KINDS, Goodput, Parts, Piece, Taken, goodput, parts, pieces, taken
from npulens.analysis.serving.recorded import Clock, clocks, known
from npulens.analysis.serving.slo import Slo
from npulens.app import run_open
from npulens.app.console import json_option, lang_option, milliseconds, print_json, slo_option, store_option, table
from npulens.app.settings.of_checks import in_force
from npulens.app.text import i18n
from npulens.app.text.wording import plain
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message
from npulens.ingest.store import runs as stores

_PERCENTS = (50, 90, 99)
_MEASURES = ("ttft", "tpot")
_SHOWN = 20
_NOTHING: Mapping[str, object] = {}


@click.command("requests")
@click.argument("run")
@click.option("--slow", type=click.Choice(_MEASURES), help="The slowest requests by this measure, each taken apart.")
@click.option("--id", "name", help="One request, piece by piece.")
@slo_option
@store_option
@json_option
@lang_option
def command(
    run: str, slow: str | None, name: str | None, slo: Slo | None, store: Path, as_json: bool, lang: str
) -> None:  # fmt: skip
    """Say why requests of RUN take as long as they do: P50, P90 and P99 of TTFT and TPOT taken apart, and goodput.

    The parts of a request follow each other and add up to its time, to the nanosecond. RUN is a run id, a unique
    beginning of one, or a label.
    """
    objectives = slo or in_force(None).slo
    found_run = stores.resolve(store, run)
    con = run_open.requests(store, found_run.run_id)
    try:
        found = parts(con)
        if not found.requests:
            raise IngestError("no_requests", Message("run_holds_no_requests", {"run": found_run.run_id}))
        one = None if name is None else _place(found, name)
        way = () if one is None else pieces(con, found.requests[one].key)
        stopped, told, who = exports(con), clocks(con), known(con)
    finally:
        con.close()
    good = goodput(found, objectives.ttft_ns, objectives.tpot_ns)
    apart = [each for measure in _MEASURES for percent in _PERCENTS if (each := taken(found, measure, percent))]
    if as_json:
        print_json(_json(found_run.run_id, found, apart, good, one, way, stopped, told, who))
    elif one is not None:
        click.echo(_one(found, one, way, lang))
    else:
        said = _text(found, apart, good, slow, stopped, lang)
        click.echo("\n\n".join([said[0], *_joined(told, who, lang), *said[1:]]))


def _place(found: Parts, name: str) -> int:
    """The request of an id, or of a unique beginning of one."""
    same = [at for at, one in enumerate(found.requests) if one.id == name]
    near = same or [at for at, one in enumerate(found.requests) if one.id.startswith(name)]
    if len(near) != 1:
        raise IngestError("no_such_request", Message("no_such_request", {"id": name, "n": len(near)}))
    return near[0]


def _text(
    found: Parts, apart: list[Taken], good: Goodput, slow: str | None, stopped: tuple[tuple[int, int], ...], lang: str
) -> list[str]:  # fmt: skip
    said = [_say(lang, "about", {"n": len(found.requests)})]
    if stopped:
        longest = max(until - since for since, until in stopped)
        said.append(_say(lang, "export", {"time": i18n.duration(longest), "n": int(found.excluded.sum())}))
    there = [kind for kind in KINDS if any(round(one.parts.get(kind, 0)) for one in apart)]
    rows = [
        [f"P{one.percent} {one.measure.upper()}", _ms(one.value_ns), *(_ms(one.parts.get(kind, 0)) for kind in there)]
        for one in apart
    ]
    said.append(f"{_say(lang, 'percentiles')}\n{table(['', 'ms', *(_kind(lang, kind) for kind in there)], rows, 1)}")
    lost = ", ".join(f"{_kind(lang, kind)} {count}" for kind, count in good.lost.items())
    said.append(_say(lang, "goodput", {"good": good.good, "of": good.of}))
    if lost:
        said[-1] += "\n" + _say(lang, "lost", {"listed": lost})
    if slow is not None:
        said.append(_slowest(found, slow, lang))
    return said


def _joined(told: tuple[Clock, ...], who: tuple[str, float] | None, lang: str) -> list[str]:
    """How far stamps of different sources can be compared, and how members of iterations are known."""
    lines = [
        _say(lang, f"clock_{one.how}", {
            "source": one.source, "target": one.target, "n": one.pairs,
            **{name: "-" if (ns := getattr(one, f"{name}_ns")) is None else _ms(ns)
               for name in ("offset", "low", "median", "high")},
        })
        for one in told
    ]  # fmt: skip
    if who is not None:
        lines.append(_say(lang, f"how_{who[0]}", {"share": f"{100 * who[1]:.1f}"}))
    return ["\n".join(lines)] if lines else []


def _slowest(found: Parts, measure: str, lang: str) -> str:
    """The slowest requests with their largest parts."""
    values = found.ttft_ns.astype(np.float64) if measure == "ttft" else np.nan_to_num(found.tpot_ns)
    of = found.ttft if measure == "ttft" else found.after
    rows = []
    for at in np.lexsort((-values, found.excluded))[:_SHOWN].tolist():
        largest = np.argsort(-of[at], kind="stable")[:3].tolist()
        listed = ", ".join(f"{_kind(lang, KINDS[kind])} {_ms(of[at][kind])}" for kind in largest if of[at][kind] > 0)
        mark = _say(lang, "left_out") if found.excluded[at] else ""
        rows.append([plain(found.requests[at].id), listed, mark, _ms(values[at])])
    header = [_say(lang, "col_id"), _say(lang, "col_parts"), "", f"{measure.upper()}, ms"]
    return f"{_say(lang, 'slowest')}\n{table(header, rows, 3)}"


def _one(found: Parts, at: int, way: tuple[Piece, ...], lang: str) -> str:
    one = found.requests[at]
    begin = way[0].ts_ns if way else 0
    rows = [
        [_kind(lang, piece.kind), milliseconds(piece.ts_ns - begin), milliseconds(piece.dur_ns),
         "-" if piece.iteration is None else str(piece.iteration)]
        for piece in way
    ]  # fmt: skip
    head = _say(lang, "one", {
        "id": plain(one.id), "prompt": _known(one.prompt_tokens), "output": _known(one.output_tokens),
        "ttft": i18n.duration(int(found.ttft_ns[at])), "whole": i18n.duration(int(found.whole[at].sum())),
    })  # fmt: skip
    columns = [_say(lang, f"col_{column}") for column in ("part", "start", "time", "iteration")]
    return f"{head}\n\n{table(columns, rows, 1)}"


def _json(
    run_id: str, found: Parts, apart: list[Taken], good: Goodput, one: int | None, way: tuple[Piece, ...],
    stopped: tuple[tuple[int, int], ...], told: tuple[Clock, ...], who: tuple[str, float] | None,
) -> dict[str, object]:  # fmt: skip
    tpot = found.tpot_ns
    wanted = range(len(found.requests)) if one is None else [one]
    return {
        "run_id": run_id,
        "percentiles": [
            {"measure": each.measure, "percent": each.percent, "ns": each.value_ns, "requests": each.of,
             "parts_ns": each.parts}
            for each in apart
        ],
        "goodput": {"good": good.good, "of": good.of, "lost": good.lost},
        "clocks": [asdict(one) for one in told],
        "members": {"how": who[0], "confidence": who[1]} if who is not None else None,
        "exports": [{"ts_ns": since, "dur_ns": until - since} for since, until in stopped],
        "requests": [
            {"id": found.requests[at].id, "ttft_ns": int(found.ttft_ns[at]),
             "tpot_ns": None if np.isnan(tpot[at]) else float(tpot[at]), "e2e_ns": int(found.whole[at].sum()),
             "left_out": bool(found.excluded[at]), "parts_ns": _by_kind(found.whole[at].tolist())}
            for at in wanted
        ],
        **({} if one is None else {"pieces": [
            {"kind": piece.kind, "ts_ns": piece.ts_ns, "dur_ns": piece.dur_ns, "iteration": piece.iteration}
            for piece in way
        ]}),
    }  # fmt: skip


def _by_kind(values: list[int]) -> dict[str, int]:
    return {kind: ns for kind, ns in zip(KINDS, values, strict=True) if ns}


def _ms(ns: float) -> str:
    return f"{ns / 1e6:.2f}"


def _known(count: int | None) -> str:
    return "-" if count is None else str(count)


def _kind(lang: str, kind: str) -> str:
    return i18n.say(lang, f"serving.kind_{kind}")


def _say(lang: str, key: str, values: Mapping[str, object] = _NOTHING) -> str:
    return i18n.say(lang, f"serving.{key}", values)
