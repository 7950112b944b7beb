"""A check as a file to hand on."""

from __future__ import annotations

import importlib
from pathlib import Path

import click

from npulens.app.console import json_option, print_json, redact_option, store_option
from npulens.app.settings.of_checks import in_force
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message
from npulens.ingest.store import runs as stores
from npulens.ingest.store.redact_run import outgoing

WRITERS = {".html": "as_html", ".htm": "as_html", ".md": "as_markdown", ".json": "as_json", ".xml": "as_junit"}
LANGS = {"en": ("en",), "zh": ("zh",), "both": ("en", "zh")}


@click.command("report")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "-o", "--output", "target", required=True, type=click.Path(path_type=Path, dir_okay=False),
    help="FILE.html (self-contained), FILE.md, FILE.json or FILE.xml (JUnit).",
)  # fmt: skip
@click.option(
    "--lang", type=click.Choice(list(LANGS)), help="Language of the text.  [default: both in HTML, en elsewhere]"
)
@click.option(
    "--config", type=click.Path(path_type=Path, dir_okay=False),
    help="Limits, detectors to leave out, your own detectors.  [default: npulens.toml here, if there is one]",
)  # fmt: skip
@redact_option
@store_option
@json_option
def command(
    runs: tuple[str, ...], target: Path, lang: str | None, config: Path | None, redact: bool, store: Path, as_json: bool
) -> None:
    """Write what `check` says of each RUN into a file, with charts, evidence, thresholds and definitions."""
    writer = WRITERS.get(target.suffix.lower())
    if writer is None:
        raise IngestError(
            "report",
            Message("file_must_end_in", {"known": ", ".join(WRITERS), "suffix": repr(target.suffix)}),
            str(target),
        )
    from npulens.app.report.subject import subject

    settings = in_force(config)
    found = [stores.resolve(store, run) for run in runs]
    with outgoing(store, found, redact) as source:
        subjects = [subject(source, run.run_id, settings) for run in found]
    langs = LANGS[lang or ("both" if writer == "as_html" else "en")]
    text = importlib.import_module(f"npulens.app.report.{writer}").write(subjects, langs)
    try:
        target.write_text(text, "utf-8")
    except OSError as error:
        raise IngestError(
            "report", Message("cannot_write_the_report", {"error": error.strerror}), str(target)
        ) from error
    if as_json:
        print_json({"files": [str(target)], "runs": [one.check.run_id for one in subjects]})
    else:
        click.echo(str(target))
