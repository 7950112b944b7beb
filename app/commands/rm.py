"""Delete a run."""

from __future__ import annotations

from pathlib import Path

import click

from npulens.app.console import json_option, print_json, store_option
from npulens.ingest.store import runs as stores


@click.command("rm")
@click.argument("run")
@click.option("--undo", is_flag=True, help="Have a deleted run back (for a day after it was deleted).")
@store_option
@json_option
def command(run: str, undo: bool, store: Path, as_json: bool) -> None:
    """Delete RUN, or have it back with --undo."""
    if undo:
        run_id = stores.restore(store, run)
    else:
        run_id = stores.resolve(store, run).run_id
        stores.remove(store, run_id)
    if as_json:
        print_json({"run_id": run_id, "deleted": not undo})
    elif undo:
        click.echo(f"{run_id} is back")
    else:
        click.echo(f"deleted {run_id}; `npulens rm --undo {run_id}` has it back until it is collected, a day from now")
