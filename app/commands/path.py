"""The critical path: the chain of pieces that decides how long the run is."""

from __future__ import annotations

from pathlib import Path

import click

from npulens.analysis import views
from npulens.analysis.look.path import KINDS, path
from npulens.analysis.look.path import Path as Found
from npulens.app.console import json_option, lang_option, milliseconds, print_json, store_option, table
from npulens.app.text import i18n
from npulens.app.text.wording import plain
from npulens.ingest.store import runs as stores

_LONGEST_NAME = 72


@click.command("path")
@click.argument("run")
@store_option
@json_option
@lang_option
def command(run: str, store: Path, as_json: bool, lang: str) -> None:
    """Say what the length of RUN is made of: its critical path by kind and rank, and the longest pieces.

    The pieces tile the longest rank's window to the nanosecond. RUN is a run id, a unique beginning of one, or a label.
    """
    found_run = stores.resolve(store, run)
    con = stores.open_run(store, found_run.run_id)
    try:
        views.install(con)
        found = path(con)
    finally:
        con.close()
    if as_json:
        print_json({"run_id": found_run.run_id, **found.as_dict()})
    elif found.rank is None:
        click.echo(i18n.say(lang, "path.none"))
    else:
        click.echo("\n\n".join(_parts(found, lang)))


def _parts(found: Found, lang: str) -> list[str]:
    """The answer, a paragraph or a table each."""
    whose = {"rank": found.rank, "whole": i18n.duration(found.wall_ns), "n": found.pieces}
    kinds = [
        [_kind(lang, kind), _say(lang, f"means_{kind}"), *_amount(found, ns),
         str(sum(part.pieces for part in found.parts if part.kind == kind))]
        for kind, ns in found.by_kind().items()
    ]  # fmt: skip
    ranks = [[_rank(lang, rank), *_amount(found, ns)] for rank, ns in found.by_rank().items()]
    pieces = [
        [_kind(lang, one.kind), _name(one.name), _rank(lang, one.rank), milliseconds(one.ts_ns),
         *_amount(found, one.dur_ns)]
        for one in found.longest
    ]  # fmt: skip
    names = [[_kind(lang, one.kind), _name(one.name), *_amount(found, one.ns), str(one.pieces)] for one in found.names]
    said = [
        i18n.say(lang, "path.whose", whose) + "\n" + _say(lang, "about"),
        _table(lang, "by_kind", ("kind", "means", "time", "share", "pieces"), kinds, 2),
        _table(lang, "by_rank", ("rank", "time", "share"), ranks, 1),
    ]
    if found.steps:
        said.append(_steps(found, lang))
    return [
        *said,
        _table(lang, "longest", ("kind", "name", "rank", "start", "time", "share"), pieces, 2),
        _table(lang, "most", ("kind", "name", "time", "share", "pieces"), names, 2),
    ]


def _steps(found: Found, lang: str) -> str:
    there = [kind for kind in KINDS if any(kind in step.kinds for step in found.steps)]
    rows = [
        [str(step.step), milliseconds(step.dur_ns), *(milliseconds(step.kinds.get(kind, 0)) for kind in there)]
        for step in found.steps
    ]
    header = [_say(lang, "col_step"), _say(lang, "col_wall"), *(_kind(lang, kind) for kind in there)]
    return f"{_say(lang, 'by_step')}\n{table(header, rows)}"


def _table(lang: str, title: str, columns: tuple[str, ...], rows: list[list[str]], texts: int) -> str:
    """A titled table; its first columns are texts and stand left."""
    header = [_say(lang, f"col_{column}") for column in columns]
    return f"{_say(lang, title)}\n{table(header, rows, texts)}"


def _amount(found: Found, ns: int) -> list[str]:
    return [milliseconds(ns), f"{100 * ns / found.wall_ns:5.1f} %"]


def _rank(lang: str, rank: int | None) -> str:
    return _say(lang, "not_captured") if rank is None else str(rank)


def _name(name: str) -> str:
    """A name as a terminal can show it."""
    text = plain(name) or "-"
    return text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 1] + "…"


def _kind(lang: str, kind: str) -> str:
    return _say(lang, f"kind_{kind}")


def _say(lang: str, key: str) -> str:
    return i18n.say(lang, f"path.{key}")
