"""What the store holds."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from npulens.app.console import json_option, milliseconds, print_json, store_option, table
from npulens.app.searching import found
from npulens.app.text.i18n import ranges
from npulens.ingest.store import notes
from npulens.ingest.store import runs as stores
from npulens.ingest.store.notes import About
from npulens.ingest.store.runs import RunInfo


@click.command("runs")
@click.argument("words", nargs=-1)
@click.option("--deleted", is_flag=True, help="The runs that `npulens rm --undo` can have back.")
@store_option
@json_option
def command(words: tuple[str, ...], deleted: bool, store: Path, as_json: bool) -> None:
    """List the runs in the store, newest first; with WORDS those that every word fits.

    A word fits in label, note, tags or format, or at the beginning of the id; tag:night, ranks:8, format:kineto ask
    one field.
    """
    said = notes.about(store)
    held = [each.run for each in stores.deleted(store)] if deleted else stores.runs(store)
    shown = found(held, said, " ".join(words), lambda run: (run.label or "", "+".join(run.formats)))
    if as_json:
        print_json({"runs": [_row(run, said.get(run.run_id, About())) for run in shown]})
        return
    if not held:
        click.echo(
            "No run was deleted in the last day."
            if deleted
            else "The store is empty. `npulens load CAPTURE` takes one in, `npulens demo` the bundled samples."
        )
        return
    rows = [
        [run.run_id, run.label or "", run.status, ranges(run.ranks),
         "?" if run.world_size is None else str(run.world_size), "+".join(run.formats), str(run.steps),
         milliseconds(run.dur_ns), f"{run.events:,}", run.loaded_at, ", ".join(said.get(run.run_id, About()).tags)]
        for run in shown
    ]  # fmt: skip
    heads = ["run", "label", "status", "ranks", "of", "formats", "steps", "length ms", "rows", "loaded", "tags"]
    click.echo(table(heads, rows, left=6))
    for run in shown:
        if run.status == "damaged":
            click.echo(f"{run.run_id} is damaged: {run.reason}")


def _row(run: RunInfo, about: About) -> dict[str, object]:
    return {**asdict(run), "baseline": run.baseline, "note": about.note, "tags": list(about.tags)}
