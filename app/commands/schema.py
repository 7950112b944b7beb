"""The JSON Schema of what commands say."""

from __future__ import annotations

import json

import click

from npulens.app import schemas
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message


@click.command("schema")
@click.argument("name", required=False)
@click.option("--version", type=click.IntRange(1), help="An earlier version.  [default: the newest]")
def command(name: str | None, version: int | None) -> None:
    """Print the JSON Schema of what `npulens NAME --json` prints; without NAME list what there is.

    agents/NAME is that of an answer of `npulens mcp`.
    """
    known = schemas.names()
    if name is None:
        for each, newest in known.items():
            click.echo(f"{each}  v{newest}")
        return
    if name not in known or not 1 <= (version or 1) <= known[name]:
        raise IngestError("unknown_schema", Message("no_schema_is_called", {"name": f"{name!r}"}))
    click.echo(json.dumps(schemas.schema(name, version), indent=2, ensure_ascii=False))
