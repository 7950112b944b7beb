"""Is a change that is not merged yet slower."""

from __future__ import annotations

import os
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from npulens.app.console import json_option, print_json, store_option, table
from npulens.app.nightly import config as configs
from npulens.app.nightly import night as nights
from npulens.app.nightly import place
from npulens.app.nightly.night import Night
from npulens.app.nightly.steps import Step
from npulens.app.nightly.written import as_junit, leave, night_text
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message

if TYPE_CHECKING:  # it judges, and what judges loads slowly
    from npulens.app.nightly.by_commit.gate import Gate


@click.command("gate")
@click.argument("path", metavar="CONFIG", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--base", required=True, metavar="COMMIT", help="What the change goes into.")
@click.option("--head", required=True, metavar="COMMIT", help="The change.")
@click.option("--comment", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False), help="Markdown to post.")
@click.option("--junit", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False), help="JUnit for CI.")
@click.option("--lang", type=click.Choice(["en", "zh", "both"]), help="Language of the reports.  [the configuration's]")
@store_option
@json_option
def command(
    path: Path, base: str, head: str, comment: Path | None, junit: Path | None, lang: str | None, store: Path,
    as_json: bool,
) -> None:  # fmt: skip
    """Measure every job of CONFIG at two commits, in turns, before the change is merged.

    Base is taken where head left it. Nothing enters the history. Exits with 0 if nothing regressed, 1 if something did,
    2 if a part could not be measured. On GitHub the Markdown is also the summary of the step.
    """
    from npulens.app.nightly.by_commit import gate as gates
    from npulens.app.nightly.written import gate_text

    path = path.absolute()
    config = configs.read(path)
    gate = gates.prepared(config, path, base, head)
    shown = lang or config.night.lang
    with gates.measured(gate, path, store, _quiet if as_json else _progress) as night:
        langs = leave.LANGS[shown]
        markdown = gate_text.write(gate, night, langs)
        try:
            _write(markdown, comment, as_junit.write(night, langs), junit)
        except OSError as error:
            message = Message("cannot_write_the_report", {"error": error.strerror or error})
            raise IngestError("gate", message, error.filename) from error
    if as_json:
        said = nights.as_dict(night) | {"base": gate.base, "head": gate.head, "left_out": gate.left_out}
        print_json(said)
    else:
        _say(gate, night, langs[0])
    sys.exit(night.status)


def _write(markdown: str, comment: Path | None, suites: str, junit: Path | None) -> None:
    for target, text in ((comment, markdown), (junit, suites)):
        if target is not None:
            target.absolute().parent.mkdir(parents=True, exist_ok=True)
            place.write(target, text)
    if summary := os.environ.get(leave.SUMMARY):
        with open(summary, "a", encoding="utf-8") as stream:
            stream.write(markdown)


def _say(gate: Gate, night: Night, lang: str) -> None:
    from npulens.app.nightly.written import gate_text

    title, headline = gate_text.title(gate, night, lang), gate_text.headline(night, lang)
    click.echo(click.style(f"{title}: {headline}", bold=True))
    click.echo(night_text.counts(night, lang))
    rows = gate_text.shown(night)
    if rows:
        click.echo(table(gate_text.heads(lang), [gate_text.cells(row, lang) for row in rows], left=3))
    for row in rows:
        for sentence in () if row.verdict == "same" else night_text.why(row, lang):
            click.echo(f"  {row.task}: {sentence}")
        for line in gate_text.parts(row, lang):
            click.echo(f"    {line}")
    for sentence in gate_text.besides(gate, night, lang):
        click.echo(sentence)


def _quiet(step: Step, number: int, of: int) -> None:
    """With --json nothing but the answer is said."""


def _progress(step: Step, number: int, of: int) -> None:
    click.echo(f"{datetime.now():%H:%M:%S} {number + 1}/{of} {step.name}", err=True)
