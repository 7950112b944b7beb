"""Which commit made a task slower."""

from __future__ import annotations

import shutil
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from npulens.app.console import json_option, lang_option, print_json, store_option, table
from npulens.app.nightly import config as configs
from npulens.app.nightly import lock
from npulens.app.nightly.by_commit import commits
from npulens.app.nightly.steps import Step
from npulens.app.nightly.written import figures, night_text
from npulens.app.text.i18n import say
from npulens.app.text.wording import plain

if TYPE_CHECKING:  # it judges, and what judges loads slowly
    from npulens.app.nightly.by_commit.bisect import Asked, Found, Tried


@click.command("bisect")
@click.argument("path", metavar="CONFIG", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("task")
@click.option("--good", required=True, metavar="COMMIT", help="A commit that is known to be fast enough.")
@click.option("--bad", required=True, metavar="COMMIT", help="A later one that is not.")
@click.option("--metric", default="", metavar="NAME", help="What is to be looked at.  [the step, or the only one]")
@click.option("--again", is_flag=True, help="Measure anew what an earlier search has measured.")
@lang_option
@store_option
@json_option
def command(
    path: Path, task: str, good: str, bad: str, metric: str, again: bool, lang: str, store: Path, as_json: bool
) -> None:
    """Find the first commit between two that made TASK of CONFIG slower.

    Each commit that is tried is measured against good, in turns. A search that was killed goes on where it stopped.
    Exits with 0 if one commit is found, 1 if nothing between differs, 2 if several may be it or something is wrong.
    """
    from npulens.app.nightly.by_commit import bisect

    path = path.absolute()
    wanted = bisect.asked(configs.read(path), path, store, task, good, bad, metric)
    with lock.held(wanted.home, task, f"{datetime.now():%Y-%m-%d %H:%M:%S}"):
        if again:
            for measured in wanted.home.glob(f"{commits.short(wanted.good)}-*"):
                shutil.rmtree(measured)
        found = None
        for each in bisect.search(wanted, _quiet if as_json else _progress):
            if isinstance(each, bisect.Found):
                found = each
            elif not as_json:
                click.echo(_line(each, lang), err=True)
    assert found is not None
    if as_json:
        print_json({"outcome": found.outcome, "exit": found.status} | msgspec.to_builtins(found))
    else:
        _say(wanted, found, lang)
    sys.exit(found.status)


def _say(wanted: Asked, found: Found, lang: str) -> None:
    """Every commit that was tried, in the order of the branch, and the answer."""
    values: dict[str, object] = {"task": found.task, "metric": figures.metric(lang, found.metric), "n": found.between,
                                 "good": commits.short(found.good), "bad": commits.short(found.bad)}  # fmt: skip
    click.echo(click.style(say(lang, "commits.bisect_title", values), bold=True))
    order = {commit.sha: place for place, commit in enumerate(wanted.commits)}
    tried = sorted(found.tried, key=lambda each: order[each.commit.sha])
    if tried:
        heads = [say(lang, f"commits.col_{name}")
                 for name in ("commit", "said", "change", "interval", "pairs", "subject")]  # fmt: skip
        click.echo(table(heads, [_cells(each, lang) for each in tried], left=2))
    if found.outcome == "nothing":
        click.echo(say(lang, "commits.bisect_nothing", values))
    elif found.outcome == "unclear":
        click.echo(say(lang, "commits.bisect_unclear", {"n": len(found.first_bad)}))
    for commit in found.first_bad:
        key = "commits.bisect_found" if found.outcome == "found" else "commits.bisect_one"
        click.echo(say(lang, key, {"commit": commit.sha, "subject": plain(commit.subject)}))
        by = {"author": plain(commit.author), "date": commit.date}
        click.echo(f"  {say(lang, 'commits.bisect_by', by)}")


def _cells(each: Tried, lang: str) -> list[str]:
    said = say(lang, f"commits.said_{each.said}")
    subject = plain(each.commit.subject)
    if each.change is None:
        why = night_text.said(each.reason, lang) if each.reason else ""
        return [each.commit.short, said, "–", "", "0", f"{subject} ({why})" if why else subject]
    change = each.change
    ends = "" if change.low is None or change.high is None else (
        f"{figures.change(change.low)} … {figures.change(change.high)}"
    )  # fmt: skip
    return [each.commit.short, said, figures.change(change.ratio), ends, str(change.pairs), subject]


def _line(each: Tried, lang: str) -> str:
    return "  ".join(filter(None, _cells(each, lang)))


def _quiet(commit: str, step: Step) -> None:
    """With --json nothing but the answer is said."""


def _progress(commit: str, step: Step) -> None:
    click.echo(f"{datetime.now():%H:%M:%S} {commit} {step.name}", err=True)
