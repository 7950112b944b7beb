"""Whether this machine can run, record and measure, and what to do where it cannot."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from app.collecting import ask
from app.console import json_option, lang_option, print_json
from app.i18n import say

STATUSES = ("FAIL", "WARN", "PASS", "SKIP")
_COLOURS = {"PASS": "green", "WARN": "yellow", "FAIL": "red"}


@click.command("doctor")
@click.option(
    "--python", type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The Python that runs your jobs, if it is another one.  [the one of npulens]",
)  # fmt: skip
@json_option
@lang_option
def command(python: Path | None, as_json: bool, lang: str) -> None:
    """Look at torch, torch_npu, CANN, drivers, devices, clocks and settings, and say what to do.

    Exits with 0 if this machine is usable, with 1 if something has to be mended, with 2 on an error.
    """
    answer = ask(["doctor"], python=python)
    if as_json:
        print_json(answer)
    else:
        for line in lines(answer, lang):
            click.echo(line)
    sys.exit(0 if answer["status"] == "usable" else 1)


def lines(answer: Mapping[str, Any], lang: str) -> Iterator[str]:
    """The visit for people: every check that had something to look at, its commands, and the sum."""
    checks = answer["checks"]
    width = max(len(check["name"]) for check in checks)
    for check in checks:
        if check["status"] != "SKIP":
            status = click.style(check["status"], fg=_COLOURS[check["status"]], bold=True)
            yield f"{status}  {check['name']:<{width}}  {sentence(check, lang)}"
            for todo in check["do"]:
                yield f"{'':<{width + 8}}$ {todo}"
    skipped = [check["name"] for check in checks if check["status"] == "SKIP"]
    yield ""
    if skipped:
        yield say(lang, "doctor.skipped", {"names": ", ".join(skipped)})
    yield say(lang, "doctor.dated", answer["compatibility"])
    counts = Counter(check["status"] for check in checks)
    yield click.style(say(lang, f"doctor.{answer['status']}", {name: counts[name] for name in STATUSES}), bold=True)


def sentence(check: Mapping[str, Any], lang: str) -> str:
    """What one check saw, in words."""
    seen = {name: _text(value) for name, value in check["seen"].items()}
    key = f"doctor.{check['name']}_{check['said']}"
    if key == "doctor.backend_uses" and check["seen"]["reasons"]:
        key = "doctor.backend_uses_instead"
    return say(lang, key, seen)


def _text(value: object) -> str:
    if isinstance(value, list):
        return "; ".join(map(str, value))
    return "–" if value is None else str(value)
