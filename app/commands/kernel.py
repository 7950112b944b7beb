"""What goes on inside one kernel: its pipes, caches, what it moves, and its hottest lines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from npulens.analysis.look.kernel_inside import Inside, Line, choices, inside
from npulens.app.console import json_option, lang_option, print_json, store_option, table
from npulens.app.text import i18n
from npulens.app.text import inside as told
from npulens.app.text.wording import plain
from npulens.ingest.store import runs as stores

_LONGEST_NAME, _LONGEST_SOURCE = 60, 60
#: Waits below this share are left out of the text.
_NOTABLE = 0.01
_FEW, _NAMES = 12, 12


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
        print_json(
            {"run_id": found_run.run_id, "kernel": None if found is None else found.as_dict(), "operators": list(names)}
        )
    elif found is None:
        click.echo(_nothing(operator, names, lang))
    else:
        click.echo("\n\n".join(part for part in parts(found, lang, top) if part))


def _nothing(operator: str | None, names: tuple[str, ...], lang: str) -> str:
    if not names:
        return told.say(lang, "nothing_at_all")
    few = ", ".join(plain(name) for name in names[:_NAMES])
    return told.say(lang, "choose" if operator is None else "nothing", {"name": plain(operator or ""), "names": few})


def parts(found: Inside, lang: str, top: int) -> list[str]:
    """The answer: sentences, then a table each."""
    unit = {"unit": told.say(lang, f"unit_{found.unit}")}
    return [
        "\n".join(told.sums(found, lang)),
        _table(lang, "pipes", ("core", "pipe", "kind", "share", "most"), [
            [told.core(lang, one.core), one.pipe, told.say(lang, f"kind_{one.kind}"), told.percent(one.share),
             told.percent(one.most)]
            for one in found.pipes
        ], 3, told.say(lang, "legend", unit)),
        _table(lang, "cores", ("core", "units", "mean", "longest", "slowest", "uneven"), [
            [told.core(lang, one.core), str(one.units), i18n.duration(round(one.mean_ns)),
             i18n.duration(round(one.most_ns)), plain(one.slowest), f"{one.uneven:.2f}"]
            for one in found.cores
        ], 1),
        _table(lang, "caches", ("core", "access", "hits", "misses", "hit"), [
            [told.core(lang, one.core), told.say(lang, f"access_{one.access}"), told.count(one.hits),
             told.count(one.misses), told.percent(one.share)]
            for one in found.caches
        ], 2),
        _table(lang, "paths", ("path", "bytes", "rate", "used"), [
            [plain(one.name), f"{one.bytes / 1e6:,.3f}",
             "-" if one.bytes_per_s is None else f"{one.bytes_per_s / 1e9:,.1f}",
             "-" if one.used is None else told.percent(one.used)]
            for one in found.paths
        ], 1),
        "" if found.paths else _table(lang, "rates", ("core", "name", "mean", "most"), [
            [told.core(lang, one.core), plain(one.name), f"{one.mean:,.1f}", f"{one.most:,.1f}"] for one in found.rates
        ], 2, values=unit),
        _table(lang, "waits", ("core", "name", "part", "most"), [
            [told.core(lang, one.core), plain(one.name), told.percent(one.share), told.percent(one.most)]
            for one in found.waits if one.most >= _NOTABLE
        ][:_FEW], 2),
        _lines(found.lines[:top], lang, "lines", "line", "of"),
        _lines(found.instructions[:top], lang, "instructions", "name", "pipe"),
        _missing(found, lang),
    ]  # fmt: skip


def _lines(rows: tuple[Line, ...], lang: str, title: str, name: str, of: str) -> str:
    return _table(lang, title, (name, "calls", "cycles", "time", of), [
        [_short(one.name, _LONGEST_NAME), told.count(one.calls), told.count(one.cycles),
         "-" if one.ns is None else f"{one.ns / 1e3:,.3f}", _short(one.of or "-", _LONGEST_SOURCE, end=False)]
        for one in rows
    ], 1)  # fmt: skip


def _missing(found: Inside, lang: str) -> str:
    wanted = {"lines": found.lines} if found.simulated else {
        "pipes": found.pipes, "caches": found.caches, "paths": found.paths, "lines": found.lines,
    } if found.unit == "block" else {}  # fmt: skip
    names = [told.say(lang, f"missing_{key}") for key, there in wanted.items() if not there]
    return told.say(lang, "missing", {"names": (", " if lang == "en" else "、").join(names)}) if names else ""


def _table(
    lang: str, title: str, columns: tuple[str, ...], rows: list[list[str]], left: int, legend: str = "",
    values: Mapping[str, object] = told.NOTHING,
) -> str:  # fmt: skip
    if not rows:
        return ""
    made = table([told.say(lang, f"col_{column}") for column in columns], rows, left)
    return "\n".join(part for part in (told.say(lang, title, values), made, legend) if part)


def _short(text: str, most: int, *, end: bool = True) -> str:
    """Of a long name its end, where a path has its file; of a long line of source its beginning."""
    text = plain(text)
    if len(text) <= most:
        return text
    return "…" + text[-most + 1 :] if end else text[: most - 1] + "…"
