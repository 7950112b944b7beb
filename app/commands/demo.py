"""The bundled samples, on the screen."""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path

import click

from npulens import ingest
from npulens.app.commands.serve import serve
from npulens.app.console import store_option
from npulens.ingest.loading.load_process import ahead


@click.command("demo", context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
@click.option("--load-only", is_flag=True, help="Load the samples and stop.")
@store_option
def command(options: tuple[str, ...], load_only: bool, store: Path) -> None:
    """Load the bundled samples and open the dashboard. OPTIONS go to streamlit as they are."""
    ahead()  # once for all the samples
    with as_file(files("npulens.sample_traces")) as samples:
        for sample in sorted(path for path in Path(samples).iterdir() if (path / "manifest.json").is_file()):
            report = ingest.load(sample, store, label=sample.name)
            for run in report.runs:
                click.echo(
                    f"{run.label}: {run.run_id} ({run.stored}, {run.status})"
                    if run.run_id
                    else f"refused: {run.reason}"
                )
    if not load_only:
        serve(store, options)
