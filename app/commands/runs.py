"""What the store holds."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from app.console import json_option, milliseconds, print_json, store_option, table
from ingest import store as stores


@click.command("runs")
@store_option
@json_option
def command(store: Path, as_json: bool) -> None:
    """List the runs in the store, newest first."""
    found = stores.runs(store)
    if as_json:
        print_json({"runs": [asdict(run) for run in found]})
        return
    if not found:
        click.echo("The store is empty. `npulens load CAPTURE` takes one in, `npulens demo` the bundled samples.")
        return
    rows = [
        [run.run_id, run.label or "", run.status, ",".join(map(str, run.ranks)),
         "?" if run.world_size is None else str(run.world_size), "+".join(run.formats), str(run.steps),
         milliseconds(run.dur_ns), f"{run.events:,}", run.loaded_at]
        for run in found
    ]  # fmt: skip
    click.echo(
        table(
            ["run", "label", "status", "ranks", "of", "formats", "steps", "length ms", "rows", "loaded"], rows, left=6
        )
    )
