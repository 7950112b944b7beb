"""Last night: was it slower, is it real, and what moved."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from npulens.app.console import json_option, print_json, redact_option, store_option, table
from npulens.app.nightly import config as configs
from npulens.app.nightly import dating, lock, place, steps
from npulens.app.nightly import night as nights
from npulens.app.nightly.config import Config
from npulens.app.nightly.night import Night
from npulens.app.nightly.steps import Step
from npulens.app.nightly.written import figures, leave, night_text, notify
from npulens.app.text.i18n import say
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message

if TYPE_CHECKING:  # it judges, and what judges loads slowly
    from npulens.app.nightly.work import Work


@click.command("nightly")
@click.argument("path", metavar="CONFIG", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--night", "asked", metavar="DATE", help="The date of the night.  [today]")
@click.option("--again", is_flag=True, help="Make another night of a date that is done.")
@click.option("--only", metavar="TASK", help="This task alone, as a night of its own that enters no history.")
@click.option("--base", multiple=True, metavar="NAME=VALUE", help="With --only: commit=, python= or a variable.")
@click.option("--head", multiple=True, metavar="NAME=VALUE", help="The same for what is compared with it.")
@click.option("--notify/--no-notify", "tells", default=True, help="Tell those whom the configuration names.")
@click.option("--lang", type=click.Choice(["en", "zh", "both"]), help="Language of the reports.  [the configuration's]")
@redact_option
@store_option
@json_option
def command(
    path: Path, asked: str | None, again: bool, only: str | None, base: tuple[str, ...], head: tuple[str, ...],
    tells: bool, lang: str | None, redact: bool, store: Path, as_json: bool,
) -> None:  # fmt: skip
    """Collect or load what CONFIG names, compare it with its history, report, and tell.

    A night that was killed goes on where it stopped. Exits with 0 if nothing regressed, 1 if something did, 2 if
    nothing did in what was measured and a part of the night failed. docs/nightly.md describes CONFIG.
    """
    from npulens.app.nightly.work import Work

    path = path.absolute()
    config = _chosen(configs.read(path), only, base, head)
    shown = lang or config.night.lang
    home = place.home(store, config.night.name)
    day = configs.day(asked) if asked else None
    try:
        with lock.held(home, (day or datetime.now().date()).isoformat(), f"{datetime.now():%Y-%m-%d %H:%M:%S}"):
            which = dating.which(home, day, again or only is not None)
            if which.state == "finished":
                _before(home / which.label, which.label, as_json)
            plan = steps.planned(config)
            facts = dating.begin(home / which.label, which, len(plan))
            work = Work(config, path, store, home, which, facts, _quiet if as_json else _progress, only is None)
            night = _finished(work, shown, redact or config.night.redact)
    except OSError as error:
        raise IngestError(
            "nightly", Message("night_cannot_go_on", {"error": error.strerror or error}), error.filename
        ) from error
    spoken = "zh" if shown == "zh" else "en"
    said = notify.tell(config.notify, night, spoken, work.folder / leave.HTML) if tells else []
    if as_json:
        print_json(nights.as_dict(night))
    else:
        for line in lines(night, spoken):
            click.echo(line)
    for delivery in said:
        click.echo(notify.sentence(delivery, spoken), err=True)
    sys.exit(night.status)


def _chosen(config: Config, only: str | None, base: tuple[str, ...], head: tuple[str, ...]) -> Config:
    """The configuration, or one task of it with other sides."""
    if only is None:
        if base or head:
            raise click.UsageError("--base and --head go with --only TASK")
        return config
    return configs.alone(config, only, base, head)


def _finished(work: Work, lang: str, redact: bool) -> Night:
    """The night with its reports written; a full disk takes the reports and not the answer."""
    from npulens.app.nightly.work import done, remember

    night = done(work)
    night = leave.redacted(night) if redact else night
    try:
        out = work.path.parent / work.config.night.out if work.config.night.out else None
        click.echo(str(leave.write(night, work.folder, out, lang)), err=True)
        remember(work, night)
    except OSError as error:
        if not place.is_full(error):
            raise
        lost = (*night.notices, nights.Said("lost_report", {"reason": error.strerror or str(error)}))
        night = replace(night, notices=lost)
    return night


def _before(folder: Path, label: str, as_json: bool) -> None:
    """Says again what a night said that is done, and ends."""
    night = nights.read(folder)
    if night is None:
        raise IngestError("night", Message("night_is_done", {"label": label}))
    if as_json:
        print_json(nights.as_dict(night))
    else:
        click.echo(f"the night of {label} is done already; --again makes another. It said:", err=True)
        for line in lines(night, "en"):
            click.echo(line)
    sys.exit(night.status)


def lines(night: Night, lang: str) -> Iterator[str]:
    """The night for a terminal: the headline, what moved and why, what failed."""
    title = say(lang, "nightly.title", night_text.named(night))
    yield click.style(f"{title}: {night_text.headline(night, lang)}", bold=True)
    yield night_text.counts(night, lang)
    moved = night_text.moved(night)
    if moved:
        heads = [say(lang, f"nightly.col_{name}") for name in ("verdict", "task", "metric", "change", "interval",
                                                              "tonight", "before", "since")]  # fmt: skip
        yield table(heads, [[
            night_text.tagged(row, lang), row.task, figures.metric(lang, row.metric),
            figures.change(row.ratio), figures.interval(row), figures.number(row.value, row.unit),
            figures.number(row.level, row.unit), row.since or "",
        ] for row in moved], left=3)  # fmt: skip
    for row in moved:
        for sentence in night_text.why(row, lang):
            yield f"  {row.task}, {figures.metric(lang, row.metric)}: {sentence}"
        if row.confirm:
            yield f"  {say(lang, 'nightly.confirm')} {row.confirm}"
    yield from night_text.failures(night, lang)
    yield from night_text.notices(night, lang)


def _quiet(step: Step, number: int, of: int) -> None:
    """With --json nothing but the answer is said."""


def _progress(step: Step, number: int, of: int) -> None:
    click.echo(f"{datetime.now():%H:%M:%S} {number + 1}/{of} {step.name}", err=True)
