"""Last night: was it slower, is it real, and what moved."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from npulens.app.console import json_option, print_json, redact_option, store_option, table
from npulens.app.nightly import config as configs
from npulens.app.nightly import dating, lock, place, readiness, steps
from npulens.app.nightly import night as nights
from npulens.app.nightly.config import Config
from npulens.app.nightly.events import events
from npulens.app.nightly.night import Night
from npulens.app.nightly.steps import Step
from npulens.app.nightly.written import leave, night_text, notify
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
@click.option("--check", is_flag=True, help="Try what a night needs and measure nothing.")
@click.option("--notify/--no-notify", "tells", default=True, help="Tell those whom the configuration names.")
@click.option("--lang", type=click.Choice(["en", "zh", "both"]), help="Language of the reports.  [the configuration's]")
@redact_option
@store_option
@json_option
def command(
    path: Path, asked: str | None, again: bool, only: str | None, base: tuple[str, ...], head: tuple[str, ...],
    check: bool, tells: bool, lang: str | None, redact: bool, store: Path, as_json: bool,
) -> None:  # fmt: skip
    """Collect or load what CONFIG names, compare it with its history, report, and tell.

    A night that was killed goes on where it stopped. Exits with 0 if nothing regressed, 1 if something did, 2 if
    nothing did in what was measured and a part of the night failed. docs/nightly.md describes CONFIG.
    """
    path = path.absolute()
    config = _chosen(configs.read(path), only, base, head)
    shown = lang or config.night.lang
    if check:
        sys.exit(_checked(config, path.parent, store, "zh" if shown == "zh" else "en"))
    wanted = _Asked(config, path, store, asked, again, only is not None, tells, redact, as_json)
    try:
        night, folder = _held(wanted, shown)
    except IngestError as error:
        _not_begun(wanted, error)
        raise
    except OSError as error:
        message = Message("night_cannot_go_on", {"error": error.strerror or error})
        stopped = IngestError("nightly", message, error.filename)
        _not_begun(wanted, stopped)
        raise stopped from error
    spoken = "zh" if shown == "zh" else "en"
    said = notify.tell(config.notify, night, spoken, folder / leave.HTML) if tells else []
    if as_json:
        print_json(nights.as_dict(night))
    else:
        for line in lines(night, spoken):
            click.echo(line)
    for delivery in said:
        click.echo(notify.sentence(delivery, spoken), err=True)
    sys.exit(night.status)


@dataclass(frozen=True)
class _Asked:
    """What the command line asks for."""

    config: Config
    path: Path
    store: Path
    night: str | None
    again: bool
    alone: bool
    tells: bool
    redact: bool
    as_json: bool


def _held(asked: _Asked, shown: str) -> tuple[Night, Path]:
    """The night, made while nobody else makes one of this configuration, and its folder."""
    from npulens.app.nightly.work import Work

    config, home = asked.config, place.home(asked.store, asked.config.night.name)
    day = configs.day(asked.night) if asked.night else None
    with lock.held(home, (day or datetime.now().date()).isoformat(), f"{datetime.now():%Y-%m-%d %H:%M:%S}"):
        if not asked.alone:
            place.claim(home, asked.path)
        which = dating.which(home, day, asked.again or asked.alone)
        if which.state == "finished":
            _before(home / which.label, which.label, asked.as_json)
        if wrong := readiness.before(config, asked.path.parent, asked.tells):
            sentences = [night_text.said(each, "en") for check in wrong for each in (check.what, check.wrong) if each]
            raise IngestError("nightly", Message("night_not_ready", {"why": "; ".join(sentences)}), str(asked.path))
        facts = dating.begin(home / which.label, which, len(steps.planned(config, which.label)))
        tell = _quiet if asked.as_json else _progress
        work = Work(config, asked.path, asked.store, home, which, facts, tell, not asked.alone)
        return _finished(work, shown, asked.redact or config.night.redact), work.folder


def _not_begun(asked: _Asked, error: IngestError) -> None:
    """Tells those whom the configuration names: nobody reads the error output of a timer."""
    if asked.tells:
        notify.failed(asked.config.notify, f"npulens nightly: {asked.config.night.name}", str(error))


def _checked(config: Config, base: Path, store: Path, lang: str) -> int:
    """Says of everything a night needs whether it is there; the exit status."""
    wrong = 0
    for each in readiness.checks(config, base, store):
        wrong += each.wrong is not None
        word = say(lang, "nightly.check_wrong" if each.wrong else "nightly.check_good")
        why = f": {night_text.said(each.wrong, lang)}" if each.wrong else ""
        click.echo(f"{word:6} {night_text.said(each.what, lang)}{why}")
    click.echo(say(lang, "nightly.check_some", {"n": wrong}) if wrong else say(lang, "nightly.check_none"))
    return 2 if wrong else 0


def _chosen(config: Config, only: str | None, base: tuple[str, ...], head: tuple[str, ...]) -> Config:
    """The configuration, or one task of it with other sides."""
    if only is None:
        if base or head:
            raise click.UsageError("--base and --head go with --only TASK")
        return config
    return configs.alone(config, only, base, head)


def _finished(work: Work, lang: str, redact: bool) -> Night:
    """The night with its reports written; a folder that takes none costs the reports there, and not the answer."""
    from npulens.app.nightly.work import done, remember

    night = done(work)
    night = leave.redacted(night) if redact else night
    out = work.path.parent / work.config.night.out if work.config.night.out else None
    try:
        click.echo(str(leave.write(night, work.folder, out, lang)), err=True)
    except OSError as error:
        lost = nights.Said("lost_report", {"reason": error.strerror or str(error)})
        night = replace(night, notices=(*night.notices, lost))
        if place.is_full(error):
            return night
        leave.write(night, work.folder, None, lang)
    remember(work, night)
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
    found = events(night)
    if found:
        heads = [say(lang, f"nightly.col_{name}") for name in ("verdict", "event", "metrics", "change", "since")]
        yield table(heads, [list(night_text.event_cells(event, lang)) for event in found], left=2)
    for event in found:
        yield click.style(night_text.event_named(event, lang), bold=True)
        for sentence in (*night_text.event_lines(event, lang), *night_text.event_why(event, lang)):
            yield f"  {sentence}"
        for words, command in night_text.event_commands(event, lang):
            yield f"  {words} {command}"
    yield from night_text.failures(night, lang)
    yield from night_text.notices(night, lang)


def _quiet(step: Step, number: int, of: int) -> None:
    """With --json nothing but the answer is said."""


def _progress(step: Step, number: int, of: int) -> None:
    click.echo(f"{datetime.now():%H:%M:%S} {number + 1}/{of} {step.name}", err=True)
