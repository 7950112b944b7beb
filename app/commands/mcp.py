"""Agents ask what people see."""

from __future__ import annotations

import os
from pathlib import Path

import click

from npulens.app import run_check
from npulens.app.console import store_option
from npulens.app.settings.of_checks import in_force
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message
from npulens.ingest.store import runs as stores


@click.command("mcp")
@click.option("--http", "port", type=click.IntRange(0, 65535), help="Answer on this port of 127.0.0.1 instead.")
@click.option("--dashboard", help="Where links in answers lead.  [default: the team's url, else http://127.0.0.1:8501]")
@click.option(
    "--config", type=click.Path(path_type=Path, dir_okay=False),
    help="Limits and detectors, as for `check`.  [default: npulens.toml here, if there is one]",
)  # fmt: skip
@click.option(
    "--team", type=click.Path(path_type=Path, dir_okay=False), envvar="NPULENS_TEAM",
    help="With --http: the file of `serve --config`. Its people's own tokens then open the stores of their projects.",
)  # fmt: skip
@click.option("--skill", is_flag=True, help="Print the skill file for an agent's folder of skills instead.")
@click.option("--token", "name", metavar="NAME", help="Print a bearer token for --http instead; NAME says whose.")
@click.option("--run", "runs", multiple=True, metavar="RUN", help="With --token: only this run; may be given again.")
@click.option("--hours", type=float, default=24.0, show_default=True, help="With --token: how long it is valid.")
@store_option
def command(
    port: int | None, dashboard: str | None, config: Path | None, team: Path | None, skill: bool, name: str | None,
    runs: tuple[str, ...], hours: float, store: Path,
) -> None:  # fmt: skip
    """Answer agents over stdin and stdout by the Model Context Protocol (MCP), or with --http over HTTP.

    Seven tools read the store: runs, check, why, evidence, compare, sql and next_capture. Over HTTP every question
    needs a token: of this store, all of which `npulens token --revoke` ends, or of a team.
    """
    from npulens.app.agents import sdk, who
    from npulens.app.agents import skill as skills

    if skill:
        click.echo(skills.whole(), nl=False)
        return
    if name is not None:
        if not 0 < hours <= who.MAX_HOURS:
            raise IngestError("bad_token", Message("token_may_last_hours", {"hours": who.MAX_HOURS}))
        seen = tuple(stores.resolve(store, run).run_id for run in runs)
        click.echo(who.mint(store, who.Who(name, seen or None), hours))
        return
    server = sdk.server()
    import anyio

    from npulens.app.agents.answers import Answers
    from npulens.app.agents.door import Door
    from npulens.app.team import config as teams

    settings = in_force(config)
    run_check.ready(settings)
    links = dashboard or (team and teams.read(team).url) or "http://127.0.0.1:8501"
    if team is not None:
        os.environ[teams.VARIABLE] = str(team.absolute())
    if port is None:
        anyio.run(server.over_stdio, Answers(store, settings, links))
    else:
        _serve(
            server.over_http(Door(store, settings, links, teams.current if team else None), f"http://127.0.0.1:{port}"),
            port,
        )


def _serve(app: object, port: int) -> None:
    """Loopback only: a proxy in front brings TLS and other machines."""
    import uvicorn

    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")  # type: ignore[arg-type]
