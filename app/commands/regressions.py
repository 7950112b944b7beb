"""The regressions that the nights of a configuration told: listed, accepted, muted, given an owner."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from pathlib import Path

import click
import msgspec
from msgspec.structs import replace

from npulens.app.console import json_option, print_json, store_option, table
from npulens.app.nightly import config as configs
from npulens.app.nightly import place, regressions
from npulens.app.nightly.night import Regression
from npulens.app.nightly.written import figures
from npulens.app.text.i18n import say
from npulens.app.text.wording import plain

_COLUMNS = ("number", "state", "task", "metric", "change", "since", "seen", "owner", "note")


@click.command("regressions")
@click.argument("path", metavar="CONFIG", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("number", type=int, required=False)
@click.option("--accept", is_flag=True, help="It is wanted: its level is the new baseline.")
@click.option("--mute", is_flag=True, help="Keep it in the table, and out of headlines, messages and the exit status.")
@click.option("--reopen", is_flag=True, help="Take back --accept or --mute.")
@click.option("--owner", help="Who looks after it.")
@click.option("--why", default="", help="With --accept or --mute: the reason.")
@click.option("--by", "who", default="", help="With --accept or --mute: who decided.  [you]")
@click.option("--until", metavar="DATE", default="", help="With --accept or --mute: the last day it holds.")
@click.option("--all", "everything", is_flag=True, help="List fixed ones too.")
@click.option("--lang", type=click.Choice(["en", "zh"]), default="en", help="Language of the list.  [en]")
@store_option
@json_option
def command(
    path: Path, number: int | None, accept: bool, mute: bool, reopen: bool, owner: str | None, why: str, who: str,
    until: str, everything: bool, lang: str, store: Path, as_json: bool,
) -> None:  # fmt: skip
    """List the regressions that the nights of CONFIG told, or decide about the one with this NUMBER.

    A regression stays open, and every night exits with 1, until it is measured as fixed or accepted.
    """
    home = place.home(store, configs.read(path.absolute()).night.name)
    if sum((accept, mute, reopen)) > 1:
        raise click.UsageError("--accept, --mute and --reopen exclude each other")
    if number is None and (accept or mute or reopen or owner is not None):
        raise click.UsageError("which one? npulens regressions CONFIG NUMBER ...")
    if number is not None:
        day = configs.day(until).isoformat() if until else ""
        change = _decision(accept, mute, reopen, owner, (who or getpass.getuser(), why, day))
        regressions.decide(home, number, change)
    shown = [each for each in regressions.read(home) if _wanted(each, number, everything)]
    if as_json:
        print_json([msgspec.to_builtins(each) for each in shown])
    elif shown:
        heads = [say(lang, f"nightly.list_{name}") for name in _COLUMNS]
        click.echo(table(heads, [_cells(each, lang) for each in shown], left=4))
    else:
        click.echo(say(lang, "nightly.list_none"))


def _decision(
    accept: bool, mute: bool, reopen: bool, owner: str | None, decided: tuple[str, str, str]
) -> Callable[[Regression], Regression]:
    def change(each: Regression) -> Regression:
        each = each if owner is None else replace(each, owner=owner)
        if accept:
            return regressions.accepted(each, *decided)
        if mute:
            return regressions.muted(each, *decided)
        return regressions.reopened(each) if reopen else each

    return change


def _wanted(each: Regression, number: int | None, everything: bool) -> bool:
    return each.number == number if number is not None else everything or each.state != "fixed"


def _cells(each: Regression, lang: str) -> list[str]:
    word = say(lang, "nightly.state_muted" if each.muted else f"nightly.state_{each.state}")
    note = " ".join(filter(None, (each.who, each.why, each.until and say(lang, "nightly.until", {"day": each.until}))))
    return [
        f"#{each.number}", word, plain(each.task), figures.metric(lang, each.metric), figures.change(each.ratio),
        each.since, each.seen, plain(each.owner), plain(note),
    ]  # fmt: skip
