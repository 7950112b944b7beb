"""Take a run elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from npulens.analysis.split import breakdown
from npulens.analysis.views import statements
from npulens.app import run_check
from npulens.app.console import json_option, print_json, redact_option, store_option
from npulens.app.nightly import journal
from npulens.app.settings.of_checks import in_force
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message
from npulens.ingest.store import runs as stores
from npulens.ingest.store.export import export
from npulens.ingest.store.redact_run import outgoing

if TYPE_CHECKING:
    from npulens.app.otlp.spans import Span


@click.command("export")
@click.argument("run")
@click.option(
    "--to",
    "target",
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
@click.option(
    "--otlp",
    metavar="FILE|URL",
    help="Spans of OpenTelemetry instead: into FILE.pb, or to a receiver (OTLP over HTTP).",
)
@redact_option
@store_option
@json_option
def command(
    run: str, target: Path | None, table: str, kind: str, otlp: str | None, redact: bool, store: Path, as_json: bool
) -> None:
    """Export RUN: every table and view as a DuckDB file, every table as a directory, or one table as a file.

    With --otlp the run, its ranks, steps and findings become spans. RUN may then be the folder of a night.
    """
    if (target is None) == (otlp is None):
        raise click.UsageError("where to? Either --to or --otlp")
    if otlp is not None:
        _spans(run, otlp, redact, store, as_json)
        return
    assert target is not None
    found = stores.resolve(store, run)
    with outgoing(store, [found], redact) as source:
        written = export(source, found.run_id, target, table, kind, statements())
    if as_json:
        print_json({"run_id": found.run_id, "files": [str(path) for path in written]})
    else:
        click.echo("\n".join(str(path) for path in written))


def _spans(run: str, to: str, redact: bool, store: Path, as_json: bool) -> None:
    """Where a folder of a night has the name, it is meant: it has a slash, and a label has none."""
    from npulens.app.otlp import spans

    try:
        from npulens.app.otlp import send
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] not in ("opentelemetry", "google"):
            raise
        raise IngestError("needs_extra", Message("this_needs_the_extra", {"extra": "otel"})) from error
    said: dict[str, str] = {}
    with ExitStack() as held:
        if "/" in run or Path(run, journal.NAME).is_file():
            made = spans.of_night(Path(run).resolve())
        else:
            found = stores.resolve(store, run)
            source = held.enter_context(outgoing(store, [found], redact))
            said["run_id"] = stores.runs(source)[0].run_id if redact else found.run_id
            made = _of_run(source, said["run_id"])
        url = to.startswith(("http://", "https://"))
        count = send.send(made, to) if url else send.write(made, Path(to))
    if as_json:
        print_json({**said, "to": to, "spans": count})
    else:
        click.echo(f"{count:,} spans: {to}")


def _of_run(store: Path, run_id: str) -> Iterator[Span]:
    from npulens.app.otlp import spans

    info = stores.resolve(store, run_id)
    con = stores.open_run(store, run_id)
    try:
        rows = breakdown(con)
    finally:
        con.close()
    yield from spans.of_run(info, list(rows), run_check.judge(store, run_id, None, in_force(None)))
