"""Ask the tables and views of a run."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import click

from npulens.analysis.views import views
from npulens.app.console import json_option, print_json, store_option, table
from npulens.ingest.store import runs as stores
from npulens.ingest.store.export import harmless
from npulens.ingest.store.query import ask


@click.command("sql")
@click.argument("run")
@click.argument("query")
@click.option(
    "--csv", "as_csv", is_flag=True, help="Print CSV; cells that a spreadsheet would run get a leading quote."
)
@store_option
@json_option
def command(run: str, query: str, as_csv: bool, store: Path, as_json: bool) -> None:
    """Run one SELECT over the tables of RUN (docs/tables.md says what they hold) and its views (docs/views.md).

    It runs in a process of its own with limits on memory and time and no way to write.
    """
    found = stores.resolve(store, run)
    answer = ask(store, found.run_id, query, [view.sql for view in views()])
    if as_json:
        print_json({"columns": answer.columns, "rows": answer.rows})
    elif as_csv:
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow([harmless(name) for name in answer.columns])
        writer.writerows([harmless(cell) for cell in row] for row in answer.rows)
        click.echo(text.getvalue(), nl=False)
    else:
        rows = [["NULL" if cell is None else str(cell) for cell in row] for row in answer.rows]
        click.echo(table(answer.columns, rows, left=len(answer.columns)))
