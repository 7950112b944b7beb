"""Let somebody without an account bring a capture: a token for curl, a link for a browser."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from npulens.app.console import json_option, print_json, store_option
from npulens.app.intake import drop_folders, invitations, signed_tokens
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message


@click.command("token")
@click.option("--bytes", "size", type=click.IntRange(1), default=5 * 10**9, show_default=True, help="Bytes in all.")
@click.option("--files", type=click.IntRange(1), default=1, show_default=True, help="Files; curl sends one a capture.")
@click.option("--hours", type=float, default=24.0, show_default=True, help="How long it is valid.")
@click.option("--url", default="http://127.0.0.1:8501", show_default=True, help="Where the dashboard is reached.")
@click.option("--revoke", is_flag=True, help="End every token and link of this store instead.")
@store_option
@json_option
def command(size: int, files: int, hours: float, url: str, revoke: bool, store: Path, as_json: bool) -> None:
    """Print the curl command that sends a capture to the dashboard over this store, and a link that does the same.

    The dashboard loads what arrives and answers with the run and its address. Any server over the same
    store takes the token; it ends with its hours, its files or its bytes.
    """
    if revoke:
        signed_tokens.revoke(store)
        print_json({"revoked": True}) if as_json else click.echo("every token of this store has ended")
        return
    try:
        token, given = invitations.mint(store, files, files, min(size, drop_folders.MAX_BYTES), hours)
    except signed_tokens.Refused as refused:
        limits = f"{drop_folders.MAX_FILES:,} files, {drop_folders.MAX_BYTES:,} bytes and {invitations.MAX_HOURS} hours"
        raise IngestError("bad_ticket", Message("more_than_a_token_may_allow", {"limits": limits})) from refused
    if as_json:
        said = {"token": token, "curl": invitations.curl(url, token), "link": invitations.link(url, token)}
        print_json(said | asdict(given))
        return
    click.echo(invitations.curl(url, token))
    click.echo(f"or in a browser: {invitations.link(url, token)}", err=True)
