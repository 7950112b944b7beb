"""What goes on inside one kernel: its pipes, caches, what it moves, and its hottest lines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from npulens.analysis.look.kernel_inside import UNEVEN, Inside, Line, choices, inside
from npulens.app.console import json_option, lang_option, print_json, store_option, table
from npulens.app.text import i18n
from npulens.app.text.wording import plain
from npulens.ingest.store import runs as stores

_LONGEST_NAME, _LONGEST_SOURCE = 60, 60
#: Waits below this share are left out of the text.
_NOTABLE = 0.01
_FEW, _NAMES = 12, 12
_NOTHING: Mapping[str, object] = {}


@click.command("kernel")
@click.argument("run")
@click.argument("operator", required=False)
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="How many lines to show.")
@store_option
@json_option
@lang_option
def command(run: str, operator: str | None, top: int, store: Path, as_json: bool, lang: str) -> None:
    """Look inside OPERATOR of RUN: busy pipes, L2 cache, data moved, uneven blocks, hottest lines.

    OPERATOR is a type or a name. A capture of msprof op or of its simulator holds one operator and needs none. RUN is a
    run id, a unique beginning of one, or a label.
    """
    found_run = stores.resolve(store, run)
    con = stores.open_run(store, found_run.run_id)
    try:
        found, names = inside(con, operator), choices(con)
    finally:
        con.close()
    if as_json:
        told = None if found is None else found.as_dict()
        print_json({"run_id": found_run.run_id, "kernel": told, "operators": list(names)})
    elif found is None:
        click.echo(_nothing(operator, names, lang))
    else:
        click.echo("\n\n".join(part for part in parts(found, lang, top) if part))


def _nothing(operator: str | None, names: tuple[str, ...], lang: str) -> str:
    if not names:
        return _say(lang, "nothing_at_all")
    few = ", ".join(plain(name) for name in names[:_NAMES])
    return _say(lang, "choose" if operator is None else "nothing", {"name": plain(operator or ""), "names": few})


def parts(found: Inside, lang: str, top: int) -> list[str]:
    """The answer: sentences, then a table each."""
    unit = {"unit": _say(lang, f"unit_{found.unit}")}
    return [
        "\n".join(_sums(found, lang)),
        _table(lang, "pipes", ("core", "pipe", "kind", "share", "most"), [
            [_core(lang, one.core), one.pipe, _say(lang, f"kind_{one.kind}"), _percent(one.share), _percent(one.most)]
            for one in found.pipes
        ], 3, _say(lang, "legend", unit)),
        _table(lang, "cores", ("core", "units", "mean", "longest", "slowest", "uneven"), [
            [_core(lang, one.core), str(one.units), i18n.duration(round(one.mean_ns)),
             i18n.duration(round(one.most_ns)), plain(one.slowest), f"{one.uneven:.2f}"]
            for one in found.cores
        ], 1),
        _table(lang, "caches", ("core", "access", "hits", "misses", "hit"), [
            [_core(lang, one.core), _say(lang, f"access_{one.access}"), _count(one.hits), _count(one.misses),
             _percent(one.share)]
            for one in found.caches
        ], 2),
        _table(lang, "paths", ("path", "bytes", "rate", "used"), [
            [plain(one.name), f"{one.bytes / 1e6:,.3f}",
             "-" if one.bytes_per_s is None else f"{one.bytes_per_s / 1e9:,.1f}",
             "-" if one.used is None else _percent(one.used)]
            for one in found.paths
        ], 1),
        "" if found.paths else _table(lang, "rates", ("core", "name", "mean", "most"), [
            [_core(lang, one.core), plain(one.name), f"{one.mean:,.1f}", f"{one.most:,.1f}"] for one in found.rates
        ], 2, values=unit),
        _table(lang, "waits", ("core", "name", "share", "most"), [
            [_core(lang, one.core), plain(one.name), _percent(one.share), _percent(one.most)]
            for one in found.waits if one.most >= _NOTABLE
        ][:_FEW], 2),
        _lines(found.lines[:top], lang, "lines", "line", "of"),
        _lines(found.instructions[:top], lang, "instructions", "name", "pipe"),
        _missing(found, lang),
    ]  # fmt: skip


def _sums(found: Inside, lang: str) -> list[str]:
    return [_head(found, lang), *(_say(lang, key, values) for key, values in sentences(found, lang))]


def _head(found: Inside, lang: str) -> str:
    time = {"time": i18n.duration(round(found.dur_ns)), "n": found.kernels}
    if found.simulated:
        return _say(lang, "simulated", time)
    name = {"name": plain(found.name or "") + (f" ({plain(found.op_type)})" if found.op_type else "")}
    about = [_say(lang, "alone" if found.unit == "block" else "several", {**name, **time})]
    if found.blocks is not None and found.unit == "block":
        about.append(_say(lang, "blocks", {"n": found.blocks}))
    if found.mix_blocks is not None and found.unit == "block":
        about.append(_say(lang, "mix_blocks", {"n": found.mix_blocks}))
    if found.mhz is not None and found.rated_mhz is not None:
        about.append(_say(lang, "clock", {"mhz": f"{found.mhz:g}", "rated": f"{found.rated_mhz:g}"}))
    return (", " if lang == "en" else "，").join(about)


def sentences(found: Inside, lang: str) -> list[tuple[str, dict[str, object]]]:
    """What is worth a sentence: the bound, the time around the cores, uneven blocks, main memory."""
    said: list[tuple[str, dict[str, object]]] = []
    if found.busiest is not None:
        said.append((f"bound_{found.bound}", {
            "pipe": found.busiest.pipe, "core": _core(lang, found.busiest.core),
            "share": _percent(found.busy_share or 0.0),
        }))  # fmt: skip
    if found.outside_ns is not None:
        said.append(("outside", {"time": i18n.duration(round(found.outside_ns))}))
    said.extend(
        ("uneven", {"core": _core(lang, one.core), "slowest": plain(one.slowest), "times": f"{one.uneven:.2f}"})
        for one in found.cores if one.uneven >= UNEVEN
    )  # fmt: skip
    if not found.paths:
        return said
    share, peak = found.memory_share, found.memory_peak
    if share is not None and peak is not None:
        said.append(("memory", {
            "rate": f"{share * peak / 1e9:,.0f} GB/s", "peak": f"{peak / 1e9:,.0f} GB/s",
            "device": plain(found.device or ""), "share": _percent(share),
        }))  # fmt: skip
    elif found.device is None:
        said.append(("no_device", {}))
    else:
        said.append(("no_memory", {"device": plain(found.device)}))
    return said


def _lines(rows: tuple[Line, ...], lang: str, title: str, name: str, of: str) -> str:
    return _table(lang, title, (name, "calls", "cycles", "time", of), [
        [_short(one.name, _LONGEST_NAME), _count(one.calls), _count(one.cycles),
         "-" if one.ns is None else f"{one.ns / 1e3:,.3f}", _short(one.of or "-", _LONGEST_SOURCE, end=False)]
        for one in rows
    ], 1)  # fmt: skip


def _missing(found: Inside, lang: str) -> str:
    wanted = {"lines": found.lines} if found.simulated else {
        "pipes": found.pipes, "caches": found.caches, "paths": found.paths, "lines": found.lines,
    } if found.unit == "block" else {}  # fmt: skip
    names = [_say(lang, f"missing_{key}") for key, there in wanted.items() if not there]
    return _say(lang, "missing", {"names": (", " if lang == "en" else "、").join(names)}) if names else ""


def _table(
    lang: str, title: str, columns: tuple[str, ...], rows: list[list[str]], left: int, legend: str = "",
    values: Mapping[str, object] = _NOTHING,
) -> str:  # fmt: skip
    if not rows:
        return ""
    made = table([_say(lang, f"col_{column}") for column in columns], rows, left)
    return "\n".join(part for part in (_say(lang, title, values), made, legend) if part)


def _core(lang: str, core: str) -> str:
    return _say(lang, f"core_{core}")


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _short(text: str, most: int, *, end: bool = True) -> str:
    """Of a long name its end, where a path has its file; of a long line of source its beginning."""
    text = plain(text)
    if len(text) <= most:
        return text
    return "…" + text[-most + 1 :] if end else text[: most - 1] + "…"


def _say(lang: str, key: str, values: Mapping[str, object] = _NOTHING) -> str:
    return i18n.say(lang, f"kernel.{key}", values)
