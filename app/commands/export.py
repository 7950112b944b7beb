"""Take a run elsewhere."""

from __future__ import annotations

from pathlib import Path

import click

from npulens.analysis.views import statements
from npulens.app.console import json_option, print_json, redact_option, store_option
from npulens.ingest.store import runs as stores
from npulens.ingest.store.export import export
from npulens.ingest.store.redact_run import outgoing


@click.command("export")
@click.argument("run")
@click.option(
    "--to",
    "target",
    required=True,
    type=click.Path(path_type=Path),
    help="FILE.duckdb, FILE.parquet, FILE.csv, or a directory.",
)
@click.option("--table", default="span", show_default=True, help="The table that a .parquet or .csv file gets.")
@click.option(
    "--as",
    "kind",
    type=click.Choice(["parquet", "csv"]),
    default="parquet",
    show_default=True,
    help="What a directory gets, one file a table.",
)
@redact_option
@store_option
@json_option
def command(run: str, target: Path, table: str, kind: str, redact: bool, store: Path, as_json: bool) -> None:
    """Export RUN: every table and view as a DuckDB file, every table as a directory, or one table as a file."""
    found = stores.resolve(store, run)
    with outgoing(store, [found], redact) as source:
        written = export(source, found.run_id, target, table, kind, statements())
    if as_json:
        print_json({"run_id": found.run_id, "files": [str(path) for path in written]})
    else:
        click.echo("\n".join(str(path) for path in written))
