"""Thousands of ranks from summaries of their steps: who waits, who is waited for, which links are slow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from npulens.app.console import json_option, lang_option, print_json, store_option, table
from npulens.app.text.i18n import duration, say
from npulens.app.text.wording import plain
from npulens.ingest.store import runs as stores

if TYPE_CHECKING:
    from npulens.analysis.fleet.fleet import Fleet

_NOTHING: Mapping[str, object] = {}


@click.command("fleet")
@click.argument("run")
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="How many rows of each table.")
@store_option
@json_option
@lang_option
def command(run: str, top: int, store: Path, as_json: bool, lang: str) -> None:
    """Show which ranks of RUN wait and which are waited for, by rank, host and group, and the slowest links.

    Made for thousands of ranks: it reads a summary of at most 3 KB a rank and step, computed when first asked for and
    kept beside the run. RUN is a run id, a unique beginning of one, or a label.
    """
    from npulens.app.run_fleet import fleet_of

    found = stores.resolve(store, run)
    told = fleet_of(store, found.run_id, top)
    if as_json:
        print_json({"run_id": found.run_id, **told.as_dict()})
        return
    click.echo("\n\n".join("\n".join(part) for part in _parts(told, lang)))


def _parts(told: Fleet, lang: str) -> Iterator[list[str]]:
    head = {"ranks": f"{told.ranks:,}", "hosts": f"{told.hosts:,}", "steps": told.steps, "step": duration(told.step_ns)}
    first = [_say(lang, "head", head)]
    if told.matched_share is None or not (told.waiting or told.by_group):
        yield [*first, _say(lang, "unmeasured")]
    else:
        if told.matched_share < 1:
            first.append(_say(lang, "matched", {"share": f"{told.matched_share:.1%}"}))
        if told.groups_in_part:
            first.append(_say(lang, "in_part", {"n": told.groups_in_part}))
        yield [*first, _say(lang, "per_step")]
        yield _waited_for(told, lang)
        yield _waiting(told, lang)
        yield from _together(told, lang)
    if told.links:
        yield _links(told, lang)
    else:
        yield [_say(lang, "no_links")]


def _waited_for(told: Fleet, lang: str) -> list[str]:
    if not told.waited_for:
        return [_say(lang, "nobody")]
    rows = [
        [plain(row.host or "-"), str(row.rank), duration(row.waited_for_ns), f"{row.last_times:,}",
         duration(row.lost_ns), _more(row.computing_more_ns), _more(row.idle_more_ns)]
        for row in told.waited_for
    ]  # fmt: skip
    heads = ("host", "rank", "gain", "last", "lost", "computing", "idle")
    return [_say(lang, "waited_for"), _table(lang, heads, rows)]


def _waiting(told: Fleet, lang: str) -> list[str]:
    rows = [
        [plain(row.host or "-"), str(row.rank), duration(row.waits_ns), duration(row.tasks_wait_ns),
         _more(row.computing_more_ns),
         _more(row.idle_more_ns)]
        for row in told.waiting
    ]  # fmt: skip
    return [_say(lang, "waiting"), _table(lang, ("host", "rank", "waits", "tasks", "computing", "idle"), rows)]


def _together(told: Fleet, lang: str) -> Iterator[list[str]]:
    if told.hosts > 1:
        rows = [
            [plain(row.host), str(row.ranks), duration(row.waited_for_ns), duration(row.waits_ns)]
            for row in told.by_host
        ]  # fmt: skip
        yield [_say(lang, "hosts"), _table(lang, ("host", "ranks", "gain", "waits"), rows)]
    groups = [
        [plain(row.group), plain(row.kind or "-"), str(row.captured), "-" if row.size is None else str(row.size),
         f"{row.collectives:,}", duration(row.waits_ns), "-" if row.last is None else str(row.last),
         duration(row.waited_for_ns)]
        for row in told.by_group
    ]  # fmt: skip
    heads = ("group", "kind", "ranks", "of", "collectives", "waits", "for", "gain")
    yield [_say(lang, "groups"), _table(lang, heads, groups, left=2)]


def _links(told: Fleet, lang: str) -> list[str]:
    rows = [
        [plain(row.link), f"{row.rank}", f"{row.peer}", f"{row.count:,}", _rate(row.rate_bytes_per_s),
         _rate(row.usual_bytes_per_s), f"{row.times:.2f}x", _say(lang, "yes") if row.slow else ""]
        for row in told.links
    ]  # fmt: skip
    heads = ("link", "rank", "peer", "transfers", "rate", "usual", "times", "slow")
    said = _say(lang, "links", {"slow": f"{told.links_slow:,}", "compared": f"{told.links_compared:,}"})
    return [said, _table(lang, heads, rows)]


def _table(lang: str, heads: Sequence[str], rows: list[list[str]], left: int = 1) -> str:
    return table([_say(lang, f"col_{head}") for head in heads], rows, left)


def _say(lang: str, key: str, values: Mapping[str, object] = _NOTHING) -> str:
    return say(lang, f"fleet.{key}", values)


def _rate(bytes_per_s: float) -> str:
    return f"{bytes_per_s / 1e9:.2f} GB/s"


def _more(ns: int | None) -> str:
    return "-" if ns is None else ("+" if ns > 0 else "") + duration(ns)
