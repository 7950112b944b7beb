"""Proof that a device did what is said of it: made by its owner, checked by anybody."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from npulens.analysis.proof.verdict import BELIEVED, NOT_BELIEVED, NOT_THERE, Verdict
from npulens.app.console import json_option, lang_option, print_json
from npulens.app.evidence.made import made
from npulens.app.evidence.verify import Answer, verify
from npulens.app.text.i18n import say

_COLOURS = {BELIEVED: "green", NOT_BELIEVED: "red", NOT_THERE: "blue"}
_python = click.option(
    "--python", type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The Python that has torch, if it is another one.  [the one of npulens]",
)  # fmt: skip


@click.group("evidence")
def command() -> None:
    """Show that a device does what is said of it, in one archive, and check such an archive."""


@command.command("run")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, file_okay=False), default=Path(),
    help="Where the archive goes.  [here]",
)  # fmt: skip
@click.option("--backend", type=click.Choice(["npu", "cuda", "cpu"]), help="Run on this.  [the first there is]")
@click.option("--minutes", type=float, default=15.0, show_default=True, help="What does not fit is told as such.")
@click.option("--ranks", type=int, default=2, show_default=True, help="Processes of the all-reduce, one a device.")
@click.option("--challenge", metavar="WORD", help="Decides seeds, sleeps and sizes.  [drawn by chance]")
@click.option("--part", "parts", multiple=True, metavar="PART", help="Only this part, and others named so.")
@click.option(
    "--redact/--no-redact", default=True, show_default=True,
    help="Replace host names, user names, paths, addresses and secrets.",
)  # fmt: skip
@_python
@json_option
@lang_option
def run(
    output: Path, backend: str | None, minutes: float, ranks: int, challenge: str | None, parts: tuple[str, ...],
    redact: bool, python: Path | None, as_json: bool, lang: str,
) -> None:  # fmt: skip
    """Run, record and plant faults on this device for some minutes, and put it all into one archive.

    A part that fails or does not exist here is told with its reason, and the rest goes on. Exits with 0 if there is an
    archive, with 2 on an error.
    """
    arguments = ["--minutes", str(minutes), "--ranks", str(ranks)]
    arguments += ["--backend", backend] if backend else []
    arguments += [f"--challenge={challenge}"] if challenge is not None else []
    for part in parts:
        arguments += ["--part", part]
    told = made(output, arguments, python, redact)
    if as_json:
        print_json(told)
        return
    for part in told["parts"]:
        values = {"part": part["part"], "reason": part["reason"] or "–", "seconds": f"{part['seconds']:.0f}"}
        click.echo(say(lang, f"evidence.part_{part['outcome'].replace(' ', '_')}", values))
        for left_out in part.get("left_out") or ():
            click.echo(f"  - {left_out}")
    size = f"{told['bytes'] / 1e6:.1f}"
    click.echo(say(lang, "evidence.made", {"path": told["archive"], "mb": size, "word": told["challenge"]}))


@command.command("verify")
@click.argument("archive", type=click.Path(path_type=Path))
@click.option("--challenge", metavar="WORD", help="The word that was asked for.")
@_python
@json_option
@lang_option
def verify_command(archive: Path, challenge: str | None, python: Path | None, as_json: bool, lang: str) -> None:
    """Compute everything again from the raw files of ARCHIVE, and say what of it can be believed.

    Exits with 0 if it passes, with 1 if something is not believed, with 2 if it is no such archive.
    """
    answer = verify(archive, challenge, python)
    if as_json:
        print_json(answer.as_dict())
    else:
        for line in lines(answer, lang):
            click.echo(line)
    sys.exit(0 if answer.passes else 1)


def lines(answer: Answer, lang: str) -> Iterator[str]:
    """A line a check, and the sum."""
    names = {outcome: say(lang, f"evidence.{outcome}") for outcome in _COLOURS}
    widest = max(map(_width, names.values()))
    for each in answer.verdicts:
        name = names[each.outcome]
        padded = name + " " * (widest - _width(name))
        lead = click.style(padded, fg=_COLOURS[each.outcome], bold=each.outcome == NOT_BELIEVED)
        about = f"{each.about}: " if each.about else ""
        yield f"{lead}  {about}{sentence(each, lang)}"
    yield ""
    counts = {outcome: sum(each.outcome == outcome for each in answer.verdicts) for outcome in _COLOURS}
    told: dict[str, Any] = {"backend": answer.backend, "device": answer.device or "–", **counts}
    yield click.style(say(lang, "evidence.passes" if answer.passes else "evidence.fails", told), bold=True)


def _width(text: str) -> int:
    """Columns of a terminal: a Chinese character takes two."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def sentence(verdict: Verdict, lang: str) -> str:
    """What a check saw, in words."""
    seen = {name: "–" if value is None else value for name, value in verdict.seen.items()}
    return say(lang, f"evidence.{verdict.said}", seen)
