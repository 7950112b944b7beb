"""What the laboratory left comes into the store: its result, or original and rewrite as two recordings."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from npulens import ingest
from npulens.analysis.look.laboratory import recorded_as
from npulens.app.commands import load
from npulens.app.console import print_json
from npulens.app.run_collectors import ask
from npulens.app.text.i18n import say
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message

RESULT = "result.json"


def loaded(answer: dict[str, Any], store: Path, lang: str, as_json: bool) -> dict[str, Any]:
    """The answer of the trials, with the run that their result became."""
    subject = Path(answer["subject"])
    report = ingest.load(subject / RESULT, store, label=subject.name)
    kept = next((run for run in report.runs if run.run_id is not None), None)
    if as_json:
        return {**answer, "runs": [run.as_dict() for run in report.runs]}
    if kept is None:
        load.show(report, err=True)
    else:
        click.echo(say(lang, "laboratory.loaded", {"run": kept.run_id, "store": store}), err=True)
    return answer


def record(
    place: Path, rewrite: str, own: Sequence[Path], options: Sequence[str], output: Path | None, store: Path,
    as_json: bool, lang: str,
) -> None:  # fmt: skip
    """Records a subject's program and one rewrite of it, and loads both with the labels the page looks for."""
    home = (output or Path(f"recorded-{rewrite}-{time.strftime('%Y%m%d-%H%M%S')}")).absolute()
    words = [word for path in own for word in ("--own", str(path.absolute()))]
    answer = ask(["lab-record", str(place.absolute()), "--rewrite", rewrite, "-o", str(home), *words, *options])
    reports = []
    for side in answer["sides"]:
        if side["status"] == "failed":
            raise IngestError("failed", Message("lab_side_not_recorded", {"side": side["side"], "why": side["reason"]}))
        reports.append(ingest.load(side["place"], store, label=recorded_as(answer["subject"], side["side"])))
    runs = [run for report in reports for run in report.runs]
    if as_json:
        print_json({**answer, "runs": [run.as_dict() for run in runs]})
        return
    for report in reports:
        load.show(report)
    known = [run.run_id for run in runs if run.run_id]
    if len(known) == len(reports) == 2:
        click.echo("\n" + say(lang, "laboratory.compare_with", {"base": known[0], "head": known[1]}))
