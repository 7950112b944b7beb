"""What costs time, what a fix gives back, and what the capture cannot say."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import click

from npulens.analysis.engine import Check
from npulens.analysis.finding import Finding
from npulens.analysis.serving.slo import Slo
from npulens.analysis.settings import FILE
from npulens.app import run_check
from npulens.app.commands._capture import run_of
from npulens.app.console import filled, json_option, lang_option, print_json, slo_option, store_option
from npulens.app.settings.of_checks import in_force
from npulens.app.text import recording, wording
from npulens.app.text.i18n import say
from npulens.ingest.store import runs as stores

_COLOURS = {"high": "red", "medium": "yellow", "low": None}
#: More detectors than this of which the very same is said are named together.
_MANY_ALIKE = 3
#: The widest line of text that reads well; a terminal may be narrower.
_WIDEST = 110


@click.command("check")
@click.argument("run")
@click.option("--only", multiple=True, metavar="D", help="Run this detector only; may be given again.")
@click.option(
    "--fail-on", type=click.FloatRange(0, 1), metavar="SHARE",
    help="Exit with 1 if a finding would give back this share of the step or more, e.g. 0.05. Default: never.",
)  # fmt: skip
@click.option(
    "--config", type=click.Path(path_type=Path, dir_okay=False),
    help=f"Limits, detectors to leave out, your own detectors.  [default: {FILE} here, if there is one]",
)  # fmt: skip
@slo_option
@click.option("--collect", is_flag=True, help="Print only a profiler configuration that fills this capture's holes.")
@store_option
@json_option
@lang_option
def command(
    run: str, only: tuple[str, ...], fail_on: float | None, config: Path | None, slo: Slo | None, collect: bool,
    store: Path, as_json: bool, lang: str,
) -> None:  # fmt: skip
    """Say where RUN loses time, what each fix gives back at most, and what could not be measured.

    RUN is a run id, a unique beginning of one, a label, or the path of a capture, which is loaded first. Exits with
    1 if a finding reaches --fail-on, with 2 on an error.
    """
    settings = in_force(config)
    settings = settings if slo is None else replace(settings, slo=slo)
    run_check.ready(settings, only or None)
    found = run_of(store, run, lang)
    check = run_check.judge(store, found, only or None, settings)
    notices = list(recording.noticed(stores.manifest(store, found), lang))
    if as_json:
        print_json({**wording.as_dict(check, lang), "recording": notices})
    elif collect:
        click.echo(check.quality.collect.code(lang))
    else:
        for line in lines(check, lang, run, notices):
            click.echo(line)
    if fail_on is not None and any(finding.saving_share >= fail_on for finding in check.findings):
        sys.exit(1)


def lines(check: Check, lang: str, name: str, notices: Sequence[str] = ()) -> Iterator[str]:
    """The check for people: the answer, how good the capture is, the findings, everything else.

    ``notices`` are what was noticed while it was recorded.
    """
    for line in _text(wording.answer(check, lang), 0):
        yield click.style(line, bold=True)
    beside = (*wording.kernels(check, lang), wording.quality(check, lang), *wording.of_a_part(check, lang))
    for line in (*wording.serving(check, lang), *beside):
        yield from _text(line, 0)
    for place, finding in enumerate(check.findings, 1):
        yield ""
        yield from _finding(place, finding, lang)
    if said := wording.together(check, lang):
        yield ""
        yield from _text(said, 0)
    yield ""
    yield wording.outcomes(check, lang)
    for outcome in ("masked", "clean", "not_measured", "failed"):
        yield from _outcomes(check, outcome, lang)
    if unseen := wording.not_looked_for(check, lang):
        yield ""
        yield from _text(unseen, 0)
    if notices:
        yield ""
        yield say(lang, "recorded.notices")
        for notice in notices:
            yield from _text("- " + notice, 2)
    if doubts := [doubt for doubt in check.quality.doubts if not wording.is_beside(doubt)]:
        yield ""
        yield say(lang, "findings.doubts")
        for doubt in doubts:
            yield from _text("- " + wording.plain(wording.of(lang, doubt.text)), 2)
    yield ""
    yield from _text(wording.collect(check, lang), 0)
    yield f"  npulens check {name} --collect"


def _finding(place: int, finding: Finding, lang: str) -> Iterator[str]:
    words = finding.words[lang]
    head = f"{place}. {wording.saved(finding, lang)}  {wording.share(finding.saving_share)}"
    severity = click.style(say(lang, f"findings.severity_{finding.severity}"), fg=_COLOURS[finding.severity])
    sure = say(lang, "findings.confidence", {"value": say(lang, f"findings.confidence_{finding.confidence}")})
    yield f"{click.style(head, bold=True)}  {severity}  {finding.detector}  {sure}"
    yield from _text(wording.plain(words.title), 3)
    yield from _text(say(lang, "findings.advice_is", {"advice": wording.plain(words.advice)}), 3)
    if between := wording.interval(finding, lang):
        yield from _text(between, 3)
    if finding.evidence:
        yield from _text(wording.first_moment(finding, lang), 3)


def _outcomes(check: Check, outcome: str, lang: str) -> Iterator[str]:
    ended = [found for found in check.outcomes if found.outcome == outcome]
    if not ended:
        return
    yield ""
    yield say(lang, "findings.broken" if outcome == "failed" else f"findings.{outcome}")
    alike: dict[str, list[str]] = {}
    for found in ended:
        text = wording.unmeasured(found, lang) if outcome == "not_measured" else wording.reason(found, lang)
        alike.setdefault(text, []).append(found.detector)
    width = max((len(name) for names in alike.values() if len(names) <= _MANY_ALIKE for name in names), default=0)
    for text, names in alike.items():
        if len(names) > _MANY_ALIKE:
            yield from _text(", ".join(names), 2)
            yield from _text(text, 4)
            continue
        first, *rest = _text(text, 2 + width + 2)
        for name in names:
            yield f"  {name:<{width}}  {first.lstrip()}"
            yield from rest


def _text(text: str, indent: int) -> list[str]:
    """A text broken to the width of the terminal; a pipe gets it in one line, unless COLUMNS says otherwise."""
    known = sys.stdout.isatty() or "COLUMNS" in os.environ
    width = min(_WIDEST, shutil.get_terminal_size().columns) if known else 10**6
    return filled(text, width, " " * indent)
