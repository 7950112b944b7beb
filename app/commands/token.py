"""Let somebody without an account bring a capture, or give somebody of a team a token: for curl, for a browser."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import click

from npulens.app.console import json_option, print_json, store_option, table
from npulens.app.intake import drop_folders, invitations, signed_tokens
from npulens.app.team import config, tokens, who
from npulens.app.team.config import Role, Team
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message
from npulens.ingest.store import book
from npulens.ingest.store.book import Token


@click.command("token")
@click.option("--bytes", "size", type=click.IntRange(1), default=5 * 10**9, show_default=True, help="Bytes in all.")
@click.option("--files", type=click.IntRange(1), default=1, show_default=True, help="Files; curl sends one a capture.")
@click.option("--hours", type=float, default=24.0, show_default=True, help="How long it is valid.")
@click.option("--url", default="http://127.0.0.1:8501", show_default=True, help="Where the dashboard is reached.")
@click.option("--revoke", is_flag=True, help="End every token and link of this store instead.")
@click.option(
    "--team", type=click.Path(path_type=Path, dir_okay=False),
    help="The file of `serve --config`; the token is then of one of its projects.",
)  # fmt: skip
@click.option("--project", help="With --team: which of its projects.")
@click.option("--for", "name", help="With --team: a token of this person's own, instead of one for somebody else.")
@click.option(
    "--role", type=click.Choice([role.name.lower() for role in Role]), default="reader", show_default=True,
    help="With --for: what it may do at most.",
)  # fmt: skip
@click.option("--list", "listed", is_flag=True, help="With --team: the tokens that work.")
@click.option("--end", metavar="ID", help="With --team: end one token of somebody's own.")
@store_option
@json_option
def command(
    size: int, files: int, hours: float, url: str, revoke: bool, team: Path | None, project: str | None,
    name: str | None, role: str, listed: bool, end: str | None, store: Path, as_json: bool,
) -> None:  # fmt: skip
    """Print the curl command that sends a capture to the dashboard over this store, and a link that does the same.

    The dashboard loads what arrives and answers with the run and its address. Any server over the same
    store takes the token; it ends with its hours, its files or its bytes.
    """
    found = config.read(team) if team is not None else None
    if found is not None and (listed or end is not None):
        _ended(found, end, as_json) if end is not None else _listed(found, project, as_json)
        return
    if found is not None:
        store, url = _project(found, project).store, found.url
        if name is not None:
            _own(found, str(project), name, Role[role.upper()], hours, as_json)
            return
    if revoke:
        signed_tokens.revoke(store)
        print_json({"revoked": True}) if as_json else click.echo("every token of this store has ended")
        return
    try:
        token, given = invitations.mint(store, files, files, min(size, drop_folders.MAX_BYTES), hours)
    except signed_tokens.Refused as refused:
        limits = f"{drop_folders.MAX_FILES:,} files, {drop_folders.MAX_BYTES:,} bytes and {invitations.MAX_HOURS} hours"
        raise IngestError("bad_ticket", Message("more_than_a_token_may_allow", {"limits": limits})) from refused
    token = who.marked(str(project), token) if found is not None else token
    if as_json:
        said = {"token": token, "curl": invitations.curl(url, token), "link": invitations.link(url, token)}
        print_json(said | asdict(given))
        return
    click.echo(invitations.curl(url, token))
    click.echo(f"or in a browser: {invitations.link(url, token)}", err=True)


def _project(team: Team, name: str | None) -> config.Project:
    found = team.projects.get(name or "")
    if found is None:
        known = ", ".join(team.projects)
        raise IngestError("team", Message("team_has_no_project", {"name": f"{name or ''!r}", "known": known}))
    return found


def _own(team: Team, project: str, name: str, role: Role, hours: float, as_json: bool) -> None:
    text, made = tokens.mint(team, name, project, role, "npulens token", hours / 24)
    print_json({"token": text, "id": made.id, "until": made.until}) if as_json else click.echo(text)


def _ended(team: Team, ident: str, as_json: bool) -> None:
    if not book.revoke(team.home, ident):
        raise IngestError("team", Message("team_has_no_token", {"name": f"{ident!r}"}))
    print_json({"revoked": ident}) if as_json else click.echo(f"{ident} has ended")


def _listed(team: Team, project: str | None, as_json: bool) -> None:
    working = [token for token in book.tokens(team.home, project=project) if token.works]
    if as_json:
        print_json([{key: value for key, value in asdict(token).items() if key != "hash"} for token in working])
    elif working:
        click.echo(table(["id", "name", "project", "role", "until", "used", "for"], list(_rows(working)), 7))


def _rows(working: list[Token]) -> Iterator[list[str]]:
    for token in working:
        used = "never" if token.used is None else _when(token.used)
        role = Role(token.role).name.lower()
        yield [token.id, token.name, token.project, role, _when(token.until), used, token.title]


def _when(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M}"
